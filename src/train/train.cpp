#include "train/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/parallel.h"
#include "train/checkpoint.h"
#include "train/examine.h"
#include "train/runs.h"

namespace assay::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// The model that a slot is tried in.
ModelSizes sizes_for(const Slot& slot, ModelSizes sizes) {
  if (slot.name.starts_with("gelu")) sizes.activation = Activation::GELU;
  if (slot.name.starts_with("swiglu")) sizes.activation = Activation::SwiGLU;
  return sizes;
}

// How much is left, in gradients: what nearly all of the time goes into. Those that call the candidate take a time of their own.
class Schedule {
 public:
  explicit Schedule(const Options& options) : options_(options) {}

  // What is left to do: steps of the comparison, and of cells.
  void set_left(int64_t teacher_steps, int64_t cell_steps) {
    kinds_[0].left = teacher_steps * (kTeacherGradients - 1) + cell_steps * (kRunsOfCell - 1);
    kinds_[1].left = teacher_steps + cell_steps;
  }

  // Something else is done, which is over soon: what is left stays as it was. True: stop.
  bool note(const std::string& doing) {
    last_ = Clock::now();
    shown_.doing = doing;
    if (options_.progress) options_.progress(shown_);
    return options_.interrupted && options_.interrupted();
  }

  // A gradient is done. True: stop.
  bool lap(const std::string& doing, double loss, bool calls_candidate) {
    const auto now = Clock::now();
    Kind& kind = kinds_[calls_candidate ? 1 : 0];
    kind.seconds += std::chrono::duration<double>(now - last_).count();
    ++kind.done;
    kind.left = std::max<int64_t>(0, kind.left - 1);
    last_ = now;
    if (options_.progress) {
      double left = 0;
      for (const Kind& each : kinds_) left += each.expected();
      // Before the candidate's first call, its time is unknown.
      const double all = seconds_since(begun_) + left;
      const bool is_known = kinds_[1].done > 0;
      shown_ = {doing, is_known ? 1 - left / all : 0, is_known ? left : 0, loss};
      options_.progress(shown_);
    }
    return options_.interrupted && options_.interrupted();
  }

 private:
  struct Kind {
    int64_t done = 0, left = 0;
    double seconds = 0;
    double expected() const {
      return done > 0 ? seconds / static_cast<double>(done) * static_cast<double>(left) : 0;
    }
  };

  const Options& options_;
  Kind kinds_[2];  // trusted code alone; with the candidate
  Clock::time_point begun_ = Clock::now(), last_ = begun_;
  Progress shown_;
};

// One whole training: its checkpoint is its state.
class Trainer {
 public:
  Trainer(const Candidate& candidate, const Options& options)
      : options_(options),
        team_(useful_threads(options.threads)),
        model_(sizes_for(*candidate.slot, options.sizes)),
        optimizers_(optimizers_for(*candidate.slot, options.optimizers)),
        schedule_(options),
        setting_{candidate,
                 options,
                 sizes_for(*candidate.slot, options.sizes),
                 team_,
                 model_,
                 options.false_alarms / static_cast<double>(cell_count()),
                 true,
                 {},
                 {},
                 [this](const std::string& doing, double loss, bool calls_candidate) {
                   return is_stopped_ = schedule_.lap(doing, loss, calls_candidate);
                 },
                 [this](const std::string& doing) { return is_stopped_ = schedule_.note(doing); }} {
    state_.of = identity(candidate, options);
  }

  Report run() {
    Report report;
    if (!options_.checkpoint.empty()) {
      if (auto saved = read_checkpoint(options_.checkpoint, state_.of)) {
        state_ = std::move(*saved);
        setting_.count = state_.count;
        before_ = state_.seconds;
        report.is_resumed = true;
      }
    }
    report.reason = steps();
    if (!state_.cells.empty()) {
      report.teacher = state_.cells.front().teacher;
      report.states = state_.cells.front().states;
    }
    if (setting_.failure) report.findings = setting_.failure->findings;
    for (Finding& finding : findings_of(state_.cells, setting_.candidate, options_))
      report.findings.push_back(std::move(finding));
    for (const Cell& cell : state_.cells)
      if (cell.steps() > 0) report.cells.push_back(cell);
    const CallCount& count = setting_.count;
    report.sites.assign(count.sites.begin(), count.sites.end());
    report.refused.assign(count.refused.begin(), count.refused.end());
    report.candidate_calls = count.calls;
    report.candidate_seconds = count.seconds;
    report.seconds = before_ + seconds_since(begun_);
    if (report.reason.empty() && count.calls == 0)
      report.reason = "the kernel accepts none of the shapes at which the model uses its slot";
    report.verdict = judge::verdict_of(report.findings, true, !report.reason.empty());
    if (is_stopped_) keep();
    return report;
  }

 private:
  // Everything that is left to do. Why it ended before the end; empty: it did not.
  std::string steps() {
    if (std::string why = look_again(); !why.empty()) return why;
    std::size_t number = 0;
    for (const TokenSource source : options_.sources) {
      for (const Optimizer optimizer : optimizers_) {
        if (std::string why = cell(number, source, optimizer); !why.empty()) return why;
        if (++number == cell_count()) return "";
      }
    }
    return "";
  }

  std::size_t cell_count() const {
    return options_.teacher_only ? 1 : options_.sources.size() * optimizers_.size();
  }

  // A checkpoint holds no findings: the calls that were wrong first are made again.
  std::string look_again() {
    for (Cell& cell : state_.cells) {
      if (!cell.wrong_state()) continue;
      for (const ModelState& state : model_states(setting_.sizes))
        if (state.name == cell.states.back().name &&
            !examine(setting_, cell.source, cell.optimizer, state, cell.states.back()))
          return ended();
      break;
    }
    return "";
  }

  std::string cell(std::size_t number, TokenSource source, Optimizer optimizer) {
    const bool is_begun = number < state_.cells.size(), is_last = number + 1 == state_.cells.size();
    if (is_begun && !(is_last && state_.phase != CellPhase::Done)) return "";  // by an earlier process
    const Result<Data> data = data_of(source, setting_.sizes, options_);
    if (!data) return data.error().message;
    if (!is_begun) {
      state_.cells.push_back({source, optimizer, settings_of(optimizer, source, options_)});
      start(setting_, source, optimizer, state_.teacher);
      state_.phase = CellPhase::Gradients;
    }
    for (const auto phase : {&Trainer::gradients_phase, &Trainer::calls_phase, &Trainer::losses_phase})
      if (std::string why = (this->*phase)(number, *data); !why.empty()) return why;
    return "";
  }

  // The comparison at the weights of the reference run.
  std::string gradients_phase(std::size_t number, const Data& data) {
    if (state_.phase != CellPhase::Gradients) return "";
    TeacherRun& run = state_.teacher;
    const auto done = [&] { return static_cast<int64_t>(run.teacher.signals.size()); };
    while (done() < options_.teacher_steps && !run.is_ended) {
      set_left(number, options_.teacher_steps - done(), options_.steps);
      const bool is_done = step(setting_, data, run);
      state_.cells.back().teacher = run.teacher;
      if (!is_done || is_stopped_) return ended();
      keep_now_and_then();
    }
    run = {};
    state_.phase = CellPhase::Calls;
    keep();
    return "";
  }

  // Single calls at states of the model, up to the first that is wrong.
  std::string calls_phase(std::size_t, const Data&) {
    if (state_.phase != CellPhase::Calls) return "";
    Cell& cell = state_.cells.back();
    const std::vector<ModelState> all = model_states(setting_.sizes);
    // Findings are those of the first cell with a wrong call; the others only have to know that there is one.
    setting_.diagnoses =
        std::ranges::none_of(state_.cells, [](const Cell& each) { return each.wrong_state() != nullptr; });
    while (setting_.candidate.examine && cell.states.size() < all.size() && !cell.wrong_state()) {
      StateReport report;
      if (!examine(setting_, cell.source, cell.optimizer, all[cell.states.size()], report)) return ended();
      cell.states.push_back(std::move(report));
      keep_now_and_then();
    }
    state_.phase = options_.teacher_only ? CellPhase::Done : CellPhase::Losses;
    if (!options_.teacher_only) start(setting_, state_.runs);
    return "";
  }

  // The four runs.
  std::string losses_phase(std::size_t number, const Data& data) {
    if (state_.phase != CellPhase::Losses) return "";
    Cell& cell = state_.cells.back();
    while (cell.steps() < options_.steps && !(options_.stop_early && is_answered(cell))) {
      set_left(number, 0, options_.steps - cell.steps());
      if (!step(setting_, data, cell, state_.runs)) return ended();
      keep_now_and_then();
    }
    state_.runs = {};
    state_.phase = CellPhase::Done;
    keep();
    return "";
  }

  // So many steps of this cell, and all of those after it.
  void set_left(std::size_t number, int64_t teacher_steps, int64_t cell_steps) {
    const auto after = static_cast<int64_t>(cell_count() - number - 1);
    schedule_.set_left(teacher_steps + after * options_.teacher_steps,
                       options_.teacher_only ? 0 : cell_steps + after * options_.steps);
  }

  std::string ended() const {
    if (setting_.failure) return setting_.failure->error.text();
    return is_stopped_ ? "interrupted" : "";
  }

  void keep_now_and_then() {
    if (seconds_since(kept_) >= options_.checkpoint_seconds) keep();
  }

  void keep() {
    if (options_.checkpoint.empty()) return;
    kept_ = Clock::now();
    state_.seconds = before_ + seconds_since(begun_);
    state_.count = setting_.count;
    save(state_, options_.checkpoint);
  }

  const Options& options_;
  Team team_;
  Transformer<float> model_;
  std::vector<Optimizer> optimizers_;
  Schedule schedule_;
  bool is_stopped_ = false;
  Clock::time_point begun_ = Clock::now(), kept_ = begun_;
  double before_ = 0;  // seconds of earlier processes
  Setting setting_;
  Checkpoint state_;
};

}  // namespace

Report train(const Candidate& candidate, const Options& options) {
  Report report;
  if (const auto checked = check(options.sizes); !checked) {
    report.reason = checked.error().message;
    return report;
  }
  if (options.sources.empty() || options.optimizers.empty()) {
    report.reason = "there is nothing to train with: name at least one source of tokens and one optimizer";
    return report;
  }
  return Trainer(candidate, options).run();
}

}  // namespace assay::train
