// What the library says: events for the command (protocol/event.h), and lines for a person on stderr.
#pragma once

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "finding/finding.h"
#include "protocol/event.h"
#include "vgpu/device.h"

namespace assay::cudart {

// "illegal address"; empty: none.
std::string fault_name(vgpu::FaultInfo::Kind kind);
std::array<uint32_t, 3> extents_of(const vgpu::Dim3& dim);

class EventWriter {
 public:
  // `path`: the file to which events are appended; empty: none.
  EventWriter(const std::string& path, bool quiet) { open(path, quiet); }
  void open(const std::string& path, bool quiet);

  // "assay: …" on stderr, unless quiet.
  void say(std::string_view message);
  void say_once(std::string_view message);

  void write(const protocol::Event& event);
  void launch(const vgpu::GridRun& run);
  void still_running(const vgpu::LaunchInfo& launch, double seconds, std::span<const vgpu::Standing> lines);
  void fault(const vgpu::FaultInfo& fault);
  // A finding, after the modules of all host code that it names. `early`: in a launch that still runs.
  void finding(const Finding& finding, bool early);
  // Host code, after the modules that it names.
  void stack(const protocol::StackEvent& event);
  void unsupported(std::string_view function);  // says so once
  void unsupported_kernel(std::string_view message);

 private:
  void module(const std::string& place);

  int file_ = -1;
  bool quiet_ = false;
  std::mutex mutex_;
  std::set<std::string, std::less<>> said_, modules_;
};

}  // namespace assay::cudart
