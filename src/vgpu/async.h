// Asynchronous copies and mbarriers.
//
// A copy takes effect as late as the manual allows: cp.async at the wait for its group (or at the arrival it
// was tied to), bulk copies into shared memory when a thread queries their mbarrier, bulk copies out of it at
// the wait for their group, reading the source only then. A program that forgets to wait sees old data.
//
// An mbarrier is the 64-bit word in shared memory itself:
//
//     63 62 | 61    | 60 ………… 40     | 39 ………… 20         | 19 ………… 0
//     1  0  | phase | transaction    | pending arrivals  | expected arrivals
//           |       | bytes + 2^20   |                   |
#pragma once

#include "vgpu/access.h"

namespace assay::vgpu {

// One address operand of an instruction that may have several.
struct PlaceForm {
  MemoryForm form;
  Inst at;  // the instruction with `a` and `imm` of this address
};

struct CopyForm {
  PlaceForm to, from, barrier;
  PlaneOffset size = 0;       // cp.async: bytes to read; bulk: bytes to copy
  PlaneOffset ignore = 0;     // cp.async: predicate, read nothing
  PlaneOffset blocks = 0;     // multicast: u16 mask of ranks
  PlaneOffset byte_mask = 0;  // cp_mask: u16, bytes of each 16
  bool has_size = false, has_ignore = false, has_barrier = false, multicast = false, has_byte_mask = false;
  // Reductions: applies the operation to a run of elements (handlers/atomic.cpp).
  void (*reduce)(std::byte* to, const std::byte* from, uint32_t bytes, bool exclusive) = nullptr;
};

// cp.async
const Inst* copy_async(Warp& warp, const Inst& inst);
const Inst* commit_copies(Warp& warp, const Inst& inst);
const Inst* wait_copies(Warp& warp,
                        const Inst& inst);  // imm: groups that may stay in flight; -1: wait for all
const Inst* arrive_after_copies(Warp& warp, const Inst& inst);  // extra: PlaceForm; imm: 1 for .noinc

// cp.async.bulk, cp.reduce.async.bulk
const Inst* copy_bulk(Warp& warp, const Inst& inst);
const Inst* commit_bulk(Warp& warp, const Inst& inst);
const Inst* wait_bulk(Warp& warp, const Inst& inst);

// mbarrier.*
enum class BarrierAction : uint8_t { Init, Invalidate, Arrive, ArriveDrop, ExpectTx, CompleteTx, TestWait };
struct BarrierForm {
  MemoryForm form;  // the word
  BarrierAction action{};
  bool expects = false;  // arrive.expect_tx: `count` is bytes
  bool no_complete = false;
  bool parity = false;  // test_wait.parity
  bool has_count = false, has_state = false, has_scope = false;
  PlaneOffset count = 0;  // u32: arrivals or bytes; test_wait: parity (u32) or state (u64)
  PlaneOffset state = 0;  // u64 destination of arrive; predicate of test_wait
};
const Inst* barrier_action(Warp& warp, const Inst& inst);

// st.async, red.async: `to` and `barrier`; the store's values are to.form.planes.
struct RemoteStoreForm {
  PlaceForm to, barrier;
  bool has_barrier = true;
  void (*reduce)(std::byte* to, const std::byte* from, uint32_t bytes, bool exclusive) = nullptr;
};
const Inst* store_async(Warp& warp, const Inst& inst);

}  // namespace assay::vgpu
