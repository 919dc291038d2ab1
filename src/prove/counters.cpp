#include "prove/counters.h"

#include <algorithm>
#include <set>

namespace assay::prove {

namespace {

using ptx::Space;

constexpr unsigned kSharedBits = 32;   // that tell shared addresses apart
constexpr Int kMostCounted = 1 << 20;  // of a start and of a step: with 1024 threads all stays below 2^31
constexpr double kValueSeconds = 1.0;  // for showing that what is stored is not negative

struct Counter {
  const Ticket* ticket = nullptr;
  std::string place;
  Int start = 0;
  std::set<uint32_t> set_at;     // barriers behind which it has been set and nothing drawn yet
  std::vector<uint32_t> stores;  // that set it
};

struct List {
  const Access* store = nullptr;
  std::string place;
  Term base = kNoTerm;  // where it begins, as an address of 32 bits
};

class Counters {
 public:
  Counters(Setting& setting, SharedUse& use)
      : setting_(setting), terms_(setting.terms), summary_(setting.summary), use_(use) {}

  bool run() {
    if (summary_.tickets.empty() || !summary_.gaps.empty() || !use_.is_clear()) return false;
    for (const Ticket& ticket : summary_.tickets) {
      const auto counter = counter_of(ticket);
      if (!counter) continue;
      describe_drawn(*counter);
      const std::vector<Var> counts = describe_counts(*counter);
      for (const List& list : lists_of(*counter)) describe_list(list, counts);
    }
    return found_;
  }

 private:
  // ---- counters

  // All writes of the variable are draws by one instruction, and stores of one constant. If one thread makes such a store on
  // the way to a barrier, whatever way the block takes there, and no draw is made between the same barriers, the variable
  // holds the constant at the barrier. If every draw is made between such a barrier and the next one, and no thread draws
  // twice there, at most as many draws follow as the block has threads.
  std::optional<Counter> counter_of(const Ticket& ticket) {
    const auto base = base_of(terms_, ticket.address);
    const auto& vars = terms_.mentions(ticket.address);
    if (!base || summary_.arrays.at(*base).space != Space::Shared || vars.size() != 1 ||
        ticket.step > kMostCounted || ticket.limit != kNoTerm || ticket.instruction->guard != ptx::kNone)
      return std::nullopt;
    Counter counter{&ticket, summary_.arrays.at(*base).name};
    const uint32_t draw = use_.at(*ticket.instruction);
    std::optional<Bits> start;
    for (const Access* write : use_.writes(counter.place)) {
      if (use_.at(*write) == draw) continue;
      const auto value = write->stored == kNoTerm ? std::nullopt : terms_.value(write->stored);
      if (!value || (start && *start != *value) || !is_at(*write, ticket)) return std::nullopt;
      start = value;
      const auto barrier = use_.set_before(*write, first_thread(terms_));
      if (!barrier || use_.meet(use_.at(*write), draw)) return std::nullopt;
      counter.set_at.insert(*barrier);
      counter.stores.push_back(use_.at(*write));
    }
    if (!start || *start > static_cast<Bits>(kMostCounted)) return std::nullopt;
    counter.start = static_cast<Int>(*start);
    const std::set<uint32_t> begins = use_.intervals().begun_by(draw);
    if (!std::includes(counter.set_at.begin(), counter.set_at.end(), begins.begin(), begins.end()))
      return std::nullopt;
    return draws_once(ticket, draw) ? std::optional(counter) : std::nullopt;
  }

  bool is_at(const Access& access, const Ticket& ticket) {
    return access.bytes * 8 == terms_.var(ticket.drawn).width &&
           use_.in_shared(access.address) == use_.in_shared(ticket.address);
  }

  // Between two barriers a thread is in one iteration of every loop around the draw.
  bool draws_once(const Ticket& ticket, uint32_t draw) const {
    const std::set<Meeting> own = use_.intervals().meetings(draw, draw);
    return std::all_of(own.begin(), own.end(), [&](const Meeting& meeting) {
      return std::all_of(ticket.loops.begin(), ticket.loops.end(), [&](Var count) {
        const auto found = meeting.ahead.find(summary_.loops.at(count).head);
        return found != meeting.ahead.end() && found->second == 0;
      });
    });
  }

  // start + step * threads, less one step for a number that was drawn: it is what was there before.
  Term most(const Counter& counter, bool drawn) {
    Term threads = terms_.constant(1, 64);
    for (const Term extent : summary_.threads) threads = terms_.mul(threads, extent);
    const Term draws = drawn ? terms_.sub(threads, terms_.constant(1, 64)) : threads;
    return terms_.add(terms_.constant(static_cast<Bits>(counter.start), 64),
                      terms_.mul(draws, terms_.constant(static_cast<Bits>(counter.ticket->step), 64)));
  }

  void state(Var var, Term fact) {
    terms_.var(var).facts.push_back(fact);
    found_ = true;
  }

  void limit(Var var, const Counter& counter, bool drawn) {
    const Term wide = terms_.zext(terms_.of(var), 64);
    state(var, terms_.compare(Op::Ule, wide, most(counter, drawn)));
    if (counter.start > 0)
      state(var, terms_.compare(Op::Ule, terms_.constant(static_cast<Bits>(counter.start), 64), wide));
  }

  void describe_drawn(const Counter& counter) { limit(counter.ticket->drawn, counter, true); }

  // What is read of the counter where no thread writes it between the same barriers, and never before it was set: what the last
  // store and the draws since have left. The variables that hold it.
  std::vector<Var> describe_counts(const Counter& counter) {
    const auto quiet = [&](const Access& read) {
      return is_at(read, *counter.ticket) &&
             !use_.meet(use_.at(read), use_.at(*counter.ticket->instruction)) &&
             std::none_of(counter.stores.begin(), counter.stores.end(),
                          [&](uint32_t store) { return use_.meet(use_.at(read), store); }) &&
             !use_.reaches_before(counter.set_at, use_.at(read));
    };
    const auto& reads = use_.reads(counter.place);
    // Variables are distinguished by their addresses: all reads of this one must be of this kind.
    if (!std::all_of(reads.begin(), reads.end(), [&](const Access* read) { return quiet(*read); })) return {};
    std::vector<Var> counts;
    for (const Access* read : reads)
      for (const Var var : use_.loaded_by(*read)) {
        limit(var, counter, false);
        counts.push_back(var);
      }
    return counts;
  }

  // ---- lists

  // An array that one instruction alone writes: at the number that the thread has just drawn, in the same block of
  // instructions, so that a thread that draws a number also stores under it before the next barrier.
  std::vector<List> lists_of(const Counter& counter) {
    std::vector<List> lists;
    const Ticket& ticket = *counter.ticket;
    if (counter.start != 0 || ticket.step != 1) return lists;
    const uint32_t draw = use_.at(*ticket.instruction);
    for (const auto& [place, writes] : use_.writes()) {
      if (place == counter.place || writes.size() != 1) continue;
      const Access& store = *writes.front();
      const uint32_t i = use_.at(store);
      if (store.stored == kNoTerm || terms_.width(store.stored) != store.bytes * 8 ||
          store.instruction->guard != ptx::kNone ||
          summary_.graph.block_of(i) != summary_.graph.block_of(draw) || i < draw)
        continue;
      if (std::any_of(use_.barriers().begin(), use_.barriers().end(),
                      [&](uint32_t b) { return b > draw && b < i; }))
        continue;
      List list{&store, place};
      bool numbered = false;
      const Ring ring = terms_.ring(use_.in_shared(store.address));
      for (const auto& [leaves, by] : ring) {
        const bool single = leaves.size() == 1;
        if (single && by == 1 && is_base(leaves.front()))
          list.base = leaves.front();
        else
          numbered = single && by == store.bytes && is_drawn(leaves.front(), ticket.drawn);
      }
      if (list.base != kNoTerm && numbered && ring.size() == 2) lists.push_back(std::move(list));
    }
    return lists;
  }

  bool is_base(Term leaf) {
    const auto& vars = terms_.mentions(leaf);
    return vars.size() == 1 && terms_.var(vars.front()).kind == VarKind::Base;
  }

  bool is_drawn(Term leaf, Var drawn) { return leaf == terms_.trunc(terms_.of(drawn), kSharedBits); }

  // An upper bound of what the list holds: `value` compared with something that is the same for all threads.
  struct Bound {
    Op op = Op::Slt;
    Term most = kNoTerm;
  };

  // That is on the path of the store.
  std::vector<Bound> bounds_of(const Access& store) {
    std::vector<Bound> bounds;
    std::vector<Term> open(store.path.begin(), store.path.end());
    while (!open.empty()) {
      const Term condition = open.back();
      open.pop_back();
      Node node = terms_[condition];
      if (node.op == Op::Both) {
        open.insert(open.end(), {node.a, node.b});
        continue;
      }
      if (node.op == Op::Not) {  // !(a < b) is b <= a
        node = terms_[node.a];
        std::swap(node.a, node.b);
        constexpr std::pair<Op, Op> kOpposite[] = {
            {Op::Slt, Op::Sle}, {Op::Sle, Op::Slt}, {Op::Ult, Op::Ule}, {Op::Ule, Op::Ult}};
        const auto* opposite = std::find_if(std::begin(kOpposite), std::end(kOpposite),
                                            [&](const auto& pair) { return pair.first == node.op; });
        if (opposite == std::end(kOpposite)) continue;
        node.op = opposite->second;
      }
      if (node.op != Op::Slt && node.op != Op::Sle && node.op != Op::Ult && node.op != Op::Ule) continue;
      if (terms_.width(node.a) != terms_.width(store.stored) ||
          terms_.canonical(node.a) != terms_.canonical(store.stored))
        continue;
      const auto& vars = terms_.mentions(node.b);
      if (std::all_of(vars.begin(), vars.end(), [&](Var v) { return terms_.var(v).kind == VarKind::Dim; }))
        bounds.push_back({node.op, node.b});
    }
    return bounds;
  }

  bool is_never_negative(const Access& store) {
    try {
      Lowering lowering(terms_, summary_, &setting_.claims, setting_.solver);
      lowering.set_deadline(std::min(kValueSeconds, setting_.until - work_seconds()));
      for (const Term condition : relevant(terms_, summary_, store.path, store.stored))
        lowering.assume(condition);
      return lowering.proves(at_least_zero(lowering.signed_value(store.stored)), kValueSeconds);
    } catch (const TooHard&) {
      return false;
    }
  }

  // What is read of the list at a place below what the thread has read of the counter was stored there. The draws between two
  // barriers give all numbers from 0 on, each to one thread, and that thread has stored before the next barrier, behind which
  // the counter is read. So what holds of everything that is stored holds of it. A load that does not happen is spoken
  // of, too, on the side of a choice that is not taken: 0 fulfils all that is said here, so that this proves nothing.
  void describe_list(const List& list, const std::vector<Var>& counts) {
    const Access& store = *list.store;
    const auto& reads = use_.reads(list.place);
    // Who reads while others store may find anything.
    if (counts.empty() || std::any_of(reads.begin(), reads.end(), [&](const Access* r) {
          return use_.meet(use_.at(*r), use_.at(store));
        }))
      return;
    const std::vector<Bound> bounds = bounds_of(store);
    const bool not_negative = is_never_negative(store);
    for (const Access* read : reads) {
      if (read->bytes != store.bytes) continue;
      const Term distance = terms_.sub(use_.in_shared(read->address), list.base);
      if (!is_multiple(distance, list, store.bytes)) continue;
      for (const Var count : counts) {
        if (!speaks_of(read->path, count)) continue;
        const unsigned width = terms_.width(distance);
        const Term end =
            terms_.mul(terms_.zext(terms_.of(count), width), terms_.constant(store.bytes, width));
        const Term beyond = terms_.negation(terms_.compare(Op::Ult, distance, end));
        for (const Var value : use_.loaded_by(*read)) describe_value(value, beyond, bounds, not_negative);
      }
    }
  }

  bool is_multiple(Term distance, const List& list, uint32_t bytes) {
    const Ring ring = terms_.ring(distance);
    return std::all_of(ring.begin(), ring.end(), [&](const auto& item) {
      const bool clean = std::none_of(item.first.begin(), item.first.end(),
                                      [&](Term leaf) { return leaf == list.base || is_base(leaf); });
      return clean && item.second % bytes == 0;
    });
  }

  bool speaks_of(const Path& path, Var var) {
    return std::any_of(path.begin(), path.end(), [&](Term condition) {
      const auto& vars = terms_.mentions(condition);
      return std::find(vars.begin(), vars.end(), var) != vars.end();
    });
  }

  void describe_value(Var value, Term beyond, const std::vector<Bound>& bounds, bool not_negative) {
    const Term loaded = terms_.of(value);
    const Term zero = terms_.constant(0, terms_.width(loaded));
    if (not_negative) state(value, terms_.either(beyond, terms_.compare(Op::Sle, zero, loaded)));
    for (const Bound& bound : bounds) {
      const Term none = terms_.negation(terms_.compare(bound.op, zero, bound.most));
      state(value, terms_.either(beyond, terms_.either(none, terms_.compare(bound.op, loaded, bound.most))));
    }
  }

  Setting& setting_;
  Terms& terms_;
  const Summary& summary_;
  SharedUse& use_;
  bool found_ = false;
};

}  // namespace

bool describe_counters(Setting& setting, SharedUse& use) {
  return Counters(setting, use).run();
}

}  // namespace assay::prove
