// The Python interpreter that workers of a Python subject are forked from.
//
// Importing torch takes seconds, and a check uses many workers: a new one for every trial that must begin in a new
// process, and after every failure. So one interpreter per subject imports torch, touches no device and no line
// of the subject's code, and forks a worker whenever it is asked for one (python/assay/worker). A worker is made a
// child of this process (it is its subreaper), which kills it and learns how it ended as it does for any worker.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace assay::subject {

class Interpreter {
 public:
  // `code`: file or folder of the subject's; it is not loaded, but shows what is worth importing.
  explicit Interpreter(std::string code) : code_(std::move(code)) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Starts the process without waiting for it.
  void start();
  pid_t process() const { return child_ > 0 ? child_ : 0; }  // 0: there is none

  struct Worker {
    std::string folder;        // where it runs, and keeps its temporary files
    std::string build_folder;  // where what it compiles is kept
    std::string settings;      // of the runtime library (protocol/settings.h)
    int socket = -1, memory_file = -1, events = -1, log = -1;
  };
  // The process of a new worker.
  Result<pid_t> fork_worker(const Worker& worker);

 private:
  Error lost();

  std::string code_;
  pid_t child_ = -1;
  int control_ = -1;
  std::string log_;  // what it said
  int log_file_ = -1;
  Error problem_;
};

}  // namespace assay::subject
