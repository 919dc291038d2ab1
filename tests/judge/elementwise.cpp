#include <cmath>
#include <cstring>

#include "implementations.h"

namespace assay::judge::testing {

namespace {

// ---- elementwise ----
Implementation map_elements(std::function<float(float)> f, std::function<float(float)> store = {}) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float v = f(x[i]);
      y.store(static_cast<int64_t>(i), store ? store(v) : v);
    }
    return one("y", std::move(y));
  };
}

// Adding half an ulp and cutting off: away from zero where nearest-even has a tie.
float half_up_bf16(float x) {
  if (!std::isfinite(x)) return x;
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x8000u) & 0xffff0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

Operator elementwise(const char* name, const char* dtype, const char* formula,
                     std::function<float(float)> right, std::function<float(float)> otherwise,
                     std::function<float(float)> wrong) {
  Operator op{std::string(name) + " " + dtype,
              std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N"]
[dims]
N = { min = 1, max = 20000 }
[tensors.x]
dtype = ")") + dtype +
                  R"("
shape = ["N"]
values = "activations"
[tensors.y]
dtype = ")" + dtype +
                  R"("
shape = ["N"]
role = "out"
[reference]
formula = "y[i] = )" +
                  formula + "\"\n",
              {}};
  op.variants.push_back({"in float", map_elements(right), {}, {}, {}});
  op.variants.push_back({"rewritten", map_elements(otherwise), {}, {}, {}});
  op.variants.push_back(
      {"coarse", map_elements(wrong), {Kind::PrecisionLoss, Kind::WrongResult}, {}, {{"N", 5000}}});
  if (std::string(dtype) == "bf16") {
    op.variants.push_back(
        {"half up", map_elements(right, half_up_bf16), {}, {}, {}});  // of f32 values, ties are rare
    op.variants.push_back(
        {"truncating", map_elements(right, truncated_bf16), {Kind::BiasedRounding}, {}, {{"N", 5000}}});
  }
  return op;
}

float silu(float x) {
  return x / (1 + std::exp(-x));
}
float silu_by_reciprocal(float x) {
  return x * (1.0f / (1.0f + std::exp2(-1.44269504f * x)));
}
float gelu(float x) {
  return 0.5f * x * (1 + std::erf(x * 0.70710678f));
}
float gelu_by_erfc(float x) {
  return x * (0.5f * std::erfc(-0.70710678f * x));
}
float gelu_tanh(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

}  // namespace

Operator silus(const char* dtype, const char* formula) {
  const bool narrow = std::string(dtype) == "bf16";
  Operator op = elementwise(
      formula ? "silu through exp" : "silu", dtype, formula ? formula : "x[i] * sigmoid(x[i])", silu,
      silu_by_reciprocal,
      narrow ? [](float x) { return silu(bf16(x * 1.01f)); } : [](float x) { return bf16(silu(x)); });
  // e to the power 100 is no float: infinity divided by itself.
  op.variants.push_back({"exponential above",
                         map_elements([](float x) { return x * (std::exp(x) / (std::exp(x) + 1)); }),
                         {Kind::Nonfinite},
                         {{"x", "large-scale"}},
                         {{"N", 5000}}});
  return op;
}

Operator gelus() {
  return elementwise("gelu", "bf16", "0.5 * x[i] * (1 + erf(x[i] / sqrt(2)))", gelu, gelu_by_erfc, gelu_tanh);
}

}  // namespace assay::judge::testing
