#include "judge/finding.h"

namespace assay::judge {

namespace {

constexpr KindInfo kKinds[] = {
    {"launch-failure", 95, "a launch or a runtime call failed"},
    {"crash", 94, "the host code died"},
    {"forbidden-call", 93, "host code asked the system for what a kernel has no business with"},
    {"environment-probe", 92, "host code looked at where it runs: the process, its parent, the checker"},
    {"out-of-bounds", 90, "an access outside every live allocation, or past the tensor it started in"},
    {"misaligned", 88, "an access not aligned to its width"},
    {"deadlock", 86, "no thread can go on"},
    {"timeout", 85, "the call did not end"},
    {"barrier-divergence", 84, "a barrier that not all the threads it names reach"},
    {"data-race", 80, "two unordered accesses to the same bytes, at least one a write"},
    {"stream-order", 78, "work not ordered on the stream that the caller gave"},
    {"uninitialized", 76, "a result depends on memory that nothing wrote"},
    {"clobbered-input", 74, "an input changed"},
    {"unwritten-output", 72, "output elements that the kernel never wrote"},
    {"stale-state", 70, "the result of a call depends on earlier calls"},
    {"concurrent-launch", 68, "right alone, wrong when calls overlap"},
    {"low-precision-accumulation", 60, "the excess error is that of accumulating in a narrower type"},
    {"nonfinite", 58, "NaN or infinity where the reference has none, or hidden where it has one"},
    {"wrong-result", 56, "outputs outside what rounding can explain"},
    {"precision-loss", 54, "too inaccurate"},
    {"biased-rounding", 52, "errors lean to one side"},
    {"nondeterministic", 50, "different bits from the same inputs"},
    {"leak", 48, "memory that each call allocates and nothing frees"},
    // Notes from reading the code (room lint): they never change a verdict.
    {"narrow-sum", 16, "a sum kept in f16 or bf16 from term to term"},
    {"narrow-atomic", 15, "atomic additions in f16 or bf16"},
    {"narrow-mma", 14, "matrix products summed in f16"},
    {"truncating-conversion", 13, "a float shortened without rounding"},
    {"approximate-math", 12, "an approximate function where the contract says standard"},
    {"flushed-subnormals", 11, "subnormals flushed where the contract says standard"},
    {"partial-collective", 10, "a warp-wide operation that may miss lanes"},
};

}  // namespace

std::span<const KindInfo> kinds() {
  return kKinds;
}
const KindInfo* kind_named(std::string_view kind) {
  for (const KindInfo& info : kKinds) {
    if (info.kind == kind) return &info;
  }
  return nullptr;
}

std::string_view to_string(Severity severity) {
  constexpr std::string_view kNames[] = {"note", "warning", "error"};
  return kNames[static_cast<std::size_t>(severity)];
}
std::string_view to_string(Verdict verdict) {
  constexpr std::string_view kNames[] = {"pass", "fail", "inconclusive"};
  return kNames[static_cast<std::size_t>(verdict)];
}
int exit_status(Verdict verdict) {
  constexpr int kStatus[] = {0, 1, 3};
  return kStatus[static_cast<std::size_t>(verdict)];
}

}  // namespace assay::judge
