#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "doctor/rules.h"

namespace assay::doctor {

namespace {

using Judged = std::optional<Advice>;

// ---- of the GPU

template <class Condition>
const NvmlDevice* device_with(const Facts& facts, Condition condition) {
  const auto found = std::ranges::find_if(facts.nvml.devices, condition);
  return found == facts.nvml.devices.end() ? nullptr : &*found;
}

Judged uncorrected(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, [](const NvmlDevice& one) { return one.uncorrected > 0; });
  if (!device) return {};
  return Advice{fmt::format("{} had {} uncorrected memory error{} since the driver was loaded", device->name,
                            device->uncorrected, device->uncorrected == 1 ? "" : "s"),
                "drain it and reset it (`nvidia-smi -r`); results of programs that ran then are suspect"};
}

Judged remap_failed(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, &NvmlDevice::remap_failed);
  if (!device) return {};
  return Advice{fmt::format("{} could not replace a faulty row of its memory", device->name),
                "take it out of use and have it replaced"};
}

Judged remap_pending(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, &NvmlDevice::remap_pending);
  if (!device) return {};
  return Advice{fmt::format("{} still uses a faulty row of its memory until its next reset", device->name),
                "drain it and reset it (`nvidia-smi -r`)"};
}

Judged ecc_off(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, [](const NvmlDevice& one) { return one.ecc == false; });
  if (!device) return {};
  return Advice{fmt::format("{} runs without ECC: a flipped bit in its memory goes unnoticed", device->name),
                "enable it with `nvidia-smi -e 1` and reboot"};
}

Judged slice(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, [](const NvmlDevice& one) { return one.mig_instances > 0; });
  if (!device) return {};
  return Advice{
      fmt::format("{} is divided by MIG: a program sees a slice with fewer multiprocessors and less memory",
                  device->name),
      "certify kernels on the slice that they run on, or leave MIG mode with `nvidia-smi -mig 0`"};
}

Judged not_persistent(const Facts& facts) {
  const NvmlDevice* device = device_with(facts, [](const NvmlDevice& one) { return !one.persistence; });
  if (!device) return {};
  return Advice{
      fmt::format("{} is initialised again for each program: persistence mode is off", device->name),
      "run `nvidia-smi -pm 1` as root; until then starts are slow and timings vary"};
}

Judged throttled(const Facts& facts) {
  struct Reason {
    uint64_t bit;
    const char* name;
  };
  // The power cap in software (4) is left out: it is normal under load.
  constexpr Reason kReasons[] = {{0x08, "hardware slowdown"},
                                 {0x20, "temperature"},
                                 {0x40, "temperature (hardware)"},
                                 {0x80, "power brake"}};
  for (const NvmlDevice& device : facts.nvml.devices) {
    std::vector<std::string> reasons;
    for (const Reason& reason : kReasons)
      if (device.throttle & reason.bit) reasons.emplace_back(reason.name);
    if (!reasons.empty())
      return Advice{fmt::format("{} runs at reduced clocks: {}", device.name, fmt::join(reasons, ", ")),
                    "check cooling and power; timings are unreliable until then"};
  }
  return {};
}

Judged memory_held(const Facts& facts) {
  // What a display and idle contexts take is less, and leaves room for large shapes.
  constexpr double kMuch = 0.25;
  const NvmlDevice* device = device_with(facts, [](const NvmlDevice& one) {
    return static_cast<double>(one.used) > kMuch * static_cast<double>(one.bytes);
  });
  if (!device) return {};
  Advice words{fmt::format("{} of the {} of {} are in use", bytes_text(device->used),
                           bytes_text(device->bytes), device->name),
               "end the processes that hold it, or large shapes may be skipped"};
  for (const GpuProcess& process : device->processes)
    words.details.push_back(fmt::format("process {}{} holds {}", process.pid,
                                        process.name.empty() ? "" : " (" + process.name + ")",
                                        bytes_text(process.bytes)));
  return words;
}

Judged nvml_fails(const Facts& facts) {
  const NvmlProbe& nvml = facts.nvml;
  const bool silent =
      nvml.run.end == ProbeEnd::Died || (nvml.run.end == ProbeEnd::TimedOut && facts.depth == Depth::Full);
  if (!facts.driver.answers() || (!silent && nvml.load_error.empty() && nvml.init.value_or(0) == 0))
    return {};
  const std::string how =
      !nvml.load_error.empty() ? nvml.load_error
      : silent
          ? fmt::format("it {} in {}", nvml.run.end == ProbeEnd::Died ? "crashes" : "hangs", nvml.run.step)
          : fmt::format("NVML error {}", *nvml.init);
  return Advice{fmt::format("{} does not work ({}): memory errors, clocks and memory use are unknown",
                            facts.libnvml, how),
                "install the driver's libraries again, all of one version"};
}

// ---- of the driver beside the toolkit

// The major version of the runtime that the target or the toolkit uses, and who says so.
std::pair<int, std::string> runtime_wanted(const Facts& facts) {
  constexpr std::string_view kName = "libcudart.so.";
  if (facts.subject)
    for (const std::string& name : facts.subject->needed)
      if (name.starts_with(kName)) return {std::atoi(name.c_str() + kName.size()), facts.subject->path};
  if (facts.toolkit.version == 0) return {0, ""};
  return {facts.toolkit.version / 1000,
          fmt::format("the toolkit at {} ({})", facts.toolkit.nvcc, version_text(facts.toolkit.version))};
}

Judged too_old(const Facts& facts) {
  const auto [major, who] = runtime_wanted(facts);
  if (!facts.driver.answers() || facts.driver.version == 0 || facts.driver.version / 1000 >= major) return {};
  const auto found = std::ranges::find_if(
      releases(), [&, wanted = major](const CudaRelease& release) { return release.cuda / 1000 == wanted; });
  return Advice{
      fmt::format("the driver{} supports CUDA {}; {} needs CUDA {}",
                  facts.module.empty() ? "" : " " + facts.module, version_text(facts.driver.version), who,
                  major),
      found == releases().end()
          ? "update the driver"
          : fmt::format("update the driver to {} or later, or install cuda-compat-{} on a data-centre GPU",
                        found->driver, major)};
}

Judged compiler_refused(const Facts& facts) {
  const Toolkit& toolkit = facts.toolkit;
  const auto flags = facts.environment.find("NVCC_APPEND_FLAGS");
  if (flags != facts.environment.end() &&
      flags->second.find("-allow-unsupported-compiler") != std::string::npos)
    return {};
  if (toolkit.newest_gcc == 0 || toolkit.gcc <= toolkit.newest_gcc) return {};
  return Advice{
      fmt::format("nvcc {} refuses the host compiler {} (gcc {}): it takes gcc {} at most",
                  toolkit.version == 0 ? "" : version_text(toolkit.version), toolkit.host_compiler,
                  toolkit.gcc, toolkit.newest_gcc),
      fmt::format("install g++-{0} and set NVCC_APPEND_FLAGS=\"-ccbin g++-{0}\"", toolkit.newest_gcc)};
}

// ---- of the host

Judged tf32(const Facts& facts) {
  const auto found = facts.environment.find("NVIDIA_TF32_OVERRIDE");
  if (found == facts.environment.end()) return {};
  return Advice{
      fmt::format("NVIDIA_TF32_OVERRIDE={} silently changes the precision of libraries", found->second),
      "unset it"};
}

Judged blocking(const Facts& facts) {
  const auto found = facts.environment.find("CUDA_LAUNCH_BLOCKING");
  if (found == facts.environment.end() || found->second == "0" || found->second.empty()) return {};
  return Advice{
      "CUDA_LAUNCH_BLOCKING is set: every launch waits, so timings are wrong and missing synchronisation "
      "goes unnoticed",
      "unset it"};
}

Judged injected(const Facts& facts) {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
    if (const auto found = facts.environment.find(name); found != facts.environment.end())
      return Advice{fmt::format("{}={} loads a library into every CUDA program", name, found->second),
                    "unset it, unless a profiler is meant to run"};
  return {};
}

Judged memlock(const Facts& facts) {
  constexpr int64_t kUsual = 8 << 20;  // the kernel's own default since Linux 5.16
  if (facts.memlock == 0 || facts.memlock >= kUsual) return {};
  return Advice{fmt::format("a process may lock {} of memory, too little for pinned buffers of RDMA and NCCL",
                            bytes_text(static_cast<uint64_t>(facts.memlock))),
                "`ulimit -l unlimited`; in a container `--ulimit memlock=-1`"};
}

Judged shm(const Facts& facts) {
  constexpr int64_t kDocker = 64 << 20;  // what Docker gives a container unless told otherwise
  if (facts.shm == 0 || facts.shm > kDocker) return {};
  return Advice{fmt::format("/dev/shm has {}, too little for data loaders and NCCL",
                            bytes_text(static_cast<uint64_t>(facts.shm))),
                "start the container with `--shm-size=8g` or `--ipc=host`"};
}

// ---- of Assay itself

Judged cpu(const Facts& facts) {
  if (facts.missing_cpu_features.empty()) return {};
  return Advice{
      fmt::format("this processor lacks {}, which the virtual device needs",
                  fmt::join(facts.missing_cpu_features, ", ")),
      "run Assay on an x86-64-v3 processor (2013 or later); a virtual machine must pass the features on"};
}

Judged virtual_device(const Facts& facts) {
  const std::string fix = "rebuild or reinstall Assay";
  if (!facts.missing_own_library.empty())
    return Advice{fmt::format("{} is missing: the virtual device cannot start", facts.missing_own_library),
                  fix};
  const DriverProbe& probe = facts.virtual_driver;
  if (!probe.load_error.empty())
    return Advice{fmt::format("the virtual device cannot be loaded: {}", probe.load_error), fix};
  if (probe.run.end == ProbeEnd::Died || (probe.run.end == ProbeEnd::TimedOut && facts.depth == Depth::Full))
    return Advice{fmt::format("the virtual device {} in {}",
                              probe.run.end == ProbeEnd::Died ? "crashes" : "hangs", probe.run.step),
                  fix};
  if (probe.init.value_or(0) != 0)
    return Advice{fmt::format("the virtual device does not start: {}", error_text(*probe.init)), fix};
  for (const DriverDevice& device : probe.devices)
    if (device.canary && (device.canary->error != 0 || device.canary->wrong != 0))
      return Advice{device.canary->error != 0
                        ? fmt::format("the virtual device cannot run a kernel: {} fails with {}",
                                      device.canary->step, error_text(device.canary->error))
                        : fmt::format("the virtual device computes {} wrong results", device.canary->wrong),
                    fix};
  return {};
}

Judged no_sandbox(const Facts& facts) {
  if (facts.landlock > 0) return {};
  return Advice{
      "the kernel has no Landlock: a kernel's host code under test could write to any file of this user",
      "use Linux 5.13 or later with Landlock enabled, or check untrusted code in a container"};
}

// ---- what was not found out

Judged slow(const Facts& facts) {
  if (facts.depth != Depth::Quick) return {};
  for (const auto& [probe, name] : {std::pair(&facts.driver.run, "the GPU's driver"),
                                    std::pair(&facts.virtual_driver.run, "the virtual device")})
    if (probe->end == ProbeEnd::TimedOut)
      return Advice{
          fmt::format("{} has not answered within {:.1f} s ({})", name, probe->seconds, probe->step),
          "run `assay doctor` without --quick"};
  return {};
}

Judged not_started(const Facts& facts) {
  for (const ProbeRun* run : {&facts.driver.run, &facts.nvml.run, &facts.virtual_driver.run})
    if (run->end == ProbeEnd::NotStarted)
      return Advice{"no child process could be started to query the driver",
                    "raise the limit of processes (`ulimit -u`) or free memory"};
  return {};
}

constexpr Rule kStateRules[] = {
    {"uncorrected-errors", Severity::Fault, Needs::Nvml, uncorrected},
    {"row-remap-failed", Severity::Fault, Needs::Nvml, remap_failed},
    {"row-remap-pending", Severity::Fault, Needs::Nvml, remap_pending},
    {"driver-too-old", Severity::Fault, Needs::Driver, too_old},
    {"host-compiler", Severity::Fault, Needs::Nothing, compiler_refused},
    {"tf32-override", Severity::Fault, Needs::Nothing, tf32},
    {"cpu-features", Severity::Fault, Needs::Nothing, cpu},
    {"virtual-device", Severity::Fault, Needs::Nothing, virtual_device},
    {"slow-answer", Severity::Undecided, Needs::Nothing, slow},
    {"no-child", Severity::Undecided, Needs::Nothing, not_started},
    {"ecc-off", Severity::Warning, Needs::Nvml, ecc_off},
    {"mig-slice", Severity::Warning, Needs::Nvml, slice},
    {"persistence-off", Severity::Warning, Needs::Nvml, not_persistent},
    {"throttled", Severity::Warning, Needs::Nvml, throttled},
    {"memory-held", Severity::Warning, Needs::Nvml, memory_held},
    {"nvml-fails", Severity::Warning, Needs::Driver, nvml_fails},
    {"launch-blocking", Severity::Warning, Needs::Nothing, blocking},
    {"injected-library", Severity::Warning, Needs::Nothing, injected},
    {"small-memlock", Severity::Warning, Needs::Nothing, memlock},
    {"small-shm", Severity::Warning, Needs::Nothing, shm},
    {"no-sandbox", Severity::Warning, Needs::Nothing, no_sandbox},
};

}  // namespace

std::span<const Rule> state_rules() {
  return kStateRules;
}

}  // namespace assay::doctor
