// What calls leave behind. A caller that makes the same call over and over says when each has ended; what is
// held then (memory, streams, events, graphs) must stop growing. Caches do: they are full after a few equal
// calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "finding/finding.h"

namespace assay::cudart {

class Context;

class Growth {
 public:
  // All work of a call has ended.
  void call_ended(Context& context);
  // The last of the calls has ended. A finding where they held more and more; forgets them.
  std::optional<Finding> judge(Context& context);

 private:
  struct Held {
    uint64_t bytes = 0;  // of live allocations that the program made
    uint64_t allocations = 0, streams = 0, events = 0, graphs = 0;
    uint64_t last_id = 0;  // of any allocation
  };
  std::vector<Held> after_;  // each call

  std::vector<uint64_t> values(uint64_t Held::*what) const;
  // The first allocation after the one with this id that is still held.
  static void name_allocation(Context& context, uint64_t last_id, evidence::Launch& evidence);
  static Held look(Context& context);
};

}  // namespace assay::cudart
