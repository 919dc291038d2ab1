// What the library tells a person (stderr) and `assay run` (one JSON line an event).
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "vgpu/device.h"
#include "vgpu/stream.h"

namespace assay::cudart {

struct Settings;

class Report {
 public:
  explicit Report(const Settings& settings);

  // "assay: …" on stderr, unless quiet.
  void say(std::string_view message);
  void say_once(std::string_view message);

  void launch(const vgpu::GridRun& run);
  // What a stream was asked to do where nothing is done (ASSAY_RECORD). Pointers among a kernel's parameters are
  // given as an allocation's label and an offset in it.
  void recorded(const vgpu::Work& work, const vgpu::Memory& memory, uint32_t shared_limit);
  void fault(const vgpu::FaultInfo& fault);
  void unsupported(std::string_view function);  // names it once
  void unsupported_kernel(std::string_view message);
  void finding(const Finding& finding);
  // One that has just shown, in a launch that still runs: whoever reads the report of a program that was killed
  // has no other word of it.
  void sighting(const Finding& finding);
  // Where the warps of a launch that goes on and on stand.
  void still_running(const vgpu::LaunchInfo& launch, double seconds, std::span<const vgpu::Standing> lines);
  // What was sighted until now has been told as findings.
  void told();
  // Which calls led to an allocation, as places in code, innermost first; and the file that a place is in.
  void allocation(uint64_t id, const std::vector<std::string>& calls);
  void module(const std::string& place);
  void precision(const Json& profile);  // shadow::to_json
  void line(std::string_view json);  // appends one line as it is

 private:
  int file_ = -1;
  bool quiet_ = false;
  std::mutex mutex_;
  std::set<std::string, std::less<>> said_, modules_;
};

}  // namespace assay::cudart
