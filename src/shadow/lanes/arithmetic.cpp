// Arithmetic, once more in FP64: from the values, which shows what enters here, and from the shadows,
// which shows what the result's error is. Lines' shares go on by the operation's derivatives.
#include "shadow/lanes/operations.h"

namespace assay::shadow::ASSAY_BUILD {

namespace {

double clamp(const ArithmeticForm& f, double x) {
  if (f.clamps) x = x > 0 ? (x < 1 ? x : 1) : 0;
  if (f.clamps_below) x = x > 0 ? x : 0;
  return x;
}

template <class Op>
inline void evaluate(const ArithmeticForm& f, const double (*x)[32], double* out) {
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = Op::apply(x[0][l], x[1][l], x[2][l]);
  if (f.clamps || f.clamps_below)
    for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = clamp(f, out[l]);
}

inline int64_t exponent(double x) {
  return static_cast<int64_t>(numerics::bits_of(x) >> 52 & 0x7ff);
}

// What enters here, relative to the result.
[[gnu::noinline]] void count_introduced(const ArithmeticForm& f, const double* active, const double* exact,
                                        const double* introduced, const double* v) {
  Site& s = *f.site;
  alignas(64) float relative[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const float whole = static_cast<float>(std::fabs(exact[l])),
                error = static_cast<float>(std::fabs(introduced[l]));
    const float ratio = error / (whole > 1e-37f ? whole : 1e-37f);
    relative[l] = ratio < 1 ? ratio : error > 0 ? 1.0f : 0.0f;
  }
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const double r = active[l] * static_cast<double>(relative[l]);
    s.introduced2[l] += r * r;
    s.introduced_max[l] = r > s.introduced_max[l] ? r : s.introduced_max[l];
    s.flushed[l] += v[l] == 0 && exact[l] != 0 ? active[l] : 0.0;
  }
}

constexpr double kSeveralBits = 4;  // that cancel

[[gnu::noinline]] void count_addition(const ArithmeticForm& f, const double* active, const double* a,
                                      const double* b, const double* exact, const double* v) {
  Site& s = *f.site;
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const double larger = std::fabs(a[l]) > std::fabs(b[l]) ? a[l] : b[l];
    const double smaller = std::fabs(a[l]) > std::fabs(b[l]) ? b[l] : a[l];
    // Cancelled bits: how far the exponent fell. A result of zero is exact: nothing was lost.
    const auto fall = static_cast<double>(exponent(larger) - exponent(exact[l]));
    const double bits = exact[l] != 0 && fall > 0 && fall < 200 && active[l] > 0 ? fall : 0.0;
    s.cancelled[l] += bits * active[l];
    s.cancelled_max[l] = bits > s.cancelled_max[l] ? bits : s.cancelled_max[l];
    const double from = bits >= kSeveralBits ? std::fabs(larger) : 0.0;
    s.cancelled_from[l] = from > s.cancelled_from[l] ? from : s.cancelled_from[l];
    const bool same = std::fabs(v[l]) == std::fabs(larger) && smaller != 0 && exact[l] != v[l] && v[l] != 0;
    s.stagnated[l] += same ? active[l] : 0.0;
  }
}

// What overflows here, or becomes infinite because of its operands' errors (which `parts` tell by line).
void account_overflow(Error& out, const Vector* parts, uint32_t slot, double truth) {
  uint32_t most = slot;
  if (parts != nullptr) {
    most = 0;
    for (uint32_t s = 1; s <= kLineSlots; ++s)
      if (std::fabs((*parts)[s]) > (most == 0 ? 0.0f : std::fabs((*parts)[most]))) most = s;
  }
  write_broken(out, most, truth);
}

// A lane where something is not finite. What comes of a value that overflowed may be finite again, and right
// (1 / inf), or wrong: then all of it is that line's fault.
template <class Op>
[[gnu::noinline]] void account_broken(Warp& w, const ArithmeticForm& f, const Element& to,
                                      const Element* from, uint32_t lane, const double (*x)[32], double v,
                                      double exact) {
  RegisterErrors& out = errors_at(w, to.errors);
  const uint32_t bit = 1u << lane;
  double shadow[3] = {};
  bool finite = true;
  Error broken{};
  Vector parts{};
  for (uint32_t s = 0; s < f.sources; ++s) {
    shadow[s] = x[s][lane];
    finite &= std::isfinite(shadow[s]);
    if ((lanes_with_errors(w, from[s].errors) & bit) == 0) continue;
    Error source = errors_at(w, from[s].errors).error[lane];
    shadow[s] = truth_of(source, shadow[s]);
    if (is_broken(source)) {
      broken = source;
      continue;
    }
    settle(source);
    parts += reinterpret_cast<const Vector&>(source);
  }
  const double truth = clamp(f, Op::apply(shadow[0], shadow[1], shadow[2]));
  Error& e = out.error[lane];
  out.lanes |= bit;
  if (is_broken(broken)) {
    const double whole = v - truth;
    if (!std::isfinite(v) || (std::isfinite(truth) && std::fabs(whole) >= kHuge)) {
      e = broken;
      set_truth(e, truth);
      return;
    }
    if (std::isfinite(truth) && std::fabs(whole) > kSmallest) {
      std::memset(&e, 0, sizeof e);
      for (uint32_t s = 1; s <= kLineSlots; ++s)
        e.slot[s] = std::fabs(broken.slot[s]) * static_cast<float>(whole);
      e.slot[kWhole] = static_cast<float>(whole);
      return;
    }
  } else if (!std::isfinite(v)) {
    if (std::isfinite(exact) || (Op::kIsFinite && finite))
      return account_overflow(e, nullptr, slot_of(*f.site), exact);
    if (finite && std::isfinite(truth)) return account_overflow(e, &parts, 0, truth);
  }
  out.lanes &= ~bit;
}

// Writes an error whose lines are in `sum`.
#ifdef __AVX512F__
inline void write_error(Error& e, const Vector& sum, float whole, float introduced, uint32_t slot,
                        bool rounds) {
  __m512 v = reinterpret_cast<const __m512&>(sum);
  if (rounds) {
    v = _mm512_mask_mov_ps(v, static_cast<__mmask16>(1u << kFresh), _mm512_set1_ps(introduced));
    v = _mm512_mask_mov_ps(v, static_cast<__mmask16>(1u << kFreshLine),
                           _mm512_set1_ps(static_cast<float>(slot)));
  } else {
    v = _mm512_mask_add_ps(v, static_cast<__mmask16>(1u << slot), v, _mm512_set1_ps(introduced));
  }
  _mm512_store_ps(&e, _mm512_mask_mov_ps(v, 1, _mm512_set1_ps(whole)));
}
#else
inline void write_error(Error& e, const Vector& sum, float whole, float introduced, uint32_t slot,
                        bool rounds) {
  std::memcpy(&e, &sum, sizeof sum);
  if (rounds) {
    e.slot[kFresh] = introduced;
    e.slot[kFreshLine] = static_cast<float>(slot);
  } else {
    e.slot[slot] += introduced;
  }
  e.slot[kWhole] = whole;
}
#endif

// Errors of the result where no source has any.
void account_new(Warp& w, const ArithmeticForm& f, const Element& to, uint32_t lanes,
                 const double* introduced) {
  RegisterErrors& out = errors_at(w, to.errors);
  const uint32_t wrong = lanes & above(introduced, kSmallest);
  const uint32_t slot = slot_of(*f.site);
  each_lane(wrong, [&](uint32_t l) {
    const auto e = static_cast<float>(introduced[l]);
    write_error(out.error[l], Vector{}, e, e, slot, f.rounds);
  });
  out.lanes = (out.lanes & ~lanes) | wrong;
}

// How much larger the operands' relative errors became.
void count_inherited(Site& site, uint32_t lanes, uint32_t sources, const float (*error)[32],
                     const double (*x)[32], const double* exact, const double* whole,
                     const double* introduced) {
  alignas(64) float most[kWarpSize] = {}, grown[kWarpSize];
  for (uint32_t s = 0; s < sources; ++s)
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      const float relative = std::fabs(error[s][l]) / (static_cast<float>(std::fabs(x[s][l])) + 1e-37f);
      most[l] = relative > most[l] ? relative : most[l];
    }
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const float grew = static_cast<float>(std::fabs(whole[l] - introduced[l])) /
                       (static_cast<float>(std::fabs(exact[l])) + 1e-37f);
    const bool counts = most[l] > 0 && most[l] < 1e6f;
    grown[l] = counts ? grew / most[l] : 0.0f;
    most[l] = counts ? most[l] : 0.0f;
  }
  float inherited = 0, amplification = 0;
  each_lane(lanes, [&](uint32_t l) {
    inherited = most[l] > inherited ? most[l] : inherited;
    amplification = grown[l] > amplification && grown[l] < 1e12f ? grown[l] : amplification;
  });
  if (static_cast<double>(inherited) > site.inherited_max)
    site.inherited_max = static_cast<double>(inherited);
  if (static_cast<double>(amplification) > site.amplification_max)
    site.amplification_max = static_cast<double>(amplification);
}

// Errors of the result where some source has one.
template <class Op>
[[gnu::noinline]] void account_inherited(Warp& w, const ArithmeticForm& f, const Element& to,
                                         const Element* from, uint32_t lanes, const double (*x)[32],
                                         const double* exact, const double* v, const double* introduced,
                                         uint32_t& broken) {
  alignas(64) double shadow[3][32], truth[32], whole[32];
  alignas(64) float slope[3][32], error[3][32] = {};
  uint32_t has[3] = {};
  bool fresh[3] = {};
  const RegisterErrors* errors[3] = {};
  for (uint32_t s = 0; s < Op::kSources; ++s) {
    if (from[s].errors != 0) {
      errors[s] = &errors_at(w, from[s].errors);
      has[s] = errors[s]->lanes & lanes;
      fresh[s] = size_of(from[s].number) <= 2;
      each_lane(has[s], [&](uint32_t l) { error[s][l] = errors[s]->error[l].slot[kWhole]; });
    }
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) shadow[s][l] = x[s][l] - static_cast<double>(error[s][l]);
  }
  for (uint32_t s = Op::kSources; s < 3; ++s) std::memset(shadow[s], 0, sizeof shadow[s]);
  evaluate<Op>(f, shadow, truth);
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) whole[l] = v[l] - truth[l];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const Gradient g = Op::slope(x[0][l], x[1][l], x[2][l], exact[l]);
    slope[0][l] = static_cast<float>(std::fabs(g.a) < 1e30 ? g.a : 0.0);
    slope[1][l] = static_cast<float>(std::fabs(g.b) < 1e30 ? g.b : 0.0);
    slope[2][l] = static_cast<float>(std::fabs(g.c) < 1e30 ? g.c : 0.0);
  }
  broken |= lanes & not_below(whole, kHuge);
  const uint32_t wrong = lanes & ~broken & above(whole, kSmallest);
  RegisterErrors& out = errors_at(w, to.errors);
  Site& site = *f.site;
  // Of a loop that runs long, every eighth turn tells enough.
  if (site.executions < 64 * kWarpSize || site.executions / kWarpSize % 8 == 0)
    count_inherited(site, wrong, Op::kSources, error, x, exact, whole, introduced);
  const uint32_t slot = slot_of(site);
  // The common case: every lane is wrong, and so is each source in all lanes or in none.
  uint32_t count = 0, which[3] = {};
  bool even = wrong == kAllLanes;
  for (uint32_t s = 0; s < Op::kSources; ++s) {
    even &= (has[s] == 0 || has[s] == kAllLanes) && !(fresh[s] && has[s] != 0);
    if (has[s] != 0) which[count++] = s;
  }
  if (even) {
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      Vector sum = slope[which[0]][l] * reinterpret_cast<const Vector&>(errors[which[0]]->error[l]);
      for (uint32_t k = 1; k < count; ++k)
        sum += slope[which[k]][l] * reinterpret_cast<const Vector&>(errors[which[k]]->error[l]);
      write_error(out.error[l], sum, static_cast<float>(whole[l]), static_cast<float>(introduced[l]), slot,
                  f.rounds);
    }
    out.lanes = kAllLanes;
    return;
  }
  each_lane(wrong, [&](uint32_t l) {
    Vector sum = {};
    for (uint32_t s = 0; s < Op::kSources; ++s) {
      if ((has[s] >> l & 1) == 0) continue;
      const Error* e = &errors[s]->error[l];
      Error settled;
      if (fresh[s] && e->slot[kFresh] != 0) {
        settled = *e;
        settle(settled);
        e = &settled;
      }
      sum += slope[s][l] * reinterpret_cast<const Vector&>(*e);
    }
    write_error(out.error[l], sum, static_cast<float>(whole[l]), static_cast<float>(introduced[l]), slot,
                f.rounds);
  });
  out.lanes = (out.lanes & ~(lanes & ~broken)) |
              wrong;  // account_broken asks for the others' lanes, perhaps in place
}

// Of a loop that runs long, the additions of every fourth turn are counted, four times.
constexpr uint64_t kAllTurns = 256, kEachTurn = 4;

alignas(64) constexpr double kAllActive[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

template <class Op>
void account(Warp& w, const ArithmeticForm& f, uint32_t part, uint32_t lanes, const double (*x)[32]) {
  const Element& to = f.to[part];
  const Element* from = f.from[part];
  alignas(64) double exact[32], v[32], introduced[32], some[32];
  evaluate<Op>(f, x, exact);
  read(w, to, v);
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) introduced[l] = v[l] - exact[l];
  const double* active = kAllActive;
  if (lanes != kAllLanes) {
    for (uint32_t l = 0; l < kWarpSize; ++l) some[l] = (lanes >> l & 1) != 0 ? 1.0 : 0.0;
    active = some;
  }
  Site& site = *f.site;
  site.executions += static_cast<uint64_t>(__builtin_popcount(lanes));
  const uint32_t odd = lanes & not_below(introduced, kHuge);
  if ((lanes & above(introduced, 0)) != 0) count_introduced(f, active, exact, introduced, v);
  const uint64_t turn = site.executions / kWarpSize;
  if (f.adds && (turn < kAllTurns || turn % kEachTurn == 0)) {
    if (turn >= kAllTurns) {
      for (uint32_t l = 0; l < kWarpSize; ++l) some[l] = (lanes >> l & 1) != 0 ? 1.0 * kEachTurn : 0.0;
      active = some;
    }
    alignas(64) double product[32];
    const double *a = x[0], *b = x[1];
    if (f.adds_product) {
      for (uint32_t l = 0; l < kWarpSize; ++l) product[l] = x[0][l] * x[1][l];
      a = product, b = x[2];
    }
    count_addition(f, active, a, b, exact, v);
  }
  each_lane(odd, [&](uint32_t l) {
    site.overflowed +=
        !std::isfinite(v[l]) && (std::isfinite(exact[l]) || (Op::kIsFinite && std::isfinite(x[0][l])));
  });
  if (to.errors == 0) return;
  uint32_t inherits = 0, broken = odd;
  for (uint32_t s = 0; s < Op::kSources; ++s) inherits |= lanes_with_errors(w, from[s].errors);
  inherits &= lanes;
  // In place, the sources' lanes without errors must not read as having some.
  if (inherits == 0)
    account_new(w, f, to, lanes & ~odd, introduced);
  else
    account_inherited<Op>(w, f, to, from, lanes, x, exact, v, introduced, broken);
  each_lane(broken | odd, [&](uint32_t l) { account_broken<Op>(w, f, to, from, l, x, v[l], exact[l]); });
}

template <class Op>
const Inst* arithmetic(Warp& w, const Inst& i) {
  const auto& f = form_of<ArithmeticForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return run_main(w, i, f.insts);
  alignas(64) double x[kMaxParts][3][32];
  for (uint32_t p = 0; p < f.parts; ++p) {
    for (uint32_t s = 0; s < Op::kSources; ++s) read(w, f.from[p][s], x[p][s]);
    for (uint32_t s = Op::kSources; s < 3; ++s) std::memset(x[p][s], 0, sizeof x[p][s]);
  }
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr) return next;
  for (uint32_t p = 0; p < f.parts; ++p) account<Op>(w, f, p, lanes, x[p]);
  return next;
}

}  // namespace

void fill_arithmetic(Handlers& h) {
  constexpr Handler kAll[] = {
      arithmetic<Add>, arithmetic<Sub>,  arithmetic<Mul>,      arithmetic<Fma>,     arithmetic<Div>,
      arithmetic<Rcp>, arithmetic<Sqrt>, arithmetic<Rsqrt>,    arithmetic<Ex2>,     arithmetic<Lg2>,
      arithmetic<Sin>, arithmetic<Cos>,  arithmetic<Tanh>,     arithmetic<Neg>,     arithmetic<Abs>,
      arithmetic<Min>, arithmetic<Max>,  arithmetic<Copysign>, arithmetic<Convert>,
  };
  static_assert(std::size(kAll) == static_cast<size_t>(Op::Count_));
  for (size_t k = 0; k < std::size(kAll); ++k) h.arithmetic[k] = kAll[k];
}

}  // namespace assay::shadow::ASSAY_BUILD
