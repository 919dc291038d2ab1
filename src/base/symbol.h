// Names of functions as people write them.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace assay {

// "reduce<float>(float const*, int)" for _Z6reduceIfEvPKT_i; a name that is not mangled stays. The library would read one as a type: `f` as
// float.
inline std::string demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? text.get() : symbol;
}

// The same without its return type, parameters and nameless namespaces: "reduce<float>".
inline std::string plain_name(const std::string& symbol) {
  std::string name = demangled(symbol);
  for (std::string_view nameless : {"(anonymous namespace)::", "_GLOBAL__N__"})
    for (size_t at; (at = name.find(nameless)) != std::string::npos;) {
      const size_t end = name.find("::", at);
      name.erase(at, end == std::string::npos ? nameless.size() : end + 2 - at);
    }
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<';
    depth -= name[i] == '>';
    if (depth != 0) continue;
    if (name[i] == ' ') start = i + 1;
    if (name[i] == '(' && i > start) return name.substr(start, i - start);
  }
  return name.substr(start);
}

// A function by its last name alone, as its source has it: "load_tile<64>".
inline std::string function_name(const std::string& symbol, size_t most = 40) {
  std::string name = plain_name(symbol);
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    depth += name[i] == '<';
    depth -= name[i] == '>';
    if (depth == 0 && name[i] == ':' && name[i + 1] == ':') start = i + 2;
  }
  name.erase(0, start);
  return name.size() <= most ? name : name.substr(0, std::min(most, name.find('<')));
}

// A plain name that fits into a line: where it is too long, without its template arguments.
inline std::string short_name(const std::string& symbol, size_t most = 100) {
  std::string name = plain_name(symbol);
  if (name.size() <= most) return name;
  std::string shorter;
  int depth = 0;
  for (char c : name) {
    depth -= c == '>';
    if (depth == 0) shorter += c;
    if (c == '<' && depth++ == 0) shorter += "...";
  }
  if (shorter.size() > most) shorter = "..." + shorter.substr(shorter.size() - (most - 3));
  return shorter;
}

}  // namespace assay
