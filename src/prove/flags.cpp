#include "prove/flags.h"

#include <algorithm>

#include "prove/messages.h"

namespace assay::prove {

namespace {

using ptx::Mod;

constexpr double kFlagSeconds = 4.0;  // for one pair of accesses
constexpr size_t kMostReads = 3;      // of flags that one access relies on

}  // namespace

Poly offset_from_base(Terms& terms, Lowering& lowering, Term address) {
  const auto base = base_of(terms, address);
  if (!base) throw TooHard{"it is not clear which array the address begins in"};
  const Poly whole = lowering.poly(address);
  const auto atom = lowering.base_atom(*base);
  if (!atom) throw TooHard{"the address is not a sum of a pointer and an offset"};
  Poly offset = add(whole, atom_poly(*atom, terms.var(*base).multiple_of), -1);
  for (const auto& [monomial, by] : offset)
    if (std::find(monomial.begin(), monomial.end(), *atom) != monomial.end())
      throw TooHard{"the address is not a sum of a pointer and an offset"};
  return offset;
}

Formula overlap(const Poly& a, uint32_t a_bytes, const Poly& b, uint32_t b_bytes) {
  const Poly distance = add(b, a, -1);
  return all_of({at_least_zero(plus(scale(distance, -1), Int{a_bytes} - 1)),
                 at_least_zero(plus(distance, Int{b_bytes} - 1))});
}

bool FlagOrder::is_before(const Access& first, const Access& second) {
  if (setting_.summary.flag_reads.empty() || setting_.launch.overlaps) return false;
  const auto [known, is_new] = known_.try_emplace({&first, &second}, false);
  if (!is_new) return known->second;
  for (const Receiver& receiver : receivers(second)) {
    if (setting_.out_of_time()) break;
    try {
      if (orders(first, second, receiver)) return known_[{&first, &second}] = true;
    } catch (const TooHard&) {
    }
  }
  return false;
}

// ---- who has looked at a flag

const Access* FlagOrder::access_of(const FlagRead& read) const {
  const auto& accesses = setting_.summary.accesses;
  const auto found = std::find_if(accesses.begin(), accesses.end(),
                                  [&](const Access& a) { return a.instruction == read.instruction; });
  return found == accesses.end() ? nullptr : &*found;
}

// Nothing is known of the value besides what a path says.
bool FlagOrder::is_free(const FlagRead& read) {
  const Variable& seen = setting_.terms.var(read.seen);
  return seen.facts.empty() && !seen.is_fixed && !seen.is_of_block;
}

std::vector<FlagOrder::Receiver> FlagOrder::receivers(const Access& second) {
  std::vector<Receiver> result;
  const uint32_t here = order_.at(*second.instruction);
  Receiver own;
  for (const FlagRead& read : setting_.summary.flag_reads) {
    const bool decides = std::any_of(second.path.begin(), second.path.end(), [&](Term condition) {
      const auto& vars = setting_.terms.mentions(condition);
      return std::find(vars.begin(), vars.end(), read.seen) != vars.end();
    });
    if (decides && is_free(read) && own.reads.size() < kMostReads &&
        order_.acquires_between(*read.instruction, here))
      own.reads.push_back(&read);
  }
  if (!own.reads.empty()) result.push_back(std::move(own));
  for (const Barrier& barrier : setting_.summary.barriers) {
    if (barrier.of_warp || !barrier.loops.empty() || !order_.is_behind(*barrier.instruction, here)) continue;
    if (auto other = behind_barrier(barrier)) result.push_back(std::move(*other));
  }
  return result;
}

// A thread of the block that has looked at flags on its way to a barrier, and passed a fence since. The barrier is in no loop, so
// that there is one way of each thread to it.
std::optional<FlagOrder::Receiver> FlagOrder::behind_barrier(const Barrier& barrier) {
  Receiver result;
  const uint32_t here = order_.at(*barrier.instruction);
  for (const FlagRead& read : setting_.summary.flag_reads) {
    if (!is_free(read) || result.reads.size() == kMostReads) continue;
    const Access* access = access_of(read);
    if (!access || !setting_.summary.graph.reaches(order_.at(*read.instruction), here) ||
        !order_.acquires_between(*read.instruction, here))
      continue;
    const auto thread = only_thread(setting_, *access);
    if (!thread || (result.thread && *result.thread != *thread)) continue;
    result.thread = thread;
    result.reads.push_back(&read);
  }
  if (result.reads.empty()) return std::nullopt;
  result.path = barrier.path;
  return result;
}

// ---- the question

OtherThread FlagOrder::of_another_block() {
  return {setting_.terms, [](Var) { return false; }};
}

bool FlagOrder::orders(const Access& first, const Access& second, const Receiver& receiver) {
  Terms& terms = setting_.terms;
  if (base_of(terms, first.address) != base_of(terms, second.address)) return false;
  Lowering lowering(terms, setting_.summary, &setting_.claims, setting_.solver);
  lowering.set_deadline(std::min(kFlagSeconds, setting_.until - work_seconds()));
  // Both sides of every question are this thread's, who makes the second access, and another's, who makes the first.
  for (const Term condition : second.path) lowering.assume(condition);
  OtherThread theirs = of_another_block();
  for (const Term condition : first.path) lowering.assume(theirs(condition));
  lowering.assume(differ(lowering, nullptr, theirs, false));
  lowering.assume(overlap(offset_from_base(terms, lowering, theirs(first.address)), first.bytes,
                          offset_from_base(terms, lowering, second.address), second.bytes));
  // Another thread of the same block has its own index and has seen other values; the block's are the same.
  OtherThread reader(terms, [&](Var var) {
    const Variable& variable = terms.var(var);
    return !receiver.thread || variable.kind == VarKind::Block || variable.is_of_block;
  });
  if (receiver.thread)
    for (size_t axis = 0; axis < 3; ++axis)
      reader.set(setting_.summary.thread[axis], (*receiver.thread)[axis]);
  for (const Term condition : receiver.path) lowering.assume(reader(condition));
  for (const FlagRead* read : receiver.reads)
    lowering.assume(came_from_elsewhere(lowering, first, theirs, *read, reader));
  lowering.set_deadline(std::min(kFlagSeconds, setting_.until - work_seconds()));
  return lowering.ask(all_of({}), kFlagSeconds).kind == Answer::Kind::Unsatisfiable;
}

// The blocks (or also the threads) are different ones. `one`: none is the thread of the second access. Blocks that differ
// have drawn different numbers.
Formula FlagOrder::differ(Lowering& lowering, OtherThread* one, OtherThread& other, bool threads) {
  const auto of_one = [&](Term term) { return one ? (*one)(term) : term; };
  const auto apart = [&](Term term) {
    const Poly difference =
        add(lowering.unsigned_value(of_one(term)), lowering.unsigned_value(other(term)), -1);
    return any_of({at_least_zero(plus(difference, -1)), at_least_zero(plus(scale(difference, -1), -1))});
  };
  std::vector<Formula> blocks, any;
  for (const Term index : setting_.summary.block)
    if (!setting_.terms.is_constant(index)) blocks.push_back(apart(index));
  std::vector<Formula> all = {any_of(std::move(blocks))};
  for (const GridTicket& ticket : setting_.grid_tickets)
    all.push_back(apart(setting_.terms.of(ticket.ticket.drawn)));
  any.push_back(all_of(std::move(all)));
  for (const Term index : setting_.summary.thread)
    if (threads && !setting_.terms.is_constant(index)) any.push_back(apart(index));
  return any_of(std::move(any));
}

// The value that was found did not come from the block of the first access, behind that.
Formula FlagOrder::came_from_elsewhere(Lowering& lowering, const Access& first, OtherThread& theirs,
                                       const FlagRead& read, OtherThread& reader) {
  Terms& terms = setting_.terms;
  const Term at = reader(read.address), seen = reader(terms.of(read.seen));
  const auto base = base_of(terms, read.address);
  if (!base || !is_zeroed(lowering, read, at)) throw TooHard{"the flag may start with another value than 0"};
  const Array& array = setting_.summary.arrays.at(*base);
  if (!is_alone_in_memory(setting_, array)) throw TooHard{"the flag may be part of another tensor"};
  std::vector<Formula> any = {equal_to_zero(lowering.unsigned_value(seen))};
  for (const Access& access : setting_.summary.accesses) {
    if (access.effect == Effect::Read || access.keeps || access.space == ptx::Space::Shared ||
        access.space == ptx::Space::Local)
      continue;
    const auto place = base_of(terms, access.address);
    if (!place) throw TooHard{"it is not clear which array the address begins in"};
    if (setting_.summary.arrays.at(*place).name != array.name) continue;
    if (*place != *base) throw TooHard{"an array has two views"};
    any.push_back(from(lowering, access, first, theirs, at, seen));
  }
  return any_of(std::move(any));
}

Formula FlagOrder::from(Lowering& lowering, const Access& source, const Access& first, OtherThread& theirs,
                        Term at, Term seen) {
  Terms& terms = setting_.terms;
  const uint32_t bytes = terms.width(seen) / 8;
  // Of another size or weaker, it races with the read of the flag in any case.
  const Sent how =
      source.bytes == bytes && strength_of(source) == Strength::Device ? sent(source, first) : Sent::Not;
  OtherThread sender = of_another_block();
  std::vector<Formula> all = {overlap(offset_from_base(terms, lowering, sender(source.address)), source.bytes,
                                      offset_from_base(terms, lowering, at), bytes)};
  for (const Term condition : source.path) all.push_back(lowering.formula(sender(condition)));
  const Term stored = source.stored != kNoTerm ? source.stored : source.exchanged;
  if (source.bytes == bytes && strength_of(source) == Strength::Device && stored != kNoTerm &&
      terms.width(stored) == terms.width(seen))
    all.push_back(lowering.formula(terms.compare(Op::Eq, sender(stored), seen)));
  if (how != Sent::Not) all.push_back(differ(lowering, &theirs, sender, how == Sent::ByThread));
  return all_of(std::move(all));
}

// Whether every block (or thread) that makes this store to a flag has made the first access before, with a fence in between.
FlagOrder::Sent FlagOrder::sent(const Access& source, const Access& first) {
  if (source.effect != Effect::Write && source.exchanged == kNoTerm) return Sent::Not;
  if (const auto thread = only_thread(setting_, source))
    if (order_.is_released(first, {source.instruction, *thread})) return Sent::ByBlock;
  const Graph& graph = setting_.summary.graph;
  const uint32_t here = order_.at(*source.instruction), before = order_.at(*first.instruction);
  if (graph.reaches(here, before)) return Sent::Not;
  const bool releases = source.instruction->has(Mod::release) || source.instruction->has(Mod::acq_rel);
  return releases || order_.fences_between(*first.instruction, here) ? Sent::ByThread : Sent::Not;
}

bool FlagOrder::is_zeroed(Lowering& lowering, const FlagRead& read, Term at) {
  const std::string& name = setting_.summary.arrays.at(*base_of(setting_.terms, read.address)).name;
  const Int bytes = setting_.terms.width(setting_.terms.of(read.seen)) / 8;
  const Poly offset = offset_from_base(setting_.terms, lowering, at);
  return std::any_of(setting_.launch.zeroed.begin(), setting_.launch.zeroed.end(), [&](const Fill& fill) {
    if (fill.array != name || !fill.offset || !fill.bytes) return false;
    const auto from = setting_.dims.term(*fill.offset), size = setting_.dims.term(*fill.bytes);
    if (!from || !size) return false;
    const Poly ahead = add(offset, lowering.poly(*from), -1);
    return lowering.proves(
        all_of({at_least_zero(ahead), at_least_zero(plus(add(lowering.poly(*size), ahead, -1), -bytes))}),
        kFlagSeconds);
  });
}

}  // namespace assay::prove
