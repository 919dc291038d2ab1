// Bounds and alignment. The engine tells of accesses outside live memory; those that leave one static shared
// array for its neighbour are found here (shared_bases.h).
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <unordered_map>

#include "checks/checks.h"
#include "checks/layout.h"
#include "checks/shared_bases.h"
#include "checks/shared_place.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

std::string_view verb(vgpu::AccessKind kind) {
  constexpr std::string_view kVerbs[] = {"reads", "writes", "atomically updates", "atomically updates"};
  return kVerbs[static_cast<size_t>(kind)];
}

std::string_view name_of(ptx::Space space) {
  constexpr std::string_view kNames[] = {"", "generic", "global", "shared", "local", "constant", "parameter"};
  return kNames[static_cast<size_t>(space)];
}

// "at offset 4 of …", but "just past the end of …" and ", 12 bytes past the end of …".
std::string located(const std::string& place) {
  const bool counts =
      std::isdigit(static_cast<unsigned char>(place.front())) != 0 && !place.starts_with("0x");
  return (counts ? ", " : place.starts_with("just") ? " " : " at ") + place;
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
    latest_ = nullptr;
    arrays_.clear();  // functions may lie elsewhere by now
  }

  void on_launch_end(const vgpu::LaunchInfo&) override {
    std::lock_guard lock(mutex_);
    --launches_;
  }

  bool hears_accesses(ptx::Space space) const override { return space == ptx::Space::Shared; }
  void on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) override {
    const Arrays& arrays = arrays_of(warp, *loads.front().inst);  // of one function
    if (!arrays.any) return;
    for (const vgpu::ShapedLoad& load : loads) {
      const auto [low, high] = arrays.ranges[load.inst->index];
      if (lies_inside(load, low, high)) [[likely]]
        continue;
      vgpu::Address addresses[vgpu::kWarpSize];
      on_access(warp, *load.inst, load.access(space, addresses));
    }
  }
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override {
    const SharedArray* array = arrays_of(warp, inst).by_instruction[inst.index];
    if (!array || lies_inside(access, array->low, array->high)) [[likely]]
      return;
    if (const uint32_t lanes = lanes_outside(access, array->low, array->high)) [[unlikely]]
      leaves_array(warp, inst, access, static_cast<uint32_t>(std::countr_zero(lanes)), *array);
  }

 private:
  // The array that each instruction of a function belongs in; null where that is not certain.
  struct Arrays {
    const vgpu::Function& function;
    SharedBases bases;
    std::vector<const SharedArray*> by_instruction;
    struct Range {
      vgpu::Address low = 0, high = ~vgpu::Address{0};
    };
    std::vector<Range> ranges;  // of those arrays
    bool any = false;           // is certain

    Arrays(const vgpu::Program& program, const vgpu::Function& f) : function(f), bases(program, f) {
      for (const vgpu::Inst& inst : f.code) {
        const SharedArray* array = by_instruction.emplace_back(bases.of(inst));
        ranges.push_back(array ? Range{array->low, array->high} : Range{});
        any |= array != nullptr;
      }
    }
  };

  FindingLog& log_;
  const vgpu::Memory& memory_;
  std::mutex mutex_;  // of what follows
  uint32_t launches_ = 0;
  std::unordered_map<const vgpu::Function*, std::unique_ptr<Arrays>> arrays_;
  std::atomic<const Arrays*> latest_{nullptr};  // of arrays_

  const Arrays& arrays_of(const vgpu::Warp& warp, const vgpu::Inst& inst) {
    const Arrays* latest = latest_.load(std::memory_order_acquire);
    if (latest) {
      const auto& code = latest->function.code;
      if (&inst >= code.data() && &inst < code.data() + code.size()) [[likely]]
        return *latest;
      if (&latest->function == warp.frame->function) return *latest;
    }
    return find_arrays(*warp.grid->program, *warp.frame->function);
  }

  const Arrays& find_arrays(const vgpu::Program& program, const vgpu::Function& function) {
    std::lock_guard lock(mutex_);
    auto& arrays = arrays_[&function];
    if (!arrays) arrays = std::make_unique<Arrays>(program, function);
    latest_.store(arrays.get(), std::memory_order_release);
    return *arrays;
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
    const vgpu::SharedVariable* mine = shared_variable(*warp.grid->program, *warp.grid->entry, array.low);
    finding.message = address < array.low
                          ? fmt::format("{} {} bytes at {} bytes before shared array `{}`", verb(access.kind),
                                        access.bytes, array.low - address, array.name)
                          : fmt::format("{} {}, past the end of shared array `{}` of {} bytes",
                                        verb(access.kind), describe_shared(mine, address, finding.evidence),
                                        array.name, array.high - array.low);
    if (const SharedArray* other = arrays_of(warp, inst).bases.at(address); other && other != &array) {
      finding.evidence["other"] = {{"array", other->name}};
      finding.message +=
          fmt::format("; {} lies there", describe_shared(*warp.block, address, finding.evidence));
    }
    log_.add(key_of("out-of-bounds", warp, inst), std::move(finding), occurrence);
  }

  // Another block's shared memory.
  static std::string place_in_cluster(const vgpu::Cluster& cluster, vgpu::Address address) {
    const uint64_t rank = (address >> vgpu::kSharedRankShift) - 1;
    const uint64_t offset = address & ((vgpu::Address{1} << vgpu::kSharedRankShift) - 1);
    if (rank >= cluster.blocks.size())
      return fmt::format("offset {} of the shared memory of block {} of the cluster, which has {}", offset,
                         rank, cluster.blocks.size());
    const vgpu::Block& block = cluster.blocks[rank];
    return fmt::format("offset {} of the shared memory of block ({},{},{}){}", offset, block.id[0],
                       block.id[1], block.id[2], vgpu::has_ended(block) ? ", which has ended" : "");
  }

  // By the array that the instruction's address is based on, where that is certain.
  std::string shared_text(const vgpu::Warp& warp, const vgpu::Inst& inst, vgpu::Address address,
                          Json& evidence) {
    const auto& all = warp.grid->program->shared_variables.at(warp.grid->entry->index);
    const SharedArray* array = arrays_of(warp, inst).by_instruction[inst.index];
    const vgpu::SharedVariable* base =
        array             ? shared_variable(*warp.grid->program, *warp.grid->entry, array->low)
        : all.size() == 1 ? &all.front()
                          : nullptr;
    return describe_shared(base, address, evidence);
  }

  std::string place(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info,
                    Json& evidence) {
    if (info.space == ptx::Space::Global || info.space == ptx::Space::Const ||
        info.space == ptx::Space::Generic)
      return describe_address(memory_, info.address, evidence);
    evidence["address"] = fmt::format("0x{:x}", info.address);
    if (info.space == ptx::Space::Shared && info.address >> vgpu::kSharedRankShift != 0)
      return place_in_cluster(*warp.block->cluster, info.address);
    if (info.space == ptx::Space::Shared) return shared_text(warp, inst, info.address, evidence);
    return fmt::format("offset {} of {} memory", info.address, name_of(info.space));
  }

  // Where an access begins inside an allocation, how far it goes beyond.
  static std::string overhang(const vgpu::ViolationInfo& info, const Json& evidence) {
    if (!evidence.contains("offset") || !evidence["allocation"].value("live", false)) return "";
    const uint64_t end = evidence["offset"].get<uint64_t>() + info.bytes,
                   size = evidence["allocation"]["bytes"];
    return end > size ? fmt::format(", {} bytes past its end", end - size) : "";
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
      finding.message = fmt::format("{} {} bytes{}", verb(info.kind), info.bytes,
                                    located(place(warp, inst, info, finding.evidence)));
      if (info.space == ptx::Space::Shared && info.address >> vgpu::kSharedRankShift == 0)
        finding.message += fmt::format("; the block has {} bytes of shared memory", warp.block->shared_bytes);
      finding.message +=
          info.detail.empty() ? overhang(info, finding.evidence) : ": " + std::string(info.detail);
    }
    log_.add(key_of("out-of-bounds", warp, inst), std::move(finding), occurrence);
  }

  void misaligned(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) {
    const Occurrence occurrence{"misaligned", &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at("misaligned", warp, inst, info.first_lane);
    finding.evidence["bytes"] = info.bytes;
    finding.message = fmt::format("{} {} bytes{}, an address that is not a multiple of {}", verb(info.kind),
                                  info.bytes, located(place(warp, inst, info, finding.evidence)),
                                  info.bytes > kWidest ? kBulkAlignment : info.bytes);
    log_.add(key_of("misaligned", warp, inst), std::move(finding), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog& log, const vgpu::Memory& memory) {
  return std::make_unique<MemoryCheck>(log, memory);
}

}  // namespace assay::checks
