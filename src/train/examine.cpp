#include "train/examine.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "train/byte_pairs.h"

namespace assay::train {

using contract::Bindings;
using contract::Tensor;

namespace {

// Tokens at the end of each sequence that are padding, and the least weight of the others.
constexpr int64_t kPadding = 3;
constexpr double kLeastWeight = 0.25;
// Rows of the same token are equal, and so would be their rounding errors, which the statistics of the judge would then count many times.
// So every value of an activation or gradient is moved a little.
constexpr double kMoved = 0x1p-5;
// Steps of an optimizer whose updates are examined: the moments of the first are zero.
constexpr int kUpdates = 2;
// Bytes of a text that states take their tokens from: more than any state has, and no time to turn into byte pairs.
constexpr std::size_t kStateText = 1 << 20;

std::string cell_name(TokenSource source, Optimizer optimizer) {
  return fmt::format("{} + {}", to_string(source), to_string(optimizer));
}

bool is_moved(const SlotTensor& tensor) {
  return contract::is_float(tensor.dtype) && tensor.dims.size() > 1 && tensor.dims.front() != "V" &&
         (tensor.values == "activations" || tensor.values == "gradients");
}

std::shared_ptr<Tensor> copy_of(const Bindings& bindings, std::string_view name) {
  return std::make_shared<Tensor>(*bindings.inputs.find(name)->second);
}

Bindings with_own_values(const Slot& slot, Bindings bindings, uint64_t seed) {
  for (const SlotTensor& tensor : slot.tensors) {
    const auto found = bindings.inputs.find(tensor.name);
    if (found == bindings.inputs.end() || !is_moved(tensor)) continue;
    const auto moved = copy_of(bindings, tensor.name);
    Random random(mix(seed, hash(tensor.name)));
    for (int64_t i = 0; i < moved->count(); ++i)
      moved->store(i, moved->load(i) * (1 + kMoved * (2 * random.uniform() - 1)));
    found->second = moved;
  }
  return bindings;
}

// One input of the call with an infinity in its last element, one of the other sign in another row, and a NaN in a third.
Bindings with_overflow(const Bindings& bindings, const std::string& input, uint64_t seed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Bindings changed = bindings;
  const auto tensor = copy_of(bindings, input);
  Random random(seed);
  const int64_t last = tensor->count() - 1;
  tensor->store(random.between(0, last), std::numeric_limits<double>::quiet_NaN());
  tensor->store(random.between(0, last), -kInfinity);
  tensor->store(last, kInfinity);
  changed.inputs[input] = tensor;
  return changed;
}

// The examination of one state: told of every call, until one is wrong.
class Examination {
 public:
  Examination(Setting& setting, std::string cell, const ModelState& state, StateReport& report)
      : setting_(setting), cell_(std::move(cell)), state_(state), report_(report) {}

  void call(std::string_view site, const Bindings& given) {
    if (is_over()) return;
    const uint64_t seed = mix(mix(mix(setting_.options.seed, hash(cell_)), hash(state_.name)),
                              static_cast<uint64_t>(report_.calls));
    // The run's own tokens are what they are.
    const Bindings bindings = with_own_values(*setting_.candidate.slot, given, seed);
    if (!state_.overflows) return examine(site, bindings);
    for (const auto& [name, tensor] : bindings.inputs)
      if (contract::is_float(tensor->dtype) && !is_over())
        examine(site, with_overflow(bindings, name, mix(seed, hash(name))));
  }

  bool is_over() const { return is_stopped_ || setting_.failure || !report_.findings.empty(); }
  bool is_stopped() const { return is_stopped_; }

 private:
  void examine(std::string_view site, const Bindings& bindings) {
    const auto start = std::chrono::steady_clock::now();
    ExamineResult result = setting_.candidate.examine(
        bindings, {.threads = setting_.options.threads, .diagnoses = setting_.diagnoses});
    ++report_.calls;
    const std::string where = fmt::format("{} in training ({}, state \"{}\"), at {}",
                                          contract::to_string(bindings.shape), cell_, state_.name, site);
    auto* const failure = std::get_if<CallFailure>(&result);
    if (failure) {
      for (Finding& finding : failure->findings) finding.found.found_with = where;
      setting_.failure = std::move(*failure);
    } else {
      Examined& examined = std::get<Examined>(result);
      report_.elements += examined.elements;
      if (report_.problem.empty() && !examined.problem.empty())
        report_.problem = fmt::format("{}: {}", site, examined.problem);
      for (Finding& finding : examined.findings) {
        finding.found.found_with = where;
        report_.findings.push_back(std::move(finding));
      }
      if (!report_.findings.empty()) report_.failed_site = site;
    }
    report_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    is_stopped_ = setting_.note(fmt::format("{}: judging single calls, state \"{}\"", cell_, state_.name));
  }

  Setting& setting_;
  const std::string cell_;
  const ModelState& state_;
  StateReport& report_;
  bool is_stopped_ = false;
};

// Padding at the end of each sequence has no weight; the others differ in theirs.
void set_weights(const ModelSizes& sizes, uint64_t seed, Batch& batch) {
  Random random(mix(seed, hash("weights of tokens")));
  for (int64_t t = 0; t < sizes.tokens(); ++t) {
    const bool is_padding = t % sizes.sequence >= sizes.sequence - kPadding && sizes.sequence > 2 * kPadding;
    batch.weights.push_back(is_padding ? 0 : random.uniform(kLeastWeight, 1));
    if (is_padding) batch.tokens[static_cast<std::size_t>(t)] = sizes.vocabulary - 1;
  }
}

// The tokens of a cell at the sizes of a state. Every byte of a text is a token; a smaller vocabulary gets the remainder of the division.
class StateData {
 public:
  static Result<StateData> make(TokenSource source, const ModelSizes& sizes, const Options& options) {
    if (source != TokenSource::Text)
      return StateData(Data::generated(source, sizes, options.seed), sizes.vocabulary);
    ModelSizes enough = sizes;
    enough.vocabulary = std::max<int64_t>(sizes.vocabulary, kByteTokens);
    auto data = Data::text(options.text.substr(0, kStateText), options.tokenizer, enough, options.seed);
    if (!data) return data.error();
    return StateData(std::move(*data), sizes.vocabulary);
  }

  Batch batch(int64_t number) const {
    Batch batch = data_.batch(number);
    for (auto* const tokens : {&batch.tokens, &batch.targets})
      for (int64_t& token : *tokens) token %= vocabulary_;
    return batch;
  }

 private:
  StateData(Data data, int64_t vocabulary) : data_(std::move(data)), vocabulary_(vocabulary) {}

  Data data_;
  int64_t vocabulary_;
};

// The steps of the run that lead to a state, one pass of the model there, and for optimizers some updates.
void pass(Setting& setting, TokenSource source, Optimizer optimizer, const ModelState& state,
          const ModelSizes& sizes, const StateData& data, Examination& examination) {
  const uint64_t seed = setting.options.seed;
  const OptimizerSettings settings = settings_of(optimizer, source, setting.options);
  Transformer<float> model(sizes);
  RunState run{first_weights<float>(sizes, seed), {}};
  // fp32 everywhere: a kernel that takes fp32 then gets numbers that need it.
  RunRole role{.arithmetic = {.rounds = false}, .candidate = &setting.candidate};
  Gradients<float> gradients;
  for (int step = 0; step < state.steps; ++step) {
    Executor<float> executor(setting.team, role);
    model.gradients(executor, run.weights, data.batch(step), gradients);
    update(executor, optimizer, settings, run.weights, gradients.parameters, run.optimizer);
  }
  Batch batch = data.batch(state.steps);
  if (state.grow) state.grow(sizes, seed, run.weights);
  if (!state.is_own_run) set_weights(sizes, seed, batch);
  if (state.is_confident) {
    Executor<float> executor(setting.team, role);
    model.gradients(executor, run.weights, batch, gradients);
    const std::vector<int64_t> predictions = model.predictions();
    for (std::size_t t = 0; t < predictions.size(); t += 2) batch.targets[t] = predictions[t];
  }
  role.on_call = [&](std::string_view site, const Bindings& bindings) { examination.call(site, bindings); };
  Executor<float> executor(setting.team, role);
  model.gradients(executor, run.weights, batch, gradients);
  if (setting.candidate.slot->phase != Phase::Update) return;
  for (int i = 0; i < kUpdates; ++i)
    update(executor, optimizer, settings, run.weights, gradients.parameters, run.optimizer);
}

}  // namespace

bool examine(Setting& setting, TokenSource source, Optimizer optimizer, const ModelState& state,
             StateReport& report) {
  for (const ModelSizes& sizes : state.sizes) {
    report = {.name = std::string(state.name), .sizes = sizes, .step = state.steps};
    const auto data = StateData::make(source, sizes, setting.options);
    if (!data) {
      report.problem = data.error().message;
      continue;
    }
    Examination examination(setting, cell_name(source, optimizer), state, report);
    pass(setting, source, optimizer, state, sizes, *data, examination);
    if (setting.failure || examination.is_stopped()) return false;
    if (report.calls > 0) break;
  }
  return true;
}

}  // namespace assay::train
