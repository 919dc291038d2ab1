// The check loop: from a contract to a verdict.
//
// A check is a loop over a plan (trial/plan.h), which lists trials in the order in which they are worth
// running. Each round takes the next trial that fits into the time left, runs and judges it, and records what
// it covered. A trial without errors makes the next one easier to predict (cost.h). A trial with an error is
// handed to Failures (failures.h), which confirms it, finds its cause, shrinks it and adds it to the report;
// then the check ends, unless it is to keep going.
//
//   prepare       build the subject, make the reference, read the code: notes, constants, tensor cores
//   explore       make the plan, run the loop (try_planned), decide whether enough was tried for a pass
//     next        the next trial: affordable, or required although the budget is spent
//     run_step    run it; if it does not end in time, find out whether it ever does (hang.cpp)
//     settle      a failing trial becomes findings (Failures)
//   finish        the verdict, and what was not covered
//
// Time decides what is tried, so two clocks are kept. spent() is elapsed time without compiling, and is
// compared with the budget. own() leaves out the time in which other work on the machine kept this check
// waiting, and limits the trials that a pass requires: a busy machine makes a check slower, but does not
// change its verdict. Every choice that depended on time goes into a timeline (timeline.h), which `--repeat`
// follows instead of the clock.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "assayer/assayer.h"
#include "assayer/constants.h"
#include "assayer/cost.h"
#include "assayer/failures.h"
#include "assayer/kernels_seen.h"
#include "assayer/limits.h"
#include "assayer/locate.h"
#include "assayer/own_time.h"
#include "assayer/replay_built.h"
#include "assayer/witness.h"
#include "base/diagnostic.h"
#include "base/interrupt.h"
#include "lint/lint.h"
#include "subject/cuda_reference.h"
#include "subject/perturbed_code.h"
#include "subject/subject.h"
#include "trial/plan.h"

namespace assay::assayer {

using contract::Contract;
using judge::Verdict;
using trial::Trial;
using Clock = std::chrono::steady_clock;

namespace {

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Check {
 public:
  // `prebuilt`: the subject, where it need not be built from the contract's sources.
  Check(const Contract& contract, const CheckOptions& options, const subject::Subject* prebuilt = nullptr)
      : contract_(contract),
        options_(options),
        prebuilt_(prebuilt),
        coverage_(contract),
        page_(contract, options_),
        cost_(contract) {
    outcome_.report.contract = contract.path;
    if (!contract.origin.answer.empty()) outcome_.report.answer = shown(contract.origin.answer);
    outcome_.report.title = contract.title;
    outcome_.report.seed = options.seed;
    outcome_.report.device = options.device == subject::Device::Virtual ? "virtual" : "cuda";
  }

  CheckOutcome run() {
    if (prepare()) {
      explore();
      ask_witnesses();
    }
    return finish();
  }

  // `kind`: of the finding that the trial was recorded for.
  CheckOutcome run_one(const Trial& trial, Kind kind) {
    if (!prepare()) return finish();
    trials_->set_timeout(kind == Kind::Timeout ? kFirstTrialSeconds : kRepeatedTrialSeconds);
    TrialResult result = trials_->run(trial);
    Trial shown = trial;
    if (result.state == TrialState::TooSlow) trials_->never_ends(shown, result);
    if (!note(result)) return finish();
    if (has_error(result.findings)) result = trials_->find_cause(shown, std::move(result));
    coverage_.add(trial, "replay", result);
    kernels_.add(trial, result);
    if (!result.findings.empty()) failures_->report_replayed(trial, result, kind);
    return finish();
  }

  CheckOutcome run_until(std::span<const Trial> trials, std::span<const Kind> kinds) {
    if (!prepare()) return finish();
    for (const Trial& trial : trials) {
      if (interrupted() || spent() >= options_.budget) break;
      say(contract::to_string(trial.shape));
      Trial shown = trial;
      TrialResult result = run_expected(shown, kinds);
      if (!note(result)) continue;
      coverage_.add(shown, "expected to fail", result);
      kernels_.add(shown, result);
      if (!has_error(result.findings)) continue;
      if (!kinds.empty() && !failures_->is_of(shown, result, kinds)) continue;
      if (!failures_->settle(shown, std::move(result), kinds)) continue;
      // What looked like one of these at first may have turned out to be another once its cause was known.
      std::erase_if(outcome_.report.findings, [&](const Finding& finding) {
        return !kinds.empty() && std::find(kinds.begin(), kinds.end(), finding.kind) == kinds.end();
      });
      if (has_error(outcome_.report.findings)) break;
    }
    return finish();
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  // One trial of run_until. Who expects a call that never ends wants to know soon that it does not end, and why; a slow one
  // then gets the time that it needs. `trial` becomes the smallest that does not end, if that is what it shows.
  TrialResult run_expected(Trial& trial, std::span<const Kind> kinds) {
    const double most = std::min(kTrialSeconds, options_.budget);
    const bool may_hang = std::find(kinds.begin(), kinds.end(), Kind::Timeout) != kinds.end();
    trials_->set_timeout(may_hang ? std::min(kFirstTrialSeconds, most) : most);
    TrialResult result = trials_->run(trial);
    if (!may_hang || result.state != TrialState::TooSlow) return result;
    if (failures_->never_ends(trial, result, kExpectedHangSeconds, kFewDoublings) ||
        spent() >= options_.budget)
      return result;
    trials_->set_timeout(most);
    return trials_->run(trial);
  }

  bool prepare() {
    auto reference = reference::Reference::make(
        contract_, subject::cuda_reference(contract_, {.cache = options_.cache}, options_.runner),
        options_.torch);
    if (!reference) {
      outcome_.contract_wrong = true;
      outcome_.problem = diagnostic(reference.error());
      leave_open(reference.error().text());
      return false;
    }
    reference_.emplace(std::move(*reference));
    reference_->start();
    if (contract_.generator)
      options_.generator = [this](const contract::Shape& shape, uint64_t seed) {
        return reference_->problem_inputs(shape, seed);
      };
    say("compiling");
    subject::BuildOutcome built =
        prebuilt_ ? subject::BuildOutcome{*prebuilt_, {}}
                  : subject::build(contract_, {.cache = options_.cache, .interpreter = options_.interpreter});
    if (!built.subject) {
      outcome_.contract_wrong = built.failure.contract_wrong;
      const std::string output = built.failure.output.empty() ? "" : "\n" + built.failure.output;
      outcome_.problem = diagnostic(built.failure.error) + output;
      leave_open(built.failure.error.text() + output);
      return false;
    }
    subject_ = std::move(*built.subject);
    CodeReading code = read_code(contract_, subject_);
    if (!code.problem.empty() && options_.device == subject::Device::Virtual) {
      outcome_.problem = std::move(code.problem);
      leave_open(outcome_.problem);
      return false;
    }
    notes_ = std::move(code.notes);
    constants_ = read_constants(contract_, subject_);
    trials_.emplace(contract_, *reference_, subject_, options_);
    trials_->set_tensor_cores(std::move(code.tensor_cores));
    trials_->set_hints(lint::hints(notes_));
    if (contract_.kernel.python)
      trials_->on_new_code([this](const std::string& ptx) {
        for (Finding& note : read_loaded(contract_, ptx)) notes_.push_back(std::move(note));
        trials_->set_hints(lint::hints(notes_));
      });
    failures_.emplace(
        CheckParts{contract_, options_, subject_, notes_, *trials_, coverage_, page_, timeline_},
        outcome_.report);
    const auto begun = Clock::now();
    trials_->prepare();
    reference_->wait();
    if (contract_.kernel.python) subject_.seconds += since(begun);
    built_ = trials_->build_seconds();
    start_ = Clock::now();
    own_time_.emplace();
    own();
    return true;
  }

  // Seconds of compiling since the trials began.
  double building() const { return trials_ ? trials_->build_seconds() - built_ : 0; }
  // Seconds of trials so far.
  double spent() const { return since(start_) - building(); }
  // Those in which the machine's other work did not hold them up.
  double own() { return own_time_->seconds({trials_->processes(), {reference_->process()}}, building()); }

  bool wants_kernel() const { return contract_.kernel.python && contract_.require.own_kernel; }

  // Something that could not be checked, once. What an interruption stopped is no such thing: the report names
  // the interruption itself.
  void leave_open(const std::string& why) {
    std::vector<std::string>& unknown = outcome_.report.unknown;
    if (!interrupted() && std::find(unknown.begin(), unknown.end(), why) == unknown.end())
      unknown.push_back(why);
  }

  bool is_stopped() const { return options_.stopped && options_.stopped(); }

  // What a trial that could not be judged means for the check. False: it told nothing.
  bool note(const TrialResult& result) {
    switch (result.state) {
      case TrialState::Judged:
        return true;
      case TrialState::Skipped:
        return false;
      case TrialState::TooSlow:
        coverage_.miss("too slow here: " + result.problem);
        return false;
      case TrialState::Unsampled:
        coverage_.miss_sample(result.problem);
        return false;
      default:
        leave_open(result.problem);
        return !result.findings.empty();
    }
  }

  // Seconds of its own that a check may take for the trials that a pass requires.
  double most_for_needed() const { return (contract_.kernel.python ? kPythonBudgets : 1) * options_.budget; }

  bool affordable(const contract::Shape& shape, bool needed) {
    const double left = std::max(1.0, (needed ? most_for_needed() : options_.budget) - own());
    return cost_.predict(shape) <= (needed ? kNeededShare : kTrialShare) * left;
  }

  // Seconds that a planned call may take. A repeated check knows which were given up.
  double patience(const trial::PlannedTrial& planned) {
    if (planned.required) return std::max(kRequiredSeconds, kRequiredBudgets * options_.budget);
    if (options_.timeline) return kRepeatedTrialSeconds;
    if (planned.brief) return std::max(kBriefSeconds, kBriefShare * options_.budget);
    if (planned.trial.condition.looped) return kTrialSeconds;  // dozens of calls
    const double slow = planned.needed ? kNeededSlack * cost_.predict(planned.trial.shape) : 0;
    return std::min(std::max(patience_, slow), std::max(kFirstTrialSeconds, options_.budget - own()));
  }

  // `planned` becomes the smallest trial that does not end, if that is what it shows.
  TrialResult run_planned(trial::PlannedTrial& planned) {
    const double limit = patience(planned);
    trials_->set_timeout(limit);
    trials_->set_sample(planned.brief ? kBriefSample : judge::Options{}.max_elements);
    TrialResult result = trials_->run(planned.trial);
    trials_->set_sample(judge::Options{}.max_elements);
    if (result.state != TrialState::TooSlow) return result;
    if (planned.brief && cost_.predict(planned.trial.shape) > limit) return result;
    if (result.unended && failures_->knows(*result.unended)) {
      result.findings = {*result.unended};
      result.state = TrialState::Judged;
      return result;
    }
    say(fmt::format("still running after {:.0f} s: slow or endless?", limit));
    const bool endless = failures_->never_ends(planned.trial, result);
    for (const auto& [shape, seconds] : result.probed) cost_.learn(shape, seconds);
    if (endless || planned.brief || patience_ == kTrialSeconds) return result;
    // Only slow: if it will end in it, it gets the time that it was not given before that was known.
    patience_ = kTrialSeconds;
    const double more = patience(planned);
    if (cost_.predict(planned.trial.shape) > more) return result;
    trials_->set_timeout(more);
    TrialResult longer = trials_->run(planned.trial);
    longer.unexplained = result.unexplained && longer.state == TrialState::TooSlow;
    return longer;
  }

  // Calls that did not end, and on a machine that is busy with other work the time was too short to tell whether they ever
  // do. When all else is done there is more of it. What is still not known then is no pass.
  void settle_unexplained() {
    const double begun = own();
    for (auto& [step, planned] : unexplained_) {
      if (interrupted() || is_stopped() || has_error(outcome_.report.findings)) return;
      std::string& open = timeline_.unexplained[step];
      if (options_.timeline && options_.timeline->unexplained.contains(step))
        open = options_.timeline->unexplained.at(step);
      if (open.empty()) {
        say(fmt::format("{}: slow or endless?", contract::to_string(planned.trial.shape)));
        const double left = kExpectedHangSeconds - (own() - begun);
        TrialResult result;
        if (left > 0 && failures_->never_ends(planned.trial, result, left, kFewDoublings)) {
          coverage_.add(planned.trial, planned.stage, result);
          failures_->settle(planned.trial, std::move(result));
          return;
        }
        if (left > 0 && !result.unexplained) continue;
        open = fmt::format("{}: there was no time to find out whether the call ends",
                           trial::to_string(planned.trial));
      }
      leave_open(open);
    }
  }

  // What a pass requires may exceed the budget for a Python function.
  bool out_of_time(const trial::Plan& plan) {
    if (spent() >= most_elapsed(most_for_needed())) return true;
    const bool late = options_.deadline && Clock::now() > *options_.deadline;
    if (own() < options_.budget && !late) return false;
    if (own() >= most_for_needed()) return true;
    return plan.needed_left().empty() && !options_.keep_going;
  }

  // The next trial of the plan, and how it was chosen; none when the check is over.
  std::optional<trial::PlannedTrial> next(trial::Plan& plan) {
    const std::size_t step = timeline_.steps().size();
    if (options_.timeline && step == options_.timeline->steps().size()) return std::nullopt;
    if (plan.only_giants() && plan.left() == 0) return std::nullopt;  // random shapes are no smaller
    Timeline::Step taken;
    taken.out_of_time = options_.timeline ? options_.timeline->steps()[step].out_of_time
                                          : out_of_time(plan) && coverage_.trials() > 0;
    const auto affordable = [&](const contract::Shape& shape, bool needed) {
      const bool passed_over = options_.timeline
                                   ? taken.passed_over < options_.timeline->steps()[step].passed_over
                                   : !this->affordable(shape, needed);
      taken.passed_over += passed_over;
      return !passed_over;
    };
    auto planned = taken.out_of_time ? plan.next_required() : plan.next(affordable);
    if (planned) timeline_.add(std::move(taken));
    return planned;
  }

  TrialResult run_step(trial::PlannedTrial& planned) {
    TrialResult result;
    const std::size_t step = timeline_.steps().size() - 1;
    const std::string slow = options_.timeline ? options_.timeline->steps()[step].slow : "";
    if (slow.empty()) {
      result = run_planned(planned);
    } else {
      result.state = planned.trial.sampled ? TrialState::Unsampled : TrialState::TooSlow;
      result.problem = slow;
    }
    if (result.state == TrialState::TooSlow || result.state == TrialState::Unsampled)
      timeline_.last().slow = result.problem;
    if (result.unexplained || (options_.timeline && options_.timeline->unexplained.contains(step)))
      unexplained_.emplace(step, planned);
    return result;
  }

  void explore() {
    trial::PlanOptions plan_options{.seed = options_.seed};
    plan_options.machines = options_.device == subject::Device::Virtual;
    plan_options.load = options_.device == subject::Device::Cuda;
    plan_options.presents = plan_options.load && subject_.python.empty() &&
                            !subject::asks_for_multiprocessor(subject_, contract_.kernel.arch);
    plan_options.samples = subject_.python.empty();
    // Drawing, copying and judging a large trial takes its time as well.
    plan_options.max_elements =
        std::clamp(options_.budget * kElementsPerSecond, kLeastElements, plan_options.max_elements);
    plan_options.constants = constants_;
    trial::Plan plan(contract_, plan_options);
    if (plan.leaves_out_giants())
      coverage_.miss_sample(
          "not made for Python functions, which use whole tensors outside their kernels as well");
    if (plan.only_giants())
      leave_open(
          "every shape that the contract promises is too large to run in full, so the check cannot pass; "
          "lower the `min` "
          "of a dim. Only samples of the blocks were run");
    try_planned(plan);
    settle_unexplained();
    coverage_.conclude(plan);
    if (needs_more_ = !coverage_.too_little(options_.min_coverage).empty(); needs_more_)
      timeline_.budget_needed = options_.timeline ? options_.timeline->budget_needed : budget_needed(plan);
  }

  void ask_witnesses() {
    if (options_.sanitizers.empty() || options_.device != subject::Device::Cuda || interrupted()) return;
    std::vector<Trial> trials = trials_to_witness(contract_);
    for (const Finding& finding : outcome_.report.findings) {
      auto failing = trial::from_json(contract_, Json::parse(finding.found.trial, nullptr, false));
      if (finding.severity == Severity::Error && failing && !failing->sampled)
        trials.insert(trials.begin(), std::move(*failing));
    }
    for (const std::string& tool : options_.sanitizers) {
      say(fmt::format("compute-sanitizer {}", tool));
      const Witnessed witnessed = witness(contract_, subject_, tool, trials, options_, kWitnessedSeconds);
      add_witnessed(witnessed, outcome_.report.findings);
      if (!witnessed.problem.empty())
        coverage_.miss(fmt::format("compute-sanitizer {}: {}", tool, witnessed.problem));
    }
  }

  // Seconds in which what is left of the plan, as far as a verdict needs it, could be run. A round number.
  double budget_needed(const trial::Plan& plan) const {
    double seconds = std::max(options_.budget, spent()), most = 0;
    for (const Trial* trial : plan.needed_left()) {
      const double one = trial->sampled ? 2 * kSampleSeconds : cost_.predict(trial->shape);
      seconds += one;
      most = std::max(most, one);
    }
    seconds = std::max(seconds, options_.budget + most / kNeededShare);
    const double share = coverage_.share();
    if (share > 0 && share < options_.min_coverage)
      seconds = std::max(seconds, options_.budget * options_.min_coverage / share);
    constexpr double kRound[] = {2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200};  // seconds
    constexpr double kRoundTo = 600;  // beyond those
    seconds *= kBudgetMargin;
    const auto* round =
        std::find_if(std::begin(kRound), std::end(kRound), [&](double r) { return r >= seconds; });
    return round == std::end(kRound) ? std::ceil(seconds / kRoundTo) * kRoundTo : *round;
  }

  // Giant shapes have a share of the time before all that a pass requires.
  void postpone_sampled(trial::Plan& plan) {
    const auto step = static_cast<int64_t>(timeline_.steps().size()) - 1;
    const double share = options_.device == subject::Device::Cuda ? kSampledShareOnGpu : kSampledShare;
    const bool now =
        options_.timeline ? options_.timeline->postponed == step : sampled_seconds_ > share * options_.budget;
    if (!now || timeline_.postponed >= 0) return;
    timeline_.postponed = step;
    plan.postpone_sampled();
  }

  // On a real GPU: a trial whose repetitions gave another result is made again under load. True: the check is over.
  bool settle_shaken() {
    auto shaken = trials_->take_shaken();
    if (!shaken || shaken_ >= kMostShaken) return false;
    ++shaken_;
    shaken->condition.loaded = true;
    trials_->set_timeout(kTrialSeconds);
    TrialResult result = trials_->run(*shaken);
    if (!note(result)) return false;
    coverage_.add(*shaken, "under load", result);
    if (!has_error(result.findings)) return false;
    return failures_->settle(*shaken, std::move(result)) && !options_.keep_going;
  }

  void try_planned(trial::Plan& plan) {
    int useless = 0;
    while (auto planned = interrupted() || is_stopped() ? std::nullopt : next(plan)) {
      say(progress_text(*planned));
      const double before = own();
      trials_->allow_long_samples(plan.needed_left().empty());
      trials_->set_goes_on(options_.device == subject::Device::Cuda && !options_.timeline);
      TrialResult result = run_step(*planned);
      trials_->set_goes_on(false);
      if (settle_shaken()) return;
      if (planned->trial.sampled) sampled_seconds_ += result.seconds;
      postpone_sampled(plan);
      const double own_seconds = std::min(result.seconds, own() - before);
      if (interrupted() && !has_error(result.findings)) continue;
      if (result.state == TrialState::Unavailable || result.state == TrialState::Unjudgeable) {
        note(result);
        return;
      }
      if (!note(result)) {
        if (result.state == TrialState::Skipped) plan.skip(*planned);
        if (result.state == TrialState::Skipped && planned->trial.condition.perturbed &&
            !std::exchange(told_of_pauses_, true))
          coverage_.miss("pauses in the kernel: " + result.problem);
        if (result.state == TrialState::Unsampled) {
          plan.waive_sampled(planned->trial);
          if (++unsampled_[result.problem] == kMostUnsampled) plan.drop_sampled();
          continue;
        }
        if (planned->required)
          outcome_.report.unknown.push_back(fmt::format(
              "the contract's shape {}: {}", contract::to_string(planned->trial.shape), result.problem));
        if (++useless > kMostUseless ||
            (result.state == TrialState::Unsupported && useless > kMostUnsupported))
          return;
        continue;
      }
      if (!planned->trial.condition.looped && !planned->trial.sampled)
        cost_.learn(planned->trial.shape, own_seconds);
      if (result.seconds > kHeldUpShare * options_.budget && spent() > options_.budget)
        held_up_.push_back(fmt::format("{} ({:.0f} s)", trial::to_string(planned->trial), result.seconds));
      if (options_.trace) {
        options_.trace(fmt::format("{:>7.3f} s  {:>6.3f} s {} {:<22} {}", spent(), own_seconds,
                                   planned->needed ? '*' : ' ', planned->stage,
                                   trial::to_string(planned->trial)));
      }
      coverage_.add(planned->trial, planned->stage, result);
      plan.judged(planned->trial);
      if (result.judged == 0 && has_error(result.findings) && !planned->trial.sampled) plan.hidden(*planned);
      kernels_.add(planned->trial, result);
      failures_->keep_host_warnings(result);
      page_.add(planned->trial, result);
      if (!has_error(result.findings)) {
        plan.judged_at(planned->trial);
        failures_->keep_warnings(planned->trial, result);
      } else if (failures_->settle(planned->trial, std::move(result)) && !options_.keep_going) {
        return;
      }
      if (wants_kernel() && kernels_.seen_none() && !options_.keep_going) return;
    }
  }

  std::string progress_text(const trial::PlannedTrial& planned) {
    return fmt::format("{:>3.0f} %  {:>3} trials  {}: {}", std::min(100.0, 100 * own() / options_.budget),
                       coverage_.trials(), planned.stage, contract::to_string(planned.trial.shape));
  }

  void note_interruption() {
    outcome_.contract_wrong = false;
    std::vector<std::string>& unknown = outcome_.report.unknown;
    unknown.insert(unknown.begin(), fmt::format("interrupted ({}) after {} trial{}", strsignal(interrupted()),
                                                coverage_.trials(), coverage_.trials() == 1 ? "" : "s"));
  }

  Json gpu_use() const {
    const TrialRunner::GpuUse& use = trials_->gpu_use();
    return {{"busy_seconds", use.busy()},
            {"seconds", spent()},
            {"repeated_calls", use.repeats},
            {"waiting_seconds", use.time.waiting},
            {"preparing_seconds", use.time.preparing},
            {"calling_seconds", use.time.calling},
            {"saving_seconds", use.time.saving}};
  }

  CheckOutcome finish() {
    report::Report& report = outcome_.report;
    if (interrupted()) note_interruption();
    if (trials_) subject_.seconds += trials_->build_seconds() - built_;
    report.seconds = subject_.seconds + (trials_ ? spent() : 0);
    if (trials_ && !trials_->files_guarded())
      coverage_.miss(
          "writes outside the worker's folder: this Linux kernel lacks Landlock, which would block them");
    if (wants_kernel() && failures_) {
      if (auto finding = kernels_.finding(contract_.origin.answer.empty() ? subject_.symbol : "the function"))
        failures_->report_no_kernel(*kernels_.without(), *finding);
    }
    const bool failed = has_error(report.findings);
    if (!failed) coverage_.miss_dims();
    if (!failed && needs_more_ && report.unknown.empty())
      report.unknown.push_back(fmt::format(
          "{}. Try --budget {:.0f}", coverage_.too_little(options_.min_coverage), timeline_.budget_needed));
    if (options_.keep_going && failures_) failures_->count_trials();
    report.coverage = coverage_.json();
    report.coverage["seed"] = options_.seed;
    report.coverage["budget_seconds"] = options_.budget;
    if (options_.min_coverage > 0) report.coverage["min_coverage"] = options_.min_coverage;
    report.coverage["timeline"] = timeline_.json();
    if (!held_up_.empty()) report.coverage["held_up"] = held_up_;
    if (options_.device == subject::Device::Cuda && coverage_.trials() > 0)
      report.coverage["gpu"] = gpu_use();
    report.coverage["build"] = {{"seconds", subject_.seconds}, {"cached", subject_.cached}};
    if (contract_.require.rtol || contract_.require.atol) report.coverage["budget_overridden"] = true;
    if (reference_ && !reference_->budgets_rest_on().empty())
      report.coverage["budget_rests_on"] = reference_->budgets_rest_on();
    report.verdict = judge::verdict_of(report.findings, coverage_.trials() > 0, !report.unknown.empty());
    if (report.verdict == Verdict::Inconclusive && report.unknown.empty()) {
      report.unknown.push_back("no trial could be run");
    }
    report.findings.insert(report.findings.end(), notes_.begin(), notes_.end());
    name_originals(contract_, report.findings);
    if (reference_) page_.add_to(report, *reference_);
    return std::move(outcome_);
  }

  const Contract& contract_;
  CheckOptions options_;
  const subject::Subject* prebuilt_;
  CheckOutcome outcome_;
  Coverage coverage_;
  PageData page_;
  std::vector<Finding> notes_;  // from the code
  std::optional<reference::Reference> reference_;
  subject::Subject subject_;
  std::optional<TrialRunner> trials_;
  std::optional<Failures> failures_;
  Clock::time_point start_;
  std::optional<OwnTime> own_time_;
  double built_ = 0;  // seconds of compiling before that
  Cost cost_;
  KernelsSeen kernels_;
  Timeline timeline_;
  SizeConstants constants_;               // of the subject's code
  bool needs_more_ = false;               // trials, for a pass
  double sampled_seconds_ = 0;            // of trials of which a sample of the blocks was run
  std::map<std::string, int> unsampled_;  // trials by why a sample of the blocks told nothing
  double patience_ = kFirstTrialSeconds;  // seconds
  std::map<std::size_t, trial::PlannedTrial>
      unexplained_;                   // by step: of which it is not known whether they end
  int shaken_ = 0;                    // trials that were made again under load
  bool told_of_pauses_ = false;       // that a trial could not have them
  std::vector<std::string> held_up_;  // trials that took much of the time
};

// Whatever goes wrong in the judge itself costs this check, not the others that run beside it.
template <class Run>
CheckOutcome guarded(const Contract& contract, Run run) {
  try {
    return run();
  } catch (const std::exception& error) {
    CheckOutcome outcome;
    outcome.report.contract = contract.path;
    outcome.report.unknown = {fmt::format("assay failed: {}", error.what())};
    return outcome;
  }
}

}  // namespace

CheckOutcome check(const Contract& contract, const CheckOptions& options) {
  return guarded(contract, [&] { return Check(contract, options).run(); });
}

CheckOutcome check_built(const Contract& contract, const subject::Subject& subject,
                         const CheckOptions& options) {
  return guarded(contract, [&] { return Check(contract, options, &subject).run(); });
}

CheckOutcome investigate_built(const Contract& contract, const subject::Subject& subject, const Trial& trial,
                               const CheckOptions& options) {
  return guarded(contract,
                 [&] { return Check(contract, options, &subject).run_until(std::span(&trial, 1), {}); });
}

CheckOutcome replay(const Contract& contract, const Trial& trial, Kind kind, const CheckOptions& options) {
  return guarded(contract, [&] { return Check(contract, options).run_one(trial, kind); });
}

CheckOutcome replay_built(const Contract& contract, const subject::Subject& subject, const Trial& trial,
                          const CheckOptions& options) {
  return guarded(contract,
                 [&] { return Check(contract, options, &subject).run_one(trial, Kind::WrongResult); });
}

CheckOutcome investigate(const Contract& contract, std::span<const Trial> trials, std::span<const Kind> kinds,
                         const CheckOptions& options) {
  return guarded(contract, [&] { return Check(contract, options).run_until(trials, kinds); });
}

}  // namespace assay::assayer
