// Reads the fields of a JSON object that another process wrote.
//
// Example:
//
//     FieldReader fields(R"({"bytes": 16, "name": "x"})", "a tensor");
//     const int64_t size = fields.integer("bytes", 0, 1 << 20);
//     const std::string name = fields.text("name", 100);
//     if (fields.failed()) return use(fields.error().text());
//
// A field that is missing, of another type or out of range makes the whole object invalid; what is returned
// in its place is zero, false or empty. The first such field is named in the error.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace assay::protocol {

// Longer than any path, message or mangled name of a kernel: those of templates have thousands of characters.
inline constexpr std::size_t kLongestText = 1 << 16;

class FieldReader {
 public:
  using Json = nlohmann::ordered_json;

  // `what`: the message that this is, for errors.
  FieldReader(std::string_view text, const char* what);

  // Fails unless the object was written by a program with the same version of the protocol.
  void check_version();
  // What to say of an object that was written by a program with another version; empty: it was not.
  std::string other_version();

  bool has(const char* name) const { return object_->contains(name); }
  bool boolean(const char* name);
  int64_t integer(const char* name, int64_t least, int64_t most);
  uint64_t unsigned_integer(const char* name, uint64_t most = std::numeric_limits<uint64_t>::max());
  double number(const char* name);  // finite
  std::string text(const char* name, std::size_t longest);
  // One of `names`, as its position.
  template <std::size_t N>
  std::size_t choice(const char* name, const std::string_view (&names)[N]) {
    const std::string value = text(name, kLongestChoice);
    for (std::size_t i = 0; i < N; ++i)
      if (names[i] == value) return i;
    fail(name, "has an unknown value");
    return 0;
  }
  // The field as it is; null where it is missing.
  const Json& raw(const char* name);
  FieldReader object(const char* name);

  // Calls `use` with a reader of each object in a list of at most `most`.
  template <class Use>
  void objects(const char* name, std::size_t most, Use use) {
    for (const Json& item : list(name, most)) {
      FieldReader reader(item, *this);
      if (!failed()) use(reader);
    }
  }
  // Calls `use` with each integer of such a list.
  template <class Use>
  void integers(const char* name, std::size_t most, int64_t least, int64_t largest, Use use) {
    for (const Json& item : list(name, most)) use(integer_of(item, name, least, largest));
  }
  // Calls `use` with each number of such a list, all finite.
  template <class Use>
  void numbers(const char* name, std::size_t most, Use use) {
    for (const Json& item : list(name, most)) use(number_of(item, name));
  }
  template <class Use>
  void texts(const char* name, std::size_t most, std::size_t longest, Use use) {
    for (const Json& item : list(name, most)) use(text_of(item, name, longest));
  }

  // Makes the object invalid for a reason that no single field shows: "`out` lies outside the memory file".
  void fail(const char* name, const char* why);
  bool failed() const { return !state_->problem.empty(); }
  Error error() const { return {std::string(state_->what) + ": " + state_->problem}; }

 private:
  static constexpr std::size_t kLongestChoice = 40;
  struct State {
    const char* what;
    std::string problem;
    Json root;
  };
  FieldReader(const Json& object, const FieldReader& parent);
  const Json& list(const char* name, std::size_t most);
  int64_t integer_of(const Json& value, const char* name, int64_t least, int64_t most);
  double number_of(const Json& value, const char* name);
  std::string text_of(const Json& value, const char* name, std::size_t longest);

  std::shared_ptr<State> state_;
  const Json* object_;
};

// One line of JSON, without the line break. Bytes that are no UTF-8 are replaced.
std::string line_of(const FieldReader::Json& json);

}  // namespace assay::protocol
