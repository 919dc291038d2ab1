#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/symbol.h"
#include "doctor/rules.h"

namespace assay::doctor {

namespace {

using Judged = std::optional<Advice>;
namespace fs = std::filesystem;

constexpr int kNoImage = 209, kPtxTooNew = 222;

std::string arch_text(const CodeImage& image) {
  return fmt::format("{}_{}{}", image.is_ptx ? "compute" : "sm", image.arch,
                     image.is_exact    ? "a"
                     : image.is_family ? "f"
                                       : "");
}

std::string arch_of(const DriverDevice& device) {
  return fmt::format("sm_{}{}", device.major, device.minor);
}

// Machine code runs on later minor versions of its major version, PTX on everything later; code for one
// architecture ("a") on that alone, for a family ("f") on later minor versions.
bool runs_on(const CodeImage& image, const DriverDevice& device) {
  const auto gpu = static_cast<unsigned>(device.major * 10 + device.minor);
  if (image.is_exact) return image.arch == gpu;
  if (image.arch > gpu) return false;
  return (image.is_ptx && !image.is_family) || image.arch / 10 == gpu / 10;
}

std::string holds(const SubjectFile& file) {
  std::set<std::string> names;
  for (const CodeImage& image : file.images) names.insert(arch_text(image));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The GPU on which the subject's code would be loaded, if it is known and there is such code.
const DriverDevice* gpu_for_code(const Facts& facts) {
  const bool known = facts.driver.answers() && facts.subject && !facts.subject->images.empty();
  return known ? &facts.driver.devices.front() : nullptr;
}

Judged no_image(const Facts& facts) {
  const DriverDevice* gpu = gpu_for_code(facts);
  if (!gpu) return {};
  const bool runs = std::ranges::any_of(facts.subject->images,
                                        [&](const CodeImage& image) { return runs_on(image, *gpu); });
  if (runs && facts.driver.subject_error != kNoImage) return {};
  return Advice{
      fmt::format("{} holds no code for {} ({}), only {}", facts.subject->path, gpu->name, arch_of(*gpu),
                  holds(*facts.subject)),
      fmt::format("build it with `-gencode arch=compute_{0}{1},code=sm_{0}{1}`", gpu->major, gpu->minor)};
}

Judged ptx_too_new(const Facts& facts) {
  const DriverDevice* gpu = gpu_for_code(facts);
  if (!gpu) return {};
  int wanted = 0, taken = 0;
  for (const CodeImage& image : facts.subject->images) {
    if (!runs_on(image, *gpu)) continue;
    if (!image.is_ptx) return {};  // nothing needs to be compiled
    wanted = std::max(wanted, image.ptx_version);
  }
  // A driver newer than this table compiles everything in it.
  const bool known = facts.driver.version < releases().back().cuda + 10;
  for (const CudaRelease& release : releases())
    if (release.cuda <= facts.driver.version) taken = release.ptx;
  if ((!known || taken == 0 || wanted <= taken) && facts.driver.subject_error != kPtxTooNew) return {};
  const auto release =
      std::ranges::find_if(releases(), [&](const CudaRelease& one) { return one.ptx >= wanted; });
  return Advice{
      fmt::format("{} holds PTX {}; this driver (CUDA {}) compiles PTX {} at most", facts.subject->path,
                  ptx_text(wanted), version_text(facts.driver.version), ptx_text(taken)),
      fmt::format(
          "update the driver{0}, or build machine code: `-gencode arch=compute_{1}{2},code=sm_{1}{2}`",
          release == releases().end() ? "" : fmt::format(" to {} or later", release->driver), gpu->major,
          gpu->minor)};
}

Judged contract_arch(const Facts& facts) {
  if (facts.target.kind != Target::Kind::Contract || !facts.driver.answers() || facts.target.arch.empty())
    return {};
  const std::string digits = facts.target.arch.substr(facts.target.arch.find('_') + 1);
  const CodeImage ptx{.is_ptx = true,
                      .arch = static_cast<unsigned>(std::atoi(digits.c_str())),
                      .is_exact = digits.ends_with('a'),
                      .is_family = digits.ends_with('f')};
  const DriverDevice& gpu = facts.driver.devices.front();
  if (runs_on(ptx, gpu)) return {};
  return Advice{fmt::format("{} is built for {}, which {} ({}) cannot run", facts.target.name,
                            facts.target.arch, gpu.name, arch_of(gpu)),
                fmt::format("set `arch = \"{}\"` in [kernel]", arch_of(gpu))};
}

Judged no_nvcc(const Facts& facts) {
  if (facts.target.kind != Target::Kind::Contract || !facts.target.is_cuda || !facts.toolkit.nvcc.empty())
    return {};
  return Advice{
      fmt::format("{} has CUDA C++ sources, and there is no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda",
                  facts.target.name),
      "install the CUDA toolkit, or set CUDA_HOME"};
}

Judged torch_mismatch(const Facts& facts) {
  if (!facts.subject || facts.subject->missing_torch_symbols.empty()) return {};
  const SubjectFile& file = *facts.subject;
  Advice words{fmt::format("{} was built for another torch: {} {} has no {}", file.path,
                           file.torch_version.empty() ? "that at" : "torch " + file.torch_version,
                           file.torch_version.empty() ? file.torch : "in " + file.torch,
                           demangled(file.missing_torch_symbols.front())),
               "rebuild it with this torch, or install the wheel for this version"};
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 1; i < std::min(kShown, file.missing_torch_symbols.size()); ++i)
    words.details.push_back("nor " + demangled(file.missing_torch_symbols[i]));
  return words;
}

Judged several_cudarts(const Facts& facts) {
  if (!facts.process || facts.process->cudarts.size() < 2) return {};
  std::vector<std::string> paths;
  Advice words;
  for (const LoadedLibrary& library : facts.process->cudarts) {
    paths.push_back(library.path);
    words.details.push_back(
        library.needed_by.empty()
            ? fmt::format("{} was loaded by dlopen or LD_PRELOAD", library.path)
            : fmt::format("{} is needed by {}", library.path, fmt::join(library.needed_by, ", ")));
  }
  words.what = fmt::format("process {} ({}) has {} CUDA runtimes, each with its own state: {}",
                           facts.process->pid, facts.process->name, paths.size(), fmt::join(paths, ", "));
  words.fix = "keep one: build everything against the same libcudart";
  return words;
}

Judged mixed_cudnn(const Facts& facts) {
  if (!facts.process) return {};
  std::set<std::string> folders;
  for (const LoadedLibrary& library : facts.process->cudnns)
    folders.insert(fs::path(library.path).parent_path().string());
  if (folders.size() < 2) return {};
  Advice words{fmt::format("process {} ({}) has parts of cuDNN from {}", facts.process->pid,
                           facts.process->name, fmt::join(folders, " and ")),
               "keep one origin: remove the other from LD_LIBRARY_PATH, or uninstall its package"};
  for (const LoadedLibrary& library : facts.process->cudnns) words.details.push_back(library.path);
  return words;
}

// ---- what could not be read

Judged unreadable_file(const Facts& facts) {
  if (!facts.subject || facts.subject->error.empty()) return {};
  return Advice{fmt::format("{}: {}", facts.subject->path, facts.subject->error),
                "name a shared library or a program"};
}

Judged unreadable_process(const Facts& facts) {
  if (!facts.process || facts.process->error.empty()) return {};
  return Advice{fmt::format("process {} cannot be inspected: {}", facts.process->pid, facts.process->error),
                "name a running process, as its user or as root"};
}

// ---- what the virtual device would like

// What runs on a GPU only runs nowhere where there is none.
std::optional<Severity> where_no_gpu(const Facts& facts) {
  if (why_none(facts).empty()) return {};
  return Severity::Fault;
}

std::string_view and_no_gpu(const Facts& facts) {
  return where_no_gpu(facts) ? ", and there is no GPU" : "";
}

Judged no_code(const Facts& facts) {
  if (!facts.subject || !facts.subject->error.empty() || !facts.subject->images.empty()) return {};
  return Advice{fmt::format("{} holds no device code", facts.subject->path),
                "name the file that nvcc linked"};
}

Judged static_cudart(const Facts& facts) {
  if (!facts.subject || !facts.subject->has_static_cudart) return {};
  return Advice{fmt::format("{} has the CUDA runtime linked into it, so it runs on a GPU only{}",
                            facts.subject->path, and_no_gpu(facts)),
                "link it with `nvcc -cudart shared`",
                {},
                where_no_gpu(facts)};
}

Judged other_cudart(const Facts& facts) {
  if (!facts.subject) return {};
  for (const std::string& name : facts.subject->needed)
    if (name.starts_with("libcudart.so.") && name != "libcudart.so.13")
      return Advice{fmt::format("{} needs {}; the virtual device is a libcudart.so.13{}", facts.subject->path,
                                name, and_no_gpu(facts)),
                    "build it with CUDA 13 to run it on the virtual device",
                    {},
                    where_no_gpu(facts)};
  return {};
}

Judged no_ptx(const Facts& facts) {
  if (!facts.subject || facts.subject->images.empty()) return {};
  if (std::ranges::any_of(facts.subject->images, &CodeImage::is_ptx)) return {};
  return Advice{fmt::format("{} holds machine code only ({}), which the virtual device cannot run{}",
                            facts.subject->path, holds(*facts.subject), and_no_gpu(facts)),
                "add PTX: `-gencode arch=compute_90,code=[sm_90,compute_90]`",
                {},
                where_no_gpu(facts)};
}

Judged no_lines(const Facts& facts) {
  if (!facts.subject) return {};
  bool has_ptx = false;
  for (const CodeImage& image : facts.subject->images) {
    if (image.has_lines) return {};
    has_ptx |= image.ptx_version > 0;  // of which the text was read
  }
  if (!has_ptx) return {};
  return Advice{fmt::format("{} holds PTX without line numbers: findings cannot name source lines",
                            facts.subject->path),
                "compile it with `-lineinfo`"};
}

constexpr Rule kSubjectRules[] = {
    {"no-image-for-gpu", Severity::Fault, Needs::LibraryOnGpu, no_image},
    {"ptx-too-new", Severity::Fault, Needs::LibraryOnGpu, ptx_too_new},
    {"contract-arch", Severity::Fault, Needs::Contract, contract_arch},
    {"no-nvcc", Severity::Fault, Needs::Contract, no_nvcc},
    {"torch-mismatch", Severity::Fault, Needs::Library, torch_mismatch},
    {"several-cudarts", Severity::Fault, Needs::Process, several_cudarts},
    {"mixed-cudnn", Severity::Fault, Needs::Process, mixed_cudnn},
    {"unreadable-file", Severity::Undecided, Needs::Library, unreadable_file},
    {"unreadable-process", Severity::Undecided, Needs::Process, unreadable_process},
    {"no-device-code", Severity::Warning, Needs::Library, no_code},
    {"static-cudart", Severity::Warning, Needs::Library, static_cudart},
    {"other-cudart", Severity::Warning, Needs::Library, other_cudart},
    {"no-ptx", Severity::Warning, Needs::Library, no_ptx},
    {"no-line-info", Severity::Warning, Needs::Library, no_lines},
};

}  // namespace

std::span<const Rule> subject_rules() {
  return kSubjectRules;
}

}  // namespace assay::doctor
