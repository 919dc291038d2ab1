#include "subject/worker/guarded_memory.h"

#include <dlfcn.h>

#include <algorithm>

namespace assay::worker {

namespace {

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

int64_t mapped_bytes(const Extent& extent, Side side, int64_t granularity) {
  const int64_t needed = side == Side::End ? extent.offset + extent.length : extent.bytes - extent.offset;
  return std::max(granularity, round_up(needed + kAlignment, granularity));
}

Placement place(const Extent& extent, Side side, int64_t mapped) {
  const int64_t phase = extent.offset % kAlignment;
  if (side == Side::Begin)
    return {.base = phase - extent.offset, .from = extent.offset - phase, .to = extent.bytes};
  // The last place of the tensor with its alignment.
  const int64_t start = (mapped - extent.length - phase) / kAlignment * kAlignment + phase;
  return {.base = start - extent.offset,
          .from = std::max<int64_t>(0, extent.offset - start),
          .to = std::min(extent.bytes, extent.offset + mapped - start)};
}

std::optional<VirtualMemory> find_virtual_memory() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return {};
  VirtualMemory driver;
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete &= function != nullptr;
  };
#define ASSAY_FIND(name) find(driver.name, #name)
  ASSAY_FIND(cuCtxGetDevice);
  ASSAY_FIND(cuMemGetAllocationGranularity);
  ASSAY_FIND(cuMemAddressReserve);
  ASSAY_FIND(cuMemAddressFree);
  ASSAY_FIND(cuMemCreate);
  ASSAY_FIND(cuMemRelease);
  ASSAY_FIND(cuMemMap);
  ASSAY_FIND(cuMemUnmap);
  ASSAY_FIND(cuMemSetAccess);
#undef ASSAY_FIND
  return complete ? std::optional(driver) : std::nullopt;
}

GuardedMemory::GuardedMemory(std::optional<VirtualMemory> driver) : driver_(driver) {
  size_t granularity = 0;
  const bool known = driver_ && driver_->cuCtxGetDevice(&properties_.location.id) == 0 &&
                     driver_->cuMemGetAllocationGranularity(&granularity, &properties_, 0) == 0;
  if (known)
    granularity_ = static_cast<int64_t>(granularity);
  else
    driver_.reset();
}

GuardedMemory::~GuardedMemory() {
  for (Region& region : regions_) unmap(region);
}

std::optional<GuardedMemory::Held> GuardedMemory::allocate(const Extent& extent, Side side) {
  if (!driver_) return {};
  const auto region = find_region(mapped_bytes(extent, side, granularity_));
  if (!region) return {};
  Region& found = regions_[static_cast<std::size_t>(*region)];
  found.used = true;
  const Placement placement = place(extent, side, found.mapped);
  const uint64_t mapped = found.reserved + static_cast<uint64_t>(granularity_);
  return Held{reinterpret_cast<std::byte*>(mapped + static_cast<uint64_t>(placement.base)), placement.from,
              placement.to, *region};
}

void GuardedMemory::release(const Held& held) {
  if (held.region >= 0) regions_[static_cast<std::size_t>(held.region)].used = false;
}

void GuardedMemory::trim() {
  constexpr int64_t kLarge = int64_t{256} << 20;
  for (Region& region : regions_)
    if (!region.used && region.mapped > kLarge) unmap(region);
}

std::optional<int> GuardedMemory::find_region(int64_t mapped) {
  int unused = -1;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].used) continue;
    if (regions_[i].mapped == mapped) return static_cast<int>(i);
    unused = static_cast<int>(i);
  }
  if (Region fresh; map(fresh, mapped)) {
    regions_.push_back(fresh);
    return static_cast<int>(regions_.size()) - 1;
  }
  // The memory may be in regions of other sizes.
  if (unused < 0) return {};
  for (Region& region : regions_)
    if (!region.used) unmap(region);
  return map(regions_[static_cast<std::size_t>(unused)], mapped) ? std::optional(unused) : std::nullopt;
}

bool GuardedMemory::map(Region& region, int64_t mapped) const {
  const auto size = static_cast<size_t>(mapped), page = static_cast<size_t>(granularity_);
  region = {};
  if (driver_->cuMemAddressReserve(&region.reserved, size + 2 * page, 0, 0, 0) != 0) return false;
  if (driver_->cuMemCreate(&region.handle, size, &properties_, 0) != 0) {
    driver_->cuMemAddressFree(region.reserved, size + 2 * page);
    region = {};
    return false;
  }
  const VirtualMemory::Access access{.location = properties_.location};
  region.mapped = mapped;
  const bool done = driver_->cuMemMap(region.reserved + page, size, 0, region.handle, 0) == 0 &&
                    driver_->cuMemSetAccess(region.reserved + page, size, &access, 1) == 0;
  if (!done) unmap(region);
  return done;
}

void GuardedMemory::unmap(Region& region) const {
  if (region.mapped == 0) return;
  const auto size = static_cast<size_t>(region.mapped), page = static_cast<size_t>(granularity_);
  driver_->cuMemUnmap(region.reserved + page, size);
  driver_->cuMemRelease(region.handle);
  driver_->cuMemAddressFree(region.reserved, size + 2 * page);
  region = {};
}

}  // namespace assay::worker
