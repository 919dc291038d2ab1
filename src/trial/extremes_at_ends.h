// Extremes of a tensor moved to the ends of rows, columns and the whole. Private to the drawing of values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"

namespace assay::trial {

// Extremes are moved to the ends: of so many lines of elements along each dim, evenly, and of all elements of the last dims
// together, as far as that takes no more than so many looks at an element. Chosen: a small part of what drawing them costs.
inline constexpr int64_t kLinesWithEnds = 512, kLooksForEnds = int64_t{1} << 20;
inline constexpr int64_t kTail = 32;  // elements of a line that are its tail: a warp
inline constexpr int64_t kFewEqual =
    16;  // one of so many elements of a line, at most, equals its extreme and is changed

// Moves elements, so that the largest and the smallest are where a kernel that leaves out a tail, or starts at the second
// element, does not see them. Lines along each dim take turns: the largest last and the smallest first; the other way
// round; both somewhere in the tail; neither. Then, for what is reduced over several dims at once, all elements of the last
// dims together: their largest, or smallest, comes last.
template <class Load, class Store>
class ExtremesAtEnds {
 public:
  // rows_add_up: what the numbers of a row come to must stay as it is.
  ExtremesAtEnds(const std::vector<int64_t>& extents, bool rows_add_up, Random& random, Load load,
                 Store store)
      : extents_(extents),
        rows_add_up_(rows_add_up),
        random_(random),
        load_(std::move(load)),
        store_(std::move(store)) {}

  void run(int64_t first_turn) {
    int64_t count = 1;
    for (const int64_t extent : extents_) count *= extent;
    if (count < 2) return;
    int64_t inner = count;
    for (const int64_t length : extents_) {
      inner /= length;
      if (length > 1 && (inner == 1 || !rows_add_up_)) along(length, inner, count / length, first_turn);
    }
    if (rows_add_up_) return;
    int64_t together = 1;
    for (std::size_t dim = extents_.size(); dim-- > 0;) {
      together *= extents_[dim];
      if (dim + 1 == extents_.size() || extents_[dim] < 2) continue;
      for (int64_t turn = first_turn, first = 0; first < count && looks_ > 0; first += together, ++turn) {
        const Line line{first, 1, together};
        move(line, extreme(line, turn % 2 == 0), first + together - 1, turn % 2 == 0);
      }
    }
  }

 private:
  using Number = decltype(std::declval<Load>()(int64_t{0}));
  struct Line {
    int64_t first, step, length;
    int64_t at(int64_t k) const { return first + k * step; }
    int64_t last() const { return at(length - 1); }
  };

  void along(int64_t length, int64_t inner, int64_t lines, int64_t first_turn) {
    const int64_t between = std::max<int64_t>(1, lines / kLinesWithEnds);
    for (int64_t turn = first_turn, n = 0; n < lines && looks_ > 0; n += between, ++turn) {
      const Line line{n / inner * length * inner + n % inner, inner, length};
      const auto in_tail = [&] {
        return line.at(length - 1 - random_.between(0, std::min(kTail, length) - 1));
      };
      if (turn % 4 == 3) continue;
      const int64_t for_largest = turn % 4 == 0 ? line.last() : turn % 4 == 1 ? line.first : in_tail();
      const int64_t for_smallest = turn % 4 == 0 ? line.first : turn % 4 == 1 ? line.last() : in_tail();
      if (for_smallest != for_largest) move(line, extreme(line, false), for_smallest, false);
      move(line, extreme(line, true), for_largest, true);
    }
  }

  int64_t extreme(const Line& line, bool largest) {
    looks_ -= line.length;
    int64_t found = line.first;
    Number best = load_(found);
    for (int64_t k = 1; k < line.length; ++k) {
      const Number x = load_(line.at(k));
      if (largest ? x > best : x < best) {
        best = x;
        found = line.at(k);
      }
    }
    return found;
  }

  // Few others that are equal become the next value, so that no other element stands in for it.
  void move(const Line& line, int64_t from, int64_t to, bool largest) {
    const Number best = load_(from);
    store_(from, load_(to));
    store_(to, best);
    if (rows_add_up_) return;
    looks_ -= line.length;
    std::vector<int64_t> equal;
    bool is_there = false;
    Number next{};
    for (int64_t k = 0; k < line.length; ++k) {
      const int64_t at = line.at(k);
      const Number x = load_(at);
      if (x == best) {
        if (at != to) equal.push_back(at);
      } else if (!is_there || (largest ? x > next : x < next)) {
        next = x;
        is_there = true;
      }
      if (static_cast<int64_t>(equal.size()) * kFewEqual > line.length) return;
    }
    if (is_there)
      for (const int64_t at : equal) store_(at, next);
  }

  const std::vector<int64_t>& extents_;
  bool rows_add_up_;
  Random& random_;
  Load load_;
  Store store_;
  int64_t looks_ = kLooksForEnds;
};

}  // namespace assay::trial
