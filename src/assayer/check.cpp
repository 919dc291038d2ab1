#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "assayer/assayer.h"
#include "assayer/attempt.h"
#include "assayer/causes.h"
#include "assayer/constants.h"
#include "assayer/cost.h"
#include "assayer/coverage.h"
#include "assayer/events.h"
#include "assayer/gallery.h"
#include "assayer/locate.h"
#include "assayer/precision.h"
#include "base/interrupt.h"
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

constexpr double kShare = 0.25;         // of the time left that one trial may take
constexpr double kNeededShare = 0.5;    // … that a pass requires
constexpr double kNeededSlack = 3;      // times as long as predicted that such a trial may take
constexpr double kPatience = 10;        // seconds of an ordinary trial, at most
constexpr double kFirstPatience = 2.5;  // … until one has shown that calls may take longer and still end
constexpr double kWaiting = 3;          // … of an attempt to shrink what waits for ever
constexpr int kWaitingAttempts = 3;     // of those
constexpr int kShrinkAttempts = 200;    // of others
constexpr double kHeldUp = 0.5;         // of the budget: a trial that takes more is named in the report
// What follows a failure has its own seconds, so that a check ends soon after its budget is spent:
constexpr double kHangSeconds = 8;   // to tell slow from endless: many short calls and a long one, or two
constexpr double kCauseSeconds = 4;  // to see it again and to find its cause: about a dozen calls
constexpr double kCauseCalls = 3;    // … but so many calls at least, where each is slow,
constexpr double kLongCauseSeconds = 12;  // … up to this
constexpr double kShrinkSeconds = 2;      // to make the trial small: many short calls
constexpr double kProfileSeconds = 3;     // to follow where precision is lost: a few slow ones
constexpr int kRechecks = 6;              // looks whether a failure has a known cause that is named otherwise
constexpr double kPictureSeconds = 1;     // for the numbers of the smallest case: one call
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
    lab_->set_timeout(kind == "timeout" ? kFirstPatience : 3 * kPatience);
    Attempt attempt = lab_->attempt(trial);
    Trial shown = trial;
    if (attempt.state == AttemptState::TooSlow) lab_->never_ends(shown, attempt);
    if (!note(attempt)) return finish();
    if (has_error(attempt.findings)) attempt = lab_->attribute(shown, std::move(attempt));
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
    CodeReading code = read_code(contract_, subject_);
    notes_ = std::move(code.notes);
    constants_ = read_constants(contract_, subject_);
    lab_.emplace(contract_, *reference_, subject_, options_);
    lab_->set_tensor_cores(std::move(code.tensor_cores));
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

  // Seconds that a planned call may take. A repeated check knows which were given up.
  double patience(const trial::PlannedTrial& planned) const {
    if (planned.required) return std::max(60.0, 3 * options_.budget);
    if (options_.course) return 3 * kPatience;
    if (planned.brief) return std::max(0.5, kBriefShare * options_.budget);
    if (planned.trial.condition.looped) return kPatience;  // dozens of calls
    const double slow = planned.needed ? kNeededSlack * cost_.predict(planned.trial.shape) : 0;
    return std::min(std::max(patience_, slow), std::max(kFirstPatience, options_.budget - since(start_)));
  }

  // `planned` becomes the smallest trial that does not end, if that is what it shows.
  Attempt run_planned(trial::PlannedTrial& planned) {
    const double limit = patience(planned);
    lab_->set_timeout(limit);
    lab_->set_sample(planned.brief ? kBriefSample : judge::Options{}.max_elements);
    Attempt attempt = lab_->attempt(planned.trial);
    lab_->set_sample(judge::Options{}.max_elements);
    if (attempt.state != AttemptState::TooSlow) return attempt;
    if (planned.brief && cost_.predict(planned.trial.shape) > limit) return attempt;
    if (attempt.unended && causes_.knows(*attempt.unended)) {
      attempt.findings = {*attempt.unended};
      attempt.state = AttemptState::Judged;
      return attempt;
    }
    say(fmt::format("no end after {:.0f} s: is it slow, or endless?", limit));
    begin_stage(kHangSeconds);
    const bool endless = lab_->never_ends(planned.trial, attempt);
    end_stage();
    for (const auto& [shape, seconds] : attempt.probed) cost_.learn(shape, seconds);
    if (endless || planned.brief || patience_ == kPatience) return attempt;
    // Only slow: if it will end in it, it gets the time that it was not given before that was known.
    patience_ = kPatience;
    const double more = patience(planned);
    if (cost_.predict(planned.trial.shape) > more) return attempt;
    lab_->set_timeout(more);
    return lab_->attempt(planned.trial);
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

  Attempt run_step(trial::PlannedTrial& planned) {
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
    plan_options.machines = options_.device == subject::Device::Virtual;
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
    while (auto planned = interrupted() ? std::nullopt : next(plan)) {
      say(progress_text(*planned));
      Attempt attempt = run_step(*planned);
      if (interrupted() && !failed(attempt)) continue;
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
      if (!planned->trial.condition.looped) cost_.learn(planned->trial.shape, attempt.seconds);
      if (attempt.seconds > kHeldUp * options_.budget && since(start_) > options_.budget)
        held_up_.push_back(fmt::format("{} ({:.0f} s)", trial::to_string(planned->trial), attempt.seconds));
      if (options_.trace) {
        options_.trace(fmt::format("{:>7.3f} s  {:>6.3f} s {} {:<22} {}", since(start_), attempt.seconds,
                                   planned->needed ? '*' : ' ', planned->stage,
                                   trial::to_string(planned->trial)));
      }
      coverage_.add(planned->trial, planned->stage, attempt);
      plan.judged(planned->trial);
      keep_host_warnings(attempt);
      gallery_.add(planned->trial, attempt);
      if (!failed(attempt)) {
        keep_warnings(planned->trial, attempt);
      } else if (settle(planned->trial, std::move(attempt)) && !options_.keep_going) {
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
    if (options_.keep_going && !is_new(trial, attempt)) return false;
    say("found something: looking for its cause");
    const std::vector<Finding> seen = attempt.findings;
    const std::string first_seen =
        fmt::format("{}: {} ({})", seen.front().kind, seen.front().message, trial::to_string(trial));
    const std::size_t which = course_.settled.size();
    course_.settled.emplace_back();
    begin_stage(std::clamp(kCauseCalls * attempt.seconds, kCauseSeconds, kLongCauseSeconds));
    if (options_.course && which < options_.course->settled.size()) {
      if (const int runs = options_.course->settled[which].runs; runs != Course::kAll)
        lab_->set_most_runs(lab_->runs() + runs);
    }
    const int before = lab_->runs();
    const std::string kind = attempt.findings.front().kind;
    const bool is_smallest = attempt.is_smallest;
    const bool confirmed = lab_->confirm(trial, attempt);
    if (confirmed) attempt = lab_->attribute(trial, std::move(attempt));
    const bool cut = lab_->out_of_time();
    course_.settled.back().runs = cut ? lab_->runs() - before : Course::kAll;
    lab_->set_most_runs(std::nullopt);
    end_stage();
    if (interrupted()) return leave_unsettled(first_seen);
    if (!confirmed && cut) {
      outcome_.report.unknown.push_back(
          fmt::format("seen once, and there was no time to see it again: {} ({})",
                      attempt.findings.front().message, trial::to_string(trial)));
      return false;
    }
    if (!confirmed) {
      coverage_.miss(fmt::format("seen once, not shown again: {} ({})", attempt.findings.front().message,
                                 trial::to_string(trial)));
      return false;
    }
    if (cut && attempt.findings.front().kind == kind)
      attempt.findings.front().evidence["cause"] = "there was no time to look for a cause behind it";
    report_findings(trial, attempt, !is_smallest, seen);
    return true;
  }

  // A failure whose cause nobody had the time to look for is no finding yet.
  bool leave_unsettled(const std::string& seen) {
    outcome_.report.unknown.push_back("seen when it was interrupted, and not confirmed: " + seen);
    return true;
  }

  // Whether a failure has a cause that is not known yet: its findings become those that nothing explains.
  bool is_new(const Trial& trial, Attempt& attempt) {
    std::vector<Finding> rest = causes_.unexplained(attempt.findings);
    if (!rest.empty()) {
      attempt.findings = std::move(rest);
      return true;
    }
    const std::string renamed = causes_.renamed(attempt.findings);
    if (renamed.empty() || rechecks_ == kRechecks) return false;
    ++rechecks_;
    begin_stage(kCauseSeconds);
    Trial shown = trial;
    Attempt again = attempt;
    const bool same = lab_->attribute_again(shown, again, renamed);
    end_stage();
    return !same;
  }

  // What follows has so much time; a check that follows the course of another has all it needs.
  void begin_stage(double seconds) {
    if (options_.course) return;
    lab_->set_deadline(Clock::now() +
                       std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  }
  void end_stage() { lab_->set_deadline(std::nullopt); }

  // What the smaller trial shows is the same failure. How many errors are alike, and so which defect they
  // look like, depends on how many there are: errors of an output are one failure whatever they look like.
  bool same_failure(const Finding& found, const Finding& small) const {
    if (small.severity != found.severity) return false;
    if (small.kind == found.kind) return !options_.keep_going || signature_of(small) == signature_of(found);
    return is_inexact(found.kind) && is_inexact(small.kind) &&
           text_at(found.evidence, "output") == text_at(small.evidence, "output");
  }

  // "dw[0, 3] is 1.5, should be 1.25"
  static std::string worst_text(const Finding& finding) {
    const Json worst = finding.evidence.value("worst", Json::object());
    const std::string sentence = text_at(worst.value("text", Json::object()), "sentence");
    if (sentence.empty()) return "";
    return fmt::format("{}{} {}", text_at(finding.evidence, "output"), text_at(worst, "element"), sentence);
  }

  // The smallest trial that still shows the failure. The finding becomes what that trial shows, unless only
  // the larger one tells what kind of error it is.
  Trial smallest(const Trial& trial, Finding& finding) {
    std::optional<Finding> small;
    const bool inexact = is_inexact(finding.kind);
    const auto still_fails = [&](const Trial& candidate) {
      if (lab_->out_of_time()) return false;
      ++course_.settled.back().shrinking;
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
    const bool waits = finding.kind == "deadlock" || text_at(finding.evidence, "symptom") == "deadlock";
    lab_->set_timeout(waits ? kWaiting : kPatience);
    const std::size_t which = course_.settled.size() - 1;
    const int most = options_.course && which < options_.course->settled.size()
                         ? options_.course->settled[which].shrinking
                     : waits ? kWaitingAttempts
                             : kShrinkAttempts;
    begin_stage(waits ? kWaiting * kWaitingAttempts : kShrinkSeconds);
    Trial reached = trial::shrink(contract_, trial, still_fails, most).trial;
    end_stage();
    if (!small) return reached;
    if (!inexact) {
      finding = std::move(*small);
    } else if (const std::string shows = worst_text(*small); !shows.empty()) {
      finding.evidence["smallest_shows"] = shows;
    }
    return reached;
  }

  // A trial that was made small shows the failure, and the larger one told its kind.
  static void name_as(Finding& finding, std::string_view kind) {
    if (finding.kind == kind || !is_inexact(finding.kind) || !is_inexact(kind)) return;
    finding.evidence["symptom"] = finding.kind;
    finding.kind = kind;
  }

  static std::string relation_of(const Finding& finding) { return text_at(finding.evidence, "relation"); }

  // Warnings of trials that otherwise pass: relations that do not hold, and what the device saw; each once.
  void keep_warnings(const Trial& trial, const Attempt& attempt) {
    for (const Finding& finding : attempt.findings) {
      Finding kept = finding;
      locate(contract_, notes_, kept);
      const bool known = std::any_of(outcome_.report.findings.begin(), outcome_.report.findings.end(),
                                     [&](const Finding& f) { return same_warning(f, kept); });
      if (known) continue;
      kept.evidence["found_with"] = trial::to_string(trial);
      kept.evidence["trial"] = trial::to_json(trial);
      outcome_.report.findings.push_back(std::move(kept));
    }
  }

  static bool same_warning(const Finding& a, const Finding& b) {
    const std::string relation = relation_of(a);
    if (!relation.empty() || !relation_of(b).empty()) return relation == relation_of(b);
    return a.kind == b.kind && a.where.file == b.where.file && a.where.line == b.where.line;
  }

  void keep_host_warnings(const Attempt& attempt) {
    for (Finding warning : attempt.warnings) {
      const bool known = std::any_of(
          outcome_.report.findings.begin(), outcome_.report.findings.end(),
          [&](const Finding& f) { return f.kind == warning.kind && f.message == warning.message; });
      if (known) continue;
      locate(contract_, notes_, warning);
      outcome_.report.findings.push_back(std::move(warning));
    }
  }

  // `seen`: what the failure looked like before its cause was known.
  void report_findings(const Trial& trial, const Attempt& attempt, bool shrinking,
                       const std::vector<Finding>& seen = {}) {
    std::vector<Finding> kept = distinct(attempt.findings, options_.keep_going);
    outcome_.report.files = files_of(contract_, subject_);
    Trial small = trial;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (options_.keep_going && causes_.knows(kept[i])) continue;
      // Apart, each has a smallest case of its own; else they are consequences in that of the first.
      if (i == 0 || options_.keep_going) {
        if (shrinking) small = smallest(trial, kept[i]);
        name_surroundings(small, kept[i]);
      }
      causes_.add(kept[i], seen);
      report_finding(std::move(kept[i]), trial, small, attempt);
    }
  }

  // A failure that takes a particular GPU or date says so first.
  void name_surroundings(const Trial& small, Finding& finding) {
    begin_stage(kCauseSeconds);
    const std::string needed = lab_->needed_surroundings(small);
    end_stage();
    if (needed.empty()) return;
    finding.message = fmt::format("{}: {}", needed, finding.message);
    finding.evidence["surroundings"] = needed;
  }

  void report_finding(Finding finding, const Trial& trial, const Trial& small, const Attempt& attempt) {
    begin_stage(kPictureSeconds);
    gallery_.add_failure(finding, trial, attempt, small, *lab_);
    end_stage();
    // What the smallest case only shows a part of is followed where it was found.
    const Trial& followed = finding.evidence.contains("smallest_shows") ? trial : small;
    const Json profile = is_numeric(finding.kind)
                             ? precision_of(finding, contract_, subject_, trial, followed, options_,
                                            options_.course ? Deadline() : Deadline(kProfileSeconds))
                             : Json();
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

  void note_interruption() {
    outcome_.contract_wrong = false;
    std::vector<std::string>& unknown = outcome_.report.unknown;
    std::erase_if(unknown, [](const std::string& text) { return text.ends_with("interrupted"); });
    unknown.insert(unknown.begin(), fmt::format("interrupted ({}) after {} trial{}", strsignal(interrupted()),
                                                coverage_.trials(), coverage_.trials() == 1 ? "" : "s"));
  }

  CheckOutcome finish() {
    report::Report& report = outcome_.report;
    if (interrupted()) note_interruption();
    report.seconds = subject_.seconds + (lab_ ? since(start_) : 0);
    if (lab_ && !lab_->files_guarded())
      coverage_.miss("writes outside the worker's folder: this kernel has no Landlock to refuse them");
    const bool failed = std::any_of(report.findings.begin(), report.findings.end(),
                                    [](const Finding& f) { return f.severity == Severity::Error; });
    if (!failed) coverage_.miss_dims();
    if (!failed && needs_more_ && report.unknown.empty())
      report.unknown.push_back(fmt::format(
          "{}. Try --budget {:.0f}", coverage_.too_little(options_.min_coverage), course_.budget_needed));
    if (options_.keep_going) {
      for (Finding& finding : report.findings)
        if (finding.evidence.contains("trial")) finding.evidence["trials"] = causes_.trials(finding);
    }
    report.coverage = coverage_.json();
    report.coverage["seed"] = options_.seed;
    report.coverage["budget_seconds"] = options_.budget;
    if (options_.min_coverage > 0) report.coverage["min_coverage"] = options_.min_coverage;
    report.coverage["course"] = course_.json();
    if (!held_up_.empty()) report.coverage["held_up"] = held_up_;
    report.coverage["build"] = {{"seconds", subject_.seconds}, {"cached", subject_.cached}};
    if (contract_.require.rtol || contract_.require.atol) report.coverage["budget_overridden"] = true;
    report.verdict = failed                                               ? Verdict::Fail
                     : !report.unknown.empty() || coverage_.trials() == 0 ? Verdict::Inconclusive
                                                                          : Verdict::Pass;
    if (report.verdict == Verdict::Inconclusive && report.unknown.empty()) {
      report.unknown.push_back("no trial could be run");
    }
    for (const lint::Note& note : notes_) report.findings.push_back(lint::to_finding(note));
    if (reference_) gallery_.hang(*reference_, report);
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
  Causes causes_;
  double patience_ = kFirstPatience;  // seconds
  int rechecks_ = 0;                  // of failures that may have a known cause
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

CheckOutcome replay(const Contract& contract, const Trial& trial, std::string_view kind,
                    const CheckOptions& options) {
  return guarded(contract, [&] { return Check(contract, options).run_one(trial, kind); });
}

}  // namespace assay::assayer
