// Every thread of a block reaches a barrier, or none does; and so for the lanes of a warp that an operation
// names.
//
// Each condition that decides whether a thread gets there must be the same for all of them. Most conditions
// depend on nothing that differs between threads. For the others two threads are compared: the question is
// whether the condition can hold for one and fail for the other, in the same block (the same warp) and the same
// iteration of the loops around it. The threads must also agree on whether a loop continues, or one would meet
// the barrier in an iteration that another never makes. How many iterations an earlier loop ran does not matter
// if the loop has a single exit, but it must end: that is proved for every loop from which the barrier can be
// reached.
//
// An operation of a warp names its lanes. Those that it names must all reach it, and no others.
#include <fmt/format.h>

#include <algorithm>

#include "prove/endings.h"
#include "prove/other_thread.h"

namespace assay::prove {

namespace {

constexpr double kBarrierSeconds = 3;
constexpr uint32_t kAllLanes = 0xffffffff;
constexpr unsigned kWarpSize = 32;

// Why a barrier is not proved.
struct Problem {
  std::string reason;
  std::optional<Candidate> candidate{};
  bool of_loop = false;  // nothing else is wrong but that a loop before it may not end
};

class Uniformity {
 public:
  Uniformity(Setting& setting, const Barrier& barrier)
      : setting_(setting), terms_(setting.terms), barrier_(barrier) {}

  // None: it is proved.
  std::optional<Problem> problem(Endings& endings) {
    if (auto wrong = barrier_.of_warp ? wrong_mask() : wrong_count()) return wrong;
    Path conditions = barrier_.control;
    for (const Var loop : barrier_.loops) {
      const auto found = setting_.summary.loops.find(loop);
      if (found == setting_.summary.loops.end()) return Problem{"a loop around it is not understood"};
      conditions.insert(conditions.end(), found->second.again.begin(), found->second.again.end());
    }
    for (const Term condition : conditions)
      if (!agreed(condition)) return Problem{"not all threads may get here", std::move(candidate_)};
    if (!endings.before(*barrier_.instruction))
      return Problem{"a loop before it may not end", std::nullopt, true};
    return std::nullopt;
  }

 private:
  std::optional<Candidate> any_shape() const { return Candidate{setting_.dims.shape({}), ""}; }

  // A barrier for as many threads as the block has, or one that does not say how many.
  std::optional<Problem> wrong_count() {
    const ptx::Instruction& i = *barrier_.instruction;
    const bool reduces = i.opcode == ptx::Opcode::bar_red || i.opcode == ptx::Opcode::barrier_red;
    const size_t number = reduces ? 1 : 0, all = reduces ? 3 : 1;
    if (i.operands[number].kind != ptx::Operand::Kind::Immediate)
      return Problem{"the barrier number is computed"};
    if (i.operands.size() == all) return std::nullopt;
    const auto threads = block_size();
    const ptx::Operand& count = i.operands[number + 1];
    if (threads && count.kind == ptx::Operand::Kind::Immediate && count.bits == *threads) return std::nullopt;
    return Problem{"its thread count differs from the block's", any_shape()};
  }

  std::optional<Problem> wrong_mask() {
    const auto threads = block_size();
    const auto mask = terms_.value(barrier_.mask);
    if (!mask) return Problem{"the mask of the lanes is computed"};
    if (!threads || *threads % kWarpSize != 0) return Problem{"the block may not be made of whole warps"};
    if (*mask == kAllLanes) return std::nullopt;
    // Who gets here is named.
    mask_ = static_cast<uint32_t>(*mask);
    try {
      Lowering lowering(terms_, setting_.summary, &setting_.claims, setting_.solver);
      lowering.set_deadline(kBarrierSeconds);
      for (const Term condition : barrier_.control) lowering.assume(condition);
      if (lowering.proves(lowering.formula(is_named(linear_thread())), kBarrierSeconds)) return std::nullopt;
    } catch (const TooHard&) {
    }
    return Problem{"a lane that the mask does not name may get here", any_shape()};
  }

  std::optional<Bits> block_size() const {
    Bits threads = 1;
    for (const Term extent : setting_.summary.threads) {
      const auto known = terms_.value(extent);
      if (!known) return std::nullopt;
      threads *= *known;
    }
    return threads;
  }

  // The thread's bit of the mask is set: its lane lies in one of the runs of ones.
  Term is_named(Term linear) {
    const Term lane = terms_.bitwise(Op::And, linear, terms_.constant(kWarpSize - 1, 64));
    Term any = terms_.truth(false);
    for (unsigned from = 0; from < kWarpSize; ++from) {
      if (!(mask_ >> from & 1)) continue;
      unsigned to = from;
      while (to + 1 < kWarpSize && (mask_ >> (to + 1) & 1)) ++to;
      any = terms_.either(any, terms_.both(terms_.compare(Op::Ule, terms_.constant(from, 64), lane),
                                           terms_.compare(Op::Ule, lane, terms_.constant(to, 64))));
      from = to;
    }
    return any;
  }

  bool differs(Var var) const {
    const auto is_around = [&](Var count) {
      return std::find(barrier_.loops.begin(), barrier_.loops.end(), count) != barrier_.loops.end();
    };
    const VarKind kind = terms_.var(var).kind;
    if (kind == VarKind::Count) return !is_around(var);
    if (kind != VarKind::Unknown) return kind == VarKind::Thread;
    if (terms_.var(var).is_of_block) return false;
    if (terms_.var(var).is_fixed) {
      const std::vector<Var> vars = terms_.mentions(terms_.var(var).loaded_from);
      return std::any_of(vars.begin(), vars.end(), [&](Var v) { return differs(v); });
    }
    const auto count = shifted_in(terms_, setting_.summary, var);
    return !count || !is_around(*count);
  }

  Term linear_thread() const {
    const Var none = terms_.variables();
    Term index[3] = {kNoTerm, kNoTerm, kNoTerm};
    for (Var var = 0; var < none; ++var)
      for (unsigned axis = 0; axis < 3; ++axis)
        if (terms_.var(var).name == fmt::format("tid.{}", "xyz"[axis]))
          index[axis] = terms_.zext(terms_.of(var), 64);
    Term linear = terms_.constant(0, 64);
    for (int axis = 2; axis >= 0; --axis)
      linear = terms_.add(terms_.mul(linear, setting_.summary.threads[axis]),
                          index[axis] == kNoTerm ? terms_.constant(0, 64) : index[axis]);
    return linear;
  }

  bool agreed(Term condition) {
    const std::vector<Var> vars = terms_.mentions(condition);
    if (std::none_of(vars.begin(), vars.end(), [&](Var v) { return differs(v); })) return true;
    OtherThread other(terms_, [&](Var var) { return !differs(var); });
    const Term theirs = other(condition);
    try {
      Lowering lowering(terms_, setting_.summary, &setting_.claims, setting_.solver);
      lowering.set_deadline(kBarrierSeconds);
      if (barrier_.of_warp) {
        const Term mine = linear_thread(), warp = terms_.constant(5, 64);
        lowering.assume(terms_.compare(Op::Eq, terms_.bitwise(Op::LShr, mine, warp),
                                       terms_.bitwise(Op::LShr, other(mine), warp)));
        if (mask_ != kAllLanes) lowering.assume(is_named(other(mine)));
      }
      for (const Term earlier : barrier_.control)
        if (earlier != condition &&
            std::none_of(terms_.mentions(earlier).begin(), terms_.mentions(earlier).end(),
                         [&](Var v) { return differs(v); }))
          lowering.assume(earlier);
      lowering.assume(condition);
      const Formula goal = lowering.formula(terms_.negation(theirs));
      if (lowering.ask(goal, kBarrierSeconds).kind == Answer::Kind::Unsatisfiable) return true;
      find_candidate(lowering, goal);
    } catch (const TooHard&) {
    }
    return false;
  }

  // A shape where the two part. What else happens on the way is left open.
  void find_candidate(Lowering& lowering, const Formula& goal) {
    if (setting_.most_counterexamples == 0) return;
    const Answer answer = lowering.small_model(goal, kCounterexampleSeconds, setting_.until);
    if (answer.kind == Answer::Kind::Satisfiable)
      candidate_ = Candidate{setting_.dims.shape(lowering.values(answer)), ""};
  }

  Setting& setting_;
  Terms& terms_;
  const Barrier& barrier_;
  uint32_t mask_ = kAllLanes;
  std::optional<Candidate> candidate_;
};

}  // namespace

Obligation prove_barriers(Setting& setting) {
  Obligation result;
  result.kernel = setting.kernel.name;
  result.name = "barrier";
  const double start = work_seconds();
  Endings endings(setting);
  result.threads_agree = setting.summary.gaps.empty();
  for (const Barrier& barrier : setting.summary.barriers) {
    ++result.total;
    auto problem = setting.out_of_time() ? std::optional(Problem{"time ran out"})
                                         : Uniformity(setting, barrier).problem(endings);
    if (problem) {
      result.threads_agree &= problem->of_loop;
      Place place = setting.place(*barrier.instruction, std::move(problem->reason));
      place.candidate = std::move(problem->candidate);
      result.open.push_back(std::move(place));
    } else {
      result.proved.push_back(setting.place(*barrier.instruction));
    }
  }
  for (const std::string& gap : setting.summary.gaps) result.open.push_back({{}, gap, std::nullopt});
  // A thread that waits for ever is a deadlock, too, and with no barrier behind it nothing has asked for the end of its loop.
  if (result.open.empty() && can_listen(setting.kernel) && !endings.of_listening())
    result.open.push_back({{}, "a loop that waits for another thread may not end", std::nullopt});
  result.status = result.open.empty() ? Status::Proved : Status::Unknown;
  result.seconds = work_seconds() - start;
  return result;
}

}  // namespace assay::prove
