#include "judge/judge.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "finding/print.h"
#include "implementations.h"
#include "judge/measure.h"
#include "judge/sample.h"
#include "trial/families.h"
#include "trial/plan.h"
#include "trial/shapes.h"

namespace assay::judge::testing {
namespace {

struct Bench {
  Contract contract;
  reference::Reference reference;
};

Bench bench_for(const Operator& op) {
  auto contract = contract::parse(op.contract);
  EXPECT_TRUE(contract) << op.name << ": " << contract.error().text();
  auto reference = reference::Reference::make(*contract);
  EXPECT_TRUE(reference) << op.name << ": " << reference.error().text();
  return {std::move(*contract), std::move(*reference)};
}

Judgement judged(const Bench& bench, const Variant& variant, const Bindings& bindings, bool diagnose = true) {
  const Outputs outputs = variant.run({bench.contract, bindings});
  Options options;
  options.diagnose = diagnose;
  options.tensor_cores = variant.tensor_cores;
  auto judgement = judge(bench.contract, bench.reference, bindings, outputs, options);
  EXPECT_TRUE(judgement) << judgement.error().text();
  return judgement ? std::move(*judgement) : Judgement{};
}

trial::Trial plain_trial(const Contract& contract, uint64_t seed) {
  trial::Trial trial;
  trial.seed = seed;
  trial.shape = trial::uniform_shape(contract, 33);
  for (const contract::ScalarSpec& spec : contract.scalars)
    trial.scalars[spec.name] = contract::Scalar::of(spec.dtype, spec.values[0]);
  return trial;
}

std::string case_name(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name = operators()[info.param].name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class EveryOperator : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Judge, EveryOperator, ::testing::Range<std::size_t>(0, operators().size()),
                         case_name);

// ASSAY_JUDGE_TRIALS makes the run longer: trials for each operator, over all its sound implementations.
// ASSAY_JUDGE_SEED makes it another run, and with ASSAY_JUDGE_SECONDS an operator's trials end after that time.
int64_t from_environment(const char* name, int64_t otherwise) {
  const char* wanted = std::getenv(name);
  return wanted ? std::atoll(wanted) : otherwise;
}

trial::Trial random_trial(const Contract& contract, Random& random) {
  trial::Trial trial = plain_trial(contract, random.bits() >> 20);
  trial.shape = trial::fit(contract, trial::random_shape(contract, random, 3000), 40000, 1e9).shape;
  for (const contract::TensorSpec* spec : contract.inputs()) {
    const auto known = trial::families_for(*spec);
    trial.families[spec->name] =
        known[static_cast<std::size_t>(random.between(0, static_cast<int64_t>(known.size()) - 1))];
  }
  return trial;
}

TEST_P(EveryOperator, SoundImplementationsAreNeverCalledWrong) {
  const Operator& op = operators()[GetParam()];
  const Bench bench = bench_for(op);
  std::vector<const Variant*> sound;
  for (const Variant& variant : op.variants) {
    if (variant.kinds.empty()) sound.push_back(&variant);
  }
  const int64_t wanted = from_environment("ASSAY_JUDGE_TRIALS", 60);
  Random random(mix(hash(op.name), static_cast<uint64_t>(from_environment("ASSAY_JUDGE_SEED", 1))));
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds most(from_environment("ASSAY_JUDGE_SECONDS", 1 << 30));
  int64_t alarms = 0, done = 0;
  for (int64_t i = 0; i < wanted && std::chrono::steady_clock::now() - begin < most; ++i, ++done) {
    const Variant& variant = *sound[static_cast<std::size_t>(i) % sound.size()];
    const trial::Trial trial = random_trial(bench.contract, random);
    const auto bindings = trial::make_inputs(bench.contract, trial);
    ASSERT_TRUE(bindings) << bindings.error().text();
    const Judgement judgement = judged(bench, variant, *bindings, false);
    for (const Finding& finding : judgement.findings) {
      ADD_FAILURE() << op.name << ", " << variant.name << ", " << trial::to_string(trial) << ": "
                    << shown(finding);
    }
    alarms += !judgement.findings.empty();
    ASSERT_LT(alarms, 10) << "enough seen, after " << i + 1 << " trials";
  }
  RecordProperty("trials", std::to_string(done));
  if (std::getenv("ASSAY_JUDGE_SECONDS"))
    std::printf("%s: %lld trials, %lld alarms\n", op.name.c_str(), static_cast<long long>(done),
                static_cast<long long>(alarms));
}

TEST_P(EveryOperator, DefectsAreFoundAndNamed) {
  const Operator& op = operators()[GetParam()];
  const Bench bench = bench_for(op);
  for (const Variant& variant : op.variants) {
    if (variant.kinds.empty()) continue;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      trial::Trial trial = plain_trial(bench.contract, seed);
      for (const auto& [name, value] : variant.shape) trial.shape[name] = value;
      for (const auto& [name, family] : variant.families)
        ASSERT_TRUE(trial::family_named(family, trial.families[name]));
      const auto bindings = trial::make_inputs(bench.contract, trial);
      ASSERT_TRUE(bindings) << bindings.error().text();
      const Judgement judgement = judged(bench, variant, *bindings);
      ASSERT_FALSE(judgement.findings.empty()) << op.name << ", " << variant.name << " passed, seed " << seed;
      const Finding& finding = judgement.findings.front();
      EXPECT_NE(std::find(variant.kinds.begin(), variant.kinds.end(), finding.kind), variant.kinds.end())
          << op.name << ", " << variant.name << ", seed " << seed << " was called " << shown(finding);
    }
  }
}

// The reference evaluated before the outputs are there.
TEST_P(EveryOperator, ForeseenValuesGiveTheSameJudgement) {
  const Operator& op = operators()[GetParam()];
  const Bench bench = bench_for(op);
  Random random(hash(op.name));
  for (int i = 0; i < 2; ++i) {
    const auto bindings = trial::make_inputs(bench.contract, random_trial(bench.contract, random));
    ASSERT_TRUE(bindings) << bindings.error().text();
    for (const Variant& variant : op.variants) {
      const Outputs outputs = variant.run({bench.contract, *bindings});
      Options options;
      options.tensor_cores = variant.tensor_cores;
      const auto alone = judge(bench.contract, bench.reference, *bindings, outputs, options);
      const Foreseen seen = foresee(bench.contract, bench.reference, *bindings, options);
      options.foreseen = &seen;
      const auto helped = judge(bench.contract, bench.reference, *bindings, outputs, options);
      ASSERT_TRUE(alone && helped);
      EXPECT_EQ(alone->judged, helped->judged);
      ASSERT_EQ(alone->findings.size(), helped->findings.size()) << op.name << ", " << variant.name;
      for (std::size_t f = 0; f < alone->findings.size(); ++f)
        EXPECT_EQ(shown(alone->findings[f]), shown(helped->findings[f]));
    }
  }
}

// NaN propagates in sound implementations and must be accepted there.
TEST_P(EveryOperator, NanInAnInputIsNoFindingWhereItPropagates) {
  const Operator& op = operators()[GetParam()];
  const Bench bench = bench_for(op);
  for (const contract::TensorSpec* spec : bench.contract.inputs()) {
    if (!contract::is_float(spec->dtype)) continue;
    for (const trial::Family family :
         {trial::Family::NanElement, trial::Family::InfElement, trial::Family::NegInfElement}) {
      for (const Variant& variant : op.variants) {
        if (!variant.kinds.empty() || variant.name.starts_with("kahan"))
          continue;  // inf - inf: Kahan gives NaN, as it may
        trial::Trial trial = plain_trial(bench.contract, 7);
        trial.families[spec->name] = family;
        const auto bindings = trial::make_inputs(bench.contract, trial);
        ASSERT_TRUE(bindings);
        const Judgement judgement = judged(bench, variant, *bindings, false);
        EXPECT_TRUE(judgement.findings.empty())
            << op.name << ", " << variant.name << ", " << spec->name << " " << trial::to_string(family)
            << ": " << (judgement.findings.empty() ? "" : message(judgement.findings[0]));
      }
    }
  }
}

TEST(ExpectedSquare, AgreesWithSimulation) {
  Random random(3);
  for (const double sigma : {0.01, 0.1, 0.5, 1.0, 2.5, 6.0}) {
    double simulated = 0, predicted = 0;
    const int n = 200000;
    for (int i = 0; i < n; ++i) {
      const double value = random.uniform(-100, 100), rounded = std::nearbyint(value);
      const double moved = std::nearbyint(value + sigma * random.normal());
      simulated += (moved - rounded) * (moved - rounded);
      predicted += expected_square(rounded - value, sigma);
    }
    EXPECT_NEAR(simulated / predicted, 1, 0.05) << sigma;
  }
}

TEST(ExpectedSquare, IsTabulatedFinely) {
  for (int i = 0; i <= 50; ++i) {
    for (int j = 0; j <= 100; ++j) {
      const double offset = 0.01 * i, sigma = 0.25 + 0.0275 * j, exact = exact_expected_square(offset, sigma);
      EXPECT_NEAR(expected_square(offset, sigma), exact, 1e-3) << offset << " " << sigma;
      EXPECT_EQ(expected_square(-offset, sigma), expected_square(offset, sigma));
    }
  }
}

// More elements than are looked at twice: the first look must find what the second one would.
TEST(Screen, FindsWhatMeasuringFinds) {
  const auto op = std::find_if(operators().begin(), operators().end(),
                               [](const Operator& one) { return one.name == "silu f32"; });
  ASSERT_NE(op, operators().end());
  const Bench bench = bench_for(*op);
  trial::Trial trial = plain_trial(bench.contract, 1);
  trial.shape["N"] = 20000;
  const auto bindings = trial::make_inputs(bench.contract, trial);
  ASSERT_TRUE(bindings) << bindings.error().text();
  const Outputs right = op->variants.front().run({bench.contract, *bindings});
  const auto with = [&](const std::function<void(Tensor&)>& change) {
    Tensor y = *right.begin()->second;
    change(y);
    const auto judgement = judge(bench.contract, bench.reference, *bindings,
                                 {{right.begin()->first, std::make_shared<const Tensor>(std::move(y))}}, {});
    EXPECT_TRUE(judgement) << judgement.error().text();
    EXPECT_EQ(judgement->judged, 20000);
    return judgement->findings;
  };
  EXPECT_TRUE(with([](Tensor&) {}).empty());
  for (const int64_t at : {0, 8191, 8192, 11234, 19999}) {
    const auto findings = with([&](Tensor& y) { y.store(at, y.load(at) + 1); });
    ASSERT_EQ(findings.size(), 1u) << at;
    EXPECT_EQ(std::get<evidence::Numeric>(findings[0].evidence).outside, 1);
  }
  const auto nan = with([](Tensor& y) { y.store(15000, std::nan("")); });
  ASSERT_EQ(nan.size(), 1u);
  EXPECT_EQ(nan[0].kind, Kind::Nonfinite);
}

TEST(Foreseen, CountsForBudgetsOfItsKindOnly) {
  const Bench bench = bench_for(operators()[0]);
  const auto bindings = trial::make_inputs(bench.contract, plain_trial(bench.contract, 1));
  ASSERT_TRUE(bindings) << bindings.error().text();
  const Outputs right = operators()[0].variants.front().run({bench.contract, *bindings});
  Options options;
  Foreseen seen = foresee(bench.contract, bench.reference, *bindings, options);
  ASSERT_FALSE(seen.outputs.empty());
  // Values that no kernel gives, so that using them would fail a correct one.
  for (auto& [name, expected] : seen.outputs) {
    std::fill(expected.low.begin(), expected.low.end(), 1e30);
    std::fill(expected.high.begin(), expected.high.end(), 1e30);
    std::fill(expected.value.begin(), expected.value.end(), 1e30);
  }
  options.foreseen = &seen;
  EXPECT_FALSE(judge(bench.contract, bench.reference, *bindings, right, options)->findings.empty());
  options.tensor_cores = true;
  EXPECT_TRUE(judge(bench.contract, bench.reference, *bindings, right, options)->findings.empty());
}

// y = a x + z in f32, toward zero, where x is nothing beside z: the right result is z, and it is the number
// below.
TEST(Rounding, TowardZeroInF32IsBiased) {
  const auto contract = contract::parse(
      contract_of("x, z, y, N", "N = { min = 1, max = 100000 }",
                  {{"x", "bf16", "N", ""}, {"z", "f32", "N", ""}, {"y", "f32", "N", "role = \"out\"\n"}},
                  "y[n] = 1.5 * x[n] + z[n]"));
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  for (const int64_t n : {1, 8, 500}) {
    trial::Trial trial = plain_trial(*contract, 5);
    trial.shape["N"] = n;
    ASSERT_TRUE(trial::family_named("near-overflow", trial.families["z"]));
    const auto bindings = trial::make_inputs(*contract, trial);
    ASSERT_TRUE(bindings);
    const Call call{*contract, *bindings};
    const std::vector<float> x = call.in("x"), z = call.in("z");
    Tensor y = call.out("y");
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double exact = std::fma(1.5, static_cast<double>(x[at]), static_cast<double>(z[at]));
      auto cut = static_cast<float>(exact);
      // A sum that a double does not hold either lies beside it, on the side of x.
      const bool above = std::abs(static_cast<double>(cut)) > std::abs(exact) ||
                         (static_cast<double>(cut) == exact && x[at] * z[at] < 0);
      if (above) cut = std::nextafterf(cut, 0.0f);
      y.store(i, cut);
    }
    const auto judgement =
        judge(*contract, *reference, *bindings, {{"y", std::make_shared<const Tensor>(std::move(y))}}, {});
    ASSERT_TRUE(judgement);
    if (n == 1 && judgement->findings.empty()) continue;  // no error happened to round up
    ASSERT_FALSE(judgement->findings.empty()) << n;
    EXPECT_EQ(judgement->findings[0].kind, Kind::BiasedRounding)
        << n << ": " << message(judgement->findings[0]);
  }
}

// Sums of one number times others: long ones take no part in statistics, as their roundings are alike. All are right but a
// long one without its last term; of the short ones, one is the number below, as in another order of its additions.
TEST(Rounding, ALostTermIsNoBiasThoughTheRestOfTheOutputLeans) {
  const auto contract = contract::parse(
      contract_of("val, col, off, x, y", "R = { min = 1, max = 1000 }\nZ = { min = 0, max = 100000 }",
                  {{"val", "f32", "Z", ""},
                   {"col", "i32", "Z", "values = \"index(1)\"\n"},
                   {"off", "i32", "R + 1", "values = \"offsets(Z)\"\n"},
                   {"x", "f32", "1", ""},
                   {"y", "f32", "R", "role = \"out\"\n"}},
                  "y[r] = sum[j in off[r]..off[r + 1]](val[j] * x[col[j]])"));
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  constexpr int64_t kRows = 6, kLengths[kRows] = {100, 3, 257, 120, 5, 90}, kCut = 2, kBelow = 4;
  trial::Trial trial = plain_trial(*contract, 5);
  int64_t total = 0;
  for (const int64_t length : kLengths) total += length;
  trial.shape = {{"R", kRows}, {"Z", total}};
  auto bindings = trial::make_inputs(*contract, trial);
  ASSERT_TRUE(bindings);
  Tensor off = Tensor::zeros(DType::i32, {kRows + 1});
  for (int64_t r = 0; r < kRows; ++r) off.store_int(r + 1, off.load_int(r) + kLengths[r]);
  const Call call{*contract, *bindings};
  const std::vector<float> val = call.in("val"), x = call.in("x");
  Tensor y = call.out("y");
  for (int64_t r = 0; r < kRows; ++r) {
    float sum = 0;
    for (int64_t j = off.load_int(r); j < off.load_int(r + 1) - (r == kCut); ++j)
      sum = std::fma(val[static_cast<std::size_t>(j)], x[0], sum);
    y.store(r, r == kBelow ? std::nextafterf(sum, 0.0f) : sum);
  }
  bindings->inputs["off"] = std::make_shared<const Tensor>(std::move(off));
  const auto judgement =
      judge(*contract, *reference, *bindings, {{"y", std::make_shared<const Tensor>(std::move(y))}}, {});
  ASSERT_TRUE(judgement);
  ASSERT_EQ(judgement->findings.size(), 1u);
  EXPECT_EQ(judgement->findings[0].kind, Kind::WrongResult) << message(judgement->findings[0]);
}

TEST(Sample, HoldsEdgesAndExtremes) {
  Tensor tensor = Tensor::zeros(DType::f32, {5000, 100});
  tensor.store(3210 * 100 + 50, 1e6);
  tensor.store(1234 * 100, std::nan(""));
  const std::vector<int64_t> chosen = choose_elements(tensor, 20000, 1);
  EXPECT_LE(chosen.size(), 20100u);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  const auto has = [&](int64_t e) { return std::binary_search(chosen.begin(), chosen.end(), e); };
  EXPECT_TRUE(has(0));
  EXPECT_TRUE(has(5000 * 100 - 1));
  EXPECT_TRUE(has(1234 * 100));
}

TEST(Sample, TakesAllWhereItCan) {
  const Tensor tensor = Tensor::zeros(DType::bf16, {7, 11});
  EXPECT_EQ(choose_elements(tensor, 77, 1).size(), 77u);
}

// A thousand bins, each a sum that asks about every element.
TEST(Work, OfManyLongSumsIsBounded) {
  const auto contract = contract::parse(R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y"]
[dims]
n = { min = 1, max = 4194304 }
bins = { min = 1, max = 1024 }
[tensors.x]
dtype = "i32"
shape = ["n"]
values = "index(bins)"
[tensors.y]
dtype = "i32"
shape = ["bins"]
role = "out"
[reference]
formula = "y[b] = sum[i | x[i] == b](1)"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  constexpr int64_t kElements = 4096, kBins = 1024;
  contract::Bindings bindings;
  bindings.shape = {{"n", kElements}, {"bins", kBins}};
  Tensor x = Tensor::zeros(DType::i32, {kElements}), y = Tensor::zeros(DType::i32, {kBins});
  for (int64_t i = 0; i < kElements; ++i) x.store_int(i, i % kBins);
  for (int64_t b = 0; b < kBins; ++b) y.store_int(b, kElements / kBins);
  bindings.inputs = {{"x", std::make_shared<const Tensor>(std::move(x))}};
  Outputs outputs;
  outputs["y"] = std::make_shared<const Tensor>(std::move(y));
  const auto judged_with = [&](double work) {
    Options options;
    options.max_work = work;
    const auto judgement = judge(*contract, *reference, bindings, outputs, options);
    EXPECT_TRUE(judgement && judgement->findings.empty());
    return judgement ? judgement->judged : 0;
  };
  EXPECT_EQ(judged_with(1e6), kBins);
  EXPECT_LE(judged_with(1e4), 64);  // ten times the work would be 24 elements; of a row as many are chosen
  EXPECT_GE(judged_with(1), 16);
}

TEST(Tolerance, OverridesTheBudget) {
  Operator op = operators()[0];
  op.contract += "[require]\nrtol = 0.5\natol = 10.0\n";
  const Bench bench = bench_for(op);
  trial::Trial trial = plain_trial(bench.contract, 1);
  const auto bindings = trial::make_inputs(bench.contract, trial);
  for (const Variant& variant : op.variants) {
    if (variant.name == "truncating store") {
      EXPECT_TRUE(judged(bench, variant, *bindings).findings.empty());
    }
  }
}

}  // namespace
}  // namespace assay::judge::testing
