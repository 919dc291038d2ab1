// What is so on a machine. Gathered by files.cpp, libraries.cpp, subject.cpp and the probes; judged by rules.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/doctor.h"

namespace assay::doctor {

// How a child process that asked a library ended.
enum class ProbeEnd : uint8_t { NotRun, NotStarted, Ended, TimedOut, Died };
struct ProbeRun {
  ProbeEnd end = ProbeEnd::NotRun;
  std::string step;  // the call that it was in
  int signal = 0;    // that it died of
  double seconds = 0;
};

struct CanaryRun {
  std::string step;  // the call that failed; empty: all went well
  int error = 0;
  uint32_t wrong = 0, first_wrong = 0;  // elements
  uint64_t got = 0, expected = 0;       // of the first wrong one
};

struct DriverDevice {
  std::string name, pci;  // "0000:06:00.0"
  int major = 0, minor = 0;
  uint64_t bytes = 0;
  std::optional<CanaryRun> canary;
};

// What libcuda says.
struct DriverProbe {
  ProbeRun run;
  std::string load_error;   // why it cannot be loaded
  int version = 0;          // 13000
  std::optional<int> init;  // what cuInit returned
  std::vector<DriverDevice> devices;
  int subject_error = 0;  // with which it refused the subject's device code: 209, 222

  bool answers() const { return init == 0 && !devices.empty(); }
};

struct GpuProcess {
  int pid = 0;
  std::string name;
  uint64_t bytes = 0;
};

struct NvmlDevice {
  std::string name;
  bool is_lost = false;
  int compute_mode = 0;  // 0 default, 1 and 3 exclusive, 2 prohibited
  bool persistence = true;
  std::optional<bool> ecc;  // none: this GPU has no ECC
  uint64_t uncorrected = 0;
  bool remap_pending = false, remap_failed = false;
  bool mig = false;
  int mig_instances = 0;
  uint64_t throttle = 0;  // reasons, as NVML's bits
  uint64_t bytes = 0, used = 0;
  std::vector<GpuProcess> processes;
};

// What libnvidia-ml says.
struct NvmlProbe {
  ProbeRun run;
  std::string load_error;
  std::optional<int> init;
  std::string driver;  // "580.95.05"
  std::vector<NvmlDevice> devices;
};

struct DeviceNode {
  std::string path;
  bool is_usable = true;  // by this user
};

struct DriverLibrary {
  std::string path;     // empty: there is none
  std::string version;  // "580.95.05", by the name of the file that it is; empty: unknown
  std::string
      found_by;  // "LD_LIBRARY_PATH", "/etc/ld.so.conf.d/cuda.conf"; empty: in one of the system's folders
  std::string folder;  // in which it was found
  bool is_stub = false;
  bool is_compat = false;  // of a package cuda-compat
  bool is_own = false;     // Assay's virtual device
};

struct Toolkit {
  std::string nvcc;           // empty: there is none
  int version = 0;            // CUDART_VERSION of its headers: 13000
  int newest_gcc = 0;         // that its headers accept; 0: unknown
  int gcc = 0;                // that nvcc would call; 0: unknown
  std::string host_compiler;  // that nvcc would call
};

struct CodeImage {
  bool is_ptx = false;
  unsigned arch = 0;                         // 90
  bool is_exact = false, is_family = false;  // sm_90a, sm_100f
  int ptx_version = 0;                       // 90 for 9.0
  bool has_lines = false;
};

struct SubjectFile {
  std::string path;
  std::string error;  // why it cannot be read
  std::vector<std::string> needed;
  bool has_static_cudart = false;
  std::vector<CodeImage> images;
  std::vector<std::string> missing_torch_symbols;  // that it expects of torch and this torch does not have
  std::string torch, torch_version;                // folder of torch's libraries
};

struct LoadedLibrary {
  std::string path;
  std::vector<std::string> needed_by;  // other files of the process
};

struct RunningProcess {
  int pid = 0;
  std::string error;  // why it cannot be read
  std::string name;
  std::vector<LoadedLibrary> cudarts, cudnns;
};

struct Facts {
  Depth depth = Depth::Quick;
  Target target;
  // Files.
  bool has_bus = false;           // the PCI bus can be seen
  std::vector<std::string> bus;   // GPUs of NVIDIA on it: "0000:06:00.0"
  std::vector<DeviceNode> nodes;  // /dev/nvidia*
  std::string module;             // version of the kernel module; empty: not loaded, or not visible
  bool nouveau = false, wsl = false, container = false;
  bool has_switches = false, fabric_manager = false;  // NVSwitches; the process that sets them up
  int64_t shm = 0;                                    // bytes of /dev/shm; 0: unknown, or no limit of its own
  int64_t memlock = 0;                                // bytes; 0: unknown, or no limit
  std::vector<std::string> missing_cpu_features;
  int landlock = 0;
  std::map<std::string, std::string, std::less<>> environment;  // of the target process, else our own
  DriverLibrary libcuda;
  std::string libnvml;
  Toolkit toolkit;
  std::string missing_own_library;  // of the virtual device
  std::optional<SubjectFile> subject;
  std::optional<RunningProcess> process;
  // Asked.
  DriverProbe driver, virtual_driver;
  NvmlProbe nvml;

  bool has_node(std::string_view path) const;
  // Whether anything shows that there is a GPU.
  bool shows_gpu() const;
};

Facts gather(const Machine& machine, const Target& target, Depth depth);

// Parts of it.
void read_files(const Machine& machine, Facts& facts);
void read_libraries(const Machine& machine, Facts& facts);
SubjectFile read_subject(const Machine& machine, const std::string& path);
RunningProcess read_process(const Machine& machine, int pid);

// The first folder of `folders` under the machine's root that holds `name`.
std::string find_in(const Machine& machine, const std::vector<std::string>& folders, const std::string& name);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace assay::doctor
