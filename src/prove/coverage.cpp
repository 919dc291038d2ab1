#include "prove/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <utility>

#include "prove/calls.h"
#include "prove/coverage_instance.h"
#include "prove/coverage_witness.h"
#include "prove/endings.h"

namespace assay::prove {

namespace {

constexpr size_t kMostGuesses =
    8;  // guesses of the thread for one output: a tensor in parts has one for each launch
constexpr size_t kMostStores = 40;  // looked at for one guess
constexpr double kRangeSeconds = 0.6;
constexpr const char* kMayStop = "a thread may stop the kernel (trap)";
constexpr const char* kMayWaitAtBarrier = "not all threads may reach a barrier, at which the others wait";
constexpr const char* kMayWait =
    "a kernel that is not modelled, whose threads wait for each other, may not end";
constexpr double kFirstSeconds = 1.5;  // in which most questions that have an answer are answered

struct Store {
  const LaunchedKernel* kernel = nullptr;
  const Summary* summary = nullptr;
  const Access* access = nullptr;
  Part part;
  // Of one that only the block which draws a certain number gets to: the number. Some block draws the last one, since all of
  // them draw, each once, and get different numbers.
  const GridTicket* ticket = nullptr;
  Poly offset{};  // in the lowering that looks for the thread
};

// A guessed thread of one launch, and the stores that it was guessed from.
struct Guess {
  const Summary* summary = nullptr;
  ThreadOf thread;
  const GridTicket* ticket = nullptr;
  std::set<const Access*> from{};
};

// A launch, what it does, and the numbers that its blocks draw.
struct Run {
  const LaunchedKernel* kernel = nullptr;
  Summary summary;
  std::vector<GridTicket> tickets{};
  std::deque<Access> renumbered{};  // stores by the numbers that their blocks drew
};

class OutputCoverage {
 public:
  OutputCoverage(CoverageSetting& setting, Terms& terms, Dims& dims, Summary& world, Claims& claims,
                 const Path& when)
      : setting_(setting), terms_(terms), dims_(dims), world_(world), claims_(claims), when_(when) {}

  // None: every element is written.
  std::optional<Place> check(const contract::TensorSpec& output, std::vector<Store> stores) {
    if (stores.empty()) return Place{{}, "no store to it was found", std::nullopt};
    const TensorMemory memory = memory_of(terms_, dims_, output);
    if (memory.bytes == kNoTerm) return Place{{}, "its shape is not understood", std::nullopt};
    item_ = memory.item;
    Lowering probe(terms_, world_, &claims_, setting_.solver);
    probe.take_on_trust();
    locate(probe, stores);
    if (stores.empty()) return Place{{}, "the addresses of its stores are not understood", std::nullopt};
    std::vector<Poly> offsets;
    for (const Store& store : stores) offsets.push_back(store.offset);
    const View view = view_of(terms_, probe, memory, offsets, output.name);
    find_attempts(probe, view, stores);
    if (attempts_.empty()) return Place{{}, "no thread is known to write a given element", std::nullopt};
    if (covered(view, stores)) return std::nullopt;
    return Place{{}, reason_, candidate_};
  }

 private:
  // Threads that may write an element, and whether each is taken for all stores of its launch or for those that it was guessed
  // from.
  struct Attempt {
    std::vector<Guess> guesses;
    bool own_stores = false;
    bool replaces = false;  // indices by what they were guessed to be
  };

  // First the likely thread for all stores of a launch; then for each store the one that its own address gives; then others
  // for all stores; then all of them. Questions about several threads have many products, and fewer of them are answered.
  void find_attempts(Lowering& probe, const View& view, const std::vector<Store>& stores) {
    std::vector<Guess> likely, plain, exact, every;
    for (const Store& store : stores) {
      const std::vector<ThreadOf> threads = threads_of(terms_, probe, *store.summary, view, store.offset);
      if (threads.empty()) continue;
      const bool first = std::none_of(likely.begin(), likely.end(),
                                      [&](const Guess& g) { return g.summary == store.summary; });
      if (first) include(likely, store, threads.front());
      include(plain, store, threads.front());
      include(exact, store, threads.back());
      for (const ThreadOf& thread : threads) include(every, store, thread);
    }
    if (likely.empty()) return;
    const bool one_launch = likely.size() == 1;
    std::vector<Attempt> attempts = {{likely, false}};
    if (plain.size() > likely.size() && plain.size() < exact.size() && plain.size() <= kMostGuesses)
      attempts.push_back({plain, true});
    if ((exact.size() > 1 || !(exact.front().thread == likely.front().thread)) &&
        exact.size() <= kMostGuesses)
      attempts.push_back({exact, true});
    for (const Guess& guess : every)
      if (one_launch && !(guess.thread == likely.front().thread) && attempts.size() < kMostGuesses)
        attempts.push_back({{guess}, false});
    if (every.size() > exact.size() && every.size() <= kMostGuesses) attempts.push_back({every, true});
    for (Attempt& attempt : attempts)
      for (const bool replaces : {false, true}) {
        attempts_.push_back(attempt);
        attempts_.back().replaces = replaces;
      }
  }

  // Whether every element is written. Most attempts that succeed take a moment: what is not decided then gets more
  // time when all have been made.
  bool covered(const View& view, const std::vector<Store>& stores) {
    std::vector<const Attempt*> open;
    for (const Attempt& attempt : attempts_) open.push_back(&attempt);
    for (const double seconds : {kFirstSeconds, setting_.output_seconds}) {
      std::vector<const Attempt*> undecided;
      for (const Attempt* attempt : open) {
        if (work_seconds() > setting_.until) return give_up("could not be decided in time");
        undecided_ = false;
        if (proved(view, *attempt, stores, seconds)) return true;
        if (undecided_) undecided.push_back(attempt);
      }
      open = std::move(undecided);
    }
    return false;
  }

  static void include(std::vector<Guess>& guesses, const Store& store, const ThreadOf& thread) {
    auto known = std::find_if(guesses.begin(), guesses.end(), [&](const Guess& g) {
      return g.summary == store.summary && g.thread == thread && g.ticket == store.ticket;
    });
    if (known == guesses.end()) known = guesses.insert(known, {store.summary, thread, store.ticket, {}});
    known->from.insert(store.access);
  }

  double seconds_left() const { return std::min(setting_.output_seconds, setting_.until - work_seconds()); }

  // The offsets of the stores, and only those stores that have one.
  void locate(Lowering& probe, std::vector<Store>& stores) {
    std::vector<Store> located;
    for (Store& store : stores) {
      try {
        store.offset = with_remainders(probe, offset_in(probe, store.part.address));
        located.push_back(std::move(store));
      } catch (const TooHard&) {
      }
    }
    stores = std::move(located);
  }

  Poly offset_in(Lowering& lowering, Term address) {
    const auto base = base_of(terms_, address);
    if (!base) throw TooHard{"it is not clear which array the address begins in"};
    const Poly whole = lowering.poly(address);
    const auto atom = lowering.base_atom(*base);
    if (!atom) throw TooHard{"the address is not a sum of a pointer and an offset"};
    Poly offset = add(whole, atom_poly(*atom, terms_.var(*base).multiple_of), -1);
    for (const auto& [monomial, by] : offset)
      if (std::find(monomial.begin(), monomial.end(), *atom) != monomial.end())
        throw TooHard{"the address is not a sum of a pointer and an offset"};
    return offset;
  }

  // ---- one question

  struct Question {
    Lowering lowering;
    std::deque<Instance> instances;
    std::set<std::pair<const Instance*, Var>> chosen,
        ended;                     // counts whose iteration is chosen; exits assumed
    std::map<Atom, Poly> known{};  // indices and counts that are what was wanted
    bool replaces = false;         // they are replaced by it from then on

    // The same value in terms of what was wanted. With it, e - e % s, the way from a thread's first element to e, is seen to
    // be a multiple of the stride s.
    Poly explained(const Poly& poly) const {
      Poly result;
      for (const auto& [monomial, by] : poly) {
        Poly product = constant_poly(by);
        for (const Atom atom : monomial) {
          const auto found = known.find(atom);
          product = multiply(product, found == known.end() ? atom_poly(atom) : found->second);
        }
        result = add(result, product);
      }
      return lowering.without_remainders(std::move(result));
    }
  };

  bool proved(const View& view, const Attempt& attempt, const std::vector<Store>& stores, double seconds) {
    Question q{Lowering(terms_, world_, &claims_, setting_.solver), {}, {}, {}, {}, attempt.replaces};
    q.lowering.set_deadline(std::min(seconds_left(), seconds + kRangeSeconds));
    std::vector<Formula> written;
    try {
      for (const Term condition : when_) q.lowering.assume(condition);
      for (const Coordinate& coordinate : view) (void)q.lowering.poly(coordinate.index);
      for (const Guess& guess : attempt.guesses) {
        Instance& thread = q.instances.emplace_back(terms_, world_, claims_);
        if (!exists(q, guess)) continue;
        fix_thread(q, guess, thread);
        size_t looked_at = 0;
        for (const Store& store : stores) {
          if (store.summary != guess.summary || (attempt.own_stores && !guess.from.contains(store.access)))
            continue;
          if (++looked_at > kMostStores) break;
          try {
            written.push_back(writes(q, view, store, thread));
          } catch (const TooHard& hard) {
            if (reason_.empty()) reason_ = hard.why;
          }
        }
      }
      assume_ends(q, view);
      // The element is there: so many strides, at most, lead from a thread's first element to it.
      for (const Coordinate& coordinate : view)
        q.lowering.take_quotients(
            at_least_zero(
                plus(add(q.lowering.poly(coordinate.extent), q.lowering.poly(coordinate.index), -1), -1)),
            [&](const Poly& value) { return q.explained(value); });
      if (written.empty()) return give_up(reason_.empty() ? "no store is understood" : reason_);
      const Formula missed = negated(any_of(std::move(written)));
      const Answer answer = q.lowering.ask(missed, seconds);
      if (answer.kind == Answer::Kind::Unsatisfiable) {
        // A contradiction among the assumptions would prove anything. None is known; this asks each time.
        if (q.lowering.ask(all_of({}), kRangeSeconds).kind == Answer::Kind::Unsatisfiable)
          return give_up("its shape has no elements, or the assumptions contradict each other");
        return true;
      }
      undecided_ = answer.kind == Answer::Kind::Unknown;
      if (!undecided_) look_for_shape(q, missed);
      return give_up(answer.kind == Answer::Kind::Satisfiable ? "an element may be left unwritten"
                                                              : "could not be decided in time");
    } catch (const TooHard& hard) {
      return give_up(hard.why);
    }
  }

  bool give_up(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  void look_for_shape(Question& q, const Formula& missed) {
    if (std::exchange(looked_, true) || !setting_.counterexamples) return;
    const Answer answer = q.lowering.small_model(missed, kCounterexampleSeconds,
                                                 std::min(setting_.until, work_seconds() + seconds_left()));
    if (answer.kind != Answer::Kind::Satisfiable) return;
    Candidate candidate{dims_.shape(q.lowering.values(answer)), ""};
    for (const auto& [var, value] : q.lowering.values(answer)) {
      const std::string& name = terms_.var(var).name;
      if (name.ends_with("]") && value >= 0)
        candidate.words +=
            fmt::format("{}{} = {}", candidate.words.empty() ? "" : ", ", name, decimal(value));
    }
    candidate_ = std::move(candidate);
  }

  // ---- the thread

  // A launch without threads writes nothing, and of its indices nothing holds.
  bool exists(Question& q, const Guess& guess) {
    for (unsigned i = 0; i < 3; ++i)
      for (const Term extent : {guess.summary->threads[i], guess.summary->blocks[i]})
        if (!q.lowering.proves(at_least_zero(plus(q.lowering.poly(extent), -1)), kRangeSeconds)) {
          reason_ = "a launch may have no threads";
          return false;
        }
    return true;
  }

  // index = the guess, brought into 0 to extent - 1.
  void fix_thread(Question& q, const Guess& guess, Instance& thread) {
    const Summary& summary = *guess.summary;
    for (unsigned i = 0; i < 3; ++i) {
      const std::tuple<Term, Term, Term> both[] = {
          {summary.thread[i], guess.thread.thread[i], summary.threads[i]},
          {summary.block[i], guess.thread.block[i], summary.blocks[i]}};
      for (const auto& [index, wanted, extent] : both)
        if (!terms_.is_constant(index) && !(guess.ticket && index == summary.block[i]))
          bring_within(q, thread(index), q.lowering.unsigned_value(wanted),
                       plus(q.lowering.poly(extent), -1));
    }
    // The block is the one that draws the last number, whichever that is.
    if (guess.ticket)
      q.lowering.assume(
          equal_to_zero(add(q.lowering.unsigned_value(thread(terms_.of(guess.ticket->ticket.drawn))),
                            q.lowering.unsigned_value(guess.ticket->last), -1)));
  }

  // value = wanted where 0 <= wanted <= last, otherwise the nearer end: some value fits, whatever is wanted.
  static void bring_within(Question& q, Term index, const Poly& wanted, const Poly& last) {
    const Poly value = q.lowering.poly(index);
    const auto equal = [](const Poly& a, const Poly& b) { return equal_to_zero(add(a, b, -1)); };
    const Formula low = at_least_zero(plus(scale(wanted, -1), -1)),
                  high = at_least_zero(plus(add(wanted, last, -1), -1));
    const Formula fits = all_of({at_least_zero(wanted), at_least_zero(add(last, wanted, -1))});
    if (q.lowering.proves(fits, kRangeSeconds)) {
      q.lowering.assume(equal(value, wanted));
      if (value.size() == 1 && value.begin()->first.size() == 1 && value.begin()->second == 1)
        q.known[value.begin()->first.front()] = wanted;
      if (q.replaces) q.lowering.put_in_place(index, wanted);
      return;
    }
    q.lowering.assume(at_least_zero(value));
    q.lowering.assume(at_least_zero(add(last, value, -1)));
    q.lowering.assume(any_of(
        {equal(value, wanted), all_of({low, equal_to_zero(value)}), all_of({high, equal(value, last)})}));
  }

  // ---- a store

  Formula writes(Question& q, const View& view, const Store& store, Instance& thread) {
    if (store.access->bytes < item_) return any_of({});  // never a whole element
    const std::vector<Var>& loops = store.access->loops;
    Instance* at = &thread;
    if (!loops.empty()) at = &q.instances.emplace_back(terms_, world_, claims_, &thread, loops.front());
    for (size_t i = 0; i < loops.size(); ++i) q.chosen.insert({at, loops[i]});
    for (size_t i = 0; i < loops.size(); ++i) choose_iteration(q, view, store, thread, *at, i);
    const Poly offset = offset_in(q.lowering, (*at)(store.part.address));
    const Split parts = split(q.lowering, view, offset);
    std::vector<Formula> all;
    for (size_t i = 0; i < view.size(); ++i) {
      // Equal coordinates give equal offsets; the converse is not needed.
      const Poly ahead = add(scale(q.lowering.poly(view[i].index), parts.scale[i]), parts.parts[i], -1);
      // c z s, with a stride s that all threads agree on, is 0 if z is.
      const Poly exact = q.explained(ahead);
      if (const Monomial stride = q.lowering.agreed_factor(exact); !stride.empty()) {
        Poly strides;
        for (const auto& [monomial, by] : exact) strides[without(monomial, stride)] = by;
        if (i + 1 < view.size() || store.access->bytes == item_) {
          all.push_back(equal_to_zero(strides));
          continue;
        }
      }
      // In bytes, as the store has them, only where elements lie a number of bytes apart: not where they lie a dim apart.
      const Poly stride = q.lowering.poly(view[i].stride);
      if (i + 1 < view.size() || stride.size() != 1 || !stride.begin()->first.empty()) {
        all.push_back(equal_to_zero(ahead));
        continue;
      }
      all.push_back(at_least_zero(ahead));
      all.push_back(at_least_zero(plus(scale(ahead, -1), Int{store.access->bytes} - Int{item_})));
    }
    for (const Term condition : (*at)(store.access->control)) all.push_back(q.lowering.formula(condition));
    for (const Term condition : (*at)(store.part.conditions)) all.push_back(q.lowering.formula(condition));
    return all_of(std::move(all));
  }

  // The iteration of the i-th loop around a store that puts its address on the element. It may depend only on
  // what was there when the loop began: otherwise it would not be a choice.
  void choose_iteration(Question& q, const View& view, const Store& store, Instance& thread, Instance& at,
                        size_t i) {
    const std::vector<Var>& loops = store.access->loops;
    const Var count = loops[i];
    const Loop& loop = world_.loops.at(count);
    // Nothing says in which iteration it ends, so no question would succeed.
    if (loop.returns) throw TooHard{"a thread may end inside a loop around the store"};
    Instance* last = &thread;
    if (i > 0) last = &q.instances.emplace_back(terms_, world_, claims_, &at, count);
    const Poly end = q.lowering.count(last->of(count)), chosen = q.lowering.count(at.of(count));
    std::map<Var, Term> at_start;
    for (size_t j = i; j < loops.size(); ++j) at_start[loops[j]] = terms_.constant(0, 64);
    const Term start = terms_.substitute(store.part.address, at_start);
    for (const Var var : terms_.mentions(start))
      if (var >= count && terms_.var(var).kind != VarKind::Base && terms_.var(var).kind != VarKind::Dim)
        throw TooHard{"the address of a store depends on values that its loop computes"};
    const Poly whole = offset_in(q.lowering, at(store.part.address));
    const Poly first = offset_in(q.lowering, at(start));
    const Split parts = split(q.lowering, view, whole), firsts = split(q.lowering, view, first);
    const Atom atom = chosen.begin()->first.front();
    Poly wanted;  // 0, if the address does not depend on it
    for (size_t s = 0; s < view.size(); ++s) {
      Poly step;
      for (const auto& [monomial, by] : parts.parts[s]) {
        Monomial rest = monomial;
        const auto found = std::find(rest.begin(), rest.end(), atom);
        if (found == rest.end()) continue;
        rest.erase(found);
        step[rest] += by;
      }
      if (step.empty()) continue;
      Poly distance = add(scale(q.lowering.poly(view[s].index), parts.scale[s]), firsts.parts[s], -1);
      if (!q.lowering.proves(at_least_zero(plus(step, -1)), kRangeSeconds)) {
        step = scale(step, -1);
        distance = scale(distance, -1);
        if (!q.lowering.proves(at_least_zero(plus(step, -1)), kRangeSeconds))
          throw TooHard{"a loop around a store whose step may be 0"};
      }
      wanted = q.lowering.divided(q.explained(distance), step).first;
      break;
    }
    bring_within(q, terms_.of(at.of(count)), wanted, end);
  }

  // ---- the ends of loops

  // A loop over a dim ends where its index has passed the dim's end, and so has passed the element, too. From f >= 0 and
  // extent - 1 - index >= 0 the sum of both follows; where that is z s + e with e < 0, for a stride s >= 0 that all threads
  // agree on, z s > 0 and therefore z >= 1. So many strides are no product, and solvers are quick with them.
  Formula past_the_element(Question& q, const View& view, const Formula& fact) {
    Formula result = fact;
    for (Formula& part : result.parts) part = past_the_element(q, view, part);
    if (fact.kind != Formula::Kind::AtLeastZero) return result;
    std::vector<Formula> all = {fact};
    for (const Coordinate& coordinate : view) {
      const Poly room =
          plus(add(q.lowering.poly(coordinate.extent), q.lowering.poly(coordinate.index), -1), -1);
      Poly sum = q.explained(add(fact.poly, room));
      const auto constant = sum.find({});
      if (constant == sum.end() || constant->second >= 0) continue;
      sum.erase(constant);
      const Monomial stride = q.lowering.agreed_factor(sum);
      if (stride.empty() || q.lowering.interval(Poly{{stride, 1}}).low < 0) continue;
      Poly strides;
      for (const auto& [monomial, by] : sum) strides[without(monomial, stride)] = by;
      all.push_back(at_least_zero(plus(strides, -1)));
    }
    return all.size() == 1 ? result : all_of(std::move(all));
  }

  // A loop that is entered ends by one of its exits, in the iteration that its count stands for wherever it is
  // not chosen.
  void assume_ends(Question& q, const View& view) {
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < q.instances.size(); ++i) {
        Instance& instance = q.instances[i];
        for (size_t j = 0; j < instance.counts().size(); ++j) {
          const Var count = instance.counts()[j];
          if (q.chosen.contains({&instance, count}) || !q.ended.insert({&instance, count}).second) continue;
          more = true;
          const Loop loop = world_.loops.at(count);
          if (loop.returns) continue;
          std::vector<Formula> ways;
          for (const Path& exit : loop.exits) {
            std::vector<Formula> conditions;
            for (const Term term : instance(exit))
              conditions.push_back(past_the_element(q, view, q.lowering.formula(term)));
            ways.push_back(all_of(std::move(conditions)));
          }
          std::vector<Formula> entered;
          for (const Term term : instance(loop.entered)) entered.push_back(q.lowering.formula(term));
          q.lowering.assume(any_of({negated(all_of(std::move(entered))), any_of(std::move(ways))}));
        }
      }
    }
  }

  CoverageSetting& setting_;
  Terms& terms_;
  Dims& dims_;
  Summary& world_;
  Claims& claims_;
  const Path& when_;
  unsigned item_ = 1;
  std::string reason_;
  std::vector<Attempt> attempts_;
  bool undecided_ = false, looked_ = false;
  std::optional<Candidate> candidate_;
};

// Whether the host fills all of an output, or it has no elements.
bool filled(CoverageSetting& setting, Terms& terms, Dims& dims, const Summary& world, Claims& claims,
            const Case& one, const contract::TensorSpec& output, const Path& when) {
  const Term needed = memory_of(terms, dims, output).bytes;
  if (needed == kNoTerm) return false;
  Lowering empty(terms, world, &claims, setting.solver);
  for (const Term condition : when) empty.assume(condition);
  if (empty.proves(at_least_zero(scale(empty.poly(needed), -1)), kRangeSeconds)) return true;
  for (const Fill& fill : one.fills) {
    if (fill.array != output.name || !fill.offset || !fill.bytes) continue;
    const auto offset = dims.term(*fill.offset), bytes = dims.term(*fill.bytes);
    if (!offset || terms.value(*offset) != Bits{0} || !bytes) continue;
    Lowering lowering(terms, world, &claims, setting.solver);
    for (const Term condition : when) lowering.assume(condition);
    if (lowering.proves(at_least_zero(add(lowering.poly(*bytes), lowering.poly(needed), -1)), kRangeSeconds))
      return true;
  }
  return false;
}

// The number that decides whether a block gets to a store, if every block draws one.
const GridTicket* ticket_of(Terms& terms, const Access& store, const std::vector<GridTicket>& tickets) {
  const bool decides = std::any_of(store.control.begin(), store.control.end(), [&](Term condition) {
    const auto& vars = terms.mentions(condition);
    return std::any_of(vars.begin(), vars.end(), [&](Var v) { return terms.var(v).is_of_block; });
  });
  const auto certain =
      std::find_if(tickets.begin(), tickets.end(), [](const GridTicket& ticket) { return ticket.certain; });
  return decides && certain != tickets.end() ? &*certain : nullptr;
}

// The stores to an output: to one of its bases, without anything else that may decide where they go.
std::vector<Store> stores_to(Terms& terms, const std::deque<Run>& runs, const std::string& output) {
  std::vector<Store> stores;
  for (const auto& [kernel, summary, tickets, renumbered] : runs) {
    std::vector<const Access*> writes;
    for (const Access& access : summary.accesses)
      if (access.effect == Effect::Write) writes.push_back(&access);
    for (const Access& access : renumbered) writes.push_back(&access);
    for (const Access* write : writes) {
      const Access& access = *write;
      for (Part& part : parts_of(terms, access)) {
        const auto base = base_of(terms, part.address);
        if (base && summary.arrays.contains(*base) && summary.arrays.at(*base).name == output &&
            summary.arrays.at(*base).is_reached_from(access.space))
          stores.push_back({kernel, &summary, &access, std::move(part), ticket_of(terms, access, tickets)});
      }
    }
  }
  return stores;
}

// Every block draws one of the numbers from 0 to blocks - 1, and no two draw the same. So where a store depends on the block only
// through the number that it drew, blocks may be called by that number: the store is as if it had the block's index (along x, of
// which there are no more than blocks) in its place. Only for stores outside of loops: how often those go round may depend on the
// index, too, and nothing looks at that here.
std::optional<Access> by_number(Terms& terms, const Run& run, const Access& access,
                                const std::map<Var, Term>& broadcast) {
  const Summary& summary = run.summary;
  const auto numbers = std::find_if(run.tickets.begin(), run.tickets.end(),
                                    [](const GridTicket& t) { return t.certain && t.ticket.step == 1; });
  if (access.effect != Effect::Write || !access.loops.empty() || numbers == run.tickets.end() ||
      terms.is_constant(summary.block[0]) || terms.var(numbers->ticket.drawn).width != 32)
    return std::nullopt;
  const auto mentions = [&](Term term, auto holds) {
    const std::vector<Var> vars = terms.mentions(term);
    return std::any_of(vars.begin(), vars.end(), holds);
  };
  const auto depends_otherwise = [&](Term term) {
    return mentions(term, [&](Var v) {
      return terms.var(v).kind == VarKind::Block || terms.var(v).kind == VarKind::Count;
    });
  };
  const auto put = [&](Term term) {
    return terms.substitute(terms.substitute(term, broadcast), {{numbers->ticket.drawn, summary.block[0]}});
  };
  if (depends_otherwise(access.address) ||
      std::any_of(access.control.begin(), access.control.end(), depends_otherwise))
    return std::nullopt;
  for (const auto& [var, stored] : broadcast)
    if (depends_otherwise(stored)) return std::nullopt;
  Access result = access;
  result.address = put(access.address);
  if (result.address == access.address) return std::nullopt;
  for (Term& condition : result.control) condition = put(condition);
  for (Term& condition : result.path) condition = put(condition);
  return result;
}

// Whether a thread may stop the grid (`trap`): then what the others have not written yet is never written, by later launches
// neither.
bool may_stop(CoverageSetting& setting, Terms& terms, const Summary& summary) {
  Claims claims(terms, summary, setting.solver);
  const auto never = [&](const Stop& stop) {
    try {
      Lowering lowering(terms, summary, &claims, setting.solver);
      lowering.set_deadline(std::min(kRangeSeconds, setting.until - work_seconds()));
      for (const Term condition : stop.path) lowering.assume(condition);
      return lowering.ask(all_of({}), kRangeSeconds).kind == Answer::Kind::Unsatisfiable;
    } catch (const TooHard&) {
      return false;
    }
  };
  return !std::all_of(summary.stops.begin(), summary.stops.end(), never);
}

// The same of a kernel that is not understood: of its text.
bool may_stop(const LaunchedKernel& kernel) {
  using ptx::Opcode;
  return std::any_of(kernel.kernel->body.begin(), kernel.kernel->body.end(), [&](const ptx::Instruction& i) {
    return i.opcode == Opcode::trap || i.opcode == Opcode::brkpt ||
           (i.opcode == Opcode::call && !calls_a_computation(*kernel.module, i));
  });
}

// Whether a kernel that is not understood has threads that wait for each other.
bool may_wait(const LaunchedKernel& kernel) {
  using ptx::Opcode;
  constexpr Opcode kWaits[] = {Opcode::bar_sync,           Opcode::bar_red,
                               Opcode::barrier_sync,       Opcode::barrier_red,
                               Opcode::bar_warp_sync,      Opcode::barrier_cluster_wait,
                               Opcode::mbarrier_test_wait, Opcode::mbarrier_try_wait};
  return can_listen(*kernel.kernel) ||
         std::any_of(kernel.kernel->body.begin(), kernel.kernel->body.end(), [&](const ptx::Instruction& i) {
           return std::find(std::begin(kWaits), std::end(kWaits), i.opcode) != std::end(kWaits);
         });
}

// What a kernel's blocks draw, and what they leave for their threads. Why nothing of the call counts as written, empty if it
// does: a thread that waits for ever, at a barrier that another one does not come to (so that the values that they exchange are
// not what they are taken for, either) or in a loop, keeps its launch and all later ones from ending.
std::string describe(CoverageSetting& setting, Terms& terms, Dims& dims, Run& run) {
  const auto is_global = [&](const Ticket& ticket) {
    const auto base = base_of(terms, ticket.address);
    return base && run.summary.arrays.at(*base).space == ptx::Space::Global;
  };
  const bool draws = std::any_of(run.summary.tickets.begin(), run.summary.tickets.end(), is_global);
  const auto known = setting.threads_agree.find(run.kernel->kernel->name);
  const bool asks = known == setting.threads_agree.end() && !run.summary.barriers.empty();
  if (known != setting.threads_agree.end() && !known->second) return kMayWaitAtBarrier;
  if (!draws && !asks && !can_listen(*run.kernel->kernel)) return "";
  Claims claims(terms, run.summary, setting.solver);
  Setting of_kernel{terms,       dims,   *run.kernel->module, *run.kernel->kernel, *run.kernel->launch,
                    run.summary, claims, setting.solver};
  of_kernel.until = setting.until;
  of_kernel.most_counterexamples = 0;
  if (draws || asks) describe_messages(of_kernel);
  if (asks && !prove_barriers(of_kernel).threads_agree) return kMayWaitAtBarrier;
  if (draws) {
    run.tickets = of_kernel.grid_tickets;
    for (const Access& access : run.summary.accesses)
      if (auto renumbered = by_number(terms, run, access, of_kernel.broadcast))
        run.renumbered.push_back(std::move(*renumbered));
  }
  return Endings(of_kernel).of_listening() ? "" : "a loop that waits for another thread may not end";
}

}  // namespace

void prove_coverage(CoverageSetting& setting, const Case& one, const std::vector<LaunchedKernel>& kernels,
                    Obligation& result) {
  const double start = work_seconds();
  Terms terms;
  Dims dims(terms, setting.contract, limits_of(one.when));
  Summary world;
  std::deque<Run> runs;
  std::string gap, stops;  // why a launch counts for nothing, or all of them do
  for (const LaunchedKernel& kernel : kernels) {
    auto summary = execute(terms, dims, *kernel.module, *kernel.kernel, *kernel.launch, setting.changed);
    // What is not modelled may end a thread before its stores: such a launch counts for nothing.
    if (!summary || !summary->gaps.empty()) {
      gap = summary ? summary->gaps.front() : summary.error().message;
      if (may_wait(kernel)) stops = kMayWait;
      if (may_stop(kernel)) stops = kMayStop;
      continue;
    }
    if (may_stop(setting, terms, *summary)) stops = kMayStop;
    Run run{&kernel, std::move(*summary)};
    if (std::string doubt = describe(setting, terms, dims, run); !doubt.empty()) {
      stops = std::move(doubt);
      continue;
    }
    world.loops.insert(run.summary.loops.begin(), run.summary.loops.end());
    world.arrays.insert(run.summary.arrays.begin(), run.summary.arrays.end());
    runs.push_back(std::move(run));
  }
  Claims claims(terms, world, setting.solver);
  const Path when = conditions_of(terms, dims, one.when);
  const auto is_filled = [&](const contract::TensorSpec& output) {
    try {
      return filled(setting, terms, dims, world, claims, one, output, when);
    } catch (const TooHard&) {
      return false;
    }
  };
  // What the host fills takes no time, and is not to wait for what does.
  std::set<std::string> done;
  for (const contract::TensorSpec& output : setting.contract.tensors)
    if (stops.empty() && output.role == contract::Role::Out && is_filled(output)) done.insert(output.name);
  for (const contract::TensorSpec& output : setting.contract.tensors) {
    if (output.role != contract::Role::Out) continue;
    ++result.total;
    if (done.contains(output.name)) continue;
    std::optional<Place> place;
    std::vector<Store> stores = stores_to(terms, runs, output.name);
    Where where;
    if (!stores.empty()) {
      const Store& first = stores.front();
      Setting of_kernel{terms, dims,   *first.kernel->module, *first.kernel->kernel, *first.kernel->launch,
                        world, claims, setting.solver};
      where = of_kernel.where(*first.access->instruction);
    }
    try {
      if (!stops.empty())
        place = Place{{}, stops, std::nullopt};
      else if (work_seconds() > setting.until)
        place = Place{{}, "time ran out", std::nullopt};
      else
        place = OutputCoverage(setting, terms, dims, world, claims, when).check(output, std::move(stores));
    } catch (const TooHard& hard) {
      place = Place{{}, hard.why, std::nullopt};
    }
    if (!place) continue;
    if (!gap.empty() && !place->candidate) place->reason = gap;
    place->where = where;
    place->reason = fmt::format("{}: {}", output.name, place->reason);
    result.open.push_back(std::move(*place));
  }
  result.seconds += work_seconds() - start;
}

}  // namespace assay::prove
