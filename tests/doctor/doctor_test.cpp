// Healthy machines of several kinds, what is said of them, and that asking a driver costs this process nothing.
#include "doctor/doctor.h"

#include <gmock/gmock.h>

#include <chrono>

#include "base/interrupt.h"
#include "doctor/root.h"
#include "doctor/rules.h"
#include "folders.h"
#include "report/schema.h"

namespace assay::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Healthy, IsOneLine) {
  Root root;
  for (const Depth depth : {Depth::Quick, Depth::Full}) {
    const Diagnosis found = diagnose(root.machine, {}, depth);
    EXPECT_EQ(
        terminal(found),
        "HEALTHY  NVIDIA H200 (sm_90, 150.0 GiB), driver 580.95.05, CUDA 13.0; the virtual device works\n");
    EXPECT_EQ(exit_status(found), 0);
    EXPECT_EQ(why_gpu_unusable(found), "");
  }
}

struct Healthy {
  const char* name;
  void (*change)(Root& root, Target& target);
  const char* says;
};
const Healthy kHealthy[] = {
    {"several GPUs",
     [](Root& root, Target&) { root.set("FAKE_GPUS", "NVIDIA H200=90,NVIDIA H200=90,NVIDIA L4=89"); },
     "2 × NVIDIA H200 (sm_90, 150.0 GiB), NVIDIA L4 (sm_89, 150.0 GiB), driver"},
    {"a container that shows neither the bus nor the module",
     [](Root& root, Target&) {
       root.add_container();
       root.remove("/sys");
     },
     "NVIDIA H200"},
    {"WSL: no device nodes, no module, a libcuda of its own",
     [](Root& root, Target&) {
       root.remove_gpu();
       root.write("/dev/dxg", "");
       root.copy("cuda.so", "/usr/lib/wsl/lib/libcuda.so.1");
     },
     "NVIDIA H200 (sm_90, 150.0 GiB), CUDA 13.0"},
    {"cuda-compat that works",
     [](Root& root, Target&) { root.put_first("/usr/local/cuda/compat", "libcuda.so.590.44.01"); },
     "NVIDIA H200"},
    {"a driver in a folder that only the loader's cache knows",
     [](Root& root, Target&) {
       fs::rename(root.path(kLibraries), root.path("/driver"));
       const std::string text("ld.so-1.7.0\0/lib/libc.so.6\0/driver/libcuda.so.1\0libx", 52);
       root.write("/etc/ld.so.cache", text);
     },
     "NVIDIA H200"},
    {"a toolkit that fits", [](Root& root, Target&) { root.add_toolkit(12); }, "NVIDIA H200"},
    {"a gcc that is too new, and one for nvcc",
     [](Root& root, Target&) {
       root.add_toolkit(16);
       root.write("/usr/bin/g++-15", "");
       root.set("NVCC_APPEND_FLAGS", "-ccbin g++-15");
     },
     "NVIDIA H200"},
    {"a toolkit newer than the driver, but of the same major version",
     [](Root& root, Target&) {
       root.add_toolkit(12);
       root.write("/usr/local/cuda/include/cuda_runtime_api.h", "#define CUDART_VERSION  13010\n");
     },
     "NVIDIA H200"},
    {"exclusive mode under MPS",
     [](Root& root, Target&) {
       root.set("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps");
       root.set("FAKE_NVML", "mode=3,pid=4242");
     },
     "NVIDIA H200"},
    {"exclusive mode that nobody uses", [](Root& root, Target&) { root.set("FAKE_NVML", "mode=3"); },
     "NVIDIA H200"},
    {"variables that change nothing",
     [](Root& root, Target&) {
       root.set("CUDA_LAUNCH_BLOCKING", "0");
       root.set("CUDA_VISIBLE_DEVICES", "0");
     },
     "NVIDIA H200"},
    {"power capped under load, a little memory in use",
     [](Root& root, Target&) { root.set("FAKE_NVML", "throttle=4,used=30"); }, "NVIDIA H200"},
    {"without NVML", [](Root& root, Target&) { root.remove(kLibraries + "/libnvidia-ml.so.1"); },
     "driver 580.95.05"},
    {"a library that fits",
     [](Root& root, Target& target) { target = {.kind = Target::Kind::Library, .name = root.add_subject()}; },
     "NVIDIA H200"},
    {"a library for an older GPU, as PTX",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Library, .name = root.add_subject()};
       root.patch_image(target.name, 80, false);
     },
     "NVIDIA H200"},
    {"a driver newer than every release that is known here",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Library, .name = root.add_subject()};
       root.patch(target.name, ".version 9.0", ".version 9.9");
       root.set("FAKE_VERSION", "13090");
     },
     "CUDA 13.9"},
    {"a process with one runtime",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Process, .process = 4242};
       root.add_process(
           "7f00-7f01 r-xp 0 08:01 11   /opt/a/libcudart.so.13\n7f01-7f02 r-xp 0 08:01 12   "
           "/opt/a/libcudnn.so.9\n");
       root.set("NVIDIA_TF32_OVERRIDE", "1");  // ours, not that process's
     },
     "NVIDIA H200"},
    {"a contract for this GPU",
     [](Root& root, Target& target) {
       target = {.kind = Target::Kind::Contract, .name = "k.toml", .arch = "sm_90a", .is_cuda = true};
       root.add_toolkit(12);
     },
     "NVIDIA H200"},
};

TEST(Healthy, IsNotCalledFaulty) {
  for (const struct Healthy& one : kHealthy) {
    Root root;
    Target target;
    one.change(root, target);
    const std::string text = terminal(diagnose(root.machine, target, Depth::Full));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << one.name << "\n" << text;
    EXPECT_THAT(text, HasSubstr(one.says)) << one.name;
    EXPECT_THAT(text, ::testing::StartsWith("HEALTHY")) << one.name;
  }
}

TEST(NoGpu, IsNoFaultOfTheVirtualDevice) {
  Root root;
  root.remove_gpu();
  const Diagnosis found = diagnose(root.machine, {}, Depth::Full);
  EXPECT_EQ(exit_status(found), 0);
  EXPECT_EQ(
      terminal(found),
      "HEALTHY  the virtual device works; no GPU: no NVIDIA device on the PCI bus, and no /dev/nvidia*\n");
  EXPECT_EQ(why_gpu_unusable(found),
            "no GPU: no NVIDIA device on the PCI bus, and no /dev/nvidia*. Fix: use --device virtual, which "
            "needs none.");
  root.add_container();
  EXPECT_THAT(terminal(diagnose(root.machine, {}, Depth::Quick)), HasSubstr("in a container, `--gpus all`"));
}

// A toolkit's libraries without a GPU are what every build machine has.
TEST(NoGpu, LeavesStubsAlone) {
  Root root;
  root.remove_gpu();
  root.put_first("/usr/local/cuda/lib64/stubs", "libcuda.so.1");
  root.set("FAKE_ERRORS", "cuInit=34");
  EXPECT_EQ(exit_status(diagnose(root.machine, {}, Depth::Full)), 0);
}

TEST(Virtual, RunsTheCanaryOnTheLibraryThatWasBuilt) {
  Root root;
  root.remove_gpu();
  root.machine.own_libraries = std::string(kBinaryFolder) + "/lib";
  const Facts facts = gather(root.machine, {}, Depth::Full);
  ASSERT_EQ(facts.virtual_driver.run.end, ProbeEnd::Ended) << facts.virtual_driver.run.step;
  ASSERT_EQ(facts.virtual_driver.devices.size(), 1u);
  ASSERT_TRUE(facts.virtual_driver.devices[0].canary.has_value());
  EXPECT_EQ(facts.virtual_driver.devices[0].canary->step, "");
  EXPECT_EQ(facts.virtual_driver.devices[0].canary->wrong, 0u);
}

TEST(Probe, LoadsNoDriverIntoThisProcess) {
  Root root;
  diagnose(root.machine, {}, Depth::Full);
  const std::string maps = text_of("/proc/self/maps");
  EXPECT_THAT(maps, Not(HasSubstr("libcuda")));
  EXPECT_THAT(maps, Not(HasSubstr("libnvidia-ml")));
}

TEST(Probe, EndsAtItsLimit) {
  Root root;
  root.set("FAKE_HANG", "cuInit");
  root.machine.quick_seconds = 0.2;
  const auto begun = std::chrono::steady_clock::now();
  const Diagnosis found = diagnose(root.machine, {}, Depth::Quick);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
  EXPECT_EQ(exit_status(found), 3);
  EXPECT_THAT(why_gpu_unusable(found),
              HasSubstr("the GPU's driver has not answered within 0.2 s (cuInit). Fix: "));
}

// Without persistence mode a driver takes seconds; a GPU that is there must not be left out without a word.
TEST(Probe, WaitsForASlowDriverAsLongAsItMay) {
  Root root;
  root.set("FAKE_SLOW", "cuInit=600");
  root.machine.quick_seconds = 0.2;
  const Diagnosis hasty = diagnose(root.machine, {}, Depth::Quick);
  EXPECT_TRUE(hasty.gpus.empty());
  EXPECT_THAT(why_gpu_unusable(hasty), HasSubstr("slow-answer: "));
  root.machine.quick_seconds = 8;
  const Diagnosis patient = diagnose(root.machine, {}, Depth::Quick);
  EXPECT_EQ(patient.gpus.size(), 1u);
  EXPECT_EQ(why_gpu_unusable(patient), "");
  EXPECT_LT(patient.seconds, 6);  // it does not wait for longer than it must
}

TEST(Virtual, IsNotSaidToWorkBeforeItAnswers) {
  Root root;
  root.set("OWN_HANG", "cuInit");
  root.machine.quick_seconds = 0.3;
  const Diagnosis slow = diagnose(root.machine, {}, Depth::Quick);
  EXPECT_FALSE(slow.virtual_works);
  EXPECT_EQ(exit_status(slow), 3);
  EXPECT_THAT(terminal(slow), HasSubstr("it is not known whether the virtual device works"));
  root.remove("/assay");
  EXPECT_THAT(terminal(diagnose(root.machine, {}, Depth::Quick)),
              HasSubstr("the virtual device does not work"));
}

TEST(Probe, EndsWhenTheProgramIsInterrupted) {
  Root root;
  root.set("FAKE_HANG", "nvmlInit_v2");
  interrupt(2);
  const auto begun = std::chrono::steady_clock::now();
  diagnose(root.machine, {}, Depth::Full);
  interrupt(0);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

// In full depth the kernel would hold memory of its own while NVML is asked.
TEST(Probe, AsksNvmlBeforeAKernelRuns) {
  Root root;
  root.set("FAKE_HANG", "nvmlInit_v2");
  root.machine.full_seconds = 2;
  const Facts facts = gather(root.machine, {}, Depth::Full);
  EXPECT_EQ(facts.nvml.run.end, ProbeEnd::TimedOut);
  EXPECT_EQ(facts.driver.run.end, ProbeEnd::Ended);  // in the time that was left
  EXPECT_TRUE(facts.driver.devices.at(0).canary.has_value());
}

TEST(Report, SaysWhoNeedsWhichRuntime) {
  Root root;
  root.add_process(
      "7f00-7f01 r-xp 00000000 08:01 11   /opt/a/libcudart.so.12.4.127\n"
      "7f04-7f05 r-xp 00000000 08:01 12   /opt/b/libcudart.so.13 (deleted)\n"
      "7f06-7f07 r-xp 00000000 08:01 13   /srv/other.so\n");
  root.copy("subject.so", std::string("/proc/4242/") + "root/srv/other.so");  // needs libcudart.so.12
  const Diagnosis found =
      diagnose(root.machine, {.kind = Target::Kind::Process, .process = 4242}, Depth::Quick);
  ASSERT_EQ(found.problems.at(0).name, "several-cudarts");
  EXPECT_EQ(found.problems[0].details,
            (std::vector<std::string>{"/opt/a/libcudart.so.12.4.127 is needed by /srv/other.so",
                                      "/opt/b/libcudart.so.13 was loaded by dlopen or LD_PRELOAD"}));
}

TEST(Report, NamesTheHolderBelowTheFirstLine) {
  Root root;
  root.write("/proc/4242/comm", "train\n");
  root.set("FAKE_NVML", "used=100,pid=4242");
  const Diagnosis found = diagnose(root.machine, {}, Depth::Quick);
  EXPECT_EQ(
      terminal(found),
      "WARNING  memory-held: 100.0 GiB of the 150.0 GiB of NVIDIA H200 are in use. Fix: end the processes "
      "that hold it, or large shapes may be skipped.\n"
      "  process 4242 (train) holds 3.0 GiB\n"
      "HEALTHY  NVIDIA H200 (sm_90, 150.0 GiB), driver 580.95.05, CUDA 13.0; the virtual device works\n");
}

TEST(Report, PutsFaultsBeforeWarnings) {
  Root root;
  root.set("FAKE_NVML", "persistence=0,pending=1");
  root.set("CUDA_LAUNCH_BLOCKING", "1");
  const Diagnosis found = diagnose(root.machine, {}, Depth::Quick);
  ASSERT_EQ(found.problems.size(), 3u);
  EXPECT_EQ(found.problems[0].name, "row-remap-pending");
  EXPECT_EQ(exit_status(found), 1);
  EXPECT_THAT(terminal(found), HasSubstr("\n  NVIDIA H200 (sm_90"));
}

TEST(Report, SaysOfOneOfSeveralGpusThatTheOthersWork) {
  Root root;
  root.set("FAKE_GPUS", "NVIDIA H200=90,NVIDIA H200=90");
  root.set("FAKE_WRONG", "1");
  const Diagnosis found = diagnose(root.machine, {}, Depth::Full);
  EXPECT_EQ(found.problems.at(0).name, "wrong-bits");
  EXPECT_EQ(why_gpu_unusable(found), "");
}

// A check that could not be made is not one that went well.
TEST(Report, SaysWhatWasNotLookedAt) {
  const auto skipped = [](const Root& root, const Target& target, Depth depth) {
    std::map<std::string, std::string> reasons;
    for (const PassedRule& rule : diagnose(root.machine, target, depth).passed)
      reasons[rule.name] = rule.why_skipped;
    return reasons;
  };
  Root root;
  auto quick = skipped(root, {}, Depth::Quick);
  EXPECT_EQ(quick.at("wrong-bits"), "no kernel is run with --quick");
  EXPECT_EQ(quick.at("nouveau"), "");
  EXPECT_EQ(quick.at("uncorrected-errors"), "");
  EXPECT_EQ(quick.at("no-image-for-gpu"), "--for names no library");
  EXPECT_EQ(skipped(root, {}, Depth::Full).at("wrong-bits"), "");
  root.remove(kLibraries + "/libnvidia-ml.so.1");
  EXPECT_EQ(skipped(root, {}, Depth::Quick).at("uncorrected-errors"), "NVML does not answer");
  root.set("FAKE_ERRORS", "cuInit=802");
  auto broken = skipped(root, {}, Depth::Full);
  EXPECT_EQ(broken.at("wrong-bits"), "not checked because of fabric-not-ready");
  EXPECT_EQ(broken.at("driver-upgraded"), "");
  EXPECT_EQ(broken.at("driver-too-old"), "no GPU answers");
  root.remove_gpu();
  EXPECT_EQ(skipped(root, {}, Depth::Full).at("nouveau"), "there is no GPU");
}

TEST(Report, IsAsTheSchemaSays) {
  const auto schema = testing::schema_named("doctor.schema.json");
  Root healthy, broken;
  broken.set("FAKE_ERRORS", "cuInit=802");
  broken.set("FAKE_NVML", "used=100,pid=4242");
  for (const Root* root : {&healthy, &broken}) {
    const auto report = nlohmann::ordered_json::parse(json(diagnose(root->machine, {}, Depth::Full)));
    EXPECT_EQ(testing::schema_problem(report, schema), "");
    for (const auto& [name, value] : report.items()) EXPECT_TRUE(schema["properties"].contains(name)) << name;
  }
  const auto report = nlohmann::ordered_json::parse(json(diagnose(broken.machine, {}, Depth::Quick)));
  EXPECT_EQ(report["verdict"], "fault");
  EXPECT_EQ(report["checks"][0]["name"], "fabric-not-ready");
  EXPECT_EQ(report["checks"][0]["status"], "wrong");
  EXPECT_EQ(report["checks"][0]["stops_gpu"], true);
  EXPECT_EQ(report["checks"][1]["severity"], "warning");
  EXPECT_EQ(report["checks"][1]["status"], "ok");
  EXPECT_EQ(report["checks"].size(), gpu_rules().size() + state_rules().size() + subject_rules().size());
}

}  // namespace
}  // namespace assay::doctor
