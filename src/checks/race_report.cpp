#include "checks/race_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/symbol.h"
#include "checks/race_advice.h"
#include "checks/shared_place.h"
#include "vgpu/grid.h"

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

std::string_view verb(AccessKind kind) {
  constexpr std::string_view kVerbs[] = {"reads", "writes", "atomically updates", "atomically updates"};
  return kVerbs[static_cast<size_t>(kind)];
}

std::string_view name_of(OperationInfo::Kind kind) {
  constexpr std::string_view kNames[] = {"marker", "kernel", "copy", "fill", "host call", "event", "free"};
  return kNames[static_cast<size_t>(kind)];
}

// Of a copy, what it did with the bytes in question.
std::string_view verb(const Operation& operation, Who who) {
  return operation.kind == OperationInfo::Kind::Release ? "frees"
         : who.tick() == kCopyWrites                    ? "writes"
                                                        : "reads";
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
  std::string who, does, where;  // "thread (1,0,0) of the same block", "writes", "k.cu:14"

  // "thread (1,0,0) of the same block writes at k.cu:14", or with what it writes.
  std::string text(std::string_view what = "") const {
    return fmt::format("{} {}{}{}{}{}", who, does, what.empty() ? "" : " ", what, where.empty() ? "" : " at ",
                       where);
  }
  std::string key() const { return where.empty() ? who : where; }
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
  Json& json = evidence["other"] = Json::object();
  if (!operation) return {"something earlier", "uses", ""};
  if (operation->kind != OperationInfo::Kind::Grid) {
    const std::string_view name = name_of(operation->kind);
    json = {{"operation", name}, {"stream", operation->stream}};
    return {fmt::format("a {} on stream {}", name, operation->stream),
            std::string(verb(*operation, before.who)), ""};
  }
  const RaceSite* site = context.sites.at(before.who.site());
  const bool asynchronous = site && site->asynchronous;
  const std::string does(site ? verb(site->kind) : "uses");
  const std::string where = site ? site->where : "an earlier instruction";
  if (site) json = {{"file", site->file}, {"line", site->line}};
  json["access"] = !site ? "access" : asynchronous ? "asynchronous copy" : noun(site->kind);
  if (site)
    if (Json chain = chain_of(site->frames); !chain.is_null()) json["chain"] = std::move(chain);
  if (is_copy(*operation, before.who)) return {"an asynchronous copy", does, where};
  const vgpu::Dim3 thread =
      place_in(operation->block, uint64_t{before.who.warp()} * vgpu::kWarpSize + before.lane);
  const vgpu::Dim3 block = place_in(operation->grid, before.who.block() - operation->first);
  json["kernel"] = operation->kernel;
  json["block"] = {block.x, block.y, block.z};
  const bool same_block = before.who.block() == now.who.block();
  // Of lanes that did the same one is remembered; with asynchronous copies, a thread may meet itself.
  const bool same_thread = is_same_thread(before, now), several = before.several || now.several;
  std::string who = several ? "another thread of the same warp" : "the same thread";
  if (!same_thread) {
    json["thread"] = {thread.x, thread.y, thread.z};
    who = fmt::format("thread {} of {}", triple(thread),
                      same_block ? "the same block" : "block " + triple(block));
  }
  if (!same_launch) {
    json["stream"] = operation->stream;
    who += fmt::format(" of kernel {} on stream {}", short_name(operation->kernel), operation->stream);
  }
  return {asynchronous ? "an asynchronous copy of " + who : who, does, where};
}

std::string describe_shared_of(const vgpu::Block& owner, Address offset, Json& evidence) {
  return fmt::format("{} of block ({},{},{})", describe_shared(owner, offset, evidence), owner.id[0],
                     owner.id[1], owner.id[2]);
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
  const std::string_view does = verb(by_host.host_writes ? AccessKind::Store : AccessKind::Load);
  finding.message = fmt::format(
      "host code {} {} {} {}, which {}, and has not waited for that: `cudaDeviceSynchronize()` or "
      "`cudaStreamSynchronize()` first",
      by_host.host_place.starts_with("system call") ? "in" : "at", by_host.host_place, does, what,
      other.text());
  if (const auto& at = evidence["other"]; at.contains("file")) finding.where = {at["file"], at["line"]};
  if (!work.kernel.empty()) evidence["kernel"] = work.kernel;
  evidence["access"] = by_host.host_writes ? "write" : "read";
  evidence["host"] = by_host.host_place;
  evidence["relation"] = "host";
  const std::string key = fmt::format("{}|host {}|{}", kRace, does, other.key());
  lock.lock();
  if (waits)
    context.host_races.try_emplace(occurrence,
                                   RaceContext::HostRace{&work, &by_host, key, std::move(finding)});
  else
    context.log.add(key, std::move(finding), occurrence);
}

// The first byte that both touch.
std::string place_text(const RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       Address address, Json& evidence) {
  if (const uint32_t common = before.bytes & now.bytes)
    address += static_cast<Address>(std::countr_zero(common));
  if (actor.owner) return describe_shared_of(*actor.owner, address, evidence);
  return actor.shared ? describe_shared(*actor.warp->block, address, evidence)
                      : describe_address(context.memory, address, evidence);
}

// Two accesses on the device, as far as the texts need them.
struct Meeting {
  const Actor& actor;
  const Touch &before, &now;
  const Operation &mine, *theirs;

  bool same_launch() const { return &mine == theirs; }
  bool same_block() const { return before.who.block() == now.who.block(); }
  // The earlier one is a copy that an mbarrier counts.
  bool copied() const { return same_launch() && actor.warp && is_copy(mine, before.who); }
  bool noncoherent() const { return same_launch() && actor.noncoherent; }
  std::string_view relation() const {
    return !same_launch()                        ? "operations"
           : copied()                            ? "copy"
           : !same_block()                       ? "blocks"
           : before.who.warp() != now.who.warp() ? "block"
                                                 : "warp";
  }
  // What would order threads further apart orders closer ones as well.
  int rank() const { return !same_block() ? 2 : before.who.warp() != now.who.warp() ? 1 : 0; }
};

// "writes", or "the copy on stream 1 reads".
std::string self_text(const Meeting& m) {
  if (m.actor.warp) return std::string(verb(m.actor.kind));
  return fmt::format("the {} on stream {} {}", name_of(m.mine.kind), m.mine.stream,
                     m.mine.kind == OperationInfo::Kind::Release ? "frees" : verb(m.actor.kind));
}

std::string message(const Meeting& m, const std::string& what, const Side& other) {
  if (m.noncoherent())
    return fmt::format(
        "{} {} with a non-coherent load (`ld.global.nc`) after {}; the read-only cache may still hold the "
        "old value, "
        "whatever orders the two",
        self_text(m), what, other.text("it"));
  return fmt::format("{} {}, which {}; {}", self_text(m), what, other.text(),
                     m.copied()
                         ? "this thread has neither waited at its mbarrier nor synchronised with one that has"
                         : "nothing orders the two");
}

std::string fix(const RaceContext& context, const Meeting& m) {
  if (!m.same_launch()) return std::string(kOrderOperations);
  return m.copied() ? "" : advice(context, m.before, m.now, m.actor.shared);
}

void add_evidence(const Meeting& m, Finding& finding) {
  Json& evidence = finding.evidence;
  if (!m.actor.warp) {
    evidence["operation"] = name_of(m.mine.kind);
    if (const auto& at = evidence["other"]; at.contains("file")) finding.where = {at["file"], at["line"]};
    if (m.theirs && !m.theirs->kernel.empty()) evidence["kernel"] = m.theirs->kernel;
  }
  if (!m.same_launch()) evidence["stream"] = m.mine.stream;
  evidence["access"] = noun(m.actor.kind);
  evidence["relation"] = m.relation();
  if (m.noncoherent()) evidence["noncoherent"] = true;
}

// Whichever of the two came first: one defect.
std::string key_of(const RaceContext& context, const Meeting& m, const Side& other, std::string_view kind) {
  const RaceSite* here = m.actor.warp ? context.sites.at(m.now.who.site()) : nullptr;
  std::string keys[2] = {here ? m.mine.kernel + "|" + here->where : self_text(m),
                         m.theirs ? m.theirs->kernel + "|" + other.key() : other.key()};
  std::sort(keys, keys + 2);
  return fmt::format("{}|{}|{}", kind, keys[0], keys[1]);
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
  const Meeting meeting{actor, before, now, *mine, theirs};
  const Occurrence occurrence{
      kind, actor.inst ? static_cast<const void*>(actor.inst) : mine,
      theirs == mine ? static_cast<const void*>(context.sites.at(before.who.site())) : theirs,
      meeting.rank()};
  if (context.log.counted(occurrence) || is_hoisted(context, now, mine) ||
      is_hoisted(context, before, theirs))
    return;
  Finding finding;
  if (actor.warp) finding = finding_at(kind, *actor.warp, *actor.inst, now.lane);
  finding.kind = kind;
  const std::string what = place_text(context, actor, before, now, address, finding.evidence);
  const Side other = other_side(context, before, now, theirs, meeting.same_launch(), finding.evidence);
  add_evidence(meeting, finding);
  finding.message = message(meeting, what, other);
  if (kind == kSameValue) {
    finding.severity = Severity::Note;
    finding.message += " (it stores the value that is there already)";
  } else if (const std::string remedy = fix(context, meeting); !remedy.empty()) {
    finding.message += ": " + remedy;
    finding.evidence["fix"] = remedy;
  }
  context.log.add(key_of(context, meeting, other, kind), std::move(finding), occurrence);
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
  finding.message = fmt::format(
      "{} {}, though nothing makes sure that that block has started: a cluster barrier would",
      verb(actor.kind), describe_shared_of(*actor.owner, actor.access->addresses[lane], finding.evidence));
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
  if (Json chain = chain_of(site->frames); !chain.is_null()) evidence["chain"] = std::move(chain);
  finding.message =
      fmt::format("{} {}, though nothing keeps that block from ending before: a cluster barrier would",
                  verb(site->kind), describe_shared_of(owner, Address{access.word} * 4, finding.evidence));
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
