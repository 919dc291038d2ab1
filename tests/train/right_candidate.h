// Right kernels of every slot, for tests and bench/train.
//
// A right kernel is one whose results are those of the operator up to rounding. Here they are functions of the host that compute as kernels may:
//
//     order     f32, all sums in another order
//     exact     f64, rounded once
//     approx    f32, each result off by up to 2^-21, as approximate functions make it (docs/measurements/hardware.md has their errors); of
//               AdamW, the change of the weights is off by that much. Only outputs that have such functions or a quotient in their formula
//     serial    f32, every long sum one addition after the other
#pragma once

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "contract/formula.h"
#include "train/host_candidate.h"

namespace assay::train {

inline constexpr std::string_view kKinds[] = {"order", "exact", "approx", "serial"};
inline constexpr double kApproximate = 0x1p-21;

// The outputs of a slot whose formula has something that kernels approximate: a function, a quotient, a power that is no product. Sums and
// products alone are not among them: a sum of two bf16 numbers is exact in f32, and a kernel that has it otherwise is wrong.
inline bool is_approximated(const contract::Expr& expr, const std::set<std::string>& approximate) {
  using contract::ExprKind;
  constexpr std::string_view kExact[] = {"bf16", "f16", "f32", "min", "max", "abs"};
  if (expr.kind == ExprKind::Call && std::ranges::find(kExact, expr.name) == std::end(kExact)) return true;
  if (expr.kind == ExprKind::Binary && expr.name == "/") return true;
  if (expr.kind == ExprKind::Binary && expr.name == "^" && expr.children[1]->kind != ExprKind::Integer)
    return true;
  if (expr.kind == ExprKind::Reduce && expr.name == "mean") return true;
  if ((expr.kind == ExprKind::Name || expr.kind == ExprKind::Element) && approximate.contains(expr.name))
    return true;
  return std::ranges::any_of(
      expr.children, [&](const contract::ExprPtr& child) { return is_approximated(*child, approximate); });
}
inline std::set<std::string> approximate_outputs(const Slot& slot) {
  std::set<std::string> approximate;
  const auto formula = contract::parse_formula(slot.formula, contract::Place{}, "slot.toml");
  for (const contract::Statement& statement : formula->statements)
    if (is_approximated(*statement.body, approximate)) approximate.insert(statement.name);
  std::erase_if(approximate, [&](const std::string& name) {
    const SlotTensor* const tensor = slot.tensor(name);
    return !tensor || tensor->role == contract::Role::In;
  });
  return approximate;
}

// Results with errors of approximate functions.
inline void disturb(const Slot& slot, const contract::Bindings& bindings, uint64_t seed,
                    Operands<float>& at) {
  Random random(seed);
  const std::set<std::string> approximate = approximate_outputs(slot);
  for (const SlotTensor& tensor : slot.tensors) {
    if (!approximate.contains(std::string(tensor.name))) continue;
    const contract::Tensor* const before =
        slot.phase == Phase::Update ? bindings.inputs.find(tensor.name)->second.get() : nullptr;
    std::vector<float>& values = at[tensor.name].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      const double kept = before ? before->load(static_cast<int64_t>(i)) : 0;
      const double factor = 1 + kApproximate * (2 * random.uniform() - 1);
      values[i] = static_cast<float>(kept + (values[i] - kept) * factor);
    }
  }
}

inline bool has_serial(const Slot& slot) {
  return slot.name == "embedding_grad" || slot.name.starts_with("linear");
}
// The long sums of these slots, one addition after the other.
inline void add_serially(const Slot& slot, Operands<float>& at) {
  const auto rows = [&](const char* to, const char* from) {
    Array<float>& sums = at[to];
    std::ranges::fill(sums.values, 0.0f);
    const int64_t D = at.dim("D");
    for (int64_t t = 0; t < at.dim("T"); ++t)
      for (int64_t d = 0; d < D; ++d)
        sums.data()[at["tokens"].integers[static_cast<std::size_t>(t)] * D + d] += at[from].data()[t * D + d];
  };
  const auto product = [&](const char* to, const char* a, const char* b, int64_t m, int64_t n, int64_t k,
                           int64_t am, int64_t ak, int64_t bn, int64_t bk) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += at[a].data()[i * am + l * ak] * at[b].data()[j * bn + l * bk];
        at[to].data()[i * n + j] = sum;
      }
  };
  if (slot.name == "embedding_grad") {
    rows("dw", "dy");
  } else if (slot.name == "linear") {
    product("y", "x", "w", at.dim("T"), at.dim("N"), at.dim("K"), at.dim("K"), 1, 1, at.dim("N"));
  } else if (slot.name == "linear_grad_input") {
    product("dx", "dy", "w", at.dim("T"), at.dim("K"), at.dim("N"), at.dim("N"), 1, at.dim("N"), 1);
  } else {
    product("dw", "x", "dy", at.dim("K"), at.dim("N"), at.dim("T"), 1, at.dim("K"), 1, at.dim("N"));
  }
}

inline Candidate right_candidate(const Slot& slot, std::string_view kind, uint64_t seed) {
  const auto calls = std::make_shared<uint64_t>(mix(seed, hash("calls")));
  return host_candidate(slot, [&slot, kind, calls](const contract::Bindings& bindings) -> CallResult {
    if (kind == "exact") return host_outputs<double>(slot, {.rounds = false}, bindings, {});
    const Arithmetic arithmetic{.rounds = false, .reordered = kind == "order"};
    return host_outputs<float>(slot, arithmetic, bindings, [&](Operands<float>& at) {
      if (kind == "approx") disturb(slot, bindings, *calls = mix(*calls), at);
      if (kind == "serial") add_serially(slot, at);
    });
  });
}

// The kinds of a slot, and the cells that each is tried in, in turn.
inline std::vector<std::string_view> kinds_of(const Slot& slot) {
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : kKinds)
    if ((kind != "serial" || has_serial(slot)) && (kind != "approx" || !approximate_outputs(slot).empty()))
      kinds.push_back(kind);
  return kinds;
}

}  // namespace assay::train
