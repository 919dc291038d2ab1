// What a subject can see of the process that it runs in is what it would see anywhere: no settings of the
// checker in the environment, and the time of day that the trial asks for.
#pragma once

#include <cstdint>

namespace assay::worker {

// Removes the checker's settings, and where libraries were to be found, from the environment.
void clear_environment();

// From now on time(), gettimeofday(), clock_gettime() and the like show `seconds` (Unix time) and go on from
// there. 0: the time it is.
void set_clock(int64_t seconds);

}  // namespace assay::worker
