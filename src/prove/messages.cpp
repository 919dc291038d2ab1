#include "prove/messages.h"

#include <algorithm>

#include "prove/counters.h"

namespace assay::prove {

namespace {

using ptx::Mod;
using ptx::Space;

constexpr double kMessageSeconds = 1.0;         // for one question
constexpr Int kMostDrawn = (Int{1} << 31) - 1;  // so that a counter of 32 bits does not wrap

class Messages {
 public:
  Messages(Setting& setting, SharedUse& use)
      : setting_(setting), terms_(setting.terms), summary_(setting.summary), use_(use) {}

  bool run() {
    if (!summary_.gaps.empty()) return false;
    std::vector<GridTicket> tickets;
    for (const Ticket& ticket : summary_.tickets)
      if (auto drawn = drawn_by_one(ticket)) tickets.push_back(*drawn);
    if (use_.is_clear()) {
      for (const auto& [place, writes] : use_.writes()) describe_broadcast(place, writes);
      describe_common_reads();
    }
    for (GridTicket& ticket : tickets)
      if (is_counted(ticket)) {
        limit(ticket);
        setting_.grid_tickets.push_back(ticket);
      }
    return found_;
  }

 private:
  // ---- what one thread leaves for its block

  // A shared variable that one instruction alone writes, in no loop, by one thread of the block. If that thread makes the
  // store whenever it comes to the next barrier, and no thread reads the variable before that barrier (so that no read lies
  // between the same barriers as the store), every read gives what was stored: to all threads the same, in every iteration.
  // Where the value depends on nothing that differs between threads, it is known. A read that does not happen may have that
  // value, too, so that nothing is proved by a contradiction.
  void describe_broadcast(const std::string& place, const std::vector<const Access*>& writes) {
    const Access& store = *writes.front();
    const auto& reads = use_.reads(place);
    if (writes.size() != 1 || reads.empty() || store.effect != Effect::Write || store.stored == kNoTerm ||
        terms_.width(store.stored) != store.bytes * 8 || !is_uniform(store.address) ||
        summary_.graph.is_in_loop(use_.at(store)))
      return;
    const Term from = use_.in_shared(store.address);
    const bool same = std::all_of(reads.begin(), reads.end(), [&](const Access* read) {
      return read->bytes == store.bytes && use_.in_shared(read->address) == from;
    });
    if (!same) return;
    const auto thread = only_thread(setting_, store);
    if (!thread) return;
    const auto barrier = use_.set_before(store, *thread);
    if (!barrier || std::any_of(reads.begin(), reads.end(), [&](const Access* read) {
          return use_.reaches_before({*barrier}, use_.at(*read));
        }))
      return;
    const Term stored = of_thread(store.stored, *thread);
    const bool known = is_of_block(stored);
    for (const Access* read : reads)
      for (const Var var : use_.loaded_by(*read)) {
        Variable& variable = terms_.var(var);
        if (variable.is_of_block) continue;
        variable.is_of_block = true;
        found_ = true;
        if (!known) continue;
        variable.facts.push_back(terms_.compare(Op::Eq, terms_.of(var), stored));
        setting_.broadcast[var] = stored;
      }
  }

  // All threads read one address outside of loops, and between those barriers nobody writes the array: they get one value,
  // whichever it is. All that compares threads by it rests on `barrier`.
  void describe_common_reads() {
    const auto all = use_.reads();
    for (const auto& [place, reads] : all) {
      const auto is_quiet = [&](const Access* read) {
        const auto& writes = use_.writes(place);
        return !summary_.graph.is_in_loop(use_.at(*read)) &&
               std::none_of(writes.begin(), writes.end(),
                            [&](const Access* write) { return use_.meet(use_.at(*read), use_.at(*write)); });
      };
      for (const Access* read : reads) {
        // Variables are distinguished by their addresses.
        const bool common =
            is_uniform(read->address) && std::all_of(reads.begin(), reads.end(), [&](const Access* other) {
              return use_.in_shared(other->address) != use_.in_shared(read->address) || is_quiet(other);
            });
        if (!common) continue;
        for (const Var var : use_.loaded_by(*read)) terms_.var(var).is_of_block = true;
      }
    }
  }

  bool is_uniform(Term address) {
    const auto& vars = terms_.mentions(address);
    return std::all_of(vars.begin(), vars.end(), [&](Var v) {
      return terms_.var(v).kind == VarKind::Base || terms_.var(v).kind == VarKind::Dim;
    });
  }

  // Whether all threads of a block have the same value of it, under the names that it has here.
  bool is_of_block(Term term) {
    const auto& vars = terms_.mentions(term);
    return std::all_of(vars.begin(), vars.end(), [&](Var v) {
      const Variable& variable = terms_.var(v);
      return variable.kind == VarKind::Base || variable.kind == VarKind::Dim ||
             variable.kind == VarKind::Block || variable.is_of_block;
    });
  }

  Term of_thread(Term term, const ThreadIndex& thread) {
    std::map<Var, Term> its;
    for (size_t axis = 0; axis < 3; ++axis)
      if (!terms_.is_constant(summary_.thread[axis]))
        its[terms_.mentions(summary_.thread[axis]).front()] = thread[axis];
    return terms_.substitute(term, its);
  }

  // ---- numbers that blocks draw

  // One thread alone of each block gets to the instruction, which is in no loop: a block draws at most once, and "the number
  // that the block drew" is one value.
  std::optional<GridTicket> drawn_by_one(const Ticket& ticket) {
    const auto base = base_of(terms_, ticket.address);
    const uint32_t at = use_.at(*ticket.instruction);
    if (!base || summary_.arrays.at(*base).space != Space::Global || !is_uniform(ticket.address) ||
        summary_.graph.is_in_loop(at) || !ticket.loops.empty() || ticket.instruction->has(Mod::cta) ||
        ticket.instruction->has(Mod::cluster))
      return std::nullopt;
    const Access* draw = access_of(ticket);
    if (!draw) return std::nullopt;
    const auto thread = only_thread(setting_, *draw);
    if (!thread) return std::nullopt;
    GridTicket result{ticket, {}, kNoTerm, true};
    std::copy(thread->begin(), thread->end(), result.thread);
    for (const Term condition : draw->control)
      result.certain &= terms_.value(of_thread(condition, *thread)) == Bits{1};
    Term blocks = terms_.constant(1, 64);
    for (const Term extent : summary_.blocks) blocks = terms_.mul(blocks, extent);
    result.last = terms_.mul(terms_.sub(blocks, terms_.constant(1, 64)),
                             terms_.constant(static_cast<Bits>(ticket.step), 64));
    terms_.var(ticket.drawn).is_of_block = true;
    return result;
  }

  const Access* access_of(const Ticket& ticket) const {
    const auto found = std::find_if(summary_.accesses.begin(), summary_.accesses.end(),
                                    [&](const Access& a) { return a.instruction == ticket.instruction; });
    return found == summary_.accesses.end() ? nullptr : &*found;
  }

  // The counter is 0 when the kernel begins, because the host code has just set it to 0, and until all have drawn nothing else
  // writes it. Then the draws of the grid, which are atomic at the scope of the device and so follow one another, find 0,
  // step, 2 step, …: as many as there are blocks at most, so that the counter never wraps (nor an increment goes back to 0).
  bool is_counted(const GridTicket& ticket) {
    const Access& draw = *access_of(ticket.ticket);
    try {
      Lowered counter = lowered(setting_, draw, {draw.address, {}}, false);
      if (!is_alone_in_memory(setting_, *counter.array)) return false;
      Lowering& lowering = counter.lowering;
      lowering.set_deadline(std::min(kMessageSeconds, setting_.until - work_seconds()));
      const Poly last = lowering.unsigned_value(ticket.last);
      if (!lowering.proves(at_least_zero(plus(scale(last, -1), kMostDrawn - ticket.ticket.step)),
                           kMessageSeconds))
        return false;
      if (ticket.ticket.limit != kNoTerm &&
          (!is_uniform(ticket.ticket.limit) ||
           !lowering.proves(at_least_zero(add(lowering.unsigned_value(ticket.ticket.limit), last, -1)),
                            kMessageSeconds)))
        return false;
      return is_zeroed(counter, draw.bytes) &&
             std::all_of(summary_.accesses.begin(), summary_.accesses.end(),
                         [&](const Access& access) { return leaves_alone(access, draw, ticket); });
    } catch (const TooHard&) {
      return false;
    }
  }

  // Where parts of the call may run at the same time, what was filled before may not be there yet.
  bool is_zeroed(Lowered& counter, uint32_t bytes) {
    return !setting_.launch.overlaps &&
           std::any_of(setting_.launch.zeroed.begin(), setting_.launch.zeroed.end(), [&](const Fill& fill) {
             const auto from = setting_.dims.term(*fill.offset), size = setting_.dims.term(*fill.bytes);
             if (fill.array != counter.array->name || !from || !size) return false;
             const Poly begin = counter.lowering.poly(*from);
             const Poly distance = add(counter.offset, begin, -1);
             return counter.lowering.proves(
                 all_of({at_least_zero(distance),
                         at_least_zero(plus(add(counter.lowering.poly(*size), distance, -1), -Int{bytes}))}),
                 kMessageSeconds);
           });
  }

  // An access that does not write the counter, or only behind all draws.
  bool leaves_alone(const Access& access, const Access& draw, const GridTicket& ticket) {
    if (access.effect == Effect::Read || access.instruction == draw.instruction) return true;
    const Array& counter = summary_.arrays.at(*base_of(terms_, draw.address));
    for (const Part& part : parts_of(terms_, access)) {
      const auto base = base_of(terms_, part.address);
      if (!base) return false;
      const Array& array = summary_.arrays.at(*base);
      if (array.name != counter.name) continue;
      if (!is_apart(access, part, draw, ticket) && !comes_last(access, draw, ticket)) return false;
    }
    return true;
  }

  // A thread that writes knowing that its block drew `last` does so after the draws of all other blocks. With one block there is
  // nothing to know; so it must be the thread that draws, and no way may lead from the write to the draw.
  bool comes_last(const Access& access, const Access& draw, const GridTicket& ticket) {
    if (summary_.graph.reaches(use_.at(access), use_.at(draw)) || !implies_last(setting_, access, ticket))
      return false;
    const auto thread = only_thread(setting_, access);
    return thread && std::equal(thread->begin(), thread->end(), ticket.thread);
  }

  // Where the write goes may depend on the number that its own block drew: `tiles[drawn]`. That number may be taken to be below
  // the number of blocks here. If some write met the counter, one would be the first: what its block drew was drawn before
  // that, when only draws had changed the counter.
  bool is_apart(const Access& access, const Part& part, const Access& draw, const GridTicket& ticket) {
    try {
      Lowered place = lowered(setting_, access, part, false);
      Lowering& lowering = place.lowering;
      lowering.set_deadline(std::min(kMessageSeconds, setting_.until - work_seconds()));
      lowering.assume(is_within(ticket));
      const auto base = *base_of(terms_, draw.address);
      const Poly counter = lowering.poly(terms_.sub(draw.address, terms_.of(base)));
      const Poly ahead = add(place.offset, counter, -1);  // of the counter
      return lowering.proves(any_of({at_least_zero(plus(ahead, -Int{draw.bytes})),
                                     at_least_zero(plus(scale(ahead, -1), -Int{access.bytes}))}),
                             kMessageSeconds);
    } catch (const TooHard&) {
      return false;
    }
  }

  Term is_within(const GridTicket& ticket) {
    return terms_.compare(Op::Ule, terms_.zext(terms_.of(ticket.ticket.drawn), 64), ticket.last);
  }

  void limit(const GridTicket& ticket) {
    terms_.var(ticket.ticket.drawn).facts.push_back(is_within(ticket));
    found_ = true;
  }

  Setting& setting_;
  Terms& terms_;
  const Summary& summary_;
  SharedUse& use_;
  bool found_ = false;
};

}  // namespace

bool describe_messages(Setting& setting) {
  SharedUse use(setting);
  const bool counters = describe_counters(setting, use);
  return Messages(setting, use).run() || counters;
}

}  // namespace assay::prove
