// What is said of races: the later access, the earlier one, and what would order them.
#include <fmt/format.h>

#include "base/symbol.h"
#include "finding/message_parts.h"

namespace assay {

using namespace evidence;

namespace {

constexpr std::string_view kOrderOperations =
    "use one stream, or `cudaEventRecord` and `cudaStreamWaitEvent`, or wait on the host";

// "thread (1,0,0) of the same block", "a copy on stream 2".
std::string who(const OtherAccess& other) {
  const bool in_kernel = !other.operation || other.operation->kind == "kernel";
  if (!in_kernel) return fmt::format("a {} on stream {}", other.operation->kind, other.operation->stream);
  if (other.is_counted_copy) return "an asynchronous copy";
  std::string text = other.is_same_thread ? "the same thread" : "another thread of the same warp";
  if (!other.is_same_thread && other.code.thread)
    text = fmt::format(
        "thread {} of {}", triple(*other.code.thread),
        other.is_same_block ? "the same block" : "block " + triple(other.code.block.value_or(Index3{})));
  else if (!other.is_same_warp && other.code.block)
    text = "a thread of block " + triple(*other.code.block);
  if (other.operation)
    text += fmt::format(" of kernel {} on stream {}", short_name(other.code.kernel), other.operation->stream);
  return other.is_asynchronous ? "an asynchronous copy of " + text : text;
}

// "thread (1,0,0) of the same block writes at k.cu:14", or with what it writes.
std::string side(const OtherAccess& other, std::string_view what = "") {
  std::string text = fmt::format("{} {}", who(other), verb(other.access));
  if (!what.empty()) text += fmt::format(" {}", what);
  if (!other.where.file.empty()) text += " at " + text_of(other.where);
  return text;
}

// "reads", or "the copy on stream 1 reads".
std::string self(const Race& race) {
  const bool in_kernel = !race.operation || race.operation->kind == "kernel";
  if (in_kernel) return std::string(verb(race.access));
  return fmt::format("the {} on stream {} {}", race.operation->kind, race.operation->stream,
                     verb(race.access));
}

std::string with_host(const Race& race) {
  const bool calls_system = !race.host.system_call.empty();
  return fmt::format("host code {} {} {} {}, which {}, without waiting for it: call {} first",
                     calls_system ? "in system call" : "at", text_of(race.host), verb(race.access),
                     text_of(race.place), side(race.other), text_of(Fix{.remedy = Remedy::WaitOnHost}));
}

std::string barrier_text(const Fix& fix) {
  const std::string_view barrier = fix.warp ? "`__syncwarp()`" : "`__syncthreads()`";
  if (fix.remedy == Remedy::AtomicOrBarrier)
    return fmt::format("use an atomic, or a {} between the read and the write", barrier);
  std::string place;
  if (fix.between && fix.before_again)
    place =
        fmt::format(" between lines {} and {} and one before line {} runs again", fix.low, fix.high, fix.low);
  else if (fix.between)
    place = fmt::format(" between lines {} and {}", fix.low, fix.high);
  else if (fix.before_again)
    place = fmt::format(" after line {}, before line {} runs again,", fix.high, fix.low);
  return fmt::format("a {}{} would order them", barrier, place);
}

}  // namespace

std::string text_of(const Fix& fix) {
  constexpr std::string_view kTexts[] = {
      "",
      "let one thread write it, or use an atomic",
      "",
      "",
      "read it with a plain load, without `__ldg` and `const __restrict__`, or in a later launch",
      "wait for the copy first: `__pipeline_wait_prior` or `cp.async.wait_group`",
      "the thread that issued the copy must wait for it, followed by a `__syncthreads()`",
      "a cluster barrier between the two would order them",
      "atomics of block scope do not order other blocks: use device scope",
      "make the other access atomic as well, or move it to a later launch",
      "use an atomic, or let one block do it",
      "order blocks by a later launch, by atomics, or by a flag with `__threadfence()` on both sides",
      kOrderOperations,
      "`cudaDeviceSynchronize()` or `cudaStreamSynchronize()`",
      // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): sentences longer than a line
      "this kernel was launched with programmatic stream serialization and may start before the previous one "
      "has ended: call `cudaGridDependencySynchronize()` (`griddepcontrol.wait`) before the access",
      "the bulk copy reads through the async proxy: each thread that writes needs a `fence.proxy.async` "
      "after its write, before the barrier",
  };
  if (fix.remedy == Remedy::Barrier || fix.remedy == Remedy::AtomicOrBarrier) return barrier_text(fix);
  return std::string(kTexts[static_cast<std::size_t>(fix.remedy)]);
}

std::string race_text(const Race& race) {
  if (race.relation == Relation::Host) return with_host(race);
  const std::string place = text_of(race.place);
  std::string text;
  if (race.noncoherent) {
    text = fmt::format(
        "{} {} with a non-coherent load (`ld.global.nc`) after {}; the read-only cache may still hold the "
        "old "
        "value, even though the two are ordered",
        self(race), place, side(race.other, "it"));
  } else {
    text = fmt::format(
        "{} {}, which {}; {}", self(race), place, side(race.other),
        race.relation == Relation::Copy
            ? "this thread has neither waited at the copy's mbarrier nor synchronised with one that has"
            : "nothing orders the two");
  }
  if (race.same_value) return text + " (it stores the value that is already there)";
  const std::string fix = text_of(race.fix);
  if (!fix.empty()) text += ": " + fix;
  return race.schedule == 0 ? text : fmt::format("{} (with `--seed {}`)", text, race.schedule);
}

}  // namespace assay
