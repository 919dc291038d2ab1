/* libassay_monitor: watches a kernel in an application that is in use. A sample of its calls is copied and judged by
 * assayd, in another process, against the kernel's contract (docs/monitor.md).
 *
 *     assay_watch* watch = NULL;
 *     if (assay_open("scale.toml", NULL, &watch) != 0) fprintf(stderr, "%s\n", assay_error());
 *     void* args[] = {&x, &y, &n, &stream};                  // in the order of the contract's `args`
 *     uint64_t ticket = assay_before(watch, args, stream);   // 0: this call is not sampled
 *     scale(x, y, n, stream);
 *     assay_after(watch, ticket, args, stream);
 *
 * Nothing here waits: not for the device, not for assayd. Samples that cannot be handed over are dropped and counted.
 * All functions may be called from any thread, and with a null watch, which does nothing. `stream` is a cudaStream_t.
 */
#ifndef ASSAY_MONITOR_H
#define ASSAY_MONITOR_H

#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_watch assay_watch;

enum assay_mode {
  ASSAY_OBSERVE = 0,  /* sampled calls are judged */
  ASSAY_SHADOW = 1,   /* the trusted kernel also computes sampled calls, and both results are judged */
  ASSAY_REFERENCE = 2 /* the trusted kernel computes all calls instead */
};

/* 0, or -1: assay_error() says why. `certificate`: a file that `assay certify` wrote, or null; assayd checks it. */
int assay_open(const char* contract, const char* certificate, assay_watch** out);
/* Why the last assay_open of this thread failed. */
const char* assay_error(void);
/* The library that holds the kernel: captures take a copy of it, assayd compares it with the certificate. */
void assay_library(assay_watch* watch, const char* path);
/* What the argument at this place is: "pointer", "stream", or the name of a type, "i32"; null after the last one. */
const char* assay_argument(const assay_watch* watch, int index);
/* Hands over what was sampled, and ends. */
void assay_close(assay_watch* watch);

/* `args`: pointers to the arguments, as cudaLaunchKernel takes them. */
uint64_t assay_before(assay_watch* watch, void* const* args, void* stream);
void assay_after(assay_watch* watch, uint64_t ticket, void* const* args, void* stream);

/* 0, or -1: there is no such mode. */
int assay_mode(assay_watch* watch, enum assay_mode mode);
enum assay_mode assay_mode_now(const assay_watch* watch);
/* Between assay_before and assay_after, in the mode shadow: 1, and the outputs among `args` now point to memory of the
 * monitor, for a call of the trusted kernel with them on the same stream. 0: not this time. */
int assay_shadow(assay_watch* watch, uint64_t ticket, void** args, void* stream);

/* Called from a thread of the monitor, once for each alarm, with what assayd says of it. */
void assay_on_alarm(assay_watch* watch, void (*call)(const char* json, void* context), void* context);

/* Graphs. A call that is captured into a graph is made whenever that graph is launched. Capture the same work twice, the
 * second time between assay_graph_begin and assay_graph_end, which adds the copies of a sample to it; instantiate both
 * graphs; launch them by assay_graph_launch, which takes the second one when a launch is to be sampled. The executables
 * are of the type cudaGraphExec_t.
 *
 * Each call of `watch` in the graph is sampled, up to as many as assay_graph_reserve said before assay_graph_begin: one
 * without it, at most 1024; the call must have been made once before, so that its size is known. A graph that holds
 * calls of several watches is launched by assay_graph_launch_all; all of them are sampled in the same launches, as often
 * as the contract of the first one says. */
int assay_graph_reserve(assay_watch* watch, int calls); /* 0, or -1: no such number */
int assay_graph_begin(assay_watch* watch);              /* 0, or -1: no memory, or no call was made yet */
void assay_graph_end(assay_watch* watch);
/* The executable of the graph that was captured last. Needed only if another graph is captured before this one is launched. */
void assay_graph_bind(assay_watch* watch, void* with_copies);
int assay_graph_launch(assay_watch* watch, void* plain, void* with_copies, void* stream); /* a cudaError_t */
int assay_graph_launch_all(assay_watch* const* watches, int count, void* plain, void* with_copies,
                           void* stream);
/* After the last launch: gives the graph's memory back. */
void assay_graph_close(assay_watch* watch, void* with_copies);

struct assay_counts {
  uint64_t calls, samples, dropped, overhead_ns;
};
void assay_count(const assay_watch* watch, struct assay_counts* counts);
/* Waits until everything sampled so far is copied off the device, and assayd, if there is one, has judged it. 0, or -1:
 * not within this time. For tests, and for programs that end soon; it waits for the device. */
int assay_flush(assay_watch* watch, int milliseconds);

#ifdef __cplusplus
}
#pragma GCC visibility pop

#include <stdexcept>
#include <utility>

namespace assay {

/* The same, closed when it goes. */
class Watch {
 public:
  explicit Watch(const char* contract, const char* certificate = nullptr) {
    if (assay_open(contract, certificate, &watch_) != 0) throw std::runtime_error(assay_error());
  }
  ~Watch() { assay_close(watch_); }
  Watch(Watch&& other) noexcept : watch_(std::exchange(other.watch_, nullptr)) {}
  Watch& operator=(Watch&& other) noexcept {
    std::swap(watch_, other.watch_);
    return *this;
  }
  assay_watch* get() const { return watch_; }

  /* Makes the call between assay_before and assay_after. */
  template <class Call>
  void operator()(void* const* args, void* stream, Call&& call) const {
    const uint64_t ticket = assay_before(watch_, args, stream);
    std::forward<Call>(call)();
    assay_after(watch_, ticket, args, stream);
  }

 private:
  assay_watch* watch_ = nullptr;
};

}  // namespace assay
#else
#pragma GCC visibility pop
#endif
#endif
