// Whether two accesses to the same bytes are a race: the last step of the race check (race_check.cpp).
//
// `before` is what memory remembers of an earlier access, `now` the access being made. The pair is not a race
// if one of these holds, in this order:
//
//   - both are strong (atomic, volatile, release, acquire), and their scopes include each other
//   - they belong to different operations that a stream, an event or the host orders (race_order.h)
//   - one thread made both, unless one is an asynchronous copy that is still in flight
//   - the clocks order them: a barrier, or a fence with a strong access (race_clock.h)
//   - both store the same value; only the check `same-value` reports that, as a note
//   - Triton keeps one element in several threads, and the pair is an element and its copy
//
// A non-coherent load (ld.global.nc) races with a write of the same launch even if the two are ordered, since
// the read-only cache may hold the old value.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

bool is_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
             vgpu::Address address);

}  // namespace assay::checks
