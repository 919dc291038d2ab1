#include "assayer/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "assayer/events.h"
#include "assayer/locate.h"
#include "base/symbol.h"
#include "judge/numbers.h"
#include "judge/relations.h"
#include "subject/places.h"
#include "trial/random.h"
#include "trial/shapes.h"

namespace assay::assayer {

using contract::Bindings;
using subject::Observation;
using subject::Outcome;
using trial::Poison;
using trial::Trial;

namespace {

constexpr double kSmallBytes = 16e6;  // of a trial that has no need for all the machine's memory
constexpr double kMostOrderedBytes = 256e6;
constexpr std::size_t kMostHistory = 64;  // calls of a process that are remembered
constexpr double kLeastLimit = 0.3;       // seconds that a call gets however late it is
constexpr const char* kNoTime = "there was no time left for it";

subject::RunnerOptions runner_options(const CheckOptions& options) {
  subject::RunnerOptions runner = options.runner;
  runner.device = options.device;
  return runner;
}

Finding finding_of(std::string kind, std::string message) {
  Finding finding;
  finding.kind = std::move(kind);
  finding.message = std::move(message);
  return finding;
}

std::string trespass_text(const subject::Trespass& t) {
  return t.offset < 0 ? fmt::format("{} bytes before tensor {} changed, the first {} bytes ahead of it",
                                    t.bytes, t.tensor, -t.offset)
                      : fmt::format("{} bytes past tensor {} changed, the first at byte {} from its start",
                                    t.bytes, t.tensor, t.offset);
}

bool is_host_warning(const Finding& finding) {
  return finding.severity == Severity::Warning &&
         (finding.kind == "forbidden-call" || finding.kind == "environment-probe");
}

bool is_list_of_texts(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& item) { return item.is_string(); });
}

// What was seen in a launch that was cut short, where nothing more was heard of it.
void add_sightings(const contract::Contract& contract, const Trial& trial, const Observation& observation,
                   std::vector<Finding>& findings) {
  if (observation.outcome != Outcome::TimedOut && observation.outcome != Outcome::Crashed) return;
  for (const subject::Event& event : observation.events) {
    const auto sighting = event.find("finding");
    auto seen = sighting != event.end() && sighting->is_object() ? read_event(contract, trial, *sighting)
                                                                 : std::nullopt;
    if (!seen) continue;
    const bool known = std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.kind == seen->kind && f.where.file == seen->where.file && f.where.line == seen->where.line;
    });
    if (!known) findings.push_back(std::move(*seen));
  }
}

// Where a call stood when it was last heard of: at lines of a kernel that had not ended, or in host code.
Finding unended(const Observation& observation, const std::string& entry) {
  const subject::Event* running = nullptr;
  for (const subject::Event& event : observation.events) {
    const std::string what = text_at(event, "event");
    if (what == "still-running") running = &event;
    if (what == "launch") running = nullptr;  // that one ended
  }
  if (running == nullptr)
    return finding_of("timeout", fmt::format("the host code of {} did not return ({}), and no kernel was running",
                                             entry, observation.error));
  Finding finding = finding_of("timeout", "");
  const std::string kernel = plain_name(text_at(*running, "kernel"));
  finding.evidence["kernel"] = kernel;
  finding.evidence["standing"] = Json::array();
  std::string places;
  const Json lines = running->value("lines", Json::array());
  for (const Json& line : lines.is_array() ? lines : Json::array()) {
    if (!line.is_object() || !line.contains("line") || !line["line"].is_number_integer()) continue;
    const Where where{text_at(line, "file"), line["line"].get<int>()};
    if (finding.where.line == 0) finding.where = where;
    const std::string place = fmt::format("{}:{}", shown(where.file), where.line);
    finding.evidence["standing"].push_back(place);
    places += (places.empty() ? "" : ", ") + place;
  }
  finding.message = fmt::format("kernel `{}` did not end ({}){}", kernel, observation.error,
                                places.empty() ? "" : fmt::format("; its warps are at {}", places));
  return finding;
}

}  // namespace

bool has_error(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.severity == Severity::Error; });
}

bool is_inexact(std::string_view kind) {
  return kind == "wrong-result" || kind == "low-precision-accumulation" || kind == "precision-loss" ||
         kind == "biased-rounding";
}

bool is_numeric(std::string_view kind) {
  return is_inexact(kind) || kind == "nonfinite";
}

Laboratory::Laboratory(const contract::Contract& contract, const contract::Reference& reference,
                       const subject::Subject& subject, const CheckOptions& options)
    : contract_(contract),
      reference_(reference),
      subject_(subject),
      options_(options),
      runner_(contract, subject, runner_options(options)),
      work_(contract) {}

void Laboratory::read_events(const Trial& trial, const Observation& observation, Attempt& attempt) {
  for (const subject::Event& event : observation.events) {
    if (text_at(event, "event") == "unsupported") {
      const std::string function = text_at(event, "function");
      const std::string what = function.empty() ? text_at(event, "message") : function;
      attempt.state = AttemptState::Unsupported;
      attempt.problem = fmt::format("the virtual GPU does not support {}", what);
      continue;
    }
    auto finding = read_event(contract_, trial, event);
    if (finding)
      (is_host_warning(*finding) ? attempt.warnings : attempt.findings).push_back(std::move(*finding));
  }
  add_sightings(contract_, trial, observation, attempt.findings);
  name_host_code(attempt.findings);
  name_host_code(attempt.warnings);
}

// Lines of the subject's host code, from its own line table.
void Laboratory::name_host_code(std::vector<Finding>& findings) const {
  bool any = false;
  for (Finding& finding : findings) {
    Json& evidence = finding.evidence;
    if (evidence.contains("calls") && !is_list_of_texts(evidence["calls"])) evidence.erase("calls");
    if (evidence.contains("host") && !evidence["host"].is_string()) evidence.erase("host");
    if (evidence.contains("allocation") && evidence["allocation"].is_object())
      evidence["allocation"].erase("calls");
    any |= evidence.contains("calls") || evidence.contains("host");
  }
  if (!any || subject_.library.empty()) return;
  subject::Places places;
  places.add_module(subject::kLibraryName, subject_.library);
  places.name(findings);
}

void Laboratory::read_outcome(const Trial& trial, const Observation& observation, Attempt& attempt) {
  switch (observation.outcome) {
    case Outcome::Ended:
      break;
    case Outcome::DeviceError:
      if (!has_error(attempt.findings) && attempt.state == AttemptState::Judged) {
        attempt.findings.push_back(finding_of("launch-failure", observation.error));
      }
      return;
    case Outcome::Crashed:
      if (!has_error(attempt.findings)) attempt.findings.push_back(finding_of("crash", observation.error));
      // What the device says of host code that touched its memory is what that code died of.
      for (Finding& finding : attempt.findings) {
        if (text_at(finding.evidence, "space") == "host") finding.kind = "crash";
      }
      return;
    case Outcome::TimedOut: {
      if (has_error(attempt.findings)) return;  // seen before its time was up
      attempt.state = AttemptState::TooSlow;
      attempt.problem = fmt::format("{}: {}", trial::to_string(trial), observation.error);
      attempt.unended = unended(observation, subject_.symbol);
      return;
    }
    case Outcome::TooLarge:
      if (const auto size = trial::size_of(contract_, trial.shape); size && size->bytes <= kSmallBytes) {
        attempt.findings.push_back(finding_of("crash", "the call was stopped: " + observation.error));
        return;
      }
      attempt.state = AttemptState::Skipped;
      attempt.problem = observation.error;
      return;
    case Outcome::Unavailable:
      attempt.state = AttemptState::Unavailable;
      attempt.problem = observation.error;
      return;
  }
  for (const subject::Call& call : observation.calls) {
    if (call.returned != 0) {
      attempt.findings.push_back(
          finding_of("launch-failure", fmt::format("{} returned {}", subject_.symbol, call.returned)));
    }
    for (const subject::Trespass& t : call.trespasses) {
      attempt.findings.push_back(finding_of("out-of-bounds", trespass_text(t)));
    }
    for (const std::string& name : call.changed_inputs) {
      attempt.findings.push_back(
          finding_of("clobbered-input", fmt::format("the call changed its input {}", name)));
    }
  }
}

void Laboratory::judge_calls(const Trial&, const std::vector<Bindings>& bindings, Attempt& attempt,
                             bool diagnose) {
  judge::Options options;
  options.tensor_cores = !attempt.wider_budgets.empty();
  options.diagnose = diagnose;
  options.seed = options_.seed;
  options.threads = options_.threads;
  options.max_work *= static_cast<double>(sample_) / static_cast<double>(options.max_elements);
  options.max_elements = sample_;
  options.hints = hints_;
  for (std::size_t i = 0; i < attempt.calls.size(); ++i) {
    auto judgement = judge::judge(contract_, reference_, bindings[i], attempt.calls[i].outputs, options);
    if (!judgement) {
      attempt.state = AttemptState::Unjudgeable;
      attempt.problem = judgement.error().text();
      return;
    }
    attempt.judged += judgement->judged;
    attempt.elements += judgement->elements;
    attempt.undecided += judgement->undecided;
    for (Finding& finding : judgement->findings) attempt.findings.push_back(std::move(finding));
  }
}

double Laboratory::time_limit() const {
  if (!deadline_) return timeout_;
  const double left =
      std::chrono::duration<double>(*deadline_ - std::chrono::steady_clock::now()).count();
  return std::min(timeout_, std::max(kLeastLimit, left));
}

// Calls whose results nobody looks at: a smaller one; or a larger one, and one with other inputs at the same
// addresses.
void Laboratory::warm_up(const Trial& trial) {
  runner_.restart();
  std::vector<Trial> earlier(trial.condition.grown ? 1 : 2, trial);
  for (const contract::Dim& dim : contract_.dims) {
    int64_t& value = earlier[0].shape[dim.name];
    value = trial::snap(dim, trial.condition.grown ? value / 8 : std::min<int64_t>(value * 2, value + 64));
  }
  for (Trial& call : earlier) {
    call.condition = {.gpu = trial.condition.gpu, .clock = trial.condition.clock};  // the same process
    call.seed = trial::mix(trial.seed, 7);
    if (const auto inputs = trial::make_inputs(contract_, call)) runner_.run(call, *inputs);
  }
}

Attempt Laboratory::run(const Trial& asked, bool diagnose) {
  Attempt attempt;
  if (out_of_time()) {
    attempt.state = AttemptState::Skipped;
    attempt.problem = kNoTime;
    return attempt;
  }
  ++runs_;
  const auto start = std::chrono::steady_clock::now();
  Trial trial = asked;
  const auto size = trial::size_of(contract_, trial.shape);
  if ((size && size->bytes > kMostOrderedBytes) || !trial.sparse.empty()) trial.condition.ordered = false;
  std::vector<Bindings> bindings;
  for (int i = 0; i < (trial.condition.overlapped ? 2 : 1); ++i) {
    Trial other = trial;
    if (i > 0) other.seed = trial::mix(trial.seed, 99);
    auto made = trial::make_inputs(contract_, other);
    if (!made) {
      attempt.state = AttemptState::Skipped;
      attempt.problem = made.error().text();
      return attempt;
    }
    bindings.push_back(std::move(*made));
  }
  if (trial.condition.warmed || trial.condition.grown) warm_up(trial);
  attempt.calls_before = trial.condition.fresh ? 0 : runner_.calls_in_process();
  observe(trial, bindings, diagnose, attempt);
  attempt.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return attempt;
}

// Runs the call, or two at once, and judges what comes back.
void Laboratory::observe(const Trial& trial, const std::vector<Bindings>& bindings, bool diagnose,
                         Attempt& attempt) {
  runner_.set_timeout(time_limit());
  Observation observation = runner_.run(trial, bindings[0], bindings.size() > 1 ? &bindings[1] : nullptr);
  read_events(trial, observation, attempt);
  read_outcome(trial, observation, attempt);
  attempt.calls = std::move(observation.calls);
  attempt.call_seconds = observation.seconds;
  attempt.wider_budgets = tensor_cores_.reasons(observation.kernels);
  if (attempt.state == AttemptState::Judged && !has_error(attempt.findings))
    judge_calls(trial, bindings, attempt, diagnose);
  std::stable_partition(attempt.findings.begin(), attempt.findings.end(),
                        [](const Finding& f) { return f.severity == Severity::Error; });
}

// Once more under another schedule, at other addresses, over other remains.
void Laboratory::compare_repetition(const Trial& trial, Attempt& attempt) {
  if (!contract_.require.deterministic || attempt.calls.empty()) return;
  Trial again = trial;
  again.condition.schedule = trial::mix(trial.condition.schedule, 5) >> 40;
  again.condition.moved = true;
  const Attempt other = run(again, false);
  for (std::size_t i = 0; i < std::min(attempt.calls.size(), other.calls.size()); ++i) {
    for (const auto& [name, tensor] : attempt.calls[i].outputs) {
      const contract::Tensor& second = *other.calls[i].outputs.at(name);
      if (tensor->bytes == second.bytes) continue;
      int64_t differing = 0, first = -1;
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (std::memcmp(tensor->at(e), second.at(e), static_cast<std::size_t>(tensor->item_bytes())) == 0)
          continue;
        if (differing++ == 0) first = e;
      }
      Finding finding = finding_of(
          "nondeterministic",
          fmt::format("two calls with the same inputs differ in {} elements of {}: {}{} is {} and then {}",
                      differing, name, name, contract::coordinates(tensor->extents, first),
                      judge::element_text(*tensor, first), judge::element_text(second, first)));
      finding.evidence["differing"] = differing;
      attempt.findings.push_back(std::move(finding));
    }
  }
}

// Whether the companion is wrong after the trial's own call and right as the first of a process, twice, so
// that chance has no part in it.
bool Laboratory::is_of_earlier_calls(const Trial& trial, const Bindings& first, const Trial& companion,
                                     const Bindings& second) {
  const auto is_right = [&](const Trial& call, const Bindings& inputs) {
    Attempt attempt;
    observe(call, {inputs}, false, attempt);
    return attempt.state == AttemptState::Judged && !has_error(attempt.findings);
  };
  for (int i = 0; i < 2; ++i) {
    runner_.restart();
    if (!is_right(companion, second)) return false;
    runner_.restart();
    is_right(trial, first);
    if (is_right(companion, second)) return false;
  }
  return true;
}

// The same call with inputs changed in known ways: each must be right by itself, and what must hold between
// both follows from the formula.
void Laboratory::compare_related(const Trial& trial, Attempt& attempt) {
  const auto bindings = trial::make_inputs(contract_, trial);
  if (!bindings || attempt.calls.empty()) return;
  for (const judge::Companion& companion : judge::companions(contract_, reference_, *bindings, trial.seed)) {
    Trial other = trial;
    other.shape = companion.bindings.shape;
    Attempt second;
    observe(other, {companion.bindings}, true, second);
    if (second.state != AttemptState::Judged) continue;
    if (has_error(second.findings)) {
      const bool stale = is_of_earlier_calls(trial, *bindings, other, companion.bindings);
      for (Finding& finding : second.findings) {
        if (stale) finding.kind = "stale-state";
        finding.message =
            fmt::format("{}with {}: {}", stale ? "right in a new process, wrong after another call: " : "",
                        companion.text, finding.message);
        finding.evidence["relation"] = judge::to_string(companion.relation);
        attempt.findings.push_back(std::move(finding));
      }
      return;
    }
    if (second.calls.empty()) continue;
    for (Finding& finding : judge::compare(contract_, reference_, *bindings, companion,
                                           attempt.calls[0].outputs, second.calls[0].outputs))
      attempt.findings.push_back(std::move(finding));
  }
}

Attempt Laboratory::attempt(const Trial& trial, bool diagnose) {
  const trial::Condition& condition = trial.condition;
  if (runner_.calls_in_process() == 0 || condition.fresh || condition.warmed || condition.grown) history_.clear();
  Attempt attempt = run(trial, diagnose);
  if (attempt.state == AttemptState::Judged && !has_error(attempt.findings) && trial.condition.related)
    compare_related(trial, attempt);
  if (attempt.state == AttemptState::Judged && !has_error(attempt.findings) && trial.condition.repeated) {
    compare_repetition(trial, attempt);
  }
  if (has_error(attempt.findings)) attempt.before = history_;
  if (history_.size() == kMostHistory) history_.erase(history_.begin());
  history_.push_back(trial);
  return attempt;
}

}  // namespace assay::assayer
