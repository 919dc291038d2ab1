#include "subject/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/symbol.h"
#include "subject/process.h"

namespace assay::subject {
namespace {

constexpr double kLookUpSeconds = 20;
constexpr size_t kLongestName = 60;

bool has_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

// Headers that wrap what the program asked for.
bool is_wrapper_file(const std::string& file) {
  return has_any(file, {"/cuda_runtime.h", "/targets/x86_64-linux/include/", "/thrust/", "/cub/",
                        "/cuda/std/", ".cudafe1.", "/include/c++/"}) ||
         file.starts_with("/usr/include/");
}

bool is_wrapper_function(const std::string& name) {
  return name.empty() || name == "??" || name.starts_with("cudaMalloc") || name.starts_with("cudaHost") ||
         name.starts_with("cudaLaunch") || name.starts_with("__device_stub") ||
         has_any(name, {"thrust::", "cub::", "std::"});
}

std::string module_of(const std::string& place) {
  return place.substr(0, place.rfind('+'));
}
std::string offset_of(const std::string& place) {
  const size_t plus = place.rfind('+');
  return plus == std::string::npos ? "" : place.substr(plus + 1);
}

// "file.cu:12 (discriminator 3)", or "??:0".
void read_line(const std::string& text, std::string& file, int& line) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || text.starts_with("??")) return;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
  if (line > 0) file = text.substr(0, colon);
}

}  // namespace

void Places::look_up_in(const std::string& module, const std::vector<std::string>& places) {
  const auto path = modules_.find(module);
  if (path == modules_.end()) return;
  std::vector<std::string> command = {"addr2line", "-a", "-f", "-i", "-C", "-e", path->second};
  for (const std::string& place : places) command.push_back(offset_of(place));
  auto told = subject::run_command(command, kLookUpSeconds);
  if (!told || told->status != 0) return;
  std::istringstream text(told->output);
  size_t next = 0;
  std::vector<Line>* lines = nullptr;
  for (std::string first, second; std::getline(text, first);) {
    if (first.starts_with("0x") && next < places.size()) {
      lines = &lines_[places[next++]];
      continue;
    }
    if (!lines || !std::getline(text, second)) return;
    Line line{short_name(first, kLongestName), "", 0};
    read_line(second, line.file, line.line);
    lines->push_back(std::move(line));
  }
}

void Places::look_up(const std::set<std::string>& places) {
  std::map<std::string, std::vector<std::string>> by_module;
  for (const std::string& place : places) by_module[module_of(place)].push_back(place);
  for (const auto& [module, own] : by_module) look_up_in(module, own);
}

Places::Found Places::own_line(std::span<const std::string> calls, const std::string& kernel) const {
  Found by_name;
  for (const std::string& place : calls) {
    const auto lines = lines_.find(place);
    if (lines == lines_.end() || place.starts_with("libc.so") || place.starts_with("libcudart.so")) continue;
    for (const Line& line : lines->second) {
      if (line.function == kernel) continue;  // the function of the host that stands for it
      if (line.line > 0 && !is_wrapper_file(line.file)) return {place, &line};
      if (!by_name.line && line.line == 0 && !is_wrapper_function(line.function)) by_name = {place, &line};
    }
    if (by_name.line) break;  // who calls a function without lines is not where it happened
  }
  return by_name;
}

void Places::note(Finding& finding) {
  const auto about = finding.evidence.find("allocation");
  if (about == finding.evidence.end() || !about->contains("id")) return;
  const auto calls = allocations_.find((*about)["id"].get<uint64_t>());
  if (calls != allocations_.end()) (*about)["calls"] = calls->second;
}

void Places::name_allocation(Json& allocation) const {
  const auto calls = allocation["calls"].get<std::vector<std::string>>();
  allocation.erase("calls");
  const Found found = own_line(calls);
  if (!found.line) return;
  const std::string& function = found.line->function;
  allocation["code"] = found.place;
  allocation["function"] = function;
  if (found.line->line > 0) {
    allocation["at"] = fmt::format("{}:{} ({})", found.line->file, found.line->line, function);
    allocation["file"] = found.line->file;
    allocation["line"] = found.line->line;
  } else {
    allocation["at"] = fmt::format("{} ({})", function, found.place);
  }
}

void Places::name_launch(Finding& finding) const {
  const auto calls = finding.evidence["calls"].get<std::vector<std::string>>();
  finding.evidence.erase("calls");
  const std::string kernel = finding.evidence.value("kernel", "");
  const Found found = own_line(calls, short_name(kernel, kLongestName));
  if (!found.line) return;
  finding.evidence["host_code"] = found.place;
  finding.evidence["host"] = found.line->line > 0 ? fmt::format("{}:{} ({})", found.line->file,
                                                                found.line->line, found.line->function)
                                                  : fmt::format("{} ({})", found.line->function, found.place);
  finding.where = {found.line->file, found.line->line};
}

void Places::name_host(Finding& finding) const {
  const std::string place = finding.evidence["host"];
  const Found found = own_line({&place, 1});
  if (!found.line) return;
  const std::string& function = found.line->function;
  const std::string text = found.line->line > 0
                               ? fmt::format("{}:{} ({})", found.line->file, found.line->line, function)
                               : fmt::format("{} ({})", function, place);
  finding.evidence["host"] = text;
  finding.evidence["host_code"] = place;
  if (finding.where.file.empty() && found.line->line > 0)
    finding.where = {found.line->file, found.line->line};
  if (const size_t at = finding.message.find(place); at != std::string::npos)
    finding.message.replace(at, place.size(), text);
}

void Places::name(std::vector<Finding>& findings) {
  std::set<std::string> wanted;
  for (Finding& finding : findings) {
    const auto about = finding.evidence.find("allocation");
    if (about != finding.evidence.end() && about->contains("calls"))
      for (const Json& place : (*about)["calls"]) wanted.insert(place.get<std::string>());
    if (finding.evidence.contains("host")) wanted.insert(finding.evidence["host"].get<std::string>());
    if (const auto calls = finding.evidence.find("calls"); calls != finding.evidence.end())
      for (const Json& place : *calls) wanted.insert(place.get<std::string>());
  }
  look_up(wanted);
  for (Finding& finding : findings) {
    const auto about = finding.evidence.find("allocation");
    if (about != finding.evidence.end() && about->contains("calls")) name_allocation(*about);
    if (finding.evidence.contains("host")) name_host(finding);
    if (finding.evidence.contains("calls")) name_launch(finding);
  }
}

}  // namespace assay::subject
