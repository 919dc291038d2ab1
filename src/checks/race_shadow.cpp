#include "checks/race_shadow.h"

#include <sys/mman.h>

#include <bit>
#include <utility>

namespace assay::checks {

Touch Touch::part(uint32_t common) const {
  uint8_t together = 0;
  const uint8_t first = lane_of(static_cast<uint32_t>(std::countr_zero(common)));
  for (uint32_t b = 0; b < 4; ++b)
    if ((common >> b & 1) != 0 && lane_of(b) == first) together |= static_cast<uint8_t>(1u << b);
  return {who, first, together, several};
}

Touch RowMark::at(uint32_t word) const {
  if (!(words >> word & 1)) return {};
  if (several) return {who, static_cast<uint8_t>(base), 0xf, true};
  if (shift >= 2) return {who, lane_of(word * 4), 0xf, false};
  if (fits_cells()) return {who, lane_of(word * 4), 0xf, false, shift, stride};
  // The last lane is remembered.
  return {who, lane_of(word * 4 + 3), static_cast<uint8_t>(shift == 0 ? 0x8 : 0xc), false};
}

// ---- Whole rows ----

namespace {

constexpr uint32_t kOrderAt = 12, kHighAt = 62;  // of the bits that a code takes
constexpr uint64_t kCodeBits = uint64_t{3} << kOrderAt | uint64_t{3} << kHighAt;
constexpr uint32_t kOneLane = 1;  // code

}  // namespace

WholeWrite WholeWrite::of(const RowMark& mark) {
  if (mark.words != kAllWords || mark.several || (mark.who.bits & kCodeBits) != 0) return {kOther};
  uint32_t code = 0;
  if (mark.shift == RowMark::kOneLane) {
    if (mark.base != 0) return {kOther};
    code = kOneLane;
  } else {
    const int32_t lanes = static_cast<int32_t>(kRowBytes >> mark.shift);  // of the row
    if (mark.shift == 0 || mark.shift > 4 || mark.stride != 1 || mark.base < 0 || mark.base % lanes != 0 ||
        mark.base + lanes > 32)
      return {kOther};
    code = mark.shift == 1 ? 0 : (1u << (mark.shift - 1)) + static_cast<uint32_t>(mark.base / lanes);
  }
  return {mark.who.bits | uint64_t{code & 3} << kOrderAt | uint64_t{code >> 2} << kHighAt};
}

RowMark WholeWrite::mark() const {
  const auto code = static_cast<uint32_t>((bits >> kOrderAt & 3) | (bits >> kHighAt & 3) << 2);
  RowMark mark{{bits & ~kCodeBits}, static_cast<uint16_t>(kAllWords)};
  if (code == kOneLane) {
    mark.shift = RowMark::kOneLane;
  } else if (code == 0) {
    mark.shift = 1;
  } else {
    mark.shift = static_cast<uint8_t>(std::bit_width(code));
    mark.base = static_cast<int16_t>((code - (1u << (mark.shift - 1))) * (kRowBytes >> mark.shift));
  }
  return mark;
}

// ---- Cells: bits 0-3 author, 4 split, 5-9 lane, 10-13 bytes, 14 several. Split: 10-13 stride, 14 into
// quarters ----

Touch Cells::get(uint16_t cell) const {
  if (cell == 0) return {};
  const auto bits = static_cast<uint8_t>(cell >> 10 & 15);
  const bool flag = (cell >> 14 & 1) != 0;
  Touch touch{authors()[(cell & kAuthor) - 1], static_cast<uint8_t>(cell >> 5 & 31), bits, flag};
  if (cell & kSplit) {
    touch.bytes = 0xf;
    touch.several = false;
    touch.shift = flag ? 0 : 1;
    touch.stride = bits;
  }
  return touch;
}

uint16_t Cells::encode(uint32_t author, const Touch& touch) {
  const uint32_t bits = touch.is_split() ? touch.stride : touch.bytes;
  const bool flag = touch.is_split() ? touch.shift == 0 : touch.several;
  return static_cast<uint16_t>(author | (touch.is_split() ? kSplit : 0u) | uint32_t{touch.lane} << 5 |
                               bits << 10 | uint32_t{flag} << 14);
}

uint32_t Cells::find(Who who) const {
  uint32_t author = count;
  while (author > 0 && authors()[author - 1] != who) --author;
  return author;
}

uint16_t Cells::put(const Touch& touch) {
  if (!touch) return 0;
  uint32_t author = find(touch.who);
  if (author == 0) {
    if (count == room) collect();
    if (count == room) return 0;
    author = ++count;
    authors()[author - 1] = touch.who;
  }
  return encode(author, touch);
}

void Cells::put_write(uint32_t word, const Touch& touch) {
  const uint16_t fresh = put(touch);  // may collect: the cells are read afterwards
  const uint16_t older = std::exchange(write[word], fresh);
  const Touch before = get(older);
  const uint32_t left = before.bytes & ~uint32_t{touch.bytes};
  if (left != 0) other[word] = encode(older & kAuthor, before.part(left)) | kWrote;
}

void Cells::collect() {
  for (int round = 0; round < 4 && count == room; ++round) {
    forgot |= round > 0;
    if (round == 1) std::memset(other, 0, sizeof other);
    if (round == 2) std::memset(read, 0, sizeof read);
    if (round == 3)
      for (uint16_t& cell : write)
        if ((cell & kAuthor) == 1) cell = 0;  // the oldest author
    uint32_t used = 0;
    for (const auto* kind : {write, read, other})
      for (uint32_t w = 0; w < kRowWords; ++w) used |= 1u << (kind[w] & kAuthor);
    uint16_t number[kAuthor + 1] = {};
    uint32_t kept = 0;
    for (uint32_t a = 1; a <= count; ++a) {
      if (!(used >> a & 1)) continue;
      authors()[kept++] = authors()[a - 1];
      number[a] = static_cast<uint16_t>(kept);
    }
    count = static_cast<uint8_t>(kept);
    for (auto* kind : {write, read, other})
      for (uint32_t w = 0; w < kRowWords; ++w)
        kind[w] = static_cast<uint16_t>((kind[w] & ~uint32_t{kAuthor}) | number[kind[w] & kAuthor]);
  }
}

Cells* CellPool::take(uint8_t room) {
  if (free_[room].empty() && !free_[Cells::kMany].empty()) room = Cells::kMany;
  auto& free = free_[room];
  if (free.empty()) {
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(kChunk * Cells::bytes_of(room)), room});
    set_free(chunks_.back());
  }
  Cells* cells = free.back();
  free.pop_back();
  std::memset(static_cast<void*>(cells), 0, Cells::bytes_of(room));
  cells->room = room;
  return cells;
}

void CellPool::set_free(const Chunk& chunk) {
  for (size_t i = kChunk; i-- > 0;)
    free_[chunk.room].push_back(
        reinterpret_cast<Cells*>(chunk.cells.get() + i * Cells::bytes_of(chunk.room)));
}

void CellPool::clear() {
  for (auto& free : free_) free.clear();
  for (const Chunk& chunk : chunks_) set_free(chunk);
}

// ---- Rows ----

RowShadow::RowShadow(vgpu::Address base, uint64_t bytes)
    : base_(base / kRowBytes * kRowBytes), count_((bytes + base - base_ + kRowBytes - 1) / kRowBytes) {
  const auto reserve = [&](size_t size) {
    return mmap(nullptr, count_ * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  };
  void* rows = reserve(sizeof(Row));
  void* whole = reserve(sizeof(WholeWrite));
  rows_ = rows == MAP_FAILED ? nullptr : static_cast<Row*>(rows);
  whole_ = whole == MAP_FAILED ? nullptr : static_cast<WholeWrite*>(whole);
  reserved_ = count_;
  if (!rows_ || !whole_) count_ = 0;  // rows are then found by address
}

RowShadow::~RowShadow() {
  if (rows_) munmap(static_cast<void*>(rows_), reserved_ * sizeof(Row));
  if (whole_) munmap(static_cast<void*>(whole_), reserved_ * sizeof(WholeWrite));
}

void RowShadow::spread(uint64_t index) {
  Row& row = rows_[index];
  if (const WholeWrite write = std::exchange(whole_[index], {WholeWrite::kOther}); write.bits != 0) {
    row = {};
    row.write = write.mark();
  }
}

Row& RowShadow::host_row(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  auto& chunk = host_rows_[address / kRowBytes / kChunkRows];
  if (!chunk) chunk = std::make_unique<Row[]>(kChunkRows);
  return chunk[address / kRowBytes % kChunkRows];
}

Cells* RowShadow::take_apart(Row& row, Who now) {
  Cells* there = row.cells();
  if (there && (there->count < there->room || there->room == Cells::kMany || there->find(now))) return there;
  std::lock_guard lock(mutex_);
  Cells* cells = pool_.take(there ? Cells::kMany : Cells::kFew);
  if (there) {
    const uint8_t room = cells->room;
    std::memcpy(static_cast<void*>(cells), there, Cells::bytes_of(there->room));
    cells->room = room;
    pool_.give_back(there);
  } else {
    const auto spread = [&](const RowMark& mark, uint16_t* to) {
      for (uint32_t rest = mark.words; rest; rest &= rest - 1) {
        const auto word = static_cast<uint32_t>(std::countr_zero(rest));
        to[word] = cells->put(mark.at(word));
      }
    };
    spread(row.write, cells->write);
    spread(row.read, cells->read);
    spread(row.other, cells->other);
  }
  row.set_cells(cells);
  return cells;
}

void RowShadow::join(Row& row) {
  if (Cells* cells = row.cells()) {
    std::lock_guard lock(mutex_);
    pool_.give_back(cells);
  }
  row = {};
}

void RowShadow::clear() {
  std::lock_guard lock(mutex_);
  if (rows_) madvise(static_cast<void*>(rows_), reserved_ * sizeof(Row), MADV_DONTNEED);
  if (whole_) madvise(static_cast<void*>(whole_), reserved_ * sizeof(WholeWrite), MADV_DONTNEED);
  host_rows_.clear();
  pool_.clear();
}

}  // namespace assay::checks
