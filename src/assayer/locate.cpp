#include "assayer/locate.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>

namespace assay::assayer {

namespace fs = std::filesystem;

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Does the line name the function, as a word that an opening parenthesis follows?
bool names(std::string_view line, std::string_view name) {
  for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const std::string_view rest = line.substr(at + name.size());
    const size_t next = rest.find_first_not_of(" \t");
    const bool begins = at == 0 || !is_word(line[at - 1]);
    if (begins && next != std::string_view::npos && rest[next] == '(') return true;
  }
  return false;
}

// The line on which a function's definition begins: the last that names it before a brace opens; 0: none.
int definition(const std::string& source, std::string_view name) {
  std::ifstream file(source);
  int found = 0;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (names(line, name)) found = number;
    if (found > 0 && line.find('{') != std::string::npos) break;
  }
  return found;
}

// The line of "def NAME(" or "class NAME".
int python_definition(const std::string& source, std::string_view name) {
  std::ifstream file(source);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number)
    for (const std::string_view word : {"def ", "class "})
      if (const size_t at = line.find(std::string(word) + std::string(name));
          at != std::string::npos &&
          (at + word.size() + name.size() == line.size() || !is_word(line[at + word.size() + name.size()])))
        return number;
  return 0;
}

}  // namespace

std::string shown(const std::string& path) {
  std::error_code error;
  const fs::path relative = fs::relative(path, fs::current_path(error), error);
  return error || relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

const Where* suspected(std::span<const Finding> notes, Kind kind) {
  // In the order of the table of kinds: what is most telling first.
  const Finding* best = nullptr;
  for (const Finding& note : notes)
    if (info(note.kind).likely == kind && note.where.line > 0 && (!best || note.kind < best->kind))
      best = &note;
  return best ? &best->where : nullptr;
}

void locate(const contract::Contract& contract, std::span<const Finding> notes,
            const std::optional<LastKernel>& last, Finding& finding) {
  if (finding.where.line > 0) {
    finding.where.file = shown(finding.where.file);
    return;
  }
  if (const Where* where = suspected(notes, finding.kind)) {
    finding.where = *where;
    return;
  }
  if (last && is_numeric(finding.kind))
    for (const Where& where : {last->where, last->launched_at.where})
      if (where.line > 0) {
        finding.where = {shown(where.file), where.line};
        return;
      }
  if (const contract::Origin& origin = contract.origin; origin.function_line > 0) {
    finding.where = {shown(fs::absolute(contract.resolve(origin.function_file)).lexically_normal().string()),
                     origin.function_line};
    return;
  }
  const contract::Kernel& kernel = contract.kernel;
  const std::string& name = kernel.python          ? kernel.python.function
                            : kernel.entry.empty() ? kernel.global
                                                   : kernel.entry;
  for (const std::string& source : contract.kernel.sources) {
    const std::string path = fs::absolute(contract.resolve(source)).lexically_normal().string();
    if (const int line = kernel.python ? python_definition(path, name) : definition(path, name); line > 0) {
      finding.where = {shown(path), line};
      return;
    }
    if (finding.where.file.empty()) finding.where = {shown(path), 1};
  }
}

void name_originals(const contract::Contract& contract, std::vector<Finding>& findings) {
  std::map<std::string, std::string> originals;
  for (const auto& [copy, original] : contract.origin.files) {
    const fs::path path = fs::absolute(contract.resolve(copy)).lexically_normal();
    std::error_code gone;
    const auto copied = fs::last_write_time(path, gone), changed = fs::last_write_time(original, gone);
    if (!gone && changed <= copied) originals[shown(path.string())] = shown(original);
  }
  if (originals.empty()) return;
  const auto rename = [&](Where& where) {
    if (const auto found = originals.find(where.file); found != originals.end()) where.file = found->second;
  };
  for (Finding& finding : findings) {
    for_each_place(finding, rename);
    auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
    if (!numeric || !numeric->profile) continue;
    auto profile = std::make_shared<Profile>(*numeric->profile);
    for_each_place(*profile, rename);
    numeric->profile = std::move(profile);
  }
}

}  // namespace assay::assayer
