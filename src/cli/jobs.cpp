#include "cli/jobs.h"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

namespace assay::cli {

int cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void in_order(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& done) {
  std::mutex mutex;
  std::vector<bool> ended(count, false);
  std::size_t next = 0, told = 0;
  const auto loop = [&] {
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
      for (; told < count && ended[told]; ++told) done(told);
    }
  };
  std::vector<std::thread> threads;
  const auto most = static_cast<std::size_t>(std::max(jobs, 1));
  for (std::size_t i = 1; i < std::min(most, count); ++i) threads.emplace_back(loop);
  loop();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace assay::cli
