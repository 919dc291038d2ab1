#include "train/states.h"

#include <cmath>

#include "base/random.h"

namespace assay::train {

namespace {

// Sizes of the states. `odd`: no extent is a multiple of 4 but by need (heads have an even width); `even`: all are multiples of 16, for
// contracts that ask for it.
ModelSizes sized(int64_t vocabulary, int64_t width, int64_t heads, int64_t feed_forward, int64_t sequence,
                 int64_t sequences) {
  return {.vocabulary = vocabulary,
          .width = width,
          .heads = heads,
          .layers = 1,
          .feed_forward = feed_forward,
          .sequence = sequence,
          .sequences = sequences};
}
std::vector<ModelSizes> small() {
  return {sized(251, 78, 3, 149, 67, 3), sized(256, 64, 2, 96, 64, 4)};
}
std::vector<ModelSizes> long_sequences() {
  return {sized(251, 52, 2, 61, 1030, 1), sized(256, 64, 2, 64, 1024, 1), sized(251, 52, 2, 61, 510, 2),
          sized(256, 64, 2, 64, 512, 2)};
}
std::vector<ModelSizes> large_vocabulary() {
  return {sized(32003, 30, 1, 17, 9, 3), sized(32000, 32, 1, 32, 16, 2)};
}
std::vector<ModelSizes> wide() {
  return {sized(61, 1036, 14, 1030, 19, 1), sized(64, 1024, 16, 1024, 16, 1)};
}

// Sums of thousands of terms, which real feed-forward layers have (their inner width is 8,192 to 28,672 in common models): what a biased rounding
// costs grows with their length, what an unbiased one costs with its root.
std::vector<ModelSizes> wide_feed_forward() {
  return {sized(61, 62, 1, 8190, 33, 1), sized(64, 64, 1, 8192, 32, 1), sized(61, 62, 1, 4094, 33, 1),
          sized(64, 64, 1, 4096, 32, 1)};
}

// Steps of training before a state, with the cell's tokens and optimizer: the least after which all optimizers differ, moments and all.
constexpr int kSteps = 3;

template <class Change>
void for_each_parameter(const ModelSizes& sizes, uint64_t seed, Weights<float>& weights,
                        const Change& change) {
  const std::vector<Parameter> all = parameters(sizes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Random random(mix(mix(seed, hash("state of the model")), hash(all[i].name)));
    change(all[i], random, weights[i]);
  }
}

// How much the weights of a long training have grown, as parts of what they were: scores of attention in the hundreds, gates of some dozen.
constexpr float kGrownScores = 4, kGrownGates = 4;
// Logits of a confident model, in their standard deviation.
constexpr double kGrownLogits = 40;
// Channels that stand out, and tokens with long, short and no rows of the embedding.
constexpr float kOutlier = 16, kLongRow = 32, kShortRow = 0x1p-10f;
constexpr int kOutliers = 3;

void late_training(const ModelSizes& sizes, uint64_t seed, Weights<float>& weights) {
  for_each_parameter(
      sizes, seed, weights, [&](const Parameter& parameter, Random& random, std::vector<float>& values) {
        const std::string& name = parameter.name;
        const auto scale = [&](float factor) {
          for (float& value : values) value *= factor;
        };
        if (name == "embedding") {
          const auto width = static_cast<std::size_t>(sizes.width);
          for (std::size_t row = 0; row < values.size() / width; ++row) {
            const double kind = random.uniform();
            const float factor = row + 1 == values.size() / width ? 0
                                 : kind < 0.1                     ? kLongRow
                                 : kind < 0.2                     ? kShortRow
                                                                  : 1;
            for (std::size_t d = 0; d < width; ++d) values[row * width + d] *= factor;
          }
        } else if (name.ends_with("norm")) {
          for (float& value : values) value = static_cast<float>(std::exp(random.normal()));
          for (int i = 0; i < kOutliers; ++i)
            values[static_cast<std::size_t>(random.between(0, static_cast<int64_t>(values.size()) - 1))] *=
                kOutlier;
          values.back() *= kOutlier;
        } else if (name.ends_with("query") || name.ends_with("key")) {
          scale(kGrownScores);
        } else if (name.ends_with("up") || name.ends_with("gate")) {
          scale(kGrownGates);
        } else if (name == "head") {
          scale(static_cast<float>(kGrownLogits /
                                   (parameter.spread * std::sqrt(static_cast<double>(sizes.width)))));
        }
      });
}

// So small that the mean square of the stream is about epsilon.
constexpr float kQuiet = 0x1p-10f;

void quiet_stream(const ModelSizes& sizes, uint64_t seed, Weights<float>& weights) {
  for_each_parameter(sizes, seed, weights,
                     [&](const Parameter& parameter, Random&, std::vector<float>& values) {
                       if (parameter.name == "embedding" || parameter.name == "embedding norm" ||
                           parameter.name.ends_with("attention output") || parameter.name.ends_with("down"))
                         for (float& value : values) value *= kQuiet;
                     });
}

}  // namespace

std::vector<ModelState> model_states(const ModelSizes& sizes) {
  std::vector<ModelState> states = {
      {.name = "first batch", .meaning = "as the run begins", .sizes = {sizes}, .is_own_run = true},
      {.name = "fourth batch",
       .meaning = "after three steps of the run",
       .sizes = {sizes},
       .steps = kSteps,
       .is_own_run = true},
      {.name = "odd sizes", .meaning = "extents that are not multiples of 4", .sizes = small()},
      {.name = "late training",
       .meaning = "grown weights: outlier channels, saturated gates, peaked softmaxes",
       .sizes = small(),
       .grow = late_training,
       .is_confident = true},
      {.name = "quiet stream",
       .meaning = "activations so small that epsilon matters",
       .sizes = small(),
       .grow = quiet_stream},
      {.name = "overflow",
       .meaning = "a NaN and infinities in one input of each call",
       .sizes = small(),
       .overflows = true},
      {.name = "long sequence", .meaning = "some thousand tokens", .sizes = long_sequences()},
      {.name = "large vocabulary",
       .meaning = "some ten thousand tokens to choose from",
       .sizes = large_vocabulary()},
      {.name = "wide model", .meaning = "rows of some thousand elements", .sizes = wide()},
      {.name = "wide feed-forward",
       .meaning = "products that add up thousands of terms",
       .sizes = wide_feed_forward()},
  };
  for (ModelState& state : states) {
    for (ModelSizes& each : state.sizes) each.activation = sizes.activation;
    if (!state.is_own_run) state.steps = kSteps;
  }
  return states;
}

}  // namespace assay::train
