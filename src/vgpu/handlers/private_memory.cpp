// ld and st of memory that one thread alone has, or a whole grid alike: local memory, parameters.
#include "vgpu/handlers/memory.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- Local memory: the same offset lies `local_stride` apart from lane to lane ----

template <class M, class R, bool Store>
const Inst* local(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto by_lane = Store ? store_by_lane : load_by_lane;
  if constexpr (kWatched)
    if (!clean(w, i) || (Store && !values_clean<1>(w, form, lanes))) return by_lane(w, i, lanes);
  const uint64_t* a = w.plane<uint64_t>(i.a);
  const uint64_t offset = static_cast<uint64_t>(i.imm) + (form.frame_relative ? w.frame->local_base : 0);
  alignas(64) Address addresses[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) addresses[l] = a[l] + offset;
  if ((lanes & ~lanes_within(addresses, 0, w.local_stride, sizeof(M))) != 0) [[unlikely]]
    return by_lane(w, i, lanes);
  R* plane = w.plane<R>(form.planes[0]);
  if constexpr (kWatched) {
    alignas(64) M values[kWarpSize];
    if constexpr (Store)
      for (uint32_t l = 0; l < kWarpSize; ++l) values[l] = static_cast<M>(plane[l]);
    uint8_t all = 1;
    each_lane(lanes, [&](uint32_t l) {
      uint8_t* p = w.local_initialised + uint64_t{l} * w.local_stride + addresses[l];
      if constexpr (Store)
        std::memset(p, 1, sizeof(M));
      else
        for (uint32_t b = 0; b < sizeof(M); ++b) all &= p[b];
    });
    if (all == 0) return by_lane(w, i, lanes);
    if constexpr (!Store) loaded_clean<1>(w, form, lanes);
    if (!w.grid->listeners_of(Space::Local).empty())
      announce(w, i, form, Space::Local, lanes, addresses,
               Store ? reinterpret_cast<const std::byte*>(values) : nullptr);
  }
  const auto copy = [&](uint32_t l) {
    M* memory = reinterpret_cast<M*>(w.local + uint64_t{l} * w.local_stride + addresses[l]);
    if constexpr (Store)
      *memory = static_cast<M>(plane[l]);
    else
      plane[l] = static_cast<R>(*memory);
  };
  if (lanes == kAllLanes) {
#pragma GCC unroll 8
    for (uint32_t l = 0; l < kWarpSize; ++l) copy(l);
  } else {
    each_lane(lanes, copy);
  }
  return &i + 1;
}

// ---- Parameters at a known place: of the kernel one value for all, of a call one a lane ----

template <class M, class R>
const Inst* load_parameter(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto offset = static_cast<uint64_t>(i.imm);
  if (!clean(w, i) || offset % form.bytes != 0 || offset > w.grid->parameter_bytes ||
      w.grid->parameter_bytes - offset < form.bytes) [[unlikely]]
    return load_by_lane(w, i, lanes);
  for (uint32_t e = 0; e < form.count; ++e) {
    M value;
    std::memcpy(&value, w.grid->parameters + offset + e * sizeof(M), sizeof(M));
    R* to = w.plane<R>(form.planes[e]);
    for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = (lanes >> l & 1) != 0 ? static_cast<R>(value) : to[l];
    if constexpr (kWatched) w.poisoned(form.planes[e]) &= ~lanes;
  }
  return &i + 1;
}

template <class M, class R, bool Store>
const Inst* call_parameter(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto offset = static_cast<uint64_t>(i.imm);
  const uint32_t stride = w.frame->function->param_bytes;
  if (kWatched || offset % form.bytes != 0 || offset > stride || stride - offset < form.bytes) [[unlikely]]
    return Store ? store_by_lane(w, i, lanes) : load_by_lane(w, i, lanes);
  for (uint32_t e = 0; e < form.count; ++e) {
    R* plane = w.plane<R>(form.planes[e]);
    each_lane(lanes, [&](uint32_t l) {
      std::byte* at = w.frame->params + uint64_t{l} * stride + offset + e * sizeof(M);
      M value;
      if constexpr (Store) {
        value = static_cast<M>(plane[l]);
        std::memcpy(at, &value, sizeof(M));
      } else {
        std::memcpy(&value, at, sizeof(M));
        plane[l] = static_cast<R>(value);
      }
    });
  }
  return &i + 1;
}

template <bool Store>
struct Private {
  static constexpr bool kExtends = !Store;
  template <class M, class R, uint32_t N>
  static Handler of(const Choice& c) {
    if constexpr (N == 1) {
      if (c.space == Space::Local) return c.wide_base ? local<M, R, Store> : nullptr;
      if (!c.known_place) return nullptr;
      if (!c.kernel_parameter) return call_parameter<M, R, Store>;
      if constexpr (!Store) return load_parameter<M, R>;
    }
    return nullptr;
  }
};

}  // namespace

Handler private_load_handler(const Choice& c) {
  return choose<Private<false>>(c);
}

Handler private_store_handler(const Choice& c) {
  return choose<Private<true>>(c);
}

}  // namespace assay::vgpu::ASSAY_BUILD
