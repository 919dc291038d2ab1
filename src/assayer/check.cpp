#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "assayer/assayer.h"
#include "assayer/attempt.h"
#include "assayer/constants.h"
#include "assayer/cost.h"
#include "assayer/coverage.h"
#include "assayer/events.h"
#include "assayer/gallery.h"
#include "assayer/locate.h"
#include "assayer/precision.h"
#include "subject/cuda_reference.h"
#include "subject/subject.h"
#include "trial/plan.h"
#include "trial/shrink.h"

namespace assay::assayer {

using contract::Contract;
using judge::Verdict;
using trial::Trial;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kShrinkSeconds = 2;
constexpr double kShare = 0.25;            // of the time left that one trial may take
constexpr double kNeededShare = 0.5;       // … that a pass requires
constexpr double kNeededSlack = 3;         // times as long as predicted that such a trial may take
constexpr double kHang = 20;               // seconds, at least, after which it is no slowness
constexpr double kKnownHang = 6;           // … where like trials were seen to be fast
constexpr double kMuchSlower = 20;         // times what like trials let expect
constexpr double kPatience = 10;           // seconds of an ordinary trial, at most
constexpr double kEndless = 2;             // … of a smaller one than one that did not end
constexpr int64_t kBriefSample = 1 << 13;  // elements of each output judged in such a trial
constexpr double kBudgetMargin = 1.3;      // on what a longer budget is estimated to be
constexpr double kBriefShare = 0.12;       // of the budget, for a trial that may be slow

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Check {
 public:
  Check(const Contract& contract, const CheckOptions& options)
      : contract_(contract),
        options_(options),
        coverage_(contract),
        gallery_(contract, options),
        cost_(contract) {
    outcome_.report.contract = contract.path;
    outcome_.report.title = contract.title;
    outcome_.report.seed = options.seed;
    outcome_.report.device = options.device == subject::Device::Virtual ? "virtual" : "cuda";
  }

  CheckOutcome run() {
    if (prepare()) explore();
    return finish();
  }

  // `kind`: of the finding that the trial was recorded for.
  CheckOutcome run_one(const Trial& trial, std::string_view kind) {
    if (!prepare()) return finish();
    Attempt attempt = lab_->attempt(trial);
    if (!note(attempt)) return finish();
    Trial shown = trial;
    if (!attempt.findings.empty()) attempt = lab_->attribute(shown, std::move(attempt));
    for (Finding& finding : attempt.findings) name_as(finding, kind);
    coverage_.add(trial, "replay", attempt);
    if (!attempt.findings.empty()) report_findings(trial, attempt, false);
    return finish();
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  bool prepare() {
    auto reference = contract::Reference::make(
        contract_, subject::cuda_reference(contract_, {.cache = options_.cache}, options_.runner));
    if (!reference) {
      outcome_.contract_wrong = true;
      outcome_.problem = reference.error().text();
      return false;
    }
    reference_.emplace(std::move(*reference));
    say("compiling");
    subject::BuildOutcome built = subject::build(contract_, {.cache = options_.cache});
    if (!built.subject) {
      outcome_.contract_wrong = built.failure.contract_wrong;
      outcome_.problem = built.failure.error.text();
      if (!built.failure.output.empty()) outcome_.problem += "\n" + built.failure.output;
      outcome_.report.unknown.push_back(outcome_.problem);
      return false;
    }
    subject_ = std::move(*built.subject);
    notes_ = read_code(contract_, subject_);
    constants_ = read_constants(contract_, subject_);
    lab_.emplace(contract_, *reference_, subject_, options_);
    lab_->set_hints(lint::hints(notes_));
    start_ = Clock::now();
    return true;
  }

  // What a trial that could not be judged means for the check. False: it told nothing.
  bool note(const Attempt& attempt) {
    switch (attempt.state) {
      case AttemptState::Judged:
        return true;
      case AttemptState::Skipped:
        return false;
      case AttemptState::TooSlow:
        coverage_.miss("too slow here: " + attempt.problem);
        return false;
      default:
        if (std::find(outcome_.report.unknown.begin(), outcome_.report.unknown.end(), attempt.problem) ==
            outcome_.report.unknown.end()) {
          outcome_.report.unknown.push_back(attempt.problem);
        }
        return !attempt.findings.empty();
    }
  }

  bool affordable(const contract::Shape& shape, bool needed) const {
    const double left = std::max(1.0, options_.budget - since(start_));
    return cost_.predict(shape) <= (needed ? kNeededShare : kShare) * left;
  }

  Attempt run_planned(const trial::PlannedTrial& planned) {
    if (!planned.brief) {
      const double slow = planned.needed ? kNeededSlack * cost_.predict(planned.trial.shape) : 0;
      lab_->set_timeout(planned.required ? std::max(60.0, 3 * options_.budget) : std::max(kPatience, slow));
      return lab_->attempt(planned.trial);
    }
    lab_->set_sample(kBriefSample);
    Attempt attempt = run_brief(planned.trial);
    lab_->set_sample(judge::Options{}.max_elements);
    return attempt;
  }

  Attempt run_brief(const Trial& trial) {
    const double brief = std::max(0.5, kBriefShare * options_.budget);
    lab_->set_timeout(brief, Late::Slow);
    Attempt attempt = lab_->attempt(trial);
    // Others let expect that it ends in this time: it may hang, and that takes longer to tell.
    const double predicted = cost_.predict(trial.shape);
    if (attempt.state != AttemptState::TooSlow || predicted > brief) return attempt;
    const double least = cost_.knows(trial.shape) ? kKnownHang : kHang;
    lab_->set_timeout(std::max(least, kMuchSlower * predicted), Late::Finding);
    return lab_->attempt(trial);
  }

  // The next trial of the plan, and how it was chosen; none when the check is over.
  std::optional<trial::PlannedTrial> next(trial::Plan& plan) {
    const std::size_t step = course_.steps().size();
    if (options_.course && step == options_.course->steps().size()) return std::nullopt;
    Course::Step taken;
    taken.out_of_time = options_.course ? options_.course->steps()[step].out_of_time
                                        : since(start_) >= options_.budget && coverage_.trials() > 0;
    const auto affordable = [&](const contract::Shape& shape, bool needed) {
      const bool passed_over = options_.course
                                   ? taken.passed_over < options_.course->steps()[step].passed_over
                                   : !this->affordable(shape, needed);
      taken.passed_over += passed_over;
      return !passed_over;
    };
    auto planned = taken.out_of_time ? plan.next_required() : plan.next(affordable);
    if (planned) course_.add(std::move(taken));
    return planned;
  }

  Attempt run_step(const trial::PlannedTrial& planned) {
    Attempt attempt;
    const std::size_t step = course_.steps().size() - 1;
    const std::string slow = options_.course ? options_.course->steps()[step].slow : "";
    if (slow.empty()) {
      attempt = run_planned(planned);
    } else {
      attempt.state = AttemptState::TooSlow;
      attempt.problem = slow;
    }
    if (attempt.state == AttemptState::TooSlow) course_.last().slow = attempt.problem;
    return attempt;
  }

  void explore() {
    trial::PlanOptions plan_options{.seed = options_.seed};
    // Drawing, copying and judging a large trial takes its time as well.
    plan_options.max_elements = std::clamp(options_.budget * 2.5e5, 1.5e6, plan_options.max_elements);
    plan_options.constants = constants_;
    trial::Plan plan(contract_, plan_options);
    try_planned(plan);
    coverage_.conclude(plan);
    if (needs_more_ = !coverage_.too_little(options_.min_coverage).empty(); needs_more_)
      course_.budget_needed = options_.course ? options_.course->budget_needed : budget_needed(plan);
  }

  // Seconds in which what is left of the plan, as far as a verdict needs it, could be run. A round number.
  double budget_needed(const trial::Plan& plan) const {
    double seconds = std::max(options_.budget, since(start_)), most = 0;
    for (const Trial* trial : plan.needed_left()) {
      const double one = cost_.predict(trial->shape);
      seconds += one;
      most = std::max(most, one);
    }
    seconds = std::max(seconds, options_.budget + most / kNeededShare);
    const double share = coverage_.share();
    if (share > 0 && share < options_.min_coverage)
      seconds = std::max(seconds, options_.budget * options_.min_coverage / share);
    constexpr double kRound[] = {2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200};
    seconds *= kBudgetMargin;
    const auto* round =
        std::find_if(std::begin(kRound), std::end(kRound), [&](double r) { return r >= seconds; });
    return round == std::end(kRound) ? std::ceil(seconds / 600) * 600 : *round;
  }

  void try_planned(trial::Plan& plan) {
    int useless = 0;
    while (const auto planned = next(plan)) {
      say(progress_text(*planned));
      Attempt attempt = run_step(*planned);
      if (attempt.state == AttemptState::Unavailable || attempt.state == AttemptState::Unjudgeable) {
        note(attempt);
        return;
      }
      if (!note(attempt)) {
        if (attempt.state == AttemptState::Skipped) plan.skip(*planned);
        if (planned->required)
          outcome_.report.unknown.push_back(fmt::format(
              "the contract's shape {}: {}", contract::to_string(planned->trial.shape), attempt.problem));
        if (++useless > 200 || (attempt.state == AttemptState::Unsupported && ++useless > 3)) return;
        continue;
      }
      cost_.learn(planned->trial.shape, attempt.seconds);
      if (options_.trace) {
        options_.trace(fmt::format("{:>7.3f} s  {:>6.3f} s {} {:<22} {}", since(start_), attempt.seconds,
                                   planned->needed ? '*' : ' ', planned->stage,
                                   trial::to_string(planned->trial)));
      }
      coverage_.add(planned->trial, planned->stage, attempt);
      plan.judged(planned->trial);
      gallery_.add(planned->trial, attempt);
      if (!failed(attempt)) {
        keep_warnings(planned->trial, attempt);
      } else if (settle(planned->trial, std::move(attempt))) {
        return;
      }
    }
  }

  std::string progress_text(const trial::PlannedTrial& planned) const {
    return fmt::format("{:>3.0f} %  {:>3} trials  {}: {}",
                       std::min(100.0, 100 * since(start_) / options_.budget), coverage_.trials(),
                       planned.stage, contract::to_string(planned.trial.shape));
  }

  bool failed(const Attempt& attempt) const {
    return std::any_of(attempt.findings.begin(), attempt.findings.end(),
                       [](const Finding& f) { return f.severity == Severity::Error; });
  }

  // A failure becomes findings; false where it does not show again, and the check goes on.
  bool settle(Trial trial, Attempt attempt) {
    say("found something: looking for its cause");
    if (!lab_->confirm(trial, attempt)) {
      coverage_.miss(fmt::format("seen once, not shown again: {} ({})", attempt.findings.front().message,
                                 trial::to_string(trial)));
      return false;
    }
    attempt = lab_->attribute(trial, std::move(attempt));
    report_findings(trial, attempt, true);
    return true;
  }

  // What the smaller trial shows is the same failure. How many errors are alike, and so which defect they
  // look like, depends on how many there are: errors of an output are one failure whatever they look like.
  static bool same_failure(const Finding& found, const Finding& small) {
    if (small.kind == found.kind) return true;
    return is_inexact(found.kind) && is_inexact(small.kind) &&
           text_at(found.evidence, "output") == text_at(small.evidence, "output");
  }

  // "dw[0, 3] is 1.5, should be 1.25"
  static std::string worst_text(const Finding& finding) {
    const Json worst = finding.evidence.value("worst", Json::object());
    if (!worst.contains("stored") || !worst["stored"].is_number() || !worst["exact"].is_number()) return "";
    return fmt::format("{}{} is {:.6g}, should be {:.6g}", text_at(finding.evidence, "output"),
                       text_at(worst, "element"), worst["stored"].get<double>(),
                       worst["exact"].get<double>());
  }

  // The smallest trial that still shows the failure. The finding becomes what that trial shows, unless only
  // the larger one tells what kind of error it is.
  Trial smallest(const Trial& trial, Finding& finding) {
    const auto start = Clock::now();
    std::optional<Finding> small;
    const bool inexact = is_inexact(finding.kind);
    const auto still_fails = [&](const Trial& candidate) {
      if (!options_.course && since(start) > kShrinkSeconds) return false;
      ++course_.shrinking;
      say(fmt::format("shrinking: {}", contract::to_string(candidate.shape)));
      Attempt attempt = lab_->attempt(candidate, !inexact);
      if (attempt.state != AttemptState::Judged || attempt.findings.empty()) return false;
      Trial shown = candidate;
      const bool renamed = finding.evidence.contains("symptom") || finding.kind == "unwritten-output";
      if (renamed && !lab_->attribute_again(shown, attempt, finding.kind)) return false;
      const auto same = std::find_if(attempt.findings.begin(), attempt.findings.end(),
                                     [&](const Finding& f) { return same_failure(finding, f); });
      if (same == attempt.findings.end()) return false;
      small = *same;
      return true;
    };
    const bool endless =
        finding.kind == "timeout" || finding.kind == "deadlock";  // every attempt costs the limit
    lab_->set_timeout(endless ? kEndless : kPatience);
    const int most = options_.course ? options_.course->shrinking : endless ? 3 : 200;
    Trial reached = trial::shrink(contract_, trial, still_fails, most).trial;
    if (!small) return reached;
    if (!inexact) {
      finding = std::move(*small);
    } else if (const std::string shows = worst_text(*small); !shows.empty()) {
      finding.evidence["smallest_shows"] = shows;
    }
    return reached;
  }

  // One finding for each cause, the heaviest first. Of one kind only the first line is told, others are
  // evidence; what a heavier finding's line does besides is a symptom of it, as is a value that an illegal
  // access or a race left undefined.
  static std::vector<Finding> distinct(const std::vector<Finding>& findings) {
    std::vector<Finding> kept;
    for (const Finding& finding : findings) {
      const auto same =
          std::find_if(kept.begin(), kept.end(), [&](const Finding& f) { return f.kind == finding.kind; });
      if (same == kept.end()) {
        kept.push_back(finding);
      } else if (finding.where.line > 0 && finding.where.line != same->where.line) {
        same->evidence["also"].push_back(fmt::format("{}:{}", finding.where.file, finding.where.line));
      }
    }
    const auto weight = [](const Finding& f) {
      const judge::KindInfo* kind = judge::kind_named(f.kind);
      return (f.severity == Severity::Error ? 1000 : 0) + (kind ? kind->weight : 0);
    };
    std::stable_sort(kept.begin(), kept.end(),
                     [&](const Finding& a, const Finding& b) { return weight(a) > weight(b); });
    for (std::size_t i = 1; i < kept.size();) {
      const bool symptom =
          kept[i].kind == "uninitialized" || kept[i].where.line == 0 ||
          (kept[i].where.line == kept[0].where.line && kept[i].where.file == kept[0].where.file);
      if (!symptom) {
        ++i;
        continue;
      }
      kept[0].evidence["symptoms"].push_back(fmt::format("{}: {}", kept[i].kind, kept[i].message));
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return kept;
  }

  // A trial that was made small shows the failure, and the larger one told its kind.
  static void name_as(Finding& finding, std::string_view kind) {
    if (finding.kind == kind || !is_inexact(finding.kind) || !is_inexact(kind)) return;
    finding.evidence["symptom"] = finding.kind;
    finding.kind = kind;
  }

  static std::string relation_of(const Finding& finding) { return text_at(finding.evidence, "relation"); }

  // Relations that do not hold in trials that otherwise pass, one of a kind.
  void keep_warnings(const Trial& trial, const Attempt& attempt) {
    for (const Finding& finding : attempt.findings) {
      const std::string relation = relation_of(finding);
      const bool known = std::any_of(outcome_.report.findings.begin(), outcome_.report.findings.end(),
                                     [&](const Finding& f) { return relation_of(f) == relation; });
      if (relation.empty() || known) continue;
      Finding kept = finding;
      kept.evidence["found_with"] = trial::to_string(trial);
      kept.evidence["trial"] = trial::to_json(trial);
      outcome_.report.findings.push_back(std::move(kept));
    }
  }

  void report_findings(const Trial& trial, const Attempt& attempt, bool shrinking) {
    std::vector<Finding> kept = distinct(attempt.findings);
    const Trial small = shrinking && !kept.empty() ? smallest(trial, kept.front()) : trial;
    gallery_.add_failure(trial, attempt, small, *lab_);
    const bool numeric = !kept.empty() && is_numeric(kept.front().kind);
    const bool of_found = !kept.empty() && kept.front().evidence.contains("smallest_shows");
    const Json profile =
        numeric ? precision_of(kept.front(), contract_, subject_, trial, of_found ? trial : small, options_)
                : Json();
    outcome_.report.files = files_of(contract_, subject_);
    for (Finding& finding : kept) {
      locate(contract_, notes_, finding);
      accuse(contract_, finding, profile);
      name_by_code(finding);
      finding.evidence["found_with"] = trial::to_string(trial);
      finding.evidence["smallest"] = trial::to_string(small);
      finding.evidence["trial"] = trial::to_json(small);
      const std::string record = save_trial(contract_, options_, finding, small, outcome_.report.files);
      if (!record.empty()) finding.reproduce = fmt::format("assay replay {}", record);
      outcome_.report.findings.push_back(std::move(finding));
    }
  }

  // Sums that are too inaccurate, in code that keeps a sum in bf16 or f16: that is the cause, if the error
  // enters there, as far as the line is known. In a short sum of many threads it looks like one rounding of
  // every term, because each has a term or two.
  void name_by_code(Finding& finding) const {
    const Json guilty = finding.evidence.value("guilty", Json());
    const bool wrong = finding.kind == "wrong-result" && guilty.is_object();
    if ((finding.kind != "precision-loss" && !wrong) || !finding.evidence.contains("worst")) return;
    const bool summed = finding.evidence["worst"].value("terms", 1.0) >= 2;
    const auto narrow = std::find_if(notes_.begin(), notes_.end(), [&](const lint::Note& note) {
      if (note.kind != "narrow-sum" && note.kind != "narrow-atomic" && note.kind != "narrow-mma")
        return false;
      if (guilty.is_null()) return summed;
      return note.where.line == guilty.value("line", 0) &&
             std::filesystem::path(note.where.file).filename() ==
                 std::filesystem::path(guilty.value("file", "")).filename();
    });
    if (narrow == notes_.end()) return;
    finding.evidence["symptom"] = finding.kind;
    finding.kind = "low-precision-accumulation";
    if (guilty.is_null()) finding.where = {shown(narrow->where.file), narrow->where.line};
  }

  CheckOutcome finish() {
    report::Report& report = outcome_.report;
    report.seconds = subject_.seconds + (lab_ ? since(start_) : 0);
    if (lab_ && !lab_->files_guarded())
      coverage_.miss("writes outside the worker's folder: this kernel has no Landlock to refuse them");
    const bool failed = std::any_of(report.findings.begin(), report.findings.end(),
                                    [](const Finding& f) { return f.severity == Severity::Error; });
    if (!failed) coverage_.miss_dims();
    if (!failed && needs_more_ && report.unknown.empty())
      report.unknown.push_back(fmt::format(
          "{}. Try --budget {:.0f}", coverage_.too_little(options_.min_coverage), course_.budget_needed));
    report.coverage = coverage_.json();
    report.coverage["seed"] = options_.seed;
    report.coverage["budget_seconds"] = options_.budget;
    if (options_.min_coverage > 0) report.coverage["min_coverage"] = options_.min_coverage;
    report.coverage["course"] = course_.json();
    report.coverage["build"] = {{"seconds", subject_.seconds}, {"cached", subject_.cached}};
    report.coverage["tensor_cores"] = subject_.tensor_cores;
    if (contract_.require.rtol || contract_.require.atol) report.coverage["budget_overridden"] = true;
    report.verdict = failed                                               ? Verdict::Fail
                     : !report.unknown.empty() || coverage_.trials() == 0 ? Verdict::Inconclusive
                                                                          : Verdict::Pass;
    if (report.verdict == Verdict::Inconclusive && report.unknown.empty()) {
      report.unknown.push_back("no trial could be run");
    }
    for (const lint::Note& note : notes_) report.findings.push_back(lint::to_finding(note));
    if (reference_) gallery_.hang(*reference_, subject_, report);
    return std::move(outcome_);
  }

  const Contract& contract_;
  const CheckOptions& options_;
  CheckOutcome outcome_;
  Coverage coverage_;
  Gallery gallery_;
  std::vector<lint::Note> notes_;
  std::optional<contract::Reference> reference_;
  subject::Subject subject_;
  std::optional<Laboratory> lab_;
  Clock::time_point start_;
  Cost cost_;
  Course course_;
  SizeConstants constants_;  // of the subject's code
  bool needs_more_ = false;  // trials, for a pass
};

}  // namespace

CheckOutcome check(const Contract& contract, const CheckOptions& options) {
  return Check(contract, options).run();
}

CheckOutcome replay(const Contract& contract, const Trial& trial, std::string_view kind,
                    const CheckOptions& options) {
  return Check(contract, options).run_one(trial, kind);
}

}  // namespace assay::assayer
