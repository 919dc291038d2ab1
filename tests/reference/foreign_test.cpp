// References that are not formulas, and the text behind `assay formula`.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "folders.h"
#include "operators.h"
#include "reference/describe.h"

namespace assay::reference {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::string folder() {
  const fs::path path = fs::path(kBinaryFolder) / "foreign_test";
  fs::create_directories(path);
  setenv("ASSAY_PYTHON", "/usr/bin/python3", 0);
  return path.string();
}

Contract python_contract(const std::string& source, const std::string& outputs = "") {
  const std::string where = folder();
  std::ofstream(where + "/ref.py") << source;
  std::ofstream(where + "/c.toml") << contract_text(R"toml([dims]
N = { min = 1, max = 64 }
D = { min = 1, max = 512 }
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
[tensors.i]
dtype = "i32"
shape = ["N"]
values = "index(D)"
[tensors.y]
dtype = "bf16"
shape = ["N"]
role = "out"
)toml" + outputs + R"toml(
[scalars.eps]
dtype = "f32"
value = 0.1
[reference]
python = "ref.py:f"
)toml",
                                                    outputs.empty() ? "\"y\"" : "\"y\", \"z\"");
  Result<Contract> contract = load(where + "/c.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return contract ? *contract : Contract{};
}

Bindings python_bindings() {
  Bindings bindings;
  bindings.shape = {{"N", 5}, {"D", 40}};
  bindings.inputs["x"] = normal(DType::bf16, {5, 40}, 1);
  bindings.inputs["i"] = uniform_integers(DType::i32, {5}, 0, 39, 2);
  bindings.scalars["eps"] = Scalar::of(DType::f32, 0.1);
  return bindings;
}

TEST(Python, IsCalledWithFloat64ByArgumentName) {
  const Contract contract = python_contract(R"py(
import numpy as np
def f(i, x, eps, D):
    assert x.dtype in (np.float64, np.float32) and i.dtype == np.int32
    return np.exp(x).sum(1) / D + eps + x[np.arange(len(i)), i]
)py");
  const Bindings bindings = python_bindings();
  const Expectation e = expected(contract, bindings, "y");
  ASSERT_EQ(e.size(), 5u);
  for (int64_t n = 0; n < 5; ++n) {
    long double sum = 0;
    for (int64_t d = 0; d < 40; ++d)
      sum += std::exp(static_cast<long double>(bindings.inputs.at("x")->load(n * 40 + d)));
    const double own = bindings.inputs.at("x")->load(n * 40 + bindings.inputs.at("i")->load_int(n));
    const auto at = static_cast<std::size_t>(n);
    const double truth = static_cast<double>(sum / 40) + static_cast<double>(0.1f) + own;
    EXPECT_NEAR(e.value[at], truth, 1e-12);
    EXPECT_TRUE(e.admits(at, rounded(DType::bf16, static_cast<float>(truth))));
    EXPECT_GT(e.bound[at], 0);
    EXPECT_LT(e.bound[at], 1e-4);
  }
}

// A scan that works in float64 inside tells nothing of what float32 loses; how it answers to moved inputs
// does.
TEST(Python, TheBudgetHoldsASequentialScanInF32AndNotOneInBf16) {
  const std::string where = folder();
  std::ofstream(where + "/scan.py") << R"py(
import numpy as np
def f(x):
    return np.cumsum(x.astype(np.float64))
)py";
  std::ofstream(where + "/scan.toml") << contract_text(R"toml([dims]
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
python = "scan.py:f"
)toml",
                                                       "\"y\"");
  Result<Contract> contract = load(where + "/scan.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  for (const double mean : {0.0, 3.0}) {
    Bindings bindings;
    bindings.shape = {{"N", 4096}};
    Tensor x = *normal(DType::f32, {4096}, 7);
    for (int64_t i = 0; i < x.count(); ++i) x.store(i, x.load(i) + mean);
    bindings.inputs["x"] = std::make_shared<const Tensor>(x);
    const Expectation e = expected(*contract, bindings, "y");
    ASSERT_EQ(e.size(), 4096u);
    float single = 0, narrow = 0;
    int outside = 0, outside_narrow = 0;
    for (std::size_t i = 0; i < 4096; ++i) {
      single += static_cast<float>(x.load(static_cast<int64_t>(i)));
      narrow =
          static_cast<float>(Scalar::of(DType::bf16, narrow + x.load(static_cast<int64_t>(i))).as_double());
      outside += std::abs(single - e.value[i]) > e.bound[i];
      outside_narrow += std::abs(narrow - e.value[i]) > e.bound[i];
    }
    EXPECT_EQ(outside, 0) << "mean " << mean;
    EXPECT_GT(outside_narrow, 3000) << "mean " << mean;
  }
}

TEST(Python, ReturnsADictATupleOrAnArray) {
  const char* const kSources[] = {
      "def f(x):\n    return {'y': x.sum(1), 'z': x.max(1)}\n",
      "def f(x):\n    return x.sum(1), x.max(1)\n",
  };
  for (const char* source : kSources) {
    const Contract contract =
        python_contract(source, "[tensors.z]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n");
    const Bindings bindings = python_bindings();
    double most = -1e9;
    for (int64_t d = 0; d < 40; ++d) most = std::max(most, bindings.inputs.at("x")->load(d));
    EXPECT_EQ(expected(contract, bindings, "z").value[0], most);
  }
}

TEST(Python, MistakesAreNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"def g(x):\n    return x\n", "there is no function 'f'"},
      {"def f(w):\n    return w\n", "asks for 'w'"},
      {"def f(x):\n    return x, x\n", "returned 2 outputs"},
      {"def f(x):\n    return x\n", "with the shape [5, 40], the contract says"},
      {"def f(x):\n    return x.T\n", "with the shape [40, 5], the contract says"},
      {"def f(x):\n    raise ValueError('no luck')\n", "no luck"},
      {"def f(x)\n    return 1\n", "SyntaxError"},
  };
  for (const auto& [source, message] : kCases) {
    Result<Expectation> e = reference_of(python_contract(source)).expect_all(python_bindings(), "y");
    ASSERT_FALSE(e) << source;
    EXPECT_NE(e.error().message.find(message), std::string::npos) << e.error().text();
  }
}

// An interpreter that does not see the packages of its site has no NumPy.
TEST(Python, WithoutNumPyTheErrorSaysWhatToInstall) {
  const std::filesystem::path script = std::filesystem::temp_directory_path() / "assay_python_without_numpy";
  std::ofstream(script) << "#!/bin/sh\nexec python3 -I -S \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const char* before = std::getenv("ASSAY_PYTHON");
  const std::string kept = before ? before : "";
  setenv("ASSAY_PYTHON", script.c_str(), 1);
  Result<Expectation> e =
      reference_of(python_contract("def f(x):\n    return x\n")).expect_all(python_bindings(), "y");
  before ? setenv("ASSAY_PYTHON", kept.c_str(), 1) : unsetenv("ASSAY_PYTHON");
  std::filesystem::remove(script);
  ASSERT_FALSE(e);
  EXPECT_NE(e.error().message.find("has no NumPy: install it"), std::string::npos) << e.error().text();
}

TEST(Cuda, NeedsAProvider) {
  const Contract contract = parsed(contract_text(R"toml([tensors.y]
dtype = "f32"
shape = [2]
role = "out"
[reference]
cuda = { source = "naive.cu", entry = "naive" }
)toml"));
  EXPECT_EQ(contract.reference.cuda_entry, "naive");
  Result<Expectation> none = reference_of(contract).expect_all({}, "y");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("not available here"), std::string::npos);
  const ReferenceProvider provider = [](const Contract&,
                                        const Bindings&) -> Result<std::map<std::string, Tensor>> {
    const Tensor lossless = Tensor::zeros(DType::f64, {2});
    return std::map<std::string, Tensor>{{"y", Tensor::of(DType::f64, {2}, std::vector<double>{1.0 / 3, 2})},
                                         {"y@spread", lossless},
                                         {"y@largest", lossless}};
  };
  Result<Reference> reference = Reference::make(contract, provider);
  ASSERT_TRUE(reference);
  Result<Expectation> e = reference->expect_all({}, "y");
  ASSERT_TRUE(e) << e.error().text();
  EXPECT_TRUE(e->admits(0, 1.0f / 3));
  EXPECT_FALSE(e->admits(0, 0.334));
}

TEST(Describe, TellsRangesLengthsAndBudgets) {
  Result<std::string> text = describe(parsed(toml_of(operator_named("embedding_grad"))));
  ASSERT_TRUE(text) << text.error().text();
  for (const char* part : {"y[t[i], d]", "over i in 0..T", "400 values, each to its own place", "budget of y",
                           "f32, in any order", "stored in bf16"})
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  text = describe(parsed(toml_of(operator_named("softmax"))));
  ASSERT_TRUE(text);
  for (const char* part : {"max over j in 0..D: 100 terms", "exp:", "stored in f32, as computed"})
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
}

TEST(Describe, EveryOperatorCanBeDescribed) {
  for (const Operator& op : operators()) {
    Result<std::string> text = describe(parsed(toml_of(op)));
    ASSERT_TRUE(text) << op.name << text.error().text();
    EXPECT_EQ(text->find('?'), std::string::npos) << *text;
  }
}

TEST(Defects, EachAppliesSomewhereAndChangesTheResult) {
  ASSERT_GE(defects().size(), 15u);
  for (const Defect& defect : defects()) {
    int applies = 0, changes = 0;
    for (const Operator& op : operators()) {
      const Contract contract = parsed(toml_of(op));
      const Reference reference = reference_of(contract);
      if (!reference.applies(defect)) continue;
      ++applies;
      Bindings bindings = draw_bindings(contract, 5);
      if (defect.no_max_subtraction && bindings.inputs.contains("x"))
        bindings.inputs["x"] = normal(bindings.inputs["x"]->dtype, bindings.inputs["x"]->extents, 3, 1, 95);
      if (defect.one_pass_variance)
        bindings.inputs["x"] = normal(DType::f32, bindings.inputs["x"]->extents, 3, 1, 100);
      if (defect.hides_nan && bindings.inputs.contains("x")) {
        Tensor x = *bindings.inputs["x"];
        x.store(0, std::nan(""));
        bindings.inputs["x"] = share(std::move(x));
      }
      for (const TensorSpec* spec : contract.outputs()) {
        std::vector<int64_t> all(
            static_cast<std::size_t>(Tensor::zeros(DType::u8, *spec->extents(bindings.shape)).count()));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
        Result<std::vector<double>> sound = reference.simulate(bindings, spec->name, all);
        Result<std::vector<double>> bad = reference.simulate(bindings, spec->name, all, defect);
        ASSERT_TRUE(sound && bad) << op.name << " " << defect.name;
        for (std::size_t i = 0; i < all.size(); ++i)
          if (!((*sound)[i] == (*bad)[i]) && !(std::isnan((*sound)[i]) && std::isnan((*bad)[i]))) {
            ++changes;
            break;
          }
      }
    }
    EXPECT_GT(applies, 0) << defect.name;
    EXPECT_GT(changes, 0) << defect.name;
  }
}

}  // namespace
}  // namespace assay::reference
