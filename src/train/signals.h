// How the gradient of one run compares with that of another, tensor by tensor and part by part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/model.h"

namespace assay::train {

// A gradient g against the gradient r that it should be.
struct Comparison {
  double gain = 1;  // <g, r> / <r, r>
  double cosine = 1;
  double relative_error = 0;  // |g - r| / |r|
  double norm = 0;            // |r|
  int64_t nonfinite = 0;      // elements of g
};
Comparison compare(std::span<const float> g, std::span<const float> r);

// One tensor at one step. The rows of the embedding are also compared by how often their token occurs in the batch.
struct TensorSignal {
  std::string tensor;           // a parameter: "embedding"
  std::string part;             // "tokens seen 100 to 999 times"; empty: the whole tensor
  Comparison candidate;         // with the trusted gradient
  double noise_gain = 0;        // root mean square of gain - 1 of the noise
  double noise_error = 0;       // … of the relative error
  double update_to_weight = 0;  // |update| / |weight|
};

// What the gradients of a step are compared by: the losses, every parameter, and the rows of the embedding by how often
// their token occurs.
struct SignalPlace {
  std::string tensor, part;
  int parameter = -1;         // -1: the losses
  int64_t low = 0, high = 0;  // of a part: occurrences; high 0: not a part
};
std::vector<SignalPlace> signal_places(const ModelSizes& sizes);
// The comparison at each place. g and r: a vector for each parameter, and the losses last.
std::vector<Comparison> compare_all(const std::vector<SignalPlace>& places,
                                    const std::vector<std::vector<float>>& g,
                                    const std::vector<std::vector<float>>& r, const Batch& batch,
                                    const ModelSizes& sizes);

struct StepSignals {
  int step = 0;
  double loss = 0;
  std::vector<TensorSignal> tensors;
};

}  // namespace assay::train
