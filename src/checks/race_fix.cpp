#include "checks/race_fix.h"

namespace assay::checks {

namespace {

using evidence::Fix;
using evidence::Remedy;
using vgpu::AccessKind;

bool is_atomic(const RaceSite& site) {
  return site.kind == AccessKind::Atomic || site.kind == AccessKind::Reduction;
}

// Lines of one function at which two pieces of code part, from the outermost frame inward: a barrier between
// the calls of two inlined functions goes there, not into the functions. Both 0: it is the same line, or one
// is not known.
struct Lines {
  uint32_t before = 0, now = 0;
};
Lines lines_of(const RaceSite& before, const RaceSite& now) {
  auto a = before.frames.rbegin(), b = now.frames.rbegin();
  for (; a != before.frames.rend() && b != now.frames.rend(); ++a, ++b) {
    if (a->file != b->file || a->function != b->function) return {};
    if (a->line == 0 || b->line == 0) return {};
    if (a->line != b->line) return {a->line, b->line};
  }
  return {};
}

// Where a barrier has to stand. Threads get from one access to the other and, in a loop, back; the ways that
// pass no barrier are the ones to close.
void find_barrier_place(const RaceContext& context, const Touch& before, const Touch& now, Fix& fix) {
  const uint32_t a = before.who.site(), b = now.who.site();
  const RaceSite *first = context.sites.at(a), *second = context.sites.at(b);
  const Lines lines = first && second ? lines_of(*first, *second) : Lines{};
  if (lines.before == 0) return;
  const Barriers counts = fix.warp ? Barriers::Warp : Barriers::Block;
  const auto reaches = [&](uint32_t from, uint32_t to, Barriers which) {
    return context.sites.is_reached(from, to, which);
  };
  fix.low = static_cast<int>(std::min(lines.before, lines.now));
  fix.high = static_cast<int>(std::max(lines.before, lines.now));
  const bool in_order = lines.before < lines.now;
  fix.before_again = reaches(in_order ? b : a, in_order ? a : b, counts);
  // The compiler may have made two ways of one, so that no thread takes both: the source says what follows
  // what.
  const bool apart = !reaches(a, b, Barriers::None) && !reaches(b, a, Barriers::None);
  fix.between = apart || reaches(in_order ? a : b, in_order ? b : a, counts);
}

Fix fix_in_block(const RaceContext& context, const Touch& before, const Touch& now, const RaceSite& a,
                 const RaceSite& b) {
  Fix fix;
  fix.warp = before.who.warp() == now.who.warp();
  const bool same_line = lines_of(a, b).before == 0;
  const bool both_write = writes(a.kind) && writes(b.kind);
  fix.remedy = !same_line   ? Remedy::Barrier
               : both_write ? Remedy::OneWriterOrAtomic
                            : Remedy::AtomicOrBarrier;
  if (!same_line) find_barrier_place(context, before, now, fix);
  return fix;
}

Remedy remedy_between_blocks(const RaceSite& a, const RaceSite& b) {
  if (is_atomic(a) && is_atomic(b)) return Remedy::DeviceScope;
  if (is_atomic(a) || is_atomic(b)) return Remedy::BothAtomic;
  return lines_of(a, b).before == 0 ? Remedy::AtomicOrOneBlock : Remedy::LaterLaunchOrFlag;
}

}  // namespace

Fix fix_for(const RaceContext& context, const Touch& before, const Touch& now, bool shared) {
  const RaceSite *a = context.sites.at(before.who.site()), *b = context.sites.at(now.who.site());
  if (!a || !b) return {};
  if (b->noncoherent && writes(a->kind)) return {.remedy = Remedy::PlainLoad};
  const bool same_block = before.who.block() == now.who.block(),
             same_warp = before.who.warp() == now.who.warp();
  if (before.who.order() == kInFlight) {
    const bool same_thread =
        same_block && same_warp && before.lane == now.lane && !before.several && !now.several;
    return {.remedy = same_thread ? Remedy::WaitForCopy : Remedy::WaitForCopyThenBarrier};
  }
  if (same_block) return fix_in_block(context, before, now, *a, *b);
  return {.remedy = shared ? Remedy::ClusterBarrier : remedy_between_blocks(*a, *b)};
}

}  // namespace assay::checks
