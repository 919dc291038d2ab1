// Bounds and alignment. The engine tells of accesses outside live memory; those that leave one static shared
// array for its neighbour are found here (shared_bases.h).
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <unordered_map>

#include "checks/checks.h"
#include "checks/shared_bases.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

std::string_view verb(vgpu::AccessKind kind) {
  constexpr std::string_view kVerbs[] = {"reads", "writes", "updates (atomic)", "updates (atomic)"};
  return kVerbs[static_cast<size_t>(kind)];
}

std::string_view name_of(ptx::Space space) {
  constexpr std::string_view kNames[] = {"", "generic", "global", "shared", "local", "constant", "parameter"};
  return kNames[static_cast<size_t>(space)];
}

constexpr uint32_t kWidest = 32;  // of one access of a lane; what is wider is a bulk copy
constexpr uint32_t kBulkAlignment = 16;

class MemoryCheck final : public vgpu::Listener {
 public:
  MemoryCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::ViolationInfo& info) override {
    if (info.what == vgpu::Violation::OutOfBounds) out_of_bounds(warp, inst, info);
    if (info.what == vgpu::Violation::Misaligned) misaligned(warp, inst, info);
  }

  void on_launch(const vgpu::LaunchInfo&) override {
    std::lock_guard lock(mutex_);
    if (launches_++ != 0) return;
    bases_.clear();  // instructions may lie elsewhere by now
    version_ = new_version();
  }

  void on_launch_end(const vgpu::LaunchInfo&) override {
    std::lock_guard lock(mutex_);
    --launches_;
  }

  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override {
    if (access.space != ptx::Space::Shared) return;
    const SharedArray* array = array_of(warp, inst);
    if (!array) [[likely]]
      return;
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      const vgpu::Address address = access.addresses[lane];
      if (address < array->low || address + access.bytes > array->high) [[unlikely]]
        return leaves_array(warp, inst, access, lane, *array);
    }
  }

 private:
  FindingLog& log_;
  const vgpu::Memory& memory_;
  std::mutex mutex_;  // of what follows
  uint32_t launches_ = 0;
  std::unordered_map<const vgpu::Function*, std::unique_ptr<SharedBases>> bases_;
  std::atomic<uint64_t> version_{new_version()};  // threads cache arrays by it

  static uint64_t new_version() {
    static std::atomic<uint64_t> versions{0};
    return ++versions;
  }

  const SharedBases& bases_of(const vgpu::Warp& warp) {
    std::lock_guard lock(mutex_);
    auto& bases = bases_[warp.frame->function];
    if (!bases) bases = std::make_unique<SharedBases>(*warp.grid->program, *warp.frame->function);
    return *bases;
  }

  const SharedArray* array_of(const vgpu::Warp& warp, const vgpu::Inst& inst) {
    struct Entry {
      const vgpu::Inst* inst = nullptr;
      uint64_t version = 0;
      const SharedArray* array = nullptr;
    };
    constexpr size_t kEntries = 256;
    thread_local Entry entries[kEntries];
    Entry& entry = entries[reinterpret_cast<uintptr_t>(&inst) / sizeof(vgpu::Inst) % kEntries];
    const uint64_t version = version_.load(std::memory_order_relaxed);
    if (entry.inst != &inst || entry.version != version) entry = {&inst, version, bases_of(warp).of(inst)};
    return entry.array;
  }

  void leaves_array(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access, uint32_t lane,
                    const SharedArray& array) {
    const Occurrence occurrence{"out-of-bounds", &inst};
    if (log_.counted(occurrence)) return;
    const vgpu::Address address = access.addresses[lane];
    Finding finding = finding_at("out-of-bounds", warp, inst, lane);
    finding.evidence["bytes"] = access.bytes;
    finding.evidence["space"] = name_of(access.space);
    finding.evidence["array"] = {{"name", array.name}, {"bytes", array.high - array.low}};
    const std::string far = address < array.low ? fmt::format("{} bytes before", array.low - address)
                                                : fmt::format("{} bytes into", address - array.low);
    finding.message = fmt::format("{} {} bytes at {} shared array `{}` of {} bytes", verb(access.kind),
                                  access.bytes, far, array.name, array.high - array.low);
    if (const SharedArray* other = bases_of(warp).at(address); other && other != &array) {
      finding.evidence["other"] = {{"array", other->name}};
      finding.message += fmt::format(", in `{}`", other->name);
    }
    log_.add(key_of("out-of-bounds", warp, inst), std::move(finding), occurrence);
  }

  std::string place(const vgpu::ViolationInfo& info, Json& evidence) const {
    if (info.space == ptx::Space::Global || info.space == ptx::Space::Const ||
        info.space == ptx::Space::Generic)
      return describe_address(memory_, info.address, evidence);
    evidence["address"] = fmt::format("0x{:x}", info.address);
    return fmt::format("offset {} of {} memory", info.address, name_of(info.space));
  }

  void out_of_bounds(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) {
    const Occurrence occurrence{"out-of-bounds", &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at("out-of-bounds", warp, inst, info.first_lane);
    if (info.bytes == 0) {  // a call
      finding.message = info.detail;
    } else {
      finding.evidence["bytes"] = info.bytes;
      finding.evidence["space"] = name_of(info.space);
      finding.message =
          fmt::format("{} {} bytes at {}", verb(info.kind), info.bytes, place(info, finding.evidence));
      if (!info.detail.empty()) finding.message += fmt::format(": {}", info.detail);
    }
    log_.add(key_of("out-of-bounds", warp, inst), std::move(finding), occurrence);
  }

  void misaligned(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) {
    const Occurrence occurrence{"misaligned", &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at("misaligned", warp, inst, info.first_lane);
    finding.evidence["bytes"] = info.bytes;
    finding.message =
        fmt::format("{} {} bytes at {}, an address that is not a multiple of {}", verb(info.kind), info.bytes,
                    place(info, finding.evidence), info.bytes > kWidest ? kBulkAlignment : info.bytes);
    log_.add(key_of("misaligned", warp, inst), std::move(finding), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog& log, const vgpu::Memory& memory) {
  return std::make_unique<MemoryCheck>(log, memory);
}

}  // namespace assay::checks
