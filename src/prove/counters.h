// Counters and lists in shared memory: what a thread reads there that other threads have stored.
//
// A block collects what its threads find: a thread that finds something draws a number from a counter by an atomic addition and
// stores its find under that number. Behind a barrier, all threads go over the list.
//
//     if (tid == 0) count = 0;
//     barrier
//     if (found) list[atomicAdd(&count, 1)] = what;
//     barrier
//     for (int i = 0; i < count; ++i) use(list[i]);
//
// To the executor, a value from shared memory can be anything. This file recognises shared variables that are used this way,
// and gives facts to the variables that stand for their values:
//   - a number that was drawn is less than the counter's start plus one step per thread of the block;
//   - the counter, read behind a barrier, is at most one step per thread above its start;
//   - an element of the list below the counter was stored there, and the path of that store says something about it
//     (`0 <= what`, `what < n`).
// counters.cpp gives the reason for each.
#pragma once

#include "prove/shared_use.h"

namespace assay::prove {

// Whether facts were found. They hold if all threads of a block get to its barriers (Summary::exchanges).
bool describe_counters(Setting& setting, SharedUse& use);

}  // namespace assay::prove
