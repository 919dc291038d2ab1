// The scheduler's internal interface, between its files: fragments, barriers, blocks, grid.
#pragma once

#include "vgpu/grid.h"

namespace assay::vgpu {

// ---- fragments.cpp ----
// Makes the best ready fragment the running one; null when every fragment waits or the warp has ended.
const Inst* next_ready(Warp& warp);
// Takes `lanes` out of the running fragment; they go on at `pc` later.
void set_aside(Warp& warp, const Inst* pc, uint32_t lanes);
bool meet_across_places(Warp& warp, Handler warp_barrier);
// Lanes wait for each other with masks that differ, which no schedule can satisfy: reports it and lets them go.
bool excuse_mixed_masks(Warp& warp);

// ---- drift.cpp ----
// How many fragments of a warp a schedule keeps apart: each of them executes what all would have executed together.
inline constexpr uint32_t kMostApart = 4;
// The next random number of a warp whose lanes drift.
uint64_t draw(Warp& warp);
// Whether its fragments are few enough to stay apart where they could go on together.
bool stays_apart(const Warp& warp);
// Before an instruction where lanes may part: some of the running ones may stay behind or others take over. Returns
// where the running fragment goes on.
const Inst* drift(Warp& warp, const Inst* pc);

// ---- frames.cpp ----
// `lanes` join a function that other lanes called from the same place: all that they have there is undefined.
void undefine_lanes(Frame& frame, uint32_t lanes);
// A free frame for `function`, its constants in place.
Frame& enter(Warp& warp, const Function& function);
// Special registers and, in a watched run, what is not yet defined.
void fill_planes(Warp& warp, Frame& frame);

// ---- barriers.cpp ----
void recheck_barriers(Block& block);
void recheck_cluster(Cluster& cluster);

// ---- blocks.cpp ----
// Shared memory: what the program may touch, a red zone, and the bytes that the system keeps for
// cooperative groups (at GridContext::reserved_shared).
inline constexpr uint32_t kSharedRedZone = 256, kReservedShared = 1024;
uint32_t shared_limit(const GridContext& grid);
enum class Turn : uint8_t { Ended, Polled, Held, Stopped };  // Held: at griddepcontrol.launch_dependents
// Runs a cluster until it has ended, or has polled so often that others should run.
Turn run_cluster(Cluster& cluster, Worker& worker);
// Whether any of its threads got to another place, or through a barrier, since this was last asked.
bool has_moved(Cluster& cluster);
// Behind a fence or an arrival: on to the next instruction, but under a seed others may run first, so that they
// meet what is half done (a lock that is held, a buffer that is being filled).
const Inst* pass_on(Warp& warp, const Inst& inst);
// Ends the launch because nobody in it can make progress.
void give_up_on(Cluster& cluster);
// Makes a cluster's blocks ready to start; reuses the memory of `cluster`.
void prepare(Cluster& cluster, GridContext& grid, uint64_t linear, Worker& worker);

}  // namespace assay::vgpu
