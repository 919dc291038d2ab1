#include "checks/range_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "checks/address_pattern.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

constexpr Kind kClobbered = Kind::ClobberedInput;

// Where no range lies, by the instruction that asked last: most stores go to one array, and need no more than
// this.
struct Gap {
  uint64_t version = 0;
  vgpu::Address low = 0, high = 0;
};
constexpr size_t kGaps = 16;  // a power of two
thread_local Gap gaps[kGaps];

Gap& gap_of(const vgpu::Inst& inst) {
  return gaps[reinterpret_cast<uintptr_t>(&inst) / sizeof(vgpu::Inst) % kGaps];
}

// Two writes to one input from the same line are one finding.
std::string key_of_range(const Finding& finding) {
  const auto& access = std::get<evidence::Access>(finding.evidence);
  return fmt::format("{}|{}|{}|{}|{}", to_string(kClobbered), access.code.kernel, access.input,
                     finding.where.file, finding.where.line);
}

}  // namespace

void RangeCheck::change_version() {
  static std::atomic<uint64_t> versions{0};
  version_.store(++versions, std::memory_order_release);
}

void RangeCheck::add(Range range) {
  std::lock_guard lock(mutex_);
  ranges_.push_back(std::move(range));
  change_version();
}

void RangeCheck::expect_written(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since) {
  add({address, address + bytes, std::move(name), since, true, std::vector<bool>(bytes)});
}

void RangeCheck::protect(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since) {
  add({address, address + bytes, std::move(name), since, false, {}});
}

void RangeCheck::forget() {
  std::lock_guard lock(mutex_);
  ranges_.clear();
  change_version();
}

void RangeCheck::judge(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  for (const Range& range : ranges_)
    if (range.expected && (address == 0 || range.low == address)) report_unwritten(range);
  std::erase_if(ranges_, [&](const Range& range) { return address == 0 || range.low == address; });
  change_version();
}

void RangeCheck::report_unwritten(const Range& range) {
  const auto unwritten = static_cast<uint64_t>(std::count(range.written.begin(), range.written.end(), false));
  if (unwritten == 0) return;
  const auto first = static_cast<uint64_t>(std::find(range.written.begin(), range.written.end(), false) -
                                           range.written.begin());
  evidence::Access evidence;
  evidence.unwritten = evidence::Unwritten{.name = range.name,
                                           .count = unwritten,
                                           .total = range.written.size(),
                                           .first = std::to_string(first),
                                           .in_bytes = true};
  log_.add(fmt::format("{}|{}", to_string(Kind::UnwrittenOutput), range.name),
           finding_of(Kind::UnwrittenOutput, {}, std::move(evidence)), {Kind::UnwrittenOutput, &range});
}

template <class Hit>
void RangeCheck::write(uint64_t operation, vgpu::Address low, uint64_t bytes, Hit hit) {
  const vgpu::Address high = low + bytes;
  for (Range& range : ranges_) {
    if (high <= range.low || low >= range.high || operation <= range.since) continue;
    if (!range.expected) {
      hit(range);
      continue;
    }
    const auto from =
        range.written.begin() + static_cast<std::ptrdiff_t>(std::max(low, range.low) - range.low);
    const auto to =
        range.written.begin() + static_cast<std::ptrdiff_t>(std::min(high, range.high) - range.low);
    std::fill(from, to, true);
  }
}

// ---- Kernels ----

void RangeCheck::on_operation(const vgpu::OperationInfo& info) {
  std::lock_guard lock(mutex_);
  if (info.kind == vgpu::OperationInfo::Kind::Grid) starting_ = info.id;
}

void RangeCheck::on_launch(const vgpu::LaunchInfo& info) {
  std::lock_guard lock(mutex_);
  launches_[info.id] = std::exchange(starting_, 0);
}

void RangeCheck::on_launch_end(const vgpu::LaunchInfo& info) {
  std::lock_guard lock(mutex_);
  close([&](const Open& open) { return open.inst && open.launch == info.id; });
  std::erase_if(unchanged_, [&](auto& item) {
    auto& [inst, kept] = item;
    if (kept.launch != info.id) return false;
    log_.add(kept.key, std::move(kept.finding), {kClobbered, inst, this});
    return true;
  });
  launches_.erase(info.id);
}

bool RangeCheck::lies_apart(const vgpu::Inst& inst, const vgpu::Access& access) const {
  const Gap& gap = gap_of(inst);
  if (gap.version != version_.load(std::memory_order_acquire)) return false;
  return lies_inside(access, gap.low, gap.high) || lanes_outside(access, gap.low, gap.high) == 0;
}

void RangeCheck::remember_gap(const vgpu::Inst& inst, vgpu::Address around) const {
  Gap gap{version_.load(std::memory_order_relaxed), 0, ~vgpu::Address{0}};
  for (const Range& range : ranges_) {
    if (range.low <= around && around < range.high) return;
    if (range.high <= around) gap.low = std::max(gap.low, range.high);
    if (range.low > around) gap.high = std::min(gap.high, range.low);
  }
  gap_of(inst) = gap;
}

void RangeCheck::on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) {
  if (access.kind == vgpu::AccessKind::Load) return;
  if (lies_apart(inst, access) && open_count_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  std::lock_guard lock(mutex_);
  // What this thread announced before has happened by now.
  close([](const Open& open) { return open.inst && open.thread == std::this_thread::get_id(); });
  const auto launch = launches_.find(warp.grid->info.id);
  // One that was under way when this began to listen came before; one outside of any stream comes now.
  if (launch == launches_.end()) return;
  const uint64_t operation = launch->second ? launch->second : ~uint64_t{0};
  remember_gap(inst, access.addresses[std::countr_zero(access.lanes)]);
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    write(operation, access.addresses[lane], access.bytes,
          [&](const Range& range) { write_lane(warp, inst, access, lane, range); });
  }
}

void RangeCheck::write_lane(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access,
                            uint32_t lane, const Range& range) {
  if (log_.counted({kClobbered, &inst})) return;
  const vgpu::Address address = access.addresses[lane];
  const std::byte* there = memory_.host(address, access.bytes);
  const bool same = there && access.values &&
                    std::memcmp(there, access.values + size_t{lane} * access.bytes, access.bytes) == 0;
  if (same && (unchanged_.contains(&inst) || log_.counted({kClobbered, &inst, this}))) return;
  auto [where, code] = code_at(warp, inst, lane);
  evidence::Access evidence;
  evidence.code = std::move(code);
  evidence.access = access_of(access.kind);
  evidence.bytes = access.bytes;
  evidence.place = place_of(memory_, address);
  evidence.input = range.name;
  Finding finding = finding_of(kClobbered, std::move(where), std::move(evidence));
  const uint64_t launch = warp.grid->info.id;
  // Asynchronous copies take effect at some later time: they are taken at their word.
  if (access.values || access.asynchronous || !there)
    return report(key_of(kClobbered, warp, inst), &inst, launch, std::move(finding), !same);
  open_.push_back({address,
                   {there, there + access.bytes},
                   &inst,
                   0,
                   launch,
                   std::this_thread::get_id(),
                   std::move(finding)});
  ++open_count_;
}

// ---- Copies and fills ----

void RangeCheck::write_rows(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  if (to.host) return;
  std::lock_guard lock(mutex_);
  for (uint64_t z = 0; z < to.depth; ++z)
    for (uint64_t y = 0; y < to.height; ++y) {
      const vgpu::Address row = to.address + z * to.slice_pitch + y * to.row_pitch;
      write(info.id, row, to.width, [&](const Range& range) {
        if (info.kind == vgpu::OperationInfo::Kind::Release) return;
        const vgpu::Address low = std::max(row, range.low);
        const uint64_t bytes = std::min(row + to.width, range.high) - low;
        const bool copies = info.kind == vgpu::OperationInfo::Kind::Copy;
        evidence::Access evidence;
        evidence.access = evidence::AccessKind::Write;
        evidence.place = place_of(memory_, low);
        evidence.input = range.name;
        evidence.operation = evidence::Operation{copies ? "copy" : "fill", info.stream};
        Finding finding = finding_of(kClobbered, {}, std::move(evidence));
        const std::byte* there = memory_.host(low, bytes);
        if (!there) return;
        open_.push_back({low, {there, there + bytes}, nullptr, info.id, 0, {}, std::move(finding)});
        ++open_count_;
      });
    }
}

void RangeCheck::on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to, const vgpu::RangeInfo&) {
  write_rows(info, to);
}

void RangeCheck::on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  write_rows(info, to);
}

void RangeCheck::on_operation_end(const vgpu::OperationInfo& info) {
  if (open_count_.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(mutex_);
  close([&](const Open& open) { return !open.inst && open.operation == info.id; });
}

// ---- What became of it ----

// Reports those of the open writes that have taken effect.
template <class Which>
void RangeCheck::close(Which which) {
  for (size_t i = 0; i < open_.size();) {
    if (!which(open_[i])) {
      ++i;
      continue;
    }
    Open open = std::move(open_[i]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    --open_count_;
    const std::byte* there = memory_.host(open.address, open.before.size());
    const bool changed = !there || std::memcmp(there, open.before.data(), open.before.size()) != 0;
    const std::string key = key_of_range(open.finding);
    report(key, open.inst, open.launch, std::move(open.finding), changed);
  }
}

void RangeCheck::report(const std::string& key, const vgpu::Inst* inst, uint64_t launch, Finding finding,
                        bool changed) {
  std::get<evidence::Access>(finding.evidence).changed = changed;
  if (changed) {
    if (inst) unchanged_.erase(inst);
    log_.add(key, std::move(finding), {kClobbered, inst ? static_cast<const void*>(inst) : this});
    return;
  }
  finding.severity = Severity::Warning;
  if (inst)
    unchanged_.try_emplace(inst, Unchanged{launch, key + "|same", std::move(finding)});
  else
    log_.add(key + "|same", std::move(finding), {kClobbered, nullptr, this});
}

}  // namespace assay::checks
