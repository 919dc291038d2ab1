#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "train/byte_pairs.h"
#include "train/model.h"

namespace assay::train {

namespace {

// How frequencies of words fall with their rank in text: a little steeper than 1 / rank.
constexpr double kZipfExponent = 1.1;
// Tokens that often follow a token, and how often one of them does: something to learn besides frequencies.
constexpr int64_t kFavourites = 4;
constexpr double kFollows = 0.5;

int32_t draw(const std::vector<double>& cumulative, Random& random) {
  const double at = random.uniform() * cumulative.back();
  const auto found = std::ranges::upper_bound(cumulative, at);
  return static_cast<int32_t>(
      std::min<int64_t>(found - cumulative.begin(), static_cast<int64_t>(cumulative.size()) - 1));
}

}  // namespace

Data Data::generated(TokenSource source, const ModelSizes& sizes, uint64_t seed) {
  Data data;
  data.source_ = source;
  data.sizes_ = sizes;
  data.seed_ = seed;
  double total = 0;
  for (int64_t rank = 1; rank <= sizes.vocabulary; ++rank) {
    total += source == TokenSource::Zipf ? std::pow(static_cast<double>(rank), -kZipfExponent) : 1;
    data.cumulative_.push_back(total);
  }
  // A token's favourites are drawn as tokens are, so that frequencies stay what they are.
  Random random(mix(seed, hash("favourites")));
  for (int64_t i = 0; i < sizes.vocabulary * kFavourites; ++i)
    data.favourites_.push_back(draw(data.cumulative_, random));
  return data;
}

Result<Data> Data::text(const std::string& text, Tokenizer tokenizer, const ModelSizes& sizes,
                        uint64_t seed) {
  if (sizes.vocabulary < kByteTokens)
    return Error{fmt::format("every byte of a text is a token: the vocabulary must be at least {}, not {}",
                             kByteTokens, sizes.vocabulary)};
  Data data;
  data.source_ = TokenSource::Text;
  data.sizes_ = sizes;
  data.seed_ = seed;
  if (tokenizer == Tokenizer::BytePairs)
    data.text_ = byte_pairs(text, sizes.vocabulary).tokens;
  else
    for (const char byte : text) data.text_.push_back(static_cast<unsigned char>(byte));
  if (static_cast<int64_t>(data.text_.size()) <= sizes.sequence)
    return Error{fmt::format("the text has {} tokens; it must be longer than a sequence of {}",
                             data.text_.size(), sizes.sequence)};
  return data;
}

Batch Data::batch(int64_t number) const {
  Random random(mix(mix(seed_, hash("batch")), static_cast<uint64_t>(number)));
  Batch batch;
  batch.tokens.reserve(static_cast<std::size_t>(sizes_.tokens()));
  batch.targets.reserve(static_cast<std::size_t>(sizes_.tokens()));
  for (int64_t s = 0; s < sizes_.sequences; ++s) {
    const int64_t start =
        text_.empty() ? 0 : random.between(0, static_cast<int64_t>(text_.size()) - sizes_.sequence - 1);
    int64_t token = text_.empty() ? draw(cumulative_, random) : text_[static_cast<std::size_t>(start)];
    for (int64_t i = 0; i < sizes_.sequence; ++i) {
      batch.tokens.push_back(token);
      if (!text_.empty())
        token = text_[static_cast<std::size_t>(start + i + 1)];
      else if (random.chance(kFollows))
        token =
            favourites_[static_cast<std::size_t>(token * kFavourites + random.between(0, kFavourites - 1))];
      else
        token = draw(cumulative_, random);
      batch.targets.push_back(token);
    }
  }
  return batch;
}

}  // namespace assay::train
