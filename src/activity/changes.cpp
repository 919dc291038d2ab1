#include "activity/changes.h"

#include <algorithm>
#include <iterator>

namespace assay::activity {

namespace {

// At the same instant, in the order of the allocations: each ends after it begins, and before the next begins.
bool is_before(const Change& a, const Change& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  return 2 * uint64_t{a.allocation} + a.is_end < 2 * uint64_t{b.allocation} + b.is_end;
}

// Programs allocate, and mostly also free, in the order of what is allocated. What is out of order are long runs that are in
// order: what was allocated first is often freed last.
constexpr std::size_t kMostRuns = 16;

void put_in_order(std::vector<Change>& changes) {
  using Place = std::vector<Change>::iterator;
  std::vector<Place> runs;  // where each ends
  for (Place end = changes.begin(); end != changes.end() && runs.size() <= kMostRuns; runs.push_back(end)) {
    end = std::is_sorted_until(end, changes.end(), is_before);
  }
  if (runs.size() > kMostRuns) {
    std::ranges::sort(changes, is_before);
    return;
  }
  for (std::size_t i = 1; i < runs.size(); ++i)
    std::inplace_merge(changes.begin(), runs[i - 1], runs[i], is_before);
}

template <class Counts>
std::vector<Change> changes_where(const std::vector<Allocation>& allocations, Counts counts) {
  std::vector<Change> begins, ends, all;
  begins.reserve(allocations.size());
  ends.reserve(allocations.size());
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    const Allocation& one = allocations[i];
    if (!counts(one)) continue;
    begins.push_back({one.begin, static_cast<uint32_t>(i), false});
    if (one.is_released) ends.push_back({one.end, static_cast<uint32_t>(i), true});
  }
  put_in_order(begins);
  put_in_order(ends);
  all.reserve(begins.size() + ends.size());
  std::ranges::merge(begins, ends, std::back_inserter(all), is_before);
  return all;
}

}  // namespace

std::vector<Change> changes_of(const std::vector<Allocation>& allocations) {
  return changes_where(allocations, [](const Allocation& one) { return !one.is_host; });
}

std::vector<Change> pool_changes_of(const std::vector<Allocation>& allocations) {
  return changes_where(allocations, [](const Allocation& one) { return one.is_pooled; });
}

}  // namespace assay::activity
