// Counters and lists in shared memory: what a thread reads there that others have stored.
//
// A block collects what its threads find: who found something draws a number from a counter by an atomic addition, and stores
// it under that number; behind a barrier everybody goes over the list.
//
//     if (tid == 0) count = 0;
//     barrier
//     if (found) list[atomicAdd(&count, 1)] = what;
//     barrier
//     for (int i = 0; i < count; ++i) use(list[i]);
//
// To the executor a value from shared memory is any value. Here it is recognised which shared variables are used like this,
// and the variables of the values that come from them get facts:
//   - a number that is drawn is less than the counter's start plus one step per thread of the block;
//   - what a thread reads of the counter behind a barrier is at most one step per thread more than the start;
//   - what it reads of the list below that is something that was stored there, of which the store's own path says
//     something (`0 <= what`, `what < n`).
// counters.cpp says of each why it is so.
#pragma once

#include "prove/shared_use.h"

namespace assay::prove {

// Whether facts were found. They hold if all threads of a block get to its barriers (Summary::exchanges).
bool describe_counters(Setting& setting, SharedUse& use);

}  // namespace assay::prove
