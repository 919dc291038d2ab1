// The launch is one that the hardware takes, for every shape: no empty grid, no extent beyond its limit, no
// more shared memory than the kernel was allowed.
#include <fmt/format.h>

#include "prove/obligation.h"

namespace assay::prove {

namespace {

constexpr Int kMostTogether = 1024;

class Legality {
 public:
  Legality(Setting& setting, Obligation& result) : setting_(setting), result_(result) {}

  void run() {
    for (size_t axis = 0; axis < 3; ++axis) {
      between(fmt::format("grid.{}", "xyz"[axis]), setting_.launch.grid[axis], 1, kMostBlocks[axis]);
      // `.reqntid` asks for one size; an axis that it leaves out has one thread.
      const auto& required = setting_.kernel.required_threads;
      const Int size = required[0] == 0 ? 0 : std::max(required[axis], 1u);
      between(fmt::format("block.{}", "xyz"[axis]), setting_.launch.block[axis], std::max<Int>(size, 1),
              size == 0 ? kMostThreads[axis] : size);
    }
    const auto& block = setting_.launch.block;
    if (block[0] && block[1] && block[2]) {
      Int most = kMostTogether;
      const auto& limit = setting_.kernel.max_threads;
      if (limit[0] != 0)
        most = std::min<Int>(most, Int{limit[0]} * std::max(limit[1], 1u) * std::max(limit[2], 1u));
      const auto times = [](const ExprPtr& a, const ExprPtr& b) { return Expr::make(Expr::Op::Mul, a, b); };
      between("the number of threads of a block", times(times(block[0], block[1]), block[2]), 1, most);
    }
    if (setting_.launch.shared_limit && setting_.launch.dynamic_shared) {
      ++result_.total;
      const ExprPtr room =
          Expr::make(Expr::Op::Sub, setting_.launch.shared_limit, setting_.launch.dynamic_shared);
      between("the dynamic shared memory that is left", room, 0, Int{1} << 40);
    } else {
      open("the shared memory of the launch is not known for every shape", std::nullopt);
    }
    if (setting_.launch.clusters) open("clusters are not modelled", std::nullopt);
    if (setting_.launch.cooperative)
      open("whether all blocks of a cooperative launch are resident is not modelled", std::nullopt);
  }

 private:
  void open(std::string reason, std::optional<Candidate> candidate) {
    result_.open.push_back({{}, std::move(reason), std::move(candidate)});
  }

  void between(const std::string& what, const ExprPtr& expr, Int low, Int high) {
    ++result_.total;
    if (!expr) return open(fmt::format("{} is not known for every shape", what), std::nullopt);
    const auto range = interval(*expr, setting_.dims.contract());
    if (range && range->low >= low && range->high <= high) return;
    const auto term = setting_.dims.term(*expr);
    if (!term)
      return open(fmt::format("{} = {} may be too large for the prover", what, text(*expr)), std::nullopt);
    Lowering lowering(setting_.terms, setting_.summary, &setting_.claims, setting_.solver);
    try {
      for (const Term condition : conditions_of(setting_.terms, setting_.dims, setting_.launch.when))
        lowering.assume(condition);
      const Poly value = lowering.signed_value(*term);
      const Formula bad =
          any_of({at_least_zero(plus(scale(value, -1), low - 1)), at_least_zero(plus(value, -high - 1))});
      const Answer answer = lowering.ask(bad, setting_.access_seconds);
      if (answer.kind == Answer::Kind::Unsatisfiable) return;
      std::optional<Candidate> candidate;
      const Answer exact = lowering.ask_nonlinear(bad, setting_.access_seconds);
      if (exact.kind == Answer::Kind::Satisfiable)
        candidate = Candidate{setting_.dims.shape(lowering.values(exact)), ""};
      open(fmt::format("{} = {} may be outside {} to {}", what, text(*expr), decimal(low), decimal(high)),
           std::move(candidate));
    } catch (const TooHard& hard) {
      open(fmt::format("{}: {}", what, hard.why), std::nullopt);
    }
  }

  Setting& setting_;
  Obligation& result_;
};

}  // namespace

Obligation prove_launch(Setting& setting) {
  Obligation result;
  result.kernel = setting.kernel.name;
  result.name = "launch";
  const double start = work_seconds();
  Legality(setting, result).run();
  result.status = result.open.empty() ? Status::Proved : Status::Unknown;
  result.seconds = work_seconds() - start;
  return result;
}

}  // namespace assay::prove
