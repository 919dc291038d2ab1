// What watching a kernel costs on a GPU: device time and host time per call, with and without the monitor.
//
// usage: overhead FOLDER SECONDS [graphs]   contracts go to FOLDER; rows go to stdout; stops after SECONDS; `graphs`: only those
//        overhead FOLDER wrong              one wrong call, for an alarm and a capture
//
// Each row is the minimum of several rounds; rounds with and without the monitor alternate, so that a clock that changes
// changes both.
#include <assay_monitor.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

extern "C" void scale(const float* x, float* y, int64_t n, int64_t cycles, cudaStream_t stream);

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr double kRoundSeconds = 0.15;  // of calls

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "overhead: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

struct Times {
  double device = 1e9, host = 1e9;  // seconds per call
  void take(const Times& other) {
    device = std::min(device, other.device);
    host = std::min(host, other.host);
  }
};

struct Bench {
  std::string folder;
  float *x = nullptr, *y = nullptr;
  int64_t n = 0, cycles = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  Bench(std::string to, int64_t bytes) : folder(std::move(to)), n(bytes / 8) {
    check(cudaMalloc(&x, 4 * n), "cudaMalloc");
    check(cudaMalloc(&y, 4 * n), "cudaMalloc");
    std::vector<float> values(n);
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000) * 0.37f;
    check(cudaMemcpy(x, values.data(), 4 * n, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
  }
  ~Bench() {
    cudaFree(x);
    cudaFree(y);
    cudaStreamDestroy(stream);
  }

  assay_watch* open(long every) const {
    const std::string path = folder + "/scale_" + std::to_string(every) + ".toml";
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

  void call(assay_watch* watch) {
    void* args[] = {&x, &y, &n, &cycles, &stream};
    const uint64_t ticket = assay_before(watch, args, stream);
    scale(x, y, n, cycles, stream);
    if (ticket != 0) {  // in the mode shadow, the kernel is its own trusted one
      void *x2 = x, *y2 = y;
      void* others[] = {&x2, &y2, &n, &cycles, &stream};
      if (assay_shadow(watch, ticket, others, stream))
        scale(static_cast<float*>(x2), static_cast<float*>(y2), n, cycles, stream);
    }
    assay_after(watch, ticket, args, stream);
  }

  template <class Call>
  Times round(int calls, Call make) {
    check(cudaStreamSynchronize(stream), "before");
    const auto start = Clock::now();
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) make();
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    const double host = since(start);
    check(cudaEventSynchronize(end), "a call");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    return {1e-3 * milliseconds / calls, host / calls};
  }

  // `cycles` such that a call takes 25 µs, or as long as its memory takes.
  void calibrate() {
    for (cycles = 0; cycles < 200'000; cycles += 2'000)
      if (round(200, [&] { scale(x, y, n, cycles, stream); }).device >= 25e-6) break;
  }
};

// The first sample of a size is dropped while memory is made for it.
void warm(Bench& bench, assay_watch* watch) {
  assay_counts counts{};
  for (int i = 0; i < 500 && counts.samples <= counts.dropped; ++i) {
    bench.call(watch);
    cudaStreamSynchronize(bench.stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    assay_count(watch, &counts);
  }
  assay_flush(watch, 3000);
}

void print(const char* how, const char* mode, int64_t bytes, long every, const Times& with, const Times& without,
           const assay_counts& before, const assay_counts& after) {
  std::printf("%s,%s,%lld,%ld,%.3f,%.3f,%.2f,%.3f,%.3f,%llu,%llu,%llu\n", how, mode, static_cast<long long>(bytes),
              every, 1e6 * without.device, 1e6 * with.device, 100 * (with.device / without.device - 1),
              1e6 * without.host, 1e6 * with.host, static_cast<unsigned long long>(after.calls - before.calls),
              static_cast<unsigned long long>(after.samples - before.samples),
              static_cast<unsigned long long>(after.dropped - before.dropped));
  std::fflush(stdout);
}

void eager(const std::string& folder, int64_t bytes, long every, enum assay_mode mode) {
  Bench bench(folder, bytes);
  bench.calibrate();
  assay_watch* watch = bench.open(every);
  assay_mode(watch, mode);
  warm(bench, watch);
  const int calls =
      static_cast<int>(kRoundSeconds / bench.round(200, [&] { scale(bench.x, bench.y, bench.n, bench.cycles, bench.stream); }).device);
  Times with, without;
  assay_counts before{}, after{};
  assay_count(watch, &before);
  for (int i = 0; i < kRounds; ++i) {
    without.take(bench.round(calls, [&] { scale(bench.x, bench.y, bench.n, bench.cycles, bench.stream); }));
    with.take(bench.round(calls, [&] { bench.call(watch); }));
  }
  assay_count(watch, &after);
  print("eager", mode == ASSAY_SHADOW ? "shadow" : "observe", bytes, every, with, without, before, after);
  assay_close(watch);
}

// A graph of so many kernels, some of which are watched.
void graph(const std::string& folder, int64_t bytes, long every, int kernels, int watched) {
  Bench bench(folder, bytes);
  bench.calibrate();
  assay_watch* watch = bench.open(every);
  warm(bench, watch);
  const auto capture = [&](bool is_watched, bool with_copies) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (with_copies && (assay_graph_reserve(watch, watched) != 0 || assay_graph_begin(watch) != 0))
      std::fprintf(stderr, "overhead: no memory for a graph\n");
    check(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    for (int i = 0; i < kernels; ++i) {
      if (is_watched && i % (kernels / watched) == 0)
        bench.call(watch);
      else
        scale(bench.x, bench.y, bench.n, bench.cycles, bench.stream);
    }
    check(cudaStreamEndCapture(bench.stream, &graph), "cudaStreamEndCapture");
    if (with_copies) assay_graph_end(watch);
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    return executable;
  };
  cudaGraphExec_t plain = capture(true, false), copies = capture(true, true), alone = capture(false, false);
  const int launches = std::max(
      20, static_cast<int>(kRoundSeconds / bench.round(20, [&] { cudaGraphLaunch(alone, bench.stream); }).device));
  Times with, without;
  assay_counts before{}, after{};
  assay_count(watch, &before);
  for (int i = 0; i < kRounds; ++i) {
    without.take(bench.round(launches, [&] { cudaGraphLaunch(alone, bench.stream); }));
    with.take(bench.round(launches, [&] { assay_graph_launch(watch, plain, copies, bench.stream); }));
  }
  assay_count(watch, &after);
  const std::string name = "graph of " + std::to_string(kernels) + ", " + std::to_string(watched) + " watched";
  print(name.c_str(), "observe", bytes, every, with, without, before, after);
  assay_close(watch);
}

// A call that is not sampled: nanoseconds on the host.
void unsampled(const std::string& folder) {
  Bench bench(folder, 1 << 16);
  assay_watch* watch = bench.open(1'000'000'000);
  warm(bench, watch);
  void* args[] = {&bench.x, &bench.y, &bench.n, &bench.cycles, &bench.stream};
  constexpr int kCalls = 2'000'000;
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i)
      assay_after(watch, assay_before(watch, args, bench.stream), args, bench.stream);
    least = std::min(least, since(start));
  }
  std::printf("# a call that is not sampled costs %.1f ns on the host\n", 1e9 * least / kCalls);
  assay_close(watch);
}

int wrong_call(const std::string& folder) {
  Bench bench(folder, 1 << 20);
  assay_watch* watch = bench.open(1);
  warm(bench, watch);
  void* args[] = {&bench.x, &bench.y, &bench.n, &bench.cycles, &bench.stream};
  const uint64_t ticket = assay_before(watch, args, bench.stream);
  scale(bench.x, bench.y, bench.n, bench.cycles, bench.stream);
  cudaMemsetAsync(bench.y, 0x40, 4 * bench.n, bench.stream);  // a fault, after the kernel
  assay_after(watch, ticket, args, bench.stream);
  const int flushed = assay_flush(watch, 5000);
  assay_close(watch);
  return ticket != 0 && flushed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string folder = argv[1];
  if (std::strcmp(argv[2], "wrong") == 0) return wrong_call(folder);
  const auto start = Clock::now();
  const double seconds = std::atof(argv[2]);
  unsampled(folder);
  const bool only_graphs = argc > 3 && std::strcmp(argv[3], "graphs") == 0;
  std::printf("how,mode,bytes,every,device_us_without,device_us_with,device_overhead_percent,host_us_without,host_us_with,"
              "calls,samples,dropped\n");
  constexpr int64_t kSizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};
  for (const long every : {1000L, 100L, 10L})
    for (const int64_t bytes : kSizes)
      if (!only_graphs && since(start) < seconds) eager(folder, bytes, every, ASSAY_OBSERVE);
  for (const int64_t bytes : kSizes)
    if (since(start) < seconds) graph(folder, bytes, 1000, 20, 1);
  // A launch of 100 calls, ten of them watched: what a sampled launch costs shows at a gap of ten.
  for (const long every : {1000L, 10L})
    for (const int64_t bytes : {int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20})
      if (since(start) < seconds) graph(folder, bytes, every, 100, 10);
  for (const int64_t bytes : kSizes)
    if (!only_graphs && since(start) < seconds) eager(folder, bytes, 1000, ASSAY_SHADOW);
  return 0;
}
