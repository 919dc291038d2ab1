// Where a loop stands after j more iterations is computed, not run: the registers that it carries get the values that
// they will have, and the few instructions that count and compare are executed for them by the engine itself. Between
// two places where a number of 32 bits wraps, all that is compared grows evenly, so two such probes say in which
// iteration a comparison changes its mind.
#include "vgpu/skip.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/random.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

__extension__ using Wide = __int128;

constexpr uint64_t kFirstIterations = 3;          // that are always run
constexpr uint64_t kFewIterations = 64;           // of a loop that is run whole
constexpr uint64_t kHorizon = uint64_t{1} << 40;  // iterations; no tensor is so long
constexpr uint64_t kLastIterations = 2;           // that are always run
constexpr int kRandomIterations = 4;              // of each warp
constexpr uint64_t kMostWarpsOfABlock = 64;
constexpr int kWraps = 2;  // of each number that are looked at, signed and unsigned

class Probe {
 public:
  Probe(Warp& warp, const RegularLoop& loop)
      : w_(warp), loop_(loop), lanes_(warp.active), bytes_(warp.frame->function->plane_bytes) {
    planes_.assign(w_.planes, w_.planes + bytes_);
    if (w_.poison) poison_.assign(w_.poison, w_.poison + bytes_ / 64);
    const bool any_undefined =
        std::any_of(poison_.begin(), poison_.end(), [](uint32_t lanes) { return lanes != 0; });
    if (w_.shadow && any_undefined) shadow_.assign(w_.shadow, w_.shadow + bytes_);
    left_.resize(loop.exits.size());
    right_.resize(loop.exits.size());
    narrow_.resize(loop.narrow.size());
    at(0);
    for (const RegularLoop::Carried& sum : loop.carried) {
      steps_.emplace_back();
      for (uint32_t l = 0; l < kWarpSize; ++l)
        steps_.back()[l] =
            read(w_.planes, sum.plane, sum.bytes, l) - read(planes_.data(), sum.plane, sum.bytes, l);
    }
  }
  ~Probe() {
    if (!committed_) restore();
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // What the counting part of iteration j, from now, compares.
  void at(uint64_t j) {
    go_to(j);
    for (size_t n = 0; n < loop_.narrow.size(); ++n)
      if (loop_.narrow[n].step == RegularLoop::kAtHead) keep_narrow(n);
    const Function& function = *w_.frame->function;
    for (uint32_t s = 0; s < loop_.steps.size(); ++s) {
      for (size_t e = 0; e < loop_.exits.size(); ++e)
        if (loop_.exits[e].step == s) keep_compared(e);
      const Inst& inst = function.code[loop_.steps[s]];
      inst.run(w_, inst);
      for (size_t n = 0; n < loop_.narrow.size(); ++n)
        if (loop_.narrow[n].step == s) keep_narrow(n);
    }
  }

  void restore() {
    std::memcpy(w_.planes, planes_.data(), bytes_);
    if (w_.poison) std::memcpy(w_.poison, poison_.data(), poison_.size() * sizeof(uint32_t));
    if (!shadow_.empty()) std::memcpy(w_.shadow, shadow_.data(), bytes_);
  }

  // The carried registers as they are j iterations later: what is computed from sums, iteration j - 1 computes.
  void go_to(uint64_t j) {
    restore();
    if (j == 0) return;
    for (size_t c = 0; c < loop_.carried.size(); ++c) {
      const auto [plane, bytes, is_sum] = loop_.carried[c];
      for (uint32_t rest = is_sum ? lanes_ : 0; rest != 0; rest &= rest - 1) {
        const auto l = static_cast<uint32_t>(std::countr_zero(rest));
        const uint64_t value = read(planes_.data(), plane, bytes, l) + (j - 1) * steps_[c][l];
        std::memcpy(w_.planes + plane + size_t{l} * bytes, &value, bytes);
      }
    }
    const Function& function = *w_.frame->function;
    for (const uint32_t step : loop_.steps) function.code[step].run(w_, function.code[step]);
  }

  // Leaves the warp j iterations later. Nothing but what is carried changes: other registers may share the planes of
  // what was computed on the way.
  void leave_at(uint64_t j) {
    go_to(j);
    std::vector<std::byte> later(w_.planes, w_.planes + bytes_);
    restore();
    for (const auto [plane, bytes, is_sum] : loop_.carried)
      for (uint32_t rest = lanes_; rest != 0; rest &= rest - 1) {
        const size_t at = plane + static_cast<size_t>(std::countr_zero(rest)) * bytes;
        std::memcpy(w_.planes + at, later.data() + at, bytes);
      }
    committed_ = true;
  }

  uint32_t lanes() const { return lanes_; }
  Wide left(size_t exit, uint32_t lane) const { return left_[exit][lane]; }
  Wide right(size_t exit, uint32_t lane) const { return right_[exit][lane]; }
  uint32_t narrow(size_t n, uint32_t lane) const { return narrow_[n][lane]; }

 private:
  static uint64_t read(const std::byte* planes, PlaneOffset plane, uint32_t bytes, uint32_t lane) {
    uint64_t value = 0;
    std::memcpy(&value, planes + plane + size_t{lane} * bytes, bytes);
    return value;
  }

  static Wide extended(uint64_t bits, const RegularLoop::Exit& exit) {
    if (exit.bytes == 4)
      return exit.is_signed ? Wide{static_cast<int32_t>(bits)} : Wide{static_cast<uint32_t>(bits)};
    return exit.is_signed ? Wide{static_cast<int64_t>(bits)} : Wide{bits};
  }

  void keep_compared(size_t e) {
    const RegularLoop::Exit& exit = loop_.exits[e];
    const auto side = [&](const RegularLoop::Side& s, uint32_t lane) {
      return extended(s.is_constant ? s.bits : read(w_.planes, s.plane, exit.bytes, lane), exit);
    };
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      left_[e][l] = side(exit.left, l);
      right_[e][l] = side(exit.right, l);
    }
  }

  void keep_narrow(size_t n) {
    std::memcpy(narrow_[n].data(), w_.planes + loop_.narrow[n].plane, sizeof narrow_[n]);
  }

  Warp& w_;
  const RegularLoop& loop_;
  const uint32_t lanes_;
  const size_t bytes_;
  bool committed_ = false;
  std::vector<std::byte> planes_, shadow_;
  std::vector<uint32_t> poison_;
  std::vector<std::array<uint64_t, kWarpSize>> steps_;  // by carried register
  std::vector<std::array<Wide, kWarpSize>> left_, right_;
  std::vector<std::array<uint32_t, kWarpSize>> narrow_;
};

RegularLoop::Compare negated(RegularLoop::Compare compare) {
  using C = RegularLoop::Compare;
  switch (compare) {
    case C::Equal:
      return C::NotEqual;
    case C::NotEqual:
      return C::Equal;
    case C::Less:
      return C::GreaterEqual;
    case C::LessEqual:
      return C::Greater;
    case C::Greater:
      return C::LessEqual;
    case C::GreaterEqual:
      return C::Less;
  }
  return compare;
}

// The first t at which `difference + t * growth` compares so with zero.
std::optional<Wide> first_time(RegularLoop::Compare compare, Wide difference, Wide growth) {
  using C = RegularLoop::Compare;
  switch (compare) {
    case C::Equal:
      if (difference == 0) return 0;
      if (growth == 0 || difference % growth != 0 || -difference / growth < 0) return std::nullopt;
      return -difference / growth;
    case C::NotEqual:
      if (difference != 0) return 0;
      return growth == 0 ? std::nullopt : std::optional<Wide>(1);
    case C::Greater:
      return first_time(C::Less, -difference, -growth);
    case C::GreaterEqual:
      return first_time(C::LessEqual, -difference, -growth);
    case C::Less:
      if (difference < 0) return 0;
      return growth >= 0 ? std::nullopt : std::optional<Wide>(difference / -growth + 1);
    case C::LessEqual:
      if (difference <= 0) return 0;
      return growth >= 0 ? std::nullopt : std::optional<Wide>((difference - growth - 1) / -growth);
  }
  return std::nullopt;
}

// Iterations at which a number of 32 bits passes the end of its range, signed and unsigned.
void add_wraps(uint32_t value, uint32_t next, std::vector<uint64_t>& wraps) {
  const int64_t growth = static_cast<int32_t>(next - value);
  if (growth == 0) return;
  for (const int64_t from : {int64_t{static_cast<int32_t>(value)} + (int64_t{1} << 31), int64_t{value}}) {
    const int64_t room = growth > 0 ? (int64_t{1} << 32) - from : from + 1;  // until it is out of range
    const int64_t speed = growth > 0 ? growth : -growth;
    for (int64_t wrap = 0; wrap < kWraps; ++wrap)
      wraps.push_back(static_cast<uint64_t>((room + (wrap << 32) + speed - 1) / speed));
  }
}

std::vector<uint64_t> wraps_of(Probe& probe, const RegularLoop& loop) {
  std::vector<uint64_t> wraps;
  std::vector<std::array<uint32_t, kWarpSize>> now(loop.narrow.size());
  const auto each = [&](auto f) {
    for (size_t n = 0; n < loop.narrow.size(); ++n)
      for (uint32_t rest = probe.lanes(); rest != 0; rest &= rest - 1)
        f(n, static_cast<uint32_t>(std::countr_zero(rest)));
  };
  probe.at(0);
  each([&](size_t n, uint32_t l) { now[n][l] = probe.narrow(n, l); });
  probe.at(1);
  each([&](size_t n, uint32_t l) { add_wraps(now[n][l], probe.narrow(n, l), wraps); });
  std::sort(wraps.begin(), wraps.end());
  wraps.erase(std::unique(wraps.begin(), wraps.end()), wraps.end());
  return wraps;
}

// The first iteration in [from, to), between which nothing wraps that matters, in which a lane leaves: by an exit that
// numbers of 32 bits decide, or by one of the others.
std::optional<uint64_t> exit_between(Probe& probe, const RegularLoop& loop, uint64_t from, uint64_t to,
                                     bool narrow) {
  const size_t exits = loop.exits.size();
  std::vector<std::array<Wide, kWarpSize>> difference(exits);
  probe.at(from);
  for (size_t e = 0; e < exits; ++e)
    for (uint32_t l = 0; l < kWarpSize; ++l) difference[e][l] = probe.left(e, l) - probe.right(e, l);
  if (to - from > 1) probe.at(from + 1);
  std::optional<uint64_t> first;
  for (size_t e = 0; e < exits; ++e) {
    if (loop.exits[e].narrow != narrow) continue;
    const auto compare = loop.exits[e].when ? loop.exits[e].compare : negated(loop.exits[e].compare);
    for (uint32_t rest = probe.lanes(); rest != 0; rest &= rest - 1) {
      const auto l = static_cast<uint32_t>(std::countr_zero(rest));
      const Wide growth = probe.left(e, l) - probe.right(e, l) - difference[e][l];
      const auto time = first_time(compare, difference[e][l], growth);
      if (!time || *time >= Wide{to - from}) continue;
      const uint64_t at = from + static_cast<uint64_t>(*time);
      if (!first || at < *first) first = at;
    }
  }
  return first;
}

// After how many more iterations one of the lanes leaves. `wraps`: iterations at whose begin a number of 32 bits has
// wrapped, in order.
struct Outlook {
  bool ends = false;
  uint64_t exit = 0;
  std::vector<uint64_t> wraps;
};

Outlook look(Probe& probe, const RegularLoop& loop) {
  Outlook outlook{.wraps = wraps_of(probe, loop)};
  // A comparison before the counting sees a wrap one iteration later than one behind it.
  std::vector<uint64_t> ends;
  for (const uint64_t wrap : outlook.wraps)
    for (const uint64_t at : {wrap, wrap + 1})
      if (at > 0 && at < kHorizon) ends.push_back(at);
  if (ends.empty()) ends.push_back(kHorizon);
  std::sort(ends.begin(), ends.end());
  std::optional<uint64_t> exit = exit_between(probe, loop, 0, kHorizon, false);
  uint64_t from = 0;
  for (const uint64_t end : ends) {
    if (end <= from || (exit && *exit <= from)) continue;
    if (const auto narrow = exit_between(probe, loop, from, end, true)) {
      exit = exit ? std::min(*exit, *narrow) : *narrow;
      break;
    }
    from = end;
  }
  outlook.ends = exit.has_value();
  outlook.exit = exit.value_or(0);
  return outlook;
}

// The iterations that a warp runs, from `done` on, in order: both ends, those of interest, and others that are different
// for each warp.
std::vector<uint64_t> worth_running(const Warp& w, uint64_t done, uint64_t all, const Outlook& outlook) {
  const LoopPlan& plan = w.grid->loops;
  uint64_t random = mix(plan.seed, w.block->linear * kMostWarpsOfABlock + w.index);
  const auto draw_number = [&] { return scramble(random += kGoldenStep); };
  std::vector<uint64_t> worth;
  const auto add = [&](uint64_t at) {
    if (at >= done && at <= all) worth.push_back(at);
  };
  for (const uint64_t wrap : outlook.wraps)
    for (const uint64_t at : {done + wrap - std::min<uint64_t>(wrap, 1), done + wrap, done + wrap + 1})
      add(at);
  const auto at_share = [&](double share) { return static_cast<uint64_t>(share * static_cast<double>(all)); };
  for (const double share : plan.shares) add(at_share(share) + draw_number() % 3 - 1);
  for (int i = 0; i < kRandomIterations; ++i)
    add(at_share(static_cast<double>(draw_number() >> 11) * 0x1p-53));
  std::sort(worth.begin(), worth.end());
  worth.erase(std::unique(worth.begin(), worth.end()), worth.end());
  return worth;
}

void report_endless(Warp& w, const RegularLoop& loop) {
  const Inst& inst = w.frame->function->code[loop.exits.front().branch];
  for (Listener* listener : listeners(w))
    listener->on_violation(w, inst,
                           {.what = Violation::Endless,
                            .lanes = w.active,
                            .first_lane = static_cast<uint32_t>(std::countr_zero(w.active)),
                            .detail = loop.narrow.empty() ? "" : "wraps"});
  w.grid->cut = true;
  w.grid->stopped = true;
}

bool may_skip(Warp& w, uint32_t loop, uint64_t iterations) {
  bool may = true;
  for (Listener* listener : listeners(w)) may &= listener->may_skip(w, loop, iterations);
  return may;
}

// Where the running lanes are in the loop, and what of it is worth running.
void look_anew(Warp& w, const RegularLoop& loop, LoopVisit& visit) {
  Probe probe(w, loop);
  const Outlook outlook = look(probe, loop);
  visit.lanes = w.active;
  visit.ends = outlook.ends;
  // A loop without an end is followed until everything has wrapped.
  if (outlook.ends)
    visit.last = visit.done + outlook.exit;
  else if (visit.endless_after == 0)
    visit.endless_after = visit.last = visit.done + (outlook.wraps.empty() ? 0 : outlook.wraps.back() + 1);
  else
    visit.last = visit.endless_after;
  visit.worth = worth_running(w, visit.done, visit.last, outlook);
}

// At the head of a loop: leaves out what is not worth running. False: the loop never ends, and neither would the warp.
bool leave_out(Warp& w, uint32_t index) {
  const RegularLoop& loop = w.grid->loops.loops[index];
  if (w.visits.size() <= index) w.visits.resize(w.grid->loops.loops.size());
  LoopVisit& visit = w.visits[index];
  const bool together = !loop.has_collective || w.active == w.live;
  if (!may_skip(w, index, 0) || !together || visit.arrivals++ < kFirstIterations) {
    ++visit.done;
    return true;
  }
  if (visit.lanes != w.active || (visit.ends && visit.done > visit.last)) look_anew(w, loop, visit);
  if (visit.ends && visit.done >= visit.last) {  // the last iteration; who comes here again begins anew
    visit = {};
    return true;
  }
  const auto next = std::lower_bound(visit.worth.begin(), visit.worth.end(), visit.done);
  if (!visit.ends && (next == visit.worth.end() || visit.done >= visit.last)) {
    report_endless(w, loop);
    return false;
  }
  uint64_t target = next == visit.worth.end() ? visit.last : *next;
  if (visit.ends) target = std::min(target, visit.last - std::min(visit.last, kLastIterations));
  if (visit.ends && visit.last < kFewIterations) target = visit.done;
  if (target > visit.done && may_skip(w, index, target - visit.done)) {
    Probe(w, loop).leave_at(target - visit.done);
    visit.done = target;
  }
  ++visit.done;
  return true;
}

}  // namespace

LoopPlan plan_loops(const Function& kernel, Handler join, std::vector<double> shares, uint64_t seed) {
  LoopPlan plan{.loops = regular_loops(kernel, join), .shares = std::move(shares), .seed = seed};
  plan.loop_at.assign(kernel.code.size(), 0);
  for (size_t i = 0; i < plan.loops.size(); ++i)
    plan.loop_at[plan.loops[i].head] = static_cast<uint8_t>(i + 1);
  return plan;
}

void run_leaving_out(Warp& w, int64_t slice) {
  w.slice = slice;
  w.worker->running = &w;
  const Inst* pc = w.pc;
  const std::vector<uint8_t>& loop_at = w.grid->loops.loop_at;
  while (pc) {
    if (w.frame->depth == 0 && loop_at[pc->index] != 0) {
      // Lanes that are far apart touch a page each: a turn may take seconds.
      const bool late = is_late(*w.grid, kEndOfASample);
      if (late) w.grid->cut = w.grid->stopped = true;
      if (late || !leave_out(w, loop_at[pc->index] - 1u)) {
        w.pc = pc;
        break;
      }
    }
    pc = pc->run(w, *pc);
  }
  deliver_pending_loads(w);
}

}  // namespace assay::vgpu
