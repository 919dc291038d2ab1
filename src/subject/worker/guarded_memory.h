// Memory of a real GPU whose tensors end, or begin, at a page that is not mapped: an access past that side faults.
//
//   GuardedMemory memory(find_virtual_memory());
//   auto held = memory.allocate({.bytes = 1280, .offset = 256, .length = 768}, Side::End);
//   held.base + 256 + 768  // the first byte that is not mapped
//
// A GPU maps memory in pieces of megabytes, and a plain allocation ends inside of one, where reading on goes unnoticed.
// Buffers keep the alignment that the trial gave them, so up to kAlignment - 1 bytes may lie between a tensor and
// the unmapped page. They hold what the trial put there, and are compared after the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace assay::worker {

// Which side of a tensor is next to the unmapped page.
enum class Side : uint8_t { End, Begin };

// An allocation with a tensor in it.
struct Extent {
  int64_t bytes = 0, offset = 0, length = 0;
};

// Where an allocation lies in mapped memory. Bytes outside of [from, to) of the allocation do not exist.
struct Placement {
  int64_t base = 0;  // of the allocation, in the mapped memory; may be negative
  int64_t from = 0, to = 0;
};

inline constexpr int64_t kAlignment =
    256;  // what cudaMalloc keeps to: an allocation moves by multiples of it

// `mapped` must be at least mapped_bytes(extent, side, granularity).
Placement place(const Extent& extent, Side side, int64_t mapped);
int64_t mapped_bytes(const Extent& extent, Side side, int64_t granularity);

// The driver's functions for virtual memory (cuda.h describes them), which the runtime does not have.
struct VirtualMemory {
  struct Location {
    int type = 1;  // a device
    int id = 0;
  };
  struct Properties {
    int type = 1;  // pinned
    int handle_types = 0;
    Location location;
    void* metadata = nullptr;
    uint8_t flags[8] = {};
  };
  struct Access {
    Location location;
    int flags = 3;  // read and write
  };
  int (*cuCtxGetDevice)(int*) = nullptr;
  int (*cuMemGetAllocationGranularity)(size_t*, const Properties*, int) = nullptr;
  int (*cuMemAddressReserve)(uint64_t*, size_t, size_t, uint64_t, uint64_t) = nullptr;
  int (*cuMemAddressFree)(uint64_t, size_t) = nullptr;
  int (*cuMemCreate)(uint64_t*, size_t, const Properties*, uint64_t) = nullptr;
  int (*cuMemRelease)(uint64_t) = nullptr;
  int (*cuMemMap)(uint64_t, size_t, size_t, uint64_t, uint64_t) = nullptr;
  int (*cuMemUnmap)(uint64_t, size_t) = nullptr;
  int (*cuMemSetAccess)(uint64_t, size_t, const Access*, size_t) = nullptr;
};

// From libcuda.so.1, which the runtime has loaded; nothing where the driver does not have them.
std::optional<VirtualMemory> find_virtual_memory();

class GuardedMemory {
 public:
  explicit GuardedMemory(std::optional<VirtualMemory> driver);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  struct Held {
    std::byte* base = nullptr;  // of the allocation
    int64_t from = 0, to = 0;   // the bytes of it that exist
    int region = -1;
  };
  // Nothing where the driver has no such functions, or no memory left. Not cleared.
  std::optional<Held> allocate(const Extent& extent, Side side);
  void release(const Held& held);
  // Gives large memory that is not used back to the GPU, which others use as well.
  void trim();

 private:
  // Mapped memory with an unmapped page on either side. Kept for the next allocation of its size.
  struct Region {
    uint64_t reserved = 0;  // address
    int64_t mapped = 0;     // bytes
    uint64_t handle = 0;
    bool used = false;
  };
  std::optional<int> find_region(int64_t mapped);
  bool map(Region& region, int64_t mapped) const;
  void unmap(Region& region) const;

  std::optional<VirtualMemory> driver_;
  VirtualMemory::Properties properties_;
  int64_t granularity_ = 0;
  std::vector<Region> regions_;
};

}  // namespace assay::worker
