#include "checks/race_pieces.h"

#include <immintrin.h>

#include <bit>

namespace assay::checks {

namespace {

constexpr uint32_t kGroup = 8;

enum class Shape : uint8_t { Irregular, Linear, Uniform };

// What the lanes `mask` of eight have in common. `base` is where lane 0 of them would be in a line.
Shape shape_by_lane(const vgpu::Address* at, uint32_t mask, uint64_t bytes, vgpu::Address base,
                    vgpu::Address first) {
  bool linear = true, uniform = true;
  for (uint32_t l = 0; l < kGroup; ++l) {
    if (!(mask >> l & 1)) continue;
    linear &= at[l] == base + l * bytes;
    uniform &= at[l] == first;
  }
  return linear ? Shape::Linear : uniform ? Shape::Uniform : Shape::Irregular;
}

alignas(64) constexpr uint64_t kSteps[6][kGroup] = {
    {0, 1, 2, 3, 4, 5, 6, 7},       {0, 2, 4, 6, 8, 10, 12, 14},      {0, 4, 8, 12, 16, 20, 24, 28},
    {0, 8, 16, 24, 32, 40, 48, 56}, {0, 16, 32, 48, 64, 80, 96, 112}, {0, 32, 64, 96, 128, 160, 192, 224},
};

__attribute__((target("avx512f"))) Shape shape_wide(const vgpu::Address* at, uint32_t mask, uint64_t bytes,
                                                    vgpu::Address base, vgpu::Address first) {
  if (bytes > 32 || !std::has_single_bit(bytes)) return shape_by_lane(at, mask, bytes, base, first);
  const __m512i addresses = _mm512_loadu_si512(at);
  const __m512i steps = _mm512_load_si512(kSteps[std::countr_zero(bytes)]);
  const auto lanes = static_cast<__mmask8>(mask);
  const __m512i line = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(base)), steps);
  if (_mm512_mask_cmpneq_epi64_mask(lanes, addresses, line) == 0) return Shape::Linear;
  const __m512i place = _mm512_set1_epi64(static_cast<int64_t>(first));
  return _mm512_mask_cmpneq_epi64_mask(lanes, addresses, place) == 0 ? Shape::Uniform : Shape::Irregular;
}

// The whole warp, lane after lane.
__attribute__((target("avx512f"))) bool is_line_wide(const vgpu::Address* at, uint64_t bytes) {
  if (bytes > 32 || !std::has_single_bit(bytes)) return false;
  const __m512i steps = _mm512_load_si512(kSteps[std::countr_zero(bytes)]);
  const __m512i group = _mm512_set1_epi64(static_cast<int64_t>(bytes * kGroup));
  __m512i line = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(at[0])), steps);
  uint32_t differ = 0;
  for (uint32_t from = 0; from < 32; from += kGroup) {
    differ |= _mm512_cmpneq_epi64_mask(_mm512_loadu_si512(at + from), line);
    line = _mm512_add_epi64(line, group);
  }
  return differ == 0;
}

using ShapeOf = Shape (*)(const vgpu::Address*, uint32_t, uint64_t, vgpu::Address, vgpu::Address);

const bool kWide = __builtin_cpu_supports("avx512f");

bool is_run(uint32_t mask) {
  return ((mask + (mask & -mask)) & mask) == 0;
}

}  // namespace

namespace {

class Pieces {
 public:
  Pieces(const vgpu::Access& access, Piece* to) : access_(access), pieces_(to) {}
  uint32_t count() const { return count_; }

  // Lanes `mask` of the eight from `from` on; false: they have nothing in common.
  bool add(ShapeOf shape_of, uint32_t from, uint32_t mask) {
    if (mask == 0) return true;
    if (!is_run(mask)) return false;
    const auto skip = static_cast<uint32_t>(std::countr_zero(mask));
    const vgpu::Address first = access_.addresses[from + skip];
    const Shape shape = shape_of(access_.addresses + from, mask, access_.bytes,
                                 first - uint64_t{skip} * access_.bytes, first);
    if (shape == Shape::Irregular) return false;
    append({first, from + skip, static_cast<uint32_t>(std::popcount(mask)), shape == Shape::Uniform});
    return true;
  }

 private:
  void append(const Piece& piece) {
    if (count_ != 0) {
      Piece& last = pieces_[count_ - 1];
      const bool adjoins = last.lane + last.lanes == piece.lane && !last.uniform && !piece.uniform;
      if (adjoins && last.address + uint64_t{last.lanes} * access_.bytes == piece.address) {
        last.lanes += piece.lanes;
        return;
      }
      // One lane alone is both; with others at its place it is uniform.
      if (last.address == piece.address && (last.uniform || last.lanes == 1) &&
          (piece.uniform || piece.lanes == 1)) {
        last.lanes += piece.lanes;
        last.uniform = true;
        return;
      }
    }
    pieces_[count_++] = piece;
  }

  const vgpu::Access& access_;
  Piece* pieces_;
  uint32_t count_ = 0;
};

}  // namespace

uint32_t split(const vgpu::Access& access, Piece* pieces) {
  if (access.lanes == 0xffffffff && kWide && is_line_wide(access.addresses, access.bytes)) {
    pieces[0] = {access.addresses[0], 0, 32, false};
    return 1;
  }
  const ShapeOf shape_of = kWide ? shape_wide : shape_by_lane;
  Pieces found(access, pieces);
  for (uint32_t from = 0; from < 32; from += kGroup) {
    const uint32_t mask = access.lanes >> from & 0xff;
    if (found.add(shape_of, from, mask)) continue;
    // Fragments of matrices come in fours.
    if (!found.add(shape_by_lane, from, mask & 0x0f) || !found.add(shape_by_lane, from, mask & 0xf0))
      return 0;
  }
  return found.count();
}

}  // namespace assay::checks
