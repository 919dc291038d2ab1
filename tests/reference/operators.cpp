#include "operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace assay::reference::testing {

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kList = {
      {"add_bias",
       "N=7 D=40",
       {"x bf16 N,D activations", "b bf16 D weights", "y bf16 N,D out"},
       {},
       "y[n, d] = x[n, d] + b[d]",
       ""},
      {"silu", "N=300", {"x f32 N activations", "y f32 N out"}, {}, "y[i] = x[i] * sigmoid(x[i])", ""},
      {"gelu_erf",
       "N=300",
       {"x bf16 N activations", "y bf16 N out"},
       {},
       "y[i] = 0.5 * x[i] * (1 + erf(x[i] / sqrt(2)))",
       ""},
      {"gelu_tanh",
       "N=300",
       {"x f32 N activations", "y f32 N out"},
       {},
       "y[i] = 0.5 * x[i] * (1 + tanh(0.7978845608028654 * (x[i] + 0.044715 * x[i]^3)))",
       ""},
      {"swiglu",
       "N=6 D=50",
       {"x bf16 N,2*D activations", "y bf16 N,D out"},
       {},
       "y[n, d in 0..D] = x[n, d] * sigmoid(x[n, d]) * x[n, d + D]",
       ""},
      {"softmax",
       "N=6 D=100",
       {"x f32 N,D activations", "y f32 N,D out"},
       {},
       "m[i] = max[j](x[i, j])\ns[i] = sum[j](exp(x[i, j] - m[i]))\ny[i, j] = exp(x[i, j] - m[i]) / s[i]",
       ""},
      {"softmax_unshifted",
       "N=6 D=100",
       {"x f32 N,D activations", "y f32 N,D out"},
       {},
       "y[i, j] = exp(x[i, j]) / sum[k](exp(x[i, k]))",
       ""},
      {"log_softmax",
       "N=6 D=100",
       {"x bf16 N,D activations", "y f32 N,D out"},
       {},
       "m[i] = max[j](x[i, j])\ny[i, j] = x[i, j] - m[i] - log(sum[k](exp(x[i, k] - m[i])))",
       ""},
      {"logsumexp",
       "N=20 D=64",
       {"x f32 N,D activations", "y f32 N out"},
       {},
       "m[i] = max[j](x[i, j])\ny[i] = m[i] + log(sum[j](exp(x[i, j] - m[i])))",
       ""},
      {"cross_entropy",
       "N=20 V=90",
       {"x f32 N,V activations", "t i64 N index(V)", "y f32 N out"},
       {},
       "m[i] = max[j](x[i, j])\ny[i] = m[i] + log(sum[j](exp(x[i, j] - m[i]))) - x[i, t[i]]",
       ""},
      {"cross_entropy_grad",
       "N=20 V=90",
       {"x f32 N,V activations", "t i64 N index(V)", "g f32 N gradients", "y f32 N,V out"},
       {},
       "m[i] = max[j](x[i, j])\np[i, j] = exp(x[i, j] - m[i]) / sum[k](exp(x[i, k] - m[i]))\n"
       "y[i, j] = g[i] * (p[i, j] - (if t[i] == j then 1 else 0))",
       ""},
      {"layernorm",
       "N=9 D=128",
       {"x f32 N,D activations", "w f32 D weights", "b f32 D weights", "y f32 N,D out"},
       {"eps f32 1e-5"},
       "mu[i] = mean[d](x[i, d])\nvar[i] = mean[d]((x[i, d] - mu[i])^2)\n"
       "y[i, d] = (x[i, d] - mu[i]) * rsqrt(var[i] + eps) * w[d] + b[d]",
       ""},
      {"rmsnorm",
       "N=9 D=128",
       {"x bf16 N,D activations", "w bf16 D weights", "y bf16 N,D out"},
       {"eps f32 1e-6"},
       "y[i, d] = x[i, d] * rsqrt(mean[k](x[i, k]^2) + eps) * w[d]",
       ""},
      {"layernorm_dx",
       "N=5 D=64",
       {"x f32 N,D activations", "w f32 D weights", "g f32 N,D gradients", "y f32 N,D out"},
       {"eps f32 1e-5"},
       "mu[i] = mean[d](x[i, d])\nr[i] = rsqrt(mean[d]((x[i, d] - mu[i])^2) + eps)\n"
       "h[i, d] = (x[i, d] - mu[i]) * r[i]\na[i] = mean[d](g[i, d] * w[d])\nc[i] = mean[d](g[i, d] * w[d] * "
       "h[i, d])\n"
       "y[i, d] = r[i] * (g[i, d] * w[d] - a[i] - h[i, d] * c[i])",
       ""},
      {"rmsnorm_dw",
       "N=200 D=24",
       {"x bf16 N,D activations", "g bf16 N,D gradients", "y f32 D out"},
       {"eps f32 1e-6"},
       "r[i] = rsqrt(mean[k](x[i, k]^2) + eps)\ny[d] += g[i, d] * x[i, d] * r[i]",
       ""},
      {"matmul",
       "M=17 N=19 K=130",
       {"a bf16 M,K activations", "b bf16 K,N weights", "y f32 M,N out"},
       {},
       "y[i, j] += a[i, k] * b[k, j]",
       ""},
      {"matmul_bias_relu",
       "M=17 N=19 K=60",
       {"a f16 M,K activations", "b f16 K,N weights", "c f16 N weights", "y f16 M,N out"},
       {},
       "y[i, j] = max(sum[k](a[i, k] * b[k, j]) + c[j], 0)",
       ""},
      {"batched_matmul_nt",
       "B=3 M=8 N=9 K=33",
       {"a f32 B,M,K activations", "b f32 B,N,K weights", "y f32 B,M,N out"},
       {},
       "y[b_, i, j] = sum[k](a[b_, i, k] * b[b_, j, k])",
       ""},
      {"gemm_alpha_beta",
       "M=12 N=13 K=64",
       {"a f32 M,K activations", "b f32 K,N weights", "y f32 M,N inout"},
       {"alpha f32 0.7", "beta f32 0.3"},
       "y[i, j] = alpha * sum[k](a[i, k] * b[k, j]) + beta * y[i, j]",
       ""},
      {"attention",
       "H=2 S=24 D=16",
       {"q bf16 H,S,D activations", "k bf16 H,S,D activations", "v bf16 H,S,D activations",
        "y bf16 H,S,D out"},
       {},
       "s[h, i, j] = sum[d](q[h, i, d] * k[h, j, d]) / sqrt(D)\n"
       "m[h, i] = max[j in 0..i+1](s[h, i, j])\n"
       "l[h, i] = sum[j in 0..i+1](exp(s[h, i, j] - m[h, i]))\n"
       "y[h, i, d] = sum[j in 0..i+1](bf16(exp(s[h, i, j] - m[h, i])) * v[h, j, d]) / l[h, i]",
       ""},
      {"attention_mask_gqa",
       "H=4 G=2 S=12 D=8",
       {"q f32 H,S,D activations", "k f32 (H+G-1)/G,S,D activations", "v f32 (H+G-1)/G,S,D activations",
        "keep bool S,S mask", "y f32 H,S,D out"},
       {},
       "s[h, i, j] = if keep[i, j] or i == j then sum[d](q[h, i, d] * k[h / G, j, d]) / sqrt(D) else -inf\n"
       "m[h, i] = max[j](s[h, i, j])\n"
       "y[h, i, d] = sum[j](exp(s[h, i, j] - m[h, i]) * v[h / G, j, d]) / sum[j](exp(s[h, i, j] - m[h, i]))",
       ""},
      {"embedding",
       "T=30 D=16 V=11",
       {"w bf16 V,D weights", "t i32 T index(V)", "y bf16 T,D out"},
       {},
       "y[i, d] = w[t[i], d]",
       ""},
      {"embedding_grad",
       "T=400 D=16 V=11",
       {"g bf16 T,D gradients", "t i64 T tokens(V)", "y bf16 V,D out"},
       {},
       "y[t[i], d] += g[i, d]",
       ""},
      {"rope",
       "T=20 H=3 D=16",
       {"x bf16 T,H,D activations", "y bf16 T,H,D out"},
       {"theta f32 10000"},
       "a[t in 0..T, p in 0..D/2] = t * theta^(-2.0 * p / D)\n"
       "y[t, h, 2*p] = x[t, h, 2*p] * cos(a[t, p]) - x[t, h, 2*p + 1] * sin(a[t, p])\n"
       "y[t, h, 2*p + 1] = x[t, h, 2*p] * sin(a[t, p]) + x[t, h, 2*p + 1] * cos(a[t, p])",
       ""},
      {"transpose", "M=13 N=21", {"x f16 M,N real", "y f16 N,M out"}, {}, "y[j, i] = x[i, j]", ""},
      {"cumsum",
       "N=5 D=70",
       {"x f32 N,D activations", "y f32 N,D out"},
       {},
       "y[i, d] = sum[k in 0..d+1](x[i, k])",
       ""},
      {"argmax", "N=40 D=50", {"x bf16 N,D activations", "y i32 N out"}, {}, "y[i] = argmax[d](x[i, d])", ""},
      {"segment_sum",
       "B=6 T=50 D=9",
       {"x f32 T,D activations", "o i32 B+1 offsets(T)", "y f32 B,D out"},
       {},
       "y[b, d] = sum[t in o[b]..o[b + 1]](x[t, d])",
       ""},
      {"conv1d",
       "C=4 L=30 O=5",
       {"x f32 C,L activations", "w f32 O,C,3 weights", "y f32 O,L out"},
       {},
       "y[o, l] = sum[c, r](if 0 <= l + r - 1 and l + r - 1 < L then x[c, l + r - 1] * w[o, c, r] else 0)",
       ""},
      {"depthwise_conv2d",
       "C=3 H=9 W=8",
       {"x bf16 C,H,W activations", "w bf16 C,3,3 weights", "y bf16 C,H,W out"},
       {},
       "y[c, h, w_] = sum[a in 0..3, b in 0..3 | 0 <= h + a - 1 and h + a - 1 < H and 0 <= w_ + b - 1 and w_ "
       "+ b - 1 < W]"
       "(x[c, h + a - 1, w_ + b - 1] * w[c, a, b])",
       ""},
      {"maxpool",
       "C=3 L=20",
       {"x f16 C,2*L real", "y f16 C,L out"},
       {},
       "y[c, l] = max[r in 0..2](x[c, 2*l + r])",
       ""},
      {"quantize_rows",
       "N=8 D=32",
       {"x bf16 N,D activations", "q e4m3 N,D out", "s f32 N out"},
       {},
       "s[i] = max(max[d](abs(x[i, d])), 1e-12) / 448\nq[i, d] = e4m3(x[i, d] / s[i])",
       ""},
      {"dequantize",
       "N=8 D=32",
       {"q e4m3 N,D real", "s f32 N positive", "y bf16 N,D out"},
       {},
       "y[i, d] = q[i, d] * s[i]",
       ""},
      {"int8_matmul",
       "M=9 N=8 K=70",
       {"a i8 M,K integers(-128,127)", "b i8 K,N integers(-128,127)", "s f32 N positive", "y f32 M,N out"},
       {},
       "y[i, j] = sum[k](a[i, k] * b[k, j]) * s[j]",
       ""},
      {"adamw",
       "N=200",
       {"p f32 N inout weights", "m f32 N inout gradients", "v f32 N inout positive", "g bf16 N gradients"},
       {"lr f32 1e-3", "b1 f32 0.9", "b2 f32 0.999", "eps f32 1e-8", "wd f32 0.01"},
       "m[i] = b1 * m[i] + (1 - b1) * g[i]\nv[i] = b2 * v[i] + (1 - b2) * g[i]^2\n"
       "p[i] = p[i] - lr * (m[i] / (sqrt(v[i]) + eps) + wd * p[i])",
       ""},
      {"scatter_max",
       "T=100 V=7 D=5",
       {"x f32 T,D activations", "t i32 T index(V)", "y f32 V,D out"},
       {},
       "y[t[i], d] max= x[i, d]",
       ""},
      {"histogram", "T=1000 V=16", {"t u8 T integers(0,15)", "y i64 V out"}, {}, "y[t[i]] += 1", ""},
      {"l2_normalize",
       "N=6 D=48",
       {"x f32 N,D activations", "y f32 N,D out"},
       {"eps f32 1e-12"},
       "y[i, d] = x[i, d] / sqrt(max(sum[k](x[i, k]^2), eps))",
       ""},
      {"masked_mean",
       "N=6 D=48",
       {"x f32 N,D activations", "keep u8 N,D mask", "y f32 N out"},
       {},
       "y[i] = sum[d | keep[i, d] != 0](x[i, d]) / max(sum[d](keep[i, d]), 1)",
       ""},
      {"concat",
       "A=12 B=17",
       {"a f32 A real", "b f32 B real", "y f32 A+B out"},
       {},
       "y[i] = if i < A then a[i] else b[i - A]",
       ""},
      {"kl_divergence",
       "N=8 D=30",
       {"p f32 N,D probabilities", "q f32 N,D probabilities", "y f32 N out"},
       {},
       "y[i] = sum[d | p[i, d] > 0](p[i, d] * (log(p[i, d]) - log(q[i, d])))",
       ""},
      {"moe_combine",
       "T=14 E=5 D=8 K=2",
       {"h f32 E,T,D activations", "e i32 T,K index(E)", "w f32 T,K probabilities", "y f32 T,D out"},
       {},
       "y[t, d] = sum[k](w[t, k] * h[e[t, k], t, d])",
       ""},
      {"cosine_similarity",
       "N=6 D=40",
       {"a bf16 N,D activations", "b bf16 N,D activations", "y f32 N out"},
       {},
       "y[i] = sum[d](a[i, d] * b[i, d]) / (sqrt(sum[d](a[i, d]^2)) * sqrt(sum[d](b[i, d]^2)))",
       ""},
      {"frobenius",
       "N=60 D=40",
       {"x f32 N,D activations", "y f32 1 out"},
       {},
       "y = sqrt(sum[i, j](x[i, j]^2))",
       ""},
      {"permute_rows",
       "T=15 D=6",
       {"x f32 T,D real", "y f32 T,D out"},
       {},
       "y[(7 * t + 3) % T, d] = x[t, d]",
       ""},
      {"softcap",
       "N=200",
       {"x f32 N activations", "y f32 N out"},
       {"cap f32 30"},
       "y[i] = cap * tanh(x[i] / cap)",
       ""},
      {"sum_f64",
       "N=3 D=500",
       {"x f64 N,D activations", "y f64 N out"},
       {},
       "y[i] = sum[d](x[i, d])",
       "accumulate = \"f64\""},
  };
  return kList;
}

const Operator& operator_named(const std::string& name) {
  const auto found = std::ranges::find(operators(), name, &Operator::name);
  EXPECT_NE(found, operators().end()) << name;
  return *found;
}

namespace {

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

}  // namespace

std::string toml_of(const Operator& op) {
  std::string dims, shape, tensors, scalars, args;
  for (const std::string& dim : words_of(op.dims, ' ')) {
    const auto parts = words_of(dim, '=');
    dims += fmt::format("{} = {{ min = 1, max = 100000 }}\n", parts[0]);
    shape += fmt::format("{} = {}\n", parts[0], parts[1]);
  }
  for (const std::string& tensor : op.tensors) {
    const auto parts = words_of(tensor, ' ');
    std::string extents, lines;
    for (const std::string& extent : words_of(parts[2], ',')) extents += fmt::format("\"{}\", ", extent);
    for (std::size_t i = 3; i < parts.size(); ++i)
      lines += parts[i] == "out" || parts[i] == "inout" ? fmt::format("role = \"{}\"\n", parts[i])
                                                        : fmt::format("values = \"{}\"\n", parts[i]);
    tensors +=
        fmt::format("[tensors.{}]\ndtype = \"{}\"\nshape = [{}]\n{}", parts[0], parts[1], extents, lines);
    args += fmt::format("\"{}\", ", parts[0]);
  }
  for (const std::string& scalar : op.scalars) {
    const auto parts = words_of(scalar, ' ');
    scalars += fmt::format("[scalars.{}]\ndtype = \"{}\"\nvalue = {}\n", parts[0], parts[1], parts[2]);
  }
  return fmt::format(
      "title = \"{}\"\n[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [{}]\n[dims]\n{}[[shapes]]\n{}{}{}"
      "[reference]\nformula = \"\"\"\n{}\n\"\"\"\n{}\n",
      op.name, args, dims, shape, tensors, scalars, op.formula, op.settings);
}

Bindings draw_bindings(const Contract& contract, unsigned seed) {
  Bindings bindings;
  bindings.shape = contract.shapes[0];
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal_draw;
  std::uniform_real_distribution<double> unit;
  for (const ScalarSpec& scalar : contract.scalars)
    bindings.scalars[scalar.name] = Scalar::of(scalar.dtype, scalar.values[0]);
  for (const TensorSpec* spec : contract.inputs()) {
    Tensor tensor = Tensor::zeros(spec->dtype, *spec->extents(bindings.shape));
    const int64_t count = tensor.count();
    const Values& values = spec->values;
    const int64_t a = *values.a.eval(bindings.shape), b = *values.b.eval(bindings.shape);
    std::vector<int64_t> integers(static_cast<std::size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const double z = normal_draw(random), p = unit(random);
      switch (values.kind) {
        case ValuesKind::Positive:
          tensor.store(i, 0.1 + std::abs(z));
          break;
        case ValuesKind::Probabilities:
          tensor.store(i, 0.01 + 0.98 * p);
          break;
        case ValuesKind::Gradients:
          tensor.store(i, 0.1 * z);
          break;
        case ValuesKind::Index:
        case ValuesKind::Tokens:
          integers[static_cast<std::size_t>(i)] = static_cast<int64_t>(p * static_cast<double>(a));
          break;
        case ValuesKind::Mask:
          integers[static_cast<std::size_t>(i)] = p < 0.6;
          break;
        case ValuesKind::Offsets:
          integers[static_cast<std::size_t>(i)] = i == 0 ? 0
                                                  : i == count - 1
                                                      ? a
                                                      : static_cast<int64_t>(p * static_cast<double>(a + 1));
          break;
        case ValuesKind::Integers:
          integers[static_cast<std::size_t>(i)] =
              a + static_cast<int64_t>(p * static_cast<double>(b - a + 1));
          break;
        default:
          tensor.store(i, 2 * z);
      }
    }
    if (values.kind == ValuesKind::Offsets) std::ranges::sort(integers);
    if (!is_float(spec->dtype))
      for (int64_t i = 0; i < count; ++i) tensor.store_int(i, integers[static_cast<std::size_t>(i)]);
    bindings.inputs[spec->name] = share(std::move(tensor));
  }
  return bindings;
}

}  // namespace assay::reference::testing
