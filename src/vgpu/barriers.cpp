// Block barriers and the cluster barrier.
//
// Threads that have exited count as arrived, as on hardware: a whole-block barrier is complete when
// every live lane of every warp has arrived. A barrier with a count is complete when that many threads
// have arrived; a warp counts as 32 once all its live lanes are there.
#include <algorithm>
#include <bit>

#include "vgpu/program.h"
#include "vgpu/run.h"
#include "vgpu/watch.h"

namespace assay::vgpu {

namespace {

// Of a barrier at which somebody has arrived.
bool complete(const Block& block, const BlockBarrier& barrier) {
  // Waiting for more threads than the block has is waiting for ever, as on hardware.
  if (barrier.threads > block.warps.size() * kWarpSize) return false;
  const bool whole = barrier.threads == 0 || barrier.threads >= block.threads;
  if (whole) {
    // From the last warp on: the first ones arrive first, so the answer mostly comes at once.
    for (size_t i = block.warps.size(); i-- > 0;)
      if ((block.warps[i].live & ~barrier.arrived[i]) != 0) return false;
    return true;
  }
  uint32_t threads = 0;
  for (const Warp& w : block.warps) {
    const uint32_t there = barrier.arrived[w.index];
    threads +=
        (there != 0 && (w.live & ~there) == 0) ? kWarpSize : static_cast<uint32_t>(std::popcount(there));
  }
  return threads >= barrier.threads;
}

// Whether a fragment does nothing more than return from the kernel.
bool is_about_to_exit(const Fragment& f) {
  if (f.wait != Wait::None || f.frame->depth != 0) return false;
  const auto& body = f.frame->function->ptx->body;
  const Inst* pc = f.pc;
  const Inst* end = f.frame->function->code.data() + f.frame->function->code.size() - 1;
  while (pc < end && pc->source == pc[1].source) ++pc;  // past a join to the instruction itself
  if (pc->source >= body.size()) return true;
  const ptx::Instruction& inst = body[pc->source];
  return (inst.opcode == ptx::Opcode::ret || inst.opcode == ptx::Opcode::exit) && inst.guard == ptx::kNone;
}

// Where a thread may get from an instruction (positions in the PTX body), places that it does not pass left out.
std::vector<bool> reached(const ptx::Function& function, uint32_t from, uint32_t without) {
  const auto& body = function.body;
  std::vector<bool> seen(body.size() + 1, false);
  std::vector<uint32_t> open{from};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (at == without || at > body.size() || seen[at]) continue;
    seen[at] = true;
    if (at == body.size()) continue;  // the end
    const ptx::Instruction& inst = body[at];
    if (inst.opcode == ptx::Opcode::ret || inst.opcode == ptx::Opcode::exit) seen[body.size()] = true;
    for (const ptx::Operand& operand : inst.operands) {
      if (operand.kind == ptx::Operand::Kind::Label) open.push_back(operand.index);
      if (operand.symbol.kind == ptx::SymbolRef::Kind::TargetList && inst.opcode == ptx::Opcode::brx_idx)
        for (uint32_t target : function.target_lists.at(operand.symbol.index).targets) open.push_back(target);
    }
    const bool leaves = inst.opcode == ptx::Opcode::bra || inst.opcode == ptx::Opcode::ret ||
                        inst.opcode == ptx::Opcode::exit;
    if ((!leaves || inst.guard != ptx::kNone) && inst.opcode != ptx::Opcode::brx_idx) open.push_back(at + 1);
  }
  return seen;
}

// Whether every way from `from` to the end of the function passes `place`.
bool is_on_every_way(const ptx::Function& function, uint32_t from, uint32_t place) {
  return !reached(function, from + 1, place)[function.body.size()];
}

// Whether a way leads from `from` to `place`.
bool may_come(const ptx::Function& function, uint32_t from, uint32_t place) {
  return place < function.body.size() && reached(function, from, ptx::kNone)[place];
}

// A fragment has passed the barrier by when it stands where those at the barrier still have to come: it will
// not turn up. One that leaves the kernel on a way of its own is no such case: an early return is legal.
bool has_passed_by(const Fragment& f, const Warp& w, const Inst& barrier) {
  return f.frame == w.frame && !is_about_to_exit(f) &&
         is_on_every_way(*f.frame->function->ptx, barrier.source, f.pc->source);
}

// The first lanes of a warp come to an aligned barrier. The scheduler may have sent them ahead of others that
// are on their way; whether those come to the same place is judged when the phase ends.
void note_arrival(Warp& w, BlockBarrier& barrier, const Inst& inst, uint32_t lanes) {
  if (barrier.arrived[w.index] != 0) {
    if (barrier.place[w.index] != &inst) barrier.apart[w.index] = true;
    return;
  }
  barrier.place[w.index] = &inst;
  barrier.apart[w.index] = false;
  barrier.absent[w.index] = 0;
  if (lanes == w.live) return;
  for (const Fragment& f : w.others) {
    if (!has_passed_by(f, w, inst)) continue;
    // Under a schedule in which lanes drift, who stands elsewhere may as well be behind.
    if (w.drift != 0 && may_come(*f.frame->function->ptx, f.pc->source, inst.source)) continue;
    barrier.absent[w.index] |= f.lanes;
  }
}

void judge_alignment(Block& block, const BlockBarrier& barrier) {
  for (Warp& w : block.warps) {
    const Inst* place = barrier.place[w.index];
    if (barrier.arrived[w.index] == 0 || !place) continue;
    const uint32_t missed = barrier.absent[w.index] & ~barrier.arrived[w.index];
    if (missed == 0 && !barrier.apart[w.index]) continue;
    const uint32_t lanes = barrier.arrived[w.index];
    for (Listener* listener : listeners(w))
      listener->on_violation(w, *place,
                             {.what = Violation::BarrierDivergence,
                              .lanes = lanes,
                              .first_lane = static_cast<uint32_t>(std::countr_zero(lanes)),
                              .detail = missed ? "part of the warp bypasses this barrier"
                                               : "lanes of one warp meet at different barriers"});
  }
}

void finish(Block& block, uint32_t id) {
  BlockBarrier& barrier = block.barriers[id];
  judge_alignment(block, barrier);
  ++block.cluster->barriers;
  for (Listener* listener : listeners(block.warps.front())) listener->on_block_barrier(block, id);
  barrier.last_votes = barrier.votes;
  barrier.last_voters = barrier.voters;
  barrier.votes = barrier.voters = 0;
  block.open_barriers &= ~(1u << id);
  barrier.threads = 0;
  std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0);
  std::fill(barrier.place.begin(), barrier.place.end(), nullptr);
  for (Warp& w : block.warps) {
    if (w.waits_at == id + 1) {
      w.waits_at = 0;
      w.pc = w.resume;
    }
    for (Fragment& f : w.others)
      if (f.wait == Wait::Barrier && f.key == id) f.wait = Wait::None;
  }
}

}  // namespace

const Inst* arrive(Warp& w, const Inst& inst, uint32_t id, uint32_t threads, uint32_t lanes, bool waits,
                   bool aligned) {
  Block& block = *w.block;
  BlockBarrier& barrier = block.barriers[id];
  block.open_barriers |= 1u << id;
  barrier.used = true;
  if (threads) barrier.threads = threads;
  if (aligned && !block.grid->listeners.empty()) note_arrival(w, barrier, inst, lanes);
  barrier.arrived[w.index] |= lanes;
  if (!waits)
    for (Listener* listener : listeners(w)) listener->on_fence(w, inst, Scope::Thread, lanes);
  if (complete(block, barrier)) {
    finish(block, id);
    return &inst + 1;
  }
  if (!waits) return &inst + 1;
  if (!w.others.empty()) return park(w, &inst + 1, Wait::Barrier, id, 0);
  w.waits_at = id + 1;
  w.resume = &inst + 1;
  return w.pc = nullptr;
}

void recheck_barriers(Block& block) {
  for (uint32_t id = 0; block.open_barriers >> id != 0; ++id)
    if ((block.open_barriers >> id & 1) != 0 && complete(block, block.barriers[id])) finish(block, id);
}

void recheck_cluster(Cluster& cluster) {
  uint32_t threads = 0;
  for (const Block& b : cluster.blocks) threads += b.threads;
  if (cluster.arrived == 0 || cluster.arrived + cluster.exited < threads) return;
  for (Listener* listener : listeners(cluster.blocks.front().warps.front()))
    listener->on_cluster_barrier(cluster);
  cluster.arrived = 0;
  ++cluster.phase;
  ++cluster.barriers;
  for (Block& b : cluster.blocks)
    for (Warp& w : b.warps)
      for (Fragment& f : w.others) {
        if (f.wait != Wait::Cluster) continue;
        f.wait = Wait::None;
        for (Listener* listener : listeners(w)) listener->on_cluster_wait(w, f.lanes);
      }
}

void arrive_cluster(Warp& w, const Inst& inst, uint32_t lanes, bool releases) {
  Cluster& cluster = *w.block->cluster;
  for (Listener* listener : listeners(w)) listener->on_cluster_arrive(w, inst, lanes, releases);
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if (lanes >> l & 1) w.cluster_phase[l] = cluster.phase;
  cluster.arrived += static_cast<uint32_t>(std::popcount(lanes));
  recheck_cluster(cluster);
}

const Inst* wait_cluster(Warp& w, const Inst& inst) {
  uint32_t through = 0;  // lanes that arrived in an earlier phase
  for (uint32_t l = 0; l < kWarpSize; ++l)
    through |= uint32_t{w.cluster_phase[l] != w.block->cluster->phase} << l;
  if (through &= w.active) {
    if (const uint32_t rest = w.active & ~through) set_aside(w, &inst, rest);
    for (Listener* listener : listeners(w)) listener->on_cluster_wait(w, w.active);
    return &inst + 1;
  }
  return park(w, &inst + 1, Wait::Cluster, 0, 0);
}

}  // namespace assay::vgpu
