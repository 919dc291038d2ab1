#include "checks/race_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "checks/race_fix.h"
#include "checks/shared_place.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

using vgpu::Address;
using vgpu::OperationInfo;

std::string name_of(OperationInfo::Kind kind) {
  constexpr const char* kNames[] = {"marker", "kernel", "copy", "fill", "host call", "event", "free"};
  return kNames[static_cast<size_t>(kind)];
}

evidence::Operation operation_of(const Operation& operation) {
  return {name_of(operation.kind), operation.stream};
}

// Of a copy, what it did with the bytes in question.
evidence::AccessKind access_of(const Operation& operation, Who who) {
  return operation.kind == OperationInfo::Kind::Release ? evidence::AccessKind::Free
         : who.tick() == kCopyWrites                    ? evidence::AccessKind::Write
                                                        : evidence::AccessKind::Read;
}

evidence::Index3 index_of(const vgpu::Dim3& d) {
  return {d.x, d.y, d.z};
}

vgpu::Dim3 place_in(const vgpu::Dim3& extent, uint64_t linear) {
  if (extent.count() == 0) return {0, 0, 0};
  return {static_cast<uint32_t>(linear % extent.x), static_cast<uint32_t>(linear / extent.x % extent.y),
          static_cast<uint32_t>(linear / extent.x / extent.y)};
}

// Of several lanes that did the same, one is remembered, which may be the very thread that now meets them.
bool is_same_thread(const Touch& a, const Touch& b) {
  return a.who.block() == b.who.block() && a.who.warp() == b.who.warp() && a.lane == b.lane;
}

// Copies that an mbarrier counts are numbered after the blocks.
bool is_copy(const Operation& operation, Who who) {
  return who.block() - operation.first >= operation.grid.count();
}

// A place in code that has no source line is called by its PTX line.
Where where_of(const RaceSite& site) {
  return site.line ? Where{site.file, static_cast<int>(site.line)} : Where{site.where, 0};
}

evidence::OtherAccess other_access(const RaceContext& context, const Touch& before, const Touch& now,
                                   const Operation* operation, bool same_launch) {
  evidence::OtherAccess other;
  if (!operation) return other;
  if (operation->kind != OperationInfo::Kind::Grid) {
    other.access = access_of(*operation, before.who);
    other.operation = operation_of(*operation);
    return other;
  }
  if (const RaceSite* site = context.sites.at(before.who.site())) {
    other.where = where_of(*site);
    other.access = checks::access_of(site->kind);
    other.is_asynchronous = site->asynchronous;
    other.code.chain = chain_of(site->frames);
  }
  other.code.kernel = operation->kernel;
  other.code.origin = operation->origin;
  if (!same_launch) other.operation = operation_of(*operation);
  if (is_copy(*operation, before.who)) {
    other.is_counted_copy = true;
    return other;
  }
  other.code.block = index_of(place_in(operation->grid, before.who.block() - operation->first));
  other.is_same_block = before.who.block() == now.who.block();
  other.is_same_warp = other.is_same_block && before.who.warp() == now.who.warp();
  if (before.lane == kAnyLane) return other;
  // Of lanes that did the same one is remembered; with asynchronous copies, a thread may meet itself.
  if (is_same_thread(before, now))
    other.is_same_thread = !before.several && !now.several;
  else
    other.code.thread =
        index_of(place_in(operation->block, uint64_t{before.who.warp()} * vgpu::kWarpSize + before.lane));
  return other;
}

// What distinguishes one earlier access from another, for keys.
std::string key_of_other(const evidence::OtherAccess& other) {
  if (!other.where.file.empty()) return text_of(other.where);
  if (other.operation) return fmt::format("{} on stream {}", other.operation->kind, other.operation->stream);
  return "unknown";
}

evidence::Place place_of_shared(const vgpu::Block& owner, Address offset) {
  evidence::Place place = shared_place_of(owner, offset);
  place.owner = {owner.id[0], owner.id[1], owner.id[2]};
  return place;
}

bool is_hoisted(const RaceContext& context, const Touch& touch, const Operation* operation) {
  if (!operation || operation->kind != OperationInfo::Kind::Grid) return false;
  const RaceSite* site = context.sites.at(touch.who.site());
  return site && site->hoisted;
}

// Whether a flag in memory may have ordered a grid and the host: one set by the grid itself, or by a later grid.
bool may_be_ordered_by_flag(const RaceContext& context, const Operation& grid, const Operation& by_host) {
  return grid.syncs_with_host ||
         std::any_of(context.syncing_grids.begin(), context.syncing_grids.end(), [&](const Operation* other) {
           return other->id <= by_host.submitted && context.order.is_before(grid, *other);
         });
}

// One side is the host's own code.
void report_with_host(RaceContext& context, const Touch& device, const Touch& host, const Operation& work,
                      const Operation& by_host, Address address) {
  const RaceSite* site =
      work.kind == OperationInfo::Kind::Grid ? context.sites.at(device.who.site()) : nullptr;
  const Occurrence occurrence{Kind::DataRace, site ? static_cast<const void*>(site) : &work, &by_host};
  std::unique_lock lock(context.mutex);
  const bool waits = work.kind == OperationInfo::Kind::Grid && !work.ended;
  if (waits ? context.host_races.contains(occurrence)
            : context.log.counted(occurrence) || may_be_ordered_by_flag(context, work, by_host))
    return;
  lock.unlock();  // the evidence asks for more
  evidence::Race race;
  race.place = place_of(context.memory, address);
  race.other = other_access(context, device, host, &work, false);
  race.code.kernel = work.kernel;
  race.code.origin = work.origin;
  race.access = by_host.host_writes ? evidence::AccessKind::Write : evidence::AccessKind::Read;
  race.relation = evidence::Relation::Host;
  if (!by_host.host_place.empty()) race.host.calls = {by_host.host_place};
  race.host.system_call = by_host.host_call;
  const std::string key = fmt::format("{}|host {}|{}", to_string(Kind::DataRace),
                                      by_host.host_writes ? "writes" : "reads", key_of_other(race.other));
  const Where where = site && site->line ? race.other.where : Where{};
  Finding finding = finding_of(Kind::DataRace, where, std::move(race));
  lock.lock();
  if (waits)
    context.host_races.try_emplace(occurrence,
                                   RaceContext::HostRace{&work, &by_host, key, std::move(finding)});
  else
    context.log.add(key, std::move(finding), occurrence);
}

// The first byte that both touch.
evidence::Place place_of_race(const RaceContext& context, const Actor& actor, const Touch& before,
                              const Touch& now, Address address) {
  if (const uint32_t common = before.bytes & now.bytes)
    address += static_cast<Address>(std::countr_zero(common));
  if (actor.owner) return place_of_shared(*actor.owner, address);
  return actor.shared ? shared_place_of(*actor.warp->block, address) : place_of(context.memory, address);
}

// Two accesses on the device that nothing orders.
struct Conflict {
  const Actor& actor;
  const Touch &before, &now;
  const Operation &mine, *theirs;

  bool same_launch() const { return &mine == theirs; }
  bool same_block() const { return before.who.block() == now.who.block(); }
  // The earlier one is a copy that an mbarrier counts.
  bool copied() const { return same_launch() && actor.warp && is_copy(mine, before.who); }
  bool noncoherent() const { return same_launch() && actor.noncoherent; }
  evidence::Relation relation() const {
    using evidence::Relation;
    return !same_launch()                        ? Relation::Operations
           : copied()                            ? Relation::Copy
           : !same_block()                       ? Relation::Blocks
           : before.who.warp() != now.who.warp() ? Relation::Block
                                                 : Relation::Warp;
  }
  // What would order threads further apart orders closer ones as well.
  int rank() const { return !same_block() ? 2 : before.who.warp() != now.who.warp() ? 1 : 0; }
};

// Whether the two would be ordered if this thread had waited for the grid that its own may overlap.
bool may_overlap(const RaceContext& context, const Conflict& c) {
  return c.theirs && !c.mine.known_early.empty() && context.order.is_before(*c.theirs, c.mine);
}

evidence::Fix fix_of(const RaceContext& context, const Conflict& c) {
  if (!c.same_launch() && may_overlap(context, c)) return {.remedy = evidence::Remedy::WaitForGrid};
  if (!c.same_launch()) return {.remedy = evidence::Remedy::OrderOperations};
  if (c.copied()) return {};
  return fix_for(context, c.before, c.now, c.actor.shared);
}

// All but the code of the later access.
evidence::Race race_of(const RaceContext& context, const Conflict& c, Address address) {
  evidence::Race race;
  race.access = c.mine.kind == OperationInfo::Kind::Release ? evidence::AccessKind::Free
                                                            : checks::access_of(c.actor.kind);
  race.place = place_of_race(context, c.actor, c.before, c.now, address);
  race.relation = c.relation();
  if (!c.actor.warp || !c.same_launch()) race.operation = operation_of(c.mine);
  race.other = other_access(context, c.before, c.now, c.theirs, c.same_launch());
  race.noncoherent = c.noncoherent();
  if (!c.actor.warp && c.theirs) {
    race.code.kernel = c.theirs->kernel;
    race.code.origin = c.theirs->origin;
  }
  return race;
}

// Whichever of the two came first: one defect.
std::string key_of_conflict(const RaceContext& context, const Conflict& c, const evidence::OtherAccess& other,
                            Kind kind) {
  const RaceSite* here = c.actor.warp ? context.sites.at(c.now.who.site()) : nullptr;
  std::string keys[2] = {here ? c.mine.kernel + "|" + here->where
                              : fmt::format("{} on stream {}", name_of(c.mine.kind), c.mine.stream),
                         c.theirs ? c.theirs->kernel + "|" + key_of_other(other) : key_of_other(other)};
  std::sort(keys, keys + 2);
  return fmt::format("{}|{}|{}", to_string(kind), keys[0], keys[1]);
}

void report(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now, Address address,
            Kind kind, evidence::Remedy remedy = evidence::Remedy::None) {
  const Operation* mine = actor.state.operation;
  const Operation* theirs;
  {
    std::lock_guard lock(context.mutex);
    theirs = context.order.of_block(before.who.block());
  }
  if (mine->by_host || (theirs && theirs->by_host)) {
    const bool host_is_here = mine->by_host;
    if (!theirs || kind == Kind::SameValueStore ||
        is_hoisted(context, host_is_here ? before : now, host_is_here ? theirs : mine))
      return;
    return host_is_here ? report_with_host(context, before, now, *theirs, *mine, address)
                        : report_with_host(context, now, before, *mine, *theirs, address);
  }
  const Conflict conflict{actor, before, now, *mine, theirs};
  const Occurrence occurrence{
      kind, actor.inst ? static_cast<const void*>(actor.inst) : mine,
      theirs == mine ? static_cast<const void*>(context.sites.at(before.who.site())) : theirs,
      conflict.rank()};
  if (context.log.counted(occurrence) || is_hoisted(context, now, mine) ||
      is_hoisted(context, before, theirs))
    return;
  evidence::Race race = race_of(context, conflict, address);
  Where where;
  if (actor.warp) {
    CodeAt here = code_at(*actor.warp, *actor.inst, now.lane);
    where = std::move(here.where);
    race.code = std::move(here.code);
  } else if (race.other.where.line > 0) {
    where = race.other.where;
  }
  if (kind == Kind::SameValueStore)
    race.same_value = true;
  else
    race.fix = remedy == evidence::Remedy::None ? fix_of(context, conflict) : evidence::Fix{.remedy = remedy};
  const std::string key = key_of_conflict(context, conflict, race.other, kind);
  context.log.add(key, finding_of(kind, std::move(where), std::move(race)), occurrence);
}

}  // namespace

void note_host_sync(RaceContext& context, const Operation& grid) {
  if (grid.syncs_with_host) return;
  __atomic_store_n(&grid.syncs_with_host, true, __ATOMIC_RELAXED);
  context.syncing_grids.push_back(&grid);
}

void end_with_host(RaceContext& context, const Operation& grid) {
  grid.ended = true;
  for (auto it = context.host_races.begin(); it != context.host_races.end();) {
    if (it->second.grid != &grid) {
      ++it;
      continue;
    }
    if (!may_be_ordered_by_flag(context, grid, *it->second.by_host))
      context.log.add(it->second.key, std::move(it->second.finding), it->first);
    it = context.host_races.erase(it);
  }
}

void report_early(RaceContext& context, const Actor& actor) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(actor.access->lanes));
  const Occurrence occurrence{Kind::OutOfBounds, actor.inst};
  if (context.log.counted(occurrence)) return;
  auto [where, code] = code_at(*actor.warp, *actor.inst, lane);
  evidence::Access evidence;
  evidence.code = std::move(code);
  evidence.access = checks::access_of(actor.kind);
  evidence.place = place_of_shared(*actor.owner, actor.access->addresses[lane]);
  evidence.hazard = evidence::ClusterHazard::NotStarted;
  context.log.add(key_of(Kind::OutOfBounds, *actor.warp, *actor.inst),
                  finding_of(Kind::OutOfBounds, std::move(where), std::move(evidence)), occurrence);
}

void report_outlived(RaceContext& context, const vgpu::Block& owner, const SharedShadow::Outside& access) {
  const RaceSite* site = context.sites.at(access.who.site());
  const Operation& operation = *context.states[owner].operation;
  if (!site || site->hoisted) return;
  const Occurrence occurrence{Kind::OutOfBounds, site};
  if (context.log.counted(occurrence)) return;
  const uint64_t thread = uint64_t{access.who.warp()} * vgpu::kWarpSize + access.lane;
  evidence::Access evidence;
  evidence.code.kernel = operation.kernel;
  evidence.code.origin = operation.origin;
  evidence.code.block = index_of(place_in(operation.grid, access.who.block() - operation.first));
  evidence.code.thread = index_of(place_in(operation.block, thread));
  evidence.code.chain = chain_of(site->frames);
  evidence.access = checks::access_of(site->kind);
  evidence.place = place_of_shared(owner, Address{access.word} * 4);
  evidence.hazard = evidence::ClusterHazard::MayHaveEnded;
  const Where where{site->file, static_cast<int>(site->line)};
  context.log.add(
      fmt::format("{}|{}|{}|{}", to_string(Kind::OutOfBounds), operation.kernel, site->file, site->line),
      finding_of(Kind::OutOfBounds, where, std::move(evidence)), occurrence);
}

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 Address address) {
  report(context, actor, before, now, address, Kind::DataRace);
}

void report_unfenced(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                     Address address) {
  report(context, actor, before, now, address, Kind::DataRace, evidence::Remedy::ProxyFence);
}

void report_same_value(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       Address address) {
  report(context, actor, before, now, address, Kind::SameValueStore);
}

}  // namespace assay::checks
