#include "subject/cuda_reference.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/random.h"
#include "finding/message.h"
#include "reference/foreign.h"

namespace assay::subject {

namespace fs = std::filesystem;
using contract::Bindings;
using contract::Contract;
using contract::DType;
using contract::Tensor;

namespace {

// Headers first, so that what they declare stays as it is; then every float type and function under its wide
// name. `real` is the type.
constexpr std::string_view kPrelude = R"(#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

typedef {} assay_real;
#define __nv_bfloat16 assay_real
#define nv_bfloat16 assay_real
#define __half assay_real
#define half assay_real
#define __nv_fp8_e4m3 assay_real
#define __nv_fp8_e5m2 assay_real
#define __float2bfloat16(x) assay_real(x)
#define __float2bfloat16_rn(x) assay_real(x)
#define __double2bfloat16(x) assay_real(x)
#define __bfloat162float(x) assay_real(x)
#define __float2half(x) assay_real(x)
#define __float2half_rn(x) assay_real(x)
#define __half2float(x) assay_real(x)
#define expf(x) exp(assay_real(x))
#define __expf(x) exp(assay_real(x))
#define exp2f(x) exp2(assay_real(x))
#define expm1f(x) expm1(assay_real(x))
#define logf(x) log(assay_real(x))
#define __logf(x) log(assay_real(x))
#define log2f(x) log2(assay_real(x))
#define log1pf(x) log1p(assay_real(x))
#define sqrtf(x) sqrt(assay_real(x))
#define rsqrtf(x) rsqrt(assay_real(x))
#define tanhf(x) tanh(assay_real(x))
#define erff(x) erf(assay_real(x))
#define erfcf(x) erfc(assay_real(x))
#define sinf(x) sin(assay_real(x))
#define cosf(x) cos(assay_real(x))
#define __sinf(x) sin(assay_real(x))
#define __cosf(x) cos(assay_real(x))
#define fabsf(x) fabs(assay_real(x))
#define floorf(x) floor(assay_real(x))
#define ceilf(x) ceil(assay_real(x))
#define rintf(x) rint(assay_real(x))
#define nearbyintf(x) nearbyint(assay_real(x))
#define roundf(x) round(assay_real(x))
#define fmaxf(x, y) fmax(assay_real(x), assay_real(y))
#define fminf(x, y) fmin(assay_real(x), assay_real(y))
#define powf(x, y) pow(assay_real(x), assay_real(y))
#define __powf(x, y) pow(assay_real(x), assay_real(y))
#define fmaf(x, y, z) fma(assay_real(x), assay_real(y), assay_real(z))
#define __fdividef(x, y) (assay_real(x) / assay_real(y))
#define float assay_real
)";

// The prelude in a file of its own; the same text always has the same name.
Result<std::string> written_prelude(const BuildOptions& build, DType dtype) {
  const std::string name(contract::info(dtype).name);
  const fs::path path = fs::path(cache_folder(build.cache)) / fmt::format("reference_{}.h", name);
  std::string text(kPrelude);
  text.replace(text.find("{}"), 2, dtype == DType::f64 ? "double" : "float");
  if (dtype == DType::f32) text.erase(text.rfind("#define float"));
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (text_of(path.string()) == text) return path.string();
  const fs::path fresh = path.string() + fmt::format(".{}", ::gettid());
  std::ofstream file(fresh, std::ios::binary);
  file << text;
  file.close();
  if (!file) return Error{fmt::format("cannot write {}", fresh.string())};
  fs::rename(fresh, path, failed);
  if (failed) return Error{fmt::format("cannot write {}", path.string())};
  return path.string();
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (!contract::is_float(tensor.dtype) || tensor.dtype == dtype) return tensor;
  Tensor wide = Tensor::zeros(dtype, tensor.extents);
  for (int64_t i = 0; i < tensor.count(); ++i) wide.store(i, tensor.load(i));
  return wide;
}

// Every number of float tensors moved by up to twice the rounding of f32.
Bindings moved(const Bindings& given, uint64_t seed) {
  constexpr double kTwice = 0x1p-23;
  Random random(seed);
  Bindings result = given;
  for (auto& [name, tensor] : result.inputs) {
    if (!contract::is_float(tensor->dtype)) continue;
    Tensor wide = Tensor::zeros(DType::f64, tensor->extents);
    for (int64_t i = 0; i < tensor->count(); ++i)
      wide.store(i, tensor->load(i) * (1 + random.uniform(-kTwice, kTwice)));
    tensor = std::make_shared<const Tensor>(std::move(wide));
  }
  return result;
}

// What the runs in the working precision lose beside the exact one (contract/foreign.h).
class Losses {
 public:
  explicit Losses(const Tensor& exact)
      : exact_(exact), spread_(Tensor::zeros(DType::f64, exact.extents)), largest_(spread_) {}

  void add(const Tensor& working) {
    for (int64_t i = 0; i < exact_.count(); ++i) {
      const double loss = std::abs(working.load(i) - exact_.load(i));
      if (!std::isfinite(loss)) continue;
      spread_.store(i, spread_.load(i) + loss * loss / reference::kWorkingRuns);
      largest_.store(i, std::max(largest_.load(i), loss));
    }
  }

  Tensor spread() const {
    Tensor roots = spread_;
    for (int64_t i = 0; i < roots.count(); ++i) roots.store(i, std::sqrt(roots.load(i)));
    return roots;
  }
  const Tensor& largest() const { return largest_; }

 private:
  const Tensor& exact_;
  Tensor spread_, largest_;
};

// The reference in one precision.
class Build {
 public:
  Build(const Contract& contract, DType dtype) : given_(contract), dtype_(dtype) {}

  // Compiles it, once. If that fails, every run says so.
  void prepare(const BuildOptions& build, const RunnerOptions& options) {
    if (runner_ || failure_) return;
    if (const Result<void> made = make(build, options); !made) failure_ = made.error();
  }

  Result<std::map<std::string, Tensor>> run(const Bindings& bindings, const BuildOptions& build,
                                            const RunnerOptions& options) {
    prepare(build, options);
    if (failure_) return *failure_;
    trial::Trial trial;
    trial.shape = bindings.shape;
    Bindings wide;
    wide.shape = bindings.shape;
    for (const auto& [name, scalar] : bindings.scalars) {
      const bool real = contract::is_float(scalar.dtype);
      wide.scalars[name] = real ? contract::Scalar::of(dtype_, scalar.as_double()) : scalar;
    }
    trial.scalars = wide.scalars;
    for (const auto& [name, tensor] : bindings.inputs)
      wide.inputs[name] = std::make_shared<const Tensor>(converted(*tensor, dtype_));
    const Observation seen = runner_->run(trial, wide);
    if (seen.outcome != CallOutcome::Ended || seen.calls.empty())
      return Error{fmt::format("the cuda reference did not finish: {}", seen.error), given_.path};
    for (const protocol::Event& event : seen.events)
      if (const auto* found = std::get_if<protocol::FindingEvent>(&event))
        return Error{fmt::format("the cuda reference itself has a defect: {}", message(found->finding)),
                     given_.path};
    std::map<std::string, Tensor> outputs;
    for (const auto& [name, tensor] : seen.calls.front().outputs) outputs[name] = *tensor;
    return outputs;
  }

 private:
  Result<void> make(const BuildOptions& build, const RunnerOptions& options) {
    const Result<std::string> prelude = written_prelude(build, dtype_);
    if (!prelude) return prelude.error();
    contract_ = reference_contract(given_, dtype_, *prelude);
    BuildOutcome built = subject::build(contract_, build);
    if (!built.subject) {
      Error error = built.failure.error;
      error.message = "the cuda reference does not compile with its floats as " +
                      std::string(contract::info(dtype_).name) + ": " + error.message;
      if (!built.failure.output.empty()) error.message += "\n" + built.failure.output;
      return error;
    }
    subject_ = std::move(*built.subject);
    RunnerOptions there = options;
    there.device = Device::Virtual;
    there.timeout = std::max(there.timeout, 120.0);
    runner_ = std::make_unique<Runner>(contract_, subject_, there);
    return {};
  }

  const Contract given_;
  DType dtype_;
  Contract contract_;
  Subject subject_;
  std::unique_ptr<Runner> runner_;
  std::optional<Error> failure_;
};

struct Both {
  Both(const Contract& contract) : exact(contract, DType::f64), working(contract, DType::f32) {}
  std::mutex lock;
  Build exact, working;
};

}  // namespace

Contract reference_contract(const Contract& contract, DType dtype, const std::string& prelude) {
  Contract own = contract;
  own.kernel.sources = {fs::absolute(contract.resolve(contract.reference.cuda_source)).string()};
  own.kernel.entry = contract.reference.cuda_entry;
  own.kernel.global.clear();
  own.kernel.flags = {"-include", prelude};
  own.kernel.returns_int = false;
  for (contract::TensorSpec& tensor : own.tensors) {
    tensor.align = 256;  // wider elements; and a reference need not cope with slices
    tensor.may_alias.clear();
    if (contract::is_float(tensor.dtype)) tensor.dtype = dtype;
  }
  for (contract::ScalarSpec& scalar : own.scalars) {
    if (contract::is_float(scalar.dtype)) scalar.dtype = dtype;
  }
  return own;
}

reference::ReferenceProvider cuda_reference(const Contract& contract, const BuildOptions& build,
                                            const RunnerOptions& runner) {
  if (contract.reference.kind != contract::ReferenceKind::Cuda) return {};
  auto both = std::make_shared<Both>(contract);
  // Now, and not in the first trial: seconds of a compiler say nothing about what a trial costs.
  both->exact.prepare(build, runner);
  both->working.prepare(build, runner);
  return [both, build, runner](const Contract&,
                               const Bindings& bindings) -> Result<std::map<std::string, Tensor>> {
    const std::scoped_lock lock(both->lock);
    Result<std::map<std::string, Tensor>> outputs = both->exact.run(bindings, build, runner);
    if (!outputs) return outputs;
    std::map<std::string, Losses> losses;
    for (const auto& [name, tensor] : *outputs) losses.emplace(name, tensor);
    for (int run = 0; run < reference::kWorkingRuns; ++run) {
      Result<std::map<std::string, Tensor>> working =
          both->working.run(run == 0 ? bindings : moved(bindings, run), build, runner);
      if (!working) return working;
      for (auto& [name, loss] : losses) loss.add(working->at(name));
    }
    std::map<std::string, Tensor> all = *outputs;
    for (const auto& [name, loss] : losses) {
      all[name + std::string(reference::kSpread)] = loss.spread();
      all[name + std::string(reference::kLargest)] = loss.largest();
    }
    return all;
  };
}

}  // namespace assay::subject
