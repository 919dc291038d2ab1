// Why the last block may read what the other blocks wrote.
//
// Let D be the instruction that draws the number, t the thread of a block that executes it, A an access of one block before its
// draw, and B an access of another block, the last one, after its draw.
//   1. A thread that reaches B knows that its block drew the last number (implies_last). Nothing else bounds that variable from
//      below, so a path that requires the last number has looked at it: the thread executed D itself, or read behind a barrier
//      what t left for the block in shared memory. In both cases the block's draw comes before B. Each block draws at most once,
//      so all other blocks have drawn before.
//   2. A comes before its block's draw, with a fence in between (is_released).
//   3. There is a fence between the last block's draw and B (is_acquired).
// The draws are atomic at device scope, and each reads what the previous one wrote. The sequence fence, D, D, fence is thus the
// memory model's release and acquire pattern: what comes before the first fence happens before what follows the second.
#include <algorithm>

#include "prove/messages.h"

namespace assay::prove {

namespace {

using ptx::Mod;
using ptx::Opcode;

constexpr double kOrderSeconds = 1.0;  // for one question

// A fence for all of memory, in both directions, between threads of the device.
bool is_device_fence(const ptx::Instruction& i) {
  if (i.guard != ptx::kNone) return false;  // it may not happen
  if (i.opcode == Opcode::membar) return i.has(Mod::gl) || i.has(Mod::sys);
  return i.opcode == Opcode::fence && (i.has(Mod::gpu) || i.has(Mod::sys)) &&
         (i.has(Mod::sc) || i.has(Mod::acq_rel));
}

bool mentions_message(Terms& terms, const Path& path) {
  return std::any_of(path.begin(), path.end(), [&](Term condition) {
    const auto& vars = terms.mentions(condition);
    return std::any_of(vars.begin(), vars.end(), [&](Var v) { return terms.var(v).is_of_block; });
  });
}

}  // namespace

bool implies_last(Setting& setting, const Access& access, const GridTicket& ticket) {
  if (!mentions_message(setting.terms, access.path)) return false;
  try {
    Lowering lowering(setting.terms, setting.summary, &setting.claims, setting.solver);
    lowering.set_deadline(std::min(kOrderSeconds, setting.until - work_seconds()));
    for (const Term condition : access.path) lowering.assume(condition);
    const Poly drawn = lowering.unsigned_value(setting.terms.of(ticket.ticket.drawn));
    return lowering.proves(at_least_zero(add(drawn, lowering.unsigned_value(ticket.last), -1)),
                           kOrderSeconds);
  } catch (const TooHard&) {
    return false;
  }
}

BlockOrder::BlockOrder(Setting& setting, const Intervals& intervals, const std::set<uint32_t>& barriers)
    : setting_(setting), intervals_(intervals), barriers_(barriers), flags_(setting, *this) {
  for (uint32_t i = 0; i < setting.kernel.body.size(); ++i)
    if (is_device_fence(setting.kernel.body[i])) fences_.insert(i);
}

uint32_t BlockOrder::at(const ptx::Instruction& instruction) const {
  return static_cast<uint32_t>(&instruction - setting_.kernel.body.data());
}

bool BlockOrder::is_before(const Access& first, const Access& second) {
  // A load past the coherent caches may miss even what is ordered before it.
  if (first.instruction->has(Mod::nc) || second.instruction->has(Mod::nc)) return false;
  // A copy may still be under way behind a fence.
  if (first.instruction->opcode == Opcode::cp_async) return false;
  const auto by_ticket = [&](const GridTicket& ticket) {
    if (!is_last(second, ticket)) return false;
    // The draws of the others themselves: the last one has read what they wrote, which needs no fence.
    if (first.instruction == ticket.ticket.instruction) return true;
    Signal draw{ticket.ticket.instruction};
    std::copy(std::begin(ticket.thread), std::end(ticket.thread), draw.thread.begin());
    return is_released(first, draw) && is_acquired(second, draw);
  };
  return std::any_of(setting_.grid_tickets.begin(), setting_.grid_tickets.end(), by_ticket) ||
         flags_.is_before(first, second);
}

bool BlockOrder::fences_between(const ptx::Instruction& from, uint32_t to) const {
  return !setting_.summary.graph.reaches(at(from), to, fences_);
}

bool BlockOrder::acquires_between(const ptx::Instruction& from, uint32_t to) const {
  return from.has(Mod::acquire) || from.has(Mod::acq_rel) || fences_between(from, to);
}

bool BlockOrder::is_behind(const ptx::Instruction& barrier, uint32_t at) const {
  const uint32_t here = this->at(barrier);
  return barriers_.contains(here) && barrier.guard == ptx::kNone &&
         !setting_.summary.graph.is_in_loop(here) && !setting_.summary.graph.reaches(ptx::kNone, at, {here});
}

bool BlockOrder::is_last(const Access& access, const GridTicket& ticket) {
  const auto [known, is_new] = last_.try_emplace({&access, ticket.ticket.drawn}, false);
  if (is_new) known->second = implies_last(setting_, access, ticket);
  return known->second;
}

// Whether the thread that gives the signal alone makes the access.
bool BlockOrder::is_by(const Access& access, const Signal& signal) {
  const auto [known, is_new] = by_.try_emplace({&access, signal.instruction}, false);
  if (!is_new) return known->second;
  try {
    Lowering lowering(setting_.terms, setting_.summary, &setting_.claims, setting_.solver);
    lowering.set_deadline(std::min(kOrderSeconds, setting_.until - work_seconds()));
    for (const Term condition : access.path) lowering.assume(condition);
    std::vector<Formula> same;
    for (size_t axis = 0; axis < 3; ++axis)
      same.push_back(equal_to_zero(add(lowering.unsigned_value(setting_.summary.thread[axis]),
                                       lowering.unsigned_value(signal.thread[axis]), -1)));
    known->second = lowering.proves(all_of(std::move(same)), kOrderSeconds);
  } catch (const TooHard&) {
  }
  return known->second;
}

// Let D be the signal and t its thread. Before D, with a fence in between. Behind D no way leads back to the access, so it is in the interval of the
// draw or in an earlier one: if a thread made it in a later one, t would have passed the barrier in between behind its draw,
// and the way from there would be a way from D.
//   - Made by t itself, every way from it to D has a fence.
//   - In an earlier interval, made by any thread: t passes the barrier behind it, and then a fence before D. Or every thread
//     that made it passes a fence before the barrier, and t draws behind the barrier (which a run of assay check takes for
//     order as well: the barrier carries on what the fence has made visible).
bool BlockOrder::is_released(const Access& access, const Signal& signal) {
  const Graph& graph = setting_.summary.graph;
  const ptx::Instruction& instruction = *signal.instruction;
  const uint32_t draw = at(instruction), here = at(*access.instruction);
  if (graph.reaches(draw, here)) return false;
  const bool releases = instruction.has(Mod::release) || instruction.has(Mod::acq_rel);
  if (is_by(access, signal) && (releases || !graph.reaches(here, draw, fences_))) return true;
  if (!intervals_.meetings(here, draw).empty()) return false;
  const auto all = [&](auto holds) { return std::all_of(barriers_.begin(), barriers_.end(), holds); };
  return releases || all([&](uint32_t barrier) { return !graph.reaches(barrier, draw, fences_); }) ||
         all([&](uint32_t barrier) { return !graph.reaches(here, barrier, fences_); });
}

// Behind the draw, with a fence by t in between. Another thread knows of the draw from behind a barrier (1. above), so a
// fence on every way from D to a barrier stands before that one.
bool BlockOrder::is_acquired(const Access& access, const Signal& signal) {
  const Graph& graph = setting_.summary.graph;
  const ptx::Instruction& instruction = *signal.instruction;
  if (instruction.has(Mod::acquire) || instruction.has(Mod::acq_rel)) return true;
  const uint32_t draw = at(instruction);
  if (graph.reaches(draw, at(*access.instruction), fences_)) return false;
  return is_by(access, signal) || std::none_of(barriers_.begin(), barriers_.end(), [&](uint32_t barrier) {
           return graph.reaches(draw, barrier, fences_);
         });
}

}  // namespace assay::prove
