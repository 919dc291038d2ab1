// The questions to libcuda, by its own C interface: this program is built without CUDA's headers. Assay's virtual
// device is asked the same questions through its own libcuda.
#include <dlfcn.h>
#include <fmt/format.h>

#include "doctor/canary.h"
#include "doctor/probe.h"

namespace assay::doctor {

namespace {

constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
constexpr int kNoBinary = 209, kUnsupportedPtx = 222, kNotFound = 500;
constexpr int kMostDevices = 64;
constexpr std::size_t kMostContainers = 64;  // of a subject; compiling one takes milliseconds and more

class DriverQuestions {
 public:
  DriverQuestions(const ProbeWriter& out, void* library) : out_(out), library_(library) {}

  // The result of a call; a function that the library does not have is CUDA_ERROR_NOT_FOUND.
  template <class... Values>
  int call(const char* name, Values... values) {
    out_.step(name);
    last_ = name;
    const auto function = reinterpret_cast<int (*)(Values...)>(dlsym(library_, name));
    return function ? function(values...) : kNotFound;
  }
  const char* last() const { return last_; }

 private:
  const ProbeWriter& out_;
  void* library_;
  const char* last_ = "";
};

void describe_device(DriverQuestions& ask, const ProbeWriter& out, int index, int device) {
  char name[256] = "", pci[32] = "";
  int major = 0, minor = 0;
  std::size_t bytes = 0;
  ask.call("cuDeviceGetName", name, static_cast<int>(sizeof name), device);
  ask.call("cuDeviceGetAttribute", &major, kMajor, device);
  ask.call("cuDeviceGetAttribute", &minor, kMinor, device);
  ask.call("cuDeviceTotalMem_v2", &bytes, device);
  ask.call("cuDeviceGetPCIBusId", pci, static_cast<int>(sizeof pci), device);
  out.write({{"device", index},
             {"name", name},
             {"pci", pci},
             {"major", major},
             {"minor", minor},
             {"bytes", bytes}});
}

// The result of the first call that failed; 0: the kernel ran and `results` holds what it wrote.
int run_canary(DriverQuestions& ask, int device, std::vector<uint64_t>& results) {
  void *context = nullptr, *module = nullptr, *function = nullptr;
  unsigned long long memory = 0;
  const std::size_t bytes = results.size() * sizeof(uint64_t);
  if (int error = ask.call("cuDevicePrimaryCtxRetain", &context, device)) return error;
  if (int error = ask.call("cuCtxSetCurrent", context)) return error;
  if (int error = ask.call("cuModuleLoadData", &module, kCanaryPtx)) return error;
  if (int error = ask.call("cuModuleGetFunction", &function, module, kCanaryName)) return error;
  if (int error = ask.call("cuMemAlloc_v2", &memory, bytes)) return error;
  if (int error = ask.call("cuMemsetD8_v2", memory, static_cast<unsigned char>(0xff), bytes)) return error;
  void* parameters[] = {&memory};
  if (int error = ask.call("cuLaunchKernel", function, kCanaryBlocks, 1u, 1u, kCanaryThreads, 1u, 1u, 0u,
                           static_cast<void*>(nullptr), &parameters[0], static_cast<void**>(nullptr)))
    return error;
  if (int error = ask.call("cuCtxSynchronize")) return error;
  return ask.call("cuMemcpyDtoH_v2", static_cast<void*>(results.data()), memory, bytes);
}

ProbeJson canary_line(DriverQuestions& ask, int index, int device) {
  std::vector<uint64_t> results(kCanaryElements);
  ProbeJson line = {{"canary", index}, {"error", run_canary(ask, device, results)}};
  if (line["error"] != 0) {
    line["call"] = ask.last();
    return line;
  }
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kCanaryElements; ++i) {
    const uint64_t expected = canary_value(i);
    if (results[i] == expected) continue;
    if (wrong++ == 0) line.update({{"first_wrong", i}, {"got", results[i]}, {"expected", expected}});
  }
  line["wrong"] = wrong;
  return line;
}

}  // namespace

void ask_driver(const ProbeWriter& out, const std::string& libcuda, bool canary,
                const std::vector<std::string_view>& containers) {
  out.step("dlopen");
  void* library = dlopen(libcuda.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    out.write({{"load_error", why ? why : ""}});
    return;
  }
  DriverQuestions ask(out, library);
  int version = 0, count = 0;
  ask.call("cuDriverGetVersion", &version);
  out.write({{"version", version}});
  const int init = ask.call("cuInit", 0u);
  out.write({{"init", init}});
  if (init != 0 || ask.call("cuDeviceGetCount", &count) != 0) return;
  count = std::min(count, kMostDevices);
  std::vector<int> devices(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    ask.call("cuDeviceGet", &devices[static_cast<std::size_t>(i)], i);
    describe_device(ask, out, i, devices[static_cast<std::size_t>(i)]);
  }
  if (!canary) return;
  for (int i = 0; i < count; ++i) out.write(canary_line(ask, i, devices[static_cast<std::size_t>(i)]));
  // One that does not load proves nothing: libraries carry code for GPUs that are not there. None that loads does.
  int refused = 0;
  for (std::size_t i = 0; i < std::min(containers.size(), kMostContainers); ++i) {
    void* module = nullptr;
    const int error = ask.call("cuModuleLoadData", &module, static_cast<const void*>(containers[i].data()));
    if (error != kNoBinary && error != kUnsupportedPtx) return;
    refused = error;
  }
  out.write({{"subject_error", refused}});
}

void read_line(const ProbeJson& line, DriverProbe& probe) {
  if (line.contains("load_error")) probe.load_error = line["load_error"];
  if (line.contains("version")) probe.version = line["version"];
  if (line.contains("init")) probe.init = line["init"].get<int>();
  if (line.contains("subject_error")) probe.subject_error = line["subject_error"];
  if (line.contains("device"))
    probe.devices.push_back({.name = line["name"],
                             .pci = line["pci"],
                             .major = line["major"],
                             .minor = line["minor"],
                             .bytes = line["bytes"],
                             .canary = {}});
  if (line.contains("canary")) {
    CanaryRun run{.step = line.value("call", ""),
                  .error = line["error"],
                  .wrong = line.value("wrong", 0u),
                  .first_wrong = line.value("first_wrong", 0u),
                  .got = line.value("got", uint64_t{0}),
                  .expected = line.value("expected", uint64_t{0})};
    probe.devices.at(line["canary"].get<std::size_t>()).canary = run;
  }
}

}  // namespace assay::doctor
