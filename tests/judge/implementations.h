// What the implementations of operators.h are made of: formats, and ways to add.
#pragma once

#include "operators.h"

namespace assay::judge::testing {

using Floats = std::vector<float>;

float bf16(float x);
float f16(float x);
float truncated_bf16(float x);

Outputs one(const char* name, Tensor tensor);

using Sum = std::function<float(const Floats&)>;

float sequential(const Floats& x);
float pairwise(const Floats& x);
float warp(const Floats& x);  // 32 lanes with a stride, then a tree
float in_bf16(const Floats& x);
float in_f16(const Floats& x);
float tree_in_bf16(const Floats& x);
float bf16_partials(const Floats& x);  // of eight parts
Sum without_tail(std::size_t n);

const std::vector<std::pair<std::string, Sum>>& sound_sums();

// A contract of a kernel k. Shapes and arguments are names with commas between them.
struct TensorLine {
  std::string name, dtype, shape;
  std::string more;  // role, values
};
std::string contract_of(const std::string& args, const std::string& dims,
                        const std::vector<TensorLine>& tensors, const std::string& formula,
                        const std::string& scalars = "");

// The operators, by subject.
Operator row_sum(const char* dtype);
Operator matrix_product(const char* dtype, const char* stored);
Operator embeddings();
Operator rms_norms();
Operator layer_norms(bool statistics);
// `shifted`: by a maximum that the formula names.
Operator softmaxes(const char* dtype, bool shifted = true);
Operator cross_entropies(bool shifted = true);
Operator attentions(bool shifted = true);
Operator log_sum_exps();
Operator silus(const char* dtype, const char* formula = nullptr);
Operator gelus();
Operator adams();
Operator ropes();
Operator quantisations();
Operator prefix_sums();
Operator convolutions();
Operator complex_products();
Operator complex_quotients();
Operator complex_multiply_adds();
Operator double_multiply_adds();
Operator tf32_products();
Operator tf32_roundings();
Operator four_bit_products();
Operator six_bit_products();
Operator four_bit_integer_products();
Operator group_norms();
Operator running_products();
Operator stochastic_roundings();
Operator dropouts();

}  // namespace assay::judge::testing
