#include "assayer/trial_runner.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>

#include "assayer/limits.h"
#include "assayer/locate.h"
#include "assayer/seen.h"
#include "base/random.h"
#include "judge/numbers.h"
#include "judge/relations.h"
#include "judge/steps.h"
#include "subject/device_code.h"
#include "trial/scalars.h"
#include "trial/shapes.h"

namespace assay::assayer {

using contract::Bindings;
using subject::CallOutcome;
using subject::Observation;
using trial::Trial;

namespace {

constexpr std::size_t kMostSeedsInPairs = 4;  // beside the first; time
constexpr std::size_t kShownBytes = 16;       // protocol::LoadDifference
constexpr const char* kNoTime = "there was no time left for it";

subject::RunnerOptions runner_options(const CheckOptions& options) {
  subject::RunnerOptions runner = options.runner;
  runner.device = options.device;
  runner.report_launches = options.launched && options.device == subject::Device::Virtual;
  return runner;
}

Finding launch_failure(evidence::Launch launch) {
  return {.kind = Kind::LaunchFailure, .evidence = std::move(launch)};
}

// What a real GPU says of a kernel that it has stopped. The virtual device has reported the access itself.
Finding device_failure(const Observation& observation) {
  struct Row {
    int status;  // cudaError_t
    Kind kind;
    const char* what;
  };
  constexpr Row kFaults[] = {
      {700, Kind::OutOfBounds, "an access to memory that does not belong to the call"},
      {716, Kind::Misaligned, "an access whose address is not a multiple of its width"},
  };
  for (const Row& row : kFaults)
    if (row.status == observation.error_code)
      return {
          .kind = row.kind,
          .evidence = evidence::Access{.detail = fmt::format("the GPU stopped the kernel at {}", row.what)}};
  return launch_failure({.status = observation.error_code, .detail = observation.error});
}

// A GPU of another kind than the contract's, or a driver that is too old for the compiler: no fault of the kernel's.
bool is_other_gpu(int status) {
  constexpr int kNoImage = 209,
                kPtxTooNew = 222;  // cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion
  return status == kNoImage || status == kPtxTooNew;
}

// What pauses in a kernel may do to it: it needs more time, and more registers. Neither was promised.
bool is_of_pauses(const Observation& observation) {
  constexpr int kOutOfResources = 701,
                kCooperativeTooLarge =
                    720;  // cudaErrorLaunchOutOfResources, cudaErrorCooperativeLaunchTooLarge
  const auto is_too_much = [](int status) {
    return status == kOutOfResources || status == kCooperativeTooLarge;
  };
  return observation.outcome == CallOutcome::TimedOut || is_too_much(observation.error_code) ||
         std::any_of(observation.calls.begin(), observation.calls.end(),
                     [&](const subject::Call& call) { return is_too_much(call.returned); });
}

// A function that raised has crashed; what it returned wrongly is a wrong result.
Finding python_failure(const protocol::PythonFailure& failure) {
  if (failure.output.empty()) {
    Finding finding = crash(failure.text);
    std::get<evidence::Process>(finding.evidence).raised = true;
    finding.where = {shown(failure.file), failure.line};
    return finding;
  }
  return {.kind = Kind::WrongResult,
          .where = {shown(failure.file), failure.line},
          .evidence = evidence::Numeric{.output = failure.output, .misfit = failure.text}};
}

// Bytes outside a tensor that changed during the call.
Finding trespass(const subject::Trespass& t) {
  evidence::Access access{.access = evidence::AccessKind::Write};
  access.place.offset = t.offset;
  access.place.element = evidence::TensorElement{t.tensor, {}, {}};
  access.bytes_changed = static_cast<uint64_t>(t.bytes);
  if (t.in_gap) access.detail = "between its elements";
  return {.kind = Kind::OutOfBounds, .evidence = std::move(access)};
}

}  // namespace

TrialRunner::TrialRunner(const contract::Contract& contract, const reference::Reference& reference,
                         const subject::Subject& subject, const CheckOptions& options)
    : contract_(contract),
      reference_(reference),
      subject_(subject),
      options_(options),
      runner_(contract, subject, runner_options(options)),
      work_(contract) {}

bool TrialRunner::is_for_another_gpu(const Observation& observation) const {
  if (options_.device != subject::Device::Cuda) return false;
  return is_other_gpu(observation.error_code) ||
         std::any_of(observation.calls.begin(), observation.calls.end(),
                     [](const subject::Call& call) { return is_other_gpu(call.returned); });
}

void TrialRunner::read_outcome(const Trial& trial, const Observation& observation, TrialResult& result) {
  if (is_for_another_gpu(observation)) {
    result.state = TrialState::Unavailable;
    result.problem =
        fmt::format("this GPU or its driver cannot run code for {}; `assay doctor --for {}` says more",
                    contract_.kernel.arch, contract_.path);
    return;
  }
  if (trial.condition.perturbed && is_of_pauses(observation)) {
    result.state = TrialState::Skipped;
    result.problem = observation.error;
    return;
  }
  switch (observation.outcome) {
    case CallOutcome::Ended:
      break;
    case CallOutcome::DeviceError:
      if (!has_error(result.findings) && result.state == TrialState::Judged)
        result.findings.push_back(
            options_.device == subject::Device::Virtual
                ? launch_failure({.status = observation.error_code, .detail = observation.error})
                : device_failure(observation));
      return;
    case CallOutcome::PythonFailed:
      if (observation.python->unsupported) {
        result.state = TrialState::Unsupported;
        result.problem = observation.error;
      } else if (!has_error(result.findings) && result.state == TrialState::Judged) {
        result.findings.push_back(python_failure(*observation.python));
      }
      return;
    case CallOutcome::Crashed:
      if (!has_error(result.findings)) result.findings.push_back(crash(observation.error));
      return;
    case CallOutcome::TimedOut: {
      if (has_error(result.findings)) return;  // seen before its time was up
      result.state = TrialState::TooSlow;
      result.problem = fmt::format("{}: {}", trial::to_string(trial), observation.error);
      result.unended = unended(observation, subject_.symbol);
      return;
    }
    case CallOutcome::NoDeviceMemory: {
      const auto size = trial::size_of(contract_, trial.shape);
      result.state = size && size->bytes <= kSmallBytes ? TrialState::Unavailable : TrialState::Skipped;
      result.problem = observation.error;
      return;
    }
    case CallOutcome::TooLarge:
      if (const auto size = trial::size_of(contract_, trial.shape); size && size->bytes <= kSmallBytes) {
        result.findings.push_back(crash("the call was stopped: " + observation.error));
        return;
      }
      result.state = TrialState::Skipped;
      result.problem = observation.error;
      return;
    case CallOutcome::NotPerturbed:
      result.state = TrialState::Skipped;
      result.problem = observation.error;
      return;
    case CallOutcome::Unavailable:
      result.state = TrialState::Unavailable;
      result.problem = options_.device_problem.empty() ? observation.error : options_.device_problem;
      return;
  }
  for (const subject::Call& call : observation.calls) {
    if (call.returned != 0)
      result.findings.push_back(launch_failure({.function = subject_.symbol, .status = call.returned}));
    for (const subject::Trespass& t : call.trespasses) result.findings.push_back(trespass(t));
    for (const std::string& name : call.changed_inputs)
      result.findings.push_back({.kind = Kind::ClobberedInput, .evidence = evidence::Access{.input = name}});
  }
}

void TrialRunner::note_use(const Observation& observation) {
  gpu_use_.time += observation.time;
  if (observation.shaken) shaken_ = observation.shaken;
  gpu_use_.repeats += observation.repeats + (observation.load ? observation.load->repeats : 0);
}

// Repeated calls must give the same bits only where the contract says so; what they give is judged as ever. Nobody
// promised that a call can be captured into a graph: what is wrong there is a warning.
void TrialRunner::judge_load(const Trial& trial, const Observation& observation, TrialResult& result) const {
  if (!observation.load) return;
  const auto add = [&](const protocol::LoadDifference& found, Severity severity, const char* relation) {
    const contract::TensorSpec* spec = contract_.tensor(found.buffer);
    if (!spec) return;
    const int64_t item = contract::info(spec->dtype).bytes, element = found.offset / item;
    evidence::Numeric numeric{.output = found.buffer};
    const auto extents = spec->extents(trial.shape);
    evidence::Difference difference{
        .relation = relation, .change = found.how, .count = (found.bytes + item - 1) / item};
    const bool plain = spec->strides.empty() && contract::info(spec->dtype).bits >= 8;
    if (extents && plain) difference.index = contract::index_of(*extents, element);
    const auto text = [&](const std::vector<uint8_t>& bytes) {
      const auto at = static_cast<std::size_t>(element * item % static_cast<int64_t>(kShownBytes));
      contract::Tensor one = contract::Tensor::zeros(spec->dtype, {1});
      if (!plain || at + one.bytes.size() > bytes.size()) return std::string("one value");
      std::memcpy(one.bytes.data(), bytes.data() + at, one.bytes.size());
      return judge::element_text(one, 0);
    };
    difference.first = text(found.before);
    difference.second = text(found.after);
    numeric.difference = std::move(difference);
    result.findings.push_back(
        {.kind = Kind::Nondeterministic, .severity = severity, .evidence = std::move(numeric)});
  };
  if (observation.load->difference && contract_.require.deterministic)
    add(*observation.load->difference, Severity::Error, "load");
  if (observation.load->graph_difference)
    add(*observation.load->graph_difference, Severity::Warning, "graph");
}

judge::Options TrialRunner::judge_options(bool tensor_cores, bool diagnose) const {
  judge::Options options;
  options.tensor_cores = tensor_cores;
  options.diagnose = diagnose;
  options.margins = options_.margins;
  options.seed = options_.seed;
  options.threads = options_.threads;
  options.max_work *= static_cast<double>(sample_) / static_cast<double>(options.max_elements);
  options.max_elements = sample_;
  options.hints = hints_;
  return options;
}

void TrialRunner::judge_calls(const std::vector<Bindings>& bindings,
                              const std::vector<judge::Foreseen>& foreseen, TrialResult& result,
                              bool diagnose) {
  judge::Options options = judge_options(!result.wider_budgets.empty(), diagnose);
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    options.foreseen = i < foreseen.size() ? &foreseen[i] : nullptr;
    auto judgement = judge::judge(contract_, reference_, bindings[i], result.calls[i].outputs, options);
    if (!judgement) {
      result.state = TrialState::Unjudgeable;
      result.problem = judgement.error().text();
      return;
    }
    result.judged += judgement->judged;
    result.elements += judgement->elements;
    result.undecided += judgement->undecided;
    result.errors.add(judgement->errors);
    if (options_.margins) result.margins.add(judgement->margins);
    for (Finding& finding : judgement->findings) result.findings.push_back(std::move(finding));
  }
}

// What the reference says of the calls, evaluated while they run. Which budgets will be asked for is a guess.
std::future<std::vector<judge::Foreseen>> TrialRunner::foresee(const std::vector<Bindings>& bindings) const {
  judge::Options options = judge_options(used_tensor_cores_, false);
  return std::async(std::launch::async, [this, &bindings, options = std::move(options)] {
    // The kernel goes first: how long it runs is measured, and limited.
    constexpr int kBehindTheKernel = 5;
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBehindTheKernel);
    if (contract_.reference.kind == contract::ReferenceKind::Torch)
      reference_.expect_ahead(bindings[0], options.tensor_cores);
    std::vector<judge::Foreseen> foreseen;
    for (const Bindings& one : bindings)
      foreseen.push_back(judge::foresee(contract_, reference_, one, options));
    return foreseen;
  });
}

double TrialRunner::time_left() {
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - stage_->start).count();
  const double own = stage_->taken.seconds({runner_.processes(), {reference_.process()}}, 0);
  return stage_->seconds - std::max(own, kLeastOwnShare * elapsed);
}

double TrialRunner::time_limit() {
  if (!stage_) return timeout_;
  return std::min(timeout_, std::max(kLeastCallSeconds, time_left()));
}

// Another of the contract's own shapes, where there is one.
contract::Shape TrialRunner::another_shape(const contract::Shape& shape) const {
  const auto other = std::find_if(contract_.shapes.begin(), contract_.shapes.end(),
                                  [&](const contract::Shape& listed) { return listed != shape; });
  return other == contract_.shapes.end() ? shape : *other;
}

// Calls whose results are not used: a smaller one; or a larger one, and one with other inputs at the same
// addresses.
void TrialRunner::warm_up(const Trial& trial) {
  runner_.restart();
  constexpr int64_t kSmaller = 8,
                    kMostLarger = 64;  // times; elements of a dim, so that the call costs little more
  std::vector<Trial> earlier(trial.condition.grown ? 1 : 2, trial);
  for (const contract::Dim& dim : contract_.dims) {
    int64_t& value = earlier[0].shape[dim.name];
    value =
        trial::snap(dim, trial.condition.grown ? value / kSmaller : std::min(value * 2, value + kMostLarger));
  }
  if (!contract_.check_shape(earlier[0].shape)) earlier[0].shape = another_shape(trial.shape);
  for (Trial& call : earlier) {
    call.condition = {.gpu = trial.condition.gpu, .clock = trial.condition.clock};  // the same process
    call.seed = mix(trial.seed, 7);
    call.scalars = trial::other_scalars(contract_, trial.scalars);
    const auto inputs = trial::make_inputs(contract_, call, options_.generator);
    if (!inputs) continue;
    const Observation observation = runner_.run(call, *inputs);
    note_launches(call, observation);
    note_use(observation);
  }
}

void TrialRunner::note_launches(const Trial& trial, const Observation& observation) const {
  if (options_.launched) options_.launched(trial, observation);
}

Result<std::vector<Bindings>> TrialRunner::inputs_of(const Trial& trial) const {
  std::vector<Bindings> inputs;
  for (int i = 0; i < (trial.condition.overlapped ? 2 : 1); ++i) {
    Trial other = trial;
    if (i > 0) {
      other.seed = mix(trial.seed, 99);
      other.scalars = trial::other_scalars(contract_, trial.scalars);
    }
    try {
      auto made = trial::make_inputs(contract_, other, options_.generator);
      if (!made) return made.error();
      inputs.push_back(std::move(*made));
    } catch (const std::bad_alloc&) {
      return Error{"there is not enough memory for its tensors"};
    }
  }
  return inputs;
}

TrialResult TrialRunner::run_once(const Trial& asked, bool diagnose) {
  TrialResult result;
  if (out_of_time()) {
    result.state = TrialState::Skipped;
    result.problem = kNoTime;
    return result;
  }
  ++runs_;
  const auto start = std::chrono::steady_clock::now();
  const double built = runner_.build_seconds();
  Trial trial = asked;
  if (trial.sampled) {
    trial.condition.ordered =
        false;  // its inputs are made as they are read: no work on the stream brings them
    run_sampled(trial, result);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() - result.turn_seconds;
    return result;
  }
  const auto size = trial::size_of(contract_, trial.shape);
  if ((size && size->bytes > kMostOrderedBytes) || !trial.sparse.empty()) trial.condition.ordered = false;
  const auto bindings = inputs_of(trial);
  if (!bindings) {
    result.state = TrialState::Skipped;
    result.problem = bindings.error().text();
    return result;
  }
  if (trial.condition.warmed || trial.condition.grown) warm_up(trial);
  result.calls_before = trial.condition.fresh ? 0 : runner_.calls_in_process();
  observe(trial, *bindings, diagnose, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() -
                   (runner_.build_seconds() - built);
  return result;
}

// Runs the call, or two at once, and judges what comes back.
void TrialRunner::observe(const Trial& trial, const std::vector<Bindings>& bindings, bool diagnose,
                          TrialResult& result) {
  runner_.set_timeout(time_limit());
  std::future<std::vector<judge::Foreseen>> ahead = foresee(bindings);
  Observation observation = runner_.run(trial, bindings[0], bindings.size() > 1 ? &bindings[1] : nullptr);
  note_launches(trial, observation);
  Seen seen = seen_by_device(contract_, subject_, trial, observation);
  if (!seen.unsupported.empty()) {
    result.state = TrialState::Unsupported;
    result.problem = std::move(seen.unsupported);
  }
  result.findings = std::move(seen.findings);
  result.warnings = std::move(seen.host_warnings);
  read_outcome(trial, observation, result);
  judge_load(trial, observation, result);
  note_use(observation);
  result.calls = std::move(observation.calls);
  result.call_seconds = observation.limited_seconds;
  learn_code(observation.code);
  if (const auto& launch = observation.last_launch; launch && !subject_.python.empty())
    result.last_kernel =
        LastKernel{launch->kernel, subject::place_of_kernel(modules_, launch->kernel), launch->launched_at};
  if (observation.kernels) result.launched = !observation.kernels->empty();
  result.wider_budgets = tensor_cores_.reasons(observation.kernels);
  const std::vector<judge::Foreseen> foreseen = ahead.get();
  used_tensor_cores_ = !result.wider_budgets.empty();
  if (result.state == TrialState::Judged && !has_error(result.findings))
    judge_calls(bindings, foreseen, result, diagnose);
  std::stable_partition(result.findings.begin(), result.findings.end(),
                        [](const Finding& f) { return f.severity == Severity::Error; });
}

void TrialRunner::learn_code(const std::vector<std::string>& texts) {
  const std::size_t known = modules_.size();
  for (const std::string& text : texts) {
    if (!code_.insert(text).second) continue;
    auto module = ptx::parse(text, "ptx");
    if (!module) continue;
    modules_.push_back(std::move(*module));
    if (use_new_code_) use_new_code_(text);
  }
  if (modules_.size() > known) tensor_cores_ = subject::TensorCores(modules_);
}

Trial TrialRunner::repetition_of(Trial trial) {
  trial.condition.schedule = mix(trial.condition.schedule, 5) >> 40;
  trial.condition.moved = true;
  trial.condition.repeated = false;
  return trial;
}

void TrialRunner::compare_repetition(const Trial& trial, TrialResult& result) {
  if (!contract_.require.deterministic || result.calls.empty()) return;
  const TrialResult other = run_once(repetition_of(trial), false);
  for (std::size_t i = 0; i < std::min(result.calls.size(), other.calls.size()); ++i) {
    for (const auto& [name, tensor] : result.calls[i].outputs) {
      const contract::Tensor& second = *other.calls[i].outputs.at(name);
      if (tensor->bytes == second.bytes) continue;
      int64_t differing = 0, first = -1;
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (std::memcmp(tensor->at(e), second.at(e), static_cast<std::size_t>(tensor->item_bytes())) == 0)
          continue;
        if (differing++ == 0) first = e;
      }
      evidence::Numeric numeric{.output = name};
      numeric.difference = evidence::Difference{.relation = "repeated",
                                                .count = differing,
                                                .index = contract::index_of(tensor->extents, first),
                                                .first = judge::element_text(*tensor, first),
                                                .second = judge::element_text(second, first)};
      Finding finding{.kind = Kind::Nondeterministic, .evidence = std::move(numeric)};
      result.findings.push_back(std::move(finding));
    }
  }
}

// Whether the companion is wrong after the trial's own call and right as the first of a process, twice, so
// that chance has no part in it.
bool TrialRunner::is_of_earlier_calls(const Trial& trial, const Bindings& first, const Trial& companion,
                                      const Bindings& second) {
  const auto is_right = [&](const Trial& call, const Bindings& inputs) {
    TrialResult result;
    observe(call, {inputs}, false, result);
    return result.state == TrialState::Judged && !has_error(result.findings);
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
void TrialRunner::compare_related(const Trial& trial, TrialResult& result) {
  const auto bindings = trial::make_inputs(contract_, trial, options_.generator);
  if (!bindings || result.calls.empty()) return;
  const std::vector<judge::Companion> companions =
      judge::companions(contract_, reference_, *bindings, trial.seed);
  std::vector<std::pair<const judge::Companion*, judge::Outputs>> reseeded;
  for (const judge::Companion& companion : companions) {
    Trial other = trial;
    other.shape = companion.bindings.shape;
    for (const auto& [name, value] : companion.bindings.scalars) other.scalars[name] = value;
    TrialResult second;
    observe(other, {companion.bindings}, true, second);
    if (second.state != TrialState::Judged) continue;
    if (has_error(second.findings)) {
      const bool stale = is_of_earlier_calls(trial, *bindings, other, companion.bindings);
      for (Finding& finding : second.findings) {
        if (stale)
          finding =
              std::move(judge::attributed({finding}, {.cause = judge::FoundCause{Cause::RelatedCall}})[0]);
        finding.attribution.related = companion.text;
        finding.attribution.relation = judge::to_string(companion.relation);
        result.findings.push_back(std::move(finding));
      }
      return;
    }
    if (second.calls.empty()) continue;
    // A GPU adds in another order each time: bits that differ between two right calls are no sign of anything there.
    const bool by_chance = options_.device == subject::Device::Cuda && !contract_.require.deterministic;
    for (Finding& finding : judge::compare(contract_, reference_, *bindings, companion,
                                           result.calls[0].outputs, second.calls[0].outputs))
      if (!by_chance || finding.severity == Severity::Error) result.findings.push_back(std::move(finding));
    if (has_error(result.findings)) return;
    // The few seeds of a list are all compared with each other: two may be alike, and the first not like either.
    if (companion.relation != judge::Relation::Reseeded || companions.size() > kMostSeedsInPairs) continue;
    for (const auto& [earlier, outputs] : reseeded)
      for (Finding& finding : judge::compare(contract_, reference_, earlier->bindings, companion, outputs,
                                             second.calls[0].outputs))
        result.findings.push_back(std::move(finding));
    reseeded.emplace_back(&companion, second.calls[0].outputs);
  }
}

TrialResult TrialRunner::run(const Trial& trial, bool diagnose) {
  const trial::Condition& condition = trial.condition;
  if (runner_.calls_in_process() == 0 || condition.fresh || condition.warmed || condition.grown)
    history_.clear();
  TrialResult result = run_once(trial, diagnose);
  if (result.state == TrialState::Judged && !has_error(result.findings) && trial.condition.related)
    compare_related(trial, result);
  if (result.state == TrialState::Judged && !has_error(result.findings) && trial.condition.repeated) {
    compare_repetition(trial, result);
  }
  if (has_error(result.findings)) result.before = history_;
  if (history_.size() == kMostHistory) history_.erase(history_.begin());
  history_.push_back(trial);
  return result;
}

}  // namespace assay::assayer
