#include "subject/worker/worker.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/gpus.h"
#include "base/random.h"
#include "protocol/lines.h"
#include "protocol/messages.h"
#include "protocol/protocol.h"
#include "subject/worker/buffers.h"
#include "subject/worker/caller.h"
#include "subject/worker/entry_point.h"
#include "subject/worker/failure.h"
#include "subject/worker/host_report.h"
#include "subject/worker/load.h"
#include "subject/worker/runtime.h"
#include "subject/worker/runtime_calls.h"
#include "subject/worker/sandbox.h"
#include "subject/worker/surroundings.h"

namespace assay::worker {

using protocol::CallRequest;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kFirstOwnFile = 64;  // descriptors of the worker's own, above those that it was started with
constexpr int kBadMessage = 3;     // exit status: the other side is gone, or does not speak this protocol

template <class Message>
void send(const Message& message) {
  if (!protocol::send_line(protocol::kSocket, encode(message))) _exit(kBadMessage);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// While the subject's own code runs, malloc returns memory that is not zero, and free overwrites what it
// gets: new pages are zeros, which hides that they were not written. Or, to see whether that matters, all that
// malloc returns is zero. (The command has turned off the allocator's per-thread caches, which ignore this
// setting.)
class HostPoison {
 public:
  explicit HostPoison(bool on) { mallopt(M_PERTURB, on ? kFreed : kZeros); }
  ~HostPoison() { mallopt(M_PERTURB, 0); }
  HostPoison(const HostPoison&) = delete;
  HostPoison& operator=(const HostPoison&) = delete;

 private:
  static constexpr int kFreed = 0x35;  // what free leaves; malloc gives the complement, 0xca
  static constexpr int kZeros = 0xff;  // so that malloc gives zeros
};

class Worker {
 public:
  Worker(protocol::WorkerSetup setup, protocol::LineBuffer received, const PythonCalls* python)
      : setup_(std::move(setup)), received_(std::move(received)) {
    if (python) python_.emplace(setup_, *python);
  }

  int run() {
    protocol::Ready ready;
    try {
      prepare(ready);
    } catch (const Failed& failed) {
      ready.problem = std::string(failed.stage) + ": " + runtime_.cudaGetErrorString(failed.error);
    }
    send(ready);
    if (!ready.problem.empty()) return 1;
    for (;;) {
      const auto begun = Clock::now();
      const auto line = protocol::receive_line(protocol::kSocket, received_);
      if (!line) break;
      time_.waiting += seconds_since(begun);
      const auto request = protocol::decode_request(*line);
      if (!request) {
        std::fprintf(stderr, "%s\n", request.error().text().c_str());
        return kBadMessage;
      }
      serve(*request);
      go_on(request->id);
    }
    return 0;
  }

 private:
  void prepare(protocol::Ready& ready) {
    if (ready.problem = load(runtime_, setup_.real_gpu); !ready.problem.empty()) return;
    if (!python_) pass_runtime_calls();
    // The driver of a real GPU sees one clock from its start on.
    if (setup_.real_gpu) set_clock(setup_.clock);
    int count = 0;
    if (const int error = runtime_.cudaGetDeviceCount(&count); error != 0 || count == 0) {
      ready.problem = std::string("there is no CUDA device: ") + runtime_.cudaGetErrorString(error);
      return;
    }
    check(runtime_.cudaFree(nullptr), "the device could not be used");
    for (Stream& stream : streams_)
      if (!setup_.default_stream)
        check(runtime_.cudaStreamCreateWithFlags(&stream, 1), "a stream could not be made");
    if (!python_) {
      know_callers(setup_.path, reinterpret_cast<const void*>(runtime_.cudaFree), setup_.real_gpu);
      if (setup_.real_gpu) report_host_to(fcntl(protocol::kEvents, F_DUPFD_CLOEXEC, kFirstOwnFile));
      report_to(setup_.real_gpu ? report_host : runtime_.assay_report_host);
    }
    if (setup_.real_gpu && !python_) {
      load_.warm_up();
      ready.problem = watch_runtime_calls(runtime_, watched_calls());
      if (!ready.problem.empty()) return;
    }
    if (!setup_.real_gpu) set_clock(setup_.clock);
    if (!setup_.real_gpu && !python_)
      clear_environment();  // the runtime has read its settings, the loader its paths
    // The runtime has opened it for itself: when that end closes, the command sees it.
    close(protocol::kEvents);
    ready.problem = enter_sandbox(confinement(), ready.files_guarded);
    if (!ready.problem.empty()) return;
    ready.subject_failed = true;  // from here on, a problem is the subject's
    if (python_)
      load_python(ready);
    else
      ready.problem = entry_.load();
    ready.subject_failed &= !ready.problem.empty();
  }

  RuntimeWatch watched_calls() const {
    // A tool that looks for what was never written must not find it filled.
    RuntimeWatch watch{.fills = !setup_.is_witnessed, .code = setup_.is_ptx ? "" : setup_.other_code};
    if (setup_.gpu == 0) return watch;
    watch.multiprocessors = kGpus[setup_.gpu].multiprocessors;
    watch.bytes = kGpus[setup_.gpu].bytes;
    return watch;
  }

  Confinement confinement() const {
    Confinement confinement{.folder = setup_.folder};
    confinement.who = setup_.is_witnessed ? Confinement::Who::Witnessed
                      : setup_.real_gpu   ? Confinement::Who::Driver
                      : python_           ? Confinement::Who::Interpreter
                                          : Confinement::Who::Library;
    confinement.build_folder = setup_.build_folder;
    confinement.hidden = setup_.hidden;
    return confinement;
  }

  void load_python(protocol::Ready& ready) const {
    const auto failure = python_->load();
    if (!failure) return;
    ready.problem = failure->file.empty()
                        ? failure->text
                        : failure->file + ":" + std::to_string(failure->line) + ": " + failure->text;
    ready.subject_failed = !failure->unsupported;
  }

  int call(const CallRequest& call, std::size_t which) {
    if (python_) {
      python_->call(call, which, buffers_, streams_[which]);
      return 0;
    }
    if (runtime_.assay_call_begins) runtime_.assay_call_begins();
    const int returned = entry_.call(call, which, buffers_);
    if (runtime_.assay_call_returned) runtime_.assay_call_returned();
    return returned;
  }

  void serve(const protocol::Request& request) {
    protocol::Reply reply;
    reply.id = request.id;
    try {
      if (!request.calls.empty()) make_calls(request, reply);
    } catch (const Failed& failed) {
      reply.failure = {failed.error, runtime_.cudaGetErrorName(failed.error),
                       runtime_.cudaGetErrorString(failed.error), failed.stage, reply.returned.empty()};
    } catch (const PythonFailed& failed) {
      reply.python = failed.failure;
    }
    if (request.sample) end_sample(reply);
    if (runtime_.assay_range_forget) runtime_.assay_range_forget();
    reply.gone_on = std::exchange(gone_on_, std::nullopt);
    reply.time = std::exchange(time_, {});
    if (reply.failure) {
      load_.forget();
      kept_load_.forget();
    }
    choose_repeated(request, reply);
    reply.goes_on_with = repeated_ ? repeated_->id : 0;
    if (setup_.is_witnessed) reply.buffers = buffers_.tensors(request);
    send(reply);
  }

  // ---- load, on a real GPU

  void repeat_under_load(const protocol::Request& request, protocol::Reply& reply) {
    const protocol::LoadRequest& wanted = *request.load;
    protocol::LoadReport& report = reply.load.emplace();
    if (!load_.is_ready()) return;
    const auto make = [&](std::size_t i) { call(request.calls[i], i); };
    const auto start = Clock::now();
    while (report.repeats < wanted.repeats && seconds_since(start) < wanted.seconds && !report.difference)
      report.difference = load_.repeat(mix(wanted.seed) % 4 + static_cast<uint64_t>(report.repeats++), make);
    check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    if (report.difference) {  // this is the result that is looked at
      for (std::size_t i = 0; i < request.calls.size(); ++i) buffers_.save(request.calls[i], i, false);
      load_.forget();
      return;
    }
    if (wanted.graph) replay_graph(request, report);
    is_worn_out_ = !report.no_graph.empty();  // a capture that fails may leave anything behind
  }

  // Now and then a call is kept, with buffers and inputs of its own, to be made between the repetitions of later ones, as a
  // launch of another size, and to be repeated itself after one that cannot be.
  void keep_between(const protocol::Request& request) {
    constexpr int64_t kMostBytes = 8 << 20;
    constexpr int kEvery = 4;
    if (python_ || is_worn_out_ || could_keep_++ % kEvery != 0) return;
    int64_t bytes = 0;
    for (const protocol::BufferRequest& buffer : request.calls[0].buffers) {
      if (!buffer.pointers.empty() || buffer.made || !buffer.parts.empty()) return;
      bytes += buffer.bytes;
    }
    if (bytes > kMostBytes) return;
    protocol::Request other;
    other.calls = {request.calls[0]};
    load_.set_between({});
    kept_load_.forget();
    try {
      between_.map(request.memory_bytes);
      between_.allocate(other);
      between_.fill(other.calls[0], 0, false);
      check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
    } catch (const Failed&) {
      runtime_.cudaGetLastError();  // there is no room, which is not the subject's fault
      return;
    }
    kept_ = {.id = request.id, .load = &kept_load_};
    kept_.call = [this, kept = other.calls[0]](std::size_t) { entry_.call(kept, 0, between_); };
    load_.set_between([this] { kept_.call(0); });
    if (!kept_load_.keep_contents(other.calls, false)) return;
    check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
    const auto start = Clock::now();
    kept_.call(0);
    check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    kept_.seconds = seconds_since(start);
    kept_load_.keep_results();
  }

  // What goes wrong in a graph was not promised to go well: it is said, and is no failure.
  void replay_graph(const protocol::Request& request, protocol::LoadReport& report) {
    try {
      Load::Replayed replayed =
          load_.replay_graph(request.calls, [&](std::size_t i) { call(request.calls[i], i); });
      report.graph_difference = std::move(replayed.difference);
      report.no_graph = std::move(replayed.no_graph);
    } catch (const Failed& failed) {
      report.no_graph = std::string(failed.stage) + ": " + runtime_.cudaGetErrorString(failed.error);
    }
  }

  // What is repeated until the next request: its own call; or the one that was kept, after a giant one, say. Where others use
  // the GPU as well, so that a repetition takes much longer than the call did, they would wait for this: then it is left out
  // for a while.
  void choose_repeated(const protocol::Request& request, const protocol::Reply& reply) {
    repeated_.reset();
    const bool is_broken = reply.failure || (reply.load && (reply.load->difference || is_worn_out_));
    if (!request.goes_on || is_broken) return;
    if (left_out_ > 0) {
      --left_out_;
    } else if (load_.is_ready()) {
      repeated_ = {.id = request.id, .load = &load_, .seconds = first_call_};
      repeated_->call = [this, calls = request.calls](std::size_t i) { call(calls[i], i); };
    } else if (kept_load_.is_ready()) {
      repeated_ = kept_;
    }
  }

  // While the command judges what came of the call, the GPU has nothing else to do. It goes on where a result differs, too:
  // the contract may allow that, and a call that fails is to be found all the same.
  void go_on(uint64_t request) {
    if (!repeated_) return;
    constexpr int kMostRepeats = 20000;
    constexpr double kMostSeconds = 10, kSlow = 0.01;  // of all; of one
    constexpr int kMostSlow = 3, kTimesAsSlow = 3, kMostLeftOut = 32;
    const double limit = std::max(kSlow, kTimesAsSlow * repeated_->seconds);
    const auto start = Clock::now();
    int slow = 0;
    protocol::GoneOn& done = gone_on_.emplace();
    done.id = repeated_->id;
    try {
      while (done.repeats < kMostRepeats && seconds_since(start) < kMostSeconds && slow < kMostSlow &&
             !is_asked()) {
        const auto begun = Clock::now();
        const auto seed = mix(request) % 1024 + static_cast<uint64_t>(done.repeats++);
        done.differs |= repeated_->load->repeat(seed, repeated_->call).has_value();
        slow += seconds_since(begun) > limit;
      }
      check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    } catch (const Failed&) {
      _exit(protocol::kDeviceLost);  // the device is of no further use; the command makes the same call again
    }
    leave_out_ = slow < kMostSlow ? 1 : std::min(2 * leave_out_, kMostLeftOut);
    if (slow == kMostSlow) left_out_ = leave_out_;
    time_.repeating += seconds_since(start);
  }

  static bool is_asked() {
    pollfd waiting{protocol::kSocket, POLLIN, 0};
    return poll(&waiting, 1, 0) != 0;
  }

  void make_calls(const protocol::Request& request, protocol::Reply& reply) {
    const std::vector<CallRequest>& calls = request.calls;
    const auto each = [&](auto use) {
      for (std::size_t i = 0; i < calls.size(); ++i) use(calls[i], i);
    };
    const auto begun = Clock::now();
    buffers_.map(request.memory_bytes);
    if (runtime_.assay_set_seed) runtime_.assay_set_seed(request.seed);
    if (runtime_.assay_advance_clock) runtime_.assay_advance_clock(request.cycles);
    buffers_.shift(request.shift);
    buffers_.allocate(request);
    // Outputs that a function returns, and its workspaces, are memory that it allocates itself.
    if (python_ && runtime_.assay_fill_new) runtime_.assay_fill_new(request.new_content);
    make_earlier_calls(calls, request.earlier_calls);
    each([&](const CallRequest& c, std::size_t i) { buffers_.fill(c, i, request.ordered); });
    load_.forget();
    const bool is_repeated = setup_.real_gpu && !python_ && !request.sample &&
                             (request.load || request.goes_on) && load_.keep_contents(calls, request.ordered);
    check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
    if (request.ordered) {
      // A missing order shows when the caller's work comes late, or when everyone else's does.
      if (request.others_late)
        check(runtime_.cudaLaunchHostFunc(nullptr, delay, nullptr), "the preparation of the stream");
      each([&](const CallRequest& c, std::size_t i) { buffers_.queue_inputs(c, i, !request.others_late); });
    }
    each([&](const CallRequest& c, std::size_t i) { buffers_.protect_inputs(c, i); });
    const auto start = Clock::now();
    time_.preparing += std::chrono::duration<double>(start - begun).count();
    if (request.sample) begin_sample(*request.sample);
    const HostPoison poison(request.host_poison);
    each([&](const CallRequest& c, std::size_t i) { reply.returned.push_back(call(c, i)); });
    check(runtime_.cudaGetLastError(), "the call");
    if (request.ordered) {
      each([&](const CallRequest& c, std::size_t i) { buffers_.queue_outputs(c, i); });
      each([&](const CallRequest&, std::size_t i) {
        check(runtime_.cudaStreamSynchronize(streams_[i]), "the kernels of the call");
      });
      each([&](const CallRequest& c, std::size_t i) { buffers_.save(c, i, true); });
    }
    check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    if (is_repeated) load_.keep_results();
    first_call_ = seconds_since(start);
    time_.calling += first_call_;
    const auto ended = Clock::now();
    if (request.sample) {
      end_sample(reply);
      each([&](const CallRequest& c, std::size_t i) {
        if (setup_.real_gpu)
          buffers_.save_places(c, i, *request.sample, *reply.sample);
        else
          buffers_.save_written(c, i);
      });
      buffers_.release_made();
    } else if (!request.ordered) {
      each([&](const CallRequest& c, std::size_t i) { buffers_.save(c, i, false); });
    }
    time_.saving += seconds_since(ended);
    if (request.load && setup_.real_gpu && !request.sample) {
      const auto repeated = Clock::now();
      repeat_under_load(request, reply);
      time_.repeating += seconds_since(repeated);
    }
    if (is_repeated || request.load) keep_between(request);
    if (runtime_.assay_calls_ended) runtime_.assay_calls_ended();
    if (setup_.real_gpu)
      if (auto leak = held_.judge()) report_finding(std::move(*leak));
    if (runtime_.assay_report_precision) runtime_.assay_report_precision();
    reply.seconds = seconds_since(start);
  }

  void begin_sample(const protocol::SampleRequest& sample) {
    if (setup_.real_gpu) return;        // which runs all blocks
    constexpr int kNotSupported = 801;  // cudaErrorNotSupported
    const bool begun = runtime_.assay_sample_begin && runtime_.assay_sample_begin(encode(sample).c_str());
    if (!begun) throw Failed{kNotSupported, "the sample of the blocks"};
  }

  // Once for a request, whatever became of the calls.
  void end_sample(protocol::Reply& reply) const {
    if (reply.sample) return;
    if (setup_.real_gpu) reply.sample = protocol::SampleReport{.all_run = true};
    if (setup_.real_gpu || !runtime_.assay_sample_end) return;
    if (auto report = protocol::decode_sample_report(runtime_.assay_sample_end()))
      reply.sample = std::move(*report);
  }

  // Slow calls are made less often, but often enough to tell a leak from a cache that fills
  // (cudart/growth.cpp).
  void make_earlier_calls(const std::vector<CallRequest>& calls, int times) {
    constexpr int kEnough = 40;
    constexpr double kSeconds = 2;
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      if (i >= kEnough && seconds_since(start) > kSeconds) return;
      make_earlier_call(calls);
    }
  }

  // The same as the calls that follow; its results are not used.
  void make_earlier_call(const std::vector<CallRequest>& calls) {
    for (std::size_t i = 0; i < calls.size(); ++i) buffers_.fill(calls[i], i, false);
    check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
    for (std::size_t i = 0; i < calls.size(); ++i) call(calls[i], i);
    check(runtime_.cudaGetLastError(), "the call");
    check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    if (runtime_.assay_call_ended) runtime_.assay_call_ended();
    if (setup_.real_gpu) held_.call_ended();
  }

  const protocol::WorkerSetup setup_;
  protocol::LineBuffer received_;
  Runtime runtime_{};
  Stream streams_[2] = {};
  Buffers buffers_{runtime_, streams_, setup_.real_gpu, setup_.is_witnessed};
  EntryPoint entry_{setup_, runtime_, streams_};
  Load load_{runtime_, buffers_, streams_};
  // A call that is repeated until the next request comes.
  struct Repeated {
    uint64_t id = 0;  // of its request
    Load* load = nullptr;
    Load::Call call{};
    double seconds = 0;  // that it took
  };
  std::optional<Repeated> repeated_;
  Buffers between_{runtime_, streams_, setup_.real_gpu, false};  // of a call that is made between others
  Load kept_load_{runtime_, between_, streams_};
  Repeated kept_;             // that call
  int could_keep_ = 0;        // calls that might have been kept
  bool is_worn_out_ = false;  // only a new process can be trusted
  HeldByCalls held_;
  std::optional<protocol::GoneOn> gone_on_;  // since the last reply
  protocol::WorkerTime time_;                // since then
  double first_call_ = 0;                    // seconds of the last call that was not a repetition
  int left_out_ = 0, leave_out_ = 1;         // requests after which the call is not repeated; the next time
  std::optional<PythonEntry> python_;
};

bool has_socket() {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(protocol::kSocket, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
}

}  // namespace

int run(const PythonCalls* python) {
  if (!has_socket()) {
    std::fprintf(stderr, "assay-worker is started by assay, not by hand\n");
    return 2;
  }
  protocol::LineBuffer received;
  const auto line = protocol::receive_line(protocol::kSocket, received);
  if (!line) return kBadMessage;
  auto setup = protocol::decode_worker_setup(*line);
  if (!setup) {
    protocol::Ready ready;
    ready.problem = setup.error().text();
    send(ready);
    return kBadMessage;
  }
  return Worker(std::move(*setup), std::move(received), python).run();
}

}  // namespace assay::worker
