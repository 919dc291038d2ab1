#include "report/constants.h"

#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>

namespace assay::report {

namespace {

constexpr int kMostSteps = 16;  // from a constant to another that it is made of

// The text that defines a name: macros, constants, enumerators. None when there is none, or several that
// differ.
std::optional<std::string> definition(const Scope& scope, const std::string& name, size_t begin, size_t end) {
  std::set<std::string> found;
  const std::string& code = scope.code;
  for (size_t at = find_word(code, name, begin); at < end; at = find_word(code, name, at + 1)) {
    const size_t after = code.find_first_not_of(" \t", at + name.size());
    if (after == std::string::npos) break;
    const size_t line = code.rfind('\n', at) + 1;
    if (trimmed(std::string_view(code).substr(line, at - line)) == "#define") {
      if (after == at + name.size()) return std::nullopt;  // it takes arguments
      found.insert(trimmed(std::string_view(code).substr(after, code.find('\n', after) - after)));
    } else if (code[after] == '=' && code.compare(after, 2, "==") != 0) {
      // A variable that is declared here, not one that is assigned to; an array's dimension is a constant.
      const size_t last = at == 0 ? 0 : code.find_last_not_of(" \t\r\n", at - 1);
      if (at == 0 || last == std::string::npos ||
          !(is_word(code[last]) || code[last] == '{' || code[last] == ','))
        continue;
      found.insert(
          trimmed(std::string_view(code).substr(after + 1, code.find_first_of(";,}\n", after) - after - 1)));
    }
  }
  if (found.size() != 1) return std::nullopt;
  return *found.begin();
}

std::optional<int64_t> named_value(const Scope& scope, const std::string& name, int steps) {
  if (steps > kMostSteps) return std::nullopt;
  if (const auto argument = scope.arguments.find(name); argument != scope.arguments.end())
    return value_of(scope, argument->second, steps + 1);
  auto text = definition(scope, name, scope.begin, scope.at);
  if (!text) text = definition(scope, name, 0, scope.code.size());
  return text ? value_of(scope, *text, steps + 1) : std::nullopt;
}

class Evaluator {
 public:
  Evaluator(const Scope& scope, std::string_view text, int steps)
      : scope_(scope), text_(text), steps_(steps) {}

  std::optional<int64_t> value() {
    const auto result = shifted();
    return at_end() ? result : std::nullopt;
  }

 private:
  const Scope& scope_;
  std::string_view text_;
  int steps_;
  size_t at_ = 0;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  bool accept(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == ':')) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  std::optional<int64_t> shifted() {
    auto left = sum();
    while (left) {
      const bool up = accept("<<"), down = !up && accept(">>");
      if (!up && !down) break;
      const auto right = sum();
      if (!right || *right < 0 || *right > 62) return std::nullopt;
      left = up ? *left << *right : *left >> *right;
    }
    return left;
  }
  std::optional<int64_t> sum() {
    auto left = product();
    while (left) {
      const bool plus = accept("+"), minus = !plus && accept("-");
      if (!plus && !minus) break;
      const auto right = product();
      if (!right) return std::nullopt;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }
  std::optional<int64_t> product() {
    auto left = factor();
    while (left) {
      skip();
      const char sign = at_ < text_.size() ? text_[at_] : '\0';
      if (sign != '*' && sign != '/' && sign != '%') break;
      ++at_;
      const auto right = factor();
      if (!right || (sign != '*' && *right == 0)) return std::nullopt;
      left = sign == '*' ? *left * *right : sign == '/' ? *left / *right : *left % *right;
    }
    return left;
  }
  std::optional<int64_t> factor() {
    if (accept("-")) {
      const auto value = factor();
      return value ? std::optional(-*value) : std::nullopt;
    }
    if (accept("(")) {
      const auto value = shifted();
      return value && accept(")") ? value : std::nullopt;
    }
    std::string name = word();
    if (name.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) return number(name);
    if (name == "sizeof") return size();
    if (const size_t colons = name.rfind("::"); colons != std::string::npos) name.erase(0, colons + 2);
    skip();
    if (at_ < text_.size() && (text_[at_] == '(' || text_[at_] == '<')) return std::nullopt;  // a call
    return named_value(scope_, name, steps_);
  }
  static std::optional<int64_t> number(const std::string& text) {
    char* end = nullptr;
    const int64_t value = std::strtoll(text.c_str(), &end, 0);
    for (; *end != '\0'; ++end)
      if (std::string_view("uUlL").find(*end) == std::string_view::npos) return std::nullopt;
    return value;
  }
  std::optional<int64_t> size() {
    const size_t close = text_.find(')', at_);
    if (!accept("(") || close == std::string_view::npos) return std::nullopt;
    const auto bytes = size_of(scope_, trimmed(text_.substr(at_, close - at_)), steps_ + 1);
    at_ = close + 1;
    return bytes ? std::optional(static_cast<int64_t>(*bytes)) : std::nullopt;
  }
};

}  // namespace

std::optional<int64_t> value_of(const Scope& scope, std::string_view text, int steps) {
  return Evaluator(scope, text, steps).value();
}

std::optional<uint64_t> size_of(const Scope& scope, const std::string& type, int steps) {
  static const std::map<std::string, uint64_t, std::less<>> kSizes = {
      {"bool", 1},        {"char", 1},     {"int8_t", 1},         {"uint8_t", 1},     {"short", 2},
      {"int16_t", 2},     {"uint16_t", 2}, {"half", 2},           {"__half", 2},      {"__nv_bfloat16", 2},
      {"nv_bfloat16", 2}, {"int", 4},      {"unsigned", 4},       {"uint", 4},        {"int32_t", 4},
      {"uint32_t", 4},    {"float", 4},    {"half2", 4},          {"__half2", 4},     {"double", 8},
      {"int64_t", 8},     {"uint64_t", 8}, {"size_t", 8},         {"float2", 8},      {"int2", 8},
      {"float4", 16},     {"int4", 16},    {"uint4", 16},         {"uint2", 8},       {"long long", 8},
      {"long", 8},        {"double2", 16}, {"__nv_bfloat162", 4}, {"nv_bfloat162", 4}};
  std::string plain;
  std::istringstream words(type);
  for (std::string word; words >> word;)
    if (word != "signed" && word != "const" && word != "volatile" &&
        (word != "unsigned" || type == "unsigned") && !(word == "int" && !plain.empty()))
      plain += (plain.empty() ? "" : " ") + word;
  if (plain.empty()) plain = "int";  // unsigned, signed
  if (const auto known = kSizes.find(plain); known != kSizes.end()) return known->second;
  const auto argument = scope.arguments.find(plain);
  if (argument == scope.arguments.end() || steps > kMostSteps) return std::nullopt;
  return size_of(scope, argument->second, steps + 1);
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

size_t find_word(const std::string& text, const std::string& word, size_t from) {
  for (size_t at = text.find(word, from); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return at;
  }
  return std::string::npos;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

}  // namespace assay::report
