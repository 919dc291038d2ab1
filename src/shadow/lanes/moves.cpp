// Errors that go along when bits are moved, chosen, or changed by integer arithmetic; and decisions.
#include "shadow/lanes/lanes.h"

namespace assay::shadow::ASSAY_BUILD {

namespace {

void act_on(Error& e, uint8_t act, bool negative) {
  if ((act & kWiden) != 0) settle(e);
  if ((act & kNegate) != 0 || ((act & kAbsolute) != 0 && negative))
    for (uint32_t s = 0; s < kFreshLine; ++s) e.slot[s] = -e.slot[s];
}

void copy(Warp& w, PlaneOffset to, PlaneOffset from, uint32_t lanes, uint8_t act, uint32_t negative) {
  if (to == 0) return;
  RegisterErrors& out = errors_at(w, to);
  const uint32_t has = lanes_with_errors(w, from) & lanes;
  if (has != 0 && to != from) {
    const RegisterErrors& in = errors_at(w, from);
    if (has == kAllLanes)
      std::memcpy(out.error, in.error, sizeof in.error);
    else
      each_lane(has, [&](uint32_t l) { out.error[l] = in.error[l]; });
  }
  if (act != 0) each_lane(has, [&](uint32_t l) { act_on(out.error[l], act, (negative >> l & 1) != 0); });
  out.lanes = (out.lanes & ~lanes) | has;
}

// Lanes whose float in this plane is negative.
uint32_t signs(Warp& w, PlaneOffset plane) {
  uint32_t mask = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) mask |= (w.plane<uint32_t>(plane)[l] >> 31) << l;
  return mask;
}

const Inst* move(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  const uint32_t negative = f.value != 0 ? signs(w, f.value) : 0;
  for (uint32_t k = 0; k < f.count; ++k)
    copy(w, f.moves[k].to, f.moves[k].from, lanes, f.moves[k].act, negative);
  return &i + 1;
}

const Inst* select(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i), yes = w.mask(f.predicate) ^ f.predicate_flip;
  for (uint32_t k = 0; k < f.count; ++k) {
    // Where the destination is one of the sources, its own lanes go first: copying them is no change.
    copy(w, f.moves[k].to, f.moves[k].from, lanes & yes, 0, 0);
    copy(w, f.moves[k].to, f.moves[k].other, lanes & ~yes, 0, 0);
  }
  return &i + 1;
}

const Inst* merge(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  for (uint32_t k = 0; k < f.count; ++k) {
    const uint32_t first = lanes_with_errors(w, f.moves[k].from);
    copy(w, f.moves[k].to, f.moves[k].from, lanes & first, 0, 0);
    copy(w, f.moves[k].to, f.moves[k].other, lanes & ~first, 0, 0);
  }
  return &i + 1;
}

const Inst* forget(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  uint32_t lost = f.forgets ? lanes : 0;
  for (uint32_t k = 0; k < f.count; ++k) lost |= lanes_with_errors(w, f.moves[k].from) & lanes;
  f.site->forgotten += static_cast<uint64_t>(__builtin_popcount(lost));
  for (uint32_t k = 0; k < f.count; ++k) clear(w, f.moves[k].to, lanes);
  return &i + 1;
}

// The upper half of a float, as a bf16: what lay in the lower half is lost.
const Inst* cut(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  alignas(64) uint32_t bits[kWarpSize];
  std::memcpy(bits, w.plane<uint32_t>(f.value), sizeof bits);
  Site& site = *f.site;
  site.executions += static_cast<uint64_t>(__builtin_popcount(lanes));
  for (uint32_t k = 0; k < f.count; ++k) {
    RegisterErrors& out = errors_at(w, f.moves[k].to);
    copy(w, f.moves[k].to, f.moves[k].from, lanes, 0, 0);
    each_lane(lanes, [&](uint32_t l) {
      const float whole = numerics::f32_of(bits[l]), kept = numerics::f32_of(bits[l] & 0xffff0000u);
      const float lost = kept - whole;
      if (!std::isfinite(whole) || lost == 0) return;
      const double relative = std::fabs(static_cast<double>(lost) / static_cast<double>(whole));
      site.introduced2[l] += relative * relative;
      site.introduced_max[l] = relative > site.introduced_max[l] ? relative : site.introduced_max[l];
      if ((out.lanes >> l & 1) == 0) {
        write_new(out.error[l], lost, lost, slot_of(site), false);
        out.lanes |= 1u << l;
        return;
      }
      Error& e = out.error[l];
      const float before = e.slot[kWhole];
      e.slot[slot_of(site)] += lost;
      e.slot[kWhole] = before + lost;
    });
  }
  return &i + 1;
}

// Integer arithmetic on the bits of a float. Understood: nothing changed, the sign changed, the number is
// scaled by a power of two, or nudged by less than a seventh (which is an error that enters here).
const Inst* bits(Warp& w, const Inst& i) {
  const auto& f = form_of<MoveForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  const MoveForm::One& one = f.moves[0];
  const uint32_t has = lanes_with_errors(w, one.from) & lanes;
  alignas(64) uint32_t before[kWarpSize];
  std::memcpy(before, w.plane<uint32_t>(f.value), sizeof before);
  alignas(64) Error old[kWarpSize];
  if (has != 0) std::memcpy(old, errors_at(w, one.from).error, sizeof old);
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr || one.to == 0) return next;
  RegisterErrors& out = errors_at(w, one.to);
  out.lanes &= ~lanes;
  const uint32_t* after = w.plane<uint32_t>(f.result);
  Site& site = *f.site;
  if (f.wide) {
    each_lane(has, [&](uint32_t l) {
      const uint32_t from = before[l] >> 20 & 0x7ff, to = after[l] >> 20 & 0x7ff;
      const bool scaled =
          ((before[l] ^ after[l]) & 0x000fffffu) == 0 && from != 0 && to != 0 && from != 0x7ff && to != 0x7ff;
      const bool flips = ((before[l] ^ after[l]) >> 31) != 0;
      site.forgotten += !scaled;
      if (!scaled) return;
      const auto factor =
          static_cast<float>(std::ldexp(flips ? -1.0 : 1.0, static_cast<int>(to) - static_cast<int>(from)));
      out.error[l] = old[l];
      for (uint32_t s = 0; s < kFreshLine; ++s) out.error[l].slot[s] *= factor;
      out.lanes |= 1u << l;
    });
    return next;
  }
  each_lane(lanes, [&](uint32_t l) {
    const float x = numerics::f32_of(before[l]), y = numerics::f32_of(after[l]);
    if (!std::isfinite(x) || !std::isfinite(y) || x == 0) return;
    const bool errs = (has >> l & 1) != 0;
    const bool scaled = ((before[l] ^ after[l]) & 0x007fffffu) == 0 && (after[l] & 0x7f800000u) != 0;
    if (scaled) {
      if (!errs) return;
      const float factor = y / x;
      out.error[l] = old[l];
      for (uint32_t s = 0; s < kFreshLine; ++s) out.error[l].slot[s] *= factor;
      out.lanes |= 1u << l;
      return;
    }
    const float nudge = y - x;
    if (!(std::fabs(nudge) < std::fabs(x) * 0.15f)) {
      site.forgotten += errs;
      return;
    }
    if (errs)
      out.error[l] = old[l];
    else
      std::memset(&out.error[l], 0, sizeof(Error));
    Error& e = out.error[l];
    const float whole = e.slot[kWhole];
    settle(e);
    e.slot[slot_of(site)] += nudge;
    e.slot[kWhole] = whole + nudge;
    if (e.slot[kWhole] != 0) out.lanes |= 1u << l;
    const double relative = std::fabs(static_cast<double>(nudge / x));
    site.introduced2[l] += relative * relative;
    ++site.executions;
  });
  return next;
}

// ---- Decisions ----

bool holds(Comparison c, double a, double b) {
  switch (c) {
    case Comparison::Eq:
      return a == b;
    case Comparison::Ne:
      return a != b;
    case Comparison::Lt:
      return a < b;
    case Comparison::Le:
      return a <= b;
    case Comparison::Gt:
      return a > b;
    case Comparison::Ge:
      return a >= b;
    case Comparison::Other:
      break;
  }
  return true;
}

double shadow_of(Warp& w, const Element& e, uint32_t lane, double value) {
  if ((lanes_with_errors(w, e.errors) >> lane & 1) == 0) return value;
  return truth_of(errors_at(w, e.errors).error[lane], value);
}

const Inst* compare(Warp& w, const Inst& i) {
  const auto& f = form_of<CompareForm>(i);
  const uint32_t has = (lanes_with_errors(w, f.a.errors) | lanes_with_errors(w, f.b.errors)) & w.lanes_of(i);
  if (has == 0) return &i + 1;
  alignas(64) double a[32], b[32];
  read(w, f.a, a);
  read(w, f.b, b);
  each_lane(has, [&](uint32_t l) {
    const double x = shadow_of(w, f.a, l, a[l]), y = shadow_of(w, f.b, l, b[l]);
    if (std::isfinite(x) && std::isfinite(y))
      f.site->decided += holds(f.comparison, a[l], b[l]) != holds(f.comparison, x, y);
  });
  return &i + 1;
}

double whole_number(uint8_t rounding, double x) {
  switch (rounding) {
    case 'z':
      return std::trunc(x);
    case 'm':
      return std::floor(x);
    case 'p':
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

void count_decisions(Warp& w, const CompareForm& f, uint32_t lanes) {
  const uint32_t has = lanes_with_errors(w, f.a.errors) & lanes;
  if (has == 0) return;
  alignas(64) double a[32];
  read(w, f.a, a);
  each_lane(has, [&](uint32_t l) {
    const double x = shadow_of(w, f.a, l, a[l]);
    if (std::isfinite(x) && std::isfinite(a[l]))
      f.site->decided += whole_number(f.rounding, a[l]) != whole_number(f.rounding, x);
  });
}

// Rounded to an integral float on purpose: the result is taken as it is.
const Inst* integral(Warp& w, const Inst& i) {
  const auto& f = form_of<CompareForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (f.rounding != 0) count_decisions(w, f, lanes);
  clear(w, f.b.errors, lanes);  // b: the result
  return &i + 1;
}

// To an integer that goes to memory: quantised. What is rounded away is its error.
const Inst* to_integer(Warp& w, const Inst& i) {
  const auto& f = form_of<CompareForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  count_decisions(w, f, lanes);
  if (f.b.errors == 0) return &i + 1;
  alignas(64) double a[32], v[32];
  read(w, f.a, a);
  const uint32_t has = lanes_with_errors(w, f.a.errors) & lanes;
  alignas(64) Error old[kWarpSize];
  if (has != 0) std::memcpy(old, errors_at(w, f.a.errors).error, sizeof old);
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr) return next;
  read(w, f.b, v);
  RegisterErrors& out = errors_at(w, f.b.errors);
  out.lanes &= ~lanes;
  Site& site = *f.site;
  site.executions += static_cast<uint64_t>(__builtin_popcount(lanes));
  each_lane(lanes, [&](uint32_t l) {
    const double introduced = v[l] - a[l];
    if (!(std::fabs(introduced) <= 1)) return;  // saturated, or not a number
    const bool errs = (has >> l & 1) != 0 && !is_broken(old[l]);
    if (errs) {
      out.error[l] = old[l];
      settle(out.error[l]);
    } else {
      std::memset(&out.error[l], 0, sizeof(Error));
    }
    Error& e = out.error[l];
    const float before = e.slot[kWhole];
    if (f.rounding == 'n') {
      e.slot[kFresh] = static_cast<float>(introduced);
      e.slot[kFreshLine] = static_cast<float>(slot_of(site));
    } else {
      e.slot[slot_of(site)] += static_cast<float>(introduced);
    }
    e.slot[kWhole] = before + static_cast<float>(introduced);
    if (e.slot[kWhole] != 0) out.lanes |= 1u << l;
    const double relative = v[l] != 0 ? std::fabs(introduced / v[l]) : 0;
    site.introduced2[l] += relative * relative;
    site.introduced_max[l] = relative > site.introduced_max[l] ? relative : site.introduced_max[l];
  });
  return next;
}

// ---- Shuffles: after the lanes have met ----

const Inst* keep_shuffled(Warp& w, const Inst& i) {
  const auto& f = form_of<ShuffleForm>(i);
  for (uint32_t k = 0; k < f.count; ++k)
    if (f.moves[k].kept != 0) copy(w, f.moves[k].kept, f.moves[k].from, w.lanes_of(i), 0, 0);
  return &i + 1;
}

const Inst* shuffle(Warp& w, const Inst& i) {
  const auto& f = form_of<ShuffleForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  uint32_t any = 0;
  for (uint32_t k = 0; k < f.count; ++k)
    any |= lanes_with_errors(w, f.moves[k].kept != 0 ? f.moves[k].kept : f.moves[k].from);
  if (any == 0) {
    for (uint32_t k = 0; k < f.count; ++k) clear(w, f.moves[k].to, lanes);
    return &i + 1;
  }
  uint32_t from[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const auto self = static_cast<int32_t>(l);
    const auto by = static_cast<int32_t>(w.plane<uint32_t>(f.lane)[l] & 31);
    const uint32_t limits = w.plane<uint32_t>(f.limits)[l];
    const auto segment = static_cast<int32_t>(limits >> 8 & 31), clamp = static_cast<int32_t>(limits & 31);
    const int32_t most = (self & segment) | (clamp & ~segment), least = self & segment;
    int32_t source = self;
    bool inside = true;
    switch (f.mode) {
      case 'u':
        source = self - by;
        inside = source >= most;
        break;
      case 'd':
        source = self + by;
        inside = source <= most;
        break;
      case 'b':
        source = self ^ by;
        inside = source <= most;
        break;
      default:
        source = least | (by & ~segment);
        inside = source <= most;
        break;
    }
    from[l] = static_cast<uint32_t>(inside ? source : self) & 31;
  }
  for (uint32_t k = 0; k < f.count; ++k) {
    if (f.moves[k].to == 0) continue;
    const PlaneOffset place = f.moves[k].kept != 0 ? f.moves[k].kept : f.moves[k].from;
    const uint32_t has = lanes_with_errors(w, place);
    RegisterErrors& out = errors_at(w, f.moves[k].to);
    uint32_t got = 0;
    each_lane(lanes, [&](uint32_t l) {
      if ((has >> from[l] & 1) == 0) return;
      out.error[l] = errors_at(w, place).error[from[l]];
      got |= 1u << l;
    });
    out.lanes = (out.lanes & ~lanes) | got;
  }
  return &i + 1;
}

}  // namespace

void fill_moves(Handlers& h) {
  h.move = move, h.select = select, h.merge = merge, h.bits = bits, h.cut = cut, h.forget = forget;
  h.compare = compare, h.integral = integral, h.to_integer = to_integer;
  h.keep_shuffled = keep_shuffled, h.shuffle = shuffle;
}

}  // namespace assay::shadow::ASSAY_BUILD
