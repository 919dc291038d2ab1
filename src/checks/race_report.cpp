#include "checks/race_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/symbol.h"

namespace assay::checks {

namespace {

using vgpu::AccessKind;
using vgpu::Address;
using vgpu::OperationInfo;

constexpr std::string_view kRace = "data-race", kSameValue = "same-value-store", kOutside = "out-of-bounds";

std::string_view noun(AccessKind kind) {
  constexpr std::string_view kNouns[] = {"read", "write", "atomic", "atomic"};
  return kNouns[static_cast<size_t>(kind)];
}

std::string_view name_of(OperationInfo::Kind kind) {
  constexpr std::string_view kNames[] = {"marker", "kernel", "copy", "fill", "host call", "event", "free"};
  return kNames[static_cast<size_t>(kind)];
}

std::string triple(const vgpu::Dim3& d) {
  return fmt::format("({},{},{})", d.x, d.y, d.z);
}

vgpu::Dim3 place_in(const vgpu::Dim3& extent, uint64_t linear) {
  if (extent.count() == 0) return {0, 0, 0};
  return {static_cast<uint32_t>(linear % extent.x), static_cast<uint32_t>(linear / extent.x % extent.y),
          static_cast<uint32_t>(linear / extent.x / extent.y)};
}

struct Side {
  std::string text;  // "write at k.cu:14 by thread (1,0,0) of block (0,0,0)"
  std::string key;
};

// Of several lanes that did the same, one is remembered, which may be the very thread that now meets them.
bool is_same_thread(const Touch& a, const Touch& b) {
  return a.who.block() == b.who.block() && a.who.warp() == b.who.warp() && a.lane == b.lane;
}

// Copies that an mbarrier counts are numbered after the blocks.
bool is_copy(const Operation& operation, Who who) {
  return who.block() - operation.first >= operation.grid.count();
}

Side other_side(const RaceContext& context, const Touch& before, const Touch& now, const Operation* operation,
                bool same_launch, Json& evidence) {
  const bool same_block = before.who.block() == now.who.block();
  Json& json = evidence["other"] = Json::object();
  if (!operation) return {"an earlier access", "?"};
  if (operation->kind != OperationInfo::Kind::Grid) {
    json = {{"operation", name_of(operation->kind)}, {"stream", operation->stream}};
    return {fmt::format("{} on stream {}", name_of(operation->kind), operation->stream),
            std::string(name_of(operation->kind))};
  }
  const RaceSite* site = context.sites.at(before.who.site());
  const std::string_view what = !site                ? "access"
                                : site->asynchronous ? "asynchronous copy"
                                                     : noun(site->kind);
  const std::string where = site ? site->where : "an earlier instruction";
  if (is_copy(*operation, before.who)) {
    if (site) json = {{"file", site->file}, {"line", site->line}};
    json["access"] = what;
    return {fmt::format(
                "{} at {}: this thread has neither waited at its mbarrier nor synchronised with one that has",
                what, where),
            where};
  }
  const vgpu::Dim3 thread =
      place_in(operation->block, uint64_t{before.who.warp()} * vgpu::kWarpSize + before.lane);
  const vgpu::Dim3 block = place_in(operation->grid, before.who.block() - operation->first);
  if (site) json = {{"file", site->file}, {"line", site->line}};
  json["access"] = what;
  json["kernel"] = operation->kernel;
  json["block"] = {block.x, block.y, block.z};
  std::string text = fmt::format("{} at {} by another thread of the same warp", what, where);
  if (!is_same_thread(before, now)) {
    json["thread"] = {thread.x, thread.y, thread.z};
    text = fmt::format("{} at {} by thread {} of {}", what, where, triple(thread),
                       same_block ? "the same block" : "block " + triple(block));
  }
  if (!same_launch) {
    json["stream"] = operation->stream;
    text += fmt::format(" of kernel {} on stream {}", short_name(operation->kernel), operation->stream);
  }
  return {std::move(text), where};
}

std::string describe_shared(const vgpu::Block& owner, Address offset) {
  return fmt::format("shared memory of block ({},{},{}), offset {}", owner.id[0], owner.id[1], owner.id[2],
                     offset);
}

bool is_hoisted(const RaceContext& context, const Touch& touch, const Operation* operation) {
  if (!operation || operation->kind != OperationInfo::Kind::Grid) return false;
  const RaceSite* site = context.sites.at(touch.who.site());
  return site && site->hoisted;
}

// Whether the host could know more of a grid than that it was asked for: from itself, or from one that came
// after it.
bool is_talked_about(const RaceContext& context, const Operation& grid, const Operation& by_host) {
  return grid.talks_to_host ||
         std::any_of(context.talkers.begin(), context.talkers.end(), [&](const Operation* talker) {
           return talker->id <= by_host.submitted && context.order.is_before(grid, *talker);
         });
}

// One side is the host's own code.
void report_with_host(RaceContext& context, const Touch& device, const Touch& host, const Operation& work,
                      const Operation& by_host, Address address) {
  const RaceSite* site =
      work.kind == OperationInfo::Kind::Grid ? context.sites.at(device.who.site()) : nullptr;
  const Occurrence occurrence{kRace, site ? static_cast<const void*>(site) : &work, &by_host};
  std::unique_lock lock(context.mutex);
  const bool waits = work.kind == OperationInfo::Kind::Grid && !work.ended;
  if (waits ? context.host_races.contains(occurrence)
            : context.log.counted(occurrence) || is_talked_about(context, work, by_host))
    return;
  lock.unlock();  // for what the texts ask
  Finding finding;
  finding.kind = kRace;
  Json& evidence = finding.evidence;
  const std::string what = describe_address(context.memory, address, evidence);
  const Side other = other_side(context, device, host, &work, false, evidence);
  const std::string_view verb = by_host.host_writes ? "writes" : "reads";
  finding.message = fmt::format("host code {} {} {} {}, and has not waited for the {}",
                                by_host.host_place.starts_with("system call") ? "in" : "at",
                                by_host.host_place, verb, what, other.text);
  if (const auto& at = evidence["other"]; at.contains("file")) finding.where = {at["file"], at["line"]};
  if (!work.kernel.empty()) evidence["kernel"] = work.kernel;
  evidence["access"] = by_host.host_writes ? "write" : "read";
  evidence["host"] = by_host.host_place;
  evidence["relation"] = "host";
  const std::string key = fmt::format("{}|host {}|{}", kRace, verb, other.key);
  lock.lock();
  if (waits)
    context.host_races.try_emplace(occurrence,
                                   RaceContext::HostRace{&work, &by_host, key, std::move(finding)});
  else
    context.log.add(key, std::move(finding), occurrence);
}

void report(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now, Address address,
            std::string_view kind) {
  const Operation* mine = actor.state.operation;
  const Operation* theirs;
  {
    std::lock_guard lock(context.mutex);
    theirs = context.order.of_block(before.who.block());
  }
  if (mine->by_host || (theirs && theirs->by_host)) {
    const bool host_is_here = mine->by_host;
    if (!theirs || kind == kSameValue ||
        is_hoisted(context, host_is_here ? before : now, host_is_here ? theirs : mine))
      return;
    return host_is_here ? report_with_host(context, before, now, *theirs, *mine, address)
                        : report_with_host(context, now, before, *mine, *theirs, address);
  }
  const Occurrence occurrence{
      kind, actor.inst ? static_cast<const void*>(actor.inst) : mine,
      theirs == mine ? static_cast<const void*>(context.sites.at(before.who.site())) : theirs};
  if (context.log.counted(occurrence) || is_hoisted(context, now, mine) ||
      is_hoisted(context, before, theirs))
    return;
  Finding finding;
  if (actor.warp) finding = finding_at(kind, *actor.warp, *actor.inst, now.lane);
  finding.kind = kind;
  Json& evidence = finding.evidence;
  const bool same_launch = mine == theirs, same_block = before.who.block() == now.who.block();
  const bool copied = same_launch && actor.warp && is_copy(*mine, before.who);
  const std::string what = actor.owner    ? describe_shared(*actor.owner, address)
                           : actor.shared ? fmt::format("shared memory, offset {}", address)
                                          : describe_address(context.memory, address, evidence);
  const Side other = other_side(context, before, now, theirs, same_launch, evidence);
  std::string self(noun(actor.kind));
  if (!actor.warp) {
    self = fmt::format("the {} on stream {}: its {}", name_of(mine->kind), mine->stream, noun(actor.kind));
    evidence["operation"] = name_of(mine->kind);
    if (const auto& at = evidence["other"]; at.contains("file")) finding.where = {at["file"], at["line"]};
    if (theirs && !theirs->kernel.empty()) evidence["kernel"] = theirs->kernel;
  }
  if (!same_launch) evidence["stream"] = mine->stream;
  evidence["access"] = noun(actor.kind);
  evidence["relation"] = !same_launch                          ? "operations"
                         : copied                              ? "copy"
                         : !same_block                         ? "blocks"
                         : before.who.warp() != now.who.warp() ? "block"
                                                               : "warp";
  finding.message = fmt::format("{} of {} is not ordered with the {}", self, what, other.text);
  // Whichever of the two came first: one defect.
  const RaceSite* here = actor.warp ? context.sites.at(now.who.site()) : nullptr;
  std::string keys[2] = {here ? mine->kernel + "|" + here->where : self,
                         theirs ? theirs->kernel + "|" + other.key : other.key};
  std::sort(keys, keys + 2);
  if (kind == kSameValue) {
    finding.severity = Severity::Note;
    finding.message += "; it stores the value that is there";
  }
  context.log.add(fmt::format("{}|{}|{}", kind, keys[0], keys[1]), std::move(finding), occurrence);
}

}  // namespace

void begin_to_talk(RaceContext& context, const Operation& grid) {
  if (grid.talks_to_host) return;
  __atomic_store_n(&grid.talks_to_host, true, __ATOMIC_RELAXED);
  context.talkers.push_back(&grid);
}

void end_with_host(RaceContext& context, const Operation& grid) {
  grid.ended = true;
  for (auto it = context.host_races.begin(); it != context.host_races.end();) {
    if (it->second.grid != &grid) {
      ++it;
      continue;
    }
    if (!is_talked_about(context, grid, *it->second.by_host))
      context.log.add(it->second.key, std::move(it->second.finding), it->first);
    it = context.host_races.erase(it);
  }
}

void report_early(RaceContext& context, const Actor& actor) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(actor.access->lanes));
  const Occurrence occurrence{kOutside, actor.inst};
  if (context.log.counted(occurrence)) return;
  Finding finding = finding_at(kOutside, *actor.warp, *actor.inst, lane);
  finding.evidence["space"] = "shared";
  finding.evidence["access"] = noun(actor.kind);
  finding.message =
      fmt::format("{} of {}: nothing makes sure that that block has begun; a cluster barrier would",
                  noun(actor.kind), describe_shared(*actor.owner, actor.access->addresses[lane]));
  context.log.add(key_of(kOutside, *actor.warp, *actor.inst), std::move(finding), occurrence);
}

void report_outlived(RaceContext& context, const vgpu::Block& owner, const SharedShadow::Outside& access) {
  const RaceSite* site = context.sites.at(access.who.site());
  const Operation& operation = *state_of(owner).operation;
  if (!site || site->hoisted) return;
  const Occurrence occurrence{kOutside, site};
  if (context.log.counted(occurrence)) return;
  Finding finding;
  finding.kind = kOutside;
  finding.where = {site->file, static_cast<int>(site->line)};
  const vgpu::Dim3 block = place_in(operation.grid, access.who.block() - operation.first);
  const vgpu::Dim3 thread =
      place_in(operation.block, uint64_t{access.who.warp()} * vgpu::kWarpSize + access.lane);
  Json& evidence = finding.evidence;
  evidence["kernel"] = operation.kernel;
  evidence["block"] = {block.x, block.y, block.z};
  evidence["thread"] = {thread.x, thread.y, thread.z};
  evidence["space"] = "shared";
  evidence["access"] = noun(site->kind);
  finding.message =
      fmt::format("{} of {}: nothing keeps that block from ending before, and its memory with it",
                  noun(site->kind), describe_shared(owner, Address{access.word} * 4));
  context.log.add(fmt::format("{}|{}|{}|{}", kOutside, operation.kernel, site->file, site->line),
                  std::move(finding), occurrence);
}

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 Address address) {
  report(context, actor, before, now, address, kRace);
}

void report_same_value(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       Address address) {
  report(context, actor, before, now, address, kSameValue);
}

}  // namespace assay::checks
