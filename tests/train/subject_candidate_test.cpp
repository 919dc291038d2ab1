// Kernels of the corpus as candidates: what they give under the slot's names is what the slot's formula admits.
#include "train/subject_candidate.h"

#include <gmock/gmock.h>

#include "folders.h"
#include "reference/reference.h"
#include "train/recognise.h"
#include "trial/trial.h"

namespace assay::train {
namespace {

using contract::Shape;

subject::RunnerOptions of_this_build() {
  subject::RunnerOptions options;
  options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
  options.cudart = std::string(kBinaryFolder) + "/lib";
  options.timeout = kCallSeconds;
  return options;
}

contract::Contract corpus_contract(const std::string& operation) {
  auto contract = contract::load(std::string(kSourceFolder) + "/corpus/" + operation + "/contract.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

Candidate candidate_of(const contract::Contract& contract) {
  const auto found = recognise(contract);
  EXPECT_FALSE(found.empty());
  const auto built = subject::build(contract, {});
  EXPECT_TRUE(built.subject) << built.failure.error.text();
  auto candidate = subject_candidate(contract, found.front().binding, *built.subject, of_this_build());
  EXPECT_TRUE(candidate) << candidate.error().text();
  return std::move(*candidate);
}

// The slot as a contract with the candidate's dtypes.
contract::Contract slot_with(const Candidate& candidate) {
  Slot slot = *candidate.slot;
  for (SlotTensor& tensor : slot.tensors)
    if (const auto dtype = candidate.dtypes.find(tensor.name); dtype != candidate.dtypes.end())
      tensor.dtype = dtype->second;
  auto contract = contract::parse(contract_text(slot), "slot.toml");
  EXPECT_TRUE(contract);
  return std::move(*contract);
}

contract::Bindings inputs_for(const Candidate& candidate, const Shape& shape) {
  trial::Trial trial;
  trial.shape = shape;
  for (const SlotScalar& scalar : candidate.slot->scalars)
    trial.scalars[std::string(scalar.name)] = contract::Scalar::of(scalar.dtype, scalar.usual);
  auto inputs = trial::make_inputs(slot_with(candidate), trial);
  EXPECT_TRUE(inputs);
  return std::move(*inputs);
}

void expect_right(const Candidate& candidate, const Shape& shape) {
  const contract::Bindings inputs = inputs_for(candidate, shape);
  ASSERT_EQ(candidate.refuses(shape), "");
  const CallResult result = candidate.call(inputs);
  ASSERT_TRUE(std::holds_alternative<Outputs>(result)) << std::get<CallFailure>(result).error.text();
  const auto reference = reference::Reference::make(slot_with(candidate));
  ASSERT_TRUE(reference);
  for (const auto& [name, tensor] : std::get<Outputs>(result)) {
    const auto expected = reference->expect_all(inputs, name);
    ASSERT_TRUE(expected);
    ASSERT_EQ(static_cast<int64_t>(expected->size()), tensor.count()) << name;
    for (std::size_t i = 0; i < expected->size(); ++i)
      ASSERT_TRUE(expected->admits(i, tensor, static_cast<int64_t>(i))) << name << " " << i;
  }
}

class SubjectCandidate : public ::testing::Test {
 protected:
  void SetUp() override {
    if (subject::find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  }
};

TEST_F(SubjectCandidate, ScattersPackedInputs) {
  const Candidate candidate = candidate_of(corpus_contract("swiglu"));
  EXPECT_EQ(candidate.dtypes.size(), 3u);
  expect_right(candidate, {{"T", 5}, {"F", 24}});
  expect_right(candidate, {{"T", 64}, {"F", 7}});  // another shape in the same process
}

TEST_F(SubjectCandidate, TakesAFlatTensor) {
  expect_right(candidate_of(corpus_contract("gelu")), {{"T", 9}, {"F", 33}});
}

TEST_F(SubjectCandidate, GetsScalarsAndInouts) {
  const Candidate candidate = candidate_of(corpus_contract("adamw"));
  EXPECT_TRUE(candidate.scalars.empty());  // it admits all usual values
  expect_right(candidate, {{"n", 1000}});
}

TEST_F(SubjectCandidate, IsCalledInSlices) {
  const Candidate candidate = candidate_of(corpus_contract("attention"));  // H is 32 at most
  expect_right(candidate, {{"H", 96}, {"S", 9}, {"D", 16}});
  EXPECT_THAT(candidate.refuses({{"H", 64}, {"S", 4096}, {"D", 16}}), ::testing::HasSubstr("S = 4096"));
}

TEST_F(SubjectCandidate, IsFixedByItsContract) {
  const Candidate candidate = candidate_of(corpus_contract("rmsnorm_backward"));  // its eps is 1e-5
  EXPECT_EQ(candidate.scalars.at("eps"), 1e-5);
  EXPECT_THAT(candidate.refuses({{"T", 65536}, {"D", 8}}),
              ::testing::HasSubstr("N = 65536"));  // dw is a sum over T
}

CallFailure failure_of(const std::string& operation, const std::string& source, const Shape& shape) {
  contract::Contract contract = corpus_contract(operation);
  contract.kernel.sources = {source};
  const Candidate candidate = candidate_of(contract);
  const CallResult result = candidate.call(inputs_for(candidate, shape));
  EXPECT_TRUE(std::holds_alternative<CallFailure>(result));
  return std::holds_alternative<CallFailure>(result) ? std::get<CallFailure>(result) : CallFailure{};
}

// What a kernel does to memory that is not its own is a finding, not a result.
TEST_F(SubjectCandidate, FindsAChangedInput) {
  const CallFailure failure = failure_of("adamw", "wrong/gradient_cleared.cu", {{"n", 256}});
  EXPECT_EQ(failure.error.text(),
            "the kernel failed at n=256: it changed its input `g`; `assay check` shows more");
  ASSERT_EQ(failure.findings.size(), 1u);
  EXPECT_EQ(failure.findings[0].kind, Kind::ClobberedInput);
  EXPECT_EQ(std::get<evidence::Access>(failure.findings[0].evidence).input, "g");
  EXPECT_GT(failure.findings[0].where.line, 0);  // the call was made again with checks
}

}  // namespace
}  // namespace assay::train
