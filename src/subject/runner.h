// Trials in a worker process.
#pragma once

#include <sys/types.h>

#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "contract/bindings.h"
#include "protocol/event.h"
#include "protocol/messages.h"
#include "protocol/settings.h"
#include "subject/perturbed_code.h"
#include "subject/subject.h"
#include "trial/trial.h"

namespace assay::subject {

struct Machine;
struct MemoryFileLayout;

enum class Device : uint8_t { Virtual, Cuda };

// What the subject's library is called in the worker, and so in the places of host code that the worker
// reports.
inline constexpr const char* kLibraryName = "libkernel.so";

// Of a trial of which a sample of the blocks is run: blocks of each launch. Chosen: a block of an element-wise kernel
// takes less than a millisecond.
inline constexpr uint64_t kSampledBlocks = 96;

struct RunnerOptions {
  Device device = Device::Virtual;
  std::string worker;  // program; empty: beside this one
  std::string cudart;  // folder of the virtual libcudart.so.13; empty: ../lib beside this program
  // Folder of the libcudart.so.13 for a real GPU; empty: ASSAY_CUDA_RUNTIME, or else the toolkit's.
  std::string cuda_runtime;
  uint64_t stand_in_seed = 0;  // of the schedule of a virtual device that stands in for a GPU; 0: text order
  // On a real GPU: a command that is put before the worker's, to observe it (sanitizer.h).
  std::vector<std::string> witness;
  std::string
      other_code;  // … and device code that takes the place of the subject's (perturbed_code.h); empty: none
  double timeout = 30;  // seconds of one trial
  double loading = 30;  // seconds, at least, in which a worker must be ready
  double memory = 0;    // bytes that the worker may hold; 0: two thirds of the machine's
  std::vector<std::string>
      hidden;  // files and folders that a Python subject may not read, beside the contract's
  // Of the virtual device.
  protocol::CheckSet checks = protocol::CheckSet::for_check();
  std::vector<Where> precision_lines;  // that the precision check separates before others
  bool record = false;                 // what the subject asks of the device is reported and not done
  bool report_launches = false;        // it is reported and done
};

// Bytes outside a tensor that changed.
struct Trespass {
  std::string tensor;
  int64_t offset = 0;  // bytes from the tensor's start: negative before it, at least its size after it
  int64_t bytes = 0;
  bool in_gap = false;  // between its elements, where its strides leave room
};

struct ElementRange {
  int64_t first = 0, count = 0;
};

struct Call {
  std::map<std::string, std::shared_ptr<const contract::Tensor>, std::less<>> outputs;
  // Of a sample of the blocks: the elements of each output that were written, in order; the others are not there.
  std::map<std::string, std::vector<ElementRange>, std::less<>> written;
  std::vector<std::string> changed_inputs;
  std::vector<Trespass> trespasses;
  int returned = 0;
};

enum class CallOutcome : uint8_t {
  Ended,
  DeviceError,   // a CUDA call or launch failed: `error`
  PythonFailed,  // a Python function raised, or returned something else than the outputs: `python`
  Crashed,       // the process died: `error` says of what
  TimedOut,
  TooLarge,        // more memory than the worker may have
  NoDeviceMemory,  // a real GPU has no room for the buffers of the call
  NotPerturbed,    // the device code cannot be given pauses: `error`
  Unavailable,     // no such device, or the worker could not start
};

struct Observation {
  CallOutcome outcome = CallOutcome::Ended;
  std::string error;
  int error_code = 0;  // the cudaError_t
  std::optional<protocol::PythonFailure> python;
  std::vector<Call> calls;  // one; two where calls overlapped
  std::vector<protocol::Event> events;
  // What the subject asked of the device, where the options say so: a CallEvent before each call's (not in a recording),
  // then launches, fills and copies.
  std::vector<protocol::Event> recorded;
  bool recorded_left_out = false;                // there were more than are kept
  std::optional<std::set<std::string>> kernels;  // that were launched, by mangled name; none: not known
  std::optional<protocol::LaunchEvent> last_launch;
  std::vector<std::string> code;                 // PTX that a Python subject loaded
  std::optional<protocol::SampleReport> sample;  // of a trial that is sampled
  double seconds = 0;                            // of the call itself
  double limited_seconds = 0;                    // those that its time limit counts, with preparing it
  // Of a real GPU.
  std::optional<protocol::LoadReport> load;
  protocol::WorkerTime time;                   // since the observation before
  double turn_seconds = 0;                     // in which it was the turn of others
  int repeats = 0;                             // since then, of earlier calls: while they were judged
  std::optional<trial::Trial> shaken;          // of which one gave another result, or ended the process
  std::vector<protocol::BufferPlace> buffers;  // where a witness observes the worker
};

class Runner {
 public:
  Runner(const contract::Contract& contract, const Subject& subject, RunnerOptions options);
  ~Runner();
  Runner(Runner&&) noexcept;

  // `second`: the inputs of the overlapped call, where the trial's condition asks for one.
  Observation run(const trial::Trial& trial, const contract::Bindings& first,
                  const contract::Bindings* second = nullptr);

  // Ahead of the first trial: starts the worker of a Python subject, which imports and compiles first (what comes of it
  // shows in that trial); begins to compile the code with pauses for a real GPU.
  void prepare();

  // Calls the subject without doing what it asks of the device: the events say which kernels it would have
  // launched, with what. The inputs need no values. For a runner whose options say `record`.
  Observation record(const contract::Bindings& bindings, const trial::Condition& condition = {});

  // Ends the worker; the next trial starts a new one.
  void restart();
  // The same, but the worker ends by itself, within these seconds: a witness then says all that it has seen.
  void finish(double seconds);
  // Of the present worker, and of what workers of a Python subject come from. They take turns; 0: there is none.
  std::vector<pid_t> processes() const;
  int64_t calls_in_process() const;  // calls that the present worker has made
  bool files_guarded() const;        // false: a worker ran on a kernel that cannot confine its writes
  double build_seconds() const;      // that a Python subject has spent on compiling
  void set_timeout(double seconds);
  // On a real GPU: whether a call is repeated under load until the next one. One process at a time does so: what it has
  // done is asked for before another one begins, or it ends.
  void set_goes_on(bool goes_on);
  // Of each launch of which a sample of the blocks is run: those in which blocks begin; they end in twice as many.
  void set_sample_seconds(double seconds);
  // … so many of them at most, and these in any case.
  void set_sample_blocks(uint64_t blocks, std::vector<uint64_t> wanted = {});

  struct Impl;

 private:
  Observation run_giant(const trial::Trial& trial, const MemoryFileLayout& layout);
  Observation run_perturbed(const trial::Trial& trial, const MemoryFileLayout& layout);
  void begin_to_perturb();
  void note_gone_on(Observation& observation);
  void take_spare(const Machine& wanted);
  void keep_spare();

  std::unique_ptr<Impl> impl_;
  std::unique_ptr<Impl> spare_;  // of a real GPU: the next process
  // Of a real GPU: a process with pauses in the device code, and that code.
  std::unique_ptr<Impl> perturbed_;
  std::unique_ptr<TemporaryFolder> code_folder_;
  std::future<PerturbedCode> code_;
  std::string code_problem_;
};

}  // namespace assay::subject
