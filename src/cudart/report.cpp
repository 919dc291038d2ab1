#include "cudart/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cudart/code_place.h"
#include "cudart/settings.h"

namespace assay::cudart {
namespace {

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

nlohmann::json dim_json(const vgpu::Dim3& dim) {
  return {dim.x, dim.y, dim.z};
}

nlohmann::json finding_json(const Finding& finding) {
  constexpr const char* kSeverities[] = {"note", "warning", "error"};
  return {{"kind", finding.kind},
          {"severity", kSeverities[static_cast<size_t>(finding.severity)]},
          {"message", finding.message},
          {"where", {{"file", finding.where.file}, {"line", finding.where.line}}},
          {"evidence", finding.evidence}};
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr std::string_view kFaultNames[] = {
    "none",     "illegal address", "misaligned address",  "invalid address space",
    "trap",     "assert",          "illegal instruction", "deadlock",
    "livelock", "stack overflow",  "heap exhausted",      "invalid program counter",
};

}  // namespace

Report::Report(const Settings& settings) : quiet_(settings.quiet) {
  if (!settings.report.empty())
    file_ = open(settings.report.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

void Report::say(std::string_view message) {
  if (!quiet_) write_all(STDERR_FILENO, fmt::format("assay: {}\n", message));
}

void Report::say_once(std::string_view message) {
  {
    std::lock_guard lock(mutex_);
    if (!said_.emplace(message).second) return;
  }
  say(message);
}

void Report::line(std::string_view json) {
  if (file_ >= 0) write_all(file_, fmt::format("{}\n", json));
}

void Report::launch(const vgpu::GridRun& run) {
  if (file_ < 0) return;
  const auto& info = run.info();
  const auto& outcome = run.outcome();
  line(dump({{"event", "launch"},
             {"id", info.id},
             {"kernel", std::string(info.kernel.name())},
             {"grid", dim_json(info.config.grid)},
             {"block", dim_json(info.config.block)},
             {"stream", info.stream},
             {"dynamic_shared", info.config.dynamic_shared},
             {"instructions", outcome.warp_instructions},
             {"seconds", outcome.seconds},
             {"fault", std::string(kFaultNames[static_cast<size_t>(outcome.fault.kind)])}}));
}

namespace {

constexpr size_t kWord = 4;  // bytes: parameters are told in words, so that structs need no description

nlohmann::json place_json(vgpu::Address address, const vgpu::Memory& memory) {
  const auto found = memory.find(address);
  if (!found) return nullptr;
  return {{"label", found->label}, {"offset", address - found->base}};
}

nlohmann::json side_json(const vgpu::Place& place, const vgpu::Memory& memory) {
  return place.host ? nlohmann::json("host") : place_json(place.address, memory);
}

// Every aligned word, and for every aligned pair of words that is a device address what it points to.
nlohmann::json parameters_json(const std::vector<std::byte>& bytes, const vgpu::Memory& memory) {
  nlohmann::json words = nlohmann::json::array(), pointers = nlohmann::json::array();
  std::vector<std::byte> whole = bytes;
  whole.resize((bytes.size() + kWord - 1) / kWord * kWord);
  for (size_t at = 0; at < whole.size(); at += kWord) {
    uint32_t word = 0;
    std::memcpy(&word, whole.data() + at, kWord);
    words.push_back(word);
    if (at % 8 != 0 || at + 8 > whole.size()) continue;
    vgpu::Address address = 0;
    std::memcpy(&address, whole.data() + at, 8);
    if (nlohmann::json place = place_json(address, memory); !place.is_null()) {
      place["at"] = at;
      pointers.push_back(std::move(place));
    }
  }
  return {{"words", words}, {"pointers", pointers}};
}

}  // namespace

void Report::recorded(const vgpu::Work& work, const vgpu::Memory& memory, uint32_t shared_limit) {
  if (const auto* grid = std::get_if<vgpu::GridWork>(&work)) {
    line(dump({{"event", "recorded"},
               {"what", "launch"},
               {"kernel", std::string(grid->kernel.name())},
               {"grid", dim_json(grid->config.grid)},
               {"block", dim_json(grid->config.block)},
               {"cluster", dim_json(grid->config.cluster)},
               {"cooperative", grid->config.cooperative},
               {"dynamic_shared", grid->config.dynamic_shared},
               {"static_shared", grid->kernel.function->shared_bytes},
               {"shared_limit", shared_limit},
               {"parameters", parameters_json(grid->parameters, memory)}}));
  } else if (const auto* fill = std::get_if<vgpu::FillWork>(&work)) {
    line(dump({{"event", "recorded"},
               {"what", "fill"},
               {"to", side_json(fill->to, memory)},
               {"width", fill->width},
               {"rows", fill->height * fill->depth}}));
  } else if (const auto* copy = std::get_if<vgpu::CopyWork>(&work)) {
    line(dump({{"event", "recorded"},
               {"what", "copy"},
               {"to", side_json(copy->to, memory)},
               {"from", side_json(copy->from, memory)},
               {"width", copy->width},
               {"rows", copy->height * copy->depth}}));
  }
}

void Report::fault(const vgpu::FaultInfo& fault) {
  say(fault.message);
  line(dump({{"event", "fault"},
             {"kind", std::string(kFaultNames[static_cast<size_t>(fault.kind)])},
             {"message", fault.message}}));
}

void Report::finding(const Finding& finding) {
  nlohmann::json json = finding_json(finding);
  json["event"] = "finding";
  line(dump(json));
}

void Report::sighting(const Finding& finding) {
  line(dump({{"event", "sighting"}, {"finding", finding_json(finding)}}));
}

void Report::still_running(const vgpu::LaunchInfo& launch, double seconds,
                           std::span<const vgpu::Standing> lines) {
  constexpr size_t kMostLines = 8;
  if (file_ < 0) return;
  nlohmann::json places = nlohmann::json::array();
  for (const vgpu::Standing& at : lines.first(std::min(lines.size(), kMostLines)))
    places.push_back({{"file", at.file}, {"line", at.line}, {"warps", at.warps}});
  line(dump({{"event", "still-running"},
             {"kernel", std::string(launch.kernel.name())},
             {"seconds", seconds},
             {"lines", places}}));
}

void Report::told() {
  line(dump({{"event", "told"}}));
}

void Report::allocation(uint64_t id, const std::vector<std::string>& calls) {
  if (file_ < 0) return;
  for (const std::string& place : calls) module(place);
  line(dump({{"event", "allocation"}, {"id", id}, {"calls", calls}}));
}

void Report::module(const std::string& place) {
  if (file_ < 0) return;
  const std::string name = place.substr(0, place.rfind('+'));
  {
    std::lock_guard lock(mutex_);
    if (!modules_.insert(name).second) return;
  }
  if (const std::string path = path_of_module(name); !path.empty())
    line(dump({{"event", "module"}, {"name", name}, {"path", path}}));
}

void Report::precision(const Json& profile) {
  line(dump({{"event", "precision"}, {"profile", profile}}));
}

void Report::unsupported_kernel(std::string_view message) {
  say_once(message);
  line(dump({{"event", "unsupported"}, {"message", std::string(message)}}));
}

void Report::unsupported(std::string_view function) {
  say_once(fmt::format("{} is not supported by the virtual GPU", function));
  line(dump({{"event", "unsupported"}, {"function", std::string(function)}}));
}

}  // namespace assay::cudart
