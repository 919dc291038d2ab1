// What watching a kernel costs on a GPU: device time and host time per call, with and without the monitor.
//
// usage: overhead FOLDER SECONDS    contracts go to FOLDER, rows as CSV to stdout; a row that would end after SECONDS is
//                                   left out, and said to be
//        overhead FOLDER try        the same rows, with tensors and rounds so short that the virtual GPU can run them
//        overhead FOLDER wrong      one wrong call, for an alarm and a capture
//
// A row takes a given time. Short rounds without the monitor and long ones with it alternate, so that a clock that drifts
// changes both; a round with it is compared with the mean of those before and after it. The row says the median of these
// comparisons, and the least round with the monitor over the least without; of eager calls also how much longer the device
// needs for a call that is sampled, and the host (which only calls that are sampled spend time on).
#include <assay_monitor.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

extern "C" void scale(const float* x, float* y, int64_t n, int64_t cycles, cudaStream_t stream);

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;           // with the monitor; one more without
constexpr double kPlainShare = 0.2;  // of a row's time, in rounds without the monitor
constexpr int kFewestLaunches = 3;   // of a round
constexpr double kKernelSeconds = 25e-6;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "overhead: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What one row measures.
struct Case {
  enum assay_mode mode;
  int64_t bytes;  // of both tensors
  long every;     // mean gap between sampled launches; a launch is a call, or a graph of calls
  double seconds;
  int kernels = 0, watched = 0;  // of a graph; 0: eager calls
};

std::string name(const Case& row) {
  if (row.kernels == 0) return "eager";
  return "graph of " + std::to_string(row.kernels) + "; " + std::to_string(row.watched) + " watched";
}

const char* name(enum assay_mode mode) {
  return mode == ASSAY_SHADOW ? "shadow" : mode == ASSAY_REFERENCE ? "reference" : "observe";
}

// A kernel's tensors and stream, and its calls.
class Bench {
 public:
  Bench(const Bench&) = delete;
  Bench(std::string folder, int64_t bytes) : folder_(std::move(folder)), n_(bytes / 8) {
    check(cudaMalloc(&x_, 4 * n_), "cudaMalloc");
    check(cudaMalloc(&y_, 4 * n_), "cudaMalloc");
    std::vector<float> values(n_);
    for (int64_t i = 0; i < n_; ++i) values[i] = static_cast<float>(i % 1000) * 0.37f;
    check(cudaMemcpy(x_, values.data(), 4 * n_, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    calibrate();
  }
  ~Bench() {
    cudaFree(x_);
    cudaFree(y_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  cudaStream_t stream() const { return stream_; }

  assay_watch* open(long every) const {
    const std::string path = folder_ + "/scale_" + std::to_string(every) + ".toml";
    std::ofstream(path) << "[kernel]\nsource = \"scale.cu\"\nentry = \"scale\"\n"
                           "args = [\"x\", \"y\", \"n\", \"cycles\", \"stream\"]\n"
                           "[dims]\nn = { min = 1, max = 67108864, type = \"i64\" }\n"
                           "[scalars.cycles]\ndtype = \"i64\"\nrange = [0, 1000000]\n"
                           "[tensors.x]\ndtype = \"f32\"\nshape = [\"n\"]\n"
                           "[tensors.y]\ndtype = \"f32\"\nshape = [\"n\"]\nrole = \"out\"\n"
                           "[reference]\nformula = \"y[i] = 2 * x[i]\"\n"
                           "[monitor]\nmax_bytes = \"256MiB\"\nevery = "
                        << every << "\n";
    assay_watch* watch = nullptr;
    if (assay_open(path.c_str(), nullptr, &watch) == 0) return watch;
    std::fprintf(stderr, "overhead: %s\n", assay_error());
    std::exit(1);
  }

  void call() { scale(x_, y_, n_, cycles_, stream_); }

  // As a shim makes it. The kernel is its own trusted one, so that what is measured is the monitor and not another kernel.
  void call(assay_watch* watch) {
    void* args[] = {&x_, &y_, &n_, &cycles_, &stream_};
    const uint64_t ticket = assay_before(watch, args, stream_);
    const auto kernel = assay_mode_now(watch) == ASSAY_REFERENCE ? trusted_ : kernel_;
    kernel(x_, y_, n_, cycles_, stream_);
    if (ticket != 0) {
      void *x = x_, *y = y_;
      void* others[] = {&x, &y, &n_, &cycles_, &stream_};
      if (assay_shadow(watch, ticket, others, stream_))
        trusted_(static_cast<float*>(x), static_cast<float*>(y), n_, cycles_, stream_);
    }
    assay_after(watch, ticket, args, stream_);
  }

  // The monitor's part of a call.
  void pretend(assay_watch* watch) {
    void* args[] = {&x_, &y_, &n_, &cycles_, &stream_};
    assay_after(watch, assay_before(watch, args, stream_), args, stream_);
  }

  // A fault after the kernel. False: the call was not sampled.
  bool wrong_call(assay_watch* watch) {
    void* args[] = {&x_, &y_, &n_, &cycles_, &stream_};
    const uint64_t ticket = assay_before(watch, args, stream_);
    call();
    cudaMemsetAsync(y_, 0x40, 4 * n_, stream_);
    assay_after(watch, ticket, args, stream_);
    return ticket != 0;
  }

  // The first sample of a size is dropped while memory is made for it.
  void warm(assay_watch* watch) {
    assay_counts counts{};
    for (int i = 0; i < 500 && counts.samples <= counts.dropped; ++i) {
      call(watch);
      cudaStreamSynchronize(stream_);
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      assay_count(watch, &counts);
    }
    assay_flush(watch, 3000);
  }

  // Seconds of device time of one launch. The host is ahead of the device, so its time says nothing.
  template <class Launch>
  double round(int launches, Launch launch) {
    check(cudaStreamSynchronize(stream_), "before a round");
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) launch();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "a round");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e-3 * milliseconds / launches;
  }

  // As many launches as take so long; one launch takes `each` seconds.
  static int launches_in(double seconds, double each) {
    return std::max(kFewestLaunches, static_cast<int>(seconds / each));
  }

 private:
  // Such that a call takes kKernelSeconds, or as long as its memory takes.
  void calibrate() {
    constexpr int64_t kStep = 2'000, kMost = 200'000;  // clocks
    const double once = round(kFewestLaunches, [&] { call(); });
    const int calls = std::min(200, launches_in(0.01, once));
    while (cycles_ < kMost && round(calls, [&] { call(); }) < kKernelSeconds) cycles_ += kStep;
  }

  std::string folder_;
  float *x_ = nullptr, *y_ = nullptr;
  int64_t n_ = 0, cycles_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void (*volatile kernel_)(const float*, float*, int64_t, int64_t, cudaStream_t) = scale;
  void (*volatile trusted_)(const float*, float*, int64_t, int64_t, cudaStream_t) = scale;
};

struct Result {
  std::vector<double> without, with;  // seconds of a launch, of each round
  int launches = 0;                   // of a round with the monitor
  assay_counts before{}, after{};
};

template <class Plain, class Watched>
Result measure(Bench& bench, assay_watch* watch, double seconds, Plain plain, Watched watched) {
  Result result;
  const double each = bench.round(kFewestLaunches, plain);
  const int few = Bench::launches_in(kPlainShare * seconds / (kRounds + 1), each);
  result.launches = Bench::launches_in((1 - kPlainShare) * seconds / kRounds, each);
  assay_count(watch, &result.before);
  result.without.push_back(bench.round(few, plain));
  for (int i = 0; i < kRounds; ++i) {
    result.with.push_back(bench.round(result.launches, watched));
    result.without.push_back(bench.round(few, plain));
  }
  assay_count(watch, &result.after);
  return result;
}

void print(const Case& row, const Result& result) {
  const std::vector<double>&without = result.without, &with = result.with;
  std::vector<double> more;
  double extra = 0;  // seconds in all
  for (std::size_t i = 0; i < with.size(); ++i) {
    const double beside = (without[i] + without[i + 1]) / 2;
    more.push_back(with[i] / beside - 1);
    extra += (with[i] - beside) * result.launches;
  }
  const auto least = [](const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); };
  const uint64_t samples = result.after.samples - result.before.samples,
                 dropped = result.after.dropped - result.before.dropped;
  std::printf("%s,%s,%lld,%ld,%.2f,%.3f,%.3f,%d,%llu,%llu,", name(row).c_str(), name(row.mode),
              static_cast<long long>(row.bytes), row.every, 1e6 * median(without), 100 * median(more),
              100 * (least(with) / least(without) - 1), result.launches * kRounds,
              static_cast<unsigned long long>(samples), static_cast<unsigned long long>(dropped));
  // Of a graph it is lost in the noise: few launches are sampled, and each is long.
  if (row.kernels == 0 && samples > dropped)
    std::printf("%.2f", 1e6 * extra / static_cast<double>(samples - dropped));
  const auto host_ns = static_cast<double>(result.after.overhead_ns - result.before.overhead_ns);
  std::printf(",%.2f\n", samples == 0 ? 0 : 1e-3 * host_ns / static_cast<double>(samples));
  std::fflush(stdout);
}

void eager(Bench& bench, const Case& row, assay_watch* watch) {
  print(row, measure(
                 bench, watch, row.seconds, [&] { bench.call(); }, [&] { bench.call(watch); }));
}

cudaGraphExec_t capture(Bench& bench, const Case& row, assay_watch* watch, bool with_copies) {
  if (with_copies && (assay_graph_reserve(watch, row.watched) != 0 || assay_graph_begin(watch) != 0)) {
    std::fprintf(stderr, "overhead: no memory for a graph\n");
    std::exit(1);
  }
  check(cudaStreamBeginCapture(bench.stream(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  for (int i = 0; i < row.kernels; ++i) {
    if (watch && i % (row.kernels / row.watched) == 0)
      bench.call(watch);
    else
      bench.call();
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamEndCapture(bench.stream(), &graph), "cudaStreamEndCapture");
  if (with_copies) assay_graph_end(watch);
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return executable;
}

// A graph of so many kernels, some of which are watched.
void graph(Bench& bench, const Case& row, assay_watch* watch) {
  cudaGraphExec_t plain = capture(bench, row, watch, false), copies = capture(bench, row, watch, true),
                  alone = capture(bench, row, nullptr, false);
  for (cudaGraphExec_t executable : {plain, copies, alone}) {  // the first launch of each uploads it
    check(cudaGraphLaunch(executable, bench.stream()), "cudaGraphLaunch");
    check(cudaStreamSynchronize(bench.stream()), "a graph");
  }
  print(row, measure(
                 bench, watch, row.seconds, [&] { cudaGraphLaunch(alone, bench.stream()); },
                 [&] { assay_graph_launch(watch, plain, copies, bench.stream()); }));
  assay_flush(watch, 3000);
  for (cudaGraphExec_t executable : {plain, copies, alone}) cudaGraphExecDestroy(executable);
}

// A call that is not sampled: nanoseconds on the host.
void unsampled(Bench& bench, int calls) {
  assay_watch* watch = bench.open(1'000'000'000);
  bench.warm(watch);
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) bench.pretend(watch);
    least = std::min(least, since(start));
  }
  std::printf("# a call that is not sampled costs %.1f ns on the host\n", 1e9 * least / calls);
  assay_close(watch);
}

// The seconds of each row are such that the graphs have several sampled launches at the gap of 1000, and all rows together
// take three and a half minutes.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](enum assay_mode mode, long every, double seconds, int kernels, int watched) {
    constexpr int64_t kLarge = 64 << 20;  // its launches take twice as long
    for (const int64_t bytes : {int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20, kLarge})
      all.push_back(
          {mode, bytes, every, bytes == kLarge && every == 1000 ? 1.6 * seconds : seconds, kernels, watched});
  };
  const enum assay_mode modes[] = {ASSAY_OBSERVE, ASSAY_SHADOW, ASSAY_REFERENCE};
  for (const enum assay_mode mode : modes) add(mode, 1000, 1.9, 0, 0);
  add(ASSAY_OBSERVE, 1000, 7, 20, 1);
  add(ASSAY_OBSERVE, 1000, 13, 100, 10);
  for (const enum assay_mode mode : modes) add(mode, 100, 1.2, 0, 0);
  for (const enum assay_mode mode : modes) add(mode, 100, 1.2, 20, 1);
  for (const enum assay_mode mode : modes) add(mode, 100, 1.6, 100, 10);
  add(ASSAY_OBSERVE, 10, 1.0, 0, 0);
  add(ASSAY_OBSERVE, 10, 1.0, 20, 1);
  add(ASSAY_OBSERVE, 10, 1.2, 100, 10);
  return all;
}

int wrong_call(const std::string& folder) {
  Bench bench(folder, 1 << 20);
  assay_watch* watch = bench.open(1);
  bench.warm(watch);
  const bool is_sampled = bench.wrong_call(watch);
  const bool is_judged = assay_flush(watch, 5000) == 0;
  assay_close(watch);
  return is_sampled && is_judged ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1], what = argv[2];
  if (what == "wrong") return wrong_call(folder);
  const bool is_try = what == "try";
  const auto start = Clock::now();
  const double seconds = is_try ? 1e9 : std::atof(argv[2]);
  std::map<int64_t, Bench> benches;  // by size: each is calibrated once
  const auto bench_of = [&](int64_t bytes) -> Bench& {
    return benches.try_emplace(bytes, folder, bytes).first->second;
  };
  unsampled(bench_of(is_try ? 4 << 10 : 64 << 10), is_try ? 20'000 : 1'000'000);
  std::printf(
      "calls,mode,bytes,every,device_us,more_percent,least_percent,host_us_without,host_us_with,launches,"
      "samples,"
      "dropped,sampled_launch_us\n");
  for (Case row : cases()) {
    if (is_try) {
      row.bytes /= 1024;
      row.seconds = 0.05;
      row.every /= 10;
    }
    constexpr double kPreparation = 0.5;  // seconds: calibration, the first sample, instantiation
    if (since(start) + row.seconds + kPreparation > seconds) {
      std::printf("# not measured: %s, %s, %lld bytes, one in %ld\n", name(row).c_str(), name(row.mode),
                  static_cast<long long>(row.bytes), row.every);
      continue;
    }
    Bench& bench = bench_of(row.bytes);
    assay_watch* watch = bench.open(row.every);
    assay_mode(watch, row.mode);
    bench.warm(watch);
    row.kernels == 0 ? eager(bench, row, watch) : graph(bench, row, watch);
    assay_close(watch);
  }
  return 0;
}
