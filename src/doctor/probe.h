// Asking a library in a child process, which may crash or hang without harm.
//
// The child writes one JSON object a line: first the name of the call that it is about to make, then what came of it.
// Lines that arrive are kept whatever happens to the child afterwards.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "doctor/facts.h"

namespace assay::doctor {

using ProbeJson = nlohmann::json;

// The child's side.
class ProbeWriter {
 public:
  explicit ProbeWriter(int pipe) : pipe_(pipe) {}
  void step(const char* call) const { write({{"step", call}}); }
  void write(const ProbeJson& line) const;

 private:
  int pipe_;
};

class Probe {
 public:
  // Starts a child with this environment that does `ask` and ends. Call while this process has one thread only.
  Probe(const Machine& machine, const std::function<void(const ProbeWriter&)>& ask);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Reads lines until the child ends; at `deadline`, or when this program is interrupted, the child is killed. A child
  // that does not even die (it is stuck in the kernel) is left behind.
  ProbeRun finish(std::chrono::steady_clock::time_point deadline,
                  const std::function<void(const ProbeJson&)>& line);

 private:
  pid_t child_ = -1;
  int pipe_ = -1;
  std::chrono::steady_clock::time_point begun_;
};

// What the children do, and what is made of one of their lines.
// `containers`: device code of the subject that the driver shall load.
void ask_driver(const ProbeWriter& out, const std::string& libcuda, bool canary,
                const std::vector<std::string_view>& containers);
void read_line(const ProbeJson& line, DriverProbe& probe);
void ask_nvml(const ProbeWriter& out, const std::string& libnvml);
void read_line(const ProbeJson& line, NvmlProbe& probe);

}  // namespace assay::doctor
