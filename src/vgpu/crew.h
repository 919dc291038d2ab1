// Threads of the host that run one job together. They live as long as the device.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace assay::vgpu {

class Crew {
 public:
  explicit Crew(unsigned size);
  ~Crew();
  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }
  // Runs job(0) … job(count - 1), one on each thread, the caller's among them; returns when all have returned.
  void run(unsigned count, const std::function<void(unsigned)>& job);

 private:
  void work(unsigned index);

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(unsigned)>* job_ = nullptr;
  unsigned count_ = 0, busy_ = 0;
  uint64_t round_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace assay::vgpu
