// The first example of CONTRACT.md: the embedding gradient.
#include <chrono>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;

const char* const kEmbedding = R"toml(title = "Embedding gradient, bf16"

[kernel]
source = "embedding_grad.cu"              # .cu or .ptx; a list is allowed
entry  = "embedding_grad"                 # an extern "C" host function that launches on a stream
args   = ["dy", "tokens", "dw", "T", "D", "V", "stream"]
flags  = ["-O3"]                          # more compiler flags (optional)
arch   = "sm_90"                          # default

[dims]                                    # what the kernel promises to support
T = { min = 1, max = 65536 }
D = { min = 8, max = 8192, multiple_of = 8 }
V = { min = 1, max = 262144, type = "i32" }

[[shapes]]                                # workloads that must be among those checked (optional)
T = 4096
D = 1024
V = 32000

[tensors.dy]
dtype  = "bf16"
shape  = ["T", "D"]
values = "gradients"

[tensors.tokens]
dtype  = "i64"
shape  = ["T"]
values = "tokens(V)"

[tensors.dw]
dtype = "bf16"
shape = ["V", "D"]
role  = "out"

[reference]
formula = """
dw[tokens[t], d] += dy[t, d]
"""
accumulate = "f32"
)toml";

constexpr int kFormulaLine = 37;  // of the statement, counted in the text above

struct Case {
  Contract contract = parsed(kEmbedding);
  Bindings bindings;
  int64_t T, D, V;
  Case(int64_t t, int64_t d, int64_t v, double mean = 0.5) : T(t), D(d), V(v) {
    bindings.shape = {{"T", T}, {"D", D}, {"V", V}};
    bindings.inputs["dy"] = normal(DType::bf16, {T, D}, 1, 1, mean);
    bindings.inputs["tokens"] = uniform_integers(DType::i64, {T}, 0, std::max<int64_t>(V / 8, 1) - 1, 2);
  }
};

TEST(Embedding, ReadsEveryKey) {
  const Contract contract = parsed(kEmbedding);
  EXPECT_EQ(contract.title, "Embedding gradient, bf16");
  EXPECT_EQ(contract.kernel.sources, std::vector<std::string>{"embedding_grad.cu"});
  EXPECT_EQ(contract.kernel.entry, "embedding_grad");
  ASSERT_EQ(contract.kernel.args.size(), 7u);
  EXPECT_EQ(contract.kernel.args[0].kind, ArgKind::Tensor);
  EXPECT_EQ(contract.kernel.args[3].kind, ArgKind::Dim);
  EXPECT_EQ(contract.kernel.args[6].kind, ArgKind::Stream);
  ASSERT_EQ(contract.dims.size(), 3u);
  EXPECT_EQ(contract.dims[0].name, "T");
  EXPECT_EQ(contract.dims[1].multiple_of, 8);
  ASSERT_EQ(contract.shapes.size(), 1u);
  EXPECT_EQ(contract.shapes[0].at("V"), 32000);
  EXPECT_EQ(contract.tensor("tokens")->values.kind, ValuesKind::Tokens);
  EXPECT_EQ(contract.tensor("dw")->role, Role::Out);
  EXPECT_EQ(contract.reference.accumulate, DType::f32);
  EXPECT_EQ(contract.reference.formula_place.line, kFormulaLine);
}

TEST(Embedding, SumsEveryHit) {
  const Case c(300, 24, 64);
  const Expectation e = expected(c.contract, c.bindings, "dw");
  ASSERT_EQ(e.size(), static_cast<std::size_t>(c.V * c.D));
  std::vector<long double> sum(e.size(), 0), size(e.size(), 0);
  std::vector<double> hits(e.size(), 0);
  for (int64_t t = 0; t < c.T; ++t)
    for (int64_t d = 0; d < c.D; ++d) {
      const auto at = static_cast<std::size_t>(c.bindings.inputs.at("tokens")->load_int(t) * c.D + d);
      const double x = c.bindings.inputs.at("dy")->load(t * c.D + d);
      sum[at] += x;
      size[at] += std::abs(x);
      hits[at] += 1;
    }
  for (std::size_t i = 0; i < e.size(); ++i) {
    EXPECT_EQ(e.value[i], static_cast<double>(sum[i])) << i;
    EXPECT_NEAR(e.magnitude[i], static_cast<double>(size[i]), 1e-12 * static_cast<double>(size[i]));
    EXPECT_EQ(e.terms[i], std::max(1.0, hits[i]));
    const double stored = rounded(DType::bf16, e.value[i]);
    EXPECT_TRUE(e.admits(i, stored));
    EXPECT_LE(e.low[i], stored);
    EXPECT_GE(e.high[i], stored);
  }
}

TEST(Embedding, SomeElementsAreThoseOfAll) {
  const Case c(2000, 40, 16);
  const Expectation all = expected(c.contract, c.bindings, "dw");
  const std::vector<int64_t> some = {639, 0, 77, 78, 5, 320};
  Result<Expectation> e = reference_of(c.contract).expect(c.bindings, "dw", some);
  ASSERT_TRUE(e) << e.error().text();
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto at = static_cast<std::size_t>(some[i]);
    EXPECT_EQ(e->value[i], all.value[at]);
    EXPECT_NEAR(e->bound[i], all.bound[at], 1e-12 * all.bound[at]);
    EXPECT_EQ(e->terms[i], all.terms[at]);
  }
}

TEST(Embedding, SimulatedBf16AccumulatorLosesWhatTheBudgetForbids) {
  const Case c(4096, 8, 8, 1.0);
  const Reference reference = reference_of(c.contract);
  const Expectation e = expected(c.contract, c.bindings, "dw");
  Result<std::vector<double>> sound = reference.simulate(c.bindings, "dw", e.element);
  Defect defect;
  defect.accumulator = DType::bf16;
  Result<std::vector<double>> bad = reference.simulate(c.bindings, "dw", e.element, defect);
  ASSERT_TRUE(sound && bad);
  int outside = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    EXPECT_TRUE(e.admits(i, (*sound)[i])) << i;
    outside += !e.admits(i, (*bad)[i]);
  }
  EXPECT_GE(outside, 7);  // one row is hit; all 8 of its elements may round alike by luck
}

TEST(Embedding, AWrongTokenIsAnErrorWithItsPlace) {
  Case c(64, 8, 8);
  Tensor tokens = *c.bindings.inputs["tokens"];
  tokens.store_int(5, 8);
  c.bindings.inputs["tokens"] = share(std::move(tokens));
  Result<Expectation> e = reference_of(c.contract).expect_all(c.bindings, "dw");
  ASSERT_FALSE(e);
  EXPECT_EQ(e.error().line, kFormulaLine);
  EXPECT_NE(e.error().message.find("index 1 is 8, but only 0 to 7 exist"), std::string::npos)
      << e.error().text();
}

}  // namespace
}  // namespace assay::reference
