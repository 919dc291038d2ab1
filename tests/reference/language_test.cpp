// The formula language, one rule of the contract at a time.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// y from x (f32, N by D), i (i64, N) and b (bool, N) by a formula.
class Small {
 public:
  explicit Small(const std::string& formula, const std::string& y = "dtype = \"f32\"\nshape = [\"N\"]",
                 int64_t n = 6, int64_t d = 5) {
    const std::string text = contract_text(
        fmt::format(R"toml([dims]
N = {{ min = 1, max = 64 }}
D = {{ min = 1, max = 64 }}
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
[tensors.i]
dtype = "i64"
shape = ["N"]
[tensors.b]
dtype = "bool"
shape = ["N"]
[tensors.old]
dtype = "f32"
shape = ["N"]
role = "inout"
[tensors.y]
{}
role = "out"
[scalars.eps]
dtype = "bf16"
value = 0.3
[reference]
formula = """
{}
"""
)toml",
                    y,
                    formula.find("old[") == std::string::npos || formula.find("old[n] =") == std::string::npos
                        ? formula + "\nold[n] = old[n]"
                        : formula),
        "\"y\", \"old\"");
    contract_ = parsed(text);
    bindings_.shape = {{"N", n}, {"D", d}};
    std::vector<double> values(static_cast<std::size_t>(n * d));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>((k * 7 + 3) % 11) - 5;
    bindings_.inputs["x"] = share(Tensor::of(DType::f32, {n, d}, values));
    Tensor ids = Tensor::zeros(DType::i64, {n}), flags = Tensor::zeros(DType::boolean, {n}),
           old = Tensor::zeros(DType::f32, {n});
    for (int64_t k = 0; k < n; ++k) {
      ids.store_int(k, (k * k) % n);
      flags.store_int(k, k % 2);
      old.store(k, static_cast<double>(100 + k));
    }
    bindings_.inputs["i"] = share(std::move(ids));
    bindings_.inputs["b"] = share(std::move(flags));
    bindings_.inputs["old"] = share(std::move(old));
    bindings_.scalars["eps"] = Scalar::of(DType::bf16, 0.3);
  }

  Expectation run() const { return expected(contract_, bindings_, "y"); }
  std::vector<double> values() const { return run().value; }
  std::vector<double> simulated(const Defect& defect) const {
    std::vector<int64_t> all(static_cast<std::size_t>(bindings_.shape.at("N")));
    std::iota(all.begin(), all.end(), int64_t{0});
    auto result = reference_of(contract_).simulate(bindings_, "y", all, defect);
    if (!result) ADD_FAILURE() << result.error().text();
    return result ? std::move(*result) : std::vector<double>(all.size());
  }
  double x(int64_t n, int64_t d) const {
    return bindings_.inputs.at("x")->load(n * bindings_.shape.at("D") + d);
  }
  int64_t i(int64_t n) const { return bindings_.inputs.at("i")->load_int(n); }
  Bindings& bindings() { return bindings_; }

 private:
  Contract contract_;
  Bindings bindings_;
};

TEST(Language, ReductionsOfEveryKind) {
  const Small sum("y[n] = sum[d](x[n, d])"), mean("y[n] = mean[d](x[n, d])"), max("y[n] = max[d](x[n, d])"),
      min("y[n] = min[d](x[n, d])"), arg("y[n] = argmax[d](x[n, d])"),
      both("y[n] = x[n, 0] + 0 * sum[k, d](x[k, d]) + sum[k in 0..N, d in 0..D](1)");
  for (int64_t n = 0; n < 6; ++n) {
    double s = 0, high = -kInfinite, low = kInfinite;
    int64_t which = 0;
    for (int64_t d = 0; d < 5; ++d) {
      s += sum.x(n, d);
      if (sum.x(n, d) > high) {
        high = sum.x(n, d);
        which = d;
      }
      low = std::min(low, sum.x(n, d));
    }
    const auto at = static_cast<std::size_t>(n);
    EXPECT_EQ(sum.values()[at], s);
    EXPECT_DOUBLE_EQ(mean.values()[at], s / 5);
    EXPECT_EQ(max.values()[at], high);
    EXPECT_EQ(min.values()[at], low);
    EXPECT_EQ(arg.values()[at], static_cast<double>(which));
    EXPECT_EQ(both.values()[at], both.x(n, 0) + 30);
  }
}

// Everything is added to one place, which depends on no index; also in a simulated kernel, which drops terms.
TEST(Language, OneComputedPlace) {
  const Small one("y[i[N - 1]] += x[k, d]");
  double sum = 0;
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t d = 0; d < 5; ++d) sum += one.x(n, d);
  const std::vector<double> values = one.values();
  for (int64_t n = 0; n < 6; ++n) EXPECT_EQ(values[static_cast<std::size_t>(n)], n == one.i(5) ? sum : 0);
  // The last term of each innermost loop is left out.
  const auto wrong = one.simulated({.dropped_terms = 1});
  for (int64_t n = 0; n < 6; ++n) sum -= one.x(n, 4);
  EXPECT_EQ(wrong.at(static_cast<std::size_t>(one.i(5))), sum);
}

TEST(Language, RangesAndFilters) {
  const Small range("y[n] = sum[d in 1..D - 1](x[n, d])"),
      filter("y[n] = sum[d | x[n, d] > 0 and d != 2](x[n, d])"), prefix("y[n] = sum[k in 0..n + 1](x[k, 0])"),
      empty("y[n] = sum[k in 0..0](x[k, 0])"), nothing("y[n] = max[k in 0..n](x[k, 0])");
  for (int64_t n = 0; n < 6; ++n) {
    double in_range = 0, filtered = 0, before = 0, top = -kInfinite;
    for (int64_t d = 0; d < 5; ++d) {
      if (d >= 1 && d < 4) in_range += range.x(n, d);
      if (range.x(n, d) > 0 && d != 2) filtered += range.x(n, d);
    }
    for (int64_t k = 0; k <= n; ++k) before += range.x(k, 0);
    for (int64_t k = 0; k < n; ++k) top = std::max(top, range.x(k, 0));
    const auto at = static_cast<std::size_t>(n);
    EXPECT_EQ(range.values()[at], in_range);
    EXPECT_EQ(filter.values()[at], filtered);
    EXPECT_EQ(prefix.values()[at], before);
    EXPECT_EQ(empty.values()[at], 0);
    EXPECT_EQ(nothing.values()[at], top);  // the empty max is -inf
  }
}

// A sum under a function keeps a place for each value of the indices around it, as far as their ranges go.
TEST(Language, SumsInsideSumsOfTriangularRanges) {
  const Small small("y[n] = sum[s in 0..n + 1](exp(0 * sum[r in s + 1..n + 1](x[r, 0])) * (s + 1))");
  for (std::size_t n = 0; n < 6; ++n)
    EXPECT_EQ(small.values()[n], static_cast<double>((n + 1) * (n + 2)) / 2) << n;
  const Small upper("y[n] = sum[s in n..N](exp(0 * sum[r in s..N](x[r, 0])) * (s + 1))");
  EXPECT_EQ(upper.values()[5], 6);
  EXPECT_EQ(upper.values()[0], 21);
}

TEST(Language, AnIfEvaluatesOnlyTheBranchItTakes) {
  const Small shifted("y[n] = if n > 0 then x[n - 1, 0] else 7"),
      lazy("y[n] = if n + 1 < N and x[n + 1, 0] > 0 then 1 else 0"),
      nested("y[n] = if n == 0 then 10 else if n == 1 then 11 else 12");
  for (int64_t n = 0; n < 6; ++n) {
    const auto at = static_cast<std::size_t>(n);
    EXPECT_EQ(shifted.values()[at], n > 0 ? shifted.x(n - 1, 0) : 7);
    EXPECT_EQ(lazy.values()[at], n + 1 < 6 && lazy.x(n + 1, 0) > 0 ? 1 : 0);
    EXPECT_EQ(nested.values()[at], n == 0 ? 10 : n == 1 ? 11 : 12);
  }
}

TEST(Language, ScattersAddFromZeroOrFromTheValueBefore) {
  const Small out("y[i[n]] += x[n, 0]"), maximum("y[i[n]] max= x[n, 0]"),
      kept("y[n] = 0\ny[i[n]] += x[n, 0]\ny[n] += 1");
  std::vector<double> sum(6, 0), top(6, -kInfinite);
  for (int64_t n = 0; n < 6; ++n) {
    const auto at = static_cast<std::size_t>(out.i(n));
    sum[at] += out.x(n, 0);
    top[at] = std::max(top[at], out.x(n, 0));
  }
  EXPECT_EQ(out.values(), sum);
  EXPECT_EQ(maximum.values(), top);
  for (double& value : sum) value += 1;
  EXPECT_EQ(kept.values(), sum);
}

TEST(Language, AssignmentsRunInOrder) {
  const Small order("old[n] = old[n] + 1\nt[n] = old[n]\nold[n] = 2 * old[n]\ny[n] = old[n] - t[n]");
  for (int64_t n = 0; n < 6; ++n)
    EXPECT_EQ(order.values()[static_cast<std::size_t>(n)], static_cast<double>(101 + n));
  const Small accumulates("y[n] = old[n]\nold[n] += x[n, 0]\ny[n] = old[n]\nold[n] = old[n]");
  for (int64_t n = 0; n < 6; ++n)
    EXPECT_EQ(accumulates.values()[static_cast<std::size_t>(n)],
              static_cast<double>(100 + n) + accumulates.x(n, 0));
}

TEST(Language, ScalarsAreRoundedToTheirDtype) {
  EXPECT_EQ(Small("y[n] = eps").values()[0], rounded(DType::bf16, 0.3));
}

TEST(Language, ScalarsOfTheFormula) {
  const Small small("top = max[n, d](x[n, d])\ny[n] = top");
  EXPECT_EQ(small.values()[3], 5);
}

TEST(Language, OperatorsBindAsInMathematics) {
  const std::pair<const char*, double> kCases[] = {{"-2.0^2", -4},
                                                   {"2^3^2", 512},
                                                   {"2 + 3 * 4", 14},
                                                   {"(2 + 3) * 4", 20},
                                                   {"7 - 2 - 1", 4},
                                                   {"1 / 2", 0.5},
                                                   {"8 / 2 / 2", 2},
                                                   {"2^-1", 0.5},
                                                   {"-7 % 3", 2},
                                                   {"min(3, 1, 2) + max(1, 2.5)", 3.5},
                                                   {"abs(-3) + floor(-1.5)", 1},
                                                   {"ceil_div(7, 2)", 4},
                                                   {"if not 1 > 2 or 1 > 2 and 1 > 2 then 1 else 0", 1},
                                                   {"if 1 < 2 <= 2 then 1 else 0", 1},
                                                   {"if true then 3 else 4", 3},
                                                   {"i32(-2.7) + i32(2.7)", 0},
                                                   {"u8(257)", 1},
                                                   {"sign(-2.0)", -1},
                                                   {"round(2.5)", 2},
                                                   {"ceil(1.2)", 2},
                                                   {"1e3 + .5", 1000.5},
                                                   {"pow(4.0, 0.5)", 2},
                                                   {"exp2(3)", 8},
                                                   {"log2(8)", 3},
                                                   {"isnan_of", 0}};
  for (const auto& [text, value] : kCases) {
    if (std::string(text) == "isnan_of") continue;
    EXPECT_DOUBLE_EQ(Small(fmt::format("y[n] = {}", text)).values()[0], value) << text;
  }
}

TEST(Language, DivisionOfIntegersIsFloorInSubscriptsAndExactElsewhere) {
  const Small small("y[n] = x[n / 2, 0] + n / 4");
  for (int64_t n = 0; n < 6; ++n)
    EXPECT_DOUBLE_EQ(small.values()[static_cast<std::size_t>(n)],
                     small.x(n / 2, 0) + static_cast<double>(n) / 4);
}

TEST(Language, IntegersAreExact) {
  const Small big("y[n] = 9007199254740993 + i[n] - i[n]", "dtype = \"i64\"\nshape = [\"N\"]");
  const Expectation e = big.run();
  EXPECT_EQ(e.integer[0], 9007199254740993);
  Tensor stored = Tensor::zeros(DType::i64, {6});
  stored.store_int(0, 9007199254740993);
  EXPECT_TRUE(e.admits(0, stored, 0));
  stored.store_int(0, 9007199254740992);
  EXPECT_FALSE(e.admits(0, stored, 0));
}

TEST(Language, BoolsCountAndDecide) {
  const Small count("y[n] = sum[k](b[k])"), mask("y[n] = if b[n] then x[n, 0] else 0"),
      flag("y[n] = not b[n]", "dtype = \"bool\"\nshape = [\"N\"]");
  EXPECT_EQ(count.values()[0], 3);
  EXPECT_EQ(mask.values()[1], mask.x(1, 0));
  EXPECT_EQ(mask.values()[2], 0);
  EXPECT_EQ(flag.run().integer, (std::vector<int64_t>{1, 0, 1, 0, 1, 0}));
}

TEST(Language, NanGoesThroughMaxAndMin) {
  for (const char* formula : {"y[n] = max[d](x[n, d])", "y[n] = min[d](x[n, d])", "y[n] = max(x[n, 0], 3)",
                              "y[n] = min(3, x[n, 0])"}) {
    Small small(formula);
    Tensor x = *small.bindings().inputs["x"];
    x.store(0, std::nan(""));
    small.bindings().inputs["x"] = share(std::move(x));
    const Expectation e = small.run();
    EXPECT_TRUE(std::isnan(e.value[0])) << formula;
    EXPECT_TRUE((e.flags[0] & kNonfiniteValue) != 0 && (e.flags[0] & kNonfiniteInput) != 0);
    EXPECT_FALSE(std::isnan(e.value[1]));
    EXPECT_TRUE(e.admits(0, std::nan("")));
    EXPECT_FALSE(e.admits(0, 1.0));
    EXPECT_FALSE(e.admits(1, std::nan("")));
  }
}

TEST(Language, ArgmaxTakesTheFirstOfEquals) {
  Small small("y[n] = argmax[d](x[n, d])", "dtype = \"i32\"\nshape = [\"N\"]", 2, 5);
  small.bindings().inputs["x"] =
      share(Tensor::of(DType::f32, {2, 5}, std::vector<double>{1, 4, 4, 0, 4, 2, 2, 2, 2, 2}));
  const Expectation e = small.run();
  EXPECT_EQ(e.integer, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(e.flags[0] & kUndecided, 0);
  EXPECT_TRUE(e.admits(0, 1.0));
  EXPECT_FALSE(e.admits(0, 2.0));
}

TEST(Language, ArgmaxAnyTakesEveryOneOfEquals) {
  const Small ties("y[n] = argmax_any[d in 0..D](if d == 1 or d == 3 then 7 else d)",
                   "dtype = \"i32\"\nshape = [\"N\"]");
  const Expectation all = ties.run();
  for (const double index : {1.0, 3.0}) EXPECT_TRUE(all.admits(0, index)) << index;
  for (const double index : {0.0, 2.0, 4.0}) EXPECT_FALSE(all.admits(0, index)) << index;
  const Expectation one =
      Small("y[n] = argmax[d in 0..D](if d == 1 or d == 3 then 7 else d)", "dtype = \"i32\"\nshape = [\"N\"]")
          .run();
  EXPECT_TRUE(one.admits(0, 1));
  EXPECT_FALSE(one.admits(0, 3));
}

TEST(Language, RunningReductionsEndAtTheirIndex) {
  const Small sums("y[n, d] = cumsum[d](x[n, d] * d)", "dtype = \"f32\"\nshape = [\"N\", \"D\"]"),
      largest("y[n, d] = cummax[d](x[n, d])", "dtype = \"f32\"\nshape = [\"N\", \"D\"]");
  const std::vector<double> s = sums.values(), m = largest.values();
  for (int64_t n = 0; n < 6; ++n) {
    double sum = 0, most = -kInfinite;
    for (int64_t d = 0; d < 5; ++d) {
      sum += sums.x(n, d) * static_cast<double>(d);
      most = std::max(most, largest.x(n, d));
      EXPECT_EQ(s[static_cast<std::size_t>(5 * n + d)], sum);
      EXPECT_EQ(m[static_cast<std::size_t>(5 * n + d)], most);
    }
  }
}

TEST(Language, BitsOfIntegers) {
  const auto of = [](const std::string& formula) {
    return Small("y[n] = " + formula, "dtype = \"i64\"\nshape = [\"N\"]").run().integer;
  };
  for (std::size_t n = 0; n < 6; ++n) {
    const auto k = static_cast<int64_t>(n);
    EXPECT_EQ(of("bit_and(n, 6)")[n], k & 6);
    EXPECT_EQ(of("bit_or(n, 6)")[n], k | 6);
    EXPECT_EQ(of("bit_xor(n, 6)")[n], k ^ 6);
    EXPECT_EQ(of("bit_not(n)")[n], ~k);
    EXPECT_EQ(of("shift_left(n, 40)")[n], k << 40);
    EXPECT_EQ(of("shift_right(-n * 5, 1)")[n], (-k * 5) >> 1);
  }
}

TEST(Language, BitsAsSubscriptsStayInRange) {
  const Small small("y[n] = x[n, bit_and(i[n], 3)]");
  for (std::size_t n = 0; n < 6; ++n)
    EXPECT_EQ(small.values()[n], small.x(static_cast<int64_t>(n), small.i(static_cast<int64_t>(n)) & 3));
}

constexpr const char* kOptional = R"toml([dims]
N = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.bias]
dtype = "f32"
shape = ["N"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = )toml";

Bindings with_bias(int present) {
  Bindings bindings;
  bindings.shape = {{"N", 2}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {2}, std::vector<double>{1, 2}));
  bindings.inputs["bias"] = share(Tensor::of(DType::f32, {2}, std::vector<double>{10, 20}));
  bindings.scalars["present(bias)"] = Scalar::of_int(DType::boolean, present);
  return bindings;
}

TEST(Language, AnOptionalTensorIsReadOnlyWhereItIsPresent) {
  const Contract contract = parsed(
      contract_text(kOptional + std::string("\"y[n] = x[n] + (if present(bias) then bias[n] else 0)\"\n")));
  EXPECT_EQ(expected(contract, with_bias(1), "y").value, (std::vector<double>{11, 22}));
  EXPECT_EQ(expected(contract, with_bias(0), "y").value, (std::vector<double>{1, 2}));
  const Result<Reference> unasked =
      Reference::make(parsed(contract_text(kOptional + std::string("\"y[n] = x[n] + bias[n]\"\n"))));
  ASSERT_FALSE(unasked);
  EXPECT_NE(unasked.error().message.find("if present(bias) then"), std::string::npos)
      << unasked.error().text();
  const Contract careless =
      parsed(contract_text(kOptional + std::string("\"y[n] = x[n] + (if n > 0 then bias[n] else 0)\"\n")));
  const Result<Expectation> read = reference_of(careless).expect_all(with_bias(0), "y");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("where it is absent"), std::string::npos) << read.error().text();
}

TEST(Language, ACaseReplacesTheFormula) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[scalars.reversed]
dtype = "i32"
values = [0, 1]
[reference]
formula = "y[n] = x[n]"
[[case]]
when = "reversed == 1"
formula = "y[n] = sum[k in 0..n + 1](x[N - 1 - n])"
)toml"));
  Bindings bindings;
  bindings.shape = {{"N", 3}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {3}, std::vector<double>{1, 2, 3}));
  bindings.scalars["reversed"] = Scalar::of_int(DType::i32, 0);
  const Reference reference = reference_of(contract);
  EXPECT_EQ(reference.expect_all(bindings, "y")->value, (std::vector<double>{1, 2, 3}));
  EXPECT_FALSE(reference.is_elementwise("y"));
  bindings.scalars["reversed"] = Scalar::of_int(DType::i32, 1);
  EXPECT_EQ(reference.expect_all(bindings, "y")->value, (std::vector<double>{3, 4, 3}));
}

// Whether elements of an output are computed from roundings that they share.
TEST(Language, ElementsThatShareNothing) {
  const auto shares_nothing = [](const std::string& formula, const std::string& x = "[\"N\", \"D\"]") {
    const Contract contract =
        parsed(contract_text("[dims]\nN = { min = 1, max = 64 }\nD = { min = 1, max = 64 }\n[tensors.x]\n"
                             "dtype = \"f32\"\nshape = " +
                             x +
                             "\n[tensors.y]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n"
                             "[reference]\nformula = \"\"\"\n" +
                             formula + "\n\"\"\"\n"));
    return reference_of(contract).shares_nothing("y");
  };
  EXPECT_TRUE(shares_nothing("y[n] += x[n, d]"));
  EXPECT_TRUE(shares_nothing("y[n] = sqrt(mean[d](x[n, d]^2))"));
  EXPECT_TRUE(shares_nothing("y[n] = x[n, 0] * 2"));
  EXPECT_FALSE(shares_nothing("y[n] = x[n, 0] / sum[k, d](x[k, d])")) << "one sum for all";
  EXPECT_FALSE(shares_nothing("y[n] = sum[k in 0..n + 1](x[k, 0])")) << "each sum begins with the one before";
  EXPECT_FALSE(shares_nothing("c[d] = exp(x[0, d])\ny[n] += x[n, d] * c[d]")) << "all of them use c";
  EXPECT_FALSE(shares_nothing("y[n] = sum[d](x[n, d] / sum[k](x[k, d]))")) << "one sum for each d";
}

TEST(Language, SmallTypesAreReadAsTheirValues) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = 16
[tensors.q]
dtype = "e2m1"
shape = ["N"]
[tensors.s]
dtype = "e8m0"
shape = [1]
[tensors.w]
dtype = "i4"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = q[n] * s[0] + 100 * w[n]"
)toml"));
  Bindings bindings;
  bindings.shape = {{"N", 16}};
  Tensor q = Tensor::zeros(DType::e2m1, {16}), s = Tensor::zeros(DType::e8m0, {1}),
         w = Tensor::zeros(DType::i4, {16});
  s.store(0, 0.25);
  for (int n = 0; n < 16; ++n) {
    q.store_code(n, n);
    w.store_code(n, n);
  }
  bindings.inputs["q"] = share(std::move(q));
  bindings.inputs["s"] = share(std::move(s));
  bindings.inputs["w"] = share(std::move(w));
  const std::vector<double> values = expected(contract, bindings, "y").value;
  const double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int n = 0; n < 16; ++n)
    EXPECT_EQ(values[static_cast<std::size_t>(n)],
              (n < 8 ? 1 : -1) * sizes[n % 8] * 0.25 + 100 * (n < 8 ? n : n - 16))
        << n;
}

TEST(Language, LinesContinueInsideBracketsAndAroundOperators) {
  EXPECT_EQ(Small("y[n] = 1 +\n  2\n  + 3 # a comment\n  * (4\n - 3)").values()[0], 6);
  EXPECT_EQ(Small("a[n] = x[n, 0] * 0; y[n] = a[n] + 1").values()[0], 1);
}

TEST(Language, PartOfAnOutputMayStayUnspecified) {
  const Small small("y[2 * n] = x[n, 0]", "dtype = \"f32\"\nshape = [\"2 * N\"]");
  const Expectation e = small.run();
  EXPECT_EQ(e.value[4], small.x(2, 0));
  EXPECT_NE(e.flags[1] & kUnspecified, 0);
  EXPECT_TRUE(e.admits(1, 12345.0));
  EXPECT_FALSE(e.admits(0, 12345.0));
}

TEST(Language, RangesMayDependOnData) {
  const Small small("y[n] = sum[k in 0..i[n]](x[k, 0])");
  for (int64_t n = 0; n < 6; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < small.i(n); ++k) sum += small.x(k, 0);
    EXPECT_EQ(small.values()[static_cast<std::size_t>(n)], sum);
  }
}

TEST(Language, ASegmentMayCountFromZero) {
  const Contract contract = parsed(contract_text(R"toml([dims]
S = { min = 1, max = 64 }
N = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.off]
dtype = "i32"
shape = ["S + 1"]
values = "offsets(N)"
[tensors.y]
dtype = "f32"
shape = ["S"]
role = "out"
[reference]
formula = "y[s] = sum[k in 0..(off[s + 1] - off[s])](x[off[s] + k])"
)toml"));
  Bindings bindings;
  bindings.shape = {{"S", 3}, {"N", 5}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {5}, std::vector<double>{1, 2, 4, 8, 16}));
  Tensor off = Tensor::zeros(DType::i32, {4});
  for (const auto& [at, value] : {std::pair{1, 2}, {2, 2}, {3, 5}}) off.store_int(at, value);
  bindings.inputs["off"] = share(std::move(off));
  EXPECT_EQ(expected(contract, bindings, "y").value, (std::vector<double>{3, 0, 28}));
}

TEST(Language, AnIndexThatIsOnlyEverDividedRangesOverTheWhole) {
  const Small halves("twice[n in 0..N, d] = x[n, d / 2]\ny[n] = sum[d](twice[n, d])");
  for (int64_t n = 0; n < 6; ++n) {
    double sum = 0;
    for (int64_t d = 0; d < 5; ++d) sum += 2 * halves.x(n, d);
    EXPECT_EQ(halves.values()[static_cast<std::size_t>(n)], sum);
  }
}

TEST(Language, WordsOfTheLanguageMayNameTensors) {
  const Small named(
      "mean[n] = mean[d](x[n, d])\nexp = 2\ny[n] = exp * mean[n] + mean[d](x[n, d]) + exp(mean[n] - "
      "mean[n])");
  for (int64_t n = 0; n < 6; ++n) {
    double sum = 0;
    for (int64_t d = 0; d < 5; ++d) sum += named.x(n, d);
    EXPECT_DOUBLE_EQ(named.values()[static_cast<std::size_t>(n)], 3 * (sum / 5) + 1);
  }
}

}  // namespace
}  // namespace assay::reference
