// Bounds and alignment. The engine reports accesses outside live memory; those that leave one static shared
// array for its neighbour are found here (shared_bases.h).
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <unordered_map>

#include "checks/address_pattern.h"
#include "checks/checks.h"
#include "checks/shared_bases.h"
#include "checks/shared_place.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

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

  bool wants_accesses(ptx::Space space) const override { return space == ptx::Space::Shared; }
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
    const Occurrence occurrence{Kind::OutOfBounds, &inst};
    if (log_.counted(occurrence)) return;
    const vgpu::Address address = access.addresses[lane];
    const vgpu::SharedVariable* mine = shared_variable(*warp.grid->program, *warp.grid->entry, array.low);
    auto [where, code] = code_at(warp, inst, lane);
    evidence::Access evidence;
    evidence.code = std::move(code);
    evidence.access = access_of(access.kind);
    evidence.bytes = access.bytes;
    evidence.place.space = space_of(access.space);
    evidence.place.offset = static_cast<int64_t>(address);
    evidence.place.array = evidence::SharedArray{
        .name = array.name,
        .symbol = mine ? mine->variable->name : "",
        .bytes = array.high - array.low,
        .offset = static_cast<int64_t>(address) - static_cast<int64_t>(array.low),
    };
    if (const SharedArray* other = arrays_of(warp, inst).bases.at(address); other && other != &array)
      evidence.neighbour =
          array_at(shared_variable(*warp.grid->program, *warp.grid->entry, address), address);
    log_.add(key_of(Kind::OutOfBounds, warp, inst),
             finding_of(Kind::OutOfBounds, std::move(where), std::move(evidence)), occurrence);
  }

  // In another block's shared memory.
  static void place_in_cluster(const vgpu::Cluster& cluster, vgpu::Address address, evidence::Place& place) {
    const uint64_t rank = (address >> vgpu::kSharedRankShift) - 1;
    place.offset = static_cast<int64_t>(address & ((vgpu::Address{1} << vgpu::kSharedRankShift) - 1));
    if (rank >= cluster.blocks.size()) {
      place.missing_rank = rank;
      return;
    }
    const vgpu::Block& block = cluster.blocks[rank];
    place.owner = {block.id[0], block.id[1], block.id[2]};
    place.owner_ended = vgpu::has_ended(block);
  }

  // By the array that the instruction's address is based on, where that is certain.
  std::optional<evidence::SharedArray> array_of(const vgpu::Warp& warp, const vgpu::Inst& inst,
                                                vgpu::Address address) {
    const auto& all = warp.grid->program->shared_variables.at(warp.grid->entry->index);
    const SharedArray* array = arrays_of(warp, inst).by_instruction[inst.index];
    const vgpu::SharedVariable* base =
        array             ? shared_variable(*warp.grid->program, *warp.grid->entry, array->low)
        : all.size() == 1 ? &all.front()
                          : nullptr;
    return array_at(base, address);
  }

  // The allocation that the address of an access to device memory was computed from, where the code tells.
  std::optional<vgpu::Allocation> base_of(const vgpu::Warp& warp, const vgpu::Inst& inst,
                                          const vgpu::ViolationInfo& violation) const {
    const bool device = violation.space == ptx::Space::Global || violation.space == ptx::Space::Generic;
    if (!device || !warp.frame || warp.frame->depth != 0) return std::nullopt;
    const vgpu::SiteBound* bound = warp.grid->bounds.of(inst);
    if (!bound) return std::nullopt;
    const auto inside = memory_.find(bound->pointer);
    return inside ? inside : memory_.find(bound->low);
  }

  evidence::Place place(const vgpu::Warp& warp, const vgpu::Inst& inst,
                        const vgpu::ViolationInfo& violation) {
    evidence::Place place;
    if (violation.space == ptx::Space::Global || violation.space == ptx::Space::Const ||
        violation.space == ptx::Space::Generic)
      place = place_of(memory_, violation.address);
    if (const auto base = base_of(warp, inst, violation)) {
      place.allocation = allocation_of(*base);
      place.offset = static_cast<int64_t>(violation.address - base->base);
      place.is_host_memory = false;
    }
    place.space = space_of(violation.space);
    place.address = violation.address;
    if (is_in_cluster(violation)) {
      place_in_cluster(*warp.block->cluster, violation.address, place);
    } else if (!place.allocation) {
      place.offset = static_cast<int64_t>(violation.address);
      if (violation.space == ptx::Space::Shared) place.array = array_of(warp, inst, violation.address);
    }
    return place;
  }

  static bool is_in_cluster(const vgpu::ViolationInfo& violation) {
    return violation.space == ptx::Space::Shared && violation.address >> vgpu::kSharedRankShift != 0;
  }

  void out_of_bounds(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& violation) {
    evidence::Access evidence;
    evidence.detail = violation.detail;
    const bool own_shared = violation.space == ptx::Space::Shared && !is_in_cluster(violation);
    if (violation.bytes != 0 && own_shared) evidence.shared_bytes = warp.block->shared_bytes;
    if (const auto base = base_of(warp, inst, violation); base && evidence.detail.empty())
      if (const auto other = memory_.find(violation.address); other && other->id != base->id)
        evidence.detail = fmt::format("`{}` lies there", other->label);
    add(Kind::OutOfBounds, warp, inst, violation, std::move(evidence));
  }

  void misaligned(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& violation) {
    evidence::Access evidence;
    evidence.alignment = violation.bytes > kWidest ? kBulkAlignment : violation.bytes;
    add(Kind::Misaligned, warp, inst, violation, std::move(evidence));
  }

  void add(Kind kind, const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& violation,
           evidence::Access evidence) {
    const Occurrence occurrence{kind, &inst};
    if (log_.counted(occurrence)) return;
    auto [where, code] = code_at(warp, inst, violation.first_lane);
    evidence.code = std::move(code);
    if (violation.bytes != 0) {  // else a call through a pointer
      evidence.access = access_of(violation.kind);
      evidence.bytes = violation.bytes;
      evidence.place = place(warp, inst, violation);
    }
    log_.add(key_of(kind, warp, inst), finding_of(kind, std::move(where), std::move(evidence)), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog& log, const vgpu::Memory& memory, CheckSet) {
  return std::make_unique<MemoryCheck>(log, memory);
}

}  // namespace assay::checks
