#include "train/runs.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace assay::train {

namespace {

// A right candidate may deviate this many times as much as trusted runs do: it may add in an order with larger errors,
// or use approximate functions where ours are exact.
constexpr double kTolerated = 3;
// A relative error that training does not notice, whatever the noise is: 1/256 of the rounding error of bf16.
constexpr double kHarmlessError = 0x1p-16;
// A gain that training does not notice: that of a learning rate changed by half a unit of bf16.
constexpr double kHarmlessGain = 0x1p-9;

// A gap of the losses stands out if it is this many times the largest that noise has made so far (docs/measurements/train.md: what
// correct kernels reach).
constexpr double kStandsOut = 10;
// Trusted runs are chaotic: a difference of one rounding stays small for some steps and then grows a hundredfold within a few, and when that
// begins is chance. So a gap that stands out of one run of noise must stand out of this many more.
constexpr int kConfirmations = 5;
// … and this part of the loss: early gaps are ratios of two tiny numbers.
constexpr double kSmallestGap = 1e-5;
// Steps that an answered cell goes on for, so that its curve shows the gap and not only its beginning.
constexpr int kStepsAfterAnswer = 10;

std::vector<std::string> signal_names(const std::vector<SignalPlace>& places) {
  std::vector<std::string> names;
  for (const char* what : {"gain", "error"})
    for (const SignalPlace& place : places)
      names.push_back(fmt::format("{} {} {}", what, place.tensor, place.part));
  return names;
}

// What one step of training does with the weights, as gradients are compared: the change of each parameter, and nothing
// of the losses.
std::vector<std::vector<float>> change(const Weights<float>& after, const Weights<float>& before) {
  std::vector<std::vector<float>> changes = after;
  for (std::size_t i = 0; i < changes.size(); ++i)
    for (std::size_t j = 0; j < changes[i].size(); ++j) changes[i][j] -= before[i][j];
  changes.emplace_back();
  return changes;
}

double length(const std::vector<float>& values) {
  double total = 0;
  for (const float value : values) total += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(total);
}

// One step of the comparison: vectors of the trusted run, of noise, of the candidate.
struct Compared {
  std::vector<std::vector<float>> trusted, candidate;
  std::vector<std::vector<float>> noise[kNoiseDraws];
  double loss = 0;
};

std::vector<std::vector<float>> joined(Gradients<float>&& gradients) {
  std::vector<std::vector<float>> all = std::move(gradients.parameters);
  all.push_back(std::move(gradients.losses));
  return all;
}

// The roles of a step of the comparison: trusted, in another order, with other roundings of the slot's results.
std::vector<RunRole> teacher_roles(const Setting& setting, int step) {
  const Candidate* const candidate = &setting.candidate;
  std::vector<RunRole> roles = {{.candidate = candidate},
                                {.arithmetic = {.reordered = true}, .candidate = candidate}};
  for (int draw = 1; draw < kNoiseDraws; ++draw) {
    const uint64_t seed =
        mix(mix(setting.options.seed, static_cast<uint64_t>(step)), static_cast<uint64_t>(draw));
    roles.push_back({.arithmetic = {.rounding_seed = seed | 1}, .candidate = candidate});
  }
  roles.push_back({.candidate = candidate, .calls_candidate = true});
  return roles;
}

// Runs the roles at the same weights. False: interrupted, or the candidate failed.
bool run_roles(Setting& setting, const std::string& cell, int number, const RunState& at, Optimizer optimizer,
               const OptimizerSettings& settings, const Batch& batch, Compared& compared) {
  const bool is_update = setting.candidate.slot->phase == Phase::Update;
  const std::vector<RunRole> roles = teacher_roles(setting, number);
  Gradients<float> shared;  // of an update: the gradient is the same for all
  if (is_update) compared.loss = gradient(setting, roles[0], at.weights, batch, shared);
  for (std::size_t i = 0; i < roles.size(); ++i) {
    std::vector<std::vector<float>> vectors;
    if (is_update) {
      RunState moved = at;
      Executor<float> executor(setting.team, roles[i]);
      update(executor, optimizer, settings, moved.weights, shared.parameters, moved.optimizer);
      if (executor.failure()) setting.failure = executor.failure();
      setting.count.add(executor.count());
      vectors = change(moved.weights, at.weights);
    } else {
      Gradients<float> gradients;
      const double loss = gradient(setting, roles[i], at.weights, batch, gradients);
      if (i == 0) compared.loss = loss;
      vectors = joined(std::move(gradients));
    }
    if (setting.failure) return false;
    if (setting.lap(
            fmt::format("{}: comparing gradients at the reference run's weights, step {}", cell, number),
            compared.loss, roles[i].calls_candidate))
      return false;
    (i == 0                  ? compared.trusted
     : i + 1 == roles.size() ? compared.candidate
                             : compared.noise[i - 1]) = std::move(vectors);
  }
  return true;
}

}  // namespace

double gradient(Setting& setting, const RunRole& role, const Weights<float>& weights, const Batch& batch,
                Gradients<float>& gradients) {
  Executor<float> executor(setting.team, role);
  const double loss = setting.model.gradients(executor, weights, batch, gradients);
  if (executor.failure()) setting.failure = executor.failure();
  setting.count.add(executor.count());
  return loss;
}

std::vector<Optimizer> optimizers_for(const Slot& slot, const std::vector<Optimizer>& asked) {
  if (slot.phase != Phase::Update) return asked;
  for (const Optimizer optimizer : kOptimizers)
    if (to_string(optimizer) == slot.name) return {optimizer};
  return asked;
}

Result<Data> data_of(TokenSource source, const ModelSizes& sizes, const Options& options) {
  if (source == TokenSource::Text) return Data::text(options.text, options.tokenizer, sizes, options.seed);
  return Data::generated(source, sizes, options.seed);
}

OptimizerSettings settings_of(Optimizer optimizer, TokenSource source, const Options& options) {
  OptimizerSettings settings = default_settings(optimizer, source);
  if (options.rate) settings.rate = *options.rate;
  return settings;
}

void start(const Setting& setting, TokenSource source, Optimizer optimizer, TeacherRun& run) {
  run = {.teacher = {.source = source, .optimizer = optimizer, .false_alarms = setting.false_alarms},
         .reference = {first_weights<float>(setting.sizes, setting.options.seed), {}}};
  const std::size_t places = signal_places(setting.sizes).size();
  run.gain_squares.assign(places, 0);
  run.error_squares.assign(places, 0);
  run.log10_products.assign(2 * places, 0);
}

bool step(Setting& setting, const Data& data, TeacherRun& run) {
  const auto begun = std::chrono::steady_clock::now();
  Teacher& teacher = run.teacher;
  const auto number = static_cast<int>(teacher.signals.size());
  const OptimizerSettings settings = settings_of(teacher.optimizer, teacher.source, setting.options);
  const std::vector<SignalPlace> places = signal_places(setting.sizes);
  const Batch batch = data.batch(number);
  Compared compared;
  const std::string cell = fmt::format("{} + {}", to_string(teacher.source), to_string(teacher.optimizer));
  if (!run_roles(setting, cell, number, run.reference, teacher.optimizer, settings, batch, compared))
    return false;
  for (const auto& draw : compared.noise) {
    const std::vector<Comparison> of_draw = compare_all(places, draw, compared.trusted, batch, setting.sizes);
    for (std::size_t i = 0; i < places.size(); ++i) {
      run.gain_squares[i] += std::pow(of_draw[i].gain - 1, 2);
      run.error_squares[i] += std::pow(of_draw[i].relative_error, 2);
    }
    ++run.draws;
  }
  const std::vector<Comparison> seen =
      compare_all(places, compared.candidate, compared.trusted, batch, setting.sizes);
  StepSignals signals{.step = number, .loss = compared.loss};
  std::vector<double> probabilities(2 * places.size(), 1);
  bool is_nonfinite = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double noise_gain = std::sqrt(run.gain_squares[i] / run.draws);
    const double noise_error = std::sqrt(run.error_squares[i] / run.draws);
    signals.tensors.push_back({places[i].tensor, places[i].part, seen[i], noise_gain, noise_error});
    is_nonfinite |= seen[i].nonfinite > 0;
    if (seen[i].norm == 0 && seen[i].relative_error == 0) continue;  // nothing there to compare
    const double bias = std::max(0.0, std::abs(seen[i].gain - 1) - kHarmlessGain);
    probabilities[i] = probability_of(bias / (kTolerated * std::max(noise_gain, kHarmlessError)), run.draws);
    probabilities[places.size() + i] = probability_of(
        seen[i].relative_error / (kTolerated * std::max(noise_error, kHarmlessError)), run.draws);
  }
  teacher.signals.push_back(std::move(signals));
  SequentialTest test(signal_names(places), setting.false_alarms);
  test.resume(run.log10_products, number);
  test.add(probabilities);
  run.log10_products = test.log10_products();
  teacher.log10_evidence = test.log10_evidence();
  const std::size_t strongest = test.strongest();
  teacher.is_bias = strongest < places.size();
  teacher.tensor = places[strongest % places.size()].tensor;
  teacher.part = places[strongest % places.size()].part;
  if (teacher.rejected_step < 0 && test.rejects()) teacher.rejected_step = number;
  run.is_ended = is_nonfinite || (test.rejects() && setting.options.stop_early);
  if (!run.is_ended) {
    const RunRole reference{.arithmetic = {.rounds = false}, .candidate = &setting.candidate};
    Gradients<float> exact;
    gradient(setting, reference, run.reference.weights, batch, exact);
    Executor<float> executor(setting.team, reference);
    update(executor, teacher.optimizer, settings, run.reference.weights, exact.parameters,
           run.reference.optimizer);
    setting.lap("the reference run", compared.loss, false);
  }
  teacher.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return true;
}

namespace {

// Between a loss and the trusted one. A loss that is not finite is infinitely far; where the trusted run itself diverges, nothing is.
double distance(double loss, double trusted) {
  if (!std::isfinite(trusted)) return 0;
  return std::isfinite(loss) ? std::abs(loss - trusted) : std::numeric_limits<double>::infinity();
}

// A trusted run with other errors than the trusted one: the slot's results rounded by chance at every call, which is at least what a right
// kernel does to them; every other draw also adds in another order.
RunRole noise_role(const Setting& setting, int draw, int step) {
  const uint64_t seed = mix(mix(setting.options.seed, hash("noise of cells")),
                            static_cast<uint64_t>(draw) << 32 | static_cast<uint64_t>(step));
  return {.arithmetic = {.reordered = draw % 2 == 0, .rounding_seed = seed | 1},
          .candidate = &setting.candidate};
}

// Whether the gap of this step stands out of more trusted runs, from the first step to this one. Adds what they show to `noise`. Nothing:
// interrupted.
std::optional<bool> is_confirmed(Setting& setting, const Data& data, const Cell& cell,
                                 const std::vector<double>& trusted, double gap, double& noise) {
  for (int draw = 1; draw <= kConfirmations; ++draw) {
    RunState run{first_weights<float>(setting.sizes, setting.options.seed), {}};
    for (std::size_t number = 0; number < trusted.size(); ++number) {
      const RunRole role = noise_role(setting, draw, static_cast<int>(number));
      Gradients<float> gradients;
      const double loss =
          gradient(setting, role, run.weights, data.batch(static_cast<int64_t>(number)), gradients);
      Executor<float> executor(setting.team, role);
      update(executor, cell.optimizer, cell.settings, run.weights, gradients.parameters, run.optimizer);
      noise = std::max(noise, distance(loss, trusted[number]));
      if (setting.lap(fmt::format("{} + {}, confirming a gap: run {}, step {}", to_string(cell.source),
                                  to_string(cell.optimizer), draw, number + 1),
                      loss, false))
        return std::nullopt;
    }
    if (gap <= kStandsOut * noise) return false;
  }
  return true;
}

}  // namespace

void start(const Setting& setting, CellRuns& runs) {
  for (RunState& run : runs.runs) run = {first_weights<float>(setting.sizes, setting.options.seed), {}};
}

bool step(Setting& setting, const Data& data, Cell& cell, CellRuns& runs) {
  const Candidate* const candidate = &setting.candidate;
  const RunRole roles[kRunsOfCell] = {{.arithmetic = {.rounds = false}, .candidate = candidate},
                                      {.candidate = candidate},
                                      noise_role(setting, 0, static_cast<int>(cell.steps())),
                                      {.candidate = candidate, .calls_candidate = true}};
  constexpr const char* kNames[kRunsOfCell] = {"reference", "trusted", "reordered", "candidate"};
  Curve* const curves[kRunsOfCell] = {&cell.reference, &cell.trusted, &cell.reordered, &cell.candidate};
  const auto number = static_cast<int>(cell.steps());
  const Batch batch = data.batch(number);
  double losses[kRunsOfCell] = {};
  int64_t nonfinite[kRunsOfCell] = {};
  RunState moved[kRunsOfCell];
  std::vector<std::vector<float>> trusted, with_candidate;
  std::vector<double> ratios;
  for (int i = 0; i < kRunsOfCell; ++i) {
    moved[i] = runs.runs[i];
    Gradients<float> gradients;
    losses[i] = gradient(setting, roles[i], moved[i].weights, batch, gradients);
    for (const auto& parameter : gradients.parameters)
      for (const float value : parameter) nonfinite[i] += !std::isfinite(value);
    Executor<float> executor(setting.team, roles[i]);
    update(executor, cell.optimizer, cell.settings, moved[i].weights, gradients.parameters,
           moved[i].optimizer);
    if (executor.failure()) setting.failure = executor.failure();
    setting.count.add(executor.count());
    if (setting.failure) return false;
    if (setting.lap(fmt::format("{} + {}, {}: step {}", to_string(cell.source), to_string(cell.optimizer),
                                kNames[i], number + 1),
                    losses[i], roles[i].calls_candidate))
      return false;
    if (i == 1)
      trusted = joined(std::move(gradients));
    else if (i == 3)
      with_candidate = joined(std::move(gradients));
  }
  double noise = std::max(cell.noise, distance(losses[2], losses[1]));
  const double gap = distance(losses[3], losses[1]);
  bool stands_out = gap > kStandsOut * std::max(noise, kSmallestGap * losses[1]);
  if (stands_out && !cell.unmasked()) {
    std::vector<double> trusted_losses = cell.trusted.loss;
    trusted_losses.push_back(losses[1]);
    const std::optional<bool> confirmed = is_confirmed(setting, data, cell, trusted_losses, gap, noise);
    if (!confirmed) return false;
    stands_out = *confirmed;
  }
  for (std::size_t p = 0; p < moved[3].weights.size(); ++p) {
    std::vector<float> step_of = moved[3].weights[p];
    for (std::size_t j = 0; j < step_of.size(); ++j) step_of[j] -= runs.runs[3].weights[p][j];
    const double weight = length(runs.runs[3].weights[p]);
    ratios.push_back(weight > 0 ? length(step_of) / weight : 0);
  }
  for (int i = 0; i < kRunsOfCell; ++i) {
    runs.runs[i] = std::move(moved[i]);
    curves[i]->loss.push_back(losses[i]);
    curves[i]->nonfinite += nonfinite[i];
  }
  StepSignals signals{.step = number, .loss = losses[3]};
  const std::vector<SignalPlace> places = signal_places(setting.sizes);
  const std::vector<Comparison> seen = compare_all(places, with_candidate, trusted, batch, setting.sizes);
  for (std::size_t i = 0; i < places.size(); ++i) {
    TensorSignal signal{places[i].tensor, places[i].part, seen[i]};
    if (places[i].parameter >= 0)
      signal.update_to_weight = ratios[static_cast<std::size_t>(places[i].parameter)];
    signals.tensors.push_back(std::move(signal));
  }
  cell.signals.push_back(std::move(signals));
  cell.noise = noise;
  if (gap > cell.loss_gap) {
    cell.loss_gap = gap;
    cell.gap_step = number;
  }
  if (stands_out && !cell.unmasked()) cell.unmasked_step = number;
  return true;
}

int Teacher::wrong_step() const {
  if (signals.empty()) return -1;
  for (const TensorSignal& signal : signals.back().tensors)
    if (signal.candidate.nonfinite > 0) return signals.back().step;
  return rejected_step;
}

const StateReport* Cell::wrong_state() const {
  return states.empty() || states.back().failed_site.empty() ? nullptr : &states.back();
}

bool is_answered(const Cell& cell) {
  return cell.unmasked() && cell.steps() > cell.unmasked_step + kStepsAfterAnswer;
}

namespace {

evidence::Training evidence_of(const Slot& slot, TokenSource source, Optimizer optimizer) {
  return {.slot = std::string(slot.name),
          .tokens = std::string(to_string(source)),
          .optimizer = std::string(to_string(optimizer))};
}

const TensorSignal* signal_at(const StepSignals& step, const std::string& tensor, const std::string& part) {
  for (const TensorSignal& signal : step.tensors)
    if (signal.tensor == tensor && signal.part == part) return &signal;
  return nullptr;
}

// A tensor with NaN or infinity: the first of the step.
std::optional<Finding> nonfinite_finding(const StepSignals& step, evidence::Training evidence) {
  for (const TensorSignal& signal : step.tensors) {
    if (signal.candidate.nonfinite == 0) continue;
    evidence.step = step.step;
    evidence.tensor = signal.tensor;
    evidence.nonfinite = signal.candidate.nonfinite;
    return Finding{.kind = Kind::TrainingNonfinite, .evidence = evidence};
  }
  return std::nullopt;
}

std::optional<Finding> teacher_finding(const Teacher& teacher, const Slot& slot, double false_alarms) {
  if (teacher.wrong_step() < 0) return std::nullopt;
  evidence::Training evidence = evidence_of(slot, teacher.source, teacher.optimizer);
  evidence.teacher_forced = true;
  if (auto finding = nonfinite_finding(teacher.signals.back(), evidence)) return finding;
  const StepSignals& step = teacher.signals[static_cast<std::size_t>(teacher.rejected_step)];
  const TensorSignal* const signal = signal_at(step, teacher.tensor, teacher.part);
  evidence.step = step.step;
  evidence.tensor = teacher.tensor;
  evidence.part = teacher.part;
  evidence.gain = signal->candidate.gain;
  evidence.cosine = signal->candidate.cosine;
  evidence.relative_error = signal->candidate.relative_error;
  evidence.noise = teacher.is_bias ? signal->noise_gain : signal->noise_error;
  evidence.log10_evidence = teacher.log10_evidence;
  evidence.false_alarms = false_alarms;
  return Finding{.kind = teacher.is_bias ? Kind::GradientBias : Kind::GradientError, .evidence = evidence};
}

// The cell whose gap stands out most.
std::optional<Finding> cell_finding(const std::vector<Cell>& cells, const Slot& slot) {
  const Cell* worst = nullptr;
  const auto ratio = [](const Cell& cell) { return cell.loss_gap / std::max(cell.noise, 1e-300); };
  for (const Cell& cell : cells) {
    if (cell.candidate.nonfinite > 0 && cell.trusted.nonfinite == 0) {
      for (const StepSignals& step : cell.signals)
        if (auto finding = nonfinite_finding(step, evidence_of(slot, cell.source, cell.optimizer)))
          return finding;
    }
    if (cell.unmasked() && (!worst || ratio(cell) > ratio(*worst))) worst = &cell;
  }
  if (!worst) return std::nullopt;
  evidence::Training evidence = evidence_of(slot, worst->source, worst->optimizer);
  const auto at = static_cast<std::size_t>(worst->gap_step);
  evidence.step = worst->gap_step;
  evidence.loss_gap = worst->candidate.loss[at] - worst->trusted.loss[at];
  evidence.noise = worst->noise;
  return Finding{.kind = Kind::LossGap, .evidence = evidence};
}

}  // namespace

std::vector<Finding> findings_of(const std::vector<Cell>& cells, const Candidate& candidate,
                                 const Options& options) {
  std::vector<Finding> findings;
  for (const Cell& cell : cells) {
    auto finding = teacher_finding(cell.teacher, *candidate.slot, options.false_alarms);
    if (!finding) continue;
    findings.push_back(std::move(*finding));
    break;
  }
  for (const Cell& cell : cells) {
    const StateReport* const state = cell.wrong_state();
    if (!state) continue;
    findings.insert(findings.end(), state->findings.begin(), state->findings.end());
    break;
  }
  if (auto finding = cell_finding(cells, *candidate.slot)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace assay::train
