#include "train/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/random.h"

namespace assay::train {

namespace {

constexpr double kNormEpsilon = 1e-6;
constexpr double kRotaryBase = 10000;

// Where the parameters of a layer stand, from its first one.
enum LayerParameter : int {
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kOutput,
  kForwardNorm,
  kUp,
  kGate,
  kDown,
  kOfLayer
};

// Indices into parameters(sizes). The gate is the last of a layer's to be present only with SwiGLU, so a layer has the
// same places either way: without one, it is an empty parameter.
constexpr int kEmbedding = 0, kEmbeddingNorm = 1, kFirstLayer = 2;

}  // namespace

template <class Real>
Weights<Real> first_weights(const ModelSizes& sizes, uint64_t seed) {
  Weights<Real> weights;
  for (const Parameter& parameter : parameters(sizes)) {
    int64_t count = 1;
    for (const int64_t extent : parameter.dims) count *= extent;
    std::vector<Real>& values = weights.emplace_back(static_cast<std::size_t>(count), Real{1});
    if (parameter.spread == 0) continue;
    Random random(mix(seed, hash(parameter.name)));
    for (Real& value : values)
      value = static_cast<Real>(static_cast<float>(parameter.spread * random.normal()));
  }
  return weights;
}
template Weights<float> first_weights(const ModelSizes&, uint64_t);
template Weights<double> first_weights(const ModelSizes&, uint64_t);

template <class Real>
struct Transformer<Real>::Impl {
  using A = Array<Real>;

  // What the backward pass needs of a layer.
  struct Layer {
    A attention_in, normed, q, k, v;            // stream before the norm; after it; before the rotation
    A heads_q, heads_k, heads_v, heads_o, lse;  // [sequences × heads, S, width of a head]
    A mixed, forward_in, forward_normed;        // attention's result; stream before the second norm; after it
    A gate, value, gated;
  };

  explicit Impl(const ModelSizes& model) : sizes(model), layers(static_cast<std::size_t>(model.layers)) {
    positions.dims = {sizes.tokens()};
    for (int64_t t = 0; t < sizes.tokens(); ++t) positions.integers.push_back(t % sizes.sequence);
    positions.dtype = DType::i32;
  }

  const ModelSizes sizes;
  std::vector<Layer> layers;
  std::vector<A> weight;  // working copies
  A tokens, targets, positions;
  std::vector<Real> token_weights;  // of each loss in the mean
  A embedded, stream, added, final_in, final_normed, head, logits, loss, lse, dloss, dlogits;
  A dstream, dnormed, dpart, dsum, dadded, dheads_q, dheads_k, dheads_v, dheads_o, delta, dq, dk, dv, dgated,
      dgate, dvalue, rotated, dhead, dweight, zeros;

  int64_t T() const { return sizes.tokens(); }
  int64_t D() const { return sizes.width; }
  A& layer_weight(int64_t layer, LayerParameter p) {
    return weight[static_cast<std::size_t>(kFirstLayer + layer * kOfLayer + p)];
  }
  static int at(int64_t layer, LayerParameter p) {
    return kFirstLayer + static_cast<int>(layer) * kOfLayer + p;
  }
  int final_norm() const { return kFirstLayer + static_cast<int>(sizes.layers) * kOfLayer; }
  bool is_gated() const { return sizes.activation == Activation::SwiGLU; }

  contract::Shape rows() const { return {{"T", T()}, {"D", D()}}; }

  // ---- Pieces of the forward pass ----

  void norm(Executor<Real>& e, const std::string& site, A& x, A& w, A& y) {
    y.shape(DType::bf16, {T(), D()});
    e.apply("rmsnorm", site, {rows(), {{"x", &x}, {"w", &w}, {"y", &y}}, {{"eps", kNormEpsilon}}});
  }
  // in = stream + added; y = norm(in)
  void add_and_norm(Executor<Real>& e, const std::string& site, const A& before, A& x, A& w, A& in, A& y) {
    if (e.is_slot("residual_rmsnorm")) {
      in = before;
      y.shape(DType::bf16, {T(), D()});
      e.apply("residual_rmsnorm", site,
              {rows(), {{"x", &x}, {"w", &w}, {"residual", &in}, {"y", &y}}, {{"eps", kNormEpsilon}}});
    } else {
      e.add(before, x, in);
      norm(e, site, in, w, y);
    }
  }
  void product(Executor<Real>& e, const std::string& site, A& x, A& w, A& y) {
    const int64_t K = x.dims.back(), N = w.dims.back();
    y.shape(DType::bf16, {T(), N});
    e.apply("linear", site, {{{"T", T()}, {"K", K}, {"N", N}}, {{"x", &x}, {"w", &w}, {"y", &y}}, {}});
  }
  void rotate(Executor<Real>& e, const std::string& site, A& x, A& y, bool backward) {
    const std::vector<int64_t> dims = std::exchange(x.dims, {T(), sizes.heads, sizes.head_width()});
    y.shape(DType::bf16, x.dims);
    const contract::Shape shape = {{"T", T()}, {"H", sizes.heads}, {"P", sizes.head_width() / 2}};
    if (backward)
      e.apply("rope_grad", site,
              {shape, {{"dy", &x}, {"positions", &positions}, {"dx", &y}}, {{"base", kRotaryBase}}});
    else
      e.apply("rope", site,
              {shape, {{"x", &x}, {"positions", &positions}, {"y", &y}}, {{"base", kRotaryBase}}});
    x.dims = dims;
    y.dims = {T(), D()};
  }
  // [T, heads · width] to [sequences · heads, S, width], and back.
  void to_heads(Executor<Real>& e, const A& x, A& y) {
    const int64_t S = sizes.sequence, H = sizes.heads, W = sizes.head_width();
    y.shape(DType::bf16, {sizes.sequences * H, S, W});
    e.team().pieces(sizes.sequences * H, 1, [&](int64_t h, int64_t) {
      for (int64_t s = 0; s < S; ++s)
        std::copy_n(x.data() + ((h / H * S + s) * H + h % H) * W, W, y.data() + (h * S + s) * W);
    });
  }
  void from_heads(Executor<Real>& e, const A& x, A& y) {
    const int64_t S = sizes.sequence, H = sizes.heads, W = sizes.head_width();
    y.shape(DType::bf16, {T(), D()});
    e.team().pieces(sizes.sequences * H, 1, [&](int64_t h, int64_t) {
      for (int64_t s = 0; s < S; ++s)
        std::copy_n(x.data() + (h * S + s) * W, W, y.data() + ((h / H * S + s) * H + h % H) * W);
    });
  }
  contract::Shape head_shape() const {
    return {{"H", sizes.sequences * sizes.heads}, {"S", sizes.sequence}, {"D", sizes.head_width()}};
  }

  void attention(Executor<Real>& e, int64_t l) {
    Layer& a = layers[static_cast<std::size_t>(l)];
    const std::string name = fmt::format("layer {} ", l);
    product(e, name + "query", a.normed, layer_weight(l, kQuery), a.q);
    product(e, name + "key", a.normed, layer_weight(l, kKey), a.k);
    product(e, name + "value", a.normed, layer_weight(l, kValue), a.v);
    rotate(e, name + "query rotation", a.q, rotated, false);
    to_heads(e, rotated, a.heads_q);
    rotate(e, name + "key rotation", a.k, rotated, false);
    to_heads(e, rotated, a.heads_k);
    to_heads(e, a.v, a.heads_v);
    a.heads_o.shape(DType::bf16, a.heads_q.dims);
    a.lse.shape(DType::f32, {sizes.sequences * sizes.heads, sizes.sequence});
    e.apply("attention", name + "attention",
            {head_shape(),
             {{"q", &a.heads_q}, {"k", &a.heads_k}, {"v", &a.heads_v}, {"o", &a.heads_o}, {"lse", &a.lse}},
             {}});
    from_heads(e, a.heads_o, a.mixed);
    product(e, name + "attention output", a.mixed, layer_weight(l, kOutput), added);
  }

  void feed_forward(Executor<Real>& e, int64_t l) {
    Layer& a = layers[static_cast<std::size_t>(l)];
    const std::string name = fmt::format("layer {} ", l);
    const contract::Shape shape = {{"T", T()}, {"F", sizes.feed_forward}};
    product(e, name + "up", a.forward_normed, layer_weight(l, kUp), a.value);
    a.gated.shape(DType::bf16, a.value.dims);
    if (is_gated()) {
      product(e, name + "gate", a.forward_normed, layer_weight(l, kGate), a.gate);
      e.apply("swiglu", name + "activation",
              {shape, {{"gate", &a.gate}, {"value", &a.value}, {"y", &a.gated}}, {}});
    } else {
      e.apply("gelu", name + "activation", {shape, {{"x", &a.value}, {"y", &a.gated}}, {}});
    }
    product(e, name + "down", a.gated, layer_weight(l, kDown), added);
  }

  void forward(Executor<Real>& e) {
    embedded.shape(DType::bf16, {T(), D()});
    e.apply("embedding", "embedding",
            {{{"T", T()}, {"D", D()}, {"V", sizes.vocabulary}},
             {{"w", &weight[kEmbedding]}, {"tokens", &tokens}, {"y", &embedded}},
             {}});
    norm(e, "embedding norm", embedded, weight[kEmbeddingNorm], stream);
    const A* before = &stream;
    for (int64_t l = 0; l < sizes.layers; ++l) {
      Layer& a = layers[static_cast<std::size_t>(l)];
      const std::string name = fmt::format("layer {} ", l);
      if (l == 0) {
        a.attention_in = stream;
        norm(e, name + "attention norm", a.attention_in, layer_weight(l, kAttentionNorm), a.normed);
      } else {
        add_and_norm(e, name + "attention norm", *before, added, layer_weight(l, kAttentionNorm),
                     a.attention_in, a.normed);
      }
      attention(e, l);
      add_and_norm(e, name + "feed-forward norm", a.attention_in, added, layer_weight(l, kForwardNorm),
                   a.forward_in, a.forward_normed);
      feed_forward(e, l);
      before = &a.forward_in;
    }
    add_and_norm(e, "final norm", *before, added, weight[static_cast<std::size_t>(final_norm())], final_in,
                 final_normed);
    product(e, "head", final_normed, head, logits);
    loss.shape(DType::f32, {T()});
    lse.shape(DType::f32, {T()});
    e.apply("cross_entropy", "loss",
            {{{"T", T()}, {"V", sizes.vocabulary}},
             {{"logits", &logits}, {"targets", &targets}, {"loss", &loss}, {"lse", &lse}},
             {}});
  }

  // ---- Pieces of the backward pass ----

  void product_grad(Executor<Real>& e, const std::string& site, A& x, A& dy, A& w, A& dx,
                    std::vector<Real>& dw) {
    const contract::Shape shape = {{"T", T()}, {"K", w.dims[0]}, {"N", w.dims[1]}};
    dx.shape(DType::bf16, {T(), w.dims[0]});
    e.apply("linear_grad_input", site, {shape, {{"dy", &dy}, {"w", &w}, {"dx", &dx}}, {}});
    dweight.shape(DType::bf16, w.dims);
    e.apply("linear_grad_weight", site, {shape, {{"x", &x}, {"dy", &dy}, {"dw", &dweight}}, {}});
    dw = dweight.values;
  }
  void norm_grad(Executor<Real>& e, const std::string& site, A& dy, A& x, A& w, A& dx,
                 std::vector<Real>& dw) {
    dx.shape(DType::bf16, {T(), D()});
    dweight.shape(DType::f32, {D()});
    e.apply("rmsnorm_grad", site,
            {rows(),
             {{"dy", &dy}, {"x", &x}, {"w", &w}, {"dx", &dx}, {"dw", &dweight}},
             {{"eps", kNormEpsilon}}});
    dw = dweight.values;
  }
  // dstream becomes the gradient before the norm: what arrives by the stream and what arrives through the norm.
  void add_and_norm_grad(Executor<Real>& e, const std::string& site, A& dy, A& in, A& w,
                         std::vector<Real>& dw) {
    if (e.is_slot("residual_rmsnorm_grad")) {
      dadded.shape(DType::bf16, {T(), D()});
      dweight.shape(DType::f32, {D()});
      e.apply("residual_rmsnorm_grad", site,
              {rows(),
               {{"dy", &dy},
                {"dresidual", &dstream},
                {"residual", &in},
                {"w", &w},
                {"dx", &dadded},
                {"dw", &dweight}},
               {{"eps", kNormEpsilon}}});
      dw = dweight.values;
      std::swap(dstream, dadded);
    } else {
      norm_grad(e, site, dy, in, w, dpart, dw);
      e.add(dstream, dpart, dadded);
      std::swap(dstream, dadded);
    }
  }

  // From the gradient of what a layer's feed-forward part adds (dstream) to that of its normed input (dnormed).
  void feed_forward_grad(Executor<Real>& e, int64_t l, Weights<Real>& g) {
    Layer& a = layers[static_cast<std::size_t>(l)];
    const std::string name = fmt::format("layer {} ", l);
    const contract::Shape shape = {{"T", T()}, {"F", sizes.feed_forward}};
    const auto of = [&](LayerParameter p) -> std::vector<Real>& {
      return g[static_cast<std::size_t>(at(l, p))];
    };
    product_grad(e, name + "down", a.gated, dstream, layer_weight(l, kDown), dgated, of(kDown));
    dvalue.shape(DType::bf16, dgated.dims);
    if (!is_gated()) {
      e.apply("gelu_grad", name + "activation",
              {shape, {{"dy", &dgated}, {"x", &a.value}, {"dx", &dvalue}}, {}});
      return product_grad(e, name + "up", a.forward_normed, dvalue, layer_weight(l, kUp), dnormed, of(kUp));
    }
    dgate.shape(DType::bf16, dgated.dims);
    e.apply(
        "swiglu_grad", name + "activation",
        {shape,
         {{"dy", &dgated}, {"gate", &a.gate}, {"value", &a.value}, {"dgate", &dgate}, {"dvalue", &dvalue}},
         {}});
    product_grad(e, name + "up", a.forward_normed, dvalue, layer_weight(l, kUp), dpart, of(kUp));
    product_grad(e, name + "gate", a.forward_normed, dgate, layer_weight(l, kGate), dsum, of(kGate));
    e.add(dpart, dsum, dnormed);
  }

  void attention_grad(Executor<Real>& e, int64_t l, Weights<Real>& g) {
    Layer& a = layers[static_cast<std::size_t>(l)];
    const std::string name = fmt::format("layer {} ", l);
    const auto of = [&](LayerParameter p) -> std::vector<Real>& {
      return g[static_cast<std::size_t>(at(l, p))];
    };
    product_grad(e, name + "attention output", a.mixed, dstream, layer_weight(l, kOutput), dpart,
                 of(kOutput));
    to_heads(e, dpart, dheads_o);
    delta.shape(DType::f32, a.lse.dims);
    const int64_t W = sizes.head_width();
    e.team().pieces(delta.count(), kRowsOfPiece, [&](int64_t first, int64_t n) {
      for (int64_t i = first; i < first + n; ++i) {
        Real total = 0;
        for (int64_t d = 0; d < W; ++d) total += a.heads_o.data()[i * W + d] * dheads_o.data()[i * W + d];
        delta.data()[i] = total;
      }
    });
    for (A* array : {&dheads_q, &dheads_k, &dheads_v}) array->shape(DType::bf16, a.heads_q.dims);
    e.apply("attention_grad", name + "attention",
            {head_shape(),
             {{"q", &a.heads_q},
              {"k", &a.heads_k},
              {"v", &a.heads_v},
              {"o", &a.heads_o},
              {"dout", &dheads_o},
              {"lse", &a.lse},
              {"delta", &delta},
              {"dq", &dheads_q},
              {"dk", &dheads_k},
              {"dv", &dheads_v}},
             {}});
    from_heads(e, dheads_q, rotated);
    rotate(e, name + "query rotation", rotated, dq, true);
    from_heads(e, dheads_k, rotated);
    rotate(e, name + "key rotation", rotated, dk, true);
    from_heads(e, dheads_v, dv);
    product_grad(e, name + "query", a.normed, dq, layer_weight(l, kQuery), dpart, of(kQuery));
    product_grad(e, name + "key", a.normed, dk, layer_weight(l, kKey), dsum, of(kKey));
    e.add(dpart, dsum, dnormed);
    product_grad(e, name + "value", a.normed, dv, layer_weight(l, kValue), dpart, of(kValue));
    e.add(dnormed, dpart, dsum);
    std::swap(dnormed, dsum);
  }

  void embedding_grad(Executor<Real>& e, Weights<Real>& g) {
    const contract::Shape shape = {{"T", T()}, {"D", D()}, {"V", sizes.vocabulary}};
    A& w = weight[kEmbedding];
    A& gain = weight[kEmbeddingNorm];
    if (e.is_slot("embedding_rmsnorm_grad")) {
      A dw, dg;
      dw.shape(DType::bf16, w.dims);
      dg.shape(DType::f32, {D()});
      e.apply("embedding_rmsnorm_grad", "embedding",
              {shape,
               {{"dy", &dstream}, {"tokens", &tokens}, {"w", &w}, {"g", &gain}, {"dw", &dw}, {"dg", &dg}},
               {{"eps", kNormEpsilon}}});
      g[kEmbedding] = std::move(dw.values);
      g[kEmbeddingNorm] = std::move(dg.values);
      return;
    }
    norm_grad(e, "embedding norm", dstream, embedded, gain, dpart, g[kEmbeddingNorm]);
    A dw;
    dw.shape(DType::bf16, w.dims);
    e.apply("embedding_grad", "embedding", {shape, {{"dy", &dpart}, {"tokens", &tokens}, {"dw", &dw}}, {}});
    g[kEmbedding] = std::move(dw.values);
  }

  void backward(Executor<Real>& e, Weights<Real>& g) {
    g.resize(weight.size());
    dlogits.shape(DType::bf16, {T(), sizes.vocabulary});
    dloss.shape(DType::f32, {T()});
    std::ranges::copy(token_weights, dloss.data());
    e.apply("cross_entropy_grad", "loss",
            {{{"T", T()}, {"V", sizes.vocabulary}},
             {{"logits", &logits},
              {"targets", &targets},
              {"lse", &lse},
              {"dloss", &dloss},
              {"dlogits", &dlogits}},
             {}});
    std::vector<Real> of_head;
    product_grad(e, "head", final_normed, dlogits, head, dnormed, of_head);
    dstream.shape(DType::bf16, {T(), D()});
    std::ranges::fill(dstream.values, Real{0});  // nothing but the norm uses the last of the stream
    const auto last = static_cast<std::size_t>(final_norm());
    add_and_norm_grad(e, "final norm", dnormed, final_in, weight[last], g[last]);
    for (int64_t l = sizes.layers - 1; l >= 0; --l) {
      Layer& a = layers[static_cast<std::size_t>(l)];
      const std::string name = fmt::format("layer {} ", l);
      feed_forward_grad(e, l, g);
      add_and_norm_grad(e, name + "feed-forward norm", dnormed, a.forward_in, layer_weight(l, kForwardNorm),
                        g[static_cast<std::size_t>(at(l, kForwardNorm))]);
      attention_grad(e, l, g);
      if (l > 0) {
        add_and_norm_grad(e, name + "attention norm", dnormed, a.attention_in,
                          layer_weight(l, kAttentionNorm),
                          g[static_cast<std::size_t>(at(l, kAttentionNorm))]);
      } else {
        norm_grad(e, name + "attention norm", dnormed, a.attention_in, layer_weight(l, kAttentionNorm), dpart,
                  g[static_cast<std::size_t>(at(l, kAttentionNorm))]);
        e.add(dstream, dpart, dadded);
        std::swap(dstream, dadded);
      }
    }
    embedding_grad(e, g);
    if (!sizes.tied) {
      g[last + 1] = std::move(of_head);
    } else {
      for (int64_t v = 0; v < sizes.vocabulary; ++v)
        for (int64_t d = 0; d < D(); ++d)
          g[kEmbedding][static_cast<std::size_t>(v * D() + d)] +=
              of_head[static_cast<std::size_t>(d * sizes.vocabulary + v)];
    }
  }

  void set_token_weights(const std::vector<double>& weights) {
    token_weights.assign(static_cast<std::size_t>(T()), Real{1} / static_cast<Real>(T()));
    if (weights.empty()) return;
    double total = 0;
    for (const double each : weights) total += each;
    for (std::size_t t = 0; t < weights.size(); ++t)
      token_weights[t] = static_cast<Real>(static_cast<float>(weights[t] / total));
  }

  void copy_weights(Executor<Real>& e, const Weights<Real>& weights) {
    const std::vector<Parameter> all = parameters(sizes);
    weight.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      weight[i].dims = all[i].dims;
      e.copy_weight(weights[i], DType::bf16, weight[i]);
    }
    if (!sizes.tied) {
      std::swap(head, weight[static_cast<std::size_t>(final_norm()) + 1]);
      return;
    }
    head.shape(DType::bf16, {D(), sizes.vocabulary});
    for (int64_t d = 0; d < D(); ++d)
      for (int64_t v = 0; v < sizes.vocabulary; ++v)
        head.data()[d * sizes.vocabulary + v] = weight[kEmbedding].data()[v * D() + d];
  }
};

template <class Real>
Transformer<Real>::Transformer(const ModelSizes& sizes) : impl_(std::make_unique<Impl>(sizes)) {}
template <class Real>
Transformer<Real>::~Transformer() = default;

template <class Real>
double Transformer<Real>::gradients(Executor<Real>& executor, const Weights<Real>& weights,
                                    const Batch& batch, Gradients<Real>& gradients) {
  Impl& model = *impl_;
  model.copy_weights(executor, weights);
  for (auto [array, integers] :
       {std::pair(&model.tokens, &batch.tokens), std::pair(&model.targets, &batch.targets)}) {
    array->dtype = DType::i64;
    array->dims = {model.T()};
    array->integers = *integers;
  }
  model.set_token_weights(batch.weights);
  model.forward(executor);
  model.backward(executor, gradients.parameters);
  gradients.losses = model.loss.values;
  double total = 0;
  if (batch.weights.empty()) {
    for (const Real loss : gradients.losses) total += static_cast<double>(loss);
    return total / static_cast<double>(model.T());
  }
  for (std::size_t t = 0; t < gradients.losses.size(); ++t)
    total += static_cast<double>(gradients.losses[t]) * static_cast<double>(model.token_weights[t]);
  return total;
}

template <class Real>
std::vector<int64_t> Transformer<Real>::predictions() const {
  const Array<Real>& logits = impl_->logits;
  const int64_t vocabulary = impl_->sizes.vocabulary;
  std::vector<int64_t> best;
  for (int64_t t = 0; t < impl_->T(); ++t) {
    const Real* const row = logits.data() + t * vocabulary;
    best.push_back(std::max_element(row, row + vocabulary) - row);
  }
  return best;
}

template <class Real>
void update(Executor<Real>& executor, Optimizer optimizer, const OptimizerSettings& settings,
            Weights<Real>& weights, const Weights<Real>& gradients, OptimizerState<Real>& state) {
  ++state.step;
  state.first.resize(weights.size());
  state.second.resize(weights.size());
  Array<Real> p, g, m, v;
  // An array takes a vector's values without copying them, and gives them back.
  const auto lend = [](Array<Real>& array, std::vector<Real>& values) {
    array.dtype = DType::f32;
    array.values = std::move(values);
    array.dims = {array.count()};
  };
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].empty()) continue;
    const std::string site = fmt::format("update {}", i);
    if (optimizer != Optimizer::SGD) state.first[i].resize(weights[i].size());
    if (optimizer == Optimizer::AdamW) state.second[i].resize(weights[i].size());
    lend(p, weights[i]);
    lend(m, state.first[i]);
    lend(v, state.second[i]);
    std::vector<Real> gradient = gradients[i];
    lend(g, gradient);
    const contract::Shape shape = {{"n", p.count()}};
    switch (optimizer) {
      case Optimizer::SGD:
        executor.apply("sgd", site, {shape, {{"p", &p}, {"g", &g}}, {{"lr", settings.rate}}});
        break;
      case Optimizer::Momentum:
        executor.apply(
            "momentum", site,
            {shape, {{"p", &p}, {"m", &m}, {"g", &g}}, {{"lr", settings.rate}, {"mu", settings.momentum}}});
        break;
      case Optimizer::AdamW:
        executor.apply("adamw", site,
                       {shape,
                        {{"p", &p}, {"m", &m}, {"v", &v}, {"g", &g}},
                        {{"lr", settings.rate},
                         {"beta1", settings.beta1},
                         {"beta2", settings.beta2},
                         {"eps", settings.epsilon},
                         {"decay", settings.decay},
                         {"step", state.step}}});
        break;
    }
    weights[i] = std::move(p.values);
    state.first[i] = std::move(m.values);
    state.second[i] = std::move(v.values);
  }
}

template class Transformer<float>;
template class Transformer<double>;
template void update(Executor<float>&, Optimizer, const OptimizerSettings&, Weights<float>&,
                     const Weights<float>&, OptimizerState<float>&);
template void update(Executor<double>&, Optimizer, const OptimizerSettings&, Weights<double>&,
                     const Weights<double>&, OptimizerState<double>&);

}  // namespace assay::train
