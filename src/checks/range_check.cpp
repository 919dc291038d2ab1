#include "checks/range_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "vgpu/grid.h"

namespace assay::checks {

namespace {

std::string_view operation_name(vgpu::OperationInfo::Kind kind) {
  return kind == vgpu::OperationInfo::Kind::Copy   ? "a copy"
         : kind == vgpu::OperationInfo::Kind::Fill ? "a fill"
                                                   : "a free";
}

}  // namespace

void RangeCheck::expect_written(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since) {
  std::lock_guard lock(mutex_);
  ranges_.push_back({address, address + bytes, std::move(name), since, true, std::vector<bool>(bytes)});
}

void RangeCheck::protect(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since) {
  std::lock_guard lock(mutex_);
  ranges_.push_back({address, address + bytes, std::move(name), since, false, {}});
}

bool RangeCheck::empty() {
  std::lock_guard lock(mutex_);
  return ranges_.empty();
}

void RangeCheck::judge(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  for (const Range& range : ranges_)
    if (range.expected && (address == 0 || range.low == address)) report_unwritten(range);
  std::erase_if(ranges_, [&](const Range& range) { return address == 0 || range.low == address; });
}

void RangeCheck::report_unwritten(const Range& range) {
  const auto unwritten = static_cast<uint64_t>(std::count(range.written.begin(), range.written.end(), false));
  if (unwritten == 0) return;
  const auto first = static_cast<uint64_t>(std::find(range.written.begin(), range.written.end(), false) -
                                           range.written.begin());
  Finding finding;
  finding.kind = "unwritten-output";
  finding.message = fmt::format("{} of {} bytes of `{}` were never written, the first at offset {}",
                                unwritten, range.written.size(), range.name, first);
  finding.evidence = {
      {"range", range.name}, {"unwritten", unwritten}, {"bytes", range.written.size()}, {"first", first}};
  log_.add("unwritten-output|" + range.name, std::move(finding), {"unwritten-output", &range});
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
  launches_.erase(info.id);
}

void RangeCheck::on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) {
  if (access.kind == vgpu::AccessKind::Load) return;
  std::lock_guard lock(mutex_);
  const auto launch = launches_.find(warp.grid->info.id);
  // One that was under way when this began to listen came before; one outside of any stream comes now.
  if (launch == launches_.end()) return;
  const uint64_t operation = launch->second ? launch->second : ~uint64_t{0};
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    write(operation, access.addresses[lane], access.bytes, [&](const Range& range) {
      const Occurrence occurrence{"clobbered-input", &inst};
      if (log_.counted(occurrence)) return;
      Finding finding = finding_at("clobbered-input", warp, inst, lane);
      finding.evidence["range"] = range.name;
      finding.message =
          fmt::format("writes {} bytes of `{}`, which is protected, at {}", access.bytes, range.name,
                      describe_address(memory_, access.addresses[lane], finding.evidence));
      log_.add(key_of("clobbered-input", warp, inst), std::move(finding), occurrence);
    });
  }
}

void RangeCheck::write_rows(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  if (to.host) return;
  std::lock_guard lock(mutex_);
  for (uint64_t z = 0; z < to.depth; ++z)
    for (uint64_t y = 0; y < to.height; ++y)
      write(info.id, to.address + z * to.slice_pitch + y * to.row_pitch, to.width, [&](const Range& range) {
        if (info.kind == vgpu::OperationInfo::Kind::Release) return;
        Finding finding;
        finding.kind = "clobbered-input";
        finding.message = fmt::format("{} on stream {} writes `{}`, which is protected",
                                      operation_name(info.kind), info.stream, range.name);
        finding.evidence = {{"range", range.name}, {"stream", info.stream}};
        log_.add("clobbered-input|" + range.name, std::move(finding), {"clobbered-input", &range});
      });
}

void RangeCheck::on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to, const vgpu::RangeInfo&) {
  write_rows(info, to);
}

void RangeCheck::on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  write_rows(info, to);
}

}  // namespace assay::checks
