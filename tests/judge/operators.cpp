#include "operators.h"

#include "implementations.h"

namespace assay::judge::testing {

const std::vector<Operator>& operators() {
  static const std::vector<Operator> table = {
      row_sum("bf16"),
      row_sum("f32"),
      row_sum("f16"),
      matrix_product("bf16", "bf16"),
      matrix_product("bf16", "f32"),
      matrix_product("f32", "f32"),
      rms_norms(),
      layer_norms(false),
      layer_norms(true),
      softmaxes("bf16"),
      softmaxes("f32"),
      embeddings(),
      silus("bf16"),
      silus("f32"),
      gelus(),
      cross_entropies(),
      attentions(),
      adams(),
      ropes(),
      quantisations(),
      prefix_sums(),
      convolutions(),
      softmaxes("bf16", false),
      softmaxes("f32", false),
      cross_entropies(false),
      attentions(false),
      log_sum_exps(),
      silus("f32", "x[i] / (1 + exp(-x[i]))"),
      silus("bf16", "x[i] * exp(x[i]) / (1 + exp(x[i]))"),
      complex_products(),
      complex_quotients(),
      complex_multiply_adds(),
      double_multiply_adds(),
      tf32_products(),
      tf32_roundings(),
      four_bit_products(),
      six_bit_products(),
      four_bit_integer_products(),
      group_norms(),
      running_products(),
      stochastic_roundings(),
      dropouts(),
  };
  return table;
}

}  // namespace assay::judge::testing
