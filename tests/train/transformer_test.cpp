// The transformer's gradients against finite differences, and against an evaluation in double.
#include "train/transformer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"

namespace assay::train {
namespace {

ModelSizes small(Activation activation, bool tied) {
  return {.vocabulary = 37,
          .width = 16,
          .heads = 2,
          .layers = 2,
          .feed_forward = 24,
          .sequence = 12,
          .sequences = 3,
          .activation = activation,
          .tied = tied};
}

struct Variant {
  const char* name;
  Activation activation;
  bool tied;
  const char* slot;  // whose fused form the step uses; null: none
};
class Variants : public ::testing::TestWithParam<Variant> {};

Candidate fused(const char* slot) {
  return {.slot = slot ? slot_named(slot) : nullptr};
}

// Each gradient in double, against (loss(w + h d) - loss(w - h d)) / 2h along random directions d of one parameter.
TEST_P(Variants, AgreesWithFiniteDifferences) {
  const ModelSizes sizes = small(GetParam().activation, GetParam().tied);
  Team team(2);
  const Candidate candidate = fused(GetParam().slot);
  const RunRole role{.arithmetic = {.rounds = false}, .candidate = candidate.slot ? &candidate : nullptr};
  Executor<double> executor(team, role);
  Transformer<double> model(sizes);
  const Batch batch = Data::generated(TokenSource::Zipf, sizes, 3).batch(0);
  Weights<double> weights = first_weights<double>(sizes, 5);
  for (double& w : weights[0]) w *= 20;  // as after some training: the norm of a tiny row is far from linear
  Gradients<double> gradients, unused;
  model.gradients(executor, weights, batch, gradients);
  const std::vector<Parameter> all = parameters(sizes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (weights[i].empty()) continue;
    Random random(mix(7, i));
    std::vector<double> direction(weights[i].size());
    double along = 0;
    for (std::size_t j = 0; j < direction.size(); ++j) {
      direction[j] = random.normal();
      along += direction[j] * gradients.parameters[i][j];
    }
    constexpr double kStep = 1e-5;
    const auto loss_at = [&](double step) {
      Weights<double> moved = weights;
      for (std::size_t j = 0; j < direction.size(); ++j) moved[i][j] += step * direction[j];
      return model.gradients(executor, moved, batch, unused);
    };
    const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(along, difference, 1e-6 * (std::abs(difference) + 1e-2)) << all[i].name;
  }
}

// Real float, no rounding to bf16: as close to double as fp32 is.
TEST_P(Variants, AgreesWithDouble) {
  const ModelSizes sizes = small(GetParam().activation, GetParam().tied);
  Team team(2);
  const Candidate candidate = fused(GetParam().slot);
  for (const bool reordered : {false, true}) {
    const RunRole role{.arithmetic = {.rounds = false, .reordered = reordered},
                       .candidate = candidate.slot ? &candidate : nullptr};
    Executor<float> in_float(team, role);
    Executor<double> in_double(team, role);
    const Batch batch = Data::generated(TokenSource::Zipf, sizes, 3).batch(0);
    Gradients<float> narrow;
    Gradients<double> wide;
    const double loss =
        Transformer<float>(sizes).gradients(in_float, first_weights<float>(sizes, 5), batch, narrow);
    const double exact =
        Transformer<double>(sizes).gradients(in_double, first_weights<double>(sizes, 5), batch, wide);
    EXPECT_NEAR(loss, exact, 1e-5);
    const std::vector<Parameter> all = parameters(sizes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      double error = 0, norm = 0;
      for (std::size_t j = 0; j < wide.parameters[i].size(); ++j) {
        error += std::pow(static_cast<double>(narrow.parameters[i][j]) - wide.parameters[i][j], 2);
        norm += std::pow(wide.parameters[i][j], 2);
      }
      EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm)) << all[i].name << (reordered ? ", reordered" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Train, Variants,
    ::testing::Values(Variant{"swiglu", Activation::SwiGLU, false, nullptr},
                      Variant{"gelu", Activation::GELU, false, nullptr},
                      Variant{"tied", Activation::SwiGLU, true, nullptr},
                      Variant{"fused_norm", Activation::SwiGLU, false, "residual_rmsnorm"},
                      Variant{"fused_norm_grad", Activation::SwiGLU, false, "residual_rmsnorm_grad"},
                      Variant{"fused_embedding", Activation::SwiGLU, false, "embedding_rmsnorm_grad"}),
    [](const auto& variant) { return variant.param.name; });

// The same bits on one thread and on three.
TEST(Transformer, DoesNotDependOnThreads) {
  const ModelSizes sizes = {.vocabulary = 300,
                            .width = 32,
                            .heads = 2,
                            .layers = 1,
                            .feed_forward = 48,
                            .sequence = 32,
                            .sequences = 9};
  const Batch batch = Data::generated(TokenSource::Zipf, sizes, 3).batch(0);
  Gradients<float> first;
  for (const int threads : {1, 3}) {
    Team team(threads);
    Executor<float> executor(team, {});
    Gradients<float> gradients;
    Transformer<float>(sizes).gradients(executor, first_weights<float>(sizes, 5), batch, gradients);
    if (threads == 1) first = gradients;
    EXPECT_EQ(first.parameters, gradients.parameters);
    EXPECT_EQ(first.losses, gradients.losses);
  }
}

}  // namespace
}  // namespace assay::train
