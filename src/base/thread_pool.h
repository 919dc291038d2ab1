// Threads that run one job together, and live as long as the pool.
//
// Example:
//
//     ThreadPool pool(8);
//     pool.run(8, [&](unsigned i) { use(i); });  // returns when all eight have returned
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace assay {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned size);  // the caller of run() included
  ~ThreadPool();
  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }
  // Runs job(0) … job(count - 1), one on each thread, the caller's among them; returns when all have
  // returned.
  void run(unsigned count, const std::function<void(unsigned)>& job);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(unsigned)>* job_ = nullptr;
  unsigned left_ = 0, busy_ = 0;  // numbers that no thread has taken yet; that have not returned
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace assay
