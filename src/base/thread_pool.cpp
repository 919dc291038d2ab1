#include "base/thread_pool.h"

namespace assay {

ThreadPool::ThreadPool(unsigned size) {
  for (unsigned i = 1; i < size; ++i) threads_.emplace_back([this, i] { work(i); });
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
    count_ = count;
    busy_ = count - 1;
    ++round_;
    wake_.notify_all();
  }
  job(0);
  if (count > 1) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    job_ = nullptr;
  }
}

void ThreadPool::work(unsigned index) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return ending_ || round_ != seen; });
    if (ending_) return;
    seen = round_;
    if (index >= count_ || !job_) continue;
    const std::function<void(unsigned)>& job = *job_;
    lock.unlock();
    job(index);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace assay
