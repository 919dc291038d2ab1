#include "base/thread_pool.h"

namespace assay {

ThreadPool::ThreadPool(unsigned size) {
  for (unsigned i = 1; i < size; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::run(unsigned count, const std::function<void(unsigned)>& job) {
  if (count > 1) {
    std::lock_guard lock(mutex_);
    job_ = &job;
    left_ = busy_ = count - 1;
  }
  // Only as many as are needed: in a large pool most jobs are for a few.
  for (unsigned i = 1; i < count; ++i) wake_.notify_one();
  job(0);
  if (count > 1) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    job_ = nullptr;
  }
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || left_ > 0; });
    if (ending_) return;
    const unsigned index = left_--;
    const std::function<void(unsigned)>& job = *job_;
    lock.unlock();
    job(index);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace assay
