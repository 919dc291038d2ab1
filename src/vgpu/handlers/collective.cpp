// Warp-wide operations: shuffles, votes, matches, reductions, the warp barrier.
//
// Every operation names its members with a mask. Lanes may reach one instruction with different
// masks (a warp split into tiles); each lane's result follows from its own mask. Members that have
// exited take no part, as on hardware.
#include "numerics/arith.h"
#include "vgpu/handlers/access.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

struct CollectiveForm {
  PlaneOffset members = 0;    // u32 masks
  PlaneOffset lane = 0;       // shfl: b
  PlaneOffset limits = 0;     // shfl: c
  PlaneOffset predicate = 0;  // second destination
  bool has_value = true;      // a first destination
  bool has_predicate = false;
  bool complement = false;  // vote: !p
};

const CollectiveForm& collective_of(const Inst& i) {
  return *static_cast<const CollectiveForm*>(i.extra);
}

void complain(Warp& w, const Inst& i, Violation what, uint32_t lanes, const char* detail) {
  MemoryForm none;
  none.space = Space::None;
  report(w, i, none, what, lanes, nullptr, detail);
}

// Tells listeners about each group of lanes that met here, and about masks that make no sense.
[[gnu::noinline]] void watch_meeting(Warp& w, const Inst& i, uint32_t lanes, const uint32_t* members,
                                     bool orders) {
  const CollectiveForm& form = collective_of(i);
  uint32_t differ = 0, outside = 0;
  const uint32_t mask = members[__builtin_ctz(lanes)];
  for (uint32_t l = 0; l < kWarpSize; ++l) differ |= (lanes >> l & 1) != 0 ? members[l] ^ mask : 0;
  if (differ == 0 && (lanes & ~mask) == 0 && (w.poisoned(form.members) & lanes) == 0) [[likely]] {
    for (Listener* listener : listeners(w)) listener->on_warp_sync(w, i, lanes, orders);
    return;
  }
  each_lane(lanes, [&](uint32_t l) { outside |= uint32_t{(members[l] >> l & 1) == 0} << l; });
  if (outside != 0)
    complain(w, i, Violation::BarrierDivergence, outside, "the mask does not name the lane itself");
  if (const uint32_t undefined = w.poisoned(form.members) & lanes)
    complain(w, i, Violation::UndefinedCollective, undefined, "the mask is undefined");
  for (uint32_t rest = lanes; rest != 0;) {
    const uint32_t group = members[__builtin_ctz(rest)];
    uint32_t together = 0;
    each_lane(rest, [&](uint32_t l) { together |= uint32_t{members[l] == group} << l; });
    for (Listener* listener : listeners(w)) listener->on_warp_sync(w, i, together, orders);
    rest &= ~together;
  }
}

// Brings the members together. False: the fragment waits; return `*next`.
inline bool meet(Warp& w, const Inst& i, const Inst** next, uint32_t* lanes, bool orders = false) {
  const uint32_t* members = w.plane<uint32_t>(collective_of(i).members);
  *lanes = w.lanes_of(i);
  if (*lanes == 0) {
    *next = &i + 1;
    return false;
  }
  uint32_t named = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) named |= (*lanes >> l & 1) != 0 ? members[l] : 0;
  if ((named & w.live & ~w.active) != 0 || w.excused) [[unlikely]] {
    if (!collect_each(w, i, collective_of(i).members, next)) return false;
    *lanes = w.lanes_of(i);
  }
  if constexpr (kWatched)
    if (!w.grid->listeners.empty()) watch_meeting(w, i, *lanes, members, orders);
  return true;
}

void set_value(Warp& w, const Inst& i, uint32_t lanes, const uint32_t* value) {
  blend(w.plane<uint32_t>(i.dst), value, lanes);
}

// ---- bar.warp.sync ----

const Inst* warp_barrier(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  return meet(w, i, &next, &lanes, true) ? &i + 1 : next;
}

// ---- shfl ----

enum class Move : uint8_t { Up, Down, Butterfly, Index };

template <Move M>
inline void source_lanes(const uint32_t* lane, const uint32_t* limits, uint32_t* from, uint32_t* inside) {
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const auto self = static_cast<int32_t>(l);
    const auto by = static_cast<int32_t>(lane[l] & 31);
    const auto segment = static_cast<int32_t>(limits[l] >> 8 & 31);
    const auto clamp = static_cast<int32_t>(limits[l] & 31);
    const int32_t last = (self & segment) | (clamp & ~segment);
    int32_t j;
    bool in;
    if constexpr (M == Move::Up) {
      j = self - by;
      in = j >= last;
    } else {
      j = M == Move::Down ? self + by : M == Move::Butterfly ? self ^ by : (self & segment) | (by & ~segment);
      in = j <= last;
    }
    from[l] = static_cast<uint32_t>(in ? j : self);
    inside[l] = in ? ~0u : 0u;
  }
}

inline void permute(const uint32_t* a, const uint32_t* from, uint32_t* to) {
#ifdef __AVX512F__
  const __m512i low = _mm512_load_si512(a), high = _mm512_load_si512(a + 16);
  for (uint32_t k = 0; k < kWarpSize; k += 16)
    _mm512_store_si512(to + k, _mm512_permutex2var_epi32(low, _mm512_load_si512(from + k), high));
#else
  for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = a[from[l]];
#endif
}

[[gnu::noinline]] void watch_shuffle(Warp& w, const Inst& i, uint32_t lanes, const uint32_t* from) {
  const CollectiveForm& form = collective_of(i);
  const uint32_t* members = w.plane<uint32_t>(form.members);
  alignas(64) uint32_t bad[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) bad[l] = (lanes & members[l] & (1u << from[l])) == 0 ? ~0u : 0u;
  const uint32_t invalid = to_mask(bad) & lanes;
  const uint32_t poison =
      w.poisoned(form.lane) | w.poisoned(form.limits) | w.poisoned(i.a) | w.poisoned(i.dst);
  if ((poison | invalid) == 0 && guard_poison(w, i) == 0) [[likely]] {
    if (form.has_predicate) set_predicate_poison(w, i, form.predicate, lanes, 0);
    return;
  }
  uint32_t absent = 0;
  for (uint32_t rest = invalid; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    absent |= (members[l] >> from[l] & 1) << l;
  }
  if (absent != 0)
    complain(w, i, Violation::AbsentLane, absent, "names and reads a lane that does not take part");
  else if (invalid != 0)
    complain(w, i, Violation::InvalidShuffle, invalid, "reads a lane that does not take part");
  const uint32_t undefined = (w.poisoned(form.lane) | w.poisoned(form.limits)) & lanes;
  if (undefined != 0)
    complain(w, i, Violation::UndefinedCollective, undefined, "the source lane is undefined");
  alignas(64) uint32_t bits[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) bits[l] = undefined_bits<uint32_t>(w, i.a, from[l]) | bad[l];
  set_undefined(w, i.dst, lanes, bits);
  if (form.has_predicate) set_predicate_poison(w, i, form.predicate, lanes, 0);
}

template <Move M>
const Inst* shuffle(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  if (!meet(w, i, &next, &lanes)) return next;
  const CollectiveForm& form = collective_of(i);
  alignas(64) uint32_t from[kWarpSize], inside[kWarpSize], value[kWarpSize];
  source_lanes<M>(w.plane<uint32_t>(form.lane), w.plane<uint32_t>(form.limits), from, inside);
  permute(w.plane<uint32_t>(i.a), from, value);
  if constexpr (kWatched) watch_shuffle(w, i, lanes, from);
  set_value(w, i, lanes, value);
  if (form.has_predicate) set_predicate(w, form.predicate, lanes, to_mask(inside));
  return &i + 1;
}

// ---- vote ----

enum class Vote : uint8_t { All, Any, Uniform, Ballot };

template <Vote V>
const Inst* vote(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  if (!meet(w, i, &next, &lanes)) return next;
  const CollectiveForm& form = collective_of(i);
  const uint32_t* members = w.plane<uint32_t>(form.members);
  const uint32_t truth = form.complement ? ~w.mask(i.a) : w.mask(i.a);
  const uint32_t doubt = poison_of(w, i.a) & lanes;
  alignas(64) uint32_t value[kWarpSize];
  alignas(64) uint32_t undefined[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const uint32_t group = members[l] & lanes, yes = truth & group, unsure = doubt & group;
    const uint32_t sure_no = group & ~truth & ~unsure, sure_yes = yes & ~unsure;
    undefined[l] = unsure;
    switch (V) {
      case Vote::All:
        value[l] = yes == group ? ~0u : 0;
        if (sure_no != 0) undefined[l] = 0;
        break;
      case Vote::Any:
        value[l] = yes != 0 ? ~0u : 0;
        if (sure_yes != 0) undefined[l] = 0;
        break;
      case Vote::Uniform:
        value[l] = yes == group || yes == 0 ? ~0u : 0;
        if (sure_yes != 0 && sure_no != 0) undefined[l] = 0;
        break;
      case Vote::Ballot:
        value[l] = yes;
        break;
    }
  }
  if constexpr (V == Vote::Ballot) {
    set_value(w, i, lanes, value);
    if constexpr (kWatched) set_undefined(w, i.dst, lanes, undefined);
  } else {
    set_predicate(w, i.dst, lanes, to_mask(value));
    if constexpr (kWatched) {
      uint32_t unsure = 0;
      for (uint32_t l = 0; l < kWarpSize; ++l) unsure |= uint32_t{undefined[l] != 0} << l;
      set_predicate_poison(w, i, i.dst, lanes, unsure);
    }
  }
  return &i + 1;
}

// ---- match ----

template <class T>
inline uint32_t equal_lanes(const T* a, T x) {
  alignas(64) T truth[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) truth[l] = a[l] == x ? ~T{0} : T{0};
  return to_mask(truth);
}

template <class T, bool All>
const Inst* match(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  if (!meet(w, i, &next, &lanes)) return next;
  const CollectiveForm& form = collective_of(i);
  const uint32_t* members = w.plane<uint32_t>(form.members);
  const T* a = w.plane<T>(i.a);
  const uint32_t doubt = poison_of(w, i.a) & lanes;
  alignas(64) uint32_t value[kWarpSize] = {};
  uint32_t all_equal = 0, unsure = 0;
  for (uint32_t rest = lanes; rest != 0;) {  // one value after another
    const uint32_t same = equal_lanes(a, a[__builtin_ctz(rest)]) & lanes;
    each_lane(same & rest, [&](uint32_t l) {
      const uint32_t group = members[l] & lanes, own = same & group;
      all_equal |= uint32_t{own == group} << l;
      value[l] = !All ? own : own == group ? group : 0;
      unsure |= uint32_t{(doubt & group) != 0} << l;
    });
    rest &= ~same;
  }
  if (form.has_value) {
    set_value(w, i, lanes, value);
    if constexpr (kWatched) poison_whole(w, i.dst, 4, lanes, unsure);
  }
  if (form.has_predicate) {
    set_predicate(w, form.predicate, lanes, all_equal);
    set_predicate_poison(w, i, form.predicate, lanes, unsure);
  }
  return &i + 1;
}

// ---- redux ----

struct Whole {  // one value alone is the result
  static uint32_t begin(uint32_t a) { return a; }
};
struct ReduxAdd : Whole {
  static uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};
struct ReduxAnd : Whole {
  static uint32_t apply(uint32_t a, uint32_t b) { return a & b; }
};
struct ReduxOr : Whole {
  static uint32_t apply(uint32_t a, uint32_t b) { return a | b; }
};
struct ReduxXor : Whole {
  static uint32_t apply(uint32_t a, uint32_t b) { return a ^ b; }
};
template <class T, bool IsMax>
struct ReduxPick : Whole {
  static uint32_t apply(uint32_t a, uint32_t b) {
    return (static_cast<T>(a) < static_cast<T>(b)) == IsMax ? b : a;
  }
};
// A NaN loses against a number unless .NaN says that it wins.
template <bool IsMax, bool Abs, bool Nan>
struct ReduxFloat {
  static uint32_t begin(uint32_t a) { return apply(a, a); }
  static uint32_t apply(uint32_t a, uint32_t b) {
    constexpr uint32_t kKeep = Abs ? 0x7fffffffu : ~0u;
    const float r =
        numerics::minmax_f32<IsMax, false, Nan>(numerics::f32_of(a & kKeep), numerics::f32_of(b & kKeep));
    return numerics::bits_of(r);
  }
};

template <class Op>
const Inst* redux(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  if (!meet(w, i, &next, &lanes)) return next;
  const uint32_t* members = w.plane<uint32_t>(collective_of(i).members);
  const uint32_t* a = w.plane<uint32_t>(i.a);
  const uint32_t doubt = poison_of(w, i.a) & lanes;
  alignas(64) uint32_t value[kWarpSize] = {};
  uint32_t unsure = 0;
  for (uint32_t rest = lanes; rest != 0;) {
    const auto first = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint32_t group = members[first] & lanes;
    uint32_t sum = 0;
    bool begun = false;
    each_lane(group, [&](uint32_t l) {
      sum = begun ? Op::apply(sum, a[l]) : Op::begin(a[l]);
      begun = true;
    });
    each_lane(rest, [&](uint32_t l) {
      if (members[l] != members[first]) return;
      value[l] = sum;
      rest &= ~(1u << l);
      unsure |= uint32_t{(doubt & group) != 0} << l;
    });
    rest &= ~(1u << first);
  }
  set_value(w, i, lanes, value);
  if constexpr (kWatched) poison_whole(w, i.dst, 4, lanes, unsure);
  return &i + 1;
}

// ---- activemask, elect ----

const Inst* active_mask(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint32_t* d = w.plane<uint32_t>(i.dst);
  for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = (lanes >> l & 1) != 0 ? lanes : d[l];
  spread_poison<uint32_t>(w, i, lanes);
  return &i + 1;
}

const Inst* elect(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  uint32_t lanes;
  if (!meet(w, i, &next, &lanes)) return next;
  const CollectiveForm& form = collective_of(i);
  const uint32_t* members = w.plane<uint32_t>(form.members);
  alignas(64) uint32_t leader[kWarpSize] = {};
  uint32_t elected = 0;
  each_lane(lanes, [&](uint32_t l) {
    const uint32_t group = members[l] & lanes;
    leader[l] = group != 0 ? static_cast<uint32_t>(__builtin_ctz(group)) : l;
    elected |= uint32_t{leader[l] == l} << l;
  });
  if (form.has_value) {
    set_value(w, i, lanes, leader);
    spread_poison<uint32_t>(w, i, lanes);
  }
  set_predicate(w, form.predicate, lanes, elected);
  set_predicate_poison(w, i, form.predicate, lanes, 0);
  return &i + 1;
}

// ---- Lowering ----

// `d|p`: the plane of p, if there is one.
void lower_pair(Lowering& l, CollectiveForm& form, const Operand& d) {
  form.has_predicate = d.pair != ptx::kNone;
  form.predicate = form.has_predicate ? l.reg(d.pair) : l.scratch(0);
  form.has_value = d.kind == Operand::Kind::Register;
}

void lower_shfl(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<CollectiveForm>();
  const Operand& d = inst.operands.at(0);
  const PlaneOffset a = l.source(1, Type::B32);
  form.lane = l.source(2, Type::U32);
  form.limits = l.source(3, Type::U32);
  form.members = l.source(4, Type::U32);
  lower_pair(l, form, d);
  const PlaneOffset to = form.has_value ? l.dest(d, Type::B32) : l.scratch(4);
  Inst& out = l.emit(inst.has(Mod::up)     ? shuffle<Move::Up>
                     : inst.has(Mod::down) ? shuffle<Move::Down>
                     : inst.has(Mod::bfly) ? shuffle<Move::Butterfly>
                                           : shuffle<Move::Index>);
  out.dst = to;
  out.a = a;
  out.extra = &form;
}

void lower_vote(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<CollectiveForm>();
  const bool ballot = inst.has(Mod::ballot);
  const Operand& predicate = inst.operands.at(1);
  const bool is_register = predicate.kind == Operand::Kind::Register;
  form.complement = is_register && predicate.negated;
  const PlaneOffset a = is_register ? l.reg(predicate.index) : l.source(predicate, Type::Pred);
  form.members = l.source(2, Type::U32);
  const PlaneOffset d = l.dest(inst.operands[0], ballot ? Type::B32 : Type::Pred);
  Inst& out = l.emit(ballot               ? vote<Vote::Ballot>
                     : inst.has(Mod::all) ? vote<Vote::All>
                     : inst.has(Mod::any) ? vote<Vote::Any>
                                          : vote<Vote::Uniform>);
  out.dst = d;
  out.a = a;
  out.extra = &form;
}

void lower_match(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<CollectiveForm>();
  const bool all = inst.opcode == Opcode::match_all;
  const bool wide = ptx::bits_of(inst.type()) == 64;
  const PlaneOffset a = l.source(1);
  form.members = l.source(2, Type::U32);
  lower_pair(l, form, inst.operands.at(0));
  const PlaneOffset d = form.has_value ? l.dest(inst.operands[0], Type::B32) : l.scratch(4);
  Inst& out = l.emit(wide ? (all ? match<uint64_t, true> : match<uint64_t, false>)
                          : (all ? match<uint32_t, true> : match<uint32_t, false>));
  out.dst = d;
  out.a = a;
  out.extra = &form;
}

Handler redux_handler(const ptx::Instruction& inst) {
  const bool is_max = inst.has(Mod::max);
  if (inst.type() == Type::F32) {
    const bool abs = inst.has(Mod::abs), nan = inst.has(Mod::NaN);
    constexpr Handler kTable[2][2][2] = {
        {{redux<ReduxFloat<false, false, false>>, redux<ReduxFloat<false, false, true>>},
         {redux<ReduxFloat<false, true, false>>, redux<ReduxFloat<false, true, true>>}},
        {{redux<ReduxFloat<true, false, false>>, redux<ReduxFloat<true, false, true>>},
         {redux<ReduxFloat<true, true, false>>, redux<ReduxFloat<true, true, true>>}}};
    return is_max || inst.has(Mod::min) ? kTable[is_max][abs][nan] : nullptr;
  }
  if (inst.has(Mod::add)) return redux<ReduxAdd>;
  if (inst.has(Mod::and_)) return redux<ReduxAnd>;
  if (inst.has(Mod::or_)) return redux<ReduxOr>;
  if (inst.has(Mod::xor_)) return redux<ReduxXor>;
  if (inst.type() == Type::S32)
    return is_max ? redux<ReduxPick<int32_t, true>> : redux<ReduxPick<int32_t, false>>;
  return is_max ? redux<ReduxPick<uint32_t, true>> : redux<ReduxPick<uint32_t, false>>;
}

void lower_redux(Lowering& l) {
  const Handler handler = redux_handler(*l.inst);
  if (handler == nullptr || ptx::bits_of(l.inst->type()) != 32)
    return l.unsupported("this operation on this type");
  auto& form = *l.extra<CollectiveForm>();
  const PlaneOffset a = l.source(1);
  form.members = l.source(2, Type::U32);
  const PlaneOffset d = l.dest(0);
  Inst& out = l.emit(handler);
  out.dst = d;
  out.a = a;
  out.extra = &form;
}

void lower_activemask(Lowering& l) {
  const PlaneOffset d = l.dest(l.inst->operands.at(0), Type::B32);
  l.emit(active_mask).dst = d;
}

void lower_elect(Lowering& l) {
  auto& form = *l.extra<CollectiveForm>();
  form.members = l.source(1, Type::U32);
  lower_pair(l, form, l.inst->operands.at(0));
  const PlaneOffset d = form.has_value ? l.dest(l.inst->operands[0], Type::B32) : l.scratch(4);
  Inst& out = l.emit(elect);
  out.dst = d;
  out.extra = &form;
}

void lower_warp_barrier(Lowering& l) {
  auto& form = *l.extra<CollectiveForm>();
  form.members = l.source(0, Type::U32);
  l.emit(warp_barrier).extra = &form;
}

constexpr LowerRow kRows[] = {
    {Opcode::shfl_sync, lower_shfl},   {Opcode::vote_sync, lower_vote},
    {Opcode::match_any, lower_match},  {Opcode::match_all, lower_match},
    {Opcode::redux_sync, lower_redux}, {Opcode::activemask, lower_activemask},
    {Opcode::elect_sync, lower_elect}, {Opcode::bar_warp_sync, lower_warp_barrier},
};

}  // namespace

Handler warp_barrier_handler() {
  return warp_barrier;
}

std::span<const LowerRow> collective_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
