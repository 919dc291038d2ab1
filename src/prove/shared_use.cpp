#include "prove/shared_use.h"

#include <algorithm>

namespace assay::prove {

namespace {

using ptx::Space;

constexpr unsigned kAddressBits = 32;   // that tell shared addresses apart
constexpr double kThreadSeconds = 1.0;  // for showing that one thread alone gets to an access

}  // namespace

SharedUse::SharedUse(Setting& setting) : setting_(setting), terms_(setting.terms), summary_(setting.summary) {
  for (const Access& access : summary_.accesses) {
    if (access.space != Space::Shared && access.space != Space::Generic) continue;
    const auto base = base_of(terms_, access.address);
    if (!base && access.effect != Effect::Read) clear_ = false;
    if (!base || summary_.arrays.at(*base).space != Space::Shared) continue;
    const std::string& place = summary_.arrays.at(*base).name;
    (access.effect == Effect::Read ? reads_ : writes_)[place].push_back(&access);
    accesses_.insert(at(access));
  }
  for (uint32_t i = 0; i < setting_.kernel.body.size(); ++i)
    if (orders_block(setting_.kernel.body[i])) barriers_.insert(i);
  intervals_ = std::make_unique<Intervals>(summary_.graph, setting_.kernel, barriers_, accesses_);
}

Term SharedUse::in_shared(Term address) {
  return terms_.canonical(terms_.trunc(address, kAddressBits));
}

// The thread is in the same loops, and what decides beyond the barrier's own conditions holds for it.
std::optional<uint32_t> SharedUse::set_before(const Access& store, const ThreadIndex& thread) {
  const auto barrier = next_barrier(at(store));
  if (!barrier) return std::nullopt;
  const auto info = std::find_if(summary_.barriers.begin(), summary_.barriers.end(), [&](const Barrier& one) {
    return one.instruction && at(*one.instruction) == *barrier;
  });
  if (info == summary_.barriers.end() || info->loops != store.loops ||
      info->control.size() > store.control.size() ||
      !std::equal(info->control.begin(), info->control.end(), store.control.begin()))
    return std::nullopt;
  std::map<Var, Term> its;
  for (size_t axis = 0; axis < 3; ++axis)
    if (!terms_.is_constant(summary_.thread[axis]))
      its[terms_.mentions(summary_.thread[axis]).front()] = thread[axis];
  for (size_t i = info->control.size(); i < store.control.size(); ++i)
    if (terms_.value(terms_.substitute(store.control[i], its)) != Bits{1}) return std::nullopt;
  return barrier;
}

std::optional<uint32_t> SharedUse::next_barrier(uint32_t from) const {
  const Graph& graph = summary_.graph;
  std::optional<uint32_t> found;
  std::set<uint32_t> seen;
  std::vector<std::pair<uint32_t, uint32_t>> open = {{graph.block_of(from), from + 1}};
  while (!open.empty()) {
    const auto [block, first] = open.back();
    open.pop_back();
    bool stopped = false;
    for (uint32_t i = first; i < graph.blocks[block].end && !stopped; ++i) {
      if (!barriers_.contains(i)) continue;
      if (setting_.kernel.body[i].guard != ptx::kNone || (found && *found != i)) return std::nullopt;
      found = i;
      stopped = true;
    }
    if (stopped) continue;
    if (graph.blocks[block].next.empty()) return std::nullopt;  // a thread may end
    for (const uint32_t next : graph.blocks[block].next) {
      if (graph.dominates(next, block)) return std::nullopt;  // round a loop
      if (seen.insert(next).second) open.emplace_back(next, graph.blocks[next].first);
    }
  }
  return found;
}

bool SharedUse::reaches_before(const std::set<uint32_t>& barriers, uint32_t to) const {
  return summary_.graph.reaches(ptx::kNone, to, barriers);
}

std::vector<Var> SharedUse::loaded_by(const Access& read) {
  std::vector<Var> vars;
  const Term from = terms_.canonical(read.address);
  for (Var var = 0; var < terms_.variables(); ++var) {
    const Variable& variable = terms_.var(var);
    if (variable.kind == VarKind::Unknown && variable.loaded_from != kNoTerm &&
        variable.width == read.bytes * 8 && terms_.canonical(variable.loaded_from) == from)
      vars.push_back(var);
  }
  return vars;
}

ThreadIndex first_thread(Terms& terms) {
  const Term zero = terms.constant(0, 32);
  return {zero, zero, zero};
}

std::optional<ThreadIndex> only_thread(Setting& setting, const Access& access) {
  Terms& terms = setting.terms;
  const Summary& summary = setting.summary;
  ThreadIndex last;
  for (size_t axis = 0; axis < 3; ++axis)
    last[axis] = terms.sub(terms.trunc(summary.threads[axis], 32), terms.constant(1, 32));
  for (const ThreadIndex& thread : {first_thread(terms), last}) {
    try {
      Lowering lowering(terms, summary, &setting.claims, setting.solver);
      lowering.set_deadline(std::min(kThreadSeconds, setting.until - work_seconds()));
      for (const Term condition : access.path) lowering.assume(condition);
      std::vector<Formula> same;
      for (size_t axis = 0; axis < 3; ++axis)
        same.push_back(equal_to_zero(
            add(lowering.unsigned_value(summary.thread[axis]), lowering.unsigned_value(thread[axis]), -1)));
      if (lowering.proves(all_of(std::move(same)), kThreadSeconds)) return thread;
    } catch (const TooHard&) {
    }
  }
  return std::nullopt;
}

}  // namespace assay::prove
