#include "cudart/growth.h"

#include <fmt/format.h>

#include "cudart/context.h"
#include "cudart/graph.h"

namespace assay::cudart {
namespace {

// A leak grows in every quarter of the calls but the first, in which caches fill: rings of buffers, one
// workspace for each of several streams, a history that doubles. Fewer calls than this prove nothing.
constexpr std::size_t kQuarters = 4, kFewest = 8 * kQuarters;

bool is_held(const vgpu::Allocation& a) {
  using Kind = vgpu::MemoryKind;
  return !a.adopted && (a.kind == Kind::Device || a.kind == Kind::Managed || a.kind == Kind::Pinned ||
                        a.kind == Kind::DeviceHeap);
}

}  // namespace

Growth::Held Growth::look(Context& context) {
  Held held;
  for (const vgpu::Allocation& a : context.memory().live()) {
    held.last_id = std::max(held.last_id, a.id);
    if (!is_held(a)) continue;
    held.bytes += a.size;
    ++held.allocations;
  }
  held.streams = context.stream_count();
  held.events = context.event_count();
  held.graphs = Graphs::get().count();
  return held;
}

void Growth::call_ended(Context& context) {
  after_.push_back(look(context));
}

bool Growth::grows(uint64_t Held::*what) const {
  const std::size_t quarter = after_.size() / kQuarters;
  for (std::size_t i = 1; i < kQuarters; ++i) {
    if (after_[(i + 1) * quarter - 1].*what <= after_[i * quarter - 1].*what) return false;
  }
  return true;
}

std::optional<Finding> Growth::judge(Context& context) {
  static constexpr struct {
    uint64_t Held::*what;
    const char* one;
    const char* release;
  } kOthers[] = {{&Held::streams, "stream", "cudaStreamDestroy"},
                 {&Held::events, "event", "cudaEventDestroy"},
                 {&Held::graphs, "graph", "cudaGraphDestroy, cudaGraphExecDestroy"}};
  std::optional<Finding> finding;
  const auto found = [&](std::string message, double each) {
    finding.emplace();
    finding->kind = "leak";
    finding->message = std::move(message);
    finding->evidence = {{"calls_made", after_.size()}, {"per_call", each}};
  };
  const auto per_call = [&](uint64_t Held::*what) {  // over the calls after the first quarter
    const std::size_t quarter = after_.size() / kQuarters;
    return static_cast<double>(after_.back().*what - after_[quarter - 1].*what) /
           static_cast<double>(after_.size() - quarter);
  };
  if (after_.size() >= kFewest && grows(&Held::bytes)) {
    const uint64_t before = after_[after_.size() / kQuarters - 1].last_id;
    found(
        fmt::format(
            "each call leaves {:.0f} bytes of memory behind: {} bytes are held after {} calls with the same "
            "arguments. Free what a call allocates before it returns, or allocate it once and keep it",
            per_call(&Held::bytes), after_.back().bytes - after_.front().bytes, after_.size()),
        per_call(&Held::bytes));
    for (const vgpu::Allocation& a : context.memory().live()) {
      if (!is_held(a) || a.id <= before) continue;
      finding->evidence["allocation"] = {{"label", a.label}, {"bytes", a.size}, {"id", a.id}};
      finding->evidence["calls"] = context.calls_of(a.id);
      break;
    }
  }
  for (const auto& other : kOthers) {
    if (finding || after_.size() < kFewest || !grows(other.what)) continue;
    found(fmt::format(
              "each call leaves {:.2g} {}s behind: {} more are held after {} calls with the same arguments. "
              "Release them ({})",
              per_call(other.what), other.one, after_.back().*other.what - after_.front().*other.what,
              after_.size(), other.release),
          per_call(other.what));
  }
  after_.clear();
  return finding;
}

}  // namespace assay::cudart
