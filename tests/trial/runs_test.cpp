// Segments and integers of chosen sizes, and the trials that hold them.
#include "trial/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support.h"
#include "trial/families.h"
#include "trial/shapes.h"

namespace assay::trial {
namespace {

// Sums of rows between offsets: `rows` and `total` are expressions over B, H, Z and E.
Contract ragged(const std::string& rows, const std::string& total, const std::string& more = "") {
  auto contract = contract::parse(fmt::format(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "off", "y", "B"]
[dims]
B = {{ min = 1, max = 100000 }}
H = {{ min = 1, max = 64 }}
Z = {{ min = 0, max = 16000000 }}
E = 8
{2}
[tensors.x]
dtype = "f32"
shape = ["{1}"]
[tensors.off]
dtype = "i32"
shape = ["{0} + 1"]
values = "offsets({1})"
[tensors.y]
dtype = "f32"
shape = ["{0}"]
role = "out"
[reference]
formula = "y[r] = sum[j in off[r]..off[r + 1]](x[j])"
)toml",
                                              rows, total, more));
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

std::vector<int64_t> integers(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.load_int(i));
  return values;
}

std::vector<int64_t> lengths(const Contract& contract, const Trial& trial, const std::string& name = "off") {
  const auto inputs = make_inputs(contract, trial);
  EXPECT_TRUE(inputs) << inputs.error().text();
  const std::vector<int64_t> offsets = integers(*inputs->inputs.at(name));
  std::vector<int64_t> found;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) found.push_back(offsets[i + 1] - offsets[i]);
  return found;
}

TEST(Runs, OfSegmentsHaveTheirSizesInTurn) {
  const Contract contract = ragged("B", "Z");
  Trial trial;
  trial.shape = {{"B", 7}, {"H", 1}, {"Z", 23}, {"E", 8}};
  trial.runs["off"] = {2, 0, 5};
  EXPECT_EQ(lengths(contract, trial), (std::vector<int64_t>{2, 2, 0, 0, 5, 5, 9})) << "the last has the rest";
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 2), 2);
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 0), 2);
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 5), 3);
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 9), 0);
  trial.shape["Z"] = 8;  // where the total ends, so do the segments
  EXPECT_EQ(lengths(contract, trial), (std::vector<int64_t>{2, 2, 0, 0, 4, 0, 0}));
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 5), 0);
  EXPECT_EQ(run_of(*contract.tensor("off"), trial, 2), 2);
}

TEST(Runs, OfIntegersKeepToWhatIsLegal) {
  const Contract contract = with_input("i32", "integers(2, N)", R"(["N"])");
  Trial trial;
  trial.shape = {{"N", 5}, {"M", 8}};
  trial.runs["x"] = {1, 4, 9};
  const auto inputs = make_inputs(contract, trial);
  ASSERT_TRUE(inputs);
  EXPECT_EQ(integers(*inputs->inputs.at("x")), (std::vector<int64_t>{2, 4, 4, 5, 5}));
  EXPECT_EQ(run_of(*contract.tensor("x"), trial, 4), 2);
  EXPECT_EQ(run_of(*contract.tensor("x"), trial, 9), 0);
}

TEST(Runs, ArePartOfARecordedTrial) {
  const Contract contract = ragged("B", "Z");
  Trial trial;
  trial.shape = {{"B", 6}, {"H", 1}, {"Z", 40}, {"E", 8}};
  trial.runs["off"] = {7, 6};
  const auto again = from_json(contract, to_json(trial));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->runs, trial.runs);
  EXPECT_EQ(lengths(contract, *again), (std::vector<int64_t>{7, 7, 7, 6, 6, 7}));
  EXPECT_EQ(to_string(trial), "B=6 E=8 H=1 Z=40, off in runs of 7/6, seed 1");
  for (const auto& [name, sizes] :
       std::map<std::string, std::vector<int64_t>>{{"off", {-3}}, {"off", {}}, {"x", {3}}, {"none", {3}}}) {
    trial.runs = {{name, sizes}};
    EXPECT_FALSE(from_json(contract, to_json(trial))) << name;
  }
}

// The requirements by sizes of a plan: the lengths that rows r of a trial have, for each remainder r % m.
struct Met {
  std::map<int64_t, std::set<int64_t>> remainders;  // by length, of the rows of one required trial
  std::set<int64_t> alike;                          // lengths that hundreds of neighbours have
  std::size_t trials = 0;
};
Met met_by(const Contract& contract, const SizeConstants& constants, int64_t modulus,
           const std::string& name = "off") {
  PlanOptions options;
  options.constants = constants;
  Plan plan(contract, options);
  Met met;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    if (!planned.needed || !planned.trial.runs.contains(name)) continue;
    ++met.trials;
    const std::vector<int64_t> rows = lengths(contract, planned.trial, name);
    int64_t alike = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      met.remainders[rows[r]].insert(static_cast<int64_t>(r) % modulus);
      alike = r > 0 && rows[r] == rows[r - 1] ? alike + 1 : 1;
      if (alike >= 256) met.alike.insert(rows[r]);
    }
    plan.judged(planned.trial);
  }
  for (const Requirement* requirement : plan.requirements().open())
    EXPECT_FALSE(requirement->text.ends_with("in " + name)) << requirement->text;
  return met;
}

// `len > 256 && r % 7 == 3`, `len == 2560`, `len % 4 == 0 && len > 96`: nothing of that is a dim.
TEST(Runs, MeetEveryRemainderOfARow) {
  for (const int64_t modulus : {2, 3, 7, 8, 16}) {
    const Met met = met_by(ragged("B", "Z"), {{256, 96, 2560}, {{4, 0}}, {}}, modulus);
    for (const int64_t length :
         {0, 1, 31, 33, 95, 96, 97, 100, 127, 129, 255, 256, 257, 260, 1023, 1025, 2559, 2560, 2561, 2564}) {
      ASSERT_TRUE(met.remainders.contains(length)) << length;
      EXPECT_EQ(met.remainders.at(length).size(), static_cast<std::size_t>(modulus)) << length;
    }
    EXPECT_LE(met.trials, 20u);
  }
}

TEST(Runs, OfLongRowsFillABlock) {
  const Met met = met_by(ragged("B", "Z"), {{256, 96}, {}, {}}, 2);
  EXPECT_TRUE(met.alike.contains(97));
  EXPECT_TRUE(met.alike.contains(257));
}

TEST(Runs, FitWhereTheTotalOrTheRowsAreExpressions) {
  for (const auto& [rows, total] : std::vector<std::pair<std::string, std::string>>{
           {"B * H", "Z"}, {"B", "H * Z"}, {"B", "Z + 3 * B"}, {"2 * B", "16 * (Z + H)"}}) {
    const Met met = met_by(ragged(rows, total), {{256}, {}, {}}, 7);
    for (const int64_t length : {255, 256, 257}) {
      ASSERT_TRUE(met.remainders.contains(length)) << rows << ", " << total << ": " << length;
      EXPECT_EQ(met.remainders.at(length).size(), 7u) << rows << ", " << total << ": " << length;
    }
  }
  // Eight rows, no more.
  const Met met = met_by(ragged("E", "Z"), {{256}, {}, {}}, 1);
  for (const int64_t length : {255, 256, 257}) EXPECT_TRUE(met.remainders.contains(length)) << length;
}

TEST(Runs, KeepToTheRelationsBetweenDims) {
  const Contract contract = ragged("B", "Z", "require = [\"Z % 16 == 0\", \"B <= Z + 1\"]");
  const Met met = met_by(contract, {{256}, {}, {}}, 7);
  for (const int64_t length : {255, 256, 257}) EXPECT_EQ(met.remainders.at(length).size(), 7u) << length;
}

// Two tensors of offsets: each in turn, the other as usual. A table of pointers to segments follows its offsets.
TEST(Runs, AreOfEachTensorOfOffsets) {
  const auto contract = contract::parse(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["q", "keys", "of_q", "of_k", "y", "B"]
[dims]
B = { min = 1, max = 4096 }
Q = { min = 0, max = 100000 }
K = { min = 0, max = 100000 }
[tensors.q]
dtype = "f32"
shape = ["Q"]
[tensors.keys]
dtype = "f32"
shape = ["K"]
pointers = "of_k"
[tensors.of_q]
dtype = "i32"
shape = ["B + 1"]
values = "offsets(Q)"
[tensors.of_k]
dtype = "i32"
shape = ["B + 1"]
values = "offsets(K)"
[tensors.y]
dtype = "f32"
shape = ["B"]
role = "out"
[reference]
formula = "y[b] = sum[i in of_q[b]..of_q[b + 1]](q[i]) + sum[j in of_k[b]..of_k[b + 1]](keys[j])"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  for (const std::string name : {"of_q", "of_k"}) {
    const Met met = met_by(*contract, {{100}, {}, {}}, 7, name);
    for (const int64_t length : {99, 100, 101}) EXPECT_EQ(met.remainders.at(length).size(), 7u) << name;
  }
}

// Lengths of rows in a tensor, which the contract bounds by a dim.
TEST(Runs, AreOfLengthsInATensor) {
  const Contract contract = with_input("i32", "integers(0, N)", R"(["M"])");
  PlanOptions options;
  options.constants.compared = {256};
  Plan plan(contract, options);
  std::set<int64_t> found;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    if (!planned.needed || planned.trial.runs.empty()) continue;
    const auto inputs = make_inputs(contract, planned.trial);
    ASSERT_TRUE(inputs);
    for (const int64_t value : integers(*inputs->inputs.at("x"))) found.insert(value);
  }
  for (const int64_t value : {0, 1, 255, 256, 257}) EXPECT_TRUE(found.contains(value)) << value;
  EXPECT_FALSE(has_sizes(*with_input("i8", "integers(-3, 3)").tensor("x"))) << "these are data";
}

TEST(Runs, AreMadeAgainInRandomTrialsOfLegalShapes) {
  const Contract contract = ragged("B", "Z");
  PlanOptions options;
  options.constants.compared = {100};
  Plan plan(contract, options);
  for (std::size_t left = plan.planned(); left > 0; --left) plan.next(below(contract, 1e6));
  int in_runs = 0;
  for (int i = 0; i < 100; ++i) {
    const Trial trial = plan.next(below(contract, 1e6)).trial;
    EXPECT_TRUE(contract.check_shape(trial.shape));
    if (trial.runs.empty()) continue;
    EXPECT_FALSE(trial.families.contains("off")) << "none of its families is tried";
    ++in_runs;
    const std::vector<int64_t> rows = lengths(contract, trial);
    const std::vector<int64_t>& sizes = trial.runs.at("off");
    for (std::size_t r = 0; r + 1 < rows.size(); ++r)
      EXPECT_TRUE(rows[r] >= 0 && rows[r] <= *std::max_element(sizes.begin(), sizes.end()));
  }
  EXPECT_GE(in_runs, 10);
}

}  // namespace
}  // namespace assay::trial
