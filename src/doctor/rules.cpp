#include "doctor/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace assay::doctor {

namespace {

// The releases whose drivers compile newer PTX than those before.
constexpr CudaRelease kReleases[] = {
    {11000, 70, 450}, {11010, 71, 455}, {11020, 72, 460}, {11030, 73, 465}, {11040, 74, 470},
    {11050, 75, 495}, {11060, 76, 510}, {11070, 77, 515}, {11080, 78, 520}, {12000, 80, 525},
    {12010, 81, 530}, {12020, 82, 535}, {12030, 83, 545}, {12040, 84, 550}, {12050, 85, 555},
    {12070, 86, 565}, {12080, 87, 570}, {12090, 88, 575}, {13000, 90, 580}, {13010, 91, 590},
};

struct ErrorName {
  int error;
  const char* name;
};
constexpr ErrorName kErrors[] = {
    {2, "out of memory"},
    {34, "stub library"},
    {46, "device unavailable"},
    {100, "no device"},
    {101, "invalid device"},
    {209, "no kernel image for this GPU"},
    {214, "uncorrectable ECC error"},
    {218, "invalid PTX"},
    {221, "no PTX compiler"},
    {222, "PTX of an unsupported version"},
    {223, "compiling PTX is disabled"},
    {304, "operating system call failed"},
    {500, "symbol not found"},
    {700, "illegal address"},
    {719, "launch failure"},
    {802, "system not ready"},
    {803, "system driver mismatch"},
    {804, "forward compatibility on an unsupported device"},
    {805, "MPS connection failed"},
    {806, "MPS call failed"},
    {807, "MPS server not ready"},
    {999, "unknown error"},
};

// With several GPUs, what is wrong with one of them does not stop the others.
bool stops_gpu(const Rule& rule, const Facts& facts) {
  if (facts.driver.answers() && facts.driver.devices.size() > 1) return false;
  return std::ranges::any_of(gpu_rules(), [&](const Rule& other) { return other.name == rule.name; });
}

std::optional<Problem> apply(const Rule& rule, const Facts& facts) {
  auto words = rule.judge(facts);
  if (!words) return std::nullopt;
  return Problem{.name = std::string(rule.name),
                 .severity = words->severity.value_or(rule.severity),
                 .what = std::move(words->what),
                 .fix = std::move(words->fix),
                 .details = std::move(words->details),
                 .stops_gpu = stops_gpu(rule, facts)};
}

}  // namespace

std::span<const CudaRelease> releases() {
  return kReleases;
}

std::string version_text(int cuda) {
  return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

std::string ptx_text(int version) {
  return fmt::format("{}.{}", version / 10, version % 10);
}

std::string bytes_text(uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", count / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.0f} MiB", count / (1 << 20));
  return fmt::format("{:.0f} KiB", count / (1 << 10));
}

std::string error_text(int error) {
  const auto* found = std::ranges::find(kErrors, error, &ErrorName::error);
  return found == std::end(kErrors) ? fmt::format("CUDA error {}", error)
                                    : fmt::format("CUDA error {} ({})", error, found->name);
}

std::string why_none(const Facts& facts) {
  if (facts.shows_gpu()) return "";
  std::string why =
      facts.has_bus ? "no NVIDIA device on the PCI bus, and no /dev/nvidia*" : "no /dev/nvidia*";
  if (facts.container) why += "; in a container, `--gpus all` passes the host's through";
  return why;
}

namespace {

// Why a rule with these needs cannot tell; empty: it can.
std::string why_skipped(Needs needs, const Facts& facts) {
  const auto target = [&](Target::Kind kind, const char* name) {
    return facts.target.kind == kind ? "" : fmt::format("--for names no {}", name);
  };
  std::string no_gpu = why_none(facts).empty() ? "" : "there is no GPU";
  std::string no_driver = !no_gpu.empty() ? no_gpu : facts.driver.answers() ? "" : "no GPU answers";
  std::string no_library = target(Target::Kind::Library, "library");
  switch (needs) {
    case Needs::Nothing:
      return "";
    case Needs::Gpu:
      return no_gpu;
    case Needs::Driver:
      return no_driver;
    case Needs::Kernel:
      return facts.depth == Depth::Quick ? "no kernel is run with --quick" : no_driver;
    case Needs::Nvml:
      return !no_gpu.empty() ? no_gpu : facts.nvml.init == 0 ? "" : "NVML does not answer";
    case Needs::Contract:
      return target(Target::Kind::Contract, "contract");
    case Needs::Library:
      return no_library;
    case Needs::LibraryOnGpu:
      return no_library.empty() ? no_driver : no_library;
    case Needs::Process:
      return target(Target::Kind::Process, "process");
  }
  return "";
}

}  // namespace

std::vector<PassedRule> passed_rules(const Facts& facts, const std::vector<Problem>& problems) {
  const auto found = [&](std::string_view name) {
    return std::ranges::any_of(problems, [&](const Problem& problem) { return problem.name == name; });
  };
  std::vector<PassedRule> passed;
  std::string cause;  // the rules after it say nothing
  for (const Rule& rule : gpu_rules()) {
    if (found(rule.name))
      cause = fmt::format("not checked because of {}", rule.name);
    else
      passed.push_back({std::string(rule.name), cause.empty() ? why_skipped(rule.needs, facts) : cause});
  }
  for (const auto rules : {subject_rules(), state_rules()})
    for (const Rule& rule : rules)
      if (!found(rule.name)) passed.push_back({std::string(rule.name), why_skipped(rule.needs, facts)});
  return passed;
}

std::vector<Problem> judge(const Facts& facts) {
  std::vector<Problem> problems;
  const bool has_gpu = why_none(facts).empty();
  for (const Rule& rule : gpu_rules()) {
    if (!has_gpu && rule.needs != Needs::Nothing) continue;
    if (auto problem = apply(rule, facts)) {
      problems.push_back(std::move(*problem));
      break;
    }
  }
  for (const auto rules : {subject_rules(), state_rules()})
    for (const Rule& rule : rules)
      if (auto problem = apply(rule, facts)) problems.push_back(std::move(*problem));
  std::ranges::stable_sort(problems, {}, &Problem::severity);
  return problems;
}

bool stops_virtual(const Problem& problem) {
  return problem.name == "virtual-device" || problem.name == "cpu-features";
}

Diagnosis diagnose(const Machine& machine, const Target& target, Depth depth) {
  const auto begun = std::chrono::steady_clock::now();
  const Facts facts = gather(machine, target, depth);
  Diagnosis diagnosis{.problems = judge(facts),
                      .passed = {},
                      .gpus = {},
                      .cuda_version = facts.driver.version,
                      .why_no_gpu = why_none(facts),
                      .depth = depth};
  for (const DriverDevice& device : facts.driver.devices)
    diagnosis.gpus.push_back({.name = device.name,
                              .driver = facts.nvml.driver.empty() ? facts.module : facts.nvml.driver,
                              .major = device.major,
                              .minor = device.minor,
                              .bytes = device.bytes});
  const DriverProbe& own = facts.virtual_driver;
  diagnosis.virtual_works = own.run.end == ProbeEnd::Ended && own.answers();
  for (const Problem& problem : diagnosis.problems)
    if (stops_virtual(problem)) diagnosis.virtual_works = false;
  diagnosis.passed = passed_rules(facts, diagnosis.problems);
  diagnosis.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return diagnosis;
}

}  // namespace assay::doctor
