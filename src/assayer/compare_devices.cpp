#include "assayer/compare_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "assayer/constants.h"
#include "assayer/limits.h"
#include "assayer/locate.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "finding/message.h"
#include "judge/judge.h"
#include "judge/numbers.h"
#include "subject/may_differ.h"
#include "subject/tensor_cores.h"
#include "subject/uses_tensor_cores.h"
#include "trial/plan.h"

namespace assay::assayer {

using contract::Contract;
using contract::Tensor;
using subject::CallOutcome;
using subject::Device;
using subject::Observation;
using trial::Trial;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kMostSuspects = 6;
constexpr double kCallSeconds = 5;     // on the virtual device, which is slow
constexpr double kMostElements = 4e5;  // of a trial, for the same reason
constexpr int kTriedForEach =
    4;                         // trials planned for each that can be compared: others run on one device only
constexpr int kSchedules = 2;  // others, on the virtual device

int64_t first_difference(const Tensor& a, const Tensor& b, int64_t& count) {
  int64_t first = -1;
  for (int64_t e = 0; e < a.count(); ++e) {
    if (std::memcmp(a.at(e), b.at(e), static_cast<std::size_t>(a.item_bytes())) == 0) continue;
    if (count++ == 0) first = e;
  }
  return first;
}

int fraction_bits(contract::DType dtype) {
  using contract::DType;
  constexpr std::pair<DType, int> kBits[] = {{DType::f64, 52}, {DType::f32, 23}, {DType::f16, 10},
                                             {DType::bf16, 7}, {DType::e4m3, 3}, {DType::e5m2, 2}};
  for (const auto& [type, bits] : kBits)
    if (type == dtype) return bits;
  return 1;
}

// Distance of two finite values of the same format, in its steps.
double ulps_between(const Tensor& a, const Tensor& b, int64_t e) {
  if (!contract::is_float(a.dtype)) return 0;
  const double x = a.load(e), y = b.load(e);
  if (!std::isfinite(x) || !std::isfinite(y)) return 0;
  const int digits = fraction_bits(a.dtype);
  const double larger = std::max(std::abs(x), std::abs(y));
  if (larger == 0) return 0;
  return std::abs(x - y) / std::ldexp(1.0, std::ilogb(larger) - digits);
}

class Comparison {
 public:
  Comparison(const Contract& contract, const CheckOptions& options, const reference::Reference& reference,
             const subject::Subject& subject)
      : contract_(contract),
        options_(options),
        reference_(reference),
        subject_(subject),
        virtual_(contract, subject, runner_options(options, Device::Virtual)),
        cuda_(contract, subject, runner_options(options, Device::Cuda)) {
    result_.contract = contract.path;
  }

  DeviceComparison run(int most_trials) {
    const auto begun = Clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
    trial::PlanOptions plan_options{.seed = options_.seed};
    plan_options.machines = false;  // a GPU is what it is
    plan_options.max_elements = kMostElements;
    plan_options.constants = read_constants(contract_, subject_);
    trial::Plan plan(contract_, plan_options);
    int tried = 0;
    while (result_.trials < most_trials && tried++ < kTriedForEach * most_trials &&
           spent() < options_.budget && !interrupted() && !result_.forbidden && result_.problem.empty())
      compare(plan.next([](const contract::Shape&, bool) { return true; }).trial);
    if (result_.trials == 0 && result_.problem.empty())
      result_.problem = "no trial could be run on both devices";
    if (result_.differs || result_.varies || result_.forbidden) add_suspects();
    result_.seconds = spent();
    return result_;
  }

 private:
  static subject::RunnerOptions runner_options(const CheckOptions& options, Device device) {
    subject::RunnerOptions runner = options.runner;
    runner.device = device;
    runner.checks = {};
    runner.timeout = kCallSeconds;
    return runner;
  }

  static std::string failure(const Observation& seen) {
    return seen.outcome == CallOutcome::Ended ? "" : seen.error.empty() ? "it failed" : seen.error;
  }

  void compare(Trial trial) {
    trial.condition = {
        .poison = trial.condition.poison, .ordered = false, .alignment = trial.condition.alignment};
    if (trial.sampled || !trial.sparse.empty()) return;
    const auto size = trial::size_of(contract_, trial.shape);
    if (!size || size->elements > kMostElements) return;
    const auto inputs = trial::make_inputs(contract_, trial, options_.generator);
    if (!inputs) return;
    const Observation here = virtual_.run(trial, *inputs), there = cuda_.run(trial, *inputs);
    if (there.outcome == CallOutcome::Unavailable) {
      result_.problem = there.error;
      return;
    }
    if (here.outcome == CallOutcome::TimedOut || here.outcome == CallOutcome::Unavailable) return;
    ++result_.trials;
    DeviceDifference difference{.trial = trial::to_string(trial), .trial_json = trial::to_json(trial).dump()};
    difference.virtual_failure = failure(here);
    difference.cuda_failure = failure(there);
    if (!difference.virtual_failure.empty() || !difference.cuda_failure.empty()) {
      if (difference.virtual_failure.empty() != difference.cuda_failure.empty())
        result_.forbidden = std::move(difference);
      return;
    }
    if (!find_difference(here, there, difference)) {
      ++result_.same;
      return;
    }
    difference.allowed = is_right(*inputs, here) && is_right(*inputs, there);
    difference.repeatable = is_repeatable(trial, *inputs, here, there);
    // Results of a kernel that varies are wrong by chance as well: a check is for those.
    auto& kept = !difference.allowed && difference.repeatable ? result_.forbidden
                 : difference.repeatable                      ? result_.differs
                                                              : result_.varies;
    if (!kept) kept = std::move(difference);
  }

  static bool find_difference(const Observation& here, const Observation& there,
                              DeviceDifference& difference) {
    for (const auto& [name, tensor] : here.calls.front().outputs) {
      const Tensor& other = *there.calls.front().outputs.at(name);
      int64_t count = 0;
      const int64_t first = first_difference(*tensor, other, count);
      if (count == 0) continue;
      difference.output = name;
      difference.index = contract::index_of(tensor->extents, first);
      difference.virtual_value = judge::element_text(*tensor, first);
      difference.cuda_value = judge::element_text(other, first);
      difference.differing = count;
      difference.elements = tensor->count();
      for (int64_t e = 0; e < tensor->count(); ++e)
        difference.largest_ulps = std::max(difference.largest_ulps, ulps_between(*tensor, other, e));
      return true;
    }
    return false;
  }

  bool is_right(const contract::Bindings& inputs, const Observation& seen) const {
    judge::Options judging;
    judging.diagnose = false;
    judging.threads = options_.threads;
    judging.tensor_cores = subject::may_use_tensor_cores(subject_, contract_.kernel.arch);
    const auto judged = judge::judge(contract_, reference_, inputs, seen.calls.front().outputs, judging);
    return judged && !has_error(judged->findings);
  }

  // The same trial on each device again: under other schedules here, under load there.
  bool is_repeatable(const Trial& trial, const contract::Bindings& inputs, const Observation& here,
                     const Observation& there) {
    const auto differs = [](const Observation& again, const Observation& first) {
      DeviceDifference ignored;
      return again.outcome != CallOutcome::Ended || find_difference(again, first, ignored);
    };
    for (int i = 1; i <= kSchedules; ++i) {
      Trial other = trial;
      other.condition.schedule = mix(trial.seed, static_cast<uint64_t>(i)) >> 40;
      if (differs(virtual_.run(other, inputs), here)) return false;
    }
    Trial loaded = trial;
    loaded.condition.loaded = true;
    const Observation again = cuda_.run(loaded, inputs);
    return !differs(again, there) && !(again.load && again.load->difference);
  }

  void add_suspects() {
    for (const subject::MayDiffer& one :
         subject::instructions_that_may_differ(subject_, contract_.kernel.arch)) {
      if (result_.suspects.size() == kMostSuspects) break;
      result_.suspects.push_back(
          one.where.line > 0 ? fmt::format("{} ({}:{})", one.what, shown(one.where.file), one.where.line)
                             : one.what);
    }
  }

  const Contract& contract_;
  const CheckOptions& options_;
  const reference::Reference& reference_;
  const subject::Subject& subject_;
  subject::Runner virtual_, cuda_;
  DeviceComparison result_;
};

}  // namespace

DeviceComparison compare_devices(const Contract& contract, const CheckOptions& options, int most_trials) {
  DeviceComparison none;
  none.contract = contract.path;
  if (contract.kernel.python) {
    none.problem = "a Python function runs on the virtual device only";
    return none;
  }
  const auto reference = reference::Reference::make(contract);
  if (!reference) {
    none.problem = reference.error().text();
    return none;
  }
  const subject::BuildOutcome built = subject::build(contract, {.cache = options.cache});
  if (!built.subject) {
    none.problem = built.failure.error.text();
    return none;
  }
  return Comparison(contract, options, *reference, *built.subject).run(most_trials);
}

}  // namespace assay::assayer
