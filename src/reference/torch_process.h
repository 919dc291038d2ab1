// A Python process with torch on the CPU, which answers questions: a JSON object per line
// (python/assay/reference/server.py).
//
// Importing torch takes seconds, so a check uses one for all: it describes a benchmark's problem, and then evaluates
// the reference. It runs without a device and without the checker's settings.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/temporary_folder.h"

namespace assay::reference {

class TorchProcess {
 public:
  TorchProcess() = default;
  ~TorchProcess() { end(); }
  TorchProcess(const TorchProcess&) = delete;
  TorchProcess& operator=(const TorchProcess&) = delete;

  // Starts the process without waiting for it; ask() starts it otherwise.
  void start();
  // Says something that has no answer.
  Result<void> tell(const nlohmann::ordered_json& what);
  // One question, one answer: an object with `ok` and, if that is false, `error`. An Error: there is no process that
  // answers.
  Result<nlohmann::ordered_json> ask(const nlohmann::ordered_json& question);
  pid_t process() const { return child_ > 0 ? child_ : 0; }  // 0: there is none
  // Files that are exchanged go here.
  const std::string& folder() const { return folder_.path(); }

 private:
  Result<void> spawn(const std::string& package);
  void end();
  Error stop(std::string why);
  Error lost();

  TemporaryFolder folder_{"reference"};
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;  // its stdin and stdout
  bool started_ = false;
  std::string received_;
  Error problem_;  // why it is not running
};

}  // namespace assay::reference
