// A line of JSON, field by field. A program that is watched over time reports each allocation and operation: building a tree of
// JSON for each of these took longer than everything else about them.
//
//   QuickLine("operation").add("id", uint64_t{7}).add("begin", 0.25).take()     {"event":"operation","id":7,"begin":0.25}
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace assay::protocol {

class QuickLine {
 public:
  explicit QuickLine(std::string_view event) {
    text_.reserve(256);
    text_ = "{\"event\":";
    put(event);
  }

  template <class Value>
  QuickLine& add(std::string_view name, const Value& value) {
    text_ += ",\"";
    text_ += name;
    text_ += "\":";
    put(value);
    return *this;
  }
  template <class Choice, std::size_t N>
  QuickLine& add_choice(std::string_view name, Choice value, const std::string_view (&names)[N]) {
    return add(name, names[static_cast<std::size_t>(value)]);
  }
  std::string take() { return std::move(text_) + '}'; }

 private:
  void put(bool value) { text_ += value ? "true" : "false"; }
  template <std::integral Number>
  void put(Number value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
  // Finite.
  void put(double value) { fmt::format_to(std::back_inserter(text_), "{}", value); }
  void put(const std::array<uint32_t, 3>& value) {
    fmt::format_to(std::back_inserter(text_), "[{},{},{}]", value[0], value[1], value[2]);
  }
  void put(std::string_view value) {
    for (const char c : value)
      if (c < ' ' || c == '"' || c == '\\' || c == '\x7f') {  // of bytes above it, char is negative
        text_ += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        return;
      }
    text_ += '"';
    text_ += value;
    text_ += '"';
  }

  std::string text_;
};

}  // namespace assay::protocol
