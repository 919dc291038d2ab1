#include "judge/screen.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/parallel.h"
#include "judge/buckets.h"

namespace assay::judge {

Result<Screening> screen(const reference::Reference& reference, const contract::Bindings& bindings,
                         const std::string& output, const contract::Tensor& tensor,
                         std::span<const int64_t> elements, const reference::BudgetOptions& budget,
                         const MeasureOptions& options) {
  constexpr int64_t kPiece = 1 << 13;  // its measures stay in the cache
  reference::BudgetOptions alone = budget;
  alone.threads = 1;
  std::mutex lock;
  Screening screening;
  std::optional<Error> error;
  BucketTable all(tensor.extents);
  std::atomic<bool> over{false};
  const auto count = static_cast<int64_t>(elements.size());
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>(options.threads, count / kPiece));
  const int64_t share = (count + threads - 1) / threads;
  in_parallel(static_cast<int>(threads), count, share, [&](int64_t first, int64_t n) {
    BucketTable table(tensor.extents);
    int64_t undecided = 0;
    for (int64_t at = first; at < first + n && !over; at += kPiece) {
      const auto piece = elements.subspan(static_cast<std::size_t>(at),
                                          static_cast<std::size_t>(std::min(kPiece, first + n - at)));
      const auto expected = reference.expect(bindings, output, piece, alone);
      if (!expected) {
        const std::scoped_lock guard(lock);
        error = expected.error();
        over = true;
        return;
      }
      const Gauge gauge(tensor, *expected, options);
      for (std::size_t i = 0; i < expected->size(); ++i) {
        const Element element = gauge(i);
        if (!element.admitted) over = true;
        undecided += (element.flags & reference::kUndecided) != 0;
        table.add(element);
      }
    }
    const std::scoped_lock guard(lock);
    screening.undecided += undecided;
    all.add(table);
  });
  if (error) return *error;
  screening.suspicious = over;
  if (over) return screening;
  const std::vector<Bucket> parts = all.take();
  screening.suspicious = std::any_of(parts.begin(), parts.end(), [](const Bucket& b) { return b.fails(); });
  return screening;
}

}  // namespace assay::judge
