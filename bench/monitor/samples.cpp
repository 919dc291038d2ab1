// How often the monitor is wrong about right kernels, and how soon it notices wrong ones (docs/measurements/monitor.md).
//
//     bench_monitor_samples right SAMPLES [SEED]   right implementations of many operators, through the judge of assayd
//     bench_monitor_samples delay RUNS [SEED [COLUMNS]]   samples until an alarm, for faults of several sizes
//     bench_monitor_samples arl RUNS [SEED]        mean time to a false alarm, simulated at limits that can be reached
//
// Each prints a table in Markdown. `right` exits with 1 after an alarm.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "assayd/sample_judge.h"
#include "base/random.h"
#include "judge/operators.h"
#include "monitor/detector.h"
#include "trial/families.h"
#include "trial/shapes.h"
#include "trial/trial.h"

namespace {

using namespace assay;
using judge::testing::Operator;
using judge::testing::operators;
using judge::testing::Variant;

constexpr double kSamplesBetweenFalseAlarms = 1e9;

struct Bench {
  contract::Contract contract;
  reference::Reference reference;
  monitor::Settings settings;
  assayd::SampleJudge judge, judge_of_tensor_cores;

  Bench(const Operator& op, int64_t elements)
      : contract(*contract::parse(op.contract)),
        reference(*reference::Reference::make(contract)),
        settings{.elements = elements},
        judge(contract, reference, settings, false),
        judge_of_tensor_cores(contract, reference, settings, true) {}
};

// ---- right kernels

trial::Trial random_call(const contract::Contract& contract, Random& random) {
  trial::Trial trial;
  trial.seed = random.bits() >> 20;
  for (const contract::ScalarSpec& spec : contract.scalars)
    trial.scalars[spec.name] = contract::Scalar::of(spec.dtype, spec.values[0]);
  trial.shape = trial::fit(contract, trial::random_shape(contract, random, 2000), 20000, 1e9).shape;
  for (const contract::TensorSpec* spec : contract.inputs()) {
    const auto known = trial::families_for(*spec);
    trial.families[spec->name] =
        known[static_cast<std::size_t>(random.between(0, static_cast<int64_t>(known.size()) - 1))];
  }
  return trial;
}

struct Totals {
  int64_t samples = 0, elements = 0, proofs = 0, evidence_alarms = 0, unjudged = 0;
  double differing = 0, mean = 0, most_evidence = 0;
};

// Of each call, several samples of other elements: what a call costs is its inputs and its reference's sums.
Totals right_samples(const Operator& op, int64_t wanted, uint64_t seed) {
  constexpr int kSamplesOfACall = 25;
  const Bench bench(op, 32);
  std::vector<const Variant*> sound;
  for (const Variant& variant : op.variants)
    if (variant.kinds.empty()) sound.push_back(&variant);
  Totals totals;
  Random random(mix(hash(op.name), seed));
  monitor::Detector detector(kSamplesBetweenFalseAlarms);
  for (std::size_t call = 0; totals.samples + totals.unjudged < wanted; ++call) {
    const Variant& variant = *sound[call % sound.size()];
    const trial::Trial trial = random_call(bench.contract, random);
    const auto bindings = trial::make_inputs(bench.contract, trial);
    if (!bindings) continue;
    const judge::Outputs outputs = variant.run({bench.contract, *bindings});
    for (int i = 0; i < kSamplesOfACall; ++i) {
      const auto& judge = variant.tensor_cores ? bench.judge_of_tensor_cores : bench.judge;
      const auto verdict = judge.judge(*bindings, outputs, random.bits());
      if (!verdict) {
        ++totals.unjudged;
        continue;
      }
      ++totals.samples;
      totals.elements += verdict->judged;
      if (verdict->violations > 0 && totals.proofs++ < 3)
        fmt::print(stderr, "{}, {}, {}: {} {}\n", op.name, variant.name, trial::to_string(trial),
                   verdict->worst.element, verdict->worst.text);
      totals.differing += static_cast<double>(verdict->differing);
      totals.mean += verdict->mean;
      if (verdict->mean > 0 && detector.add(verdict->differing, verdict->mean)) {
        fmt::print(stderr, "{}, {}, {}: evidence, {} where {:.3g} were expected\n", op.name, variant.name,
                   trial::to_string(trial), verdict->differing, verdict->mean);
        ++totals.evidence_alarms;
        detector.reset();
      }
      totals.most_evidence = std::max(totals.most_evidence, detector.log10_evidence());
    }
  }
  return totals;
}

int right(int64_t samples, uint64_t seed) {
  Totals all;
  const auto each = samples / static_cast<int64_t>(operators().size()) + 1;
  fmt::print(
      "| operator | samples | elements | proof alarms | evidence alarms | elements that differ | at most, by "
      "the budget | most evidence, log10 |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Operator& op : operators()) {
    const Totals one = right_samples(op, each, seed);
    fmt::print("| {} | {} | {} | {} | {} | {:.0f} | {:.0f} | {:.1f} |\n", op.name, one.samples, one.elements,
               one.proofs, one.evidence_alarms, one.differing, one.mean, one.most_evidence);
    std::fflush(stdout);
    all.samples += one.samples;
    all.elements += one.elements;
    all.proofs += one.proofs;
    all.evidence_alarms += one.evidence_alarms;
    all.unjudged += one.unjudged;
  }
  fmt::print(
      "\n{} samples, {} elements: {} proof alarms, {} evidence alarms; {} samples could not be judged\n",
      all.samples, all.elements, all.proofs, all.evidence_alarms, all.unjudged);
  return all.proofs + all.evidence_alarms > 0 ? 1 : 0;
}

// ---- delay

struct Judged {
  uint64_t differing = 0;
  double mean = 0;
};

// Sums of so many columns to bf16, as a kernel computes them in f32; then a share of the elements is off by one unit in the last place:
// the smallest fault there is, and never proof.
std::vector<Judged> judged_samples(double wrong, int count, uint64_t seed, int64_t columns) {
  static const Operator kRowSums{"row sums",
                                 R"(
[kernel]
source = "row_sum.cu"
entry = "row_sum"
args = ["x", "y", "rows", "columns"]
[dims]
rows = { min = 1, max = 65536 }
columns = { min = 1, max = 65536 }
[tensors.x]
dtype = "bf16"
shape = ["rows", "columns"]
[tensors.y]
dtype = "bf16"
shape = ["rows"]
role = "out"
[reference]
formula = "y[r] += x[r, c]"
)",
                                 {}};
  static const Bench bench(kRowSums, 256);
  constexpr int64_t kRows = 256;
  std::vector<Judged> all;
  Random random(mix(seed, hash(fmt::format("{}", wrong))));
  for (int sample = 0; sample < count; ++sample) {
    contract::Tensor x = contract::Tensor::zeros(contract::DType::bf16, {kRows, columns}),
                     y = contract::Tensor::zeros(contract::DType::bf16, {kRows});
    for (int64_t r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int64_t c = 0; c < columns; ++c) {
        x.store(r * columns + c, random.uniform(0, 1));
        sum += static_cast<float>(x.load(r * columns + c));
      }
      y.store(r, sum);
      uint16_t code = 0;
      std::memcpy(&code, y.at(r), 2);
      code = static_cast<uint16_t>(code + (random.uniform() < wrong));
      std::memcpy(y.at(r), &code, 2);
    }
    contract::Bindings bindings;
    bindings.shape = {{"rows", kRows}, {"columns", columns}};
    bindings.inputs["x"] = std::make_shared<const contract::Tensor>(std::move(x));
    const auto verdict = bench.judge.judge(
        bindings, {{"y", std::make_shared<const contract::Tensor>(std::move(y))}}, random.bits());
    if (verdict) all.push_back({verdict->differing, verdict->mean});
  }
  return all;
}

struct Delay {
  int median = 0, late = 0;  // half, and 95 % of the runs
};

// `sample` gives the next one.
template <class Sample>
Delay delay_of(int runs, Sample sample) {
  constexpr int kLongest = 100'000;
  std::vector<int> all;
  for (int run = 0; run < runs; ++run) {
    monitor::Detector detector(kSamplesBetweenFalseAlarms);
    int count = 0;
    for (bool is_alarmed = false; !is_alarmed && count < kLongest;) {
      const Judged next = sample();
      ++count;
      is_alarmed = next.mean > 0 && detector.add(next.differing, next.mean);
    }
    all.push_back(count);
  }
  std::ranges::sort(all);
  return {all[all.size() / 2], all[all.size() * 95 / 100]};
}

int delay(int runs, uint64_t seed, int64_t columns) {
  struct Fault {
    const char* name;
    double wrong;      // share of the elements of a bad call
    double bad;        // share of the calls
    int median, late;  // that were to be expected
  };
  constexpr Fault kFaults[] = {{"10 % of the elements", 0.1, 1, 1, 1},
                               {"1 % of the elements", 0.01, 1, 2, 5},
                               {"0.1 % of the elements", 0.001, 1, 54, 111},
                               {"one bad call in 100", 0.1, 0.01, 66, 327},
                               {"one bad call in 1000", 0.1, 0.001, 802, 3393}};
  constexpr int kElements = 256, kPool = 2000;
  constexpr double kMean = 0.0256;
  std::mt19937_64 random(seed);
  const std::vector<Judged> right = judged_samples(0, kPool, seed, columns);
  double mean = 0, differing = 0;
  for (const Judged& one : right) mean += one.mean, differing += static_cast<double>(one.differing);
  fmt::print("The judge expects at most {:.4f} elements of a right sample to differ, and {:.4f} did.\n\n",
             mean / kPool, differing / kPool);
  fmt::print(
      "| wrong | aim: 1.5 x (median, 95 %) | detector at lambda 0.0256 | judge and detector |\n| --- | --- | "
      "--- | --- |\n");
  bool is_late = false;
  for (const Fault& fault : kFaults) {
    std::binomial_distribution<int> of_right(kElements, kMean / kElements), of_bad(kElements, fault.wrong);
    std::bernoulli_distribution is_bad(fault.bad);
    const Delay simulated = delay_of(runs, [&] {
      const int differ = of_right(random) + (is_bad(random) ? of_bad(random) : 0);
      return Judged{static_cast<uint64_t>(differ), kMean};
    });
    const std::vector<Judged> bad = judged_samples(fault.wrong, kPool, seed + 1, columns);
    std::uniform_int_distribution<std::size_t> any(0, kPool - 1);
    const Delay measured =
        delay_of(runs, [&] { return is_bad(random) ? bad[any(random)] : right[any(random)]; });
    fmt::print("| {} | {:.1f} ({:.1f}) | {} ({}) | {} ({}) |\n", fault.name, 1.5 * fault.median,
               1.5 * fault.late, simulated.median, simulated.late, measured.median, measured.late);
    std::fflush(stdout);
    is_late |= simulated.median > 1.5 * fault.median || simulated.late > 1.5 * fault.late;
  }
  return is_late ? 1 : 0;
}

// ---- false alarms

int arl(int runs, uint64_t seed) {
  fmt::print("| limit | lambda | mean samples to a false alarm |\n| --- | --- | --- |\n");
  std::mt19937_64 random(seed);
  bool is_early = false;
  for (const double limit : {10.0, 100.0, 1000.0, 10000.0})
    for (const double mean : {0.0256, 0.3, 3.0}) {
      std::poisson_distribution<int> differing(mean);
      double sum = 0;
      for (int run = 0; run < runs; ++run) {
        monitor::Detector detector(limit);
        double samples = 1;
        while (!detector.add(static_cast<uint64_t>(differing(random)), mean) && samples < 50 * limit)
          ++samples;
        sum += samples;
      }
      fmt::print("| {} | {} | {:.0f} |\n", limit, mean, sum / runs);
      std::fflush(stdout);
      is_early |= sum / runs < limit;
    }
  return is_early ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[1];
  const int64_t count = std::atoll(argv[2]);
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (count < 1) return 2;
  if (what == "right") return right(count, seed);
  if (what == "delay") return delay(static_cast<int>(count), seed, argc > 4 ? std::atoll(argv[4]) : 64);
  if (what == "arl") return arl(static_cast<int>(count), seed);
  return 2;
}
