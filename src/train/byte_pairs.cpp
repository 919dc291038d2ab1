#include "train/byte_pairs.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace assay::train {

namespace {

using Pair = std::pair<int32_t, int32_t>;

// A longer word is cut: a text without spaces must not make one word whose pairs are counted anew for each merge.
constexpr std::size_t kLongestWord = 64;

enum class ByteKind : uint8_t { Letter, Digit, Space, Other };

// Bytes from 128 on are parts of letters in UTF-8.
ByteKind kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 128 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return ByteKind::Letter;
  if (byte >= '0' && byte <= '9') return ByteKind::Digit;
  return byte == ' ' || (byte >= '\t' && byte <= '\r') ? ByteKind::Space : ByteKind::Other;
}

// The length of the word at the start of a text that is not empty.
std::size_t word_length(std::string_view text) {
  std::size_t length = 1;
  if (text.size() > 1 && text[0] == ' ' && kind_of(text[1]) != ByteKind::Space) length = 2;
  const ByteKind kind = kind_of(text[length - 1]);
  while (length < std::min(text.size(), kLongestWord) && kind_of(text[length]) == kind) {
    // The last space of several belongs to the word after it.
    if (kind == ByteKind::Space && length + 1 < text.size() && text[length] == ' ' &&
        kind_of(text[length + 1]) != ByteKind::Space)
      break;
    ++length;
  }
  return length;
}

struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

class Merger {
 public:
  explicit Merger(std::string_view text) {
    std::unordered_map<std::string_view, std::size_t> known;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, word_length(text));
      text.remove_prefix(word.size());
      const auto [found, is_new] = known.try_emplace(word, words_.size());
      if (is_new) {
        words_.emplace_back();
        for (const char c : word) words_.back().tokens.push_back(static_cast<unsigned char>(c));
      }
      ++words_[found->second].count;
      order_.push_back(found->second);
    }
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::size_t t = 0; t + 1 < words_[i].tokens.size(); ++t)
        add(i, {words_[i].tokens[t], words_[i].tokens[t + 1]});
    queue_added();
  }

  BytePairs run(int64_t vocabulary) {
    BytePairs result;
    while (kByteTokens + static_cast<int64_t>(result.merges.size()) < vocabulary) {
      const auto pair = most_frequent();
      if (pair.first < 0) break;
      merge(pair, kByteTokens + static_cast<int32_t>(result.merges.size()));
      result.merges.push_back(pair);
    }
    for (const std::size_t word : order_)
      result.tokens.insert(result.tokens.end(), words_[word].tokens.begin(), words_[word].tokens.end());
    return result;
  }

 private:
  // In the queue: how often a pair occurred when it was queued, which may be more than it does now.
  struct Queued {
    int64_t count = 0;
    Pair pair;
    bool operator<(const Queued& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  struct Seen {
    int64_t count = 0;
    std::vector<std::size_t> words;  // in which it has occurred
  };
  struct PairHash {
    std::size_t operator()(const Pair& pair) const {
      return (static_cast<std::size_t>(pair.first) << 32 | static_cast<uint32_t>(pair.second)) *
             0x9e3779b97f4a7c15;
    }
  };

  void add(std::size_t number, const Pair& pair) {
    Seen& seen = seen_[pair];
    seen.count += words_[number].count;
    if (seen.words.empty() || seen.words.back() != number) seen.words.push_back(number);
    added_.push_back(pair);
  }
  void remove(std::size_t number, const Pair& pair) { seen_[pair].count -= words_[number].count; }
  void queue_added() {
    std::ranges::sort(added_);
    added_.erase(std::unique(added_.begin(), added_.end()), added_.end());
    for (const Pair& pair : added_) queue_.push({seen_[pair].count, pair});
    added_.clear();
  }

  // {-1, -1}: no pair occurs twice.
  Pair most_frequent() {
    while (!queue_.empty() && queue_.top().count >= 2) {
      const Queued top = queue_.top();
      queue_.pop();
      const int64_t count = seen_[top.pair].count;
      if (count == top.count) return top.pair;
      if (count < top.count) queue_.push({count, top.pair});  // else it has been queued again
    }
    return {-1, -1};
  }

  void merge(const Pair& pair, int32_t token) {
    std::vector<std::size_t> words = std::move(seen_[pair].words);
    seen_[pair].words.clear();
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const std::size_t number : words) merge_in(number, pair, token);
    queue_added();
  }

  // Only the pairs beside the merged ones change.
  void merge_in(std::size_t number, const Pair& pair, int32_t token) {
    const std::vector<int32_t> before = std::move(words_[number].tokens);
    std::vector<int32_t> after;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i + 1 == before.size() || Pair(before[i], before[i + 1]) != pair) {
        after.push_back(before[i]);
        continue;
      }
      if (!after.empty()) {
        remove(number, {after.back(), pair.first});
        add(number, {after.back(), token});
      }
      remove(number, pair);
      if (i + 2 < before.size()) {
        remove(number, {pair.second, before[i + 2]});
        add(number, {token, before[i + 2]});
      }
      after.push_back(token);
      ++i;
    }
    words_[number].tokens = std::move(after);
  }

  std::vector<Word> words_;
  std::vector<std::size_t> order_;  // the words of the text
  std::unordered_map<Pair, Seen, PairHash> seen_;
  std::vector<Pair> added_;  // that occur more often than the queue knows
  std::priority_queue<Queued> queue_;
};

}  // namespace

std::string BytePairs::text_of(int32_t token) const {
  if (token < kByteTokens) return std::string(1, static_cast<char>(token));
  const auto& [first, second] = merges[static_cast<std::size_t>(token - kByteTokens)];
  return text_of(first) + text_of(second);
}

BytePairs byte_pairs(std::string_view text, int64_t vocabulary) {
  return Merger(text).run(vocabulary);
}

}  // namespace assay::train
