// Samples of sound kernels, simulated for the contracts of the corpus: no proof, and no more evidence than chance allows.
// ASSAY_SAMPLES sets how many samples of each contract are judged (docs/measurements/monitor.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "assayd/sample_judge.h"
#include "contract/formula.h"
#include "monitor/detector.h"
#include "trial/trial.h"

namespace assay::assayd {
namespace {

namespace fs = std::filesystem;
using contract::Tensor;

// Every dim near 40, as far as the contract allows; empty: no such shape.
contract::Shape small_shape(const contract::Contract& contract) {
  for (const int64_t wanted : {40, 64, 16, 128}) {
    contract::Shape shape;
    for (const contract::Dim& dim : contract.dims) {
      const int64_t value = std::clamp(wanted, dim.lowest(), dim.highest());
      shape[dim.name] = std::max(dim.lowest(), value / dim.multiple_of * dim.multiple_of);
    }
    if (contract.check_shape(shape)) return shape;
  }
  return {};
}

struct Totals {
  int contracts = 0, samples = 0, alarms = 0;
  int64_t elements = 0, violations = 0;
  double differing = 0, mean = 0;
};

void judge_samples(const fs::path& path, int samples, Totals& totals) {
  const auto contract = contract::load(path.string());
  if (!contract || contract->reference.kind != contract::ReferenceKind::Formula) return;
  const auto reference = reference::Reference::make(*contract);
  const contract::Shape shape = small_shape(*contract);
  if (!reference || shape.empty()) return;
  const monitor::Settings settings{.elements = 64};
  const SampleJudge judge(*contract, *reference, settings, false);
  monitor::Detector detector(1e9);
  bool counted = false;
  for (int i = 0; i < samples; ++i) {
    trial::Trial trial{.shape = shape, .seed = static_cast<uint64_t>(i) + 1};
    for (const contract::ScalarSpec& scalar : contract->scalars) {
      const double value = scalar.is_range() ? (scalar.low + scalar.high) / 2 : scalar.values[0];
      trial.scalars[scalar.name] = contract::is_float(scalar.dtype)
                                       ? contract::Scalar::of(scalar.dtype, value)
                                       : contract::Scalar::of_int(scalar.dtype, static_cast<int64_t>(value));
    }
    const auto bindings = trial::make_inputs(*contract, trial);
    if (!bindings) return;
    monitor::CapturedOutputs outputs;
    for (const contract::TensorSpec* spec : contract->outputs()) {
      Tensor tensor = Tensor::zeros(spec->dtype, *spec->extents(shape));
      std::vector<int64_t> all(static_cast<std::size_t>(tensor.count()));
      for (std::size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int64_t>(e);
      const auto values = reference->simulate(*bindings, spec->name, all);
      if (!values) return;
      for (std::size_t e = 0; e < all.size(); ++e) tensor.store(static_cast<int64_t>(e), (*values)[e]);
      outputs[spec->name] = std::make_shared<const Tensor>(std::move(tensor));
    }
    const auto verdict = judge.judge(*bindings, outputs, trial.seed);
    if (!verdict) return;
    EXPECT_EQ(verdict->violations, 0) << path << ", seed " << trial.seed << ": " << verdict->worst.element << " "
                                      << verdict->worst.text;
    totals.contracts += !counted;
    counted = true;
    ++totals.samples;
    totals.elements += verdict->judged;
    totals.violations += verdict->violations;
    totals.differing += static_cast<double>(verdict->differing);
    totals.mean += verdict->mean;
    if (verdict->mean > 0 && !detector.is_alarmed()) totals.alarms += detector.add(verdict->differing, verdict->mean);
  }
  EXPECT_FALSE(detector.is_alarmed()) << path;
}

TEST(FalseAlarms, SoundKernelsRaiseNone) {
  const char* asked = std::getenv("ASSAY_SAMPLES");
  const int samples = asked ? std::atoi(asked) : 2;
  Totals totals;
  std::vector<fs::path> contracts;
  for (const fs::directory_entry& entry : fs::directory_iterator(ASSAY_SOURCE_DIR "/corpus"))
    if (fs::exists(entry.path() / "contract.toml")) contracts.push_back(entry.path() / "contract.toml");
  std::sort(contracts.begin(), contracts.end());
  for (const fs::path& path : contracts) judge_samples(path, samples, totals);
  std::printf("%d contracts, %d samples, %lld elements: %lld violations, %d alarms; %.0f elements differ, %.1f at most "
              "were to be expected\n",
              totals.contracts, totals.samples, static_cast<long long>(totals.elements),
              static_cast<long long>(totals.violations), totals.alarms, totals.differing, totals.mean);
  EXPECT_GT(totals.contracts, 25);
}

}  // namespace
}  // namespace assay::assayd
