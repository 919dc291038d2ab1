#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/thread_pool.h"

namespace assay {

int cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int useful_threads(int asked) {
  return asked > 0 ? asked : cores();
}

void in_parallel(int threads, int64_t count, int64_t piece,
                 const std::function<void(int64_t first, int64_t n)>& work) {
  const int64_t pieces = (count + piece - 1) / piece;
  const auto useful = static_cast<unsigned>(std::clamp<int64_t>(pieces, 1, std::max(threads, 1)));
  std::atomic<int64_t> next{0};
  ThreadPool(useful).run(useful, [&](unsigned) {
    for (int64_t first = next.fetch_add(piece); first < count; first = next.fetch_add(piece))
      work(first, std::min(piece, count - first));
  });
}

void in_order(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& done) {
  std::mutex mutex;
  std::vector<bool> ended(count, false);
  std::size_t next = 0, reported = 0;
  const auto useful =
      static_cast<unsigned>(std::clamp<std::size_t>(count, 1, static_cast<std::size_t>(std::max(jobs, 1))));
  ThreadPool(useful).run(useful, [&](unsigned) {
    for (;;) {
      std::size_t mine = 0;
      {
        std::lock_guard lock(mutex);
        if (next == count) return;
        mine = next++;
      }
      work(mine);
      std::lock_guard lock(mutex);
      ended[mine] = true;
      for (; reported < count && ended[reported]; ++reported) done(reported);
    }
  });
}

}  // namespace assay
