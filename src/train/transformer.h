// The transformer: its loss and gradients, as a sequence of operators.
//
//     stream = norm(embedding[tokens])
//     layer:   stream += attention(norm(stream)) · output;  stream += swiglu(norm(stream)) · down
//     loss   = cross-entropy(norm(stream) · head)
//
// Example, for the weights `weights` in the order of parameters(sizes):
//
//     Transformer<float> model(sizes);
//     Gradients<float> gradients;
//     double loss = model.gradients(executor, weights, batch, gradients);
#pragma once

#include <string>
#include <vector>

#include "train/executor.h"
#include "train/model.h"

namespace assay::train {

// One vector for each parameter, in their order.
template <class Real>
using Weights = std::vector<std::vector<Real>>;

template <class Real>
struct Gradients {
  Weights<Real> parameters;
  std::vector<Real> losses;  // of each token
};

// The first weights of a run.
template <class Real>
Weights<Real> first_weights(const ModelSizes& sizes, uint64_t seed);

template <class Real>
class Transformer {
 public:
  explicit Transformer(const ModelSizes& sizes);
  ~Transformer();

  // The mean loss of a batch, and its gradients.
  double gradients(Executor<Real>& executor, const Weights<Real>& weights, const Batch& batch,
                   Gradients<Real>& gradients);
  // The most probable next token of each token of the last batch.
  std::vector<int64_t> predictions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One step of an optimizer.
template <class Real>
struct OptimizerState {
  Weights<Real> first, second;  // momentum, or the moments of AdamW
  int step = 0;
};
template <class Real>
void update(Executor<Real>& executor, Optimizer optimizer, const OptimizerSettings& settings,
            Weights<Real>& weights, const Weights<Real>& gradients, OptimizerState<Real>& state);

}  // namespace assay::train
