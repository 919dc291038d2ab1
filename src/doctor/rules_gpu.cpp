#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "doctor/rules.h"

namespace assay::doctor {

namespace {

using Judged = std::optional<Advice>;

constexpr int kStub = 34, kUnavailable = 46, kNoDevice = 100, kUncorrectable = 214, kNoJit = 221,
              kJitDisabled = 223;
constexpr int kOutOfMemory = 2, kNotReady = 802, kMismatch = 803, kNoForward = 804;
constexpr int kMpsFirst = 805, kMpsLast = 809;
constexpr int kNvmlMismatch = 18;

std::string value_in(const Facts& facts, std::string_view name) {
  const auto found = facts.environment.find(name);
  return found == facts.environment.end() ? "" : found->second;
}

// ---- nothing that could be asked

bool has_control_node(const Facts& facts) {
  return facts.has_node("/dev/nvidiactl") || facts.wsl;
}

Judged not_passed(const Facts& facts) {
  if (facts.driver.answers() || has_control_node(facts) || !facts.container) return {};
  return Advice{fmt::format("the host has {}, but this container has no /dev/nvidiactl",
                            facts.module.empty() ? "an NVIDIA GPU" : "NVIDIA's driver " + facts.module),
                "start the container with `--gpus all` (NVIDIA Container Toolkit)"};
}

Judged nouveau(const Facts& facts) {
  if (facts.driver.answers() || has_control_node(facts) || !facts.nouveau || !facts.module.empty()) return {};
  return Advice{fmt::format("the GPU {} is run by nouveau, which has no CUDA", fmt::join(facts.bus, ", ")),
                "install NVIDIA's driver, blacklist nouveau and reboot"};
}

Judged no_driver(const Facts& facts) {
  if (facts.driver.answers() || has_control_node(facts) || !facts.module.empty() || facts.bus.empty())
    return {};
  return Advice{fmt::format("the GPU {} has no driver: the kernel module `nvidia` is not loaded",
                            fmt::join(facts.bus, ", ")),
                "install NVIDIA's driver, or load it with `modprobe nvidia`"};
}

Judged no_nodes(const Facts& facts) {
  if (facts.driver.answers() || has_control_node(facts) || facts.module.empty()) return {};
  return Advice{fmt::format("the driver {} is loaded, but there is no /dev/nvidiactl", facts.module),
                "run `nvidia-modprobe -c 0 -u` as root"};
}

Judged no_permission(const Facts& facts) {
  if (facts.driver.answers()) return {};
  std::vector<std::string> closed;
  for (const DeviceNode& node : facts.nodes)
    if (!node.is_usable && !node.path.starts_with("/dev/nvidia-")) closed.push_back(node.path);
  if (closed.empty()) return {};
  return Advice{fmt::format("this user has no permission to open {}", fmt::join(closed, ", ")),
                "add the user to the group that owns it (often `video`), or `chmod 666` it"};
}

// ---- the wrong library

std::string remove_from_path(const DriverLibrary& library) {
  if (library.found_by.empty()) return fmt::format("remove {}", library.path);
  return fmt::format("remove {} from {}{}", library.folder, library.found_by,
                     library.found_by.starts_with('/') ? " and run `ldconfig`" : "");
}

Judged own_driver(const Facts& facts) {
  if (!facts.libcuda.is_own) return {};
  return Advice{fmt::format("{} is Assay's virtual device; programs would use it instead of the GPU",
                            facts.libcuda.path),
                remove_from_path(facts.libcuda)};
}

Judged stub(const Facts& facts) {
  if (facts.driver.answers() || (!facts.libcuda.is_stub && facts.driver.init != kStub)) return {};
  return Advice{
      fmt::format("{} is the toolkit's stub for linking, not the driver's library", facts.libcuda.path),
      remove_from_path(facts.libcuda)};
}

Judged no_libcuda(const Facts& facts) {
  if (!facts.libcuda.path.empty() || facts.driver.answers() || !has_control_node(facts)) return {};
  return Advice{"the kernel module is there, but libcuda.so.1 is in no folder that the loader searches",
                facts.container ? "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                                : "install the driver's libraries (Debian: libcuda1; Ubuntu: "
                                  "libnvidia-compute), or run `ldconfig`"};
}

Judged cannot_load(const Facts& facts) {
  if (facts.driver.load_error.empty()) return {};
  return Advice{fmt::format("{} cannot be loaded: {}", facts.libcuda.path, facts.driver.load_error),
                "install the driver's libraries again, all of one version"};
}

Judged compat_over_newer(const Facts& facts) {
  if (facts.driver.init != kMismatch || !facts.libcuda.is_compat) return {};
  return Advice{
      fmt::format("{} ({}) is a compatibility library that does not fit the driver{}; {}", facts.libcuda.path,
                  facts.libcuda.version.empty() ? "of unknown version" : facts.libcuda.version,
                  facts.module.empty() ? "" : " " + facts.module, error_text(kMismatch)),
      remove_from_path(facts.libcuda)};
}

Judged compat_unsupported(const Facts& facts) {
  if (facts.driver.init != kNoForward) return {};
  const bool known = facts.libcuda.is_compat;
  return Advice{fmt::format("{}{}: this GPU takes no compatibility library (only data-centre GPUs do); {}",
                            facts.libcuda.path, known ? "" : " acts as a compatibility library",
                            error_text(kNoForward)),
                known ? remove_from_path(facts.libcuda) : "remove cuda-compat, or update the driver"};
}

Judged upgraded(const Facts& facts) {
  if (facts.driver.answers()) return {};
  const std::string& library = facts.libcuda.version;
  const bool differ =
      !facts.module.empty() && !library.empty() && !facts.libcuda.is_compat && facts.module != library;
  if (!differ && facts.nvml.init != kNvmlMismatch && facts.driver.init != kMismatch) return {};
  std::vector<std::string> details;
  if (facts.nvml.init == kNvmlMismatch) details.emplace_back("NVML: driver/library version mismatch");
  return Advice{
      fmt::format("the loaded kernel module ({}) and the driver's libraries ({}) are of different versions: "
                  "the driver was upgraded since the machine started",
                  facts.module.empty() ? "version unknown" : facts.module,
                  library.empty() ? "version unknown" : library),
      facts.container ? "restart the container, or reboot the host"
                      : "reboot, or unload and load the module `nvidia`",
      details};
}

// ---- what cuInit said

Judged fabric(const Facts& facts) {
  if (facts.driver.init != kNotReady) return {};
  const char* state = !facts.has_switches ? ""
                      : facts.fabric_manager
                          ? "; nv-fabricmanager runs, so it is starting or of another version"
                          : "; nv-fabricmanager does not run";
  return Advice{fmt::format("the NVLink fabric is not set up{}; {}", state, error_text(kNotReady)),
                fmt::format("start nvidia-fabricmanager, of exactly the driver's version{}",
                            facts.module.empty() ? "" : " (" + facts.module + ")")};
}

Judged mps(const Facts& facts) {
  const int init = facts.driver.init.value_or(0);
  if (init < kMpsFirst || init > kMpsLast) return {};
  const std::string pipe = value_in(facts, "CUDA_MPS_PIPE_DIRECTORY");
  return Advice{fmt::format("the MPS server cannot be used{}; {}", pipe.empty() ? "" : " through " + pipe,
                            error_text(init)),
                "start it with `nvidia-cuda-mps-control -d`, or unset CUDA_MPS_PIPE_DIRECTORY"};
}

Judged lost(const Facts& facts) {
  if (!std::ranges::any_of(facts.nvml.devices, &NvmlDevice::is_lost)) return {};
  return Advice{"a GPU has fallen off the bus", "look for Xid 79 in `dmesg`, then power-cycle the machine"};
}

Judged mig_empty(const Facts& facts) {
  if (facts.driver.answers()) return {};
  for (const NvmlDevice& device : facts.nvml.devices)
    if (device.mig && device.mig_instances == 0)
      return Advice{
          fmt::format("{} is in MIG mode and has no instance, so there is nothing to run on", device.name),
          "create one with `nvidia-smi mig -cgi PROFILE -C`, or leave MIG mode with `nvidia-smi -mig 0`"};
  return {};
}

Judged hidden(const Facts& facts) {
  if (facts.driver.init != kNoDevice && !(facts.driver.init == 0 && facts.driver.devices.empty())) return {};
  const auto found = facts.environment.find("CUDA_VISIBLE_DEVICES");
  if (found == facts.environment.end()) return {};
  return Advice{fmt::format("CUDA_VISIBLE_DEVICES is \"{}\", which hides every GPU", found->second),
                "unset it, or name a GPU that is there: `nvidia-smi -L` lists them"};
}

Judged no_uvm(const Facts& facts) {
  if (facts.driver.init.value_or(0) == 0 || facts.wsl || facts.has_node("/dev/nvidia-uvm")) return {};
  return Advice{fmt::format("there is no /dev/nvidia-uvm; {}", error_text(*facts.driver.init)),
                facts.container ? "pass it into the container: `--gpus all` does"
                                : "run `nvidia-modprobe -u -c 0` as root"};
}

// A libcuda that hangs or crashes does so to every program that looks for a GPU, whether or not there is one.
Judged hung(const Facts& facts) {
  if (facts.driver.run.end != ProbeEnd::TimedOut || facts.depth == Depth::Quick) return {};
  if (!facts.shows_gpu())
    return Advice{fmt::format("{} of {} has not returned after {:.0f} s, and there is no GPU",
                              facts.driver.run.step, facts.libcuda.path, facts.driver.run.seconds),
                  remove_from_path(facts.libcuda)};
  return Advice{
      fmt::format("{} has not returned after {:.0f} s", facts.driver.run.step, facts.driver.run.seconds),
      "look for Xid errors in `dmesg` and reset the GPU (`nvidia-smi -r`); if it only starts slowly, "
      "`nvidia-smi -pm 1` keeps it initialised"};
}

Judged crashed(const Facts& facts) {
  if (facts.driver.run.end != ProbeEnd::Died) return {};
  const std::string how = facts.driver.run.signal == 0
                              ? "ends the process"
                              : fmt::format("dies of signal {} ({})", facts.driver.run.signal,
                                            strsignal(facts.driver.run.signal));
  return Advice{fmt::format("{} {} in {}", facts.libcuda.path, how, facts.driver.run.step),
                facts.shows_gpu() ? "install the driver again, with libraries and module of one version"
                                  : remove_from_path(facts.libcuda)};
}

Judged refused(const Facts& facts) {
  const int init = facts.driver.init.value_or(0);
  if (init == 0) return {};
  return Advice{fmt::format("cuInit fails: {}", error_text(init)),
                init == kNoDevice ? "`nvidia-smi` and `dmesg` say why the driver offers no GPU"
                                  : "look for `NVRM` in `dmesg`; reload the driver or reboot"};
}

Judged no_device(const Facts& facts) {
  const ProbeEnd end = facts.driver.run.end;
  if (facts.driver.answers() || end == ProbeEnd::TimedOut || end == ProbeEnd::NotStarted) return {};
  return Advice{"the driver offers no GPU", "`nvidia-smi` and `dmesg` say why"};
}

// ---- what became of the canary kernel

const DriverDevice* first_failed(const Facts& facts, int error) {
  for (const DriverDevice& device : facts.driver.devices)
    if (device.canary && device.canary->error != 0 && (error == 0 || device.canary->error == error))
      return &device;
  return nullptr;
}

std::vector<std::string> holders(const NvmlDevice& device) {
  std::vector<std::string> lines;
  for (const GpuProcess& process : device.processes)
    lines.push_back(fmt::format("process {}{} holds {}", process.pid,
                                process.name.empty() ? "" : " (" + process.name + ")",
                                bytes_text(process.bytes)));
  return lines;
}

bool under_mps(const Facts& facts) {
  return facts.environment.contains("CUDA_MPS_PIPE_DIRECTORY");
}

Judged exclusive(const Facts& facts) {
  constexpr int kProhibited = 2, kDefault = 0;
  const bool failed = first_failed(facts, kUnavailable) || facts.driver.init == kUnavailable;
  for (const NvmlDevice& device : facts.nvml.devices) {
    if (device.compute_mode == kProhibited)
      return Advice{fmt::format("{} is in compute mode `prohibited`: no program may use it", device.name),
                    "run `nvidia-smi -c 0` as root"};
    if (device.compute_mode == kDefault || (device.processes.empty() && !failed) ||
        (under_mps(facts) && !failed))
      continue;
    const std::string holder = device.processes.empty()
                                   ? "another process"
                                   : fmt::format("process {}", device.processes.front().pid);
    return Advice{fmt::format("{} is in an exclusive compute mode and {} holds it", device.name, holder),
                  "end that process, run `nvidia-smi -c 0` as root, or share the GPU through MPS",
                  holders(device)};
  }
  if (!failed) return {};
  return Advice{fmt::format("the GPU is held by another process in an exclusive compute mode; {}",
                            error_text(kUnavailable)),
                "end that process, run `nvidia-smi -c 0` as root, or share the GPU through MPS"};
}

Judged full(const Facts& facts) {
  const DriverDevice* device = first_failed(facts, kOutOfMemory);
  if (!device) return {};
  Advice words{
      fmt::format("{} has no memory left for a small kernel ({})", device->name, device->canary->step),
      "end the processes that hold it: `nvidia-smi` lists them"};
  for (const NvmlDevice& other : facts.nvml.devices)
    for (std::string& line : holders(other)) words.details.push_back(std::move(line));
  return words;
}

Judged no_jit(const Facts& facts) {
  if (!first_failed(facts, kNoJit)) return {};
  return Advice{"the driver finds no compiler for PTX (libnvidia-ptxjitcompiler.so.1)",
                facts.container ? "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                                : "install the driver's package that holds it, of the same version"};
}

Judged jit_disabled(const Facts& facts) {
  if (!first_failed(facts, kJitDisabled)) return {};
  return Advice{"CUDA_DISABLE_PTX_JIT keeps the driver from compiling PTX", "unset it"};
}

Judged ecc_stop(const Facts& facts) {
  const DriverDevice* device = first_failed(facts, kUncorrectable);
  if (!device) return {};
  return Advice{fmt::format("{} stops with an uncorrectable memory error", device->name),
                "reset the GPU (`nvidia-smi -r`); if it comes back, replace it"};
}

Judged canary_failed(const Facts& facts) {
  const DriverDevice* device = first_failed(facts, 0);
  if (!device) return {};
  return Advice{fmt::format("{} cannot run a kernel: {} fails with {}", device->name, device->canary->step,
                            error_text(device->canary->error)),
                "look for Xid errors in `dmesg` and reset the GPU (`nvidia-smi -r`)"};
}

Judged wrong_bits(const Facts& facts) {
  for (const DriverDevice& device : facts.driver.devices)
    if (device.canary && device.canary->wrong > 0)
      return Advice{fmt::format("{} ({}) computes wrong results: {} of a kernel with known results",
                                device.name, device.pci, device.canary->wrong),
                    "take it out of use and run `dcgmi diag -r 3`",
                    {fmt::format("element {}: {:#018x} instead of {:#018x}", device.canary->first_wrong,
                                 device.canary->got, device.canary->expected)}};
  return {};
}

// By cause: a rule may assume that those before it did not fire.
constexpr Rule kGpuRules[] = {
    {"gpu-not-passed", Severity::Fault, Needs::Gpu, not_passed},
    {"nouveau", Severity::Fault, Needs::Gpu, nouveau},
    {"no-driver", Severity::Fault, Needs::Gpu, no_driver},
    {"no-device-nodes", Severity::Fault, Needs::Gpu, no_nodes},
    {"no-permission", Severity::Fault, Needs::Gpu, no_permission},
    {"virtual-first", Severity::Fault, Needs::Gpu, own_driver},
    {"stub-driver", Severity::Fault, Needs::Gpu, stub},
    {"no-libcuda", Severity::Fault, Needs::Gpu, no_libcuda},
    {"libcuda-broken", Severity::Fault, Needs::Gpu, cannot_load},
    {"compat-shadows-driver", Severity::Fault, Needs::Gpu, compat_over_newer},
    {"compat-unsupported", Severity::Fault, Needs::Gpu, compat_unsupported},
    {"driver-upgraded", Severity::Fault, Needs::Gpu, upgraded},
    {"fabric-not-ready", Severity::Fault, Needs::Gpu, fabric},
    {"mps-unreachable", Severity::Fault, Needs::Gpu, mps},
    {"gpu-lost", Severity::Fault, Needs::Nvml, lost},
    {"mig-empty", Severity::Fault, Needs::Gpu, mig_empty},
    {"gpus-hidden", Severity::Fault, Needs::Gpu, hidden},
    {"exclusive-mode", Severity::Fault, Needs::Gpu, exclusive},
    {"no-uvm", Severity::Fault, Needs::Gpu, no_uvm},
    {"driver-hangs", Severity::Fault, Needs::Nothing, hung},
    {"driver-crashes", Severity::Fault, Needs::Nothing, crashed},
    {"driver-error", Severity::Fault, Needs::Gpu, refused},
    {"no-device", Severity::Fault, Needs::Gpu, no_device},
    {"gpu-memory-full", Severity::Fault, Needs::Kernel, full},
    {"no-ptx-compiler", Severity::Fault, Needs::Kernel, no_jit},
    {"ptx-compiler-off", Severity::Fault, Needs::Kernel, jit_disabled},
    {"memory-error", Severity::Fault, Needs::Kernel, ecc_stop},
    {"kernel-fails", Severity::Fault, Needs::Kernel, canary_failed},
    {"wrong-bits", Severity::Fault, Needs::Kernel, wrong_bits},
};

}  // namespace

std::span<const Rule> gpu_rules() {
  return kGpuRules;
}

}  // namespace assay::doctor
