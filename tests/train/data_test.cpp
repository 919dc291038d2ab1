// Batches: frequencies, structure, and that they depend on seed and number alone.
#include <gmock/gmock.h>

#include <algorithm>

#include "train/model.h"

namespace assay::train {
namespace {

const ModelSizes kDataSizes = {.vocabulary = 300, .sequence = 64, .sequences = 64};

std::vector<int64_t> counts(const Data& data) {
  std::vector<int64_t> seen(static_cast<std::size_t>(kDataSizes.vocabulary), 0);
  for (int i = 0; i < 4; ++i)
    for (const int64_t token : data.batch(i).tokens) ++seen[static_cast<std::size_t>(token)];
  return seen;
}

TEST(Data, HasAFewFrequentTokensWithZipf) {
  const std::vector<int64_t> seen = counts(Data::generated(TokenSource::Zipf, kDataSizes, 1));
  const int64_t total = 4 * kDataSizes.tokens();
  EXPECT_GT(*std::ranges::max_element(seen), total / 10);
  EXPECT_GT(seen[0], 20 * std::max<int64_t>(1, seen[200]));
}

TEST(Data, HasNoFrequentTokenWhenUniform) {
  const std::vector<int64_t> seen = counts(Data::generated(TokenSource::Uniform, kDataSizes, 1));
  EXPECT_LT(*std::ranges::max_element(seen), 4 * kDataSizes.tokens() / 50);
}

TEST(Data, TargetsFollowTheTokens) {
  const Batch batch = Data::generated(TokenSource::Zipf, kDataSizes, 1).batch(7);
  for (std::size_t t = 0; t + 1 < batch.tokens.size(); ++t) {
    const bool is_last = (t + 1) % static_cast<std::size_t>(kDataSizes.sequence) == 0;
    if (!is_last) {
      ASSERT_EQ(batch.targets[t], batch.tokens[t + 1]);
    }
  }
}

TEST(Data, DependsOnSeedAndNumber) {
  const Data data = Data::generated(TokenSource::Zipf, kDataSizes, 1);
  EXPECT_EQ(data.batch(3).tokens, Data::generated(TokenSource::Zipf, kDataSizes, 1).batch(3).tokens);
  EXPECT_NE(data.batch(3).tokens, data.batch(4).tokens);
  EXPECT_NE(data.batch(3).tokens, Data::generated(TokenSource::Zipf, kDataSizes, 2).batch(3).tokens);
}

TEST(Data, OfATextAreItsBytes) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>('a' + i % 26);
  const auto data = Data::text(text, Tokenizer::Bytes, kDataSizes, 1);
  ASSERT_TRUE(data) << data.error().text();
  const Batch batch = data->batch(0);
  for (std::size_t t = 0; t < batch.tokens.size(); ++t)
    ASSERT_EQ(batch.targets[t], (batch.tokens[t] - 'a' + 1) % 26 + 'a');
}

TEST(Data, OfATextMayBeBytePairs) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 3 == 0 ? "the cat " : "the dog ";
  ModelSizes sizes = kDataSizes;
  sizes.vocabulary = 256 + 8;
  const auto data = Data::text(text, Tokenizer::BytePairs, sizes, 1);
  ASSERT_TRUE(data) << data.error().text();
  const Batch batch = data->batch(0);
  EXPECT_GT(std::ranges::max(batch.tokens), 255);
  EXPECT_LT(std::ranges::max(batch.tokens), sizes.vocabulary);
}

TEST(Data, NeedsATextLongerThanASequence) {
  const auto data = Data::text("too short", Tokenizer::Bytes, kDataSizes, 1);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().text(), ::testing::HasSubstr("longer than a sequence"));
}

}  // namespace
}  // namespace assay::train
