// Frames: the planes of a running function, and how they are filled before it starts.
#include <cstring>
#include <utility>

#include "vgpu/planes.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

constexpr size_t kPlaneAlign = 64;

size_t round_up(size_t bytes) {
  return (bytes + kPlaneAlign - 1) / kPlaneAlign * kPlaneAlign;
}

template <class T>
void fill_lanes(std::byte* plane, T value) {
  T* lanes = reinterpret_cast<T*>(plane);
  for (uint32_t l = 0; l < kWarpSize; ++l) lanes[l] = value;
}

void fill(std::byte* plane, uint32_t lane_bytes, uint64_t bits, uint64_t high = 0) {
  switch (lane_bytes) {
    case 0:
      std::memcpy(plane, &bits, sizeof(uint32_t));
      break;
    case 2:
      fill_lanes(plane, static_cast<uint16_t>(bits));
      break;
    case 4:
      fill_lanes(plane, static_cast<uint32_t>(bits));
      break;
    case 8:
      fill_lanes(plane, bits);
      break;
    default:
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        std::memcpy(plane + 16 * l, &bits, 8);
        std::memcpy(plane + 16 * l + 8, &high, 8);
      }
  }
}

void set_lane(std::byte* plane, uint32_t lane_bytes, uint32_t lane, uint64_t bits) {
  if (lane_bytes == 0) {
    uint32_t mask;
    std::memcpy(&mask, plane, sizeof mask);
    mask = bits ? mask | 1u << lane : mask & ~(1u << lane);
    std::memcpy(plane, &mask, sizeof mask);
    return;
  }
  std::memcpy(plane + size_t{lane} * lane_bytes, &bits, lane_bytes < 8 ? lane_bytes : 8);
}

uint32_t component(const Dim3& d, uint8_t which) {
  return which == 0 ? d.x : which == 1 ? d.y : which == 2 ? d.z : 0;
}

Dim3 split(uint64_t linear, const Dim3& extent) {
  return {static_cast<uint32_t>(linear % extent.x), static_cast<uint32_t>(linear / extent.x % extent.y),
          static_cast<uint32_t>(linear / extent.x / extent.y)};
}

Dim3 quotient(const Dim3& a, const Dim3& b) {
  return {a.x / b.x, a.y / b.y, a.z / b.z};
}

// Value of a special register for one lane. What changes while a thread runs (clocks) is not here.
uint64_t special_value(const Warp& w, ptx::SpecialRegister special, uint8_t which, uint32_t lane) {
  using S = ptx::SpecialRegister;
  const Block& block = *w.block;
  const GridContext& grid = *w.grid;
  const LaunchConfig& config = grid.info.config;
  const Dim3 id{block.id[0], block.id[1], block.id[2]};
  const Dim3& c = grid.cluster;
  switch (special) {
    case S::Tid:
      return component(split(uint64_t{w.index} * kWarpSize + lane, config.block), which);
    case S::Ntid:
      return component(config.block, which);
    case S::Ctaid:
      return component(id, which);
    case S::Nctaid:
      return component(config.grid, which);
    case S::Laneid:
      return lane;
    case S::Warpid:
      return w.index;
    case S::Nwarpid:
      return 64;
    case S::Smid:
      return block.linear % grid.options->multiprocessors;
    case S::Nsmid:
      return grid.options->multiprocessors;
    case S::Gridid:
      return grid.info.id;
    case S::IsExplicitCluster:
      return c.count() > 1;
    case S::Clusterid:
      return component({id.x / c.x, id.y / c.y, id.z / c.z}, which);
    case S::Nclusterid:
      return component(quotient(config.grid, c), which);
    case S::ClusterCtaid:
      return component({id.x % c.x, id.y % c.y, id.z % c.z}, which);
    case S::ClusterNctaid:
      return component(c, which);
    case S::ClusterCtarank:
      return block.rank;
    case S::ClusterNctarank:
      return c.count();
    case S::LanemaskEq:
      return 1u << lane;
    case S::LanemaskLt:
      return (1u << lane) - 1;
    case S::LanemaskLe:
      return ((1u << lane) - 1) | 1u << lane;
    case S::LanemaskGt:
      return ~(((1u << lane) - 1) | 1u << lane);
    case S::LanemaskGe:
      return ~((1u << lane) - 1);
    case S::TotalSmemSize:
      return grid.shared_bytes;
    case S::AggrSmemSize:
      return grid.shared_bytes;
    case S::DynamicSmemSize:
      return config.dynamic_shared;
    case S::ReservedSmemOffsetBegin:
    case S::ReservedSmemOffset0:
      return grid.reserved_shared;
    case S::ReservedSmemOffset1:
      return grid.reserved_shared + 512;
    case S::ReservedSmemOffsetCap:
    case S::ReservedSmemOffsetEnd:
      return grid.reserved_shared + 1024;
    case S::Envreg1:
      return grid.workspace >> 32;
    case S::Envreg2:
      return grid.workspace & 0xffffffff;
    default:
      return 0;
  }
}

void attach(Frame& frame, const Function& function, bool watched) {
  frame.function = &function;
  const size_t planes = round_up(function.plane_bytes),
               params = round_up(size_t{function.param_bytes} * kWarpSize);
  const size_t poison = round_up(planes / 64 * sizeof(uint32_t));
  frame.storage.resize(planes + params + (watched ? planes + poison + params : 0) + kPlaneAlign);
  auto* at = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(frame.storage.data())));
  frame.planes = at;
  at += planes;
  frame.params = at;
  at += params;
  if (!watched) return;
  frame.shadow = at;
  at += planes;
  frame.poison = reinterpret_cast<uint32_t*>(at);
  at += poison;
  frame.params_poison = reinterpret_cast<uint8_t*>(at);
}

void mark_defined(Frame& frame, PlaneOffset offset) {
  frame.poison[offset / 64] = 0;
}

// A frame starts with every register undefined; constants and special registers are not.
void forget_values(Frame& frame) {
  const Function& function = *frame.function;
  std::memset(frame.shadow, 0xff, function.plane_bytes);
  std::memset(frame.poison, 0xff, round_up(function.plane_bytes) / 64 * sizeof(uint32_t));
  std::memset(frame.params_poison, 0xff, size_t{function.param_bytes} * kWarpSize);
  for (const ConstantPlane& c : function.constants) mark_defined(frame, c.offset);
  for (const SpecialPlane& s : function.specials) mark_defined(frame, s.offset);
  for (const LocalSymbolPlane& s : function.local_symbols) mark_defined(frame, s.offset);
}

bool is_per_lane(ptx::SpecialRegister special) {
  using S = ptx::SpecialRegister;
  return special == S::Tid || special == S::Laneid || (special >= S::LanemaskEq && special <= S::LanemaskGt);
}

// Whether it is the same for every block of a launch: a warp that runs one block after another keeps it.
bool is_of_the_launch(ptx::SpecialRegister special) {
  using S = ptx::SpecialRegister;
  return is_per_lane(special) || special == S::Ntid || special == S::Nctaid || special == S::Warpid ||
         special == S::Nwarpid || special == S::Nsmid || special == S::Gridid;
}

template <class T>
void fill_some(std::byte* plane, uint32_t lanes) {
  T* at = reinterpret_cast<T*>(plane);
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if (lanes >> l & 1) at[l] = static_cast<T>(~T{0});
}

}  // namespace

void undefine_lanes(Frame& frame, uint32_t lanes) {
  const Function& function = *frame.function;
  for (size_t r = 0; r < function.register_planes.size(); ++r) {
    const PlaneOffset offset = function.register_planes[r];
    frame.poison[offset / 64] |= lanes;
    std::byte* shadow = frame.shadow + offset;
    switch (lane_bytes_of(function.ptx->registers[r].type)) {
      case 2:
        fill_some<uint16_t>(shadow, lanes);
        break;
      case 4:
        fill_some<uint32_t>(shadow, lanes);
        break;
      case 8:
        fill_some<uint64_t>(shadow, lanes);
        break;
      case 16:
        for (uint32_t l = 0; l < kWarpSize; ++l)
          if (lanes >> l & 1) std::memset(shadow + 16 * l, 0xff, 16);
        break;
      default:
        break;
    }
  }
  const uint32_t stride = function.param_bytes;
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if (lanes >> l & 1) std::memset(frame.params_poison + size_t{l} * stride, 0xff, stride);
}

Frame& enter(Warp& w, const Function& function) {
  for (auto& frame : w.frames)
    if (frame->lanes == 0 && frame->function == &function) {
      if (std::exchange(frame->took_dynamic, false)) std::memset(frame->dynamic, 0, sizeof frame->dynamic);
      return *frame;
    }
  Frame& frame = *w.frames.emplace_back(std::make_unique<Frame>());
  attach(frame, function, w.grid->watched);
  for (const ConstantPlane& c : function.constants)
    fill(frame.planes + c.offset, c.lane_bytes, c.bits, c.high);
  return frame;
}

void fill_planes(Warp& w, Frame& frame) {
  const Function& function = *frame.function;
  const bool filled = frame.filled_for == w.grid->info.id;
  frame.filled_for = w.grid->info.id;
  for (const SpecialPlane& s : function.specials) {
    if (filled && is_of_the_launch(s.special)) continue;
    if (!is_per_lane(s.special)) {
      const uint64_t value = special_value(w, s.special, s.component, 0);
      fill(frame.planes + s.offset, s.lane_bytes, s.lane_bytes ? value : (value ? kAllLanes : 0));
    } else {
      for (uint32_t l = 0; l < kWarpSize; ++l)
        set_lane(frame.planes + s.offset, s.lane_bytes, l, special_value(w, s.special, s.component, l));
    }
  }
  for (const LocalSymbolPlane& s : function.local_symbols)
    fill(frame.planes + s.offset, s.lane_bytes, frame.local_base + s.offset_in_frame);
  if (w.grid->watched) forget_values(frame);
}

}  // namespace assay::vgpu
