// What is wrong with this machine, or with a file or process on it, for CUDA: named, with the fix.
//
// Example:
//
//     const Diagnosis found = diagnose(this_machine("/usr/lib/assay"), Target{}, Depth::Quick);
//     use(terminal(found), json(found), exit_status(found));
//
// Three steps, each in files of its own:
//
//   facts.h    what is so: read from files under Machine::root, from ELF files and fatbinaries, and by asking the
//              driver (driver_probe.cpp) and NVML (nvml_probe.cpp) in child processes with a time limit (probe.h)
//   rules.h    what that means: a table of pure functions from facts to problems
//   report.cpp the words on a terminal, and JSON (docs/doctor.schema.json)
//
// This process never loads libcuda or NVML, so it never has a CUDA context, and a driver that hangs or crashes costs a
// child process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace assay::doctor {

// Everything that is looked at goes through here, so that tests can make any machine up.
struct Machine {
  std::string root;  // before /proc, /dev, /sys, /etc, /usr; empty: the machine's own
  std::map<std::string, std::string, std::less<>> environment;
  unsigned user = 0;
  std::vector<unsigned> groups;
  int landlock = 0;           // version of the interface; 0: the kernel has none
  std::string own_libraries;  // folder of Assay's own libcuda.so.1 and libcudart.so.13
  // Until the children are stopped, so that the whole takes less than a second, or ten.
  double quick_seconds = 0.8, full_seconds = 8;
};
Machine this_machine(const std::string& own_libraries);

// What `--for` names.
struct Target {
  enum class Kind : uint8_t { None, Contract, Library, Process };
  Kind kind = Kind::None;
  std::string name;      // of the contract or the library's file
  std::string arch;      // of a contract: "sm_90"
  bool is_cuda = false;  // a contract whose kernel nvcc must compile
  int process = 0;
};

enum class Depth : uint8_t { Quick, Full };  // full: kernels with known bits are run, too

enum class Severity : uint8_t {
  Fault,      // something does not work, or gives other results
  Undecided,  // it could not be found out
  Warning,    // it works, but not as well as it could
};

struct Problem {
  std::string name;  // "stub-driver"; docs/doctor.md lists them
  Severity severity = Severity::Fault;
  std::string what, fix;
  std::vector<std::string> details;
  bool stops_gpu = false;  // no kernel can run on the GPU, or none can be trusted
};

// Something that was looked for and not found.
struct PassedRule {
  std::string name;
  std::string why_skipped;  // why it could not be looked for; empty: all is well
};

struct FoundGpu {
  std::string name, driver;  // "NVIDIA H200", "580.95.05"; the driver may be unknown
  int major = 0, minor = 0;  // compute capability
  uint64_t bytes = 0;
};

struct Diagnosis {
  std::vector<Problem> problems;   // faults first; of faults that stop the GPU only the cause
  std::vector<PassedRule> passed;  // the rest of what was looked for
  std::vector<FoundGpu> gpus;      // that the driver offers
  int cuda_version = 0;            // of the driver: 13000; 0: unknown
  std::string why_no_gpu;      // where there is none and nothing is wrong: "no NVIDIA device on the PCI bus"
  bool virtual_works = false;  // Assay's own device; false: it does not, or it is not known
  Depth depth = Depth::Quick;
  double seconds = 0;
};

Diagnosis diagnose(const Machine& machine, const Target& target, Depth depth);

// 0 healthy, 1 a fault, 3 something could not be decided.
int exit_status(const Diagnosis& diagnosis);

// One line for each problem, with details below it; one line in all if there is none. Ends with a line break.
std::string terminal(const Diagnosis& diagnosis);
std::string json(const Diagnosis& diagnosis);

// Why no kernel can run on a GPU here, or why no GPU was found in the time there was, in one line with the fix; empty: one
// can run.
std::string why_gpu_unusable(const Diagnosis& diagnosis);

}  // namespace assay::doctor
