// How checks observe the virtual GPU: listeners of events at warp granularity.
//
// A listener overrides the callbacks that it needs. Without listeners the engine runs handlers that were
// compiled without any of this ("plain"); with one it runs the "watched" ones, which also track undefined
// values bit by bit. Callbacks of one launch may come from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "vgpu/code.h"
#include "vgpu/memory.h"

namespace assay::vgpu {

struct Warp;
struct Block;
struct Cluster;
struct LaunchInfo;

enum class AccessKind : uint8_t { Load, Store, Atomic, Reduction };
enum class Scope : uint8_t { Thread, Block, Cluster, Device, System };
enum class Order : uint8_t {
  Weak,
  Volatile,
  Relaxed,
  Acquire,
  Release,
  AcquireRelease,
  SequentiallyConsistent
};

// How the addresses of an access lie.
enum class Shape : uint8_t {
  Unit,      // each lane's bytes follow the last lane's
  Uniform,   // all the same
  HalfUnit,  // the same for each half of the warp: a block 16 threads wide makes each half a row of its own
  HalfUniform,
  Other,  // or not all lanes take part
};

// One memory instruction of a warp, after its addresses are known and before it takes effect.
struct Access {
  AccessKind kind;
  ptx::Space space;  // Global, Shared, Local, Const, Param: generic addresses are already resolved
  Order order;
  Scope scope;
  Shape shape;
  uint32_t lanes;  // that take part and stay inside their allocation
  uint32_t bytes;  // per lane
  const Address*
      addresses;  // 32; for Shared and Local as offsets in their memory (another block's: kSharedRankShift)
  const std::byte* values;  // stores: lane-major, `bytes` a lane; else null
  bool asynchronous;        // cp.async, bulk copies: takes effect at the wait
  bool mbarrier = false;    // an operation on an mbarrier that has been initialised
  // Asynchronous writes that an mbarrier counts: its address, by lane. Told twice: on their way, and as an
  // acquire when they have arrived and the mbarrier is about to count them.
  const Address* barriers = nullptr;
};

// A weak load of all lanes from global or shared memory, by its shape. Listeners get these later and many
// at once (Listener::on_loads): those of a warp from one space in order, and all before anything else that
// its host thread reports. Loads whose value goes straight into a selp do not wait: whether they
// count is for the predicate to say, and that may change.
struct ShapedLoad {
  const Inst* inst;
  Address first, second;  // of lanes 0 and 16
  uint32_t bytes;         // per lane
  Shape shape;            // Other (of shared memory only): all lanes the same distance apart

  // From one lane to the next, of Shape::Other.
  Address distance() const { return static_cast<Address>(static_cast<int64_t>(second - first) / 16); }

  // The same as an access. `addresses` has room for 32.
  Access access(ptx::Space space, Address* addresses) const;
};

enum class Violation : uint8_t {
  OutOfBounds,  // outside every live allocation, or past the one it started in
  Misaligned,
  UndefinedAddress,  // an undefined value decides an address …
  UndefinedBranch,   // … or a branch
  UndefinedStore,    // … or is stored to memory that outlives the block
  UndefinedCollective,
  BarrierDivergence,
  InvalidShuffle,  // reads a lane that does not take part …
  AbsentLane,      // … though its mask names it
  Deadlock,
  Endless,  // a loop that cannot end: its count wraps, or does not grow
};

struct ViolationInfo {
  Violation what;
  uint32_t lanes;  // that show it
  uint32_t first_lane;
  Address address = 0;  // of first_lane, where there is one
  uint32_t bytes = 0;
  ptx::Space space = ptx::Space::None;
  AccessKind kind = AccessKind::Load;
  std::string_view detail;
};

// What the host asked the device to do, in the order in which it happens (stream.h).
struct OperationInfo {
  enum class Kind : uint8_t { Marker, Grid, Copy, Fill, HostCall, Record, Release };
  uint64_t id;  // from 1, in the order of submission
  uint64_t stream;
  Kind kind;
  std::span<const uint64_t> after;  // its direct predecessors: it happens after them, and them alone
  // One of `after` that it may start before the end of, until it waits (griddepcontrol.wait); 0: none. A grid, like
  // itself.
  uint64_t overlaps = 0;
};

// A range of memory that an operation reads or writes, row by row; host memory that the device does
// not know has `host` set.
struct RangeInfo {
  Address address;
  const std::byte* host;
  uint64_t width, height, depth;  // width in bytes
  uint64_t row_pitch, slice_pitch;
};

inline constexpr uint32_t kMostListeners = 8;  // of a device

class Listener {
 public:
  virtual ~Listener() = default;
  // Which slot of a block is this listener's own (BlockStates in warp.h). A device hands them out in
  // listen().
  uint32_t slot() const { return slot_; }
  virtual void on_launch(const LaunchInfo&) {}
  virtual void on_launch_end(const LaunchInfo&) {}
  virtual void on_block(const Block&) {}
  virtual void on_block_end(const Block&) {}
  virtual void on_access(const Warp&, const Inst&, const Access&) {}
  // Loads that waited; as accesses, one by one, for who does not override it.
  virtual void on_loads(const Warp&, ptx::Space, std::span<const ShapedLoad>);
  // False: accesses to this space do not matter to it, and it is not called for each of millions.
  virtual bool wants_accesses(ptx::Space) const { return true; }
  virtual void on_violation(const Warp&, const Inst&, const ViolationInfo&) {}
  // A sampled launch: a warp begins an iteration of a loop of its kernel, and so many are about to be left out; 0: none
  // yet. False: it may leave out none.
  virtual bool may_skip(const Warp&, uint32_t /*loop*/, uint64_t /*iterations*/) { return true; }
  // A block barrier's phase ends; block.barriers[barrier].arrived still says for whom.
  virtual void on_block_barrier(const Block&, uint32_t /*barrier*/) {}
  virtual void on_warp_sync(const Warp&, const Inst&, uint32_t /*lanes*/, bool /*orders_memory*/) {}
  // An operation of a stream starts; what follows until the next one of its thread belongs to it.
  virtual void on_operation(const OperationInfo&) {}
  virtual void on_operation_end(const OperationInfo&) {}
  virtual void on_copy(const OperationInfo&, const RangeInfo& /*to*/, const RangeInfo& /*from*/) {}
  virtual void on_fill(const OperationInfo&, const RangeInfo& /*to*/) {}
  // The host waited for these operations: what it does from now on comes after them.
  virtual void on_host_wait(std::span<const uint64_t> /*operations*/) {}
  // Lanes arrive at the cluster's barrier (`releases`: with what they did so far); its phase ends for all
  // threads of the cluster; lanes are through with waiting for it.
  virtual void on_cluster_arrive(const Warp&, const Inst&, uint32_t /*lanes*/, bool /*releases*/) {}
  virtual void on_cluster_barrier(const Cluster&) {}
  virtual void on_cluster_wait(const Warp&, uint32_t /*lanes*/) {}
  // Lanes have waited for the grid before theirs (griddepcontrol.wait).
  virtual void on_grid_wait(const Warp&, uint32_t /*lanes*/) {}
  // fence.proxy.async: what lanes wrote so far may be read by bulk copies.
  virtual void on_proxy_fence(const Warp&, uint32_t /*lanes*/) {}
  virtual void on_fence(const Warp&, const Inst&, Scope, uint32_t /*lanes*/) {
  }  // Scope::Thread: an arrival at a block barrier that does not wait

 private:
  friend class Device;
  uint32_t slot_ = 0;
};

}  // namespace assay::vgpu
