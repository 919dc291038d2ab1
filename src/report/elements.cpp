#include "report/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/symbol.h"
#include "base/toolkit.h"
#include "report/constants.h"

namespace assay::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostText = 4 << 20;  // bytes of source that are looked through for one finding
constexpr int kMostIncludes = 3;       // files deep

// Comments and texts become blanks; lines stay where they are.
std::string code_in(const std::string& text) {
  std::string code = text;
  enum class State { Code, Line, Block, Quote } state = State::Code;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool begins = state == State::Code;
    if (begins && c == '/' && next == '/')
      state = State::Line;
    else if (begins && c == '/' && next == '*')
      state = State::Block;
    else if (begins && (c == '"' || (c == '\'' && (i == 0 || !is_word(text[i - 1])))))
      state = State::Quote, quote = c;
    if (state == State::Code) continue;
    if (c != '\n') code[i] = ' ';
    if (state == State::Line && c == '\n') state = State::Code;
    if (state == State::Quote && !begins && c == '\\') {
      if (++i < text.size() && text[i] != '\n') code[i] = ' ';
    } else if (state == State::Quote && !begins && (c == quote || c == '\n')) {
      state = State::Code;
    } else if (state == State::Block && !begins && c == '*' && next == '/') {
      code[++i] = ' ';
      state = State::Code;
    }
  }
  return code;
}

// The parts of a list between commas that stand in no brackets.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size()) {
      depth += std::string_view("([{<").find(list[i]) != std::string_view::npos;
      depth -= std::string_view(")]}>").find(list[i]) != std::string_view::npos;
    }
    if (i < list.size() && (list[i] != ',' || depth != 0)) continue;
    if (std::string part = trimmed(list.substr(start, i - start)); !part.empty())
      parts.push_back(std::move(part));
    start = i + 1;
  }
  return parts;
}

// ---- Declarations ----

struct Declaration {
  size_t at = 0;
  std::string type;
  std::vector<std::string> dims;  // as written; empty text: []
};

// "float tile[2][33]" or, of a further declarator, "tile[2][33]": the name and what follows it.
bool read_declarator(const std::string& text, const std::string& name, Declaration& to, std::string& type) {
  const size_t at = find_word(text, name);
  if (at == std::string::npos) return false;
  type = trimmed(std::string_view(text).substr(0, at));
  to.dims.clear();
  for (size_t i = text.find_first_not_of(" \t\r\n", at + name.size()); i != std::string::npos;
       i = text.find_first_not_of(" \t\r\n", i)) {
    const size_t close = text[i] == '[' ? text.find(']', i) : std::string::npos;
    if (close == std::string::npos) return false;
    to.dims.push_back(trimmed(std::string_view(text).substr(i + 1, close - i - 1)));
    i = close + 1;
  }
  return true;
}

std::string without_qualifiers(std::string text) {
  for (const char* call : {"__align__", "alignas"})
    for (size_t at; (at = find_word(text, call)) != std::string::npos;) {
      const size_t close = text.find(')', at);
      if (close == std::string::npos) break;
      text.erase(at, close - at + 1);
    }
  for (const char* word : {"extern", "static", "volatile", "__shared__"})
    for (size_t at; (at = find_word(text, word)) != std::string::npos;)
      text.erase(at, std::string_view(word).size());
  return trimmed(text);
}

std::vector<Declaration> declarations_of(const std::string& code, const std::string& name) {
  std::vector<Declaration> found;
  const std::string shared = "__shared__";
  for (size_t at = find_word(code, shared); at != std::string::npos; at = find_word(code, shared, at + 1)) {
    const size_t end = code.find_first_of(";{", at);
    if (end == std::string::npos || code[end] != ';') continue;
    std::string first_type;
    for (const std::string& part : parts_of(without_qualifiers(code.substr(at, end - at)))) {
      Declaration declaration{at, "", {}};
      std::string type;
      const bool is_it = read_declarator(part, name, declaration, type);
      if (first_type.empty())  // what stands before the first name is the type of all
        first_type = is_it ? type : trimmed(part.substr(0, part.find_last_of(" \t*&", part.find('[')) + 1));
      declaration.type = first_type;
      if (is_it) found.push_back(std::move(declaration));
    }
  }
  return found;
}

// The function that a declaration stands in, by the last __global__ or __device__ before it.
size_t function_before(const std::string& code, size_t at) {
  size_t last = 0;
  for (const std::string word : {"__global__", "__device__"})
    if (const size_t found = code.rfind(word, at); found != std::string::npos) last = std::max(last, found);
  return last;
}

// The template's parameters by name, with the arguments that "gemm<64, float>" has.
std::map<std::string, std::string> arguments_of(const std::string& code, size_t function,
                                                const std::string& instance) {
  std::map<std::string, std::string> arguments;
  const size_t open = instance.find('<'), close = instance.rfind('>');
  const size_t keyword = code.rfind("template", function);
  if (open == std::string::npos || close < open || keyword == std::string::npos) return arguments;
  const size_t begin = code.find('<', keyword), end = code.rfind('>', function);
  if (begin == std::string::npos || end == std::string::npos || begin > end ||
      code.find_first_of(";{}", begin) < function)
    return arguments;
  const auto names = parts_of(std::string_view(code).substr(begin + 1, end - begin - 1));
  const auto values = parts_of(std::string_view(instance).substr(open + 1, close - open - 1));
  for (size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
    const std::string parameter = trimmed(names[i].substr(0, names[i].find('=')));
    size_t start = parameter.size();
    while (start > 0 && is_word(parameter[start - 1])) --start;
    arguments[parameter.substr(start)] = values[i];
  }
  return arguments;
}

// By how many bytes each index steps. None where it cannot be known.
std::optional<std::vector<uint64_t>> strides_of(const Scope& scope, const Declaration& declaration,
                                                uint64_t bytes) {
  std::vector<std::optional<uint64_t>> extents;
  for (const std::string& dim : declaration.dims) {
    const auto value = dim.empty() ? std::nullopt : value_of(scope, dim);
    if (value && *value <= 0) return std::nullopt;
    extents.push_back(value ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt);
  }
  extents.push_back(size_of(scope, declaration.type));
  uint64_t product = 1;
  std::optional<uint64_t>* unknown = nullptr;
  for (auto& extent : extents) {
    if (extent && *extent > 0 && product > UINT32_MAX / *extent) return std::nullopt;
    if (extent)
      product *= *extent;
    else if (unknown)
      return std::nullopt;
    else
      unknown = &extent;
  }
  if (bytes == 0) {  // dynamic: the first dimension is not known, and counts for nothing
    if (unknown != &extents.front() || extents.size() < 2) return std::nullopt;
    *unknown = 1;
  } else if (unknown) {
    if (bytes % product != 0) return std::nullopt;
    *unknown = bytes / product;
  } else if (product != bytes) {
    return std::nullopt;
  }
  std::vector<uint64_t> strides(extents.size(), 1);
  for (size_t i = extents.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * *extents[i];
  return strides;  // the last is that of a byte
}

Element element_at(const std::vector<uint64_t>& strides, uint64_t offset) {
  Element element;
  for (size_t i = 0; i + 1 < strides.size(); ++i) {
    element.indices.push_back(offset / strides[i]);
    offset %= strides[i];
  }
  element.rest = offset;
  return element;
}

// ---- Files ----

void read_with_includes(const fs::path& path, int depth, std::set<std::string>& seen, std::string& text) {
  std::error_code error;
  const std::string key = fs::weakly_canonical(path, error).string();
  if (depth > kMostIncludes || !seen.insert(key).second || fs::file_size(path, error) > kMostText || error)
    return;
  std::ifstream file(path);
  std::stringstream whole;
  whole << file.rdbuf();
  if (text.size() + whole.str().size() > kMostText) return;
  std::istringstream lines(whole.str());
  for (std::string line; std::getline(lines, line);) {
    const std::string plain = trimmed(line);
    const size_t open = plain.find('"'), close = plain.rfind('"');
    if (plain.starts_with("#include") && open != close)
      read_with_includes(path.parent_path() / plain.substr(open + 1, close - open - 1), depth + 1, seen,
                         text);
  }
  text += whole.str() + "\n";
}

// The files that a finding names, of the user's own.
std::string source_of(const Finding& finding) {
  std::vector<std::string> files;
  const auto add = [&](const Where& where) {
    if (where.file.empty() || is_toolkit_header(where.file)) return;
    if (std::find(files.begin(), files.end(), where.file) == files.end()) files.push_back(where.file);
  };
  const auto add_chain = [&](const evidence::CodePlace& code) {
    for (const Frame& frame : code.chain) add(frame.where);
  };
  if (!finding.where.file.empty()) files.push_back(finding.where.file);
  if (const evidence::CodePlace* code = code_of(finding)) add_chain(*code);
  if (const auto* race = std::get_if<evidence::Race>(&finding.evidence)) {
    add(race->other.where);
    add_chain(race->other.code);
  }
  std::set<std::string> seen;
  std::string text;
  for (const std::string& file : files) read_with_includes(file, 0, seen, text);
  return text;
}

}  // namespace

std::optional<Element> find_element(const std::string& source, const ArrayPlace& place) {
  const std::string code = code_in(source);
  const std::string whole = demangled(place.symbol);
  const size_t colons = whole.rfind("::");
  const std::string name = colons == std::string::npos ? whole : whole.substr(colons + 2);
  // Of a static array: the function that it belongs to, "ns::gemm<64, 32>".
  const std::string instance = place.symbol.starts_with("_ZZ") ? plain_name(place.symbol) : "";
  std::string function = instance.substr(0, instance.find('<'));
  if (const size_t last = function.rfind("::"); last != std::string::npos) function.erase(0, last + 2);
  std::vector<Declaration> candidates = declarations_of(code, name);
  const auto is_of_function = [&](const Declaration& declaration) {
    const size_t begin = function_before(code, declaration.at);
    return !function.empty() && find_word(code, function, begin) < declaration.at;
  };
  if (std::any_of(candidates.begin(), candidates.end(), is_of_function))
    std::erase_if(candidates, [&](const Declaration& d) { return !is_of_function(d); });
  std::optional<std::vector<uint64_t>> agreed;
  for (const Declaration& declaration : candidates) {
    const size_t begin = function_before(code, declaration.at);
    const Scope scope{code, begin, declaration.at, arguments_of(code, begin, instance)};
    const auto strides = strides_of(scope, declaration, place.bytes);
    if (!strides || (agreed && *agreed != *strides)) return std::nullopt;
    agreed = strides;
  }
  if (!agreed) return std::nullopt;
  return element_at(*agreed, place.offset);
}

void name_elements(Finding& finding) {
  std::vector<evidence::SharedArray*> arrays;
  const auto add = [&](std::optional<evidence::SharedArray>& array) {
    if (array && array->offset >= 0) arrays.push_back(&*array);
  };
  if (auto* access = std::get_if<evidence::Access>(&finding.evidence)) {
    add(access->place.array);
    add(access->neighbour);
  }
  if (auto* race = std::get_if<evidence::Race>(&finding.evidence)) add(race->place.array);
  if (arrays.empty()) return;
  const std::string source = source_of(finding);
  for (evidence::SharedArray* array : arrays) {
    const auto element =
        find_element(source, {array->symbol, array->bytes, static_cast<uint64_t>(array->offset)});
    if (!element) continue;
    array->indices = element->indices;
    array->rest = element->rest;
  }
}

}  // namespace assay::report
