#include "checks/race_words.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>

namespace assay::checks {

namespace {

template <class T>
T* reserve(uint64_t count) {
  void* place = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place == MAP_FAILED ? nullptr : static_cast<T*>(place);
}

template <class T>
void release(T* place, uint64_t count) {
  if (place) munmap(static_cast<void*>(place), count * sizeof(T));
}

template <class T>
void forget(T* place, uint64_t count) {
  if (place) madvise(static_cast<void*>(place), count * sizeof(T), MADV_DONTNEED);
}

}  // namespace

const bool SingleWords::kRemembersLanes =
    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");

SingleWords::SingleWords(vgpu::Address base, uint64_t bytes)
    : base_(base / 4 * 4),
      count_(bytes / 4),
      first_(reserve<uint32_t>(count_)),
      other_(reserve<uint32_t>(count_)),
      write_(reserve<uint32_t>(count_)),
      authors_(reserve<Who>(kMostAuthors)) {
  if (!first_ || !other_ || !write_ || !authors_) next_ = kMostAuthors;  // no room at all
}

SingleWords::~SingleWords() {
  release(first_, count_);
  release(other_, count_);
  release(write_, count_);
  release(authors_, kMostAuthors);
}

void SingleWords::clear() {
  if (!first_ || !other_ || !write_ || !authors_) return;
  forget(first_, count_);
  forget(other_, count_);
  forget(write_, count_);
  next_ = kNoGrid + 1;
  ++version_;
}

void SingleWords::make_room() {
  if (next_ >= kMostAuthors / 2) clear();
}

uint32_t SingleWords::number_grid() {
  if (next_.load(std::memory_order_relaxed) >= kMostAuthors) return kMostAuthors;
  const uint32_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number < kMostAuthors) authors_[number] = {};
  return number;
}

uint32_t SingleWords::author_of(WordAuthors& known, Who who) {
  WordAuthors::Entry& entry = known.entries[(who.warp() * 7 + who.site()) % known.entries.size()];
  const uint32_t version = version_.load(std::memory_order_relaxed);
  if (entry.who == who && entry.version == version) return entry.author;
  if (next_.load(std::memory_order_relaxed) >= kMostAuthors) return 0;
  const uint32_t author = next_.fetch_add(1, std::memory_order_relaxed);
  if (author >= kMostAuthors) {
    next_ = kMostAuthors;
    return 0;
  }
  authors_[author] = who;
  entry = {who, author, version};
  return author;
}

bool SingleWords::remember_again(uint64_t index, uint32_t first, uint32_t now, const Read& read,
                                 uint32_t& other) {
  const Who who = authors_[first >> kAuthorShift];
  const bool is_same_thread = who.block() == read.who.block() && who.warp() == read.who.warp() &&
                              ((first ^ now) >> kLaneShift & 31) == 0;
  // A thread that reads all of it again.
  const bool reads_again = is_same_thread && (first & kBytes & ~now) == 0;
  if (who.block() < read.ordered_below || reads_again) {
    __atomic_store_n(first_ + index, now, __ATOMIC_RELAXED);
    return false;
  }
  __atomic_store_n(other_ + index, now, __ATOMIC_RELAXED);
  other = who.block();
  return (first & now & kBytes) == kBytes && who.block() != read.who.block();
}

uint32_t SingleWords::remember_lanes(const vgpu::Access& access, uint32_t lanes, const Read& read) {
  return kRemembersLanes ? remember_wide(access, lanes, read) : 0;
}

uint32_t SingleWords::remember_marked(const vgpu::Access& access, uint32_t lanes, const Read& read) {
  if (read.first_author <= kNoGrid) return 0;
  const uint32_t mark = read.first_author << kAuthorShift, now = read.author << kAuthorShift | read.bytes;
  // Each lane's word is a cache miss as a rule: all are asked for before anything depends on one of them.
  uint32_t done = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t index = std::min(index_of(access.addresses[lane]), count_ - 1);
    const bool is_inside = index == index_of(access.addresses[lane]);
    const bool is_marked = __atomic_load_n(first_ + index, __ATOMIC_RELAXED) == mark;
    done |= static_cast<uint32_t>(is_inside && is_marked) << lane;
  }
  for (uint32_t rest = done; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    uint32_t* place = first_ + index_of(access.addresses[lane]);
    if (__atomic_load_n(place, __ATOMIC_RELAXED) == mark)
      __atomic_store_n(place, now | lane << kLaneShift, __ATOMIC_RELAXED);
    else
      done &= ~(1u << lane);  // a lane before this one reads the same word
  }
  return done;
}

void SingleWords::mark(vgpu::Address row, uint16_t words, uint32_t grid) {
  const uint64_t start = index_of(row);
  if (grid <= kNoGrid || grid >= kMostAuthors || start + kRowWords > count_) return;
  const uint32_t mark = grid << kAuthorShift;
  for (uint32_t word = 0; word < kRowWords; ++word) {
    uint32_t* place = first_ + start + word;
    if ((words >> word & 1) != 0 && __atomic_load_n(place, __ATOMIC_RELAXED) < mark)
      __atomic_store_n(place, mark, __ATOMIC_RELAXED);
  }
}

void SingleWords::unmark(vgpu::Address address, uint16_t words) {
  const uint64_t start = index_of(address / kRowBytes * kRowBytes);
  if (start + kRowWords > count_) return;
  bool any = false;
  for (uint32_t rest = words; rest; rest &= rest - 1) {
    uint32_t* place = first_ + start + static_cast<uint32_t>(__builtin_ctz(rest));
    uint32_t there = __atomic_load_n(place, __ATOMIC_RELAXED);
    if (there == 0 || (there & kBytes) != 0) continue;
    // A reader that comes first is left there, to be compared with the write.
    any |= __atomic_compare_exchange_n(place, &there, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  if (any) closings_.fetch_add(1, std::memory_order_seq_cst);
}

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl")

using Vector = uint64_t __attribute__((vector_size(64)));

// Eight lanes at a time. Of lanes that read one word, one is remembered at once.
uint32_t SingleWords::remember_wide(const vgpu::Access& access, uint32_t lanes, const Read& read) {
  uint32_t done = 0;
  const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (uint32_t k = 0; k < 32; k += 8) {
    const auto mask = static_cast<__mmask8>(lanes >> k);
    Vector at;
    __builtin_memcpy(&at, access.addresses + k, sizeof at);
    const auto index = reinterpret_cast<__m512i>((at - base_) >> 2);
    const uint32_t without_lane = read.author << kAuthorShift | read.bytes;
    const __m256i lane = _mm256_add_epi32(eight, _mm256_set1_epi32(static_cast<int>(k)));
    const __m256i now = _mm256_or_si256(_mm256_set1_epi32(static_cast<int>(without_lane)),
                                        _mm256_slli_epi32(lane, kLaneShift));
    const __m256i first = _mm512_mask_i64gather_epi32(_mm256_setzero_si256(), mask, index, first_, 4);
    const __m256i bound = _mm256_set1_epi32(static_cast<int>(read.first_author << kAuthorShift));
    const __mmask8 free = _mm256_mask_cmple_epu32_mask(mask, first, bound);
    _mm512_mask_i64scatter_epi32(first_, free, index, now, 4);
    const __m256i there = _mm512_mask_i64gather_epi32(_mm256_setzero_si256(), mask, index, first_, 4);
    done |= uint32_t{_mm256_mask_cmpeq_epi32_mask(mask, there, now)} << k;
  }
  return done;
}

#pragma GCC pop_options

}  // namespace assay::checks
