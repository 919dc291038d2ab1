// How the lanes of a warp diverge and reconverge: fragments, collectives, calls, exits.
#include <algorithm>
#include <bit>
#include <cstring>

#include "vgpu/grid.h"
#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

// After a yield, this many joins pass before a lower fragment takes over again: the one that was
// let through gets something done before the poller comes back.
constexpr uint32_t kPatience = 8;
// Turns that a polling fragment gets before others of its warp may run ahead of it. Until then other
// warps and blocks run: what it polls for mostly comes from there, and lanes stay together.
constexpr uint32_t kTurnsOfAPoller = 4;

void load(Warp& w, const Fragment& f) {
  if (w.frame != f.frame) deliver_pending_loads(w);  // listeners look up the function in the warp's frame
  w.active = f.lanes;
  w.frame = f.frame;
  w.planes = f.frame->planes;
  w.shadow = f.frame->shadow;
  w.poison = f.frame->poison;
  w.excused = f.excused;
}

// Deeper calls first, so that they return to where others wait; then the lowest position.
bool runs_before(const Inst* pc_a, const Frame* frame_a, const Inst* pc_b, const Frame* frame_b) {
  if (frame_a->depth != frame_b->depth) return frame_a->depth > frame_b->depth;
  return pc_a < pc_b;
}

void absorb_equals(Warp& w, const Inst* pc) {
  for (size_t i = 0; i < w.others.size();) {
    const Fragment& f = w.others[i];
    if (f.wait == Wait::None && f.pc == pc && f.frame == w.frame && f.excused == w.excused) {
      w.active |= f.lanes;
      w.others[i] = w.others.back();
      w.others.pop_back();
    } else {
      ++i;
    }
  }
}

void keep(Warp& w, const Inst* pc, uint32_t lanes, Wait wait = Wait::None, uint32_t key = 0,
          uint32_t members = 0) {
  w.others.push_back(
      {.pc = pc, .lanes = lanes, .frame = w.frame, .wait = wait, .key = key, .members = members});
}

const Inst* run_fragment(Warp& w, size_t index) {
  const Fragment chosen = w.others[index];
  w.others.erase(w.others.begin() + index);
  load(w, chosen);
  if (!w.others.empty()) absorb_equals(w, chosen.pc);
  return w.pc = chosen.pc;
}

// Lanes that wait at this collective, the running ones not among them.
uint32_t waiting_at(const Warp& w, const Inst* pc, const Frame* frame) {
  uint32_t lanes = 0;
  for (const Fragment& f : w.others)
    if (f.wait == Wait::Collective && f.pc == pc && f.frame == frame) lanes |= f.lanes;
  return lanes;
}

// Lanes have exited: a collective that waited for them may be complete.
void recheck_collectives(Warp& w) {
  for (Fragment& f : w.others)
    if (f.wait == Wait::Collective && (f.members & w.live & ~waiting_at(w, f.pc, f.frame)) == 0)
      f.wait = Wait::None;
}

// Takes `lanes` out of those that wait at this collective, and adds them to the running fragment.
void take_from_waiting(Warp& w, const Inst* pc, uint32_t lanes) {
  for (Fragment& f : w.others)
    if (f.wait == Wait::Collective && f.pc == pc && f.frame == w.frame) f.lanes &= ~lanes;
  w.others.erase_if([](const Fragment& f) { return f.lanes == 0; });
  w.active |= lanes;
}

// Lanes of the running fragment wait at a collective, one fragment for each mask.
void park_by_mask(Warp& w, const Inst* pc, const uint32_t* members, uint32_t lanes) {
  while (lanes) {
    const uint32_t mask = members[std::countr_zero(lanes)];
    uint32_t together = 0;
    for (uint32_t l = 0; l < kWarpSize; ++l)
      if ((lanes >> l & 1) && members[l] == mask) together |= 1u << l;
    keep(w, pc, together, Wait::Collective, 0, mask);
    lanes &= ~together;
  }
}

void copy_params(Warp&, Frame& to, const Frame& from, const CallForm::Piece& piece, uint32_t lanes) {
  const uint32_t from_stride = from.function->param_bytes, to_stride = to.function->param_bytes;
  if (piece.from + piece.bytes > from_stride || piece.to + piece.bytes > to_stride) return;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const uint32_t l = static_cast<uint32_t>(std::countr_zero(rest));
    std::memcpy(to.params + l * to_stride + piece.to, from.params + l * from_stride + piece.from,
                piece.bytes);
    if (to.params_poison && from.params_poison)
      std::memcpy(to.params_poison + l * to_stride + piece.to,
                  from.params_poison + l * from_stride + piece.from, piece.bytes);
  }
}

// The frame of lanes that have called `callee` from the same place and not come back: who follows them joins it, so
// that they meet at the warp-wide operations in it.
Frame* frame_of_others(Warp& w, const Function& callee, const Inst* return_to, uint32_t lanes,
                       uint32_t local_base) {
  for (const auto& frame : w.frames)
    if (frame->lanes != 0 && (frame->lanes & lanes) == 0 && frame->function == &callee &&
        frame->caller == w.frame && frame->return_to == return_to && frame->local_base == local_base)
      return frame.get();
  return nullptr;
}

}  // namespace

void set_aside(Warp& w, const Inst* pc, uint32_t lanes) {
  keep(w, pc, lanes);
  w.active &= ~lanes;
}

const Inst* next_ready(Warp& w) {
  if (w.others.size() == 1 && w.others[0].wait == Wait::None) return run_fragment(w, 0);
  size_t best = w.others.size();
  const size_t first = w.drift != 0 && stays_apart(w) && !w.others.empty() ? draw(w) % w.others.size() : 0;
  for (size_t k = 0; k < w.others.size(); ++k) {
    const size_t i = (first + k) % w.others.size();
    const Fragment& f = w.others[i];
    if (f.wait != Wait::None) continue;
    if (first != 0) {  // any one will do
      best = i;
      break;
    }
    if (best == w.others.size() || runs_before(f.pc, f.frame, w.others[best].pc, w.others[best].frame))
      best = i;
  }
  if (best == w.others.size()) {
    w.active = 0;
    return w.pc = nullptr;
  }
  return run_fragment(w, best);
}

const Inst* diverge(Warp& w, const Inst* target, uint32_t taken, const Inst* next) {
  keep(w, target, taken);
  keep(w, next, w.active & ~taken);
  return next_ready(w);
}

const Inst* rejoin(Warp& w, const Inst* next) {
  if (w.drift != 0 && stays_apart(w)) return next;
  absorb_equals(w, next);
  if (w.patience > 0) {
    --w.patience;
    return next;
  }
  for (const Fragment& f : w.others) {
    if (f.wait == Wait::None && runs_before(f.pc, f.frame, next, w.frame)) {
      keep(w, next, w.active);
      return next_ready(w);
    }
  }
  return next;
}

const Inst* yield(Warp& w, const Inst* next) {
  w.fruitless = w.polls ? w.fruitless + 1 : 0;
  w.block->cluster->polls += w.polls;
  w.polls = 0;
  w.pc = next;
  if (w.fruitless < kTurnsOfAPoller) return nullptr;
  w.fruitless = 0;
  // The fragment that has been ready longest stands first.
  for (size_t i = 0; i < w.others.size(); ++i) {
    if (w.others[i].wait != Wait::None) continue;
    keep(w, next, w.active);
    run_fragment(w, i);
    w.patience = kPatience;
    break;
  }
  return nullptr;
}

const Inst* exit_lanes(Warp& w, uint32_t lanes, const Inst* next) {
  w.live &= ~lanes;
  w.active &= ~lanes;
  if (w.frame) w.frame->lanes &= ~lanes;
  w.block->cluster->exited += static_cast<uint32_t>(std::popcount(lanes));
  recheck_collectives(w);
  recheck_barriers(*w.block);
  recheck_cluster(*w.block->cluster);
  if (w.active) return w.pc = next;
  return next_ready(w);
}

const Inst* park(Warp& w, const Inst* resume, Wait wait, uint32_t key, uint32_t members) {
  keep(w, resume, w.active, wait, key, members);
  return next_ready(w);
}

bool collect(Warp& w, const Inst& inst, uint32_t members, const Inst** next) {
  if (w.excused) {
    w.excused = false;
    return true;
  }
  const uint32_t needed = members & w.live;
  if ((needed & ~w.active) == 0) return true;
  if ((needed & ~w.active & ~waiting_at(w, &inst, w.frame)) == 0) {
    for (Fragment& f : w.others)
      if (f.wait == Wait::Collective && f.pc == &inst && f.frame == w.frame) f.wait = Wait::None;
    absorb_equals(w, &inst);
    return true;
  }
  *next = park(w, &inst, Wait::Collective, 0, members);
  return false;
}

bool collect_each(Warp& w, const Inst& inst, PlaneOffset members, const Inst** next) {
  if (w.excused) {
    w.excused = false;
    return true;
  }
  const uint32_t* named = w.plane<uint32_t>(members);
  const uint32_t off = w.active & ~w.lanes_of(inst);  // their guard is false: nothing to wait for
  const uint32_t here = w.active | waiting_at(w, &inst, w.frame);
  uint32_t complete = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if ((here & ~off) >> l & 1 && (named[l] & w.live & ~here) == 0) complete |= 1u << l;
  if (const uint32_t rest = w.active & ~off & ~complete) {
    park_by_mask(w, &inst, named, rest);
    w.active &= ~rest;
  }
  if (complete == 0) {
    if (off) {
      *next = &inst + 1;
      return false;
    }
    *next = next_ready(w);
    return false;
  }
  take_from_waiting(w, &inst, complete & ~w.active);
  return true;
}

const Inst* call(Warp& w, const Inst& inst, const Function& callee, const CallForm& form, uint32_t lanes) {
  Frame* caller = w.frame;
  uint32_t dynamic = 0;  // what the callers have taken with alloca
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if (lanes >> l & 1) dynamic = std::max(dynamic, caller->dynamic[l]);
  const uint32_t local_base = caller->local_base + caller->function->local_bytes + dynamic;
  if (local_base + callee.local_bytes > w.local_stride || caller->depth > 4096)
    return fault(w, inst, FaultInfo::Kind::StackOverflow, static_cast<uint32_t>(std::countr_zero(lanes)),
                 "the call stack is exhausted");
  if (const uint32_t rest = w.active & ~lanes) keep(w, &inst + 1, rest);
  if (Frame* there = w.drift != 0 ? frame_of_others(w, callee, &inst + 1, lanes, local_base) : nullptr) {
    there->lanes |= lanes;
    if (w.grid->watched) undefine_lanes(*there, lanes);
    for (uint32_t p = 0; p < form.inputs; ++p) copy_params(w, *there, *caller, form.input[p], lanes);
    load(w, {.pc = nullptr, .lanes = lanes, .frame = there});
    return callee.code.data();
  }
  Frame& frame = enter(w, callee);
  frame.caller = caller;
  frame.return_to = &inst + 1;
  frame.local_base = local_base;
  frame.depth = caller->depth + 1;
  frame.lanes = lanes;
  frame.call_form = &form;
  fill_planes(w, frame);
  for (uint32_t p = 0; p < form.inputs; ++p) copy_params(w, frame, *caller, form.input[p], lanes);
  load(w, {.pc = nullptr, .lanes = lanes, .frame = &frame});
  return callee.code.data();
}

const Inst* return_lanes(Warp& w, const Inst&, uint32_t lanes, const Inst* next) {
  Frame* frame = w.frame;
  if (frame->caller == nullptr) return exit_lanes(w, lanes, next);
  const CallForm& form = *frame->call_form;
  for (uint32_t p = 0; p < form.outputs; ++p) copy_params(w, *frame->caller, *frame, form.output[p], lanes);
  if (const uint32_t rest = w.active & ~lanes) keep(w, next, rest);
  frame->lanes &= ~lanes;
  load(w, {.pc = nullptr, .lanes = lanes, .frame = frame->caller});
  const Inst* back = frame->return_to;
  return w.others.empty() ? back : rejoin(w, back);
}

// Lanes that wait at different warp barriers which name the same lanes do meet: the hardware
// counts arrivals, not places. Called when nothing else in the block can go on.
bool meet_across_places(Warp& w, Handler warp_barrier) {
  for (const Fragment& first : w.others) {
    if (first.wait != Wait::Collective || first.pc->run != warp_barrier) continue;
    const uint32_t members = first.members;
    uint32_t there = 0;
    for (const Fragment& f : w.others)
      if (f.wait == Wait::Collective && f.pc->run == warp_barrier && f.members == members) there |= f.lanes;
    if ((members & w.live & ~there) != 0) continue;
    for (Fragment& f : w.others) {
      if (f.wait == Wait::Collective && f.pc->run == warp_barrier && f.members == members) {
        f.wait = Wait::None;
        ++f.pc;
      }
    }
    return true;
  }
  return false;
}

bool excuse_mixed_masks(Warp& w) {
  const auto contradict = [&](const Fragment& a, const Fragment& b) {
    return a.wait == Wait::Collective && b.wait == Wait::Collective && a.members != b.members &&
           ((a.members & b.lanes) != 0 || (b.members & a.lanes) != 0);
  };
  bool any = false;
  for (Fragment& f : w.others) {
    const bool mixed =
        std::any_of(w.others.begin(), w.others.end(), [&](const Fragment& g) { return contradict(f, g); });
    if (!mixed) continue;
    f.excused = any = true;
  }
  for (Fragment& f : w.others) {
    if (!f.excused || f.wait != Wait::Collective) continue;
    for (Listener* listener : listeners(w))
      listener->on_violation(w, *f.pc,
                             {.what = Violation::BarrierDivergence,
                              .lanes = f.lanes,
                              .first_lane = static_cast<uint32_t>(std::countr_zero(f.lanes)),
                              .detail = "lanes wait for each other with masks that differ"});
    f.wait = Wait::None;
  }
  return any;
}

}  // namespace assay::vgpu
