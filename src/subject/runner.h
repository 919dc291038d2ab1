// Trials in a worker process.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "contract/reference.h"
#include "subject/subject.h"
#include "trial/trial.h"

namespace assay::subject {

enum class Device : uint8_t { Virtual, Cuda };

// What the subject's library is called in the worker, and so in the places of host code that the worker
// reports.
inline constexpr const char* kLibraryName = "libkernel.so";

struct RunnerOptions {
  Device device = Device::Virtual;
  std::string worker;           // program; empty: beside this one
  std::string cudart;           // folder of the virtual libcudart.so.13; empty: ../lib beside this program
  double timeout = 30;          // seconds of one trial
  double memory = 0;            // bytes that the worker may hold; 0: two thirds of the machine's
  bool checked = true;          // the virtual device watches accesses, races, initialisation
  bool precision = false;       // … or where precision is lost, instead
  bool record = false;          // … or only tells what it is asked to do, and does nothing (virtual)
  std::string precision_lines;  // … told apart before others: "FILE:LINE;FILE:LINE"
};

// What the device's own checks saw, one JSON object each (kind, message, file, line, …).
using Event = nlohmann::ordered_json;

// Bytes outside a tensor that changed.
struct Trespass {
  std::string tensor;
  int64_t offset = 0;  // bytes from the tensor's start: negative before it, at least its size after it
  int64_t bytes = 0;
};

struct Call {
  std::map<std::string, std::shared_ptr<const contract::Tensor>, std::less<>> outputs;
  std::vector<std::string> changed_inputs;
  std::vector<Trespass> trespasses;
  int returned = 0;
};

enum class Outcome : uint8_t {
  Ended,
  DeviceError,  // a CUDA call or launch failed: `error`
  Crashed,      // the process died: `error` says of what
  TimedOut,
  TooLarge,     // more memory than the worker may have
  Unavailable,  // no such device, or the worker could not start
};

struct Observation {
  Outcome outcome = Outcome::Ended;
  std::string error;
  int error_code = 0;       // the cudaError_t
  std::vector<Call> calls;  // one; two where calls overlapped
  std::vector<Event> events;
  std::optional<std::set<std::string>> kernels;  // that were launched, by mangled name; none: not known
  double seconds = 0;                            // of the call itself
};

class Runner {
 public:
  Runner(const contract::Contract& contract, const Subject& subject, RunnerOptions options);
  ~Runner();
  Runner(Runner&&) noexcept;

  // `second`: the inputs of the overlapped call, where the trial's condition asks for one.
  Observation run(const trial::Trial& trial, const contract::Bindings& first,
                  const contract::Bindings* second = nullptr);

  // Calls the subject without doing what it asks of the device: the events say which kernels it would have
  // launched, with what. The inputs need no values. For a runner whose options say `record`.
  Observation record(const contract::Bindings& bindings);

  // Ends the worker; the next trial starts a new one.
  void restart();
  int64_t calls_in_process() const;  // calls that the present worker has made
  bool files_guarded() const;        // false: a worker ran on a kernel that cannot confine its writes
  void set_timeout(double seconds);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::subject
