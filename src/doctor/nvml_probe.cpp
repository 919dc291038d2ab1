// The questions to NVML (libnvidia-ml.so.1), by its own C interface. It needs no CUDA context.
#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "doctor/probe.h"

namespace assay::doctor {

namespace {

constexpr int kSuccess = 0, kTooSmall = 7, kNoFunction = 13, kGpuLost = 15;
constexpr unsigned kMostGpus = 64;

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

class NvmlQuestions {
 public:
  NvmlQuestions(const ProbeWriter& out, void* library) : out_(out), library_(library) {}

  template <class... Values>
  int call(const char* name, Values... values) {
    out_.step(name);
    const auto function = reinterpret_cast<int (*)(Values...)>(dlsym(library_, name));
    return function ? function(values...) : kNoFunction;
  }

 private:
  const ProbeWriter& out_;
  void* library_;
};

ProbeJson processes_on(NvmlQuestions& ask, void* device) {
  std::array<NvmlProcess, 64> running{};
  unsigned count = running.size();
  const int status = ask.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, running.data());
  ProbeJson list = ProbeJson::array();
  if (status != kSuccess && status != kTooSmall) return list;
  for (unsigned i = 0; i < std::min<unsigned>(count, running.size()); ++i) {
    constexpr unsigned long long kUnknown = ~0ull;
    list.push_back({{"pid", running[i].pid}, {"bytes", running[i].bytes == kUnknown ? 0 : running[i].bytes}});
  }
  return list;
}

int instances_on(NvmlQuestions& ask, void* device) {
  unsigned most = 0;
  int found = 0;
  if (ask.call("nvmlDeviceGetMaxMigDeviceCount", device, &most) != kSuccess) return 0;
  for (unsigned i = 0; i < most; ++i) {
    void* instance = nullptr;
    if (ask.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &instance) == kSuccess) ++found;
  }
  return found;
}

// Only what this GPU can tell: the others of its answers are left out.
ProbeJson describe_device(NvmlQuestions& ask, void* device) {
  char name[256] = "";
  ProbeJson line = {{"device", ask.call("nvmlDeviceGetName", device, name, unsigned{sizeof name})},
                    {"name", name}};
  const auto number = [&](const char* key, const char* function) {
    int value = 0;
    if (ask.call(function, device, &value) == kSuccess) line[key] = value;
  };
  number("compute_mode", "nvmlDeviceGetComputeMode");
  number("persistence", "nvmlDeviceGetPersistenceMode");
  int current = 0, pending = 0;
  if (ask.call("nvmlDeviceGetEccMode", device, &current, &pending) == kSuccess) line["ecc"] = current;
  constexpr int kUncorrected = 1, kSinceStart = 0;
  unsigned long long errors = 0;
  if (ask.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceStart, &errors) == kSuccess)
    line["uncorrected"] = errors;
  unsigned corrected_rows = 0, uncorrected_rows = 0, remap_pending = 0, remap_failed = 0;
  if (ask.call("nvmlDeviceGetRemappedRows", device, &corrected_rows, &uncorrected_rows, &remap_pending,
               &remap_failed) == kSuccess)
    line.update({{"remap_pending", remap_pending}, {"remap_failed", remap_failed}});
  if (ask.call("nvmlDeviceGetMigMode", device, &current, &pending) == kSuccess && current != 0)
    line.update({{"mig", current}, {"mig_instances", instances_on(ask, device)}});
  unsigned long long reasons = 0;
  if (ask.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == kSuccess)
    line["throttle"] = reasons;
  NvmlMemory memory{};
  if (ask.call("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess)
    line.update({{"bytes", memory.total}, {"used", memory.used}});
  line["processes"] = processes_on(ask, device);
  return line;
}

}  // namespace

void ask_nvml(const ProbeWriter& out, const std::string& libnvml) {
  out.step("dlopen");
  void* library = dlopen(libnvml.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    out.write({{"load_error", why ? why : ""}});
    return;
  }
  NvmlQuestions ask(out, library);
  const int init = ask.call("nvmlInit_v2");
  out.write({{"init", init}});
  if (init != kSuccess) return;
  char driver[96] = "";
  ask.call("nvmlSystemGetDriverVersion", driver, unsigned{sizeof driver});
  out.write({{"driver", driver}});
  unsigned count = 0;
  ask.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < std::min(count, kMostGpus); ++i) {
    void* device = nullptr;
    const int status = ask.call("nvmlDeviceGetHandleByIndex_v2", i, &device);
    if (status == kSuccess)
      out.write(describe_device(ask, device));
    else if (status == kGpuLost)
      out.write({{"device", status}});
  }
}

void read_line(const ProbeJson& line, NvmlProbe& probe) {
  if (line.contains("load_error")) probe.load_error = line["load_error"];
  if (line.contains("init")) probe.init = line["init"].get<int>();
  if (line.contains("driver")) probe.driver = line["driver"];
  if (!line.contains("device")) return;
  NvmlDevice device;
  device.is_lost = line["device"] == kGpuLost;
  device.name = line.value("name", "");
  device.compute_mode = line.value("compute_mode", 0);
  device.persistence = line.value("persistence", 1) != 0;
  if (line.contains("ecc")) device.ecc = line["ecc"] != 0;
  device.uncorrected = line.value("uncorrected", uint64_t{0});
  device.remap_pending = line.value("remap_pending", 0) != 0;
  device.remap_failed = line.value("remap_failed", 0) != 0;
  device.mig = line.value("mig", 0) != 0;
  device.mig_instances = line.value("mig_instances", 0);
  device.throttle = line.value("throttle", uint64_t{0});
  device.bytes = line.value("bytes", uint64_t{0});
  device.used = line.value("used", uint64_t{0});
  for (const ProbeJson& process : line.value("processes", ProbeJson::array()))
    device.processes.push_back({.pid = process["pid"], .name = "", .bytes = process["bytes"]});
  probe.devices.push_back(std::move(device));
}

}  // namespace assay::doctor
