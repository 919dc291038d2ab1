#include "train/train.h"

#include <fmt/format.h>

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

Result<Data> data_of(TokenSource source, const ModelSizes& sizes, const Options& options) {
  if (source == TokenSource::Text) return Data::text(options.text, options.tokenizer, sizes, options.seed);
  return Data::generated(source, sizes, options.seed);
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

  // Something else is done, which is over soon. True: stop.
  bool note(const std::string& doing) {
    last_ = Clock::now();
    if (options_.progress) options_.progress({doing, 0, 0, 0});
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
      // Before the candidate's first call, nobody knows what it takes.
      const double all = seconds_since(begun_) + left;
      const bool is_known = kinds_[1].done > 0;
      options_.progress({doing, is_known ? 1 - left / all : 0, is_known ? left : 0, loss});
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
    report.teacher = state_.teacher.teacher;
    report.states = state_.states;
    report.cells = state_.cells;
    if (setting_.failure) report.findings = setting_.failure->findings;
    for (Finding& finding : findings_of(report, setting_.candidate, options_))
      report.findings.push_back(std::move(finding));
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
    const TokenSource first = options_.sources.front();
    const Result<Data> data = data_of(first, setting_.sizes, options_);
    if (!data) return data.error().message;
    if (!state_.teacher_done) {
      if (std::string why = teacher(*data); !why.empty()) return why;
    }
    if (setting_.candidate.examine) {
      if (std::string why = states(); !why.empty()) return why;
    }
    if (options_.teacher_only) return "";
    std::size_t number = 0;
    for (const TokenSource source : options_.sources) {
      for (const Optimizer optimizer : optimizers_) {
        if (std::string why = cell(number++, source, optimizer); !why.empty()) return why;
      }
    }
    return "";
  }

  // The comparison at the weights of the reference run.
  std::string teacher(const Data& data) {
    TeacherRun& run = state_.teacher;
    if (!state_.has_teacher) start(setting_, data.source(), optimizers_.front(), run);
    state_.has_teacher = true;
    const auto done = [&] { return static_cast<int64_t>(run.teacher.signals.size()); };
    while (done() < options_.teacher_steps && !run.is_ended) {
      schedule_.set_left(options_.teacher_steps - done(), cell_steps_after(0));
      if (!step(setting_, data, run) || is_stopped_) return ended();
      keep_now_and_then();
    }
    run.reference = {};
    state_.teacher_done = true;
    keep();
    return "";
  }

  // Single calls at states of the model, up to the first that is wrong.
  std::string states() {
    const std::vector<ModelState> all = model_states(setting_.sizes);
    std::vector<StateReport>& done = state_.states;
    // A checkpoint holds no findings: what was wrong is looked at again.
    if (!done.empty() && !done.back().failed_site.empty()) done.pop_back();
    while (done.size() < all.size() && (done.empty() || done.back().findings.empty())) {
      StateReport report;
      if (!examine(setting_, all[done.size()], report)) return ended();
      done.push_back(std::move(report));
      keep_now_and_then();
    }
    return "";
  }

  std::string cell(std::size_t number, TokenSource source, Optimizer optimizer) {
    const bool is_last = number + 1 == state_.cells.size();
    if (number < state_.cells.size() && !(is_last && state_.has_runs))
      return "";  // finished by an earlier process
    const Result<Data> data = data_of(source, setting_.sizes, options_);
    if (!data) return data.error().message;
    if (!is_last) {
      state_.cells.push_back({source, optimizer, settings_of(optimizer, source, options_)});
      start(setting_, state_.runs);
      state_.has_runs = true;
    }
    Cell& cell = state_.cells[number];
    while (cell.steps() < options_.steps && !(options_.stop_early && is_answered(cell))) {
      schedule_.set_left(0, options_.steps - cell.steps() + cell_steps_after(number + 1));
      if (!step(setting_, *data, cell, state_.runs)) return ended();
      keep_now_and_then();
    }
    state_.has_runs = false;
    keep();
    return "";
  }

  // The steps of all cells from this one on.
  int64_t cell_steps_after(std::size_t number) const {
    const std::size_t cells = options_.teacher_only ? 0 : options_.sources.size() * optimizers_.size();
    return static_cast<int64_t>(cells - std::min(cells, number)) * options_.steps;
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
