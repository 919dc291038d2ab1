// mov: copies, packing and unpacking of vectors, and the clocks.
#include <x86intrin.h>

#include <ctime>

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

struct Copy {
  template <class T>
  static T apply(T a) {
    return a;
  }
  template <class T>
  static T undefined(Bits<T> a) {
    return a.undefined;
  }
};

const Inst* copy_predicate(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  set_predicate(w, i.dst, lanes, w.mask(i.a));
  set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a));
  return &i + 1;
}

// A lane of 16 bytes is two words of a plane.
const Inst* copy_128(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint64_t* d = w.plane<uint64_t>(i.dst);
  const uint64_t* a = w.plane<uint64_t>(i.a);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    d[2 * l] = a[2 * l];
    d[2 * l + 1] = a[2 * l + 1];
    if constexpr (kWatched) std::memcpy(w.shadow + i.dst + 16 * l, w.shadow + i.a + 16 * l, 16);
  }
  if constexpr (kWatched) {
    uint32_t& p = w.poisoned(i.dst);
    p = (p & ~lanes) | (w.poisoned(i.a) & lanes);
    if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, 16, guard, guard);
  }
  return &i + 1;
}

// ---- Vectors ----

struct VectorForm {
  uint32_t count;          // of parts
  uint32_t part_bytes;     // that count: of a byte in a two-byte lane, one
  uint32_t lane_bytes[8];  // of the parts' planes
  PlaneOffset parts[8];
  uint32_t whole_bytes;
};

// Copies `bytes` from one place to another, with their poison.
struct Mover {
  Warp& w;
  uint32_t lane;
  void operator()(PlaneOffset to, uint32_t to_lane_bytes, uint32_t to_at, PlaneOffset from,
                  uint32_t from_lane_bytes, uint32_t from_at, uint32_t bytes) const {
    const size_t target = to + lane * to_lane_bytes + to_at, source = from + lane * from_lane_bytes + from_at;
    std::memcpy(w.planes + target, w.planes + source, bytes);
    if constexpr (kWatched) {
      if (w.poisoned(from) >> lane & 1) {
        std::memcpy(w.shadow + target, w.shadow + source, bytes);
      } else {
        std::memset(w.shadow + target, 0, bytes);
      }
    }
  }
};

const Inst* pack_any(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const VectorForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  uint32_t undefined = 0;
  for (uint32_t k = 0; k < form.count; ++k) {
    if constexpr (kWatched) undefined |= w.poisoned(form.parts[k]);
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      if (lanes >> l & 1) {
        Mover{w, l}(i.dst, form.whole_bytes, k * form.part_bytes, form.parts[k], form.lane_bytes[k], 0,
                    form.part_bytes);
      }
    }
  }
  if constexpr (kWatched) {
    uint32_t& p = w.poisoned(i.dst);
    p = (p & ~lanes) | (undefined & lanes);
    if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, form.whole_bytes, guard, guard);
  }
  return &i + 1;
}

const Inst* unpack_any(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const VectorForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  for (uint32_t k = 0; k < form.count; ++k) {
    const PlaneOffset d = form.parts[k];
    uint32_t undefined = 0;
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      if ((lanes >> l & 1) == 0) continue;
      std::byte* place = w.planes + d + l * form.lane_bytes[k];
      std::memset(place, 0, form.lane_bytes[k]);
      if constexpr (kWatched) std::memset(w.shadow + d + l * form.lane_bytes[k], 0, form.lane_bytes[k]);
      Mover{w, l}(d, form.lane_bytes[k], 0, i.a, form.whole_bytes, k * form.part_bytes, form.part_bytes);
      if constexpr (kWatched) {
        for (uint32_t byte = 0; byte < form.part_bytes; ++byte) {
          if (w.shadow[d + l * form.lane_bytes[k] + byte] != std::byte{0}) undefined |= 1u << l;
        }
      }
    }
    if constexpr (kWatched) {
      uint32_t& p = w.poisoned(d);
      p = (p & ~lanes) | undefined;
      if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, d, form.lane_bytes[k], guard, guard);
    }
  }
  return &i + 1;
}

// The common ones: two parts of half the width.
template <class Part, class Whole>
struct Pack {
  static Whole apply(Part low, Part high) {
    return static_cast<Whole>(low) | static_cast<Whole>(static_cast<Whole>(high) << (8 * sizeof(Part)));
  }
  static Whole undefined(Bits<Part> low, Bits<Part> high) { return apply(low.undefined, high.undefined); }
};
template <class Part, class Whole, uint32_t Shift>
struct Unpack {
  static Part apply(Whole a) { return static_cast<Part>(a >> Shift); }
  static Part undefined(Bits<Whole> a) { return static_cast<Part>(a.undefined >> Shift); }
};

void lower_vector(Lowering& l, const Operand& vector, const Operand& whole, bool packs) {
  const Type type = l.inst->type();
  const uint32_t bytes = ptx::bits_of(type) / 8;
  const auto count = static_cast<uint32_t>(vector.elements.size());
  if (count == 0 || count > 8 || bytes % count != 0) return l.unsupported("a vector of this length");
  const uint32_t part_bytes = bytes / count;
  const Type part = part_bytes == 1   ? Type::B8
                    : part_bytes == 2 ? Type::B16
                    : part_bytes == 4 ? Type::B32
                                      : Type::B64;
  VectorForm form{count, part_bytes, {}, {}, bytes};
  for (uint32_t k = 0; k < count; ++k) {
    form.parts[k] = packs ? l.source(vector.elements[k], part) : l.dest(vector.elements[k], part);
    form.lane_bytes[k] = l.lane_bytes(vector.elements[k], part);
  }
  const PlaneOffset plane = packs ? l.dest(whole, type) : l.source(whole, type);
  const bool plain = count == 2 && form.lane_bytes[0] == part_bytes && form.lane_bytes[1] == part_bytes;
  if (plain && packs && (bytes == 4 || bytes == 8)) {
    Inst& inst = l.emit(bytes == 8 ? map2<Pack<uint32_t, uint64_t>, uint64_t, uint32_t, uint32_t>
                                   : map2<Pack<uint16_t, uint32_t>, uint32_t, uint16_t, uint16_t>);
    inst.dst = plane, inst.a = form.parts[0], inst.b = form.parts[1];
  } else if (plain && (bytes == 4 || bytes == 8)) {
    constexpr Handler k64[] = {map1<Unpack<uint32_t, uint64_t, 0>, uint32_t, uint64_t>,
                               map1<Unpack<uint32_t, uint64_t, 32>, uint32_t, uint64_t>};
    constexpr Handler k32[] = {map1<Unpack<uint16_t, uint32_t, 0>, uint16_t, uint32_t>,
                               map1<Unpack<uint16_t, uint32_t, 16>, uint16_t, uint32_t>};
    for (uint32_t k = 0; k < 2; ++k) {
      if (vector.elements[k].kind == Operand::Kind::Sink) continue;
      Inst& inst = l.emit(bytes == 8 ? k64[k] : k32[k]);
      inst.dst = form.parts[k], inst.a = plane;
    }
  } else {
    VectorForm* kept = l.extra<VectorForm>();
    *kept = form;
    Inst& inst = l.emit(packs ? pack_any : unpack_any);
    inst.dst = inst.a = plane;
    inst.extra = kept;
  }
}

// ---- Clocks: the same for every lane, read when they are asked for ----
//
// Cycles are counted, not measured, so that equal runs read equal clocks; only the global timer is real.

enum class Clock : uint8_t { Cycles, CyclesHigh, Nanoseconds, NanosecondsHigh };

constexpr uint64_t kClocksOfARead = 32;  // reading the clock takes its time, too

uint64_t now(Warp& w, Clock clock) {
  if (clock == Clock::Cycles || clock == Clock::CyclesHigh) {
    w.block->clock += kClocksOfARead;
    return clock_of(w);
  }
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

template <class T>
const Inst* read_clock(Warp& w, const Inst& i) {
  w.executed += static_cast<uint64_t>(i.imm);
  w.slice -= i.imm;
  const auto clock = static_cast<Clock>(i.c);
  const uint64_t time = now(w, clock);
  const bool high = clock == Clock::CyclesHigh || clock == Clock::NanosecondsHigh;
  alignas(64) T value[kWarpSize];
  for (T& v : value) v = static_cast<T>(high ? time >> 32 : time);
  const uint32_t lanes = w.lanes_of(i);
  blend(w.plane<T>(i.dst), value, lanes);
  spread_poison<T>(w, i, lanes);
  return &i + 1;
}

struct ClockRow {
  ptx::SpecialRegister special;
  Clock clock;
};
constexpr ClockRow kClocks[] = {
    {ptx::SpecialRegister::Clock, Clock::Cycles},
    {ptx::SpecialRegister::ClockHi, Clock::CyclesHigh},
    {ptx::SpecialRegister::Clock64, Clock::Cycles},
    {ptx::SpecialRegister::Globaltimer, Clock::Nanoseconds},
    {ptx::SpecialRegister::GlobaltimerLo, Clock::Nanoseconds},
    {ptx::SpecialRegister::GlobaltimerHi, Clock::NanosecondsHigh},
};

bool lower_clock(Lowering& l, const Operand& source) {
  if (source.kind != Operand::Kind::Special) return false;
  for (const ClockRow& row : kClocks) {
    if (row.special != source.special) continue;
    const PlaneOffset dst = l.dest(l.inst->operands.at(0), l.inst->type());
    Inst& inst = l.emit(ptx::bits_of(l.inst->type()) == 64 ? read_clock<uint64_t> : read_clock<uint32_t>);
    inst.dst = dst;
    inst.c = static_cast<PlaneOffset>(row.clock);
    return true;
  }
  return false;
}

}  // namespace

void lower_mov(Lowering& l) {
  const Operand &to = l.inst->operands.at(0), &from = l.inst->operands.at(1);
  const Type type = l.inst->type();
  if (lower_clock(l, from)) return;
  if (to.kind == Operand::Kind::Vector && from.kind == Operand::Kind::Vector) return refuse(l);
  if (from.kind == Operand::Kind::Vector) return lower_vector(l, from, to, true);
  if (to.kind == Operand::Kind::Vector) return lower_vector(l, to, from, false);
  const Handler handler = type == Type::Pred          ? copy_predicate
                          : ptx::bits_of(type) == 128 ? copy_128
                                                      : by_width<Copy, 1>(type);
  emit_same(l, handler, 1);
}

Handler clock_handler(bool wide) {
  return wide ? read_clock<uint64_t> : read_clock<uint32_t>;
}

}  // namespace assay::vgpu::ASSAY_BUILD
