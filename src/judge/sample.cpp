#include "judge/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace assay::judge {

namespace {

// All chosen. Sample.HoldsEdgesAndExtremes (tests/judge/judge_test.cpp) wants the first and the last element,
// and a NaN at the beginning of a row.
constexpr int64_t kLooksPerRow = 8;         // elements that tell how large a row is, about
constexpr double kNonfiniteWeight = 1e300;  // of an element that is not finite: its row comes first
constexpr int64_t kLeastRows = 64;          // for which there is room, as far as the output has them
constexpr int64_t kLeastPerRow = 64;        // elements, likewise
constexpr int64_t kPartOfLoudest = 3;       // the largest rows have one of so many parts of the room
constexpr int64_t kPartOfEdges = 8;         // the first and the last have one each
constexpr int64_t kPartOfEnds = 4;          // of a row's elements: likewise

struct RowWeight {
  double weight;
  int64_t row;
};

// The rows that are largest in the output itself, from a look at a few elements of each row.
std::vector<int64_t> loudest_rows(const contract::Tensor& output, int64_t rows, int64_t columns,
                                  int64_t want) {
  std::vector<RowWeight> weights;
  weights.reserve(static_cast<std::size_t>(rows));
  const int64_t step = std::max<int64_t>(1, columns / kLooksPerRow);
  for (int64_t r = 0; r < rows; ++r) {
    double weight = 0;
    for (int64_t c = 0; c < columns; c += step) {
      const double x = output.load(r * columns + c);
      weight += std::isfinite(x) ? x * x : kNonfiniteWeight;
    }
    weights.push_back({weight, r});
  }
  want = std::min(want, rows);
  std::partial_sort(weights.begin(), weights.begin() + want, weights.end(),
                    [](const RowWeight& a, const RowWeight& b) { return a.weight > b.weight; });
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < want; ++i) chosen.push_back(weights[static_cast<std::size_t>(i)].row);
  return chosen;
}

std::vector<int64_t> all_of(int64_t count) {
  std::vector<int64_t> elements(static_cast<std::size_t>(count));
  std::iota(elements.begin(), elements.end(), 0);
  return elements;
}

void sort_unique(std::vector<int64_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

std::vector<int64_t> choose_elements(const contract::Tensor& output, int64_t most, uint64_t seed) {
  const int64_t count = output.count();
  if (count <= most) return all_of(count);
  const int64_t columns = output.extents.empty() ? 1 : output.extents.back();
  const int64_t rows = count / columns;
  Random random(seed);

  // As many columns of each row as leave room for at least kLeastRows rows.
  const int64_t per_row = std::min(columns, std::max(kLeastPerRow, most / std::min(rows, kLeastRows)));
  const int64_t room = std::max<int64_t>(1, most / per_row);
  std::vector<int64_t> chosen_rows;
  if (rows <= room) {
    chosen_rows = all_of(rows);
  } else {
    chosen_rows = loudest_rows(output, rows, columns, room / kPartOfLoudest);
    for (int64_t i = 0; i < std::max<int64_t>(1, room / kPartOfEdges); ++i) {
      chosen_rows.push_back(std::min(i, rows - 1));
      chosen_rows.push_back(std::max<int64_t>(0, rows - 1 - i));
    }
    while (static_cast<int64_t>(chosen_rows.size()) < room)
      chosen_rows.push_back(random.between(0, rows - 1));
    sort_unique(chosen_rows);
  }
  std::vector<int64_t> elements, places;
  elements.reserve(chosen_rows.size() * static_cast<std::size_t>(per_row));
  const int64_t ends = per_row / kPartOfEnds;
  for (const int64_t r : chosen_rows) {
    places.clear();
    for (int64_t i = 0; i < per_row; ++i) {
      if (per_row == columns || i < ends)
        places.push_back(i);
      else
        places.push_back(i < 2 * ends ? columns - 1 - (i - ends) : random.between(0, columns - 1));
    }
    if (per_row < columns) sort_unique(places);
    for (const int64_t c : places) elements.push_back(r * columns + c);
  }
  return elements;
}

}  // namespace assay::judge
