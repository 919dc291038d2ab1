// Contracts as somebody writes them who has read the manual once: everyday operators of transformers,
// each compared with plain loops.
#include <fmt/format.h>

#include <functional>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;

class Call {
 public:
  Call(const Contract& contract, Bindings bindings) : contract_(contract), bindings_(std::move(bindings)) {}
  int64_t dim(const char* name) const { return bindings_.shape.find(name)->second; }
  double operator()(const char* name, std::initializer_list<int64_t> at) const {
    return tensor(name).load(offset(name, at));
  }
  int64_t integer(const char* name, std::initializer_list<int64_t> at) const {
    return tensor(name).load_int(offset(name, at));
  }

 private:
  const Tensor& tensor(const char* name) const { return *bindings_.inputs.find(name)->second; }
  int64_t offset(const char* name, std::initializer_list<int64_t> at) const {
    int64_t linear = 0;
    std::size_t axis = 0;
    for (const int64_t i : at) linear = linear * tensor(name).extents[axis++] + i;
    return linear;
  }
  const Contract& contract_;
  Bindings bindings_;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

struct Newcomer {
  const char* name;
  const char* dims;
  const char* tensors;  // "name dtype extents [values]"; outputs begin with '>'
  const char* formula;
  Shape shape;
  std::function<double(const Call&, const std::vector<int64_t>& at)> plain;
};

const Newcomer kNewcomers[] = {
    {"gated MLP",
     "T = { min = 1, max = 64 }\nH = { min = 1, max = 64 }",
     "h bf16 T,2*H\n>y bf16 T,H",
     "y[t, j] = silu(h[t, j]) * h[t, H + j]",
     {{"T", 3}, {"H", 5}},
     [](const Call& c, const auto& at) {
       return silu(c("h", {at[0], at[1]})) * c("h", {at[0], c.dim("H") + at[1]});
     }},
    {"rotary embedding, halves",
     "T = { min = 1, max = 64 }\nD = { min = 2, max = 64, multiple_of = 2 }",
     "x f32 T,D\ncs f32 T,D/2\nsn f32 T,D/2\n>y f32 T,D",
     "y[t, d] = if d < D/2 then x[t, d] * cs[t, d] - x[t, d + D/2] * sn[t, d]\n"
     "          else x[t, d] * cs[t, d - D/2] + x[t, d - D/2] * sn[t, d - D/2]",
     {{"T", 3}, {"D", 6}},
     [](const Call& c, const auto& at) {
       const int64_t t = at[0], d = at[1], half = c.dim("D") / 2, p = d % half;
       return d < half ? c("x", {t, d}) * c("cs", {t, p}) - c("x", {t, d + half}) * c("sn", {t, p})
                       : c("x", {t, d}) * c("cs", {t, p}) + c("x", {t, p}) * c("sn", {t, p});
     }},
    {"rotary embedding, interleaved",
     "T = { min = 1, max = 64 }\nP = { min = 1, max = 32 }",
     "x f32 T,2*P\ncs f32 T,P\nsn f32 T,P\n>y f32 T,2*P",
     "y[t, 2*p]     = x[t, 2*p] * cs[t, p] - x[t, 2*p + 1] * sn[t, p]\n"
     "y[t, 2*p + 1] = x[t, 2*p] * sn[t, p] + x[t, 2*p + 1] * cs[t, p]",
     {{"T", 3}, {"P", 3}},
     [](const Call& c, const auto& at) {
       const int64_t t = at[0], p = at[1] / 2;
       const double a = c("x", {t, 2 * p}), b = c("x", {t, 2 * p + 1});
       return at[1] % 2 == 0 ? a * c("cs", {t, p}) - b * c("sn", {t, p})
                             : a * c("sn", {t, p}) + b * c("cs", {t, p});
     }},
    {"attention, grouped queries",
     "H = { min = 1, max = 8 }\nG = { min = 1, max = 4 }\nS = { min = 1, max = 64 }\nD = { min = 1, max = 16 "
     "}",
     "q f32 H*G,S,D\nk f32 H,S,D\nv f32 H,S,D\n>o f32 H*G,S,D",
     "s[h, i, j] = sum[d](q[h, i, d] * k[h / G, j, d]) / sqrt(D)\n"
     "m[h, i] = max[j | j <= i](s[h, i, j])\n"
     "p[h, i, j] = if j <= i then exp(s[h, i, j] - m[h, i]) else 0\n"
     "o[h, i, d] = sum[j](p[h, i, j] * v[h / G, j, d]) / sum[j](p[h, i, j])",
     {{"H", 2}, {"G", 2}, {"S", 4}, {"D", 3}},
     [](const Call& c, const auto& at) {
       const int64_t h = at[0], i = at[1], kv = h / c.dim("G"), D = c.dim("D");
       double top = 0, bottom = 0;
       for (int64_t j = 0; j <= i; ++j) {
         double s = 0;
         for (int64_t d = 0; d < D; ++d) s += c("q", {h, i, d}) * c("k", {kv, j, d});
         const double e = std::exp(s / std::sqrt(static_cast<double>(D)));
         top += e * c("v", {kv, j, at[2]});
         bottom += e;
       }
       return top / bottom;
     }},
    {"combination of experts",
     "T = { min = 1, max = 64 }\nK = { min = 1, max = 4 }\nR = { min = 1, max = 256 }\nD = { min = 1, max = "
     "16 }",
     "rows bf16 R,D\nslot i32 T,K index(R)\nweight f32 T,K\n>y bf16 T,D",
     "y[t, d] = sum[k](weight[t, k] * rows[slot[t, k], d])",
     {{"T", 3}, {"K", 2}, {"R", 7}, {"D", 3}},
     [](const Call& c, const auto& at) {
       double sum = 0;
       for (int64_t k = 0; k < c.dim("K"); ++k)
         sum += c("weight", {at[0], k}) * c("rows", {c.integer("slot", {at[0], k}), at[1]});
       return sum;
     }},
    {"cross entropy with an index to ignore",
     "T = { min = 1, max = 64 }\nV = { min = 2, max = 64 }",
     "x f32 T,V\ntarget i64 T integers(-1,V-1)\n>loss f32 T",
     "m[t] = max[v](x[t, v])\n"
     "lse[t] = m[t] + log(sum[v](exp(x[t, v] - m[t])))\n"
     "loss[t] = if target[t] == -1 then 0 else lse[t] - x[t, target[t]]",
     {{"T", 6}, {"V", 3}},
     [](const Call& c, const auto& at) {
       const int64_t target = c.integer("target", {at[0]});
       if (target < 0) return 0.0;
       double sum = 0;
       for (int64_t v = 0; v < c.dim("V"); ++v) sum += std::exp(c("x", {at[0], v}));
       return std::log(sum) - c("x", {at[0], target});
     }},
    {"top two",
     "T = { min = 1, max = 64 }\nE = { min = 2, max = 64 }",
     "x f32 T,E\n>which i32 T,2",
     "a[t] = argmax[e](x[t, e])\n"
     "b[t] = argmax[e | e != a[t]](x[t, e])\n"
     "which[t, 0] = a[t]\n"
     "which[t, 1] = b[t]",
     {{"T", 4}, {"E", 5}},
     [](const Call& c, const auto& at) {
       std::vector<int64_t> order;
       for (int64_t e = 0; e < c.dim("E"); ++e) order.push_back(e);
       std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
         return c("x", {at[0], a}) > c("x", {at[0], b});
       });
       return static_cast<double>(order[static_cast<std::size_t>(at[1])]);
     }},
    {"LayerNorm's gain gradient",
     "T = { min = 1, max = 64 }\nD = { min = 1, max = 64 }",
     "dy bf16 T,D\nx bf16 T,D\nmu f32 T\nrstd f32 T positive\n>dgamma f32 D",
     "dgamma[d] += dy[t, d] * (x[t, d] - mu[t]) * rstd[t]",
     {{"T", 6}, {"D", 3}},
     [](const Call& c, const auto& at) {
       double sum = 0;
       for (int64_t t = 0; t < c.dim("T"); ++t)
         sum += c("dy", {t, at[0]}) * (c("x", {t, at[0]}) - c("mu", {t})) * c("rstd", {t});
       return sum;
     }},
    {"product with int8 weights in groups",
     "M = { min = 1, max = 16 }\nN = { min = 1, max = 16 }\nK = { min = 4, max = 64, multiple_of = 4 }",
     "x f16 M,K\nw i8 N,K\nscale f16 N,K/4\n>y f16 M,N",
     "y[m, n] = sum[k](x[m, k] * w[n, k] * scale[n, k/4])",
     {{"M", 2}, {"N", 3}, {"K", 8}},
     [](const Call& c, const auto& at) {
       double sum = 0;
       for (int64_t k = 0; k < c.dim("K"); ++k)
         sum += c("x", {at[0], k}) * static_cast<double>(c.integer("w", {at[1], k})) *
                c("scale", {at[1], k / 4});
       return sum;
     }},
    {"causal convolution",
     "B = { min = 1, max = 4 }\nC = { min = 1, max = 16 }\nL = { min = 1, max = 64 }\nW = 4",
     "x bf16 B,C,L\nw bf16 C,W\nbias bf16 C\n>y bf16 B,C,L",
     "y[b, c, l] = bias[c] + sum[k | l + k >= W - 1](x[b, c, l + k - (W - 1)] * w[c, k])",
     {{"B", 2}, {"C", 2}, {"L", 5}, {"W", 4}},
     [](const Call& c, const auto& at) {
       double sum = c("bias", {at[1]});
       for (int64_t k = 0; k < 4; ++k) {
         const int64_t l = at[2] + k - 3;
         if (l >= 0) sum += c("x", {at[0], at[1], l}) * c("w", {at[1], k});
       }
       return sum;
     }},
    {"cumulative sum",
     "T = { min = 1, max = 64 }\nN = { min = 1, max = 64 }",
     "x f32 T,N\n>y f32 T,N",
     "y[t, n] = sum[k | k <= n](x[t, k])",
     {{"T", 3}, {"N", 5}},
     [](const Call& c, const auto& at) {
       double sum = 0;
       for (int64_t k = 0; k <= at[1]; ++k) sum += c("x", {at[0], k});
       return sum;
     }},
};

std::vector<std::string> words(const std::string& text, char separator) {
  std::vector<std::string> list(1);
  for (const char c : text) {
    if (c == separator)
      list.emplace_back();
    else
      list.back() += c;
  }
  return list;
}

std::string text_of(const Newcomer& one, std::string& output) {
  std::string args, tensors;
  for (const std::string& line : words(one.tensors, '\n')) {
    const std::vector<std::string> part = words(line, ' ');
    const bool out = part[0][0] == '>';
    const std::string name = part[0].substr(out);
    if (out) output = name;
    args += (args.empty() ? "\"" : ", \"") + name + "\"";
    std::string shape;
    for (const std::string& extent : words(part[2], ','))
      shape += (shape.empty() ? "\"" : ", \"") + extent + "\"";
    tensors += fmt::format("[tensors.{}]\ndtype = \"{}\"\nshape = [{}]\n{}{}", name, part[1], shape,
                           out ? "role = \"out\"\n" : "",
                           part.size() > 3 ? fmt::format("values = \"{}\"\n", part[3]) : "");
  }
  return contract_text(fmt::format("[dims]\n{}\n{}[reference]\nformula = \"\"\"\n{}\n\"\"\"\n", one.dims,
                                   tensors, one.formula),
                       args);
}

Bindings inputs_for(const Contract& contract, const Shape& shape) {
  Bindings bindings;
  bindings.shape = shape;
  unsigned seed = 1;
  for (const TensorSpec* spec : contract.inputs()) {
    const std::vector<int64_t> extents = *spec->extents(shape);
    if (is_float(spec->dtype)) {
      bindings.inputs[spec->name] = normal(spec->dtype, extents, ++seed);
      continue;
    }
    int64_t low = -3, high = 3;
    if (spec->values.kind == ValuesKind::Index) low = 0, high = *spec->values.a.eval(shape) - 1;
    if (spec->values.kind == ValuesKind::Integers)
      low = *spec->values.a.eval(shape), high = *spec->values.b.eval(shape);
    bindings.inputs[spec->name] = uniform_integers(spec->dtype, extents, low, high, ++seed);
  }
  return bindings;
}

class Newcomers : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Contract, Newcomers, ::testing::Range<std::size_t>(0, std::size(kNewcomers)));

TEST_P(Newcomers, MeanWhatTheySay) {
  const Newcomer& one = kNewcomers[GetParam()];
  SCOPED_TRACE(one.name);
  std::string output;
  const Contract contract = parsed(text_of(one, output));
  ASSERT_FALSE(contract.tensors.empty());
  const Bindings bindings = inputs_for(contract, one.shape);
  const Expectation e = expected(contract, bindings, output);
  ASSERT_GT(e.size(), 0u);
  const std::vector<int64_t> extents = *contract.tensor(output)->extents(one.shape);
  const Call call(contract, bindings);
  for (std::size_t i = 0; i < e.size(); ++i) {
    std::vector<int64_t> at(extents.size());
    int64_t rest = static_cast<int64_t>(i);
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      at[axis] = rest % extents[axis];
      rest /= extents[axis];
    }
    const double plain = one.plain(call, at);
    EXPECT_NEAR(e.value[i], plain, 1e-12 * std::max(1.0, std::abs(plain))) << "element " << i;
  }
}

// What cannot be meant is refused with what to write instead.
struct Slip {
  const char* formula;
  const char* says;
};
const Slip kSlips[] = {
    {"g[i, j] = x[i, j] * x[i, j + H]\ny[i, j] = g[i, j]",
     "write a shorter range for `j`, as in `j in 0..n`"},
    {"y[i, j] = sum[k](x[i, k] * x[i, k + H]) + z[i, j]", "write a shorter range for `k`"},
    {"y[i, j] = gelu(x[i, j])", "erf(x / sqrt(2))"},
    {"y[i, j] = where(x[i, j] > 0, x[i, j], 0)", "`if c then a else b`"},
    {"y[i, j] = softmax(x[i, j])", "m[i] = max[k](x[i, k])"},
    {"y[i, j] = clamp(x[i, j], 0, 1)", "min(max(x, low), high)"},
    {"y[i, j] = z[j, i]", "ranges over"},
    {"y[i, j] = sum(x[i, j])", "needs an index"},
    {"y[i, j] = silo(x[i, j])", "is not a function"},
    {"y[i] = x[i, 0]", "has 2 dimensions, but 1 index is given"},
};

TEST(Slips, AreExplained) {
  for (const Slip& slip : kSlips) {
    const std::string text = contract_text(fmt::format(R"([dims]
T = {{ min = 1, max = 64 }}
H = {{ min = 1, max = 64 }}
[tensors.x]
dtype = "f32"
shape = ["T", "2*H"]
[tensors.z]
dtype = "f32"
shape = ["T", "H"]
[tensors.y]
dtype = "f32"
shape = ["T", "H"]
role = "out"
[reference]
formula = """
{}
"""
)",
                                                       slip.formula),
                                           "\"x\", \"z\", \"y\"");
    const Result<Contract> contract = parse(text, "slip.toml");
    std::string message;
    if (!contract) {
      message = contract.error().message;
    } else {
      const Result<Reference> reference = Reference::make(*contract);
      ASSERT_FALSE(reference) << slip.formula;
      message = reference.error().message;
    }
    EXPECT_NE(message.find(slip.says), std::string::npos) << slip.formula << ": " << message;
  }
}

// The words that became functions later name tensors still.
TEST(Names, OfLaterFunctionsAreFree) {
  const Contract contract = parsed(contract_text(R"([dims]
N = { min = 1, max = 8 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
silu[i] = 2 * x[i]
relu = 3
y[i] = silu[i] + relu + relu(x[i])
"""
)",
                                                 "\"x\", \"y\""));
  Bindings bindings;
  bindings.shape = {{"N", 2}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {2}, std::vector<double>{1, -1}));
  const Expectation e = expected(contract, bindings, "y");
  ASSERT_EQ(e.size(), 2u);
  EXPECT_EQ(e.value[0], 6);
  EXPECT_EQ(e.value[1], 1);
}

}  // namespace
}  // namespace assay::reference
