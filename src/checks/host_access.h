// What host code does with memory that it shares with the device, and who judges it: the race check.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "vgpu/memory.h"

namespace assay::checks {

struct HostAccess {
  vgpu::Address address = 0;  // of its first byte
  uint64_t bytes = 1;         // that it touches, as far as is known
  bool writes = false;
  uint64_t submitted = 0;   // the last operation that the host had asked for
  uint64_t knowledge = 0;   // HostJudge::knowledge() at the time
  std::string place;        // in the host's code, "program+0x1234"; empty: a system call
  std::string system_call;  // its name

  // But for what it touches.
  bool is_like(const HostAccess& a) const {
    return writes == a.writes && submitted == a.submitted && knowledge == a.knowledge && place == a.place &&
           system_call == a.system_call;
  }
};

class HostJudge {
 public:
  virtual ~HostJudge() = default;
  // Grows with everything that the host learns to be done. Fit for a signal handler.
  virtual uint64_t knowledge() const = 0;
  // Whether the host knows by now that an operation is done.
  virtual bool is_known_done(uint64_t operation) = 0;
  // To be called while no grid is being stepped.
  virtual void judge(std::span<const HostAccess> accesses) = 0;
};

}  // namespace assay::checks
