// One trial, run and judged (trial_runner.cpp); the experiments that show what its failure is due to
// (experiments.cpp, surroundings_needed.cpp); some blocks of a giant one (sampled_trial.cpp,
// sampled_coverage.cpp); and whether a call that takes long ever ends (hang.cpp).
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "assayer/assayer.h"
#include "assayer/limits.h"
#include "assayer/locate.h"
#include "assayer/own_time.h"
#include "assayer/ownership.h"
#include "judge/judge.h"
#include "subject/tensor_cores.h"
#include "trial/generated_inputs.h"
#include "trial/work.h"

namespace assay::assayer {

enum class TrialState : uint8_t {
  Judged,       // findings tell
  Skipped,      // no legal inputs at this shape, or too large
  TooSlow,      // did not end in time at a shape where that proves nothing
  Unsupported,  // the virtual GPU cannot run it: `problem`
  Unavailable,  // no device: `problem`
  Unjudgeable,  // the reference cannot be evaluated: `problem`
  Unsampled,    // what a sample of the blocks does tells nothing: `problem`
};

// Of a trial of which a sample of the blocks is run.
struct SampledResult {
  uint64_t blocks = 0, run = 0;  // of all launches; to their end
  std::string not_judged;        // why an output's numbers were not; empty: they were
};

struct TrialResult {
  TrialState state = TrialState::Judged;
  std::string problem;
  std::vector<Finding> findings;  // errors before warnings
  std::vector<Finding> warnings;  // of host code: they say nothing about this trial
  std::vector<subject::Call> calls;
  std::vector<std::string> wider_budgets;  // why they allow for tensor cores; empty: they do not
  int64_t judged = 0, elements = 0, undecided = 0;
  judge::Margins margins;  // of all outputs, if the options ask for them
  judge::ErrorProfile errors;
  SampledResult sampled;
  double seconds = 0;                     // of the whole trial
  double turn_seconds = 0;                // in which others had their turn on the GPU: not among those
  double call_seconds = 0;                // of the call, as its time limit counts them
  std::optional<bool> launched;           // whether it launched a kernel; none: not known
  std::optional<LastKernel> last_kernel;  // of a Python subject
  int64_t calls_before = 0;               // in the same process
  std::vector<trial::Trial> before;       // of a failure: those calls, the last ones
  bool takes_calls_before = false;        // it shows after them alone: confirm()
  std::optional<Finding> unended;         // TooSlow: what there is to say if it never ends
  bool is_smallest = false;               // no smaller trial shows what this one does
  // By never_ends:
  std::vector<std::pair<contract::Shape, double>> probed;  // what smaller calls took, in seconds
  bool unexplained = false;  // its time was over before it was known whether the call ends
};

class TrialRunner {
 public:
  TrialRunner(const contract::Contract& contract, const reference::Reference& reference,
              const subject::Subject& subject, const CheckOptions& options);

  // Runs and judges a trial. What the device saw goes before what the numbers say: a race that gives
  // wrong sums is a race.
  TrialResult run(const trial::Trial& trial, bool diagnose = true);

  // Runs it under changed conditions to find the cause: chance, the result of an earlier call, overlap, the
  // stream, memory that nothing wrote; the findings are then attributed to it (judge/steps.h). `trial` is
  // changed to the one that shows it.
  TrialResult find_cause(trial::Trial& trial, TrialResult failed);
  // Whether a call that did not end in time never ends, or shows why on the way (hang.cpp). `trial` becomes
  // the smallest that does, `slow` what it shows.
  // `doublings`: how many smaller sizes are tried before it.
  bool never_ends(trial::Trial& trial, TrialResult& slow, int doublings = kAllDoublings);
  // "correct on NVIDIA H200 …, wrong on …", where a trial fails only in the surroundings it has; else empty.
  std::string needed_surroundings(const trial::Trial& failing);
  // Whether a failure has the cause that another trial was found to have: one that gives it this kind.
  bool has_cause(trial::Trial& trial, TrialResult& failed, Kind kind, Cause cause);

  // Whether what the device saw shows again in a new process, alone or after other calls; `trial` is changed
  // to the one that shows it. Numbers need no such test: find_cause() has its own.
  bool confirm(trial::Trial& trial, TrialResult& failed);

  // What takes long and is no trial's doing: starting an interpreter, compiling.
  void prepare() { runner_.prepare(); }
  // Seconds that a Python subject has spent on compiling: no trial's time, and none of the budget's.
  double build_seconds() const { return runner_.build_seconds(); }
  std::vector<pid_t> processes() const { return runner_.processes(); }
  void set_tensor_cores(subject::TensorCores used) { tensor_cores_ = std::move(used); }
  // A Python subject's device code is known once it is loaded: called with each PTX text when it is new.
  void on_new_code(std::function<void(const std::string& ptx)> use) { use_new_code_ = std::move(use); }
  // Kinds of finding that reading the code makes likely.
  void set_hints(std::vector<Kind> kinds) { hints_ = std::move(kinds); }

  bool files_guarded() const { return runner_.files_guarded(); }
  // ---- a real GPU
  // Whether a call is repeated under load while what came of it is judged.
  void set_goes_on(bool goes_on) { runner_.set_goes_on(goes_on); }
  // A trial whose call gave another result when it was repeated so, or failed: to be made again under load. Once.
  std::optional<trial::Trial> take_shaken() { return std::exchange(shaken_, std::nullopt); }
  struct GpuUse {
    protocol::WorkerTime time;  // of the workers
    int64_t repeats = 0;        // of calls, beside those of trials
    // In which the GPU had calls to make.
    double busy() const { return time.calling + time.repeating; }
  };
  const GpuUse& gpu_use() const { return gpu_use_; }
  // Elements of each output that are judged; larger ones by a sample.
  void set_sample(int64_t elements) { sample_ = elements; }
  void set_timeout(double seconds) { timeout_ = seconds; }  // of every call
  // Whether a sample of the blocks may have more time, once, where no block comes to its end.
  void allow_long_samples(bool allowed) { long_samples_ = allowed; }
  // Calls end in so many seconds of their own (own_time.h) from now, and none begins later: for what has its
  // share of the time.
  void set_time_left(std::optional<double> seconds) {
    stage_.reset();
    if (seconds) stage_.emplace(Stage{.seconds = *seconds});
  }
  // … or after so many, where a check follows the timeline of another.
  void set_most_runs(std::optional<int> most) { most_runs_ = most; }
  bool out_of_time() {
    if (most_runs_ && runs_ >= *most_runs_) return true;
    return stage_ && time_left() <= 0;
  }
  int runs() const { return runs_; }

 private:
  TrialResult run_once(const trial::Trial& trial, bool diagnose);
  // Of its call, or of its two.
  Result<std::vector<contract::Bindings>> inputs_of(const trial::Trial& trial) const;
  void observe(const trial::Trial& trial, const std::vector<contract::Bindings>& bindings, bool diagnose,
               TrialResult& result);
  judge::Options judge_options(bool tensor_cores, bool diagnose) const;
  std::future<std::vector<judge::Foreseen>> foresee(const std::vector<contract::Bindings>& bindings) const;
  void judge_calls(const std::vector<contract::Bindings>& bindings,
                   const std::vector<judge::Foreseen>& foreseen, TrialResult& result, bool diagnose);
  void note_use(const subject::Observation& observation);
  void judge_load(const trial::Trial& trial, const subject::Observation& observation,
                  TrialResult& result) const;
  bool is_for_another_gpu(const subject::Observation& observation) const;
  void read_outcome(const trial::Trial& trial, const subject::Observation& observation, TrialResult& result);
  // sampled_trial.cpp, sampled_coverage.cpp
  void run_sampled(const trial::Trial& trial, TrialResult& result);
  bool sample_once(const trial::Trial& trial, double seconds, TrialResult& result);
  subject::Observation run_giant(const trial::Trial& trial);
  std::optional<Finding> giant_unended(const trial::Trial& trial, const subject::Observation& seen);
  int64_t sampled_elements(const trial::Trial& trial) const;
  void judge_written(const trial::Trial& trial, const protocol::SampleReport& report,
                     const subject::Call& call, trial::GeneratedInputs& inputs, TrialResult& result);
  subject::ElementRange confirmed_gap(const trial::Trial& trial, const protocol::SampleReport& report,
                                      const contract::TensorSpec& output,
                                      std::vector<subject::ElementRange> written, int64_t elements);
  const Ownership& ownership_of(const trial::Trial& giant, const contract::TensorSpec& output);
  subject::ElementRange confirmed_unowned(const trial::Trial& trial, const protocol::SampleReport& report,
                                          const contract::TensorSpec& output,
                                          const std::vector<int64_t>& extents,
                                          const std::vector<subject::ElementRange>& written);
  void judge_coverage(const trial::Trial& trial, const protocol::SampleReport& report,
                      const subject::Call& call, trial::GeneratedInputs& inputs, TrialResult& result);
  // Once more under another schedule, at other addresses, over other remains.
  static trial::Trial repetition_of(trial::Trial trial);
  void compare_repetition(const trial::Trial& trial, TrialResult& result);
  void compare_related(const trial::Trial& trial, TrialResult& result);
  void warm_up(const trial::Trial& trial);
  void note_launches(const trial::Trial& trial, const subject::Observation& observation) const;
  contract::Shape another_shape(const contract::Shape& shape) const;
  bool is_of_earlier_calls(const trial::Trial& trial, const contract::Bindings& first,
                           const trial::Trial& companion, const contract::Bindings& second);
  void learn_code(const std::vector<std::string>& texts);
  double time_left();  // of the stage
  double time_limit();
  bool passes(const trial::Trial& trial);
  bool tells_apart(trial::Trial right, trial::Trial wrong);
  bool find_overlap(trial::Trial& trial, TrialResult& failed);
  bool find_order_of_calls(trial::Trial& trial, TrialResult& failed);
  bool find_chance(trial::Trial& trial, TrialResult& failed, Cause known);
  std::optional<std::string> difference(const trial::Trial& trial, const TrialResult& first,
                                        const TrialResult& second) const;
  bool find_stale(trial::Trial& trial, TrialResult& failed);
  bool find_left_behind(trial::Trial& trial, TrialResult& failed);
  bool find_host_memory(trial::Trial& trial, TrialResult& failed);
  bool find_uninitialized(trial::Trial& trial, TrialResult& failed);
  TrialResult run_after(std::vector<trial::Trial> before, const trial::Trial& trial);
  bool fails_after(const trial::Trial& trial, const std::vector<trial::Trial>& before);
  bool find_seen_once(trial::Trial& trial, TrialResult& failed);
  bool find_stream_order(trial::Trial& trial, TrialResult& failed);
  bool find_undefined(trial::Trial& trial, TrialResult& failed);
  bool find_unwritten(trial::Trial& trial, TrialResult& failed);
  bool keeps_by_value(const trial::Trial& trial, const TrialResult& failed);
  bool depends_on_poison(const trial::Trial& trial, const TrialResult& failed,
                         const TrialResult& cleared) const;

  const contract::Contract& contract_;
  const reference::Reference& reference_;
  const subject::Subject& subject_;
  CheckOptions options_;
  subject::Runner runner_;
  trial::Work work_;
  double timeout_ = 30;                                     // seconds, until a check sets its own
  std::optional<std::map<std::string, Ownership>> learnt_;  // by output: who writes what
  std::optional<trial::Trial> shaken_;                      // came out otherwise when it was repeated
  GpuUse gpu_use_;
  struct Stage {
    double seconds = 0;  // that it may take
    OwnTime taken{};
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  };
  std::optional<Stage> stage_;
  std::optional<int> most_runs_;
  int runs_ = 0;
  std::vector<trial::Trial> history_;  // calls of the present process, the last ones
  int64_t sample_ = judge::Options{}.max_elements;
  std::vector<Kind> hints_;
  subject::TensorCores tensor_cores_;
  bool long_samples_ = false;       // are allowed
  bool long_sampled_ = false;       // a sample had more time once
  bool used_tensor_cores_ = false;  // by the call before
  std::function<void(const std::string&)> use_new_code_;
  std::set<std::string> code_;  // PTX of a Python subject
  std::vector<ptx::Module> modules_;
};

}  // namespace assay::assayer
