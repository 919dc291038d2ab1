// What the library says: events for the command (protocol/event.h), and lines for a person on stderr.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "cudart/event_log.h"
#include "finding/finding.h"
#include "protocol/event.h"
#include "protocol/settings.h"
#include "vgpu/device.h"

namespace assay::cudart {

// "illegal address"; empty: none.
std::string fault_name(vgpu::FaultInfo::Kind kind);
std::array<uint32_t, 3> extents_of(const vgpu::Dim3& dim);

class EventWriter {
 public:
  // Settings::events names the file to which events are appended; empty: none.
  explicit EventWriter(const protocol::Settings& settings) { open(settings); }
  void open(const protocol::Settings& settings);

  // "assay: …" on stderr, unless quiet.
  void say(std::string_view message);
  void say_once(std::string_view message);

  void write(const protocol::Event& event);
  // An event of which there are many: where the file takes them, as a record (protocol/event_log.h).
  template <class Record>
  void write_record(const Record& record) {
    if (log_.is_open())
      check(log_.add(record));
    else
      write_as_line(Record::kType, {reinterpret_cast<const char*>(&record), sizeof record});
  }
  protocol::TextId text(std::string_view text) { return log_.text(text); }  // for records
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
  void write_as_line(protocol::RecordType type, std::string_view payload);
  void check(bool is_written);  // says once that events are lost

  int file_ = -1;
  bool quiet_ = false;
  std::atomic<bool> is_incomplete_{false};  // and that was said
  EventLog log_;                            // with Settings::report_activity, if the file can have one
  std::mutex mutex_;
  std::set<std::string, std::less<>> said_, modules_;
};

}  // namespace assay::cudart
