#include "cudart/growth.h"

#include <algorithm>

#include "base/growth.h"
#include "cudart/context.h"
#include "cudart/graph.h"

namespace assay::cudart {
namespace {

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

std::vector<uint64_t> Growth::values(uint64_t Held::*what) const {
  std::vector<uint64_t> values;
  for (const Held& held : after_) values.push_back(held.*what);
  return values;
}

std::optional<Finding> Growth::judge(Context& context) {
  static constexpr struct {
    uint64_t Held::*what;
    const char* name;
  } kHeld[] = {{&Held::bytes, "memory"},
               {&Held::streams, "stream"},
               {&Held::events, "event"},
               {&Held::graphs, "graph"}};
  const std::vector<Held> calls = after_;
  const auto found = std::find_if(std::begin(kHeld), std::end(kHeld),
                                  [&](const auto& held) { return keeps_growing(values(held.what)); });
  if (found == std::end(kHeld)) {
    after_.clear();
    return std::nullopt;
  }
  evidence::Launch evidence;
  evidence.growth = evidence::Growth{.what = found->name,
                                     .per_call = growth_per_call(values(found->what)),
                                     .calls = calls.size(),
                                     .held = calls.back().*found->what - calls.front().*found->what};
  if (found->what == &Held::bytes)
    name_allocation(context, calls[calls.size() / kGrowthQuarters - 1].last_id, evidence);
  after_.clear();
  return checks::finding_of(Kind::Leak, {}, std::move(evidence));
}

void Growth::name_allocation(Context& context, uint64_t last_id, evidence::Launch& evidence) {
  for (const vgpu::Allocation& a : context.memory().live()) {
    if (!is_held(a) || a.id <= last_id) continue;
    evidence.allocation = checks::allocation_of(a);
    evidence.host = context.maker_of(a.id);
    return;
  }
}

}  // namespace assay::cudart
