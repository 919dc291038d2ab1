// Reads back what QuickLine wrote (quick_line.h): the same fields in the same order, and nothing else. Building a tree of JSON for each event of a
// program with many took most of the time of the command.
//
//   uint64_t id = 0;
//   QuickReader reader(R"({"event":"release","id":7})", "release");
//   reader.add("id", id).is_whole()     true
//
// Whatever it does not expect, it refuses: other spaces, another order, escaped or non-ASCII text. Such a line is read by FieldReader, which
// knows all of JSON and names what is wrong.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>

#include "protocol/fields.h"

namespace assay::protocol {

class QuickReader {
 public:
  QuickReader(std::string_view line, std::string_view event) : rest_(line) {
    skip("{\"event\":\"") && skip(event) && skip("\"");
  }

  template <class Value>
  QuickReader& add(std::string_view name, Value& value) {
    if (skip(",\"") && skip(name) && skip("\":")) get(value);
    return *this;
  }
  template <class Choice, std::size_t N>
  QuickReader& add_choice(std::string_view name, Choice& value, const std::string_view (&names)[N]) {
    std::string text;
    add(name, text);
    for (std::size_t i = 0; i < N; ++i)
      if (names[i] == text) {
        value = static_cast<Choice>(i);
        return *this;
      }
    is_good_ = false;
    return *this;
  }

  bool is_good() const { return is_good_; }
  bool is_whole() const { return is_good_ && rest_ == "}"; }

 private:
  bool skip(std::string_view text) {
    is_good_ = is_good_ && rest_.starts_with(text);
    if (is_good_) rest_.remove_prefix(text.size());
    return is_good_;
  }
  void get(bool& value) {
    value = rest_.starts_with('t');
    skip(value ? "true" : "false");
  }
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void get(Number& value) {
    const bool is_digit = !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    is_good_ = is_good_ && is_digit && error == std::errc() && std::isfinite(static_cast<double>(value));
    if (is_good_) rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  }
  void get(std::array<uint32_t, 3>& value) {
    for (std::size_t i = 0; i < value.size(); ++i)
      if (skip(i == 0 ? "[" : ",")) get(value[i]);
    skip("]");
  }
  void get(std::string& value) {
    if (!skip("\"")) return;
    std::size_t length = 0;
    while (length < rest_.size() && rest_[length] != '"') {
      const char c = rest_[length++];
      if (c < ' ' || c == '\\' || c == '\x7f') is_good_ = false;  // of bytes above it, char is negative
    }
    if (length > kLongestText) is_good_ = false;
    value.assign(rest_.substr(0, length));
    rest_.remove_prefix(length);
    skip("\"");
  }

  std::string_view rest_;
  bool is_good_ = true;
};

}  // namespace assay::protocol
