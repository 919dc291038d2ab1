// Contracts and plans that several tests of this room use.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trial/plan.h"
#include "trial/trial.h"

namespace assay::trial {

using contract::Contract;
using contract::Shape;
using contract::Tensor;

inline Contract parsed(const std::string& tensors, const std::string& more = "",
                       const std::string& args = R"("x", "y", "N", "M")") {
  const std::string text = R"(
[kernel]
source = "k.cu"
entry = "k"
args = [)" + args + R"(]
[dims]
N = { min = 1, max = 5000 }
M = { min = 8, max = 4096, multiple_of = 8 }
[tensors.y]
dtype = "f32"
shape = ["N", "M"]
role = "out"
)" + tensors + R"(
[reference]
formula = "y[i, j] = 0"
)" + more;
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

inline Contract with_input(const std::string& dtype, const std::string& values,
                           const std::string& shape = R"(["N", "M"])") {
  return parsed("[tensors.x]\ndtype = \"" + dtype + "\"\nshape = " + shape + "\nvalues = \"" + values +
                "\"\n");
}

inline Plan::Affordable below(const Contract& contract, double elements) {
  return [&contract, elements](const Shape& shape, bool) {
    return size_of(contract, shape)->elements <= elements;
  };
}

inline std::vector<PlannedTrial> first_trials(const Contract& contract, uint64_t seed, int count) {
  Plan plan(contract, {.seed = seed});
  std::vector<PlannedTrial> trials;
  for (int i = 0; i < count; ++i) trials.push_back(plan.next(below(contract, 1e6)));
  return trials;
}

inline constexpr const char* kRelated = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "b", "y", "C", "K", "N", "mode"]
[dims]
G = { min = 1, max = 64 }
CPG = { min = 1, max = 64 }
C = "G * CPG"
K = { min = 1, max = 8192 }
N = { min = 1, max = 65536 }
require = ["K <= N", "N % G == 0"]
[tensors.x]
dtype = "f32"
shape = ["C", "K"]
strides = ["N", 1]
[tensors.b]
dtype = "f32"
shape = ["K"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["C", "K"]
role = "out"
[scalars.mode]
dtype = "i32"
values = [0, 1]
[reference]
formula = "y[c, k] = x[c, k]"
[[case]]
when = "mode == 1"
formula = "y[c, k] = -x[c, k]"
)";

// A contract of a Python function with two shapes and a generator.
inline Contract of_problem(const std::string& values) {
  return *contract::parse(
      "only_listed_shapes = true\n[kernel]\npython = \"answer.py:run\"\nargs = [\"x\", \"i\"]\n"
      "[dims]\nN = { min = 1, max = 4096 }\n[[shapes]]\nN = 48\n[[shapes]]\nN = 300\n"
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n"
      "[tensors.i]\ndtype = \"i64\"\nshape = [\"N\"]\nvalues = \"" +
          values +
          "\"\n[tensors.y]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n"
          "[reference]\ntorch = \"reference.py:run\"\n[inputs]\ntorch = \"inputs.py:make\"\n",
      "test.toml");
}

// A contract with two inputs, so that families and NaN have something to choose from.
inline Contract two_inputs(const std::string& more = "") {
  return parsed(
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\", \"M\"]\n"
      "[tensors.z]\ndtype = \"f32\"\nshape = [\"M\"]\n",
      more);
}

}  // namespace assay::trial
