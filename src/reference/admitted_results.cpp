// What else an undecided element may be: the other branch, the other integers, the other indices.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/evaluation.h"

namespace assay::reference {
namespace {}  // namespace

// What a chain of monotone operations makes of an outcome.
AdmittedResult Evaluator::mapped(const Definition& made, const std::vector<int>& chain,
                                 const AdmittedResult& inner) {
  const auto apply = [&](double x) {
    Lanes value = plain_.real(x, 1);
    for (std::size_t i = chain.size(); i-- > 0;) {
      const Node& node = made.nodes[static_cast<std::size_t>(chain[i])];
      if (node.op != Op::ToFloat || value.i) value = plain_.unary(node, value, 1);
    }
    return value.v ? value.v[0]
                   : static_cast<double>(
                         value.i[0]);  // NOLINT(clang-analyzer-core.NullDereference): one of both is set
  };
  return {apply(inner.value), apply(inner.low), apply(inner.high)};
}

std::vector<AdmittedResult> Evaluator::admitted_results(int definition_id, int64_t element) {
  const Definition& made = definition(definition_id);
  if (made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin)
    return admitted_indices(definition_id, element);
  if (made.reduce != Reduce::None || made.is_scatter()) return {};
  Batch batch = batch_of(definition_id, &element, 1);
  // Outermost roundings to integers are monotone: look through them.
  std::vector<int> chain;
  int base = made.body;
  const auto at = [&](int id) -> const Node& { return made.nodes[static_cast<std::size_t>(id)]; };
  const auto is_step = [](Op op) {
    return op == Op::ToFloat || op == Op::CastInt || op == Op::StoreInt || op == Op::Floor ||
           op == Op::Ceil || op == Op::Round;
  };
  while (is_step(at(base).op)) {
    chain.push_back(base);
    base = at(base).a;
  }
  std::vector<AdmittedResult> list;
  const auto add = [&](const Lanes& value) {
    const double v = value.v ? value.v[0] : static_cast<double>(value.i[0]), b = value.b ? value.b[0] : 0;
    list.push_back(mapped(made, chain, {v, v - b, v + b}));
  };
  if (at(base).op == Op::If) {
    const Lanes condition = eval(batch, at(base).a);
    if (condition.b && condition.b[0] > 0) {
      for (const bool taken : {true, false})
        add(eval(batch, (condition.i[0] != 0) == taken ? at(base).b : at(base).c));
      return list;
    }
  }
  if (at(base).op == Op::Load) {
    const Source& source = evaluation_.compiled.sources[static_cast<std::size_t>(at(base).ref)];
    Offsets offset;
    if (!source.is_input && offsets(batch, base, at(base), offset) && !offset.uncertain)
      for (const AdmittedResult& inner : admitted_results(source.definition, offset.at[0]))
        list.push_back(mapped(made, chain, inner));
    if (!list.empty()) return list;
  }
  if (!chain.empty()) add(eval(batch, base));
  return list;
}

// Every index whose value reaches the largest value that is certain.
std::vector<AdmittedResult> Evaluator::admitted_indices(int definition_id, int64_t element) {
  const Definition& made = definition(definition_id);
  const double sign = made.reduce == Reduce::ArgMin ? -1 : 1;
  const int variable = made.reduced[0];
  const Batch batch = batch_of(definition_id, &element, 1);
  std::vector<std::pair<double, int64_t>> reaches;  // the far end of each, and its index
  double least = -kInf, best = -kInf;
  int64_t chosen = 0;
  enumerate(batch, made.reduced, [&](Batch& full) {
    const Lanes filter = made.filter >= 0 ? eval(full, made.filter) : Lanes{};
    for (int l = 0; l < full.n; ++l) {
      const bool open = filter.b && filter.b[l] > 0;
      if (filter.i && filter.i[l] == 0 && !open) continue;
      Batch one = select(full, &l, 1);
      const Lanes t = eval(one, made.body);
      const int64_t index = full.index[variable] ? full.index[variable][l] : full.uniform[variable];
      const double v = sign * (t.v ? t.v[0] : static_cast<double>(t.i[0])),
                   b = budget_of_offer(t, 0, made.reduce);
      if (!open) least = std::max(least, v - b);
      if (v > best) {
        best = v;
        chosen = index;
      }
      reaches.emplace_back(v + b, index);
    }
  });
  const auto certain = [](int64_t index) {
    return AdmittedResult{double(index), double(index), double(index)};
  };
  std::vector<AdmittedResult> list = {certain(chosen)};
  for (const auto& [far, index] : reaches)
    if (far >= least && index != chosen) list.push_back(certain(index));
  return list;
}

}  // namespace assay::reference
