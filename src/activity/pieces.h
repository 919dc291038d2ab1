// Text for a file, in pieces: a program makes millions of events, and their files are formatted in one small buffer that stays
// in the cache, without a tree of JSON or a string for each value.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "activity/activity.h"
#include "finding/json.h"

namespace assay::activity {

// A time as a decimal number, to the nanosecond: in seconds with 9 digits after the point, in microseconds with 3. Times that
// no program has are cut off.
template <int kDigits>
struct Time {
  double seconds;
};
// Of the trace.
constexpr Time<3> microseconds(double seconds) {
  return {seconds};
}
// Of the page.
constexpr Time<9> in_seconds(double seconds) {
  return {seconds};
}

// Both return the end of what they write: at most kLongestNumber characters.
constexpr std::size_t kLongestNumber = 40;

inline constexpr std::array<char, 200> kPairs = [] {
  std::array<char, 200> digits{};
  for (std::size_t i = 0; i < 100; ++i) {
    digits[2 * i] = static_cast<char>('0' + i / 10);
    digits[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return digits;
}();

// `value` < 100, with both digits.
inline char* put_pair(char* to, uint64_t value) {
  std::memcpy(to, kPairs.data() + 2 * value, 2);
  return to + 2;
}

// Most numbers of a program are small: streams, extents, ids, microseconds.
inline char* put(char* to, uint64_t value) {
  if (value < 10) {
    *to = static_cast<char>('0' + value);
    return to + 1;
  }
  if (value < 100) return put_pair(to, value);
  if (value < 1000) {
    *to = static_cast<char>('0' + value / 100);
    return put_pair(to + 1, value % 100);
  }
  if (value < 10'000) return put_pair(put_pair(to, value / 100), value % 100);
  if (value < 1'000'000) {
    to = value < 100'000 ? put(to, value / 10'000) : put_pair(to, value / 10'000);
    return put_pair(put_pair(to, value / 100 % 100), value % 100);
  }
  return std::to_chars(to, to + kLongestNumber, value).ptr;
}

template <int kDigits>
char* put(char* to, Time<kDigits> time) {
  constexpr double kLongest = 1e9;  // 30 years
  constexpr uint64_t kUnit = kDigits == 9 ? 1'000'000'000 : 1000;
  static_assert(kDigits == 9 || kDigits == 3);
  const auto nanoseconds = static_cast<uint64_t>(std::clamp(time.seconds, 0.0, kLongest) * 1e9 + 0.5);
  char* end = put(to, nanoseconds / kUnit);
  auto rest = static_cast<uint32_t>(nanoseconds % kUnit);
  if (rest == 0) return end;
  *end++ = '.';
  for (int i = kDigits - 2; i > 0; i -= 2) {
    put_pair(end + i, rest % 100);
    rest /= 100;
  }
  *end = static_cast<char>('0' + rest);
  end += kDigits;
  while (end[-1] == '0') --end;
  return end;
}

// What a short number is as text, to be written several times.
class ShortText {
 public:
  template <class Number>
  explicit ShortText(Number number) : length_(static_cast<std::size_t>(put(text_, number) - text_)) {}
  std::string_view view() const { return {text_, length_}; }

 private:
  friend class Pieces;
  char text_[kLongestNumber] = {};
  std::size_t length_;
};

class Pieces {
 public:
  explicit Pieces(const Sink& sink) : sink_(sink), buffer_(kPiece), next_(buffer_.data()) {}
  ~Pieces() { flush(); }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  Pieces& operator<<(std::string_view text) {
    if (text.size() > kShort) return add_long(text);
    make_room();
    std::memcpy(next_, text.data(), text.size());
    next_ += text.size();
    return *this;
  }
  // A literal: of a length that the compiler knows.
  template <std::size_t N>
  Pieces& operator<<(const char (&text)[N]) {
    static_assert(N <= kShort);
    make_room();
    std::memcpy(next_, text, N - 1);
    next_ += N - 1;
    return *this;
  }
  Pieces& operator<<(char c) {
    make_room();
    *next_++ = c;
    return *this;
  }
  Pieces& operator<<(std::same_as<bool> auto value) {
    return *this << std::string_view(value ? "true" : "false");
  }
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) Pieces& operator<<(Number value) {
    make_room();
    next_ = put(next_, uint64_t{value});
    return *this;
  }
  template <int kDigits>
  Pieces& operator<<(Time<kDigits> time) {
    make_room();
    next_ = put(next_, time);
    return *this;
  }
  // Its whole buffer, which needs no call.
  Pieces& operator<<(const ShortText& text) {
    make_room();
    std::memcpy(next_, text.text_, sizeof text.text_);
    next_ += text.length_;
    return *this;
  }

  // N bytes that `write` puts where it is told.
  template <std::size_t N, class Write>
  void raw(Write write) {
    static_assert(N <= kShort);
    make_room();
    write(next_);
    next_ += N;
  }

  void flush() {
    if (next_ != buffer_.data()) sink_({buffer_.data(), next_});
    next_ = buffer_.data();
  }

 private:
  static constexpr std::size_t kPiece = 256 << 10, kShort = 512;

  // For kShort bytes.
  [[gnu::always_inline]] void make_room() {
    if (static_cast<std::size_t>(buffer_.data() + kPiece - next_) < kShort) [[unlikely]]
      make_room_now();
  }
  [[gnu::noinline]] void make_room_now() { flush(); }

  [[gnu::noinline]] Pieces& add_long(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(buffer_.data() + kPiece - next_)) flush();
    if (text.size() > kPiece) {
      sink_(text);
      return *this;
    }
    std::memcpy(next_, text.data(), text.size());
    next_ += text.size();
    return *this;
  }

  const Sink& sink_;
  std::vector<char> buffer_;
  char* next_;  // the first free one
};

// A string of JSON. Nothing in it looks like a tag: it may stand inside of a script element.
inline std::string json_string(std::string_view text) {
  std::string json;
  if (std::ranges::any_of(text, [](char c) { return c < ' ' || c == '"' || c == '\\' || c == '\x7f'; }))
    json = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  else
    json.append(1, '"').append(text).append(1, '"');
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return json;
}

// Quoted texts that many events share, by the place of the text, which stays (Activity::texts).
class QuotedTexts {
 public:
  const std::string& operator()(std::string_view text) {
    if (last_ && last_text_ == text.data()) return *last_;
    std::string& made = made_[text.data()];
    if (made.empty()) made = json_string(text);
    last_text_ = text.data();
    return *(last_ = &made);
  }

 private:
  std::unordered_map<const char*, std::string> made_;
  const char* last_text_ = nullptr;
  const std::string* last_ = nullptr;
};

}  // namespace assay::activity
