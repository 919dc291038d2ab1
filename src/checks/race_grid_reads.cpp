#include "checks/race_grid_reads.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "vgpu/program.h"
#include "vgpu/provenance.h"

namespace assay::checks {

namespace {

using ptx::Mod;
using ptx::Opcode;
using vgpu::Address;
using vgpu::Shape;

constexpr uint64_t kWordBits = kAllWords;

bool has_address(const ptx::Instruction& inst) {
  return std::any_of(inst.operands.begin(), inst.operands.end(),
                     [](const ptx::Operand& o) { return o.kind == ptx::Operand::Kind::Address; });
}

// Memory that other blocks do not see, or that nothing writes.
bool is_elsewhere(const ptx::Instruction& inst) {
  constexpr Mod kSpaces[] = {Mod::param,  Mod::param_entry, Mod::param_func,     Mod::const_,
                             Mod::shared, Mod::shared_cta,  Mod::shared_cluster, Mod::local};
  return !inst.has(Mod::global) &&
         std::any_of(std::begin(kSpaces), std::end(kSpaces), [&](Mod space) { return inst.has(space); });
}

enum class Effect : uint8_t { None, Loads, Writes, Unknown };

// What an instruction does with device memory.
Effect effect_of(const ptx::Instruction& inst) {
  switch (inst.opcode) {
    case Opcode::call:
      return Effect::Unknown;
    case Opcode::ld:
      return is_elsewhere(inst) ? Effect::None : Effect::Loads;
    case Opcode::ldu:
    case Opcode::prefetch:
    case Opcode::prefetchu:
    case Opcode::ldmatrix:
    case Opcode::cp_async:  // into shared memory
      return Effect::None;
    case Opcode::st:
    case Opcode::atom:
    case Opcode::red:
      return is_elsewhere(inst) ? Effect::None : Effect::Writes;
    default:
      return has_address(inst) && !is_elsewhere(inst) ? Effect::Unknown : Effect::None;
  }
}

// What a warp reads: `count` places of `bytes` bytes each.
struct Places {
  Address at[vgpu::kWarpSize];
  uint32_t count, bytes;
};

// Joins pairs of places that lie side by side, in all of which the second comes equally many places later: elements of
// half a word become words, and the rows of a fragment become one place each. False: they do not pair off.
bool join_pairs(Places& places) {
  uint32_t apart = 1;
  while (apart < places.count && places.at[apart] != places.at[0] + places.bytes) apart *= 2;
  if (apart >= places.count) return false;
  bool pairs = true;
  for (uint32_t k = 0; k < places.count; ++k)
    pairs &= (k & apart) != 0 || places.at[k + apart] == places.at[k] + places.bytes;
  if (!pairs) return false;
  uint32_t joined = 0;
  for (uint32_t k = 0; k < places.count; ++k)
    if ((k & apart) == 0) places.at[joined++] = places.at[k];
  places.count = joined;
  places.bytes *= 2;
  return true;
}

// The bits of the words that `bytes` bytes touch, of which the first comes first.
uint64_t words_of(uint64_t bytes) {
  return (uint64_t{1} << bytes / 4) - 1;
}

}  // namespace

GridReads::GridReads(const vgpu::Memory& memory)
    : memory_(memory),
      base_(memory.range_base() / kRowBytes * kRowBytes),
      count_((memory.range_bytes() + memory.range_base() - base_ + kRowBytes - 1) / kRowBytes) {
  void* place = mmap(nullptr, count_ * sizeof *rows_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    count_ = 0;  // nothing is noted here
  else
    rows_ = static_cast<uint64_t*>(place);
}

GridReads::~GridReads() {
  if (rows_) munmap(rows_, count_ * sizeof *rows_);
}

void GridReads::clear() {
  if (rows_) madvise(rows_, count_ * sizeof *rows_, MADV_DONTNEED);
  uses_.clear();
  writer_ = reader_ = 0;
  disturb(1, 0);
  under_way_.clear();
}

// ---- Operations ----

// An allocation that begins or ends elsewhere than one before at the same place takes over what is known of it.
GridReads::Use& GridReads::use_of(Address low, Address high) {
  auto at = uses_.upper_bound(low);
  if (at != uses_.begin() && std::prev(at)->second.high > low) --at;
  if (at != uses_.end() && at->first == low && at->second.high == high) return at->second;
  Use use{high, 0, 0};
  while (at != uses_.end() && at->first < high) {
    low = std::min(low, at->first);
    use = {std::max(use.high, at->second.high), std::max(use.writer, at->second.writer),
           std::max(use.reader, at->second.reader)};
    at = uses_.erase(at);
  }
  return uses_[low] = use;
}

bool GridReads::is_only_device(Address low, Address high) const {
  return low >= base_ && high <= base_ + count_ * kRowBytes;
}

bool GridReads::disturb(uint32_t reader, uint32_t ordered_below) {
  if (reader < ordered_below) return false;
  for (const auto& [number, only_read] : under_way_)
    if (number >= ordered_below) only_read->is_disturbed.store(true, std::memory_order_relaxed);
  return true;
}

GridReads::Uses GridReads::begin_grid(const vgpu::LaunchInfo& launch, const Operation& operation,
                                      uint32_t ordered_below) {
  Uses uses;
  const auto writes_anywhere = [&] {
    uses.meets_reads = disturb(reader_, ordered_below);
    writer_ = operation.last;
    return uses;
  };
  const std::vector<ptx::Instruction>& body = launch.kernel.function->ptx->body;
  if (!launch.bounds) return writes_anywhere();
  std::map<uint32_t, const vgpu::SiteBound*> bounds;  // by instruction
  for (const vgpu::SiteBound& bound : launch.bounds->bounds) bounds[bound.source] = &bound;

  std::map<Address, Address> written, read;  // allocations: from where to where
  std::vector<std::pair<uint32_t, Address>> loads;
  for (uint32_t i = 0; i < body.size(); ++i) {
    const Effect effect = effect_of(body[i]);
    if (effect == Effect::None) continue;
    const auto found = bounds.find(i);
    if (effect == Effect::Loads) {
      if (found == bounds.end() || !is_only_device(found->second->low, found->second->high)) continue;
      loads.emplace_back(i, found->second->low);
      read[found->second->low] = found->second->high;
      continue;
    }
    if (effect == Effect::Unknown || found == bounds.end()) return writes_anywhere();
    written[found->second->low] = found->second->high;
  }

  for (const auto& [low, high] : written) {
    Use& use = use_of(low, high);
    uses.meets_reads |= disturb(use.reader, ordered_below);
    use.writer = operation.last;
  }
  // Threads of a grid that starts early are not all ordered alike.
  if (!operation.known_early.empty() || writer_ >= ordered_below) return uses;
  for (auto it = read.begin(); it != read.end();) {
    Use& use = use_of(it->first, it->second);
    const bool is_quiet = use.writer < ordered_below;  // among them this grid's own writes
    if (is_quiet) reader_ = use.reader = operation.last;
    it = is_quiet ? std::next(it) : read.erase(it);
  }
  if (read.empty()) return uses;
  uses.only_read = std::make_shared<OnlyRead>();
  for (const auto& [source, low] : loads)
    if (read.count(low) != 0) uses.only_read->loads.push_back(source);
  under_way_[operation.last] = uses.only_read;
  return uses;
}

bool GridReads::begin_write(Address address, const Operation& operation, uint32_t ordered_below) {
  const auto allocation = memory_.find(address);
  if (!allocation) {
    writer_ = operation.last;
    return disturb(reader_, ordered_below);
  }
  Use& use = use_of(allocation->base, allocation->end());
  use.writer = operation.last;
  return disturb(use.reader, ordered_below);
}

// ---- Reads ----

inline void GridReads::note_words(const Operation& grid, uint64_t author, uint64_t index, uint64_t words) {
  const uint64_t before = load(index);
  const uint64_t block = before >> 33;
  const bool is_own = block >= grid.first && block <= grid.last;
  if (is_own && (words & ~before) == 0) return;
  __atomic_store_n(rows_ + index, is_own ? before | words : author | words, __ATOMIC_RELAXED);
}

inline bool GridReads::note_range(const Operation& grid, uint64_t author, Address low, uint64_t bytes) {
  if (((low | bytes) & 3) != 0 || low < base_ || (low - base_ + bytes + kRowBytes - 1) / kRowBytes > count_)
    return false;
  const Address high = low + bytes;
  for (Address at = low; at < high;) {
    const uint64_t start = at % kRowBytes;
    const Address end = std::min(high, at - start + kRowBytes);
    note_words(grid, author, (at - base_) / kRowBytes, words_of(end - at) << start / 4);
    at = end;
  }
  return true;
}

bool GridReads::note(const Operation& grid, Who who, const AddressPattern& pattern) {
  const uint64_t author = author_bits(who), bytes = pattern.bytes;
  constexpr uint64_t kHalf = vgpu::kWarpSize / 2;
  switch (pattern.shape) {
    case Shape::Unit:
      return note_range(grid, author, pattern.first, vgpu::kWarpSize * bytes);
    case Shape::Uniform:
      return note_range(grid, author, pattern.first, bytes);
    case Shape::HalfUnit:
      return note_range(grid, author, pattern.first, kHalf * bytes) &&
             (pattern.first == pattern.second || note_range(grid, author, pattern.second, kHalf * bytes));
    case Shape::HalfUniform:
      return note_range(grid, author, pattern.first, bytes) &&
             note_range(grid, author, pattern.second, bytes);
    case Shape::Other:
      break;
  }
  return false;
}

bool GridReads::note(const Operation& grid, Who who, const vgpu::Access& access) {
  if (access.shape != Shape::Other) return note(grid, who, AddressPattern(access));
  const uint64_t author = author_bits(who);
  Places places{.count = 0, .bytes = access.bytes};
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1)
    places.at[places.count++] = access.addresses[std::countr_zero(rest)];
  if (access.lanes == vgpu::kAllLanes)
    while (join_pairs(places)) {
    }
  for (uint32_t k = 0; k < places.count; ++k)
    if (!note_range(grid, author, places.at[k], places.bytes)) return false;
  return true;
}

}  // namespace assay::checks
