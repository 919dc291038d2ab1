// What facts mean: a table of rules, each a pure function from facts to a problem, or none.
//
// Rules of the GPU are in the order of causes: of those that fire only the first is reported, because a driver that is
// missing also fails, hangs and offers no device. Without a GPU only those are asked that need none. All other rules are
// independent of each other.
//
//   rules_gpu.cpp       why no kernel can run on the GPU
//   rules_state.cpp     in which state the GPU and the host are
//   rules_subject.cpp   what is wrong with the file or process that was named
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace assay::doctor {

struct Advice {
  std::string what, fix;
  std::vector<std::string> details{};
  std::optional<Severity> severity{};  // where it is not the rule's own
};

// Without which a rule says nothing.
enum class Needs : uint8_t { Nothing, Gpu, Driver, Kernel, Nvml, Contract, Library, LibraryOnGpu, Process };

struct Rule {
  std::string_view name;
  Severity severity;
  Needs needs;
  std::optional<Advice> (*judge)(const Facts& facts);
};

std::span<const Rule> gpu_rules();
std::span<const Rule> state_rules();
std::span<const Rule> subject_rules();

std::vector<Problem> judge(const Facts& facts);
// The rules that found no problem: all well, or why they could not tell.
std::vector<PassedRule> passed_rules(const Facts& facts, const std::vector<Problem>& problems);
bool stops_virtual(const Problem& problem);  // the virtual device does not work

// Why there is no GPU, where nothing is wrong; empty: there is one, or there should be.
std::string why_none(const Facts& facts);

// A CUDA version, the PTX that its drivers compile, and the driver that it came with.
struct CudaRelease {
  int cuda;    // 12040
  int ptx;     // 84
  int driver;  // 550
};
std::span<const CudaRelease> releases();
std::string version_text(int cuda);      // "12.4"
std::string ptx_text(int version);       // "8.4"
std::string bytes_text(uint64_t bytes);  // "64 MiB"
std::string error_text(int error);       // "CUDA error 803 (system driver mismatch)"

}  // namespace assay::doctor
