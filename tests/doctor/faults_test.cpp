// Every fault, warning and open question that docs/doctor.md names, each on a machine that has it: it must be the
// first line, with its fix.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "doctor/root.h"
#include "doctor/rules.h"
#include "folders.h"

namespace assay::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Case {
  const char* name;  // of the problem
  void (*breaks)(Root& root, Target& target);
  const char* what;  // in the first line
  const char* fix;   // after it
  Depth depth = Depth::Quick;
};

void use_subject(Root& root, Target& target) {
  target.kind = Target::Kind::Library;
  target.name = root.add_subject();
}
void use_process(Root& root, Target& target, const std::string& maps) {
  target.kind = Target::Kind::Process;
  target.process = 4242;
  root.add_process(maps);
}
// The way to set an environment variable, as a function without captures.
#define SETS(name, value) [](Root& root, Target&) { root.set(name, value); }

const Case kCases[] = {
    {"gpu-not-passed",
     [](Root& root, Target&) {
       root.add_container();
       root.remove("/dev");
       root.remove(kLibraries);
     },
     "NVIDIA's driver 580.95.05", "--gpus all"},
    {"nouveau",
     [](Root& root, Target&) {
       root.remove("/dev");
       root.remove("/sys/module/nvidia");
       root.remove(kLibraries);
       root.write("/sys/module/nouveau/refcnt", "1\n");
     },
     "0000:06:00.0 is run by nouveau", "blacklist nouveau"},
    {"no-driver",
     [](Root& root, Target&) {
       root.remove("/dev");
       root.remove("/sys/module/nvidia");
       root.remove(kLibraries);
     },
     "0000:06:00.0 has no driver", "modprobe nvidia"},
    {"no-device-nodes",
     [](Root& root, Target&) {
       root.remove("/dev");
       root.set("FAKE_ERRORS", "cuInit=100");
     },
     "driver 580.95.05 is loaded, but there is no /dev/nvidiactl", "nvidia-modprobe"},
    {"no-permission",
     [](Root& root, Target&) {
       fs::permissions(root.path("/dev/nvidiactl"), fs::perms::owner_all);
       root.set("FAKE_ERRORS", "cuInit=100");
     },
     "has no permission to open /dev/nvidiactl", "group"},
    {"virtual-first",
     [](Root& root, Target&) {
       root.copy("subject.so", "/opt/assay/lib/libcuda.so.1");  // a library that needs a libcudart
       root.set("LD_LIBRARY_PATH", "/opt/assay/lib");
     },
     "/opt/assay/lib/libcuda.so.1 is Assay's virtual device", "remove /opt/assay/lib from LD_LIBRARY_PATH"},
    {"stub-driver",
     [](Root& root, Target&) {
       root.put_first("/usr/local/cuda/lib64/stubs", "libcuda.so.1");
       root.set("FAKE_ERRORS", "cuInit=34");
     },
     "/usr/local/cuda/lib64/stubs/libcuda.so.1 is the toolkit's stub",
     "remove /usr/local/cuda/lib64/stubs from LD_LIBRARY_PATH"},
    {"stub-driver",  // under another name, in a file of the loader's
     [](Root& root, Target&) {
       root.copy("cuda.so", "/opt/link/libcuda.so.1");
       root.write("/etc/ld.so.conf.d/aa.conf", "/opt/link\n");
       root.set("FAKE_ERRORS", "cuInit=34");
     },
     "/opt/link/libcuda.so.1 is the toolkit's stub",
     "remove /opt/link from /etc/ld.so.conf.d/aa.conf and run `ldconfig`"},
    {"no-libcuda", [](Root& root, Target&) { root.remove(kLibraries); }, "libcuda.so.1 is in no folder",
     "libnvidia-compute"},
    {"no-libcuda",
     [](Root& root, Target&) {
       root.add_container();
       root.remove(kLibraries);
     },
     "libcuda.so.1 is in no folder", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {"libcuda-broken",
     [](Root& root, Target&) {
       root.copy("subject.so", kLibraries + "/libcuda.so." + kDriverVersion);
       root.patch(kLibraries + "/libcuda.so." + kDriverVersion, "libcudart.so.12", "libnothere.so.1");
     },
     "cannot be loaded: libnothere.so.1", "install the driver's libraries again"},
    {"compat-shadows-driver",
     [](Root& root, Target&) {
       root.put_first("/usr/local/cuda/compat", "libcuda.so.575.57.08");
       root.set("FAKE_ERRORS", "cuInit=803");
     },
     "/usr/local/cuda/compat/libcuda.so.1 (575.57.08)", "remove /usr/local/cuda/compat from LD_LIBRARY_PATH"},
    {"compat-unsupported",
     [](Root& root, Target&) {
       root.put_first("/usr/local/cuda/compat", "libcuda.so.590.44.01");
       root.set("FAKE_ERRORS", "cuInit=804");
     },
     "only data-centre GPUs", "remove /usr/local/cuda/compat from LD_LIBRARY_PATH"},
    {"driver-upgraded",
     [](Root& root, Target&) {
       root.write("/sys/module/nvidia/version", "575.57.08\n");
       root.set("FAKE_ERRORS", "cuInit=803,nvmlInit_v2=18");
     },
     "kernel module (575.57.08) and the driver's libraries (580.95.05)", "reboot"},
    {"driver-upgraded",  // the module's version from the other file
     [](Root& root, Target&) {
       root.remove("/sys/module/nvidia");
       root.write("/proc/driver/nvidia/version",
                  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n");
       root.set("FAKE_ERRORS", "cuInit=999,nvmlInit_v2=18");
     },
     "kernel module (575.57.08)", "reboot"},
    {"fabric-not-ready",
     [](Root& root, Target&) {
       root.write("/dev/nvidia-nvswitch0", "");
       root.set("FAKE_ERRORS", "cuInit=802");
     },
     "nv-fabricmanager does not run",
     "start nvidia-fabricmanager, of exactly the driver's version (580.95.05)"},
    {"fabric-not-ready",
     [](Root& root, Target&) {
       root.write("/dev/nvidia-nvswitch0", "");
       root.write("/proc/77/comm", "nv-fabricmanage\n");
       root.set("FAKE_ERRORS", "cuInit=802");
     },
     "starting or of another version", "start nvidia-fabricmanager"},
    {"mps-unreachable",
     [](Root& root, Target&) {
       root.set("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps");
       root.set("FAKE_ERRORS", "cuInit=805");
     },
     "through /tmp/mps", "nvidia-cuda-mps-control -d"},
    {"gpu-lost", SETS("FAKE_ERRORS", "nvmlDeviceGetHandleByIndex_v2=15,cuInit=999"), "fallen off the bus",
     "Xid 79"},
    {"mig-empty",
     [](Root& root, Target&) {
       root.set("FAKE_NVML", "mig=1,instances=0");
       root.set("FAKE_ERRORS", "cuInit=100");
     },
     "is in MIG mode and has no instance", "nvidia-smi mig -cgi"},
    {"gpus-hidden",
     [](Root& root, Target&) {
       root.set("CUDA_VISIBLE_DEVICES", "-1");
       root.set("FAKE_ERRORS", "cuInit=100");
     },
     "CUDA_VISIBLE_DEVICES is \"-1\"", "unset it"},
    {"exclusive-mode",
     [](Root& root, Target&) {
       root.write("/proc/4242/comm", "train\n");
       root.set("FAKE_NVML", "mode=3,pid=4242");
     },
     "process 4242 holds it", "nvidia-smi -c 0"},
    {"exclusive-mode", SETS("FAKE_ERRORS", "cuDevicePrimaryCtxRetain=46"), "CUDA error 46", "nvidia-smi -c 0",
     Depth::Full},
    {"exclusive-mode", SETS("FAKE_NVML", "mode=2"), "`prohibited`", "nvidia-smi -c 0"},
    {"no-uvm",
     [](Root& root, Target&) {
       root.remove("/dev/nvidia-uvm");
       root.set("FAKE_ERRORS", "cuInit=999");
     },
     "no /dev/nvidia-uvm", "nvidia-modprobe -u"},
    {"driver-hangs",
     [](Root& root, Target&) {
       root.set("FAKE_HANG", "cuInit");
       root.machine.full_seconds = 1;
     },
     "cuInit has not returned", "nvidia-smi -r", Depth::Full},
    {"driver-crashes", SETS("FAKE_CRASH", "cuInit"), "dies of signal 11", "install the driver again"},
    {"driver-crashes", SETS("FAKE_EXIT", "cuInit"), "ends the process in cuInit", "install the driver again"},
    {"driver-error", SETS("FAKE_ERRORS", "cuInit=999"), "CUDA error 999 (unknown error)", "NVRM"},
    {"driver-error", SETS("FAKE_ERRORS", "cuInit=100"), "CUDA error 100 (no device)", "nvidia-smi"},
    {"no-device", SETS("FAKE_ERRORS", "cuDeviceGetCount=3"), "offers no GPU", "dmesg"},
    {"no-device",  // of a libcuda that is in no folder
     [](Root& root, Target&) {
       root.remove("/dev/nvidiactl");
       root.remove("/sys/module/nvidia");
       root.remove("/sys/bus/pci/devices/0000:06:00.0");
       root.remove(kLibraries);
     },
     "offers no GPU", "dmesg"},
    {"gpu-memory-full",
     [](Root& root, Target&) {
       root.set("FAKE_ERRORS", "cuMemAlloc_v2=2");
       root.set("FAKE_NVML", "pid=4242");
     },
     "no memory left for a small kernel (cuMemAlloc_v2)", "end the processes", Depth::Full},
    {"no-ptx-compiler", SETS("FAKE_ERRORS", "cuModuleLoadData=221"), "libnvidia-ptxjitcompiler.so.1",
     "of the same version", Depth::Full},
    {"ptx-compiler-off", SETS("FAKE_ERRORS", "cuModuleLoadData=223"), "CUDA_DISABLE_PTX_JIT", "unset it",
     Depth::Full},
    {"memory-error", SETS("FAKE_ERRORS", "cuCtxSynchronize=214"), "uncorrectable memory error",
     "nvidia-smi -r", Depth::Full},
    {"kernel-fails", SETS("FAKE_ERRORS", "cuCtxSynchronize=719"),
     "cuCtxSynchronize fails with CUDA error 719", "nvidia-smi -r", Depth::Full},
    {"wrong-bits", SETS("FAKE_WRONG", "17"), "(0000:06:00.0) computes wrong results: 1 of", "dcgmi diag",
     Depth::Full},

    {"uncorrected-errors", SETS("FAKE_NVML", "uncorrected=2"), "2 uncorrected memory errors",
     "nvidia-smi -r"},
    {"row-remap-failed", SETS("FAKE_NVML", "failed=1"), "could not replace a faulty row", "replaced"},
    {"row-remap-pending", SETS("FAKE_NVML", "pending=1"), "until its next reset", "nvidia-smi -r"},
    {"driver-too-old",
     [](Root& root, Target&) {
       root.add_toolkit(12);
       root.set("FAKE_VERSION", "12040");
     },
     "supports CUDA 12.4; the toolkit at /usr/local/cuda/bin/nvcc (13.0) needs CUDA 13",
     "update the driver to 580 or later, or install cuda-compat-13"},
    {"driver-too-old",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libcudart.so.12");
       root.patch_image(target.name, 90, true);
       root.set("FAKE_VERSION", "11080");
     },
     "supports CUDA 11.8; /srv/kernel.so needs CUDA 12", "update the driver to 525 or later"},
    {"host-compiler", [](Root& root, Target&) { root.add_toolkit(16); },
     "refuses the host compiler g++ (gcc 16)", "-ccbin g++-15"},
    {"tf32-override", SETS("NVIDIA_TF32_OVERRIDE", "1"), "NVIDIA_TF32_OVERRIDE=1", "unset it"},
    {"cpu-features",
     [](Root& root, Target&) {
       root.write("/proc/cpuinfo", "x\nflags\t: sse2 avx fma bmi1 bmi2 f16c movbe\n");
     },
     "lacks avx2", "x86-64-v3"},
    {"virtual-device", [](Root& root, Target&) { root.remove("/assay/lib/libcudart.so.13"); },
     "libcudart.so.13 is missing", "reinstall Assay"},
    {"virtual-device", SETS("OWN_CRASH", "cuInit"), "crashes in cuInit", "reinstall Assay"},
    {"virtual-device", SETS("OWN_ERRORS", "cuInit=3"), "does not start: CUDA error 3", "reinstall Assay"},
    {"virtual-device", SETS("OWN_WRONG", "5"), "computes 1 wrong", "reinstall Assay", Depth::Full},
    {"virtual-device", SETS("OWN_ERRORS", "cuModuleLoadData=218"), "cuModuleLoadData fails",
     "reinstall Assay", Depth::Full},

    {"slow-answer",
     [](Root& root, Target&) {
       root.set("FAKE_HANG", "cuInit");
       root.machine.quick_seconds = 0.3;
     },
     "the GPU's driver has not answered", "without --quick"},

    {"ecc-off", SETS("FAKE_NVML", "ecc=0"), "without ECC", "nvidia-smi -e 1"},
    {"mig-slice", SETS("FAKE_NVML", "mig=1,instances=2"), "divided by MIG", "certify kernels on the slice"},
    {"persistence-off", SETS("FAKE_NVML", "persistence=0"), "persistence mode is off", "nvidia-smi -pm 1"},
    {"throttled", SETS("FAKE_NVML", "throttle=64"), "temperature (hardware)", "cooling"},
    {"memory-held", SETS("FAKE_NVML", "used=100,pid=4242"), "100.0 GiB of the 150.0 GiB",
     "end the processes"},
    {"nvml-fails", SETS("FAKE_ERRORS", "nvmlInit_v2=999"), "NVML error 999", "all of one version"},
    {"nvml-fails", SETS("FAKE_CRASH", "nvmlDeviceGetName"), "it crashes in nvmlDeviceGetName",
     "all of one version"},
    {"launch-blocking", SETS("CUDA_LAUNCH_BLOCKING", "1"), "every launch waits", "unset it"},
    {"injected-library", SETS("CUDA_INJECTION64_PATH", "/opt/x.so"), "CUDA_INJECTION64_PATH=/opt/x.so",
     "unset it"},
    {"small-memlock", [](Root& root, Target&) { root.write("/proc/self/limits", Root::limits("65536")); },
     "may lock 64 KiB", "--ulimit memlock=-1"},
    {"small-shm",
     [](Root& root, Target&) {
       root.write("/proc/mounts", "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0\n");
     },
     "/dev/shm has 64 MiB", "--shm-size"},
    {"no-sandbox", [](Root& root, Target&) { root.machine.landlock = 0; }, "no Landlock", "Linux 5.13"},

    {"no-image-for-gpu",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch_image(target.name, 80, true);
     },
     "/srv/kernel.so holds no code for NVIDIA H200 (sm_90), only sm_80",
     "-gencode arch=compute_90,code=sm_90"},
    {"no-image-for-gpu",  // which the driver says
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.set("FAKE_SUBJECT", "209");
     },
     "holds no code for NVIDIA H200", "-gencode", Depth::Full},
    {"ptx-too-new",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libcudart.so.12");
       root.set("FAKE_VERSION", "12040");
     },
     "holds PTX 9.0; this driver (CUDA 12.4) compiles PTX 8.4 at most", "update the driver to 580 or later"},
    {"ptx-too-new",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.set("FAKE_SUBJECT", "222");
     },
     "holds PTX 9.0", "-gencode arch=compute_90,code=sm_90", Depth::Full},
    {"contract-arch",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Contract, .name = "k.toml", .arch = "sm_90"};
       root.set("FAKE_GPUS", "NVIDIA A100=80");
     },
     "k.toml is built for sm_90, which NVIDIA A100 (sm_80) cannot run", "arch = \"sm_80\""},
    {"no-nvcc",
     [](Root&, Target& target) {
       target = {.kind = Target::Kind::Contract, .name = "k.toml", .arch = "sm_90", .is_cuda = true};
     },
     "no nvcc on PATH", "CUDA_HOME"},
    {"torch-mismatch",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch("/usr/lib/python3.11/site-packages/torch/lib/libc10.so", "_ZN3c104warnEv",
                  "_ZN3c104warnEi");
     },
     "torch 2.11.0 in /usr/lib/python3.11/site-packages/torch/lib has no c10::warn()", "rebuild it"},
    {"several-cudarts",
     [](Root& root, Target& target) {
       use_process(root, target,
                   "7f00-7f01 r-xp 00000000 08:01 11   /opt/a/libcudart.so.12.4.127\n"
                   "7f02-7f03 r--p 00000000 08:01 11   /opt/a/libcudart.so.12.4.127\n"
                   "7f04-7f05 r-xp 00000000 08:01 12   /opt/b/libcudart.so.13\n"
                   "7f06-7f07 r-xp 00000000 08:01 13   /srv/other.so\n");
       root.copy("subject.so", "/srv/other.so");
     },
     "process 4242 (python) has 2 CUDA runtimes", "keep one"},
    {"mixed-cudnn",
     [](Root& root, Target& target) {
       use_process(root, target,
                   "7f00-7f01 r-xp 00000000 08:01 11   /opt/a/libcudnn.so.9\n"
                   "7f04-7f05 r-xp 00000000 08:01 12   /opt/b/libcudnn_graph.so.9\n");
     },
     "parts of cuDNN from /opt/a and /opt/b", "keep one origin"},
    {"unreadable-file",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Library, .name = "/srv/notes.txt"};
       root.write("/srv/notes.txt", "no library");
     },
     "this is not an ELF file", "shared library"},
    {"unreadable-process",
     [](Root&, Target& target) { target = {.kind = Target::Kind::Process, .process = 999}; },
     "process 999 cannot be inspected", "as root"},
    {"no-device-code",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Library, .name = "/srv/host.so"};
       root.copy("torch.so", "/srv/host.so");
     },
     "holds no device code", "nvcc linked"},
    {"static-cudart",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libmyhelp.so.13");
     },
     "has the CUDA runtime linked into it", "-cudart shared"},
    {"other-cudart",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libcudart.so.12");
     },
     "needs libcudart.so.12", "CUDA 13"},
    {"no-ptx",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch_image(target.name, 90, true);
     },
     "machine code only (sm_90)", "compute_90"},
    {"no-line-info",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "\t.loc 1 1 1", "// no lines");
     },
     "without line numbers", "-lineinfo"},
};

// The same without a GPU. What runs on a GPU only then runs nowhere; a driver's library that hangs or crashes still does.
const Case kWithoutGpu[] = {
    {"driver-hangs",
     [](Root& root, Target&) {
       root.put_first("/opt/left-over", "libcuda.so.1");
       root.set("FAKE_HANG", "cuInit");
       root.machine.full_seconds = 1;
     },
     "cuInit of /opt/left-over/libcuda.so.1 has not returned after 1 s, and there is no GPU",
     "remove /opt/left-over from LD_LIBRARY_PATH", Depth::Full},
    {"driver-crashes",
     [](Root& root, Target&) {
       root.put_first("/opt/left-over", "libcuda.so.1");
       root.set("FAKE_CRASH", "cuInit");
     },
     "/opt/left-over/libcuda.so.1 dies of signal 11 (Segmentation fault) in cuInit",
     "remove /opt/left-over from LD_LIBRARY_PATH"},
    {"static-cudart",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libmyhelp.so.13");
     },
     "so it runs on a GPU only, and there is no GPU", "-cudart shared"},
    {"other-cudart",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch(target.name, "libcudart.so.13", "libcudart.so.12");
     },
     "the virtual device is a libcudart.so.13, and there is no GPU", "CUDA 13"},
    {"no-ptx",
     [](Root& root, Target& target) {
       use_subject(root, target);
       root.patch_image(target.name, 90, true);
     },
     "which the virtual device cannot run, and there is no GPU", "compute_90"},
};

class Faults : public ::testing::TestWithParam<Case> {};

void expect_first_line(Root& root, const Case& broken) {
  Target target;
  broken.breaks(root, target);
  const Diagnosis found = diagnose(root.machine, target, broken.depth);
  const std::string text = terminal(found), first = text.substr(0, text.find('\n'));
  ASSERT_FALSE(found.problems.empty()) << text;
  EXPECT_EQ(found.problems.front().name, broken.name) << text;
  EXPECT_THAT(first, HasSubstr(std::string("  ") + broken.name + ": "));
  EXPECT_THAT(first, HasSubstr(broken.what));
  EXPECT_THAT(first.substr(std::min(first.find("Fix: "), first.size())), HasSubstr(broken.fix)) << text;
  const Severity severity = found.problems.front().severity;
  EXPECT_EQ(exit_status(found), severity == Severity::Fault       ? 1
                                : severity == Severity::Undecided ? 3
                                                                  : 0)
      << text;
}

TEST_P(Faults, IsTheFirstLine) {
  Root root;
  expect_first_line(root, GetParam());
}

TEST(FaultsWithoutGpu, AreTheFirstLine) {
  for (const Case& broken : kWithoutGpu) {
    SCOPED_TRACE(broken.name);
    Root root;
    root.remove_gpu();
    expect_first_line(root, broken);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Faults, ::testing::ValuesIn(kCases), [](const auto& one) {
  return std::regex_replace(std::string(one.param.name), std::regex("-"), "_") + "_" +
         std::to_string(one.index);
});

TEST(FaultsTable, HasACaseAndADescriptionOfEveryRule) {
  std::set<std::string> tried;
  for (const Case& one : kCases) tried.insert(one.name);
  Facts no_child;  // no test takes all processes from its machine
  no_child.driver.run.end = ProbeEnd::NotStarted;
  for (const Problem& problem : judge(no_child)) tried.insert(problem.name);
  const std::string page = text_of(std::string(kSourceFolder) + "/docs/doctor.md");
  std::size_t faults = 0;
  for (const auto rules : {gpu_rules(), state_rules(), subject_rules()})
    for (const Rule& rule : rules) {
      EXPECT_TRUE(tried.contains(std::string(rule.name))) << rule.name;
      EXPECT_THAT(page, HasSubstr("| `" + std::string(rule.name) + "` |"));
      faults += rule.severity == Severity::Fault;
    }
  EXPECT_GE(faults, 20u);
}

}  // namespace
}  // namespace assay::doctor
