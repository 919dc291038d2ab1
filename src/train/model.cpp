#include "train/model.h"

#include <fmt/format.h>

#include <cmath>

namespace assay::train {

Result<void> check(const ModelSizes& s) {
  const std::pair<const char*, int64_t> sizes[] = {{"vocabulary", s.vocabulary},
                                                   {"width", s.width},
                                                   {"heads", s.heads},
                                                   {"layers", s.layers},
                                                   {"feed-forward width", s.feed_forward},
                                                   {"sequence", s.sequence},
                                                   {"sequences", s.sequences}};
  for (const auto& [name, size] : sizes)
    if (size < 1) return Error{fmt::format("the model's {} is {}; it must be at least 1", name, size)};
  if (s.width % (2 * s.heads) != 0)
    return Error{
        fmt::format("the model's width {} must be a multiple of twice its {} heads", s.width, s.heads)};
  if (s.vocabulary < 2) return Error{"the model's vocabulary must have at least 2 tokens"};
  return {};
}

int64_t usual_sequences(std::string_view slot) {
  const bool is_costly = slot.starts_with("linear") || slot.starts_with("attention");
  return ModelSizes{}.sequences / (is_costly ? 4 : 1);
}

std::vector<Parameter> parameters(const ModelSizes& s) {
  const int64_t D = s.width, F = s.feed_forward;
  // Products keep the size of what goes through them; what a layer adds to the stream is smaller the more layers there are.
  const double through = 1 / std::sqrt(static_cast<double>(D));
  const double layers = std::sqrt(2.0 * static_cast<double>(s.layers));
  std::vector<Parameter> all = {{"embedding", {s.vocabulary, D}, 0.02}, {"embedding norm", {D}}};
  for (int64_t l = 0; l < s.layers; ++l) {
    const std::string layer = fmt::format("layer {} ", l);
    all.push_back({layer + "attention norm", {D}});
    all.push_back({layer + "query", {D, D}, through});
    all.push_back({layer + "key", {D, D}, through});
    all.push_back({layer + "value", {D, D}, through});
    all.push_back({layer + "attention output", {D, D}, through / layers});
    all.push_back({layer + "feed-forward norm", {D}});
    all.push_back({layer + "up", {D, F}, through});
    all.push_back({layer + "gate", {D, s.activation == Activation::SwiGLU ? F : 0}, through});
    all.push_back({layer + "down", {F, D}, 1 / std::sqrt(static_cast<double>(F)) / layers});
  }
  all.push_back({"final norm", {D}});
  if (!s.tied) all.push_back({"head", {D, s.vocabulary}, 0.02});
  return all;
}

std::string_view to_string(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::SGD:
      return "sgd";
    case Optimizer::Momentum:
      return "momentum";
    case Optimizer::AdamW:
      return "adamw";
  }
  return "";
}

std::string_view to_string(TokenSource source) {
  switch (source) {
    case TokenSource::Zipf:
      return "zipf";
    case TokenSource::Uniform:
      return "uniform";
    case TokenSource::Text:
      return "text";
  }
  return "";
}

std::string_view to_string(Tokenizer tokenizer) {
  return tokenizer == Tokenizer::Bytes ? "bytes" : "bpe";
}

OptimizerSettings default_settings(Optimizer optimizer, TokenSource source) {
  OptimizerSettings settings;
  const bool is_uniform = source == TokenSource::Uniform;
  switch (optimizer) {
    case Optimizer::SGD:
      settings.rate = is_uniform ? 1 : 0.1;
      break;
    case Optimizer::Momentum:
      settings.rate = 0.1;
      break;
    case Optimizer::AdamW:
      settings.rate = 1e-3;
      break;
  }
  return settings;
}

}  // namespace assay::train
