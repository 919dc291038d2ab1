#include "prove/counters.h"

#include <algorithm>
#include <memory>
#include <set>

#include "prove/race_intervals.h"

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
  explicit Counters(Setting& setting) : setting_(setting), terms_(setting.terms), summary_(setting.summary) {}

  bool run() {
    if (summary_.tickets.empty() || !summary_.gaps.empty() || !gather()) return false;
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
  uint32_t at(const ptx::Instruction& instruction) const {
    return static_cast<uint32_t>(&instruction - setting_.kernel.body.data());
  }
  uint32_t at(const Access& access) const { return at(*access.instruction); }

  // False: it is not clear what is written to shared memory.
  bool gather() {
    for (const Access& access : summary_.accesses) {
      if (access.space != Space::Shared && access.space != Space::Generic) continue;
      const auto base = base_of(terms_, access.address);
      if (!base && access.effect != Effect::Read) return false;
      if (!base || summary_.arrays.at(*base).space != Space::Shared) continue;
      const std::string& place = summary_.arrays.at(*base).name;
      (access.effect == Effect::Read ? reads_ : writes_)[place].push_back(&access);
      accesses_.insert(at(access));
    }
    for (uint32_t i = 0; i < setting_.kernel.body.size(); ++i)
      if (orders_block(setting_.kernel.body[i])) barriers_.insert(i);
    intervals_ = std::make_unique<Intervals>(summary_.graph, setting_.kernel, barriers_, accesses_);
    return true;
  }

  bool meet(uint32_t a, uint32_t b) const { return !intervals_->meetings(a, b).empty(); }

  // ---- counters

  // All writes of the variable are draws by one instruction, and stores of one constant. If one thread makes such a store on
  // the way to a barrier, whatever way the block takes there, and no draw is made between the same barriers, the variable
  // holds the constant at the barrier. If every draw is made between such a barrier and the next one, and no thread draws
  // twice there, at most as many draws follow as the block has threads.
  std::optional<Counter> counter_of(const Ticket& ticket) {
    const auto base = base_of(terms_, ticket.address);
    const auto& vars = terms_.mentions(ticket.address);
    if (!base || summary_.arrays.at(*base).space != Space::Shared || vars.size() != 1 ||
        ticket.step > kMostCounted || ticket.instruction->guard != ptx::kNone)
      return std::nullopt;
    Counter counter{&ticket, summary_.arrays.at(*base).name};
    const uint32_t draw = at(*ticket.instruction);
    std::optional<Bits> start;
    for (const Access* write : writes_[counter.place]) {
      if (at(*write) == draw) continue;
      const auto value = write->stored == kNoTerm ? std::nullopt : terms_.value(write->stored);
      if (!value || (start && *start != *value) || !is_at(*write, ticket)) return std::nullopt;
      start = value;
      const auto barrier = set_before(*write);
      if (!barrier || meet(at(*write), draw)) return std::nullopt;
      counter.set_at.insert(*barrier);
      counter.stores.push_back(at(*write));
    }
    if (!start || *start > static_cast<Bits>(kMostCounted)) return std::nullopt;
    counter.start = static_cast<Int>(*start);
    const std::set<uint32_t> begins = intervals_->begun_by(draw);
    if (!std::includes(counter.set_at.begin(), counter.set_at.end(), begins.begin(), begins.end()))
      return std::nullopt;
    return draws_once(ticket, draw) ? std::optional(counter) : std::nullopt;
  }

  bool is_at(const Access& access, const Ticket& ticket) {
    return access.bytes * 8 == terms_.var(ticket.drawn).width &&
           in_shared(access.address) == in_shared(ticket.address);
  }

  // Compilers write one address with 64 bits (a symbol) and with 32 (a register); shared addresses lie below 2^24.
  Term in_shared(Term address) { return terms_.canonical(terms_.trunc(address, kSharedBits)); }

  // Between two barriers a thread is in one iteration of every loop around the draw.
  bool draws_once(const Ticket& ticket, uint32_t draw) const {
    const std::set<Meeting> own = intervals_->meetings(draw, draw);
    return std::all_of(own.begin(), own.end(), [&](const Meeting& meeting) {
      return std::all_of(ticket.loops.begin(), ticket.loops.end(), [&](Var count) {
        const auto found = meeting.ahead.find(summary_.loops.at(count).head);
        return found != meeting.ahead.end() && found->second == 0;
      });
    });
  }

  // The barrier that comes next after a store on every way, without going round a loop, if the thread 0, 0, 0 makes the store
  // whenever it comes to the barrier: it is in the same loops, and what decides beyond the barrier's own conditions holds for
  // that thread, which every block has.
  std::optional<uint32_t> set_before(const Access& store) {
    const auto barrier = next_barrier(at(store));
    if (!barrier) return std::nullopt;
    const auto info =
        std::find_if(summary_.barriers.begin(), summary_.barriers.end(),
                     [&](const Barrier& one) { return one.instruction && at(*one.instruction) == *barrier; });
    if (info == summary_.barriers.end() || info->loops != store.loops ||
        info->control.size() > store.control.size() ||
        !std::equal(info->control.begin(), info->control.end(), store.control.begin()))
      return std::nullopt;
    std::map<Var, Term> first;
    for (const Term index : summary_.thread)
      if (!terms_.is_constant(index)) first[terms_.mentions(index).front()] = terms_.constant(0, 32);
    for (size_t i = info->control.size(); i < store.control.size(); ++i)
      if (terms_.value(terms_.substitute(store.control[i], first)) != Bits{1}) return std::nullopt;
    return barrier;
  }

  std::optional<uint32_t> next_barrier(uint32_t from) const {
    const Graph& graph = summary_.graph;
    std::optional<uint32_t> found;
    std::set<uint32_t> seen;
    std::vector<std::pair<uint32_t, uint32_t>> open = {{block_of(from), from + 1}};
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

  uint32_t block_of(uint32_t instruction) const {
    const auto& blocks = summary_.graph.blocks;
    return static_cast<uint32_t>(std::find_if(blocks.begin(), blocks.end(),
                                              [&](const Block& block) {
                                                return instruction >= block.first && instruction < block.end;
                                              }) -
                                 blocks.begin());
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

  // What is read of the counter where nobody writes it between the same barriers, and never before it was set: what the last
  // store and the draws since have left. The variables that hold it.
  std::vector<Var> describe_counts(const Counter& counter) {
    const auto quiet = [&](const Access& read) {
      return is_at(read, *counter.ticket) && !meet(at(read), at(*counter.ticket->instruction)) &&
             std::none_of(counter.stores.begin(), counter.stores.end(),
                          [&](uint32_t store) { return meet(at(read), store); }) &&
             !reaches_before(counter.set_at, at(read));
    };
    const auto& reads = reads_[counter.place];
    // Variables are told apart by their addresses: all reads of this one must be of this kind.
    if (!std::all_of(reads.begin(), reads.end(), [&](const Access* read) { return quiet(*read); })) return {};
    std::vector<Var> counts;
    for (const Access* read : reads)
      for (const Var var : loaded_by(*read)) {
        limit(var, counter, false);
        counts.push_back(var);
      }
    return counts;
  }

  // Whether an instruction can be reached from the kernel's beginning without passing one of these barriers.
  bool reaches_before(const std::set<uint32_t>& barriers, uint32_t to) const {
    const Graph& graph = summary_.graph;
    std::set<uint32_t> seen;
    std::vector<uint32_t> open = {graph.order.front()};
    while (!open.empty()) {
      const uint32_t block = open.back();
      open.pop_back();
      if (!seen.insert(block).second) continue;
      bool stopped = false;
      for (uint32_t i = graph.blocks[block].first; i < graph.blocks[block].end && !stopped; ++i) {
        if (i == to) return true;
        stopped = barriers.contains(i);
      }
      if (!stopped) open.insert(open.end(), graph.blocks[block].next.begin(), graph.blocks[block].next.end());
    }
    return false;
  }

  std::vector<Var> loaded_by(const Access& read) {
    std::vector<Var> vars;
    const Term from = terms_.canonical(read.address);
    for (Var var = 0; var < terms_.variables(); ++var) {
      const Variable& variable = terms_.var(var);
      if (variable.kind == VarKind::Unknown && variable.loaded_from != kNoTerm &&
          variable.width == read.bytes * 8 && terms_.canonical(variable.loaded_from) == from &&
          std::find(vars.begin(), vars.end(), var) == vars.end())
        vars.push_back(var);
    }
    return vars;
  }

  // ---- lists

  // An array that one instruction alone writes: at the number that the thread has just drawn, in the same block of
  // instructions, so that whoever draws a number also stores under it before the next barrier.
  std::vector<List> lists_of(const Counter& counter) {
    std::vector<List> lists;
    const Ticket& ticket = *counter.ticket;
    if (counter.start != 0 || ticket.step != 1) return lists;
    const uint32_t draw = at(*ticket.instruction);
    for (const auto& [place, writes] : writes_) {
      if (place == counter.place || writes.size() != 1) continue;
      const Access& store = *writes.front();
      const uint32_t i = at(store);
      if (store.stored == kNoTerm || terms_.width(store.stored) != store.bytes * 8 ||
          store.instruction->guard != ptx::kNone || block_of(i) != block_of(draw) || i < draw)
        continue;
      if (std::any_of(barriers_.begin(), barriers_.end(), [&](uint32_t b) { return b > draw && b < i; }))
        continue;
      List list{&store, place};
      bool numbered = false;
      const Ring ring = terms_.ring(in_shared(store.address));
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
    const auto& reads = reads_[list.place];
    // Who reads while others store may find anything.
    if (counts.empty() ||
        std::any_of(reads.begin(), reads.end(), [&](const Access* r) { return meet(at(*r), at(store)); }))
      return;
    const std::vector<Bound> bounds = bounds_of(store);
    const bool not_negative = is_never_negative(store);
    for (const Access* read : reads) {
      if (read->bytes != store.bytes) continue;
      const Term distance = terms_.sub(in_shared(read->address), list.base);
      if (!is_multiple(distance, list, store.bytes)) continue;
      for (const Var count : counts) {
        if (!speaks_of(read->path, count)) continue;
        const unsigned width = terms_.width(distance);
        const Term end =
            terms_.mul(terms_.zext(terms_.of(count), width), terms_.constant(store.bytes, width));
        const Term beyond = terms_.negation(terms_.compare(Op::Ult, distance, end));
        for (const Var value : loaded_by(*read)) describe_value(value, beyond, bounds, not_negative);
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
  std::map<std::string, std::vector<const Access*>> reads_, writes_;  // of shared arrays, by name
  std::set<uint32_t> barriers_, accesses_;
  std::unique_ptr<Intervals> intervals_;
  bool found_ = false;
};

}  // namespace

bool describe_counters(Setting& setting) {
  return Counters(setting).run();
}

}  // namespace assay::prove
