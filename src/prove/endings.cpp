#include "prove/endings.h"

#include <algorithm>
#include <set>

namespace assay::prove {

namespace {

constexpr double kEndSeconds = 1.5;  // for showing that a loop ends
constexpr Int kManyIterations = Int{1} << 61;

// What such an instruction finds may have been written by another thread since the loop began.
bool can_see_others(const ptx::Instruction& i) {
  if (i.opcode == ptx::Opcode::atom) return true;
  return i.opcode == ptx::Opcode::ld &&
         (i.has(ptx::Mod::volatile_) || i.has(ptx::Mod::relaxed) || i.has(ptx::Mod::acquire));
}

}  // namespace

bool can_listen(const ptx::Function& kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(), can_see_others);
}

Endings::Endings(Setting& setting) : setting_(setting) {
  // A loop inside another is described more than once; the last description is the one that stands.
  for (const auto& [count, loop] : setting.summary.loops) loops_[loop.head] = count;
  find_waiting();
}

bool Endings::before(const ptx::Instruction& instruction) {
  const auto at = static_cast<uint32_t>(&instruction - setting_.kernel.body.data());
  const Graph& graph = setting_.summary.graph;
  return std::all_of(graph.order.begin(), graph.order.end(), [&](uint32_t head) {
    if (!graph.is_head(head)) return true;
    const uint32_t first = graph.blocks[head].first;
    return !(first == at || graph.reaches(first, at)) || ends(head);
  });
}

bool Endings::ends(uint32_t head) {
  const auto waits =
      std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.loop->head == head; });
  if (waits) return of_waiting();
  const auto [at, is_new] = known_.try_emplace(head, false);
  if (!is_new) return at->second;
  const auto loop = loops_.find(head);
  if (loop == loops_.end()) return at->second = true;  // no thread gets there
  const Loop& info = setting_.summary.loops.at(loop->second);
  return at->second = stops_at_zero(info) || is_bounded(info);
}

// Whether an instruction of the loop, or of one inside it, shows what other threads do.
bool Endings::listens(uint32_t head) const {
  const Graph& graph = setting_.summary.graph;
  const uint32_t first = graph.blocks[head].first;
  for (uint32_t at = 0; at < setting_.kernel.body.size(); ++at) {
    const bool in_loop = at == first || (graph.reaches(first, at) && graph.reaches(at, first));
    if (in_loop && can_see_others(setting_.kernel.body[at])) return true;
  }
  return false;
}

bool Endings::of_listening() {
  const Graph& graph = setting_.summary.graph;
  return of_waiting() && std::all_of(graph.order.begin(), graph.order.end(), [&](uint32_t head) {
           return !graph.is_head(head) || !listens(head) || ends(head);
         });
}

bool Endings::stops_at_zero(const Loop& loop) {
  Terms& terms = setting_.terms;
  for (const Term shifted : loop.shifted) {
    const Var var = terms.mentions(shifted).front();
    const Term zero = terms.constant(0, terms.width(shifted));
    for (const Term condition : loop.again)
      if (terms.value(terms.substitute(condition, {{var, zero}})) == Bits{0}) return true;
  }
  return false;
}

// What has been loaded says little of how often most loops go round, and makes for long questions: it is asked about last.
bool Endings::is_bounded(const Loop& loop) {
  return is_bounded(loop, false) || is_bounded(loop, true);
}

bool Endings::is_bounded(const Loop& loop, bool whole_entry) {
  try {
    Lowering lowering(setting_.terms, setting_.summary, &setting_.claims, setting_.solver);
    lowering.set_deadline(std::min(kEndSeconds, setting_.until - work_seconds()));
    bool is_whole = true;
    for (const Term fact : loop.entry) {
      const std::vector<Var>& vars = setting_.terms.mentions(fact);
      const bool is_known = std::all_of(
          vars.begin(), vars.end(), [&](Var v) { return setting_.terms.var(v).kind != VarKind::Unknown; });
      is_whole &= is_known;
      if (whole_entry || is_known) lowering.assume(fact);
    }
    if (whole_entry && is_whole) return false;  // asked before
    const Poly k = lowering.count(loop.count);
    return lowering.ask(at_least_zero(plus(k, -kManyIterations)), kEndSeconds).kind ==
           Answer::Kind::Unsatisfiable;
  } catch (const TooHard&) {
    return false;
  }
}

// ---- loops that wait

void Endings::find_waiting() {
  for (const FlagRead& read : setting_.summary.flag_reads) {
    if (read.loops.empty() || !setting_.summary.loops.contains(read.loops.back())) continue;
    const Loop& loop = setting_.summary.loops.at(read.loops.back());
    for (const Term condition : loop.again) {
      const std::vector<Var>& vars = setting_.terms.mentions(condition);
      if (std::find(vars.begin(), vars.end(), read.seen) == vars.end()) continue;
      waiting_.push_back({&loop, &read, vars.size() == 1 ? condition : kNoTerm});
    }
  }
}

bool Endings::of_waiting() {
  if (waiting_end_) return *waiting_end_;
  waiting_end_ = true;  // for smaller numbers
  const auto& tickets = setting_.grid_tickets;
  const bool all =
      waiting_.empty() || std::any_of(tickets.begin(), tickets.end(), [&](const GridTicket& ticket) {
        return ticket.certain && ticket.ticket.step == 1 &&
               std::all_of(waiting_.begin(), waiting_.end(),
                           [&](const Waiting& w) { return understood(w, ticket); });
      });
  return *(waiting_end_ = all);
}

const Access* Endings::access_of(const ptx::Instruction& instruction) const {
  const auto& accesses = setting_.summary.accesses;
  const auto found = std::find_if(accesses.begin(), accesses.end(),
                                  [&](const Access& a) { return a.instruction == &instruction; });
  return found == accesses.end() ? nullptr : &*found;
}

// The flag is the same one in every iteration, all stores to it end the loop, and one of them is made.
bool Endings::understood(const Waiting& waiting, const GridTicket& ticket) {
  Terms& terms = setting_.terms;
  const auto base = base_of(terms, waiting.read->address);
  if (waiting.goes_on == kNoTerm || !base || !access_of(*waiting.read->instruction)) return false;
  const auto& vars = terms.mentions(waiting.read->address);
  const bool fixed = std::none_of(vars.begin(), vars.end(), [&](Var v) {
    return v == waiting.loop->count || (terms.var(v).kind == VarKind::Unknown && !terms.var(v).is_of_block);
  });
  const Array& array = setting_.summary.arrays.at(*base);
  if (!fixed || !is_alone_in_memory(setting_, array)) return false;
  bool set = false;
  for (const Access& access : setting_.summary.accesses) {
    if (access.effect == Effect::Read || access.keeps || access.space == ptx::Space::Shared ||
        access.space == ptx::Space::Local)
      continue;
    const auto place = base_of(terms, access.address);
    if (!place) return false;
    if (setting_.summary.arrays.at(*place).name != array.name) continue;
    if (leaves_with(waiting, access))
      set = set || is_set(waiting, access, ticket);
    else if (!is_apart(waiting, access))
      return false;
  }
  return set;
}

// Whether a thread that finds what is stored there leaves the loop.
bool Endings::leaves_with(const Waiting& waiting, const Access& store) {
  Terms& terms = setting_.terms;
  const Term stored = store.stored != kNoTerm ? store.stored : store.exchanged;
  if (stored == kNoTerm || terms.width(stored) != terms.var(waiting.read->seen).width ||
      !terms.is_constant(stored) || strength_of(store) != Strength::Device)
    return false;
  return terms.value(terms.substitute(waiting.goes_on, {{waiting.read->seen, stored}})) == Bits{0};
}

// Whether no thread stores there what another one waits for.
bool Endings::is_apart(const Waiting& waiting, const Access& store) {
  Terms& terms = setting_.terms;
  try {
    Lowering lowering(terms, setting_.summary, &setting_.claims, setting_.solver);
    lowering.set_deadline(std::min(kEndSeconds, setting_.until - work_seconds()));
    for (const Term condition : access_of(*waiting.read->instruction)->path) lowering.assume(condition);
    OtherThread theirs(terms, [](Var) { return false; });
    for (const Term condition : store.path) lowering.assume(theirs(condition));
    const uint32_t bytes = terms.var(waiting.read->seen).width / 8;
    return lowering
               .ask(overlap(offset_from_base(terms, lowering, theirs(store.address)), store.bytes,
                            offset_from_base(terms, lowering, waiting.read->address), bytes),
                    kEndSeconds)
               .kind == Answer::Kind::Unsatisfiable;
  } catch (const TooHard&) {
    return false;
  }
}

// In terms of what the block drew, where a shared variable has handed that on.
Term Endings::by_number(Term term) {
  return setting_.terms.substitute(term, setting_.broadcast);
}

// One thread of every block makes the store, if the loops before it end (those that wait for smaller numbers do).
bool Endings::is_set(const Waiting& waiting, const Access& store, const GridTicket& ticket) {
  Terms& terms = setting_.terms;
  // A compare-and-swap may store nothing.
  if (!store.loops.empty() || store.instruction->has(ptx::Mod::cas)) return false;
  const auto thread = only_thread(setting_, store);
  if (!thread) return false;
  std::map<Var, Term> its;
  for (size_t axis = 0; axis < 3; ++axis)
    if (!terms.is_constant(setting_.summary.thread[axis]))
      its[terms.mentions(setting_.summary.thread[axis]).front()] = (*thread)[axis];
  for (const Term condition : store.control)
    if (terms.value(terms.substitute(condition, its)) != Bits{1}) return false;
  return is_of_a_smaller_number(waiting, store, ticket) && before(*store.instruction);
}

// The store goes to c + s d in the block that drew d, with constants c and s. A thread waits at c + s e, and e lies below what
// its own block drew.
bool Endings::is_of_a_smaller_number(const Waiting& waiting, const Access& store, const GridTicket& ticket) {
  Terms& terms = setting_.terms;
  const Var drawn = ticket.ticket.drawn;
  const Term flag = by_number(store.address), waits_at = by_number(waiting.read->address);
  const auto speaks_of = [&](Term term) {
    const auto& vars = terms.mentions(term);
    return std::find(vars.begin(), vars.end(), drawn) != vars.end();
  };
  const auto& vars = terms.mentions(flag);
  const bool of_number = std::all_of(vars.begin(), vars.end(), [&](Var v) {
    return v == drawn || terms.var(v).kind == VarKind::Base || terms.var(v).kind == VarKind::Dim;
  });
  // Who knows its number has drawn it.
  if (!of_number || !speaks_of(flag) || !speaks_of(waits_at) ||
      base_of(terms, flag) != base_of(terms, waits_at))
    return false;
  try {
    Lowering lowering(terms, setting_.summary, &setting_.claims, setting_.solver);
    lowering.set_deadline(std::min(kEndSeconds, setting_.until - work_seconds()));
    const Poly number = lowering.unsigned_value(terms.of(drawn));
    if (number.size() != 1 || number.begin()->first.size() != 1 || number.begin()->second != 1) return false;
    // Before anything is said of the block that waits: it is to hold of all numbers.
    Poly rest = offset_from_base(terms, lowering, flag);
    for (const Term condition : access_of(*waiting.read->instruction)->path) lowering.assume(condition);
    const Int step = rest.contains(number.begin()->first) ? rest.at(number.begin()->first) : 0;
    rest.erase(number.begin()->first);
    if (step <= 0) return false;  // divides below
    for (const auto& [monomial, by] : rest)
      for (const Atom atom : monomial)
        if (!lowering.atoms()[atom].is_dim) return false;
    Poly smaller;
    for (const auto& [monomial, by] : add(offset_from_base(terms, lowering, waits_at), rest, -1)) {
      if (by % step != 0) return false;
      smaller[monomial] = by / step;
    }
    return lowering.proves(
        all_of({at_least_zero(smaller), at_least_zero(plus(add(number, smaller, -1), -1))}), kEndSeconds);
  } catch (const TooHard&) {
    return false;
  }
}

}  // namespace assay::prove
