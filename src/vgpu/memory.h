// The memory of the virtual GPU.
//
// Device addresses come from one reserved range of the process that nothing is mapped in, so
// host code that dereferences one faults at once. Its backing is a second range of the same size
// (lazily zero pages: untouched memory costs nothing). Allocations of the program lie far apart, so that an index
// which is wrong by a wrapped 32-bit product meets no other one; a red zone lies after all others. Addresses of
// freed allocations are not handed out again until the range is used up, so that a use after
// free can be reported. Host and device share managed and pinned memory; under checks each has a mapping.
//
// Initialised bytes are tracked with one bit per byte in a third range, again free where untouched. Memory
// that host and device share is not tracked: the host may write it unobserved, so it counts as initialised.
//
// An allocation may be filled as it is touched (make_on_touch): a page gets its content when something first asks for
// it, so a tensor of tens of gigabytes costs what is touched of it. Whoever has a host address got it from locate() or
// host(), which make the pages first; a page that nobody has asked for is reached by nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/generated_values.h"
#include "base/result.h"

namespace assay::vgpu {

using Address = uint64_t;

enum class MemoryKind : uint8_t { Device, DeviceHeap, Variable, Managed, Pinned, Parameter };

// What an allocation holds before anything is written to it.
struct GeneratedContent {
  GeneratedValues values;
  uint64_t offset = 0, length = 0;  // bytes of the allocation that the values fill; the others are zeros
  bool defined = true;              // they count as initialised
};
class GeneratedPages;

struct Allocation {
  Address base = 0;
  uint64_t size = 0;
  MemoryKind kind = MemoryKind::Device;
  bool live = true;
  bool adopted = false;                  // host memory that somebody else owns
  uint64_t id = 0;                       // in the order of allocation, from 1
  std::string label;                     // "cudaMalloc", a variable's name, or what the caller named it
  std::byte* backing = nullptr;          // host memory of `base`
  uint8_t* initialised = nullptr;        // one bit a byte of `backing`; null where it is not tracked
  std::shared_ptr<GeneratedPages> made;  // null: `backing` is filled already

  Address end() const { return base + size; }
  bool contains(Address address, uint64_t bytes) const {
    return address >= base && bytes <= size && address - base <= size - bytes;
  }
};

// A live allocation as the memory handlers need it: where it is and what backs it. Of one that is filled as it is
// touched, the part about an address that is filled.
struct LiveRange {
  Address low = 1, high = 0;       // [low, high)
  std::byte* backing = nullptr;    // of `low`
  uint8_t* initialised = nullptr;  // one bit a byte, bit 0 for `low`; null where it is not tracked
};

class Memory {
 public:
  explicit Memory(uint64_t capacity_bytes, bool track_initialised);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Error: out of memory. The bytes read as zero but count as not initialised (Variables count as
  // initialised: CUDA zeroes them).
  Result<Address> allocate(uint64_t size, uint64_t align, MemoryKind kind, std::string label);
  // Makes host memory [host, host+size) usable by the device at the same address; it counts as initialised.
  Result<Address> adopt_host(void* host, uint64_t size, std::string label);
  // False when `address` is not the base of a live allocation.
  bool release(Address address);
  // The allocation that starts at `base`, new and not shared with the host, holds this, made page by page as it is
  // touched. False: there is none such.
  bool make_on_touch(Address base, GeneratedContent content);
  // Bytes of all pages that were made so far.
  uint64_t generated_bytes() const { return __atomic_load_n(&generated_bytes_, __ATOMIC_RELAXED); }

  // The live allocation that holds `address`, as a copy (safe while others allocate).
  std::optional<Allocation> find(Address address) const;
  // The same for the handlers; an empty range when there is none. It holds the `bytes` from `address` on as far as
  // the allocation does.
  LiveRange locate(Address address, uint64_t bytes = 1) const;
  // For messages: the live or freed allocation that holds the address, else one that is near.
  std::optional<Allocation> nearest(Address address) const;
  std::vector<Allocation> live() const;
  void relabel(Address base, std::string label);

  // Host memory behind [address, address+bytes) when one live allocation holds it all, else null.
  std::byte* host(Address address, uint64_t bytes) const;

  void mark_initialised(Address address, uint64_t bytes, bool initialised = true);
  // First byte at or after `address` within `bytes` that is not initialised, if any.
  std::optional<Address> first_uninitialised(Address address, uint64_t bytes) const;
  // Copies initialised bits along with a copy of bytes between allocations.
  void copy_initialised(Address to, Address from, uint64_t bytes);

  bool is_device_address(Address address) const {
    return address >= range_ && address < range_ + range_bytes_;
  }
  Address range_base() const { return range_; }  // device addresses lie in [range_base, + range_bytes)
  uint64_t range_bytes() const { return range_bytes_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  // Grows with every allocation and release; caches of find() hold it.
  uint64_t generation() const { return __atomic_load_n(&generation_, __ATOMIC_ACQUIRE); }

 private:
  mutable std::shared_mutex mutex_;
  std::map<Address, Allocation> allocations_;  // by base; freed ones stay as tombstones
  Address range_ = 0;
  uint64_t range_bytes_ = 0;
  Address next_ = 0;        // for what lies close together: variables, the device's heap
  Address next_apart_ = 0;  // for the program's allocations
  uint64_t capacity_ = 0, used_ = 0, ids_ = 0, generation_ = 1;
  bool track_initialised_ = false;
  mutable uint64_t generated_bytes_ = 0;
  std::byte* backing_ = nullptr;    // of range_, byte for byte
  uint8_t* initialised_ = nullptr;  // of range_, one bit a byte

  const Allocation* find_locked(Address address) const;
  std::optional<Address> place(uint64_t size, uint64_t align);
  std::optional<Address> place_apart(uint64_t size, uint64_t align);
  uint64_t gap_after(Address address) const;
  void insert(Allocation allocation);
  void forget(const Allocation& allocation);
};

// Windows of the generic address space, far from the device range and from host memory.
// A shared address may carry a block of the cluster, as rank + 1; 0 there means the thread's own block.
inline constexpr Address kSharedWindow = 0x0000'0100'0000'0000;  // + (rank + 1) << 24 + offset
inline constexpr unsigned kSharedRankShift = 24;
inline constexpr Address kSharedWindowEnd = kSharedWindow + (Address{17} << kSharedRankShift);
inline constexpr Address kLocalWindow = 0x0000'0200'0000'0000;  // + offset within the thread's local memory
inline constexpr Address kLocalWindowEnd = kLocalWindow + (Address{1} << 32);
inline constexpr Address kParamWindow = 0x0000'0300'0000'0000;  // + offset within the kernel's parameters
inline constexpr Address kParamWindowEnd = kParamWindow + (Address{1} << 16);
inline constexpr Address kFunctionWindow = 0x0000'0400'0000'0000;  // + index of the function in its program

}  // namespace assay::vgpu
