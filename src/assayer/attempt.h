// One trial, run and judged (attempt.cpp), and what its failure is a failure of (attribute.cpp).
#pragma once

#include "assayer/assayer.h"
#include "judge/judge.h"
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
  std::vector<Finding> findings;
  std::vector<Finding> warnings;  // of host code: they say nothing about this trial
  std::vector<subject::Call> calls;
  int64_t judged = 0, elements = 0, undecided = 0;
  double seconds = 0;        // of the whole attempt
  int64_t calls_before = 0;  // in the same process
};

enum class Late : uint8_t {
  Slow,            // nothing: there was not much time
  FindingIfSmall,  // at a small shape it hangs, at others it may be slow
  Finding,         // it hangs
};

class Laboratory {
 public:
  Laboratory(const contract::Contract& contract, const contract::Reference& reference,
             const subject::Subject& subject, const CheckOptions& options);

  // Runs and judges a trial. What the device saw goes before what the numbers say: a race that gives
  // wrong sums is a race.
  Attempt attempt(const trial::Trial& trial, bool diagnose = true);

  // Runs it under changed conditions to name the cause: the result of an earlier call, overlap, the
  // stream, memory that nothing wrote. `trial` is changed to the one that shows it.
  Attempt attribute(trial::Trial& trial, Attempt failed);
  // "right on NVIDIA H200 …, wrong on …", where a trial fails only in the surroundings it has; else empty.
  std::string needed_surroundings(const trial::Trial& failing);
  // Whether a failure has this cause, which another trial was found to have.
  bool attribute_again(trial::Trial& trial, Attempt& failed, std::string_view kind);

  // Whether what the device saw shows again in a new process, alone or after other calls; `trial` is changed
  // to the one that shows it. Numbers need no such test: attribute() has its own.
  bool confirm(trial::Trial& trial, Attempt& failed);

  // Kinds of finding that reading the code makes likely.
  void set_hints(std::vector<std::string> kinds) { hints_ = std::move(kinds); }

  bool files_guarded() const { return runner_.files_guarded(); }
  // Elements of each output that are judged; larger ones by a sample.
  void set_sample(int64_t elements) { sample_ = elements; }
  // Of every call, and what it means not to end in that time.
  void set_timeout(double seconds, Late late = Late::FindingIfSmall) {
    runner_.set_timeout(seconds);
    late_ = late;
  }

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
  bool passes(const trial::Trial& trial);
  bool find_overlap(trial::Trial& trial, Attempt& failed);
  bool find_stale(trial::Trial& trial, Attempt& failed);
  bool find_stream_order(trial::Trial& trial, Attempt& failed);
  bool find_undefined(trial::Trial& trial, Attempt& failed);
  bool find_unwritten(trial::Trial& trial, Attempt& failed);
  bool depends_on_poison(const trial::Trial& trial, const Attempt& failed, const Attempt& cleared) const;

  const contract::Contract& contract_;
  const contract::Reference& reference_;
  const subject::Subject& subject_;
  CheckOptions options_;
  subject::Runner runner_;
  trial::Work work_;
  Late late_ = Late::FindingIfSmall;
  int64_t sample_ = judge::Options{}.max_elements;
  std::vector<std::string> hints_;
};

// Whether a finding speaks of numbers, not of what the device saw.
bool is_numeric(std::string_view kind);
// … of finite numbers that are too far off, whatever the diagnosis.
bool is_inexact(std::string_view kind);

}  // namespace assay::assayer
