#include "train/byte_pairs.h"

#include <gmock/gmock.h>

#include <map>

#include "base/random.h"

namespace assay::train {
namespace {

std::string joined(const BytePairs& pairs) {
  std::string text;
  for (const int32_t token : pairs.tokens) text += pairs.text_of(token);
  return text;
}

TEST(BytePairs, MergesTheMostFrequentPairFirst) {
  const BytePairs pairs = byte_pairs("low lower lowest", 259);
  ASSERT_EQ(pairs.merges.size(), 3u);
  EXPECT_EQ(pairs.text_of(256), "lo");   // 3 times; ow comes later: o is more than l
  EXPECT_EQ(pairs.text_of(257), "low");  // 3 times
  EXPECT_EQ(pairs.text_of(258), " low");
  EXPECT_EQ(joined(pairs), "low lower lowest");
}

TEST(BytePairs, StopWhereNoPairOccursTwice) {
  const BytePairs pairs = byte_pairs("abcd", 1000);
  EXPECT_TRUE(pairs.merges.empty());
  EXPECT_EQ(pairs.tokens, (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_TRUE(byte_pairs("", 300).tokens.empty());
}

TEST(BytePairs, OverlapWithThemselves) {
  const BytePairs pairs = byte_pairs("aaaaa", 257);
  EXPECT_EQ(pairs.tokens, (std::vector<int32_t>{256, 256, 'a'}));
}

TEST(BytePairs, DoNotCrossWords) {
  const BytePairs pairs = byte_pairs("ab1 ab1 ab1  ab1\nab1", 300);
  for (std::size_t i = 0; i < pairs.merges.size(); ++i)
    EXPECT_THAT(pairs.text_of(static_cast<int32_t>(256 + i)), ::testing::Not(::testing::HasSubstr("b1")));
}

// What is counted as words change is what counting anew gives.
TEST(BytePairs, AreThoseOfCountingAnew) {
  Random random(7);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "ab c"[random.between(0, 3)];
  const BytePairs pairs = byte_pairs(text, 256 + 20);
  ASSERT_EQ(pairs.merges.size(), 20u);
  EXPECT_EQ(joined(pairs), text);
  // The words, as tokens before any merge: a space begins one, and several spaces but the last are one.
  std::vector<std::vector<int32_t>> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins =
        i == 0 || (text[i] == ' ' && (text[i - 1] != ' ' || (i + 1 < text.size() && text[i + 1] != ' ')));
    if (begins || words.back().size() == 64) words.emplace_back();
    words.back().push_back(text[i]);
  }
  for (std::size_t merge = 0; merge < pairs.merges.size(); ++merge) {
    std::map<std::pair<int32_t, int32_t>, int> counts;
    for (const auto& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it)
      if (it->second > best->second) best = it;
    ASSERT_EQ(pairs.merges[merge], best->first) << merge;
    for (auto& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i)
        if (std::pair(word[i], word[i + 1]) == best->first) {
          word[i] = static_cast<int32_t>(256 + merge);
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
  }
}

}  // namespace
}  // namespace assay::train
