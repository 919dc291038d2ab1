#include "vgpu/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "vgpu/host_range.h"

namespace assay::vgpu {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{8} << 40;
constexpr uint64_t kSmallestRange = uint64_t{1} << 30;
constexpr uint64_t kRedZone = 256;
constexpr uint64_t kGrain =
    256;  // the least alignment; a multiple of 8, so that initialised bits start in a byte
constexpr uint64_t kPage = 4096;
// Between two allocations of the program: 2^32 elements of 16 bytes, so that an index that is wrong by a wrapped 32-bit
// product meets nothing. Of the addresses, the first eighth is for what lies close together, the next three are for
// some fifty allocations this far apart; for a thousand more 2^32 bytes have to do. Later ones lie close together, too.
constexpr uint64_t kFarApart = uint64_t{64} << 30, kLessFarApart = uint64_t{1} << 32;
constexpr uint64_t kCloseShare = 8, kFarShare = 2;  // the ends of the first two parts: the range over this
constexpr uint64_t kShareOfAGap = 128;  // of a range that is small, as a limit on address space makes it
// Arrays that lie a power of two apart would compete for the same entries of the host's caches; each is moved on by so
// many pages more than the one before.
constexpr uint64_t kStaggerPages = 17, kStaggered = 61;
constexpr uint64_t kLargestAlign = uint64_t{1} << 32;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

void* reserve(uint64_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, bytes, MADV_DONTDUMP);
  return p;
}

// The same pages at two addresses: the host's can then be closed to it while the device goes on.
struct Shared {
  void* host = nullptr;
  void* device = nullptr;
};

// The host's mapping, at an address that was never used before; from the start of the range again when it is
// used up.
void* map_for_host(uint64_t bytes, int file) {
  static std::atomic<uint64_t> next{kHostRange};  // the range is the process's
  constexpr int kTries = 64;
  for (int i = 0; i < kTries; ++i) {
    uint64_t at = next.fetch_add(bytes + kPage);
    if (at >= kHostRangeEnd || kHostRangeEnd - at < bytes) {
      if (bytes >= kHostRangeEnd - kHostRange) return nullptr;
      next = (at = kHostRange) + bytes + kPage;
    }
    void* p = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
    if (p == reinterpret_cast<void*>(at)) return p;
    if (p != MAP_FAILED) munmap(p, bytes);  // a system that does not know the last flag
  }
  return nullptr;
}

Shared map_twice(uint64_t bytes) {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < bytes) return {};
  const int file = memfd_create("shared", MFD_CLOEXEC);
  if (file < 0) return {};
  Shared made;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    made.host = map_for_host(bytes, file);
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (p != MAP_FAILED) made.device = p;
  }
  close(file);
  if (made.host != nullptr && made.device != nullptr) {
    madvise(made.host, bytes, MADV_DONTDUMP);
    madvise(made.device, bytes, MADV_DONTDUMP);
    return made;
  }
  if (made.host != nullptr) munmap(made.host, bytes);
  if (made.device != nullptr) munmap(made.device, bytes);
  return {};
}

// Zero again, giving whole pages back to the system.
void wipe(void* start, uint64_t bytes) {
  auto* first = static_cast<std::byte*>(start);
  std::byte* last = first + bytes;
  auto* page = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uint64_t>(first), kPage));
  auto* page_end = reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(last) & ~(kPage - 1));
  if (page >= page_end) {
    std::memset(first, 0, bytes);
    return;
  }
  std::memset(first, 0, static_cast<size_t>(page - first));
  if (madvise(page, static_cast<size_t>(page_end - page), MADV_DONTNEED) != 0)
    std::memset(page, 0, static_cast<size_t>(page_end - page));
  std::memset(page_end, 0, static_cast<size_t>(last - page_end));
}

bool shared_with_host(MemoryKind kind) {
  return kind == MemoryKind::Managed || kind == MemoryKind::Pinned;
}

Error out_of_memory(uint64_t size) {
  return Error{fmt::format("out of device memory: {} bytes asked for", size), {}, 0, 0};
}

// Runs of initialised bits. Neighbours in a byte belong to other threads, so part bytes change atomically.
void write_bits(uint8_t* bits, uint64_t first, uint64_t count, bool value) {
  const uint64_t end = first + count;
  auto part = [&](uint64_t from, uint64_t to) {  // within one byte
    const auto mask = static_cast<uint8_t>(((1u << (to - from)) - 1) << (from % 8));
    if (value)
      __atomic_fetch_or(bits + from / 8, mask, __ATOMIC_RELAXED);
    else
      __atomic_fetch_and(bits + from / 8, static_cast<uint8_t>(~mask), __ATOMIC_RELAXED);
  };
  if (first / 8 == end / 8) {
    if (first != end) part(first, end);
    return;
  }
  if (first % 8 != 0) {
    part(first, round_up(first, 8));
    first = round_up(first, 8);
  }
  std::memset(bits + first / 8, value ? 0xff : 0, end / 8 - first / 8);
  if (end % 8 != 0) part(end & ~uint64_t{7}, end);
}

bool bit(const uint8_t* bits, uint64_t at) {
  return (bits[at / 8] >> (at % 8) & 1) != 0;
}

// The first position in [first, end) whose bit is `value`, or end.
uint64_t find_bit(const uint8_t* bits, uint64_t first, uint64_t end, bool value) {
  const uint8_t skip = value ? 0 : 0xff;
  for (uint64_t at = first; at < end;) {
    if (at % 8 == 0 && end - at >= 8 && bits[at / 8] == skip) {
      at += 8;
      continue;
    }
    if (bit(bits, at) == value) return at;
    ++at;
  }
  return end;
}

}  // namespace

// Which parts of an allocation are filled, and with what the others are to be.
//
// A part is small: a thread that walks through a stretch of its own, far from those of other threads, needs a few
// elements in each of many pages. The first access to a neighbouring part fills the rest of the page.
class GeneratedPages {
 public:
  GeneratedPages(const Allocation& allocation, GeneratedContent content)
      : base_(allocation.base),
        size_(allocation.size),
        backing_(allocation.backing),
        content_(std::move(content)),
        first_part_(base_ / kPart),
        filled_((base_ + std::max<uint64_t>(size_, 1) - 1) / kPart - first_part_ + 1) {}

  struct Reached {
    Address low, high;     // filled: whole parts, as far as the allocation goes
    uint64_t newly_bytes;  // that were filled now
  };
  // Fills the parts of [address, address + bytes), which the allocation holds.
  Reached reach(Address address, uint64_t bytes) {
    const uint64_t first = address / kPart - first_part_;
    const uint64_t last = (address + std::max<uint64_t>(bytes, 1) - 1) / kPart - first_part_;
    const std::lock_guard lock(mutex_);
    uint64_t newly = 0;
    for (uint64_t part = first; part <= last; ++part)
      if (!filled_[part]) newly += fill_at(part);
    uint64_t low = first, high = last + 1;
    while (low > 0 && first - low < kMostNeighbours && filled_[low - 1]) --low;
    while (high < filled_.size() && high - last < kMostNeighbours && filled_[high]) ++high;
    return {std::max(base_, (first_part_ + low) * kPart),
            std::min(base_ + size_, (first_part_ + high) * kPart), newly};
  }

 private:
  // Bytes of a part: two accesses of a warp to neighbouring words. Smaller ones would cost a look-up for each access. Chosen.
  static constexpr uint64_t kPart = 256, kPartsOfAPage = kPage / kPart;
  // Parts on each side of those wanted that are looked at: the range is a cache.
  static constexpr uint64_t kMostNeighbours = 64 * kPartsOfAPage;

  bool is_filled(uint64_t part) const { return part < filled_.size() && filled_[part]; }

  // This part, or all of its page that is not filled. Bytes.
  uint64_t fill_at(uint64_t part) {
    uint64_t first = part, last = part + 1;
    if (is_filled(part - 1) || is_filled(part + 1)) {
      const uint64_t page = (first_part_ + part) / kPartsOfAPage * kPartsOfAPage;
      first = page > first_part_ ? page - first_part_ : 0;
      last = std::min<uint64_t>(page + kPartsOfAPage - first_part_, filled_.size());
    }
    uint64_t newly = 0;
    for (uint64_t each = first; each < last; ++each) {
      if (filled_[each]) continue;
      fill(each);
      filled_[each] = true;
      newly += kPart;
    }
    return newly;
  }

  void fill(uint64_t part) {
    const Address begin = base_ + content_.offset, end = begin + content_.length;
    const Address low = std::max(begin, (first_part_ + part) * kPart);
    const Address high = std::min(end, (first_part_ + part + 1) * kPart);
    if (low < high) make_bytes(content_.values, low - begin, high - low, backing_ + (low - base_));
  }

  const Address base_;
  const uint64_t size_;
  std::byte* const backing_;
  const GeneratedContent content_;
  const uint64_t first_part_;
  std::mutex mutex_;
  std::vector<bool> filled_;
};

Memory::Memory(uint64_t capacity_bytes, bool track_initialised)
    : capacity_(capacity_bytes), track_initialised_(track_initialised) {
  for (uint64_t bytes = kRangeBytes; bytes >= kSmallestRange; bytes /= 2) {
    void* range = reserve(bytes, PROT_NONE);
    void* backing = range != nullptr ? reserve(bytes, PROT_READ | PROT_WRITE) : nullptr;
    void* bits =
        backing != nullptr && track_initialised ? reserve(bytes / 8, PROT_READ | PROT_WRITE) : nullptr;
    if (backing != nullptr && (bits != nullptr || !track_initialised)) {
      range_ = reinterpret_cast<Address>(range);
      range_bytes_ = bytes;
      backing_ = static_cast<std::byte*>(backing);
      initialised_ = static_cast<uint8_t*>(bits);
      next_ = round_up(range_ + kRedZone, kGrain);
      next_apart_ = round_up(range_ + range_bytes_ / kCloseShare + gap_after(range_), kPage);
      return;
    }
    if (range != nullptr) munmap(range, bytes);
    if (backing != nullptr) munmap(backing, bytes);
  }
}

Memory::~Memory() {
  for (const auto& [base, allocation] : allocations_)
    if (allocation.live) forget(allocation);
  if (range_bytes_ == 0) return;
  munmap(reinterpret_cast<void*>(range_), range_bytes_);
  munmap(backing_, range_bytes_);
  if (initialised_ != nullptr) munmap(initialised_, range_bytes_ / 8);
}

// Gives what backs a live allocation back to the system.
void Memory::forget(const Allocation& allocation) {
  if (allocation.adopted) return;
  if (shared_with_host(allocation.kind)) {
    const uint64_t bytes = round_up(std::max<uint64_t>(allocation.size, 1), kPage);
    munmap(allocation.backing, bytes);
    auto* host = reinterpret_cast<std::byte*>(allocation.base);
    if (host != allocation.backing) munmap(host, bytes);
    return;
  }
  wipe(allocation.backing, allocation.size);
  if (allocation.initialised != nullptr) wipe(allocation.initialised, (allocation.size + 7) / 8);
}

uint64_t Memory::gap_after(Address address) const {
  const uint64_t most = address - range_ < range_bytes_ / kFarShare ? kFarApart : kLessFarApart;
  return std::min(most, range_bytes_ / kShareOfAGap);
}

std::optional<Address> Memory::place_apart(uint64_t size, uint64_t align) {
  const Address end = range_ + range_bytes_;
  const Address base = round_up(next_apart_ + ids_ % kStaggered * kStaggerPages * kPage, align);
  const uint64_t spacing = round_up(size, kGrain) + gap_after(base);
  if (base >= end || end - base < spacing) return std::nullopt;
  next_apart_ = base + spacing;
  return base;
}

// Addresses that were never used, or, when there are none left, the first gap between live allocations.
std::optional<Address> Memory::place(uint64_t size, uint64_t align) {
  const uint64_t spacing = round_up(size, kGrain) + kRedZone;
  const Address end = range_ + range_bytes_, close = range_ + range_bytes_ / kCloseShare;
  auto fits = [&](Address from, Address to) -> std::optional<Address> {
    const Address base = round_up(from, align);
    if (base < from || base >= to || to - base < spacing) return std::nullopt;
    return base;
  };
  if (auto base = fits(next_, close)) {
    next_ = *base + spacing;
    return base;
  }
  Address from = round_up(range_ + kRedZone, kGrain);
  for (auto it = allocations_.lower_bound(range_); it != allocations_.end() && it->first < end; ++it) {
    if (!it->second.live) continue;
    if (auto base = fits(from, it->first)) return base;
    from = it->first + round_up(it->second.size, kGrain) + kRedZone;
  }
  return fits(from, end);
}

void Memory::insert(Allocation allocation) {
  // Tombstones whose addresses come back to life are no longer theirs.
  auto it = allocations_.upper_bound(allocation.base);
  if (it != allocations_.begin()) {
    const auto below = std::prev(it);
    if (below->second.end() > allocation.base || below->first == allocation.base) it = below;
  }
  while (it != allocations_.end() && (it->first < allocation.end() || it->first == allocation.base))
    it = allocations_.erase(it);
  allocation.id = ++ids_;
  const Address base = allocation.base;
  allocations_.emplace(base, std::move(allocation));
  __atomic_fetch_add(&generation_, 1, __ATOMIC_RELEASE);
}

Result<Address> Memory::allocate(uint64_t size, uint64_t align, MemoryKind kind, std::string label) {
  if (!std::has_single_bit(align) || align > kLargestAlign)
    return Error{fmt::format("no alignment: {}", align), {}, 0, 0};
  align = std::max(align, kGrain);
  std::unique_lock lock(mutex_);
  if (range_bytes_ == 0) return out_of_memory(size);
  Allocation made;
  made.size = size;
  made.kind = kind;
  made.label = std::move(label);
  if (shared_with_host(kind)) {
    if (size > kRangeBytes) return out_of_memory(size);
    const uint64_t bytes = round_up(std::max<uint64_t>(size, 1), kPage);
    Shared pages = track_initialised_ ? map_twice(bytes) : Shared{};
    if (pages.host == nullptr) pages.host = pages.device = reserve(bytes, PROT_READ | PROT_WRITE);
    if (pages.host == nullptr) return out_of_memory(size);
    made.base = reinterpret_cast<Address>(pages.host);
    made.backing = static_cast<std::byte*>(pages.device);
  } else {
    if (size > capacity_ || used_ > capacity_ - size || size > range_bytes_) return out_of_memory(size);
    const uint64_t aligned = size >= kPage ? std::max(align, kPage) : align;
    auto base = kind == MemoryKind::Device ? place_apart(size, aligned) : std::nullopt;
    if (!base) base = place(size, aligned);
    if (!base) return out_of_memory(size);
    made.base = *base;
    made.backing = backing_ + (*base - range_);
    if (track_initialised_ && kind != MemoryKind::Parameter) {
      made.initialised = initialised_ + (*base - range_) / 8;
      if (kind == MemoryKind::Variable) write_bits(made.initialised, 0, size, true);
    }
    used_ += size;
  }
  const Address base = made.base;
  insert(std::move(made));
  return base;
}

Result<Address> Memory::adopt_host(void* host, uint64_t size, std::string label) {
  const auto base = reinterpret_cast<Address>(host);
  if (host == nullptr || size == 0 || base + size < base) return Error{"no host memory to adopt", {}, 0, 0};
  std::unique_lock lock(mutex_);
  auto it = allocations_.lower_bound(base + size);
  for (; it != allocations_.begin();) {
    --it;
    if (it->second.live) {
      if (it->second.end() > base)
        return Error{fmt::format("host memory at {:#x} is already known to the device", base), {}, 0, 0};
      break;
    }
  }
  Allocation made;
  made.base = base;
  made.size = size;
  made.kind = MemoryKind::Pinned;
  made.adopted = true;
  made.label = std::move(label);
  made.backing = static_cast<std::byte*>(host);
  insert(std::move(made));
  return base;
}

bool Memory::release(Address address) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(address);
  if (it == allocations_.end() || !it->second.live) return false;
  Allocation& gone = it->second;
  forget(gone);
  if (!shared_with_host(gone.kind)) used_ -= gone.size;
  gone.live = false;
  gone.backing = nullptr;
  gone.initialised = nullptr;
  gone.made.reset();
  __atomic_fetch_add(&generation_, 1, __ATOMIC_RELEASE);
  return true;
}

bool Memory::make_on_touch(Address base, GeneratedContent content) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(base);
  if (it == allocations_.end() || !it->second.live || shared_with_host(it->second.kind)) return false;
  Allocation& allocation = it->second;
  if (content.offset > allocation.size || content.length > allocation.size - content.offset ||
      content.values.item == 0 || content.values.item > 8)
    return false;
  if (content.defined) allocation.initialised = nullptr;
  allocation.made = std::make_shared<GeneratedPages>(allocation, std::move(content));
  __atomic_fetch_add(&generation_, 1, __ATOMIC_RELEASE);
  return true;
}

const Allocation* Memory::find_locked(Address address) const {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  const Allocation& candidate = std::prev(it)->second;
  return candidate.live && candidate.contains(address, 1) ? &candidate : nullptr;
}

std::optional<Allocation> Memory::find(Address address) const {
  std::shared_lock lock(mutex_);
  const Allocation* found = find_locked(address);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

LiveRange Memory::locate(Address address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  const Allocation* found = find_locked(address);
  if (found == nullptr) return {};
  if (found->made) {
    const auto [low, high, newly] = found->made->reach(address, std::min(bytes, found->end() - address));
    __atomic_fetch_add(&generated_bytes_, newly, __ATOMIC_RELAXED);
    const uint64_t skipped = low - found->base;  // a multiple of 8: pages are, and so is the base
    return {low, high, found->backing + skipped,
            found->initialised ? found->initialised + skipped / 8 : nullptr};
  }
  return {found->base, found->end(), found->backing, found->initialised};
}

std::optional<Allocation> Memory::nearest(Address address) const {
  // How far before an allocation, where it is not larger itself: half of a gap that was left on purpose.
  constexpr uint64_t kNear = 64 << 10;
  std::shared_lock lock(mutex_);
  const auto after = allocations_.upper_bound(address);
  const Allocation* before = after == allocations_.begin() ? nullptr : &std::prev(after)->second;
  if (after != allocations_.end()) {
    const Allocation& next = after->second;
    const uint64_t distance = next.base - address;
    const bool closer = !before || (address >= before->end() && distance < address - before->end());
    const uint64_t gap = before && next.base > before->end() ? next.base - before->end() : 0;
    const uint64_t near = gap >= gap_after(address) ? gap / 2 : kNear;
    if (closer && distance <= std::max(next.size, near)) return next;
  }
  if (!before) return std::nullopt;
  return *before;
}

std::vector<Allocation> Memory::live() const {
  std::shared_lock lock(mutex_);
  std::vector<Allocation> all;
  for (const auto& [base, allocation] : allocations_)
    if (allocation.live) all.push_back(allocation);
  return all;
}

void Memory::relabel(Address base, std::string label) {
  std::unique_lock lock(mutex_);
  if (auto it = allocations_.find(base); it != allocations_.end()) it->second.label = std::move(label);
}

std::byte* Memory::host(Address address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  const Allocation* found = find_locked(address);
  if (found == nullptr || !found->contains(address, bytes)) return nullptr;
  if (found->made)
    __atomic_fetch_add(&generated_bytes_, found->made->reach(address, bytes).newly_bytes, __ATOMIC_RELAXED);
  return found->backing + (address - found->base);
}

void Memory::mark_initialised(Address address, uint64_t bytes, bool initialised) {
  std::shared_lock lock(mutex_);
  const Allocation* found = find_locked(address);
  if (found == nullptr || found->initialised == nullptr) return;
  const uint64_t first = address - found->base;
  write_bits(found->initialised, first, std::min(bytes, found->size - first), initialised);
}

std::optional<Address> Memory::first_uninitialised(Address address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  const Allocation* found = find_locked(address);
  if (found == nullptr || found->initialised == nullptr) return std::nullopt;
  const uint64_t first = address - found->base;
  const uint64_t end = first + std::min(bytes, found->size - first);
  const uint64_t at = find_bit(found->initialised, first, end, false);
  return at < end ? std::optional(found->base + at) : std::nullopt;
}

void Memory::copy_initialised(Address to, Address from, uint64_t bytes) {
  std::shared_lock lock(mutex_);
  const Allocation* target = find_locked(to);
  if (target == nullptr || target->initialised == nullptr) return;
  bytes = std::min(bytes, target->end() - to);
  const uint64_t at = to - target->base;
  const Allocation* origin = find_locked(from);
  if (origin == nullptr || origin->initialised == nullptr) {  // host memory counts as initialised
    write_bits(target->initialised, at, bytes, true);
    return;
  }
  const uint64_t start = from - origin->base;
  const uint64_t end = start + std::min(bytes, origin->size - start);
  if (target == origin && at > start && at < end) {  // overlapping upwards: the last run first
    for (uint64_t i = end; i-- > start;)
      write_bits(target->initialised, at + (i - start), 1, bit(origin->initialised, i));
    return;
  }
  for (uint64_t i = start; i < end;) {  // run by run
    const bool value = bit(origin->initialised, i);
    const uint64_t run = find_bit(origin->initialised, i, end, !value);
    write_bits(target->initialised, at + (i - start), run - i, value);
    i = run;
  }
}

}  // namespace assay::vgpu
