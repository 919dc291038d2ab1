#include "contract/toml.h"

#include <algorithm>
#include <optional>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace assay::contract {
namespace {

Place place_of(const toml::source_region& region) {
  return {static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

bool before(const TomlEntry& a, const TomlEntry& b) {
  return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
}

TomlValue convert(const toml::node& node) {
  TomlValue value;
  value.place = place_of(node.source());
  if (const auto* string = node.as_string()) {
    value.kind = TomlKind::String;
    value.string = string->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = TomlKind::Integer;
    value.integer = integer->get();
    value.real = static_cast<double>(value.integer);
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = TomlKind::Real;
    value.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = TomlKind::Bool;
    value.boolean = boolean->get();
  } else if (const auto* array = node.as_array()) {
    value.kind = TomlKind::Array;
    for (const toml::node& item : *array) value.array.push_back(convert(item));
  } else if (const auto* table = node.as_table()) {
    value.kind = TomlKind::Table;
    for (const auto& [key, item] : *table)
      value.table.push_back({std::string(key.str()), place_of(key.source()), convert(item)});
    std::ranges::stable_sort(value.table, before);
  }
  return value;
}

// A quote in the middle of a word or number is part of that to the library.
bool opens_string(std::string_view text, std::size_t at) {
  return at == 0 || std::string_view(" \t\r\n=[{,.\"'").find(text[at - 1]) != std::string_view::npos;
}

bool is_beyond_ascii(char c) {
  return static_cast<unsigned char>(c) >= 0x80;
}

// Characters beyond ASCII stand in strings and comments only, and not where a string skips blanks after a backslash at the
// end of a line; the library does not expect them elsewhere. The first that does not, or nothing.
std::optional<Error> stray_character(std::string_view text) {
  const auto error = [](const Place& at, const char* message) {
    return Error{message, "", at.line, at.column};
  };
  Place at{1, 1};
  std::string_view quote;  // that ends the string we are in
  Place opened;            // where that string begins
  bool comment = false, skips_blanks = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    std::size_t step = 1;
    if (c == '\n') {
      comment = false;
      if (quote.size() == 1) return error(opened, "this string is not closed by the end of its line");
    } else if (comment) {
    } else if (!quote.empty()) {
      const std::size_t next = c == '\\' && quote == R"(""")" ? text.find_first_not_of(" \t\r\n", i + 1) : i;
      if (next != text.npos && next > i + 1 && is_beyond_ascii(text[next])) {
        skips_blanks = true;
        step = next - i;
      } else if (skips_blanks) {
        return error(
            at, "a line that follows a backslash cannot begin with this character; remove the backslash");
      } else if (c == '\\' && quote[0] == '"')
        step = 2;
      else if (rest.starts_with(quote)) {
        // The text of a string of several lines may itself end with one or two quotes.
        constexpr std::size_t kMostQuotes = 5;
        const std::size_t quotes = std::min(rest.find_first_not_of(quote[0]), rest.size());
        step = quote.size() == 1 ? 1 : std::min(quotes, kMostQuotes);
        quote = {};
      }
    } else if (c == '#') {
      comment = true;
    } else if ((c == '"' || c == '\'') && opens_string(text, i)) {
      const bool triple = rest.size() >= 3 && rest[1] == c && rest[2] == c;
      step = triple ? 3 : 1;
      quote = rest.substr(0, step);
      opened = at;
    } else if (is_beyond_ascii(c) && !(i == 0 && rest.starts_with("\xEF\xBB\xBF"))) {
      return error(at, "this character may only appear in strings and comments");
    } else if (is_beyond_ascii(c)) {
      step = 3;  // the byte-order mark
    }
    for (std::size_t k = 0; k < step && i + k < text.size(); ++k)
      at = text[i + k] == '\n' ? Place{at.line + 1, 1} : Place{at.line, at.column + 1};
    i += step - 1;
  }
  return std::nullopt;
}

// The library says what it was doing before it says what is wrong: "Error while parsing key: expected ...".
std::string plain_description(std::string_view description) {
  constexpr std::string_view kDoing = "Error while parsing ";
  const std::size_t colon = description.find(": ");
  if (description.starts_with(kDoing) && colon != std::string_view::npos)
    description.remove_prefix(colon + 2);
  return "the file is not valid TOML: " + std::string(description);
}

std::string_view line_at(std::string_view text, int line) {
  for (; line > 1 && !text.empty(); --line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

bool is_latin_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A word where a value belongs is text without its quotes. The place may be inside the word: to the library, "fast"
// begins like `false`.
std::optional<Error> missing_quotes(std::string_view text, Place place) {
  const std::string_view line = line_at(text, place.line);
  auto begin = static_cast<std::size_t>(std::max(place.column - 1, 0));
  if (begin > line.size()) return std::nullopt;
  while (begin > 0 && is_latin_letter(line[begin - 1])) --begin;
  if (begin == line.size() || !is_latin_letter(line[begin])) return std::nullopt;
  if (line.find_first_not_of(" \t[") == begin) return std::nullopt;  // the name of a table
  const std::size_t before = line.substr(0, begin).find_last_not_of(" \t");
  if (before == line.npos || std::string_view("=[,").find(line[before]) == line.npos) return std::nullopt;
  const std::size_t end = std::min(line.find_first_of(" \t\r,]}#", begin), line.size());
  return Error{"text is written in quotes: \"" + std::string(line.substr(begin, end - begin)) + "\"", "",
               place.line, static_cast<int>(begin) + 1};
}

bool continues_character(char c) {  // of UTF-8
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// A string as the file has it, read character by character of its content.
class WrittenString {
 public:
  WrittenString(std::string_view text, Place quote) : text_(text), at_{1, 1} {
    while (!rest().empty() && (at_.line < quote.line || at_.column < quote.column)) step(1);
    escapes_ = rest().starts_with('"');
    const bool several_lines = rest().starts_with("\"\"\"") || rest().starts_with("'''");
    step(several_lines ? 3 : 1);
    if (several_lines) step(rest().starts_with("\r\n") ? 2 : rest().starts_with("\n") ? 1 : 0);
  }

  Place place() const { return at_; }

  void skip_line_continuations() {
    constexpr std::string_view kBlanks = " \t\r\n";
    while (escapes_ && rest().size() > 1 && rest()[0] == '\\' && kBlanks.find(rest()[1]) != kBlanks.npos)
      step(1 + std::min(rest().substr(1).find_first_not_of(kBlanks), rest().size() - 1));
  }

  void skip_character() {
    const bool escaped = escapes_ && rest().starts_with('\\') && rest().size() > 1;
    if (escaped)
      step(rest()[1] == 'u' ? 6 : rest()[1] == 'U' ? 10 : 2);
    else if (rest().starts_with("\r\n"))
      step(2);
    else if (!rest().empty())
      step(character_bytes(rest()[0]));
  }

 private:
  std::string_view rest() const { return text_.substr(offset_); }

  void step(std::size_t bytes) {
    for (; bytes > 0 && offset_ < text_.size(); --bytes, ++offset_) {
      if (text_[offset_] == '\n')
        at_ = {at_.line + 1, 1};
      else if (!continues_character(text_[offset_]))
        ++at_.column;
    }
  }

  std::string_view text_;
  Place at_;
  std::size_t offset_ = 0;
  bool escapes_ = false;
};

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  for (const TomlEntry& entry : table)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Result<TomlValue> parse_toml(std::string_view text, const std::string& path) {
  if (const std::optional<Error> stray = stray_character(text))
    return Error{stray->message, path, stray->line, stray->column};
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const Place place = place_of(error.source());
    if (const std::optional<Error> quotes = missing_quotes(text, place))
      return Error{quotes->message, path, quotes->line, quotes->column};
    return Error{plain_description(error.description()), path, place.line, place.column};
  }
  return convert(parsed.table());
}

std::vector<Place> content_places(std::string_view text, Place quote, std::string_view content) {
  WrittenString written(text, quote);
  std::vector<Place> places;
  while (places.size() < content.size()) {
    written.skip_line_continuations();
    const std::size_t bytes =
        std::min(character_bytes(content[places.size()]), content.size() - places.size());
    places.insert(places.end(), bytes, written.place());
    written.skip_character();
  }
  places.push_back(written.place());
  return places;
}

}  // namespace assay::contract
