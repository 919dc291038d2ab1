// Errors as values: a Result holds a value or one Error, and an Error is one
// clear line for a person, with the place it speaks of where there is one.
//
// Example:
//
//     Result<int> good = 3, bad = Error{"not a number", "contract.toml", 7, 12};
//     if (good) use(*good);
//     use(bad.error().text());  // "contract.toml:7:12: not a number"
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace assay {

struct Error {
  std::string message;
  std::string file{};  // empty where the error has no place
  int line = 0;        // 1-based; 0 where unknown
  int column = 0;
  std::string source_line{};  // the text of that line, where there is one to show (diagnostic.h)

  // "file:line:column: message", as far as the place is known.
  std::string text() const {
    std::string place = file;
    if (line > 0) {
      place += (place.empty() ? "line " : ":") + std::to_string(line);
      if (column > 0) place += ":" + std::to_string(column);
    }
    return place.empty() ? message : place + ": " + message;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit by design

  explicit operator bool() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace assay
