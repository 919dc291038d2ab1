// Memory instructions off the fast path: what they touch, lane by lane, and what is wrong with it.
//
// The handlers of ld and st (handlers/memory.cpp) run the common cases themselves: one allocation,
// every address inside and aligned. Everything else comes here, compiled once for all builds: generic
// addresses that point into several spaces, violations, undefined bytes, and the families that are
// rare enough to go lane by lane always.
#pragma once

#include <bit>
#include <cstdint>

#include "vgpu/grid.h"
#include "vgpu/warp.h"
#include "vgpu/watch.h"

namespace assay::vgpu {

inline constexpr uint32_t kMaxVector = 8;
inline constexpr uint32_t kPollsBeforeYield = 32;  // loads of a warp that may be part of a wait

// Calls f(lane) for each lane of the mask, the lowest first.
template <class F>
void for_lanes(uint32_t lanes, F&& f) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) f(static_cast<uint32_t>(std::countr_zero(rest)));
}

// What a memory instruction's Inst::extra says.
struct MemoryForm {
  uint32_t site = 0;          // its SiteRange
  uint32_t bytes = 0;         // per lane, the whole vector
  uint8_t element_bytes = 0;  // in memory
  uint8_t count = 1;          // elements
  ptx::Space space = ptx::Space::Generic;
  AccessKind kind = AccessKind::Load;
  Order order = Order::Weak;
  Scope scope = Scope::Thread;
  bool sign_extend = false;       // loads into wider registers
  bool frame_relative = false;    // local: Frame::local_base counts on top
  bool kernel_parameter = false;  // param: of the kernel, not of a call
  bool poll = false;              // may be part of a wait: the warp yields now and then
  bool asynchronous = false;
  bool mbarrier = false;                    // an operation on one
  bool may_wait = false;                    // it may be delivered to listeners later (ShapedLoad)
  uint8_t base_bytes = 8;                   // lanes of the address plane
  uint8_t register_bytes[kMaxVector] = {};  // lanes of each element's plane
  PlaneOffset planes[kMaxVector] = {};      // destinations of a load, sources of a store
};

// An access of a warp, resolved: where the bytes of each lane are on the host.
struct LaneAccess {
  uint32_t lanes = 0;  // that may go on; the others violated something
  std::byte* host[kWarpSize];
  Address address[kWarpSize];       // as listeners see it
  uint8_t* initialised[kWarpSize];  // null: not tracked
  uint64_t first_bit[kWarpSize];    // in `initialised`, when it holds bits; kBytewise: it holds bytes
  ptx::Space space[kWarpSize];
};
inline constexpr uint64_t kBytewise = ~uint64_t{0};

// Addresses of the lanes: base plane + offset, as the form's space needs them.
void lane_addresses(Warp& warp, const Inst& inst, const MemoryForm& form, Address* addresses);

// False: the access faulted and the launch ends; return null from the handler.
// `alignment`: what each address must be a multiple of.
bool resolve(Warp& warp, const Inst& inst, const MemoryForm& form, uint32_t lanes, const Address* addresses,
             uint32_t alignment, LaneAccess& access);
inline bool resolve(Warp& warp, const Inst& inst, const MemoryForm& form, uint32_t lanes,
                    const Address* addresses, LaneAccess& access) {
  return resolve(warp, inst, form, lanes, addresses, form.bytes, access);
}

// Fills the site's range for `bytes` from `address` on, as far as the allocation goes; false when no live allocation
// holds the address.
bool refill(Warp& warp, uint32_t site, Address address, uint64_t bytes);

// Tells the listeners. `values`: stores, lane-major; may be null.
void announce(Warp& warp, const Inst& inst, const MemoryForm& form, const LaneAccess& access,
              const std::byte* values);
// The same for one space and known addresses, and from the fast paths for a known shape.
void announce(Warp& warp, const Inst& inst, const MemoryForm& form, ptx::Space space, uint32_t lanes,
              const Address* addresses, const std::byte* values);
void announce(Warp& warp, const Inst& inst, const MemoryForm& form, ptx::Space space, Shape shape,
              uint32_t lanes, const Address* addresses, const std::byte* values);
// Reports `what` for `lanes` to the listeners.
void report(Warp& warp, const Inst& inst, const MemoryForm& form, Violation what, uint32_t lanes,
            const Address* addresses, const char* detail);

// A load or store, lane by lane: addresses from the planes, every space and width, poison included.
const Inst* load_by_lane(Warp& warp, const Inst& inst, uint32_t lanes);
const Inst* store_by_lane(Warp& warp, const Inst& inst, uint32_t lanes);

// ---- Undefined bytes: masks with 0xff for each undefined byte ----

// Of `bytes` bytes of an `initialised` map, from byte `skip` on; true when any is undefined.
bool read_undefined(const uint8_t* map, uint64_t first_bit, uint64_t skip, uint32_t bytes, uint8_t* mask);
// Marks bytes by `mask`: undefined where any bit of its byte is set. Null: all defined.
void write_undefined(uint8_t* map, uint64_t first_bit, uint64_t skip, uint32_t bytes, const uint8_t* mask);
inline bool read_undefined(const LaneAccess& access, uint32_t lane, uint32_t skip, uint32_t bytes,
                           uint8_t* mask) {
  return read_undefined(access.initialised[lane], access.first_bit[lane], skip, bytes, mask);
}
inline void write_undefined(const LaneAccess& access, uint32_t lane, uint32_t skip, uint32_t bytes,
                            const uint8_t* mask) {
  write_undefined(access.initialised[lane], access.first_bit[lane], skip, bytes, mask);
}

// Undefined bits of one lane of a register plane; zero when the lane has none, or the build is plain.
void read_shadow(const Warp& warp, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, uint8_t* bits);
// Sets them, and the plane's poison for the lane.
void write_shadow(Warp& warp, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, const uint8_t* bits);

// Bits [first, first + count) of an initialised map: all set?
bool all_initialised(const uint8_t* map, uint64_t first, uint64_t count);
void set_initialised(uint8_t* map, uint64_t first, uint64_t count, bool value);

// True for the address of a `.const` variable.
bool in_constant_variable(const GridContext& grid, Address address);

}  // namespace assay::vgpu
