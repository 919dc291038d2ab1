#include "shadow/cells.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>

namespace assay::shadow {

namespace {

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // of accounts
constexpr uintptr_t kOffsets = Cells::kPageBytes - 1;

uint64_t error_bytes(unsigned shift) {
  return (Cells::kPageBytes >> shift) * sizeof(Error);
}

// Fresh pages of the system: accounts that are never written cost nothing.
template <unsigned Shift>
void unmap(Error* errors) {
  munmap(errors, error_bytes(Shift));
}
constexpr void (*kUnmap[])(Error*) = {unmap<0>, unmap<1>, unmap<2>, unmap<3>};

Error* map_errors(unsigned shift) {
  void* place = mmap(nullptr, error_bytes(shift), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place == MAP_FAILED ? nullptr : static_cast<Error*>(place);
}

}  // namespace

uint32_t Cells::bits_at(uintptr_t last, uint32_t size) {
  const void* at = reinterpret_cast<const void*>(last + 1 - size);
  const auto load = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (size) {
    case 1:
      return load(uint8_t{});
    case 2:
      return load(uint16_t{});
    case 4:
      return load(uint32_t{});
    default:
      break;
  }
  const uint64_t bits = load(uint64_t{});
  return static_cast<uint32_t>(bits ^ bits >> 32);
}

Cells::Page* Cells::look_up(uintptr_t number) {
  const auto found = pages_.find(number);
  known_number_ = number;
  return known_ = found == pages_.end() ? nullptr : found->second.get();
}

Cells::Page* Cells::make(uintptr_t number, uint32_t size) {
  const auto shift = static_cast<unsigned>(std::bit_width(size) - 1);
  if (bytes_ + error_bytes(shift) > kMostBytes) return nullptr;
  auto fresh = std::make_unique<Page>();
  fresh->shift = shift;
  Error* errors = map_errors(shift);
  if (errors == nullptr) return nullptr;
  fresh->errors = {errors, kUnmap[shift]};
  fresh->tags = std::make_unique<Tag[]>(kPageBytes >> shift);
  bytes_ += error_bytes(shift);
  known_number_ = number;
  return known_ = pages_.insert_or_assign(number, std::move(fresh)).first->second.get();
}

// Smaller elements than it has room for: the accounts move apart.
bool Cells::reshape(Page& page, unsigned shift) {
  if (bytes_ + error_bytes(shift) > kMostBytes) return false;
  Error* errors = map_errors(shift);
  if (errors == nullptr) return false;
  auto tags = std::make_unique<Tag[]>(kPageBytes >> shift);
  for (uintptr_t at = 0; at < kPageBytes; ++at) {
    if (!page.has(at)) continue;
    errors[at >> shift] = page.errors[at >> page.shift];
    tags[at >> shift] = page.tags[at >> page.shift];
  }
  bytes_ += error_bytes(shift) - error_bytes(page.shift);
  page.errors = {errors, kUnmap[shift]};
  page.tags = std::move(tags);
  page.shift = shift;
  return true;
}

bool Cells::any(uintptr_t first, uintptr_t last) {
  if (total_ == 0) return false;
  for (uintptr_t number = first >> kPageShift; number <= last >> kPageShift; ++number)
    if (const Page* p = page(number); p != nullptr && p->count != 0) return true;
  return false;
}

const Error* Cells::find(uintptr_t last) {
  const Page* p = page(last >> kPageShift);
  if (p == nullptr) return nullptr;
  const uintptr_t at = last & kOffsets;
  if (!p->has(at)) return nullptr;
  const Tag& tag = p->tags[at >> p->shift];
  return tag.bits == bits_at(last, tag.size) ? &p->errors[at >> p->shift] : nullptr;
}

void Cells::put(uintptr_t last, uint32_t size, uint8_t number, const Error& error) {
  Page* p = page(last >> kPageShift);
  if (p == nullptr) p = make(last >> kPageShift, size);
  const auto shift = static_cast<unsigned>(std::bit_width(size) - 1);
  if (p == nullptr || (shift < p->shift && !reshape(*p, shift))) {
    ++dropped_;
    return;
  }
  const uintptr_t at = last & kOffsets;
  if (!p->has(at)) {
    p->present[at / 64] |= uint64_t{1} << (at % 64);
    ++p->count;
    ++total_;
  }
  p->tags[at >> p->shift] = {bits_at(last, size), static_cast<uint8_t>(size), number};
  p->errors[at >> p->shift] = error;
}

void Cells::clear(uintptr_t first, uint64_t bytes) {
  if (total_ == 0 || bytes == 0) return;
  const uintptr_t end = first + bytes;
  for (uintptr_t number = first >> kPageShift; number <= (end - 1) >> kPageShift; ++number) {
    Page* p = page(number);
    if (p == nullptr || p->count == 0) continue;
    const uintptr_t base = number << kPageShift;
    const uintptr_t from = first > base ? first - base : 0,
                    to = end - base < kPageBytes ? end - base : kPageBytes;
    for (uintptr_t word = from / 64; word <= (to - 1) / 64; ++word) {
      uint64_t mask = ~uint64_t{0};
      if (word == from / 64) mask &= ~uint64_t{0} << (from % 64);
      if (word == (to - 1) / 64) mask &= ~uint64_t{0} >> (63 - (to - 1) % 64);
      const auto gone = static_cast<uint32_t>(std::popcount(p->present[word] & mask));
      p->count -= gone;
      total_ -= gone;
      p->present[word] &= ~mask;
    }
  }
}

void Cells::copy(uintptr_t to, uintptr_t from, uint64_t bytes) {
  clear(to, bytes);
  if (!any(from, from + bytes - 1)) return;
  for (uint64_t b = 0; b < bytes; ++b) {
    const Error* found = find(from + b);
    if (found == nullptr) continue;
    const Error error = *found;
    const Page* source = page((from + b) >> kPageShift);
    const uintptr_t at = (from + b) & kOffsets;
    const Tag tag = source->tags[at >> source->shift];
    put(to + b, tag.size, tag.number, error);
    if (Page* p = page((to + b) >> kPageShift); p != nullptr && p->has((to + b) & kOffsets))
      p->tags[((to + b) & kOffsets) >> p->shift].bits = tag.bits;
  }
}

void Cells::each(uintptr_t first, uint64_t bytes,
                 const std::function<void(uintptr_t, uint32_t, uint8_t, const Error&)>& visit) {
  if (bytes == 0) return;
  for (uintptr_t number = first >> kPageShift; number <= (first + bytes - 1) >> kPageShift; ++number) {
    const Page* p = page(number);
    if (p == nullptr || p->count == 0) continue;
    for (uintptr_t word = 0; word < kPageBytes / 64; ++word) {
      for (uint64_t rest = p->present[word]; rest != 0; rest &= rest - 1) {
        const uintptr_t at = word * 64 + static_cast<unsigned>(std::countr_zero(rest));
        const uintptr_t last = (number << kPageShift) + at;
        if (last < first || last >= first + bytes) continue;
        const Tag& tag = p->tags[at >> p->shift];
        if (tag.bits == bits_at(last, tag.size)) visit(last, tag.size, tag.number, p->errors[at >> p->shift]);
      }
    }
  }
}

}  // namespace assay::shadow
