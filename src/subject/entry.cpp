#include "subject/entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/symbol.h"
#include "subject/source_text.h"

namespace assay::subject {

namespace {

constexpr std::size_t kMostNames = 12;

// What every library is linked to. None of these has a subject's entry.
bool is_system_library(std::string_view name) {
  constexpr std::array<std::string_view, 9> kPrefixes = {"libcudart.so", "libstdc++.so", "libm.so",
                                                         "libgcc_s.so",  "libc.so",      "ld-linux",
                                                         "libdl.so",     "librt.so",     "libpthread.so"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

const fatbinary::ElfSymbol* named(const std::vector<fatbinary::ElfSymbol>& symbols, std::string_view name) {
  const auto found = std::find_if(symbols.begin(), symbols.end(),
                                  [&](const fatbinary::ElfSymbol& symbol) { return symbol.name == name; });
  return found == symbols.end() ? nullptr : &*found;
}

// The C++ function of this name, in whatever namespace: "k::scale(float*, int)". Empty: there is none.
std::string cxx_function(const std::vector<fatbinary::ElfSymbol>& symbols, const std::string& name) {
  for (const fatbinary::ElfSymbol& symbol : symbols) {
    if (!symbol.function || !symbol.name.starts_with("_Z")) continue;
    const std::string plain = plain_name(symbol.name);
    if (plain == name || plain.ends_with("::" + name)) return demangled(symbol.name);
  }
  return "";
}

// Functions that an author declared extern "C", not those of the compiler.
std::vector<std::string> c_functions(const std::vector<fatbinary::ElfSymbol>& symbols) {
  std::vector<std::string> names;
  for (const fatbinary::ElfSymbol& symbol : symbols) {
    const bool own = !symbol.name.starts_with("_Z") && !symbol.name.starts_with("__") &&
                     symbol.name != "_init" && symbol.name != "_fini";
    if (symbol.function && own) names.push_back(symbol.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The name before the parameters of a declaration, of which `at` lies before the name.
std::string declared_name(const std::string& code, std::size_t at) {
  for (;;) {
    const std::size_t open = code.find_first_of("(;{}", at);
    if (open == std::string::npos || code[open] != '(') return "";
    std::size_t end = open;
    while (end > at && !is_word(code[end - 1])) --end;
    std::size_t begin = end;
    while (begin > at && is_word(code[begin - 1])) --begin;
    std::string name = code.substr(begin, end - begin);
    if (name != "__launch_bounds__" && name != "__cluster_dims__") return name;
    int depth = 0;
    for (at = open; at < code.size(); ++at) {
      if (code[at] == '(') ++depth;
      if (code[at] == ')' && --depth == 0) break;
    }
  }
}

}  // namespace

std::string why_missing(const fatbinary::ElfFile& library, const std::string& name) {
  if (const fatbinary::ElfSymbol* symbol = named(library.exported, name)) {
    return symbol->function ? "" : fmt::format("{} is a variable, not a function", name);
  }
  if (!std::all_of(library.needed.begin(), library.needed.end(), is_system_library)) return "";
  if (const std::string cxx = cxx_function(library.exported, name); !cxx.empty())
    return fmt::format("{} is a C++ function; declare it extern \"C\"", cxx);
  const fatbinary::ElfSymbol* local = named(library.local, name);
  if ((local && local->function) || !cxx_function(library.local, name).empty())
    return fmt::format("{} is static or hidden; the loader cannot find it", name);
  std::vector<std::string> names = c_functions(library.exported);
  const std::size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  if (names.empty()) return fmt::format("`{}` is not defined, nor is any other extern \"C\" function", name);
  return fmt::format("`{}` is not defined; the extern \"C\" functions are: {}{}", name,
                     fmt::join(names, ", "), more > 0 ? fmt::format(" and {} others", more) : "");
}

std::vector<std::string> kernels_in_ptx(std::string_view text) {
  constexpr std::string_view kEntry = ".entry";
  const std::string code = without_comments(text);
  std::vector<std::string> names;
  for (std::size_t at = code.find(kEntry); at != std::string::npos; at = code.find(kEntry, at + 1)) {
    const std::size_t name = code.find_first_not_of(" \t\r\n", at + kEntry.size());
    const std::size_t end = code.find_first_of(" \t\r\n(;{", std::min(name, code.size()));
    if (end != std::string::npos && end > name) names.push_back(code.substr(name, end - name));
  }
  return names;
}

std::vector<SourceKernel> kernels_in_source(std::string_view text) {
  constexpr std::string_view kGlobal = "__global__";
  const std::string code = without_comments(text);
  std::vector<SourceKernel> kernels;
  for (std::size_t at = code.find(kGlobal); at != std::string::npos; at = code.find(kGlobal, at + 1)) {
    const std::size_t before = code.find_last_of(";{}", at);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    const bool is_template = code.substr(start, at - start).find("template") != std::string::npos;
    const std::string name = declared_name(code, at + kGlobal.size());
    const bool known = std::any_of(kernels.begin(), kernels.end(),
                                   [&](const SourceKernel& kernel) { return kernel.name == name; });
    if (!name.empty() && !known) kernels.push_back({name, is_template});
  }
  return kernels;
}

std::string kernel_expression(const std::string& name) {
  const std::string text = name.starts_with("_Z") ? demangled(name) : name;
  const std::string plain = plain_name(name);
  const std::size_t at = text.find(plain);
  if (text == name || at == std::string::npos) return name;
  return fmt::format("static_cast<void (*){}>(&{})", text.substr(at + plain.size()), plain);
}

}  // namespace assay::subject
