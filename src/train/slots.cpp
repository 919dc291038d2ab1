// The table of slots. Formulas are written as contracts write them, so that a contract's own formula can be compared
// with a slot's by evaluating both.
#include "train/slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace assay::train {

namespace {

using contract::DType;
using contract::Role;
using Dims = std::vector<std::string_view>;

constexpr std::string_view kActivations = "activations", kGradients = "gradients", kWeights = "weights";

SlotTensor in(std::string_view name, DType dtype, Dims dims, std::string_view values,
              std::string_view meaning) {
  return {name, dtype, std::move(dims), Role::In, false, values, meaning};
}
SlotTensor in(std::string_view name, Dims dims, std::string_view values, std::string_view meaning) {
  return in(name, DType::bf16, std::move(dims), values, meaning);
}
SlotTensor out(std::string_view name, DType dtype, Dims dims, std::string_view meaning) {
  return {name, dtype, std::move(dims), Role::Out, false, "", meaning};
}
SlotTensor out(std::string_view name, Dims dims, std::string_view meaning) {
  return out(name, DType::bf16, std::move(dims), meaning);
}
SlotTensor optional_out(std::string_view name, Dims dims, std::string_view meaning) {
  return {name, DType::f32, std::move(dims), Role::Out, true, "", meaning};
}
SlotTensor inout(std::string_view name, DType dtype, Dims dims, std::string_view values,
                 std::string_view meaning) {
  return {name, dtype, std::move(dims), Role::InOut, false, values, meaning};
}

const SlotScalar kEps{"eps", DType::f32, 1e-6, "added to the mean square"};
const SlotScalar kBase{"base", DType::f32, 10000, "of the rotary frequencies"};
const SlotScalar kRate{"lr", DType::f32, 1e-3, "learning rate"};

const std::vector<Slot>& table() {
  static const std::vector<Slot> slots = {
      {"embedding",
       Phase::Forward,
       "rows of the embedding table",
       {in("w", {"V", "D"}, kWeights, "the table"),
        in("tokens", DType::i64, {"T"}, "tokens(V)", "rows to take"), out("y", {"T", "D"}, "the rows")},
       {},
       "y[t, d] = w[tokens[t], d]\n"},
      {"rmsnorm",
       Phase::Forward,
       "RMSNorm",
       {in("x", {"T", "D"}, kActivations, "activations"), in("w", {"D"}, kWeights, "gain"),
        out("y", {"T", "D"}, "normalised")},
       {kEps},
       "scale[t] = rsqrt(mean[d](x[t, d]^2) + eps)\n"
       "y[t, d] = x[t, d] * scale[t] * w[d]\n"},
      {"residual_rmsnorm",
       Phase::Forward,
       "residual connection, then RMSNorm",
       {in("x", {"T", "D"}, kActivations, "what the block adds"), in("w", {"D"}, kWeights, "gain"),
        inout("residual", DType::bf16, {"T", "D"}, kActivations, "the stream"),
        out("y", {"T", "D"}, "normalised")},
       {kEps},
       "residual[t, d] = bf16(x[t, d] + residual[t, d])\n"
       "y[t, d] = residual[t, d] * rsqrt(mean[k](residual[t, k]^2) + eps) * w[d]\n"},
      {"linear",
       Phase::Forward,
       "product of activations and weights: QKV, attention output, feed-forward, head",
       {in("x", {"T", "K"}, kActivations, "activations"), in("w", {"K", "N"}, kWeights, "weights"),
        out("y", {"T", "N"}, "product")},
       {},
       "y[t, n] += x[t, k] * w[k, n]\n"},
      {"rope",
       Phase::Forward,
       "rotary position embedding of queries and keys, halves rotated against each other",
       {in("x", {"T", "H", "2 * P"}, kActivations, "queries or keys"),
        in("positions", DType::i32, {"T"}, "integers(0, 8191)", "in the sequence"),
        out("y", {"T", "H", "2 * P"}, "rotated")},
       {kBase},
       "y[t, h, j] = if j < P then x[t, h, j] * cos(positions[t] * base^(-j / P)) - x[t, h, j + P] * "
       "sin(positions[t] * base^(-j / P)) else x[t, h, j - P] * sin(positions[t] * base^(-(j - P) / P)) + "
       "x[t, h, j] * cos(positions[t] * base^(-(j - P) / P))\n"},
      {"attention",
       Phase::Forward,
       "causal attention; H counts the heads of all sequences",
       {in("q", {"H", "S", "D"}, kActivations, "queries"), in("k", {"H", "S", "D"}, kActivations, "keys"),
        in("v", {"H", "S", "D"}, kActivations, "values"), out("o", {"H", "S", "D"}, "output"),
        optional_out("lse", {"H", "S"}, "logarithm of the sum of exponentials")},
       {},
       "score[h, i, j] = sum[d](q[h, i, d] * k[h, j, d]) / sqrt(D)\n"
       "top[h, i] = max[j | j <= i](score[h, i, j])\n"
       "p[h, i, j] = exp(score[h, i, j] - top[h, i])\n"
       "total[h, i] = sum[j | j <= i](p[h, i, j])\n"
       "o[h, i, d] = sum[j | j <= i](p[h, i, j] * v[h, j, d]) / total[h, i]\n"
       "lse[h, i] = top[h, i] + log(total[h, i])\n"},
      {"swiglu",
       Phase::Forward,
       "SwiGLU",
       {in("gate", {"T", "F"}, kActivations, "gate"), in("value", {"T", "F"}, kActivations, "value"),
        out("y", {"T", "F"}, "gated value")},
       {},
       "y[t, j] = gate[t, j] * sigmoid(gate[t, j]) * value[t, j]\n"},
      {"gelu",
       Phase::Forward,
       "GELU, tanh form; the model then has one in place of SwiGLU",
       {in("x", {"T", "F"}, kActivations, "activations"), out("y", {"T", "F"}, "result")},
       {},
       "u[t, j] = 0.7978845608 * (x[t, j] + 0.044715 * x[t, j]^3)\n"
       "y[t, j] = x[t, j] * sigmoid(2 * u[t, j])\n"},
      {"cross_entropy",
       Phase::Forward,
       "loss of each token",
       {in("logits", {"T", "V"}, kActivations, "logits"),
        in("targets", DType::i64, {"T"}, "index(V)", "the right tokens"),
        out("loss", DType::f32, {"T"}, "loss of each token"),
        optional_out("lse", {"T"}, "logarithm of the sum of exponentials")},
       {},
       "top[t] = max[c](logits[t, c])\n"
       "total[t] = sum[c](exp(logits[t, c] - top[t]))\n"
       "loss[t] = log(total[t]) - (logits[t, targets[t]] - top[t])\n"
       "lse[t] = top[t] + log(total[t])\n"},
      {"cross_entropy_grad",
       Phase::Backward,
       "gradient of the loss with respect to the logits",
       {in("logits", {"T", "V"}, kActivations, "logits"),
        in("targets", DType::i64, {"T"}, "index(V)", "the right tokens"),
        in("lse", DType::f32, {"T"}, "real(4, 8)", "logarithm of the sum of exponentials"),
        in("dloss", DType::f32, {"T"}, kGradients, "gradient of each token's loss"),
        out("dlogits", {"T", "V"}, "gradient")},
       {},
       "p[t, c] = exp(logits[t, c] - lse[t])\n"
       "dlogits[t, c] = (if c == targets[t] then p[t, c] - 1 else p[t, c]) * dloss[t]\n"},
      {"linear_grad_input",
       Phase::Backward,
       "gradient of a product with respect to its activations",
       {in("dy", {"T", "N"}, kGradients, "gradient of the product"), in("w", {"K", "N"}, kWeights, "weights"),
        out("dx", {"T", "K"}, "gradient")},
       {},
       "dx[t, k] += dy[t, n] * w[k, n]\n"},
      {"linear_grad_weight",
       Phase::Backward,
       "gradient of a product with respect to its weights",
       {in("x", {"T", "K"}, kActivations, "activations"),
        in("dy", {"T", "N"}, kGradients, "gradient of the product"), out("dw", {"K", "N"}, "gradient")},
       {},
       "dw[k, n] += x[t, k] * dy[t, n]\n"},
      {"swiglu_grad",
       Phase::Backward,
       "gradient of SwiGLU",
       {in("dy", {"T", "F"}, kGradients, "gradient of the result"),
        in("gate", {"T", "F"}, kActivations, "gate"), in("value", {"T", "F"}, kActivations, "value"),
        out("dgate", {"T", "F"}, "gradient"), out("dvalue", {"T", "F"}, "gradient")},
       {},
       "s[t, j] = sigmoid(gate[t, j])\n"
       "dvalue[t, j] = dy[t, j] * (gate[t, j] * s[t, j])\n"
       "dgate[t, j] = dy[t, j] * value[t, j] * (s[t, j] * (1 + gate[t, j] * (1 - s[t, j])))\n"},
      {"gelu_grad",
       Phase::Backward,
       "gradient of GELU, tanh form",
       {in("dy", {"T", "F"}, kGradients, "gradient of the result"),
        in("x", {"T", "F"}, kActivations, "activations"), out("dx", {"T", "F"}, "gradient")},
       {},
       "u[t, j] = 1.5957691216 * (x[t, j] + 0.044715 * x[t, j]^3)\n"
       "s[t, j] = sigmoid(u[t, j])\n"
       "slope[t, j] = 1.5957691216 * (1 + 0.134145 * x[t, j]^2)\n"
       "dx[t, j] = dy[t, j] * s[t, j] * (1 + x[t, j] * (1 - s[t, j]) * slope[t, j])\n"},
      {"attention_grad",
       Phase::Backward,
       "gradient of causal attention",
       {in("q", {"H", "S", "D"}, kActivations, "queries"), in("k", {"H", "S", "D"}, kActivations, "keys"),
        in("v", {"H", "S", "D"}, kActivations, "values"),
        in("o", {"H", "S", "D"}, kActivations, "output of the forward pass"),
        in("dout", {"H", "S", "D"}, kGradients, "gradient of the output"),
        in("lse", DType::f32, {"H", "S"}, "real(4, 8)", "logarithm of the sum of exponentials"),
        in("delta", DType::f32, {"H", "S"}, kGradients, "sum of o times dout over d"),
        out("dq", {"H", "S", "D"}, "gradient"), out("dk", {"H", "S", "D"}, "gradient"),
        out("dv", {"H", "S", "D"}, "gradient")},
       {},
       "p[h, i, j] = exp(sum[d](q[h, i, d] * k[h, j, d]) / sqrt(D) - lse[h, i])\n"
       "ds[h, i, j] = p[h, i, j] * (sum[d](dout[h, i, d] * v[h, j, d]) - delta[h, i])\n"
       "dq[h, i, d] = sum[j | j <= i](ds[h, i, j] * k[h, j, d]) / sqrt(D)\n"
       "dk[h, j, d] = sum[i | i >= j](ds[h, i, j] * q[h, i, d]) / sqrt(D)\n"
       "dv[h, j, d] = sum[i | i >= j](p[h, i, j] * dout[h, i, d])\n"},
      {"rope_grad",
       Phase::Backward,
       "gradient of the rotary position embedding: the rotation backwards",
       {in("dy", {"T", "H", "2 * P"}, kGradients, "gradient of the result"),
        in("positions", DType::i32, {"T"}, "integers(0, 8191)", "in the sequence"),
        out("dx", {"T", "H", "2 * P"}, "gradient")},
       {kBase},
       "dx[t, h, j] = if j < P then dy[t, h, j] * cos(positions[t] * base^(-j / P)) + dy[t, h, j + P] * "
       "sin(positions[t] * base^(-j / P)) else dy[t, h, j] * cos(positions[t] * base^(-(j - P) / P)) - "
       "dy[t, h, j - P] * sin(positions[t] * base^(-(j - P) / P))\n"},
      {"rmsnorm_grad",
       Phase::Backward,
       "gradient of RMSNorm",
       {in("dy", {"T", "D"}, kGradients, "gradient of the result"),
        in("x", {"T", "D"}, kActivations, "activations"), in("w", {"D"}, kWeights, "gain"),
        out("dx", {"T", "D"}, "gradient"), out("dw", DType::f32, {"D"}, "gradient of the gain")},
       {kEps},
       "scale[t] = rsqrt(mean[d](x[t, d]^2) + eps)\n"
       "along[t] = mean[d](dy[t, d] * w[d] * x[t, d]) * scale[t]^3\n"
       "dx[t, d] = dy[t, d] * w[d] * scale[t] - x[t, d] * along[t]\n"
       "dw[d] += dy[t, d] * x[t, d] * scale[t]\n"},
      {"residual_rmsnorm_grad",
       Phase::Backward,
       "gradient of a residual connection and the RMSNorm after it",
       {in("dy", {"T", "D"}, kGradients, "gradient of the result"),
        in("dresidual", {"T", "D"}, kGradients, "gradient of the stream"),
        in("residual", {"T", "D"}, kActivations, "the stream"), in("w", {"D"}, kWeights, "gain"),
        out("dx", {"T", "D"}, "gradient"), out("dw", DType::f32, {"D"}, "gradient of the gain")},
       {kEps},
       "scale[t] = rsqrt(mean[d](residual[t, d]^2) + eps)\n"
       "along[t] = mean[d](dy[t, d] * w[d] * residual[t, d]) * scale[t]^3\n"
       "dx[t, d] = dresidual[t, d] + dy[t, d] * w[d] * scale[t] - residual[t, d] * along[t]\n"
       "dw[d] += dy[t, d] * residual[t, d] * scale[t]\n"},
      {"embedding_grad",
       Phase::Backward,
       "gradient of the embedding table",
       {in("dy", {"T", "D"}, kGradients, "gradient of the rows"),
        in("tokens", DType::i64, {"T"}, "tokens(V)", "rows that were taken"),
        out("dw", {"V", "D"}, "gradient of the table")},
       {},
       "dw[tokens[t], d] += dy[t, d]\n"},
      {"embedding_rmsnorm_grad",
       Phase::Backward,
       "gradient of the embedding table through the RMSNorm after it",
       {in("dy", {"T", "D"}, kGradients, "gradient of the norm's result"),
        in("tokens", DType::i64, {"T"}, "tokens(V)", "rows that were taken"),
        in("w", {"V", "D"}, kWeights, "the table"), in("g", {"D"}, kWeights, "gain"),
        out("dw", {"V", "D"}, "gradient of the table"), out("dg", DType::f32, {"D"}, "gradient of the gain")},
       {kEps},
       "rstd[t] = rsqrt(mean[d](w[tokens[t], d]^2) + eps)\n"
       "along[t] = mean[d](dy[t, d] * g[d] * w[tokens[t], d]) * rstd[t]^3\n"
       "dw[tokens[t], d] += dy[t, d] * g[d] * rstd[t] - w[tokens[t], d] * along[t]\n"
       "dg[d] += dy[t, d] * w[tokens[t], d] * rstd[t]\n"},
      {"sgd",
       Phase::Update,
       "step of gradient descent",
       {inout("p", DType::f32, {"n"}, kWeights, "weights"),
        in("g", DType::f32, {"n"}, kGradients, "gradient")},
       {kRate},
       "p[i] = p[i] - lr * g[i]\n"},
      {"momentum",
       Phase::Update,
       "step of gradient descent with momentum",
       {inout("p", DType::f32, {"n"}, kWeights, "weights"),
        inout("m", DType::f32, {"n"}, kGradients, "velocity"),
        in("g", DType::f32, {"n"}, kGradients, "gradient")},
       {kRate, {"mu", DType::f32, 0.9, "momentum"}},
       "m[i] = mu * m[i] + g[i]\n"
       "p[i] = p[i] - lr * m[i]\n"},
      {"adamw",
       Phase::Update,
       "step of AdamW",
       {inout("p", DType::f32, {"n"}, kWeights, "weights"),
        inout("m", DType::f32, {"n"}, kGradients, "first moment"),
        inout("v", DType::f32, {"n"}, "real(1e-12, 1)", "second moment"),
        in("g", DType::f32, {"n"}, kGradients, "gradient")},
       {kRate,
        {"beta1", DType::f32, 0.9, "decay of the first moment"},
        {"beta2", DType::f32, 0.95, "decay of the second moment"},
        {"eps", DType::f32, 1e-8, "added to the root"},
        {"decay", DType::f32, 0.1, "weight decay"},
        {"step", DType::i32, 10, "number of the step, from 1"}},
       "m[i] = beta1 * m[i] + (1 - beta1) * g[i]\n"
       "v[i] = beta2 * v[i] + (1 - beta2) * g[i]^2\n"
       "p[i] = p[i] * (1 - lr * decay) - lr * (m[i] / (1 - beta1^step) / (sqrt(v[i] / (1 - beta2^step)) + "
       "eps))\n"},
  };
  return slots;
}

template <class Row>
const Row* find(const std::vector<Row>& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}

// The dims that a slot's tensors name, in the order in which they occur.
std::vector<std::string> dims_of(const Slot& slot) {
  std::vector<std::string> dims;
  for (const SlotTensor& tensor : slot.tensors) {
    for (const std::string_view extent : tensor.dims) {
      const std::string dim(extent.substr(extent.find_last_of(' ') + 1));  // "2 * P": P
      if (std::ranges::find(dims, dim) == dims.end()) dims.push_back(dim);
    }
  }
  return dims;
}

std::string_view role_line(Role role) {
  switch (role) {
    case Role::In:
      return "";
    case Role::Out:
      return "role = \"out\"\n";
    case Role::InOut:
      return "role = \"inout\"\n";
  }
  return "";
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Update:
      return "update";
  }
  return "";
}

const SlotTensor* Slot::tensor(std::string_view tensor_name) const {
  return find(tensors, tensor_name);
}
const SlotScalar* Slot::scalar(std::string_view scalar_name) const {
  return find(scalars, scalar_name);
}

std::span<const Slot> slots() {
  return table();
}
const Slot* slot_named(std::string_view name) {
  return find(table(), name);
}

std::string contract_text(const Slot& slot) {
  const std::vector<std::string> dims = dims_of(slot);
  std::vector<std::string> args;
  for (const SlotTensor& tensor : slot.tensors) args.emplace_back(tensor.name);
  args.insert(args.end(), dims.begin(), dims.end());
  for (const SlotScalar& scalar : slot.scalars) args.emplace_back(scalar.name);
  args.emplace_back("stream");
  std::string text =
      fmt::format("title = \"{}\"\n\n[kernel]\nsource = \"{}.cu\"\nentry = \"{}\"\nargs = [\"{}\"]\n",
                  slot.summary, slot.name, slot.name, fmt::join(args, "\", \""));
  text += "\n[dims]\n";
  for (const std::string& dim : dims) text += fmt::format("{} = {{ min = 1, max = 65536 }}\n", dim);
  for (const SlotTensor& tensor : slot.tensors) {
    text += fmt::format("\n[tensors.{}]  # {}\ndtype = \"{}\"\nshape = [\"{}\"]\n{}", tensor.name,
                        tensor.meaning, contract::info(tensor.dtype).name, fmt::join(tensor.dims, "\", \""),
                        role_line(tensor.role));
    if (!tensor.values.empty()) text += fmt::format("values = \"{}\"\n", tensor.values);
  }
  for (const SlotScalar& scalar : slot.scalars) {
    text += fmt::format("\n[scalars.{}]  # {}\ndtype = \"{}\"\nvalue = {}\n", scalar.name, scalar.meaning,
                        contract::info(scalar.dtype).name, scalar.usual);
  }
  return text +
         fmt::format("\n[reference]\nformula = \"\"\"\n{}\"\"\"\naccumulate = \"f32\"\n", slot.formula);
}

}  // namespace assay::train
