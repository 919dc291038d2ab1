// Evidence from many places: the same kernel in several applications, on several GPUs and machines, and many kernels.
//
// Example:
//
//     std::vector<SeenKernel> seen = {{.kernel = "rmsnorm", .build = "1a2b3c", .gpu = "GPU-1", .log10_e_value = 7}};
//     for (const FleetKernel& one : judge_fleet(seen, 0.001))
//       if (one.is_wrong) use(one.kernel, one.worst.gpu);
//
// Each place has an e-value against "this kernel is right here" (detector.h). The average of e-values is an e-value however
// they depend on each other, so one number speaks for a kernel in the whole fleet. Across kernels, e-BH (Wang and Ramdas,
// 2022) decides: of K kernels, the k with the largest e-values are called wrong for the largest k such that the smallest of
// them is at least K / (k rate). At most a share of `rate` of the kernels it calls wrong are right, on average, whatever the
// dependence. Without it, a thousand kernels that are looked at daily would give an alarm by chance.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace assay::monitor {

// A kernel on one GPU, as one assayd has seen it.
struct SeenKernel {
  std::string kernel, contract, build,
      gpu;            // digests of the contract and of the library: those of the metrics' labels
  std::string place;  // the assayd that says so
  uint64_t samples = 0;
  double log10_e_value = 0;
  bool has_alarm = false;
};

// A kernel, by its name, contract and build, wherever it runs.
struct FleetKernel {
  std::string kernel, contract, build;
  uint64_t places = 0, samples = 0, alarms = 0;
  double log10_e_value = 0;  // of the average
  SeenKernel worst;          // the place with the largest e-value
  bool is_wrong = false;
};

// In the order of their evidence, the strongest first. `rate`: of false discoveries, between 0 and 1.
std::vector<FleetKernel> judge_fleet(std::span<const SeenKernel> seen, double rate);

double log10_of_average(std::span<const double> log10_values);
// Which of these e-values e-BH rejects.
std::vector<bool> reject_by_e_values(std::span<const double> log10_values, double rate);

// What assayd answers at /evidence: written by it, read by `assay fleet`.
std::string encode_evidence(std::span<const SeenKernel> seen);
Result<std::vector<SeenKernel>> decode_evidence(const std::string& text, const std::string& place);

}  // namespace assay::monitor
