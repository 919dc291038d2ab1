// The process in which a subject runs, seen from the judge.
//
//     WorkerProcess worker(contract, subject, options);
//     Answer answer = worker.start();                        // it has loaded the subject
//     if (worker.send(encode(request))) answer = worker.receive(seconds);
//
// The subject can do anything to the process: crash it, hang, use all memory, write to its file descriptors. So time,
// memory and threads are limited from outside, and an answer may always be that there is none. The process ends with
// stop(), at the latest with the object.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "protocol/lines.h"
#include "protocol/messages.h"
#include "subject/event_pipe.h"
#include "subject/runner.h"

namespace assay::subject {

inline constexpr int kPollInterval = 50;  // milliseconds between checks of a silent worker's limits
inline constexpr const char* kInterrupted = "interrupted";

// The machine that a worker believes to run on, for as long as it lives.
struct Machine {
  uint8_t gpu = 0;
  int64_t clock = 0;
  bool operator==(const Machine&) const = default;
};

// What came of waiting for the worker: a line, or why there is none.
struct Answer {
  CallOutcome outcome = CallOutcome::Ended;
  std::string error;
  std::string line;
  int exit_status = -1;  // of a process that ended by itself
  double seconds = 0;    // until it came, by the clock that limits them (process_clock.h)
};

// Time that a Python subject spends on compiling is not the call's, as far as it goes.
class BuildTime {
 public:
  void note(bool begins) { under_way_ = begins; }
  bool under_way() const { return under_way_; }
  // How much of the seconds that have passed since the last time is given to the build.
  double allowance(double seconds);
  double spent() const { return spent_; }

 private:
  bool under_way_ = false;
  double spent_ = 0;
};

class WorkerProcess {
 public:
  WorkerProcess(const contract::Contract& contract, const Subject& subject, RunnerOptions options);
  ~WorkerProcess() { stop(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  const RunnerOptions& options() const { return options_; }
  void set_timeout(double seconds) { options_.timeout = seconds; }
  bool is_python() const { return !subject_.python.empty(); }
  // Of the next process that is started.
  const Machine& machine() const { return machine_; }
  void set_machine(const Machine& machine) { machine_ = machine; }

  // A process that is ready; or why there is none. In two steps: launch() starts one, which gets ready by itself.
  Answer start();
  Answer launch();
  Answer await_ready();
  void stop();
  void finish(double seconds);  // lets it end by itself first, for so long
  bool is_running() const { return child_ >= 0; }
  bool has_ended();  // by itself
  pid_t process() const { return child_ > 0 ? child_ : 0; }

  // A file that both map; at least so large.
  bool grow(int64_t size);
  std::byte* memory() const { return memory_; }
  int64_t memory_bytes() const { return mapped_; }

  bool send(const std::string& line) const;
  Answer receive(double timeout);
  bool has_said_more() const { return !pending_.empty(); }
  EventPipe& events() { return events_; }
  Answer died();                                         // why the channel is closed
  Answer give_up(CallOutcome outcome, std::string why);  // kills it

  std::string output_tail() const;  // of what it printed
  bool files_guarded() const { return guarded_; }
  void note_files_guarded(bool guarded) { guarded_ &= guarded; }
  double build_seconds() const { return builds_.spent(); }

 private:
  int reap();
  std::vector<std::string> environment() const;
  protocol::Settings settings() const;
  protocol::WorkerSetup setup() const;
  protocol::WorkerSetup python_setup() const;
  std::string hidden_with(const contract::PythonFunction& function) const;
  [[noreturn]] void become_worker(pid_t judge, int worker_socket, int worker_events,
                                  const std::string& program,
                                  const std::vector<std::string>& variables) const;
  bool link_files() const;
  std::string program(const std::string& name) const;
  std::string fork_worker(int worker_socket, int worker_events);
  std::string fork_interpreter(int worker_socket, int worker_events);

  const contract::Contract& contract_;
  const Subject& subject_;
  RunnerOptions options_;
  Machine machine_;
  pid_t child_ = -1;
  int socket_ = -1;
  int memory_file_ = -1;
  int64_t mapped_ = 0;
  std::byte* memory_ = nullptr;
  std::unique_ptr<TemporaryFolder> folder_;
  protocol::LineBuffer pending_;  // received from the socket
  EventPipe events_;
  BuildTime builds_;
  bool was_told_ = false;  // it has been sent its setup
  bool guarded_ = true;
};

}  // namespace assay::subject
