// The model, its data and its optimizers: what is trained, apart from how it is computed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::train {

enum class Activation : uint8_t { SwiGLU, GELU };

// A decoder: embedding, RMSNorm, `layers` × (RMSNorm, rotary causal attention, RMSNorm, SwiGLU), RMSNorm, head,
// cross-entropy. The stream of activations is bf16, weights are kept in fp32 and rounded to bf16 for each step.
struct ModelSizes {
  int64_t vocabulary =
      512;  // so few that the most frequent token of a batch occurs more than a thousand times
  int64_t width = 128;
  int64_t heads = 4;
  int64_t layers = 2;
  int64_t feed_forward = 256;
  int64_t sequence = 128;  // tokens of one
  int64_t sequences = 64;  // of one batch
  Activation activation = Activation::SwiGLU;
  bool tied = false;  // the head is the embedding table

  int64_t tokens() const { return sequence * sequences; }
  int64_t head_width() const { return width / heads; }
};
// Sequences of a batch that a slot is tried with unless told otherwise. What matters to most is how often a token occurs, so that sums over
// its occurrences are long. Products and attention have no such sums, and cost so much more on a virtual GPU that a whole matrix would
// take longer than ten minutes (docs/measurements/train.md): they get a quarter.
int64_t usual_sequences(std::string_view slot);
// Sizes that fit together, or what to change.
Result<void> check(const ModelSizes& sizes);

struct Parameter {
  std::string name;  // "embedding", "layer 0 qkv"
  std::vector<int64_t> dims;
  double spread = 0;  // standard deviation of the first values; 0: all ones
};
std::vector<Parameter> parameters(const ModelSizes& sizes);

enum class Optimizer : uint8_t { SGD, Momentum, AdamW };
inline constexpr std::array kOptimizers = {Optimizer::SGD, Optimizer::Momentum, Optimizer::AdamW};
std::string_view to_string(Optimizer optimizer);  // "sgd", "momentum", "adamw"

struct OptimizerSettings {
  double rate = 0.1;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;  // of AdamW
};

enum class TokenSource : uint8_t { Zipf, Uniform, Text };
inline constexpr std::array kTokenSources = {TokenSource::Zipf, TokenSource::Uniform, TokenSource::Text};
std::string_view to_string(TokenSource source);  // "zipf", "uniform", "text"

// What the tokens of a text are: its bytes, or byte pairs (byte_pairs.h).
enum class Tokenizer : uint8_t { Bytes, BytePairs };
inline constexpr std::array kTokenizers = {Tokenizer::Bytes, Tokenizer::BytePairs};
std::string_view to_string(Tokenizer tokenizer);  // "bytes", "bpe"

// The settings that a cell uses unless told otherwise: the learning rates at which runs of the default sizes learn
// and are stable (docs/train.md).
OptimizerSettings default_settings(Optimizer optimizer, TokenSource source);

// One batch: tokens and the tokens that follow them, each sequences × sequence.
struct Batch {
  std::vector<int64_t> tokens, targets;
  std::vector<double> weights;  // of each token's loss, 0 for padding; empty: all are equal
};

// Batches of a source. A batch depends on its number and the seed alone, so a run can be taken up anywhere.
class Data {
 public:
  // Zipf: token of rank r has frequency ~ 1 / r^exponent, and follows its predecessor's favourites with a fixed
  // probability. Uniform: the same structure over equally frequent tokens.
  static Data generated(TokenSource source, const ModelSizes& sizes, uint64_t seed);
  // Sequences that begin anywhere in a text. Byte pairs are made from the text itself and fill the vocabulary.
  static Result<Data> text(const std::string& text, Tokenizer tokenizer, const ModelSizes& sizes,
                           uint64_t seed);

  Batch batch(int64_t number) const;
  TokenSource source() const { return source_; }

 private:
  TokenSource source_ = TokenSource::Zipf;
  ModelSizes sizes_;
  uint64_t seed_ = 0;
  std::vector<double> cumulative_;   // of the tokens' frequencies
  std::vector<int32_t> favourites_;  // kFavourites of each token
  std::vector<int32_t> text_;
};

}  // namespace assay::train
