#include "cudart/event_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cudart/code_place.h"
#include "cudart/python_frames.h"

namespace assay::cudart {
namespace {

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::array<uint32_t, 3> extents_of(const vgpu::Dim3& dim) {
  return {dim.x, dim.y, dim.z};
}

std::string fault_name(vgpu::FaultInfo::Kind kind) {
  constexpr const char* kNames[] = {
      "",         "illegal address", "misaligned address",  "invalid address space",
      "trap",     "assert",          "illegal instruction", "deadlock",
      "livelock", "stack overflow",  "heap exhausted",      "invalid program counter",
  };
  return kNames[static_cast<size_t>(kind)];
}

void EventWriter::open(const protocol::Settings& settings) {
  quiet_ = settings.quiet;
  log_.close();
  if (file_ >= 0) close(file_);
  file_ = -1;
  if (settings.events.empty()) return;
  // A log is mapped, which takes a file that can be read, too.
  constexpr int kFlags = O_APPEND | O_CREAT | O_CLOEXEC;
  if (settings.report_activity) file_ = ::open(settings.events.c_str(), O_RDWR | kFlags, 0600);
  if (file_ >= 0)
    log_.open(file_);
  else
    file_ = ::open(settings.events.c_str(), O_WRONLY | kFlags, 0600);
}

void EventWriter::say(std::string_view message) {
  if (!quiet_) write_all(STDERR_FILENO, fmt::format("assay: {}\n", message));
}

void EventWriter::say_once(std::string_view message) {
  {
    std::lock_guard lock(mutex_);
    if (!said_.emplace(message).second) return;
  }
  say(message);
}

void EventWriter::write(const protocol::Event& event) {
  if (file_ < 0) return;
  if (log_.is_open()) return check(log_.add_line(protocol::encode(event)));
  check(write_all(file_,
                  protocol::encode(event) + "\n"));  // at once, so that lines of several threads do not mix
}

void EventWriter::write_as_line(protocol::RecordType type, std::string_view payload) {
  if (protocol::Event event; protocol::read_record(type, payload, log_.texts(), event)) write(event);
}

void EventWriter::check(bool is_written) {
  if (is_written || errno == EPIPE || is_incomplete_.exchange(true))
    return;  // a reader that is gone wants none
  say(fmt::format("events cannot be written ({}); what is reported at the end is incomplete",
                  std::strerror(errno)));
}

void EventWriter::launch(const vgpu::GridRun& run) {
  if (file_ < 0) return;
  const auto& info = run.info();
  const auto& outcome = run.outcome();
  const evidence::HostPlace launched_at{.stack = python_frames(info.config.origin)};
  const Frame* own = own_frame(launched_at);
  const std::string fault = fault_name(outcome.fault.kind);
  if (!log_.is_open())
    return write(protocol::LaunchEvent{.id = info.id,
                                       .kernel = std::string(info.kernel.name()),
                                       .grid = extents_of(info.config.grid),
                                       .block = extents_of(info.config.block),
                                       .stream = info.stream,
                                       .dynamic_shared = info.config.dynamic_shared,
                                       .warp_instructions = outcome.warp_instructions,
                                       .seconds = outcome.seconds,
                                       .fault = fault,
                                       .launched_at = own ? *own : Frame{}});
  const auto& [grid, block] = std::pair(info.config.grid, info.config.block);
  write_record(protocol::LaunchRecord{.id = info.id,
                                      .stream = info.stream,
                                      .dynamic_shared = info.config.dynamic_shared,
                                      .warp_instructions = outcome.warp_instructions,
                                      .seconds = outcome.seconds,
                                      .grid = {grid.x, grid.y, grid.z},
                                      .block = {block.x, block.y, block.z},
                                      .kernel = text(info.kernel.name()),
                                      .fault = text(fault),
                                      .file = own ? text(own->where.file) : 0,
                                      .function = own ? text(own->function) : 0,
                                      .line = own ? own->where.line : 0});
}

void EventWriter::still_running(const vgpu::LaunchInfo& launch, double seconds,
                                std::span<const vgpu::Standing> lines) {
  constexpr size_t kMostLines = 8;
  if (file_ < 0) return;
  protocol::StillRunningEvent event{std::string(launch.kernel.name()), seconds, {}};
  for (const vgpu::Standing& at : lines.first(std::min(lines.size(), kMostLines)))
    event.lines.push_back(
        {{std::string(at.file), static_cast<int>(at.line)}, static_cast<uint32_t>(at.warps)});
  write(event);
}

void EventWriter::fault(const vgpu::FaultInfo& fault) {
  say(fault.message);
  write(protocol::FaultEvent{fault_name(fault.kind), fault.message});
}

void EventWriter::finding(const Finding& finding, bool early) {
  if (file_ < 0) return;
  if (const evidence::HostPlace* host = host_of(finding))
    for (const std::string& place : host->calls) module(place);
  if (const evidence::Allocation* allocation = allocation_of(finding))
    for (const std::string& place : allocation->made_at.calls) module(place);
  if (early)
    write(protocol::EarlyFindingEvent{finding});
  else
    write(protocol::FindingEvent{finding});
}

void EventWriter::stack(const protocol::StackEvent& event) {
  if (file_ < 0) return;
  for (const std::string& place : event.calls) module(place);
  write(event);
}

void EventWriter::module(const std::string& place) {
  const std::string name = place.substr(0, place.rfind('+'));
  {
    std::lock_guard lock(mutex_);
    if (!modules_.insert(name).second) return;
  }
  if (const std::string path = path_of_module(name); !path.empty()) write(protocol::ModuleEvent{name, path});
}

void EventWriter::unsupported_kernel(std::string_view message) {
  say_once(message);
  write(protocol::UnsupportedEvent{std::string(message)});
}

void EventWriter::unsupported(std::string_view function) {
  say_once(fmt::format("{} is not supported by the virtual GPU", function));
  write(protocol::UnsupportedEvent{std::string(function)});
}

}  // namespace assay::cudart
