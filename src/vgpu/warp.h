// The state of a running grid, as the instruction handlers see it.
//
// A warp runs as one or more *fragments*: groups of lanes that share a position and a frame.
// One fragment runs; the others are ready or wait. After a divergent branch the fragment with
// the lowest position runs first, which brings lanes together again at the earliest point where
// they can meet; a fragment that polls gives way to the others, so that lanes, warps and blocks
// that wait for each other all go on (Volta's independent progress). Nothing here assumes that
// lanes of a warp run in lockstep: whoever reads another lane's data waits for it in collect().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/small_vector.h"
#include "vgpu/code.h"
#include "vgpu/memory.h"
#include "vgpu/skip.h"
#include "vgpu/watch.h"

namespace assay::vgpu {

inline constexpr uint32_t kWarpSize = kLanesPerPlane;
inline constexpr uint32_t kAllLanes = kAllLanesMask;

struct AsyncCopies;
struct Block;
struct Worker;
struct GridContext;
class Listener;

struct Frame {
  const Function* function = nullptr;
  Frame* caller = nullptr;
  const Inst* return_to = nullptr;
  std::byte* planes = nullptr;  // function->plane_bytes
  std::byte* shadow =
      nullptr;  // watched only: a poison bit for each bit of a plane, valid where `poison` names the lane
  uint32_t* poison =
      nullptr;  // watched only: by plane number (offset / 64), lanes that hold any undefined bit
  std::byte* params = nullptr;       // lane-major .param storage, function->param_bytes a lane
  uint8_t* params_poison = nullptr;  // watched only: one byte a byte of params, 0xff bits undefined
  uint32_t local_base = 0;           // of this frame's .local variables in each thread's local memory
  uint32_t lanes = 0;                // that have not returned from it
  uint32_t depth = 0;                // 0 for the kernel itself
  const struct CallForm* call_form = nullptr;  // how it was called
  uint64_t filled_for = 0;                     // the launch whose per-lane special registers its planes hold
  uint32_t dynamic[kWarpSize] = {};  // bytes that each lane has taken with alloca, after the .local variables
  bool took_dynamic = false;         // any of them
  std::vector<std::byte> storage;
};

enum class Wait : uint8_t {
  None,        // ready to run
  Barrier,     // at block barrier `key`
  Collective,  // at a .sync operation that names `members`, at instruction `pc`
  Cluster,     // at barrier.cluster.wait
};

struct Fragment {
  const Inst* pc = nullptr;
  uint32_t lanes = 0;
  Frame* frame = nullptr;
  Wait wait = Wait::None;
  uint32_t key = 0;      // barrier number
  uint32_t members = 0;  // lanes that each lane of it names at a collective
  bool excused = false;  // goes through the collective that it stands at, whoever is missing
};

// Range of one allocation that a memory instruction touched last; makes the next bounds check two compares.
struct SiteRange {
  Address low = 1, high = 0;       // [low, high): live and backed
  ptrdiff_t delta = 0;             // host pointer = address + delta
  uint8_t* initialised = nullptr;  // bit (address - low) of it; null where it is not tracked
  // Where compiled code was last, to guess where it will be next: by Warp::index, modulo kWarpsApart.
  static constexpr uint32_t kWarpsApart = 32;
  Address last[kWarpsApart] = {};
};

struct Warp {
  // Of the running fragment; handlers use these directly.
  std::byte* planes = nullptr;
  std::byte* shadow = nullptr;
  uint32_t* poison = nullptr;
  uint32_t active = 0;         // its lanes
  int64_t slice = 0;           // instructions left before it yields; counted at branches
  SiteRange* sites = nullptr;  // by MemoryForm::site; belongs to the worker
  Frame* frame = nullptr;

  Block* block = nullptr;
  Worker* worker = nullptr;
  GridContext* grid = nullptr;
  uint32_t index = 0;        // in its block
  uint32_t live = 0;         // lanes that exist and have not exited
  uint32_t born = 0;         // lanes that exist
  const Inst* pc = nullptr;  // where the running fragment goes on after a pause; null: nothing is ready
  // The running fragment, which is all there is of the warp, waits at a block barrier (1 + its number; 0: it does not), and
  // goes on at `resume`. Most waits are of this kind: the fragment stays where it is and need not be set aside.
  uint32_t waits_at = 0;
  const Inst* resume = nullptr;
  uint32_t patience = 0;   // joins to pass without giving way to lower fragments, after a yield
  uint32_t fruitless = 0;  // turns in a row that ended with its running fragment polling
  uint32_t cluster_phase[kWarpSize] = {};  // by lane: of its last barrier.cluster.arrive
  uint64_t drift = 0;       // state of the random numbers by which its lanes part (drift.cpp); 0: they do not
  uint32_t polls = 0;       // polling operations since it last yielded
  bool excused = false;     // the running fragment's
  bool unsteady = false;    // its turn goes instruction by instruction (drift, interleaving, loops cut short)
  uint64_t executed = 0;    // warp instructions
  uint64_t turn_began = 0;  // `executed` at the start of its turn
  SmallVector<Fragment, 2> others;             // fragments that are not running
  std::vector<std::unique_ptr<Frame>> frames;  // all of this warp's, in use or free (Frame::lanes == 0)
  std::byte* local = nullptr;                  // lane-major local memory, local_stride a lane
  uint32_t local_stride = 0;
  uint8_t* local_initialised = nullptr;  // watched only: one byte a byte
  std::shared_ptr<void> local_pages, local_initialised_pages;
  std::shared_ptr<AsyncCopies> copies;  // asynchronous copies in flight (async.cpp)
  std::vector<LoopVisit> visits;        // sampled launches: by loop (skip.h)
  // The barrier at which compiled code was left with all lanes, if nothing has run since.
  const Inst* left_at = nullptr;

  template <class T>
  T* plane(PlaneOffset offset) {
    return reinterpret_cast<T*>(planes + offset);
  }
  uint32_t& mask(PlaneOffset offset) { return *reinterpret_cast<uint32_t*>(planes + offset); }
  uint32_t& poisoned(PlaneOffset offset) { return poison[offset / 64]; }
  uint32_t lanes_of(const Inst& inst) { return active & (mask(inst.guard) ^ inst.guard_flip); }
};

// Every fragment of a warp, the running one first.
template <class F>
void for_each_fragment(const Warp& w, F&& f) {
  if (w.pc) f(Fragment{.pc = w.pc, .lanes = w.active, .frame = w.frame});
  if (w.waits_at != 0)
    f(Fragment{
        .pc = w.resume, .lanes = w.active, .frame = w.frame, .wait = Wait::Barrier, .key = w.waits_at - 1});
  for (const Fragment& other : w.others) f(other);
}

struct BlockBarrier {
  std::vector<uint32_t> arrived;             // lanes by warp, in this phase
  std::vector<const Inst*> place;            // by warp: the barrier instruction that its first lanes came to
  std::vector<uint32_t> absent;              // by warp: lanes that had passed it by then
  std::vector<bool> apart;                   // by warp: lanes came to different barrier instructions
  uint32_t threads = 0;                      // that it was given; 0: all of the block
  bool used = false;                         // by this block at all
  uint32_t votes = 0, voters = 0;            // bar.red: threads whose predicate held, threads that voted
  uint32_t last_votes = 0, last_voters = 0;  // of the phase that ended last
};

inline constexpr uint32_t kBlockBarriers = 16;

struct Cluster;

struct Block {
  uint32_t id[3] = {0, 0, 0};
  uint64_t linear = 0;
  uint32_t threads = 0;
  std::vector<Warp> warps;
  std::byte* shared = nullptr;  // static + dynamic
  uint32_t shared_bytes = 0;
  uint64_t clock = 0;                     // of its multiprocessor, when the running warp's turn began
  uint8_t* shared_initialised = nullptr;  // watched only: one byte a byte
  BlockBarrier barriers[kBlockBarriers];
  uint32_t open_barriers = 0;  // by number, as bits: somebody has arrived in this phase
  GridContext* grid = nullptr;
  Cluster* cluster = nullptr;
  uint32_t rank = 0;                                  // in its cluster
  bool triggered = false;                             // a thread said griddepcontrol.launch_dependents
  bool awaits_prior = false;                          // one waits for the grid before (griddepcontrol.wait)
  mutable void* listener_state[kMostListeners] = {};  // by Listener::slot(); see BlockStates
  std::vector<std::byte> shared_storage;
  std::vector<uint8_t> shared_initialised_storage;
};

// What a listener keeps for each block while it runs. The listener owns the state: it puts it there when the
// block begins and takes it back when the block ends.
//
//     BlockStates<MyState> states_{*this};               // a member of the listener
//     states_.put(block, std::make_unique<MyState>());   // in on_block
//     states_[block].seen += 1;
//     auto state = states_.take(block);                  // in on_block_end
template <class State>
class BlockStates {
 public:
  explicit BlockStates(const Listener& listener) : listener_(listener) {}
  State& operator[](const Block& block) const {
    return *static_cast<State*>(block.listener_state[listener_.slot()]);
  }
  void put(const Block& block, std::unique_ptr<State> state) const {
    block.listener_state[listener_.slot()] = state.release();
  }
  std::unique_ptr<State> take(const Block& block) const {
    return std::unique_ptr<State>(
        static_cast<State*>(std::exchange(block.listener_state[listener_.slot()], nullptr)));
  }

 private:
  const Listener& listener_;
};

// Whether all its threads have exited: its shared memory is gone.
inline bool has_ended(const Block& block) {
  for (const Warp& w : block.warps)
    if (w.live != 0) return false;
  return true;
}

// Blocks that run together and see each other's shared memory; without clusters, one block.
struct Cluster {
  std::vector<Block> blocks;
  uint64_t linear = 0;              // in the grid
  uint32_t arrived = 0, phase = 0;  // barrier.cluster: threads that have arrived in this phase
  uint32_t exited = 0;              // threads
  uint64_t polls = 0;               // since its turn began
  uint32_t polled_turns = 0;        // turns that ended because of them
  uint64_t barriers = 0;            // block and cluster barriers that have been completed
  uint64_t standing = 0;            // fingerprint of where everybody stood when its last turn ended
};

struct FaultInfo {
  enum class Kind : uint8_t {
    None,
    IllegalAddress,
    MisalignedAddress,
    InvalidAddressSpace,
    Trap,
    Assert,
    IllegalInstruction,
    Deadlock,
    Livelock,
    StackOverflow,
    HeapExhausted,
    InvalidProgramCounter,
  };
  Kind kind = Kind::None;
  std::string message;  // for a person; names kernel, line, block, thread
};

// A call: which .param bytes go in and come back. Offsets are in the caller's and the callee's .param
// storage.
struct CallForm {
  struct Piece {
    uint32_t from, to, bytes;
  };
  const Function* callee = nullptr;  // null: indirect, through the function address in plane `a`
  uint32_t inputs = 0, outputs = 0;
  Piece* input = nullptr;   // caller → callee
  Piece* output = nullptr;  // callee → caller
};

// ---- What handlers may ask of the scheduler (schedule.cpp) ----

// Takes a branch for `taken` (a non-empty, proper part of the running lanes), the rest going to `next`.
const Inst* diverge(Warp& warp, const Inst* target, uint32_t taken, const Inst* next);
// The running fragment goes on at `next`, but other fragments exist: the lowest position runs, equals merge.
const Inst* rejoin(Warp& warp, const Inst* next);
// The slice is used up, or the fragment polls: let others run, then come back to `next`.
const Inst* yield(Warp& warp, const Inst* next);
// `lanes` of the running fragment end; the rest goes on at `next`.
const Inst* exit_lanes(Warp& warp, uint32_t lanes, const Inst* next);
// The running fragment waits; resume at `resume` once the scheduler clears the wait.
const Inst* park(Warp& warp, const Inst* resume, Wait wait, uint32_t key, uint32_t members);
// For .sync operations: true when every live lane in `members` is in the running fragment (which may
// have grown by those that waited here). False: the fragment is parked; return `*next`.
bool collect(Warp& warp, const Inst& inst, uint32_t members, const Inst** next);
// The same where each lane names members of its own (a plane of u32): those lanes go on whose members are all
// here, the others wait. True: the running fragment is what may go on.
bool collect_each(Warp& warp, const Inst& inst, PlaneOffset members, const Inst** next);
// %clock64 as the running warp sees it: grows by kClocksOfAnInstruction with each of its block's
// instructions.
inline constexpr uint64_t kClocksOfAnInstruction = 4;
inline uint64_t clock_of(const Warp& warp) {
  return warp.block->clock + (warp.executed - warp.turn_began) * kClocksOfAnInstruction;
}
// Ends the launch. Always returns null.
const Inst* fault(Warp& warp, const Inst& inst, FaultInfo::Kind kind, uint32_t lane, std::string what);
// Calls and returns. The caller has checked that `lanes` is not empty.
const Inst* call(Warp& warp, const Inst& inst, const Function& callee, const CallForm& form, uint32_t lanes);
const Inst* return_lanes(Warp& warp, const Inst& inst, uint32_t lanes, const Inst* next);
// Block barriers: `lanes` arrive at barrier `id`, which `threads` threads are to meet (0: the whole block).
// An aligned barrier is one that all lanes of a warp must reach together.
const Inst* arrive(Warp& warp, const Inst& inst, uint32_t id, uint32_t threads, uint32_t lanes, bool waits,
                   bool aligned);
// Cluster barriers.
void arrive_cluster(Warp& warp, const Inst& inst, uint32_t lanes, bool releases);
const Inst* wait_cluster(Warp& warp, const Inst& inst);
// The function whose address this is, or null.
const Function* function_at(const Warp& warp, Address address);
// The listeners of an event of this warp. Delivers the loads that are pending first.
std::span<Listener* const> listeners(const Warp& warp);
// Delivers the loads that are pending.
void deliver_pending_loads(const Warp& warp);
// "kernel `name`, file.cu:14, block (1,0,0), thread (17,0,0)".
std::string describe(const Warp& warp, const Inst& inst, uint32_t lane);

}  // namespace assay::vgpu
