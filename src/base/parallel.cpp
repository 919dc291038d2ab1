#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace assay {

void in_parallel(int threads, int64_t count, int64_t piece,
                 const std::function<void(int64_t first, int64_t n)>& work) {
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t first = next.fetch_add(piece); first < count; first = next.fetch_add(piece))
      work(first, std::min(piece, count - first));
  };
  const int64_t useful = std::min<int64_t>(threads, (count + piece - 1) / piece);
  std::vector<std::thread> others;
  for (int64_t i = 1; i < useful; ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
}

int useful_threads(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace assay
