#include "checks/race_advice.h"

#include <fmt/format.h>

namespace assay::checks {

namespace {

using vgpu::AccessKind;
using vgpu::SourceFrame;

bool is_atomic(const RaceSite& site) {
  return site.kind == AccessKind::Atomic || site.kind == AccessKind::Reduction;
}

// Lines of one function at which two pieces of code part, from the outermost frame inward: a barrier between
// the calls of two inlined functions goes there, not into the functions. Both 0: it is the same line.
struct Lines {
  uint32_t before = 0, now = 0;
};
Lines lines_of(const RaceSite& before, const RaceSite& now) {
  auto a = before.frames.rbegin(), b = now.frames.rbegin();
  for (; a != before.frames.rend() && b != now.frames.rend(); ++a, ++b) {
    if (a->file != b->file || a->function != b->function) return {};
    if (a->line != b->line) return {a->line, b->line};
  }
  return {};
}

// Where a barrier has to stand. Threads get from one access to the other and, in a loop, back; the ways that
// pass no barrier are the ones to close.
std::string barrier_place(const RaceContext& context, const Touch& before, const Touch& now, bool warp) {
  const uint32_t a = before.who.site(), b = now.who.site();
  const RaceSite *first = context.sites.at(a), *second = context.sites.at(b);
  const Lines lines = first && second ? lines_of(*first, *second) : Lines{};
  if (lines.before == 0) return "";
  const Barriers counts = warp ? Barriers::Warp : Barriers::Block;
  const auto reaches = [&](uint32_t from, uint32_t to, Barriers which) {
    return context.sites.is_reached(from, to, which);
  };
  const uint32_t low = std::min(lines.before, lines.now), high = std::max(lines.before, lines.now);
  const bool in_order = lines.before < lines.now;
  const bool up = reaches(in_order ? b : a, in_order ? a : b, counts);
  // The compiler may have made two ways of one, so that no thread takes both: the source says what follows
  // what.
  const bool apart = !reaches(a, b, Barriers::None) && !reaches(b, a, Barriers::None);
  const bool down = apart || reaches(in_order ? a : b, in_order ? b : a, counts);
  if (down && up)
    return fmt::format(" between lines {} and {} and one before line {} runs again", low, high, low);
  if (down) return fmt::format(" between lines {} and {}", low, high);
  if (up) return fmt::format(" after line {}, before line {} runs again,", high, low);
  return "";
}

std::string barrier_advice(const RaceContext& context, const Touch& before, const Touch& now,
                           const RaceSite& a, const RaceSite& b, bool warp) {
  const std::string_view barrier = warp ? "`__syncwarp()`" : "`__syncthreads()`";
  const bool same_line = lines_of(a, b).before == 0;
  if (same_line && writes(a.kind) && writes(b.kind)) return "let one thread write it, or use an atomic";
  if (same_line) return fmt::format("use an atomic, or a {} between the read and the write", barrier);
  return fmt::format("a {}{} would order them", barrier, barrier_place(context, before, now, warp));
}

std::string advice_between_blocks(const RaceSite& a, const RaceSite& b) {
  if (is_atomic(a) && is_atomic(b))
    return "atomics of block scope do not order other blocks: use device scope";
  if (is_atomic(a) || is_atomic(b)) return "make the other access atomic, too, or move it to a later launch";
  if (lines_of(a, b).before == 0) return "use an atomic, or let one block do it";
  return "order blocks by a later launch, by atomics, or by a flag with `__threadfence()` on both sides";
}

}  // namespace

std::string advice(const RaceContext& context, const Touch& before, const Touch& now, bool shared) {
  const RaceSite *a = context.sites.at(before.who.site()), *b = context.sites.at(now.who.site());
  if (!a || !b) return "";
  if (b->noncoherent && writes(a->kind))
    return "read it with a plain load, without `__ldg` and `const __restrict__`, or in a later launch";
  const bool same_block = before.who.block() == now.who.block(),
             same_warp = before.who.warp() == now.who.warp();
  if (before.who.order() == kInFlight) {
    const bool same_thread =
        same_block && same_warp && before.lane == now.lane && !before.several && !now.several;
    return same_thread
               ? "wait for the copy first: `__pipeline_wait_prior` or `cp.async.wait_group`"
               : "the thread that asked for the copy has to wait for it, and then a `__syncthreads()`";
  }
  if (!same_block)
    return shared ? "a cluster barrier between the two would order them" : advice_between_blocks(*a, *b);
  return barrier_advice(context, before, now, *a, *b, same_warp);
}

}  // namespace assay::checks
