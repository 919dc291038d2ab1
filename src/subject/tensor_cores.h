// Which kernels of a subject compute with tensor cores: those add products with less than the accumulator's
// precision, and toward zero, so the rounding budget of what they compute is wider.
//
// Decided from the instructions of the compiled PTX, kernel by kernel, functions that a kernel may call
// included. Integer and FP64 forms are exact, or round as any FMA does, and do not count.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ptx/module.h"
#include "subject/subject.h"

namespace assay::subject {

class TensorCores {
 public:
  TensorCores() = default;
  // `modules`: all PTX of a subject. None: it holds machine code only.
  explicit TensorCores(std::span<const ptx::Module> modules);

  // Why the budgets of a trial that launched these kernels are wider, a clause for each kernel; empty: they
  // are not. Kernels whose code was not read count as if they used tensor cores. Without a list of what was
  // launched, all kernels of the subject count.
  std::vector<std::string> reasons(const std::optional<std::set<std::string>>& launched) const;

 private:
  bool machine_code_ = false;
  std::map<std::string, std::string> kernels_;  // name → "wgmma.mma_async (f32 += bf16 × bf16)", or ""
};

// Of a built subject. Code that cannot be read counts as if it used them.
TensorCores tensor_cores_of(const Subject& subject, const std::string& arch);

}  // namespace assay::subject
