// One launch under several schedules, from the same memory: what it writes must not depend on the order in which its
// threads run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "vgpu/device.h"
#include "vgpu/program.h"

namespace assay::vgpu {

// Words of one allocation that a launch left different under two schedules, and that the same lines wrote.
struct ScheduleDifference {
  uint64_t schedules[2] = {0, 0};
  Allocation allocation;
  uint64_t words = 0;           // of 4 bytes
  uint64_t offset = 0;          // bytes from the start of the allocation to the first of them
  uint32_t values[2] = {0, 0};  // there
  std::vector<SourcePlace> writers;
};

// Runs a launch under the device's own schedule and `count` others, and compares what it wrote. Memory and the device
// are afterwards as they were. Nothing is compared where a launch faults, polls for the host, allocates from the
// device's heap, or adds floats by atomics: such sums depend on the order, and so does all that is computed from them.
// No grid may be under way. Memory of more than kMostCompared bytes in all is not compared either.
inline constexpr uint64_t kMostCompared = uint64_t{1} << 30;
// Who listens to the runs under other schedules: begin() names them before each, end() comes after it.
struct ScheduleWatch {
  std::function<std::vector<Listener*>()> begin{};
  std::function<void(uint64_t schedule)> end{};
};
std::vector<ScheduleDifference> compare_schedules(Device& device, const Kernel& kernel,
                                                  const LaunchConfig& config,
                                                  std::span<const std::byte> parameters, uint64_t count,
                                                  const ScheduleWatch& watch = {});

}  // namespace assay::vgpu
