// One trial, run and judged (attempt.cpp), and what its failure is a failure of (attribute.cpp).
#pragma once

#include <chrono>
#include <optional>

#include "assayer/assayer.h"
#include "judge/judge.h"
#include "subject/tensor_cores.h"
#include "trial/work.h"

namespace assay::assayer {

enum class AttemptState : uint8_t {
  Judged,       // findings tell
  Skipped,      // no legal inputs at this shape, or too large
  TooSlow,      // did not end in time at a shape where that proves nothing
  Unsupported,  // the virtual GPU cannot run it: `problem`
  Unavailable,  // no device: `problem`
  Unjudgeable,  // the reference cannot be evaluated: `problem`
};

struct Attempt {
  AttemptState state = AttemptState::Judged;
  std::string problem;
  std::vector<Finding> findings;  // errors before warnings
  std::vector<Finding> warnings;  // of host code: they say nothing about this trial
  std::vector<subject::Call> calls;
  std::vector<std::string> wider_budgets;  // why they allow for tensor cores; empty: they do not
  int64_t judged = 0, elements = 0, undecided = 0;
  double seconds = 0;                // of the whole attempt
  double call_seconds = 0;           // of the call alone
  int64_t calls_before = 0;          // in the same process
  std::vector<trial::Trial> before;  // of a failure: those calls, the last ones
  std::optional<Finding> unended;    // TooSlow: what there is to say if it never ends
  bool is_smallest = false;          // no smaller trial shows what this one does
  std::vector<std::pair<contract::Shape, double>> probed;  // by never_ends: what smaller calls took, in seconds
};

class Laboratory {
 public:
  Laboratory(const contract::Contract& contract, const contract::Reference& reference,
             const subject::Subject& subject, const CheckOptions& options);

  // Runs and judges a trial. What the device saw goes before what the numbers say: a race that gives
  // wrong sums is a race.
  Attempt attempt(const trial::Trial& trial, bool diagnose = true);

  // Runs it under changed conditions to name the cause: chance, the result of an earlier call, overlap, the
  // stream, memory that nothing wrote. `trial` is changed to the one that shows it.
  Attempt attribute(trial::Trial& trial, Attempt failed);
  // Whether a call that did not end in time never ends, or shows why on the way (hang.cpp). `trial` becomes
  // the smallest that does, `slow` what it shows.
  bool never_ends(trial::Trial& trial, Attempt& slow);
  // "right on NVIDIA H200 …, wrong on …", where a trial fails only in the surroundings it has; else empty.
  std::string needed_surroundings(const trial::Trial& failing);
  // Whether a failure has this cause, which another trial was found to have.
  bool attribute_again(trial::Trial& trial, Attempt& failed, std::string_view kind);

  // Whether what the device saw shows again in a new process, alone or after other calls; `trial` is changed
  // to the one that shows it. Numbers need no such test: attribute() has its own.
  bool confirm(trial::Trial& trial, Attempt& failed);

  void set_tensor_cores(subject::TensorCores used) { tensor_cores_ = std::move(used); }
  // Kinds of finding that reading the code makes likely.
  void set_hints(std::vector<std::string> kinds) { hints_ = std::move(kinds); }

  bool files_guarded() const { return runner_.files_guarded(); }
  // Elements of each output that are judged; larger ones by a sample.
  void set_sample(int64_t elements) { sample_ = elements; }
  void set_timeout(double seconds) { timeout_ = seconds; }  // of every call
  // Calls end by then, and none begins later: for what has its share of the time.
  using TimePoint = std::chrono::steady_clock::time_point;
  void set_deadline(std::optional<TimePoint> deadline) { deadline_ = deadline; }
  // … or after so many, where a check follows the course of another.
  void set_most_runs(std::optional<int> most) { most_runs_ = most; }
  bool out_of_time() const {
    if (most_runs_ && runs_ >= *most_runs_) return true;
    return deadline_ && std::chrono::steady_clock::now() >= *deadline_;
  }
  int runs() const { return runs_; }

 private:
  Attempt run(const trial::Trial& trial, bool diagnose);
  void observe(const trial::Trial& trial, const std::vector<contract::Bindings>& bindings, bool diagnose,
               Attempt& attempt);
  void judge_calls(const trial::Trial& trial, const std::vector<contract::Bindings>& bindings,
                   Attempt& attempt, bool diagnose);
  void name_host_code(std::vector<Finding>& findings) const;
  void read_outcome(const trial::Trial& trial, const subject::Observation& observation, Attempt& attempt);
  void read_events(const trial::Trial& trial, const subject::Observation& observation, Attempt& attempt);
  void compare_repetition(const trial::Trial& trial, Attempt& attempt);
  void compare_related(const trial::Trial& trial, Attempt& attempt);
  void warm_up(const trial::Trial& trial);
  bool is_of_earlier_calls(const trial::Trial& trial, const contract::Bindings& first,
                           const trial::Trial& companion, const contract::Bindings& second);
  double time_limit() const;
  bool passes(const trial::Trial& trial);
  bool tells_apart(trial::Trial right, trial::Trial wrong);
  bool find_overlap(trial::Trial& trial, Attempt& failed);
  bool find_chance(trial::Trial& trial, Attempt& failed);
  bool find_stale(trial::Trial& trial, Attempt& failed);
  bool find_left_behind(trial::Trial& trial, Attempt& failed);
  bool find_host_memory(trial::Trial& trial, Attempt& failed);
  bool find_uninitialized(trial::Trial& trial, Attempt& failed);
  bool shows(const trial::Trial& trial, std::string_view kind);
  bool fails_after(const trial::Trial& trial, std::vector<trial::Trial> before);
  bool find_seen_once(trial::Trial& trial, Attempt& failed);
  bool find_stream_order(trial::Trial& trial, Attempt& failed);
  bool find_undefined(trial::Trial& trial, Attempt& failed);
  bool find_unwritten(trial::Trial& trial, Attempt& failed);
  bool keeps_by_value(const trial::Trial& trial, const Attempt& failed);
  bool depends_on_poison(const trial::Trial& trial, const Attempt& failed, const Attempt& cleared) const;

  const contract::Contract& contract_;
  const contract::Reference& reference_;
  const subject::Subject& subject_;
  CheckOptions options_;
  subject::Runner runner_;
  trial::Work work_;
  double timeout_ = 30;
  std::optional<TimePoint> deadline_;
  std::optional<int> most_runs_;
  int runs_ = 0;
  std::vector<trial::Trial> history_;  // calls of the present process, the last ones
  int64_t sample_ = judge::Options{}.max_elements;
  std::vector<std::string> hints_;
  subject::TensorCores tensor_cores_;
};

// Whether any of them makes the verdict `fail`.
bool has_error(const std::vector<Finding>& findings);
// Whether a finding speaks of numbers, not of what the device saw.
bool is_numeric(std::string_view kind);
// … of finite numbers that are too far off, whatever the diagnosis.
bool is_inexact(std::string_view kind);

}  // namespace assay::assayer
