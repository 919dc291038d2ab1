// Byte-pair tokens: the tokens of a text are its bytes, and pairs of tokens that often stand together.
//
// Example:
//
//     const BytePairs pairs = byte_pairs("low lower lowest", 258);
//     use(pairs.merges.size());                    // 2: "lo", "low" have become tokens
//     use(pairs.text_of(pairs.tokens.front()));    // "low"
//
// Pairs are counted within words (letters, digits, punctuation or white space, the space before a word is part of it), so that each
// distinct word is looked at once, however often it occurs. The most frequent pair becomes a token, again and again, until
// the vocabulary is full or no pair occurs twice. Of pairs that are equally frequent, the one with the lower numbers comes first:
// the same text gives the same tokens everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::train {

inline constexpr int32_t kByteTokens = 256;

struct BytePairs {
  std::vector<int32_t> tokens;                      // of the whole text
  std::vector<std::pair<int32_t, int32_t>> merges;  // token kByteTokens + i is these two

  std::string text_of(int32_t token) const;
};

// At most `vocabulary` tokens, of which the first 256 are the bytes.
BytePairs byte_pairs(std::string_view text, int64_t vocabulary);

}  // namespace assay::train
