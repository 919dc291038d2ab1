// Pages of this process: whole ones of a range, what may be done with them, and whose turn it is to say so.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>

#include "vgpu/memory.h"

namespace assay::cudart {

inline constexpr vgpu::Address kPage = 4096;

inline vgpu::Address page_of(vgpu::Address address) {
  return address & ~(kPage - 1);
}
inline vgpu::Address next_page(vgpu::Address address) {
  return page_of(address + kPage - 1);
}

// False: the system has no more room for pages that differ from their neighbours.
inline bool protect(vgpu::Address low, vgpu::Address high, int protection) {
  return mprotect(reinterpret_cast<void*>(low), high - low, protection) == 0;
}
inline constexpr int kOpen = PROT_READ | PROT_WRITE;

// A lock for signal handlers, too: who holds it takes no signals.
class PageLock {
 public:
  void lock() {
    while (held_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  void unlock() { held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag held_ = ATOMIC_FLAG_INIT;
};

// Within handlers, whose masks are full.
class HandlerTurn {
 public:
  explicit HandlerTurn(PageLock& lock) : lock_(lock) { lock_.lock(); }
  ~HandlerTurn() { lock_.unlock(); }
  HandlerTurn(const HandlerTurn&) = delete;
  HandlerTurn& operator=(const HandlerTurn&) = delete;

 private:
  PageLock& lock_;
};

// Elsewhere.
class PageTurn {
 public:
  explicit PageTurn(PageLock& lock) : lock_(lock) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    lock_.lock();
  }
  ~PageTurn() {
    lock_.unlock();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PageTurn(const PageTurn&) = delete;
  PageTurn& operator=(const PageTurn&) = delete;

 private:
  PageLock& lock_;
  sigset_t before_;
};

}  // namespace assay::cudart
