#include "subject/places.h"

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

bool is_of_the_runtime(const std::string& place) {
  return place.starts_with("libc.so") || place.starts_with("libcudart.so");
}

std::string module_of(const std::string& place) {
  return place.substr(0, place.rfind('+'));
}
std::string offset_of(const std::string& place) {
  const size_t plus = place.rfind('+');
  return plus == std::string::npos ? "" : place.substr(plus + 1);
}

// Of "file.cu:12 (discriminator 3)", or "??:0".
Where where_in(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || text.starts_with("??")) return {};
  int line = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
  return line > 0 ? Where{text.substr(0, colon), line} : Where{};
}

}  // namespace

void Places::look_up_in(const std::string& module, const std::vector<std::string>& places) {
  const auto path = modules_.find(module);
  if (path == modules_.end()) return;
  std::vector<std::string> command = {"addr2line", "-a", "-f", "-i", "-C", "-e", path->second};
  for (const std::string& place : places) command.push_back(offset_of(place));
  const auto answer = subject::run_command(command, kLookUpSeconds);
  if (!answer || answer->status != 0) return;
  std::istringstream text(answer->output);
  size_t next = 0;
  std::vector<Line>* lines = nullptr;
  for (std::string first, second; std::getline(text, first);) {
    if (first.starts_with("0x") && next < places.size()) {
      lines = &lines_[places[next++]];
      continue;
    }
    if (!lines || !std::getline(text, second)) return;
    lines->push_back({short_name(first, kLongestName), where_in(second)});
  }
}

// What no frame will show, or is known already, is not asked for.
void Places::look_up(const std::set<std::string>& places) {
  std::map<std::string, std::vector<std::string>> by_module;
  for (const std::string& place : places)
    if (!is_of_the_runtime(place) && !lines_.contains(place)) by_module[module_of(place)].push_back(place);
  for (const auto& [module, own] : by_module) look_up_in(module, own);
}

std::vector<Frame> Places::frames(const std::vector<std::string>& calls) const {
  std::vector<Frame> frames, without_lines;
  for (const std::string& place : calls) {
    const auto lines = lines_.find(place);
    if (lines == lines_.end()) continue;
    for (const Line& line : lines->second)
      if (!is_wrapper_function(line.function) && !is_wrapper_file(line.where.file))
        (line.where.line > 0 ? frames : without_lines).push_back({line.where, line.function, true});
  }
  return frames.empty() ? without_lines : frames;
}

void Places::name_host(evidence::HostPlace& host, const std::string& kernel) const {
  if (const Frame* own = own_frame(host)) {
    host.where = own->where;
    host.function = own->function;
    return;
  }
  for (const std::string& place : host.calls) {
    const auto lines = lines_.find(place);
    if (lines == lines_.end()) continue;
    for (const Line& line : lines->second) {
      if (!kernel.empty() && line.function == kernel) continue;  // the host function that stands for it
      const bool own_line = line.where.line > 0 && !is_wrapper_file(line.where.file);
      const bool own_name = host.code.empty() && line.where.line == 0 && !is_wrapper_function(line.function);
      if (!own_line && !own_name) continue;
      host.code = place;
      host.function = line.function;
      host.where = line.where;
      if (own_line) return;
    }
    if (!host.code.empty()) return;  // the caller of a function without lines is not where it happened
  }
}

void Places::name(std::vector<Finding>& findings) {
  std::set<std::string> wanted;
  const auto want = [&](const std::vector<std::string>& calls) { wanted.insert(calls.begin(), calls.end()); };
  for (const Finding& finding : findings) {
    if (const auto* host = host_of(finding)) want(host->calls);
    if (const auto* allocation = allocation_of(finding)) want(allocation->made_at.calls);
  }
  look_up(wanted);
  for (Finding& finding : findings) {
    if (auto* allocation = allocation_of(finding)) name_host(allocation->made_at, "");
    auto* host = host_of(finding);
    if (!host) continue;
    name_host(*host, short_name(kernel_of(finding), kLongestName));
    if (finding.where.file.empty() && host->where.line > 0) finding.where = host->where;
  }
}

}  // namespace assay::subject
