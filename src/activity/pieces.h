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

class Pieces {
 public:
  explicit Pieces(const Sink& sink) : sink_(sink), buffer_(kPiece) {}
  ~Pieces() { flush(); }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  Pieces& operator<<(std::string_view text) {
    if (text.size() > buffer_.size() - used_) flush();
    if (text.size() > buffer_.size()) {
      sink_(text);
      return *this;
    }
    std::memcpy(buffer_.data() + used_, text.data(), text.size());
    used_ += text.size();
    return *this;
  }
  // A literal: of a length that the compiler knows.
  template <std::size_t N>
  Pieces& operator<<(const char (&text)[N]) {
    static_assert(N <= kShort);
    std::memcpy(room(), text, N - 1);
    used_ += N - 1;
    return *this;
  }
  Pieces& operator<<(char c) {
    *room() = c;
    ++used_;
    return *this;
  }
  template <std::integral Number>
  Pieces& operator<<(Number value) {
    if constexpr (std::same_as<Number, bool>) return *this << std::string_view(value ? "true" : "false");
    char* const to = room();
    used_ += static_cast<std::size_t>(std::to_chars(to, to + kShort, +value).ptr - to);
    return *this;
  }

  void flush() {
    if (used_ > 0) sink_({buffer_.data(), used_});
    used_ = 0;
  }

 private:
  static constexpr std::size_t kPiece = 64 << 10, kShort = 512;

  char* room() {
    if (buffer_.size() - used_ < kShort) flush();
    return buffer_.data() + used_;
  }

  const Sink& sink_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
};

// What a short number is as text, to be written several times.
class ShortText {
 public:
  explicit ShortText(uint64_t number) : length_(put(text_, number)) {}

  // A time as a decimal number: in seconds with `digits` 9, in microseconds with 3; to the nanosecond. Times that no
  // program has are cut off.
  ShortText(double seconds, int digits) {
    constexpr double kLongest = 1e9;  // 30 years
    auto nanoseconds = static_cast<uint64_t>(std::clamp(seconds, 0.0, kLongest) * 1e9 + 0.5);
    uint64_t unit = 1;
    for (int i = 0; i < digits; ++i) unit *= 10;
    char* end = text_ + put(text_, nanoseconds / unit);
    if (nanoseconds %= unit; nanoseconds != 0) {
      *end++ = '.';
      for (int i = digits - 1; i >= 0; --i) {
        end[i] = static_cast<char>('0' + nanoseconds % 10);
        nanoseconds /= 10;
      }
      end += digits;
      while (end[-1] == '0') --end;
    }
    length_ = static_cast<std::size_t>(end - text_);
  }

  std::string_view view() const { return {text_, length_}; }

 private:
  static constexpr std::size_t kMost = 40;
  static std::size_t put(char* to, uint64_t number) {
    return static_cast<std::size_t>(std::to_chars(to, to + kMost, number).ptr - to);
  }
  char text_[kMost];
  std::size_t length_;
};

// Of the trace.
inline ShortText microseconds(double seconds) {
  return {seconds, 3};
}
// Of the page.
inline ShortText in_seconds(double seconds) {
  return {seconds, 9};
}

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
