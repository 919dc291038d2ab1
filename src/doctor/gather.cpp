#include <grp.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "base/file.h"
#include "base/mapped_file.h"
#include "doctor/probe.h"
#include "doctor/subject.h"

namespace assay::doctor {

namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

// Asks the libraries at the same time; but NVML before a kernel runs, or it would report that one's memory and process.
void ask_libraries(const Machine& machine, Facts& facts, double seconds) {
  const auto in = [begun = steady_clock::now()](double later) {
    return begun + std::chrono::duration_cast<steady_clock::duration>(duration<double>(later));
  };
  const bool canary = facts.depth == Depth::Full;
  const auto finish = [](std::optional<Probe>& probe, auto& found, steady_clock::time_point deadline) {
    if (probe) found.run = probe->finish(deadline, [&](const ProbeJson& line) { read_line(line, found); });
    probe.reset();
  };
  const MappedFile subject(facts.subject ? machine.root + facts.subject->path : "");
  const std::vector<std::string_view> code = containers_in(subject.bytes());
  std::optional<Probe> driver, nvml, own;
  if (facts.missing_own_library.empty())
    own.emplace(machine, [&](const ProbeWriter& out) {
      ask_driver(out, machine.own_libraries + "/libcuda.so.1", canary, {});
    });
  if (!facts.libnvml.empty())
    nvml.emplace(machine, [&](const ProbeWriter& out) { ask_nvml(out, machine.root + facts.libnvml); });
  if (canary) finish(nvml, facts.nvml, in(seconds / 2));
  if (!facts.libcuda.path.empty() && !facts.libcuda.is_own)
    driver.emplace(machine, [&](const ProbeWriter& out) {
      ask_driver(out, machine.root + facts.libcuda.path, canary, code);
    });
  finish(driver, facts.driver, in(seconds));
  finish(nvml, facts.nvml, in(seconds));
  finish(own, facts.virtual_driver, in(seconds));
}

}  // namespace

Machine this_machine(const std::string& own_libraries) {
  Machine machine;
  machine.own_libraries = own_libraries;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string text = *variable;
    const std::size_t at = text.find('=');
    if (at != std::string::npos) machine.environment.emplace(text.substr(0, at), text.substr(at + 1));
  }
  machine.user = geteuid();
  machine.groups.resize(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
  if (!machine.groups.empty()) getgroups(static_cast<int>(machine.groups.size()), machine.groups.data());
  machine.groups.push_back(getegid());
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  machine.landlock = static_cast<int>(std::max(version, 0L));
  return machine;
}

Facts gather(const Machine& machine, const Target& target, Depth depth) {
  Facts facts;
  facts.depth = depth;
  facts.target = target;
  read_files(machine, facts);
  read_libraries(machine, facts);
  if (target.kind == Target::Kind::Library) facts.subject = read_subject(machine, target.name);
  if (target.kind == Target::Kind::Process) facts.process = read_process(machine, target.process);
  ask_libraries(machine, facts, depth == Depth::Quick ? machine.quick_seconds : machine.full_seconds);
  for (NvmlDevice& device : facts.nvml.devices)
    for (GpuProcess& process : device.processes) {
      process.name = text_of(machine.root + "/proc/" + std::to_string(process.pid) + "/comm");
      process.name.erase(process.name.find_last_not_of('\n') + 1);
    }
  return facts;
}

}  // namespace assay::doctor
