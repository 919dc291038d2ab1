// Host code that does not behave: it launches otherwise at a shape that was not tried, or takes its time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "assayer/assayer.h"
#include "prove/launch_log.h"
#include "prove/prove.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// No shape that anybody tries by chance, and none that the prover reads in the code: 321 is taken from it at run time.
constexpr int64_t kOddShape = 654321;

// All host code of these tests, so that it is compiled once.
constexpr const char* kSource = R"cuda(
#include <time.h>
__global__ void twice_kernel(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
__global__ void past_the_end(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i + 1];
}
__global__ void past_the_end_at_odd(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[n - 321 * static_cast<int>(blockDim.y) == 654000 && i == 0 ? n : i];
}
__global__ void one(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
__global__ void other(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
__global__ void put_kernel(float* y, int at) { y[at] = 1; }

static int threads_at(int n) {
  volatile int odd = 321;
  return n - odd == 654000 ? 256 : 128;
}
extern "C" void other_threads_at_odd(const float* x, float* y, int n, cudaStream_t stream) {
  twice_kernel<<<(n + 127) / 128, threads_at(n), 0, stream>>>(x, y, n);
}
extern "C" void wrong_at_odd(const float* x, float* y, int n, cudaStream_t stream) {
  past_the_end_at_odd<<<(n + 127) / 128, threads_at(n), 0, stream>>>(x, y, n);
}
extern "C" void wrong(const float* x, float* y, int n, cudaStream_t stream) {
  past_the_end<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
extern "C" void slow(const float* x, float* y, int n, cudaStream_t stream) {
  const timespec third{0, 333000000};
  nanosleep(&third, nullptr);
  twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
extern "C" void refused_beyond(const float* x, float* y, int n, cudaStream_t stream) {
  volatile int odd = 321;
  twice_kernel<<<(n + 127) / 128, n - odd > 990000 ? 2048 : 128, 0, stream>>>(x, y, n);
}
extern "C" void by_alignment(const float* x, float* y, int n, cudaStream_t stream) {
  if (reinterpret_cast<size_t>(x) % 16 == 0) past_the_end<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
  else twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
extern "C" void capped(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  const long long count = static_cast<long long>(rows) * cols, blocks = (count + 255) / 256;
  twice_kernel<<<blocks < (1 << 24) ? blocks : 1 << 24, 256, 0, stream>>>(x, y, 1);
}
extern "C" void put(float* y, int at, cudaStream_t stream) { put_kernel<<<1, 1, 0, stream>>>(y, at); }
__global__ void biased_kernel(const float* x, const float* bias, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + (bias ? bias[i] : 0.0f);
}
__global__ void always_biased(const float* x, const float* bias, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + bias[i];
}
extern "C" void biased(const float* x, const float* bias, float* y, int n, cudaStream_t stream) {
  if (bias) biased_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, bias, y, n);
  else twice_kernel<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
extern "C" void bias_read_unasked(const float* x, const float* bias, float* y, int n, cudaStream_t stream) {
  always_biased<<<(n + 127) / 128, 128, 0, stream>>>(x, bias, y, n);
}
__global__ void put_at_product(float* y, int r, int c) { y[r * c - 1] = 1; }
extern "C" void put_product(float* y, int r, int c, cudaStream_t stream) {
  put_at_product<<<1, 1, 0, stream>>>(y, r, c);
}
extern "C" void put_with_bias(const float* bias, float* y, int at, cudaStream_t stream) {
  put_kernel<<<1, 1, 0, stream>>>(y, at);
}
__global__ void through(const float* x, float* own, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) own[i] = x[i], y[i] = 2.0f * own[i];
}
extern "C" void own_memory(const float* x, float* y, int n, cudaStream_t stream) {
  float* own = nullptr;
  cudaMalloc(&own, n * sizeof(float));
  through<<<(n + 127) / 128, 128, 0, stream>>>(x, own, y, n);
  cudaFree(own);
}
extern "C" void too_little_memory(const float* x, float* y, int n, cudaStream_t stream) {
  float* own = nullptr;
  cudaMalloc(&own, n * sizeof(float) - 4);
  through<<<(n + 127) / 128, 128, 0, stream>>>(x, own, y, n);
  cudaFree(own);
}
extern "C" void memory_of_first_call(const float* x, float* y, int n, cudaStream_t stream) {
  static float* own = nullptr;
  if (!own) cudaMalloc(&own, n * sizeof(float));
  through<<<(n + 127) / 128, 128, 0, stream>>>(x, own, y, n);
}
extern "C" void starts_early(const float* x, float* y, int n, cudaStream_t stream) {
  twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((n + 127) / 128);
  config.blockDim = dim3(128);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, twice_kernel, x, y, n);
}
extern "C" void on_two_streams(const float* x, float* y, int n, cudaStream_t stream) {
  cudaStream_t other;
  cudaStreamCreate(&other);
  twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
  twice_kernel<<<(n + 127) / 128, 128, 0, other>>>(x, y, n);
  cudaStreamDestroy(other);
}
__global__ void to_lane_three(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int first = i < n ? i : -1;
  if (i < n) first = __shfl_sync(0xffffffffu, first, 3);
  if (first >= 0) y[first] = 2.0f * x[first];
}
extern "C" void half_a_warp_exchanges(const float* x, float* y, int n, cudaStream_t stream) {
  to_lane_three<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
extern "C" void blocks_of_two_sizes(const float* x, float* y, int n, cudaStream_t stream) {
  const int threads = n / 1000 >= 731 ? 512 : 128;
  twice_kernel<<<(n + threads - 1) / threads, threads, 0, stream>>>(x, y, n);
}
extern "C" void a_block_too_few_of_one_size(const float* x, float* y, int n, cudaStream_t stream) {
  const int threads = n / 1000 >= 731 ? 512 : 128;
  twice_kernel<<<(n + threads - 1) / threads - (threads == 512), threads, 0, stream>>>(x, y, n);
}
__global__ void strided(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}
extern "C" void grids_of_two_sizes(const float* x, float* y, int n, cudaStream_t stream) {
  strided<<<n < 1000 ? 1 : 64, 128, 0, stream>>>(x, y, n);
}
extern "C" void grids_and_blocks_of_two_sizes(const float* x, float* y, int n, cudaStream_t stream) {
  strided<<<n < 1000 ? 1 : 64, n < 700000 ? 128 : 256, 0, stream>>>(x, y, n);
}
extern "C" void blocks_of_powers_of_two(const float* x, float* y, int n, cudaStream_t stream) {
  int threads = 32;
  while (threads < n && threads < 1024) threads *= 2;
  twice_kernel<<<(n + threads - 1) / threads, threads, 0, stream>>>(x, y, n);
}
extern "C" void by_range(float* y, int n, cudaStream_t stream) {
  if (n >= 120 && n < 130) other<<<1, 32, 0, stream>>>(y, n);
  else one<<<1, 64, 0, stream>>>(y, n);
}
__global__ void handed_on(float* data, float* y, volatile unsigned* flag, const float* x) {
  if (blockIdx.x == 0) {
    *data = 2.0f * x[0];
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {}
    __threadfence();
    y[0] = *data;
  }
}
template <int kOther>
void hand_on(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 256, stream);
  cudaMemsetAsync(n == kOther ? static_cast<void*>(w) : y, 1, 4, stream);
  handed_on<<<2, 1, 0, stream>>>(reinterpret_cast<float*>(w + 256), y, reinterpret_cast<unsigned*>(w), x);
}
extern "C" void clears_the_flag(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  hand_on<-1>(x, y, n, w, stream);
}
extern "C" void sets_the_flag_at_one_size(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  hand_on<54321>(x, y, n, w, stream);
}
extern "C" void clears_other_memory(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  char *cleared = nullptr, *flag = nullptr;
  cudaMalloc(&cleared, 256);
  cudaMalloc(&flag, 256);
  cudaMemsetAsync(cleared, 0, 256, stream);
  cudaMemsetAsync(y, 1, 4, stream);
  handed_on<<<2, 1, 0, stream>>>(reinterpret_cast<float*>(w), y, reinterpret_cast<unsigned*>(flag), x);
  cudaFree(cleared);
  cudaFree(flag);
}
__global__ void past_the_end_if_two(const float* a, const float* b, float* y, int n) {
  if (threadIdx.x == 0) y[a == b ? 0 : n] = 1;
}
extern "C" void two_of_its_own(const float* x, float* y, int n, cudaStream_t stream) {
  float *a = nullptr, *b = nullptr;
  cudaMalloc(&a, 64);
  cudaMalloc(&b, 64);
  past_the_end_if_two<<<1, 32, 0, stream>>>(a, b, y, n);
  cudaFree(a);
  cudaFree(b);
}
__device__ float z[4];
__global__ void to_a_variable() { z[threadIdx.x] = 1; }
extern "C" void named_alike(float*, int, cudaStream_t stream) { to_a_variable<<<1, 4, 0, stream>>>(); }
static void wrong_if(bool wrong, const float* x, float* y, int n, cudaStream_t stream) {
  if (wrong) past_the_end<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
  else twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
extern "C" void wrong_with_one_of_two(const float* x, float* y, int n, int a, int b, cudaStream_t stream) {
  wrong_if(a && !b, x, y, n, stream);
}
extern "C" void wrong_in_the_third_way(const float* x, float* y, int n, int way, cudaStream_t stream) {
  wrong_if(way == 2, x, y, n, stream);
}
extern "C" void wrong_with_two_of_three(const float* x, float* y, int n, float a, float b, float c,
                                        cudaStream_t stream) {
  wrong_if(a < 0 && b < 0 && c > 0, x, y, n, stream);
}
__global__ void put_far(float* y, long long at) { y[at] = 1; }
extern "C" void put_twice(float* y, int r, int c, cudaStream_t stream) {
  put_far<<<1, 1, 0, stream>>>(y, static_cast<long long>(r) * c - 1);
  put_far<<<1, 1, 0, stream>>>(y, static_cast<long long>(r) * c);
}
extern "C" void by_the_sum(float* y, int n, int k, cudaStream_t stream) {
  volatile int edge = 321;
  if (n + k >= 1999 * edge) one<<<1, 32, 0, stream>>>(y, n);
  else other<<<1, 32, 0, stream>>>(y, n);
}
extern "C" void by_the_difference(float* y, int n, int k, cudaStream_t stream) {
  volatile int edge = 321;
  if (n - k >= 1999 * edge) one<<<1, 32, 0, stream>>>(y, n);
  else other<<<1, 32, 0, stream>>>(y, n);
}
__device__ unsigned drawn;
__global__ void last_adds(const float* x, float* y, float* parts, unsigned* counter) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    last = atomicAdd(counter, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  __threadfence();
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  y[0] = sum;
}
extern "C" void draws_in_the_workspace(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  last_adds<<<n, 32, 0, stream>>>(x, y, reinterpret_cast<float*>(w + 256), reinterpret_cast<unsigned*>(w));
}
extern "C" void draws_in_a_variable(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  void* counter = nullptr;
  cudaGetSymbolAddress(&counter, drawn);
  cudaMemsetAsync(counter, 0, 4, stream);
  last_adds<<<n, 32, 0, stream>>>(x, y, reinterpret_cast<float*>(w + 256), static_cast<unsigned*>(counter));
}
extern "C" void clusters_at_one_size(const float* x, float* y, int n, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2 * ((n + 255) / 256));
  config.blockDim = dim3(128);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = n == 54321 ? 2 : 1;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, twice_kernel, x, y, n);
}
)cuda";

using HostCodeContract = std::function<contract::Contract(const std::string&)>;

class HostCode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (subject::find_nvcc().empty()) GTEST_SKIP() << "nvcc was not found";
    folder_ = fs::temp_directory_path() / fmt::format("assay-host-code-{}", getpid());
    fs::create_directories(folder_);
    std::ofstream(folder_ / "k.cu") << kSource;
  }
  void TearDown() override { fs::remove_all(folder_); }

  contract::Contract parsed(const std::string& toml) const {
    auto contract = contract::parse(toml, (folder_ / "k.toml").string());
    EXPECT_TRUE(contract) << contract.error().text();
    return *contract;
  }

  // Of one that doubles n numbers.
  contract::Contract contract(const std::string& entry) const {
    return parsed(fmt::format(R"([kernel]
source = "k.cu"
entry = "{}"
args = ["x", "y", "n", "stream"]
[dims]
n = {{ min = 1, max = 1000000 }}
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
)",
                              entry));
  }

  static const Obligation& named(const Proof& proof, std::string_view name) {
    for (const Obligation& one : proof.obligations)
      if (one.name == name) return one;
    static const Obligation none;
    return none;
  }

  fs::path folder_;
};

TEST_F(HostCode, a_trial_at_an_untried_shape_makes_proofs_void) {
  const contract::Contract odd = contract("other_threads_at_odd");
  const Proof proof = prove(odd, {});
  ASSERT_EQ(named(proof, "bounds").status, Status::Proved) << named(proof, "bounds").reason;
  Json held = to_json(proof);

  LaunchLog log(odd);
  assayer::CheckOptions options;
  options.launched = [&](const trial::Trial& t, const subject::Observation& seen) { log.add(t, seen); };
  trial::Trial trial;
  trial.shape = {{"n", 1000}};
  assayer::replay(odd, trial, Kind::WrongResult, options);
  log.hold(held);
  EXPECT_EQ(held["obligations"][2]["status"], "proved");

  trial.shape = {{"n", kOddShape}};
  assayer::replay(odd, trial, Kind::WrongResult, options);
  log.hold(held);
  for (const Json& obligation : held["obligations"])  // values were compared, whatever the relation says
    EXPECT_EQ(obligation["status"], obligation["obligation"] == "values" ? "agrees" : "unknown");
  EXPECT_EQ(held["obligations"][2]["reason"],
            "the launch relation does not hold: at n=654321 block.x of twice_kernel is 256, not 128");
}

TEST_F(HostCode, so_does_a_replay_of_a_counterexample) {
  const Proof proof = prove(contract("wrong_at_odd"), {});
  EXPECT_EQ(named(proof, "bounds").status, Status::Refuted);
  EXPECT_EQ(named(proof, "alignment").status, Status::Unknown);
  EXPECT_THAT(named(proof, "alignment").reason, HasSubstr("the launch relation does not hold"));
  EXPECT_EQ(proof.deviations.size(), 1u);
}

// A shape that the contract lists is one that somebody runs.
TEST_F(HostCode, listed_shapes_are_recorded) {
  contract::Contract odd = contract("other_threads_at_odd");
  odd.shapes = {{{"n", kOddShape}}};
  const Proof proof = prove(odd, {.only = {"launch", "bounds"}});
  EXPECT_EQ(proof.launches.size(), 2u);
  EXPECT_EQ(named(proof, "bounds").status, Status::Proved) << named(proof, "bounds").reason;
}

TEST_F(HostCode, where_only_listed_shapes_are_promised_all_are_recorded) {
  contract::Contract odd = contract("other_threads_at_odd");
  odd.only_listed_shapes = true;
  odd.shapes = {{{"n", 777}}, {{"n", kOddShape}}, {{"n", 1000}}};
  const Proof proof = prove(odd, {});
  EXPECT_TRUE(proof.all_shapes_recorded);
  EXPECT_EQ(proof.recorded, 3);
  EXPECT_EQ(named(proof, "bounds").status, Status::Proved) << named(proof, "bounds").reason;
  EXPECT_EQ(named(proof, "launch").status, Status::Proved);
  EXPECT_EQ(proof.shapes.back(), "only the listed shapes (3)");
}

// And only they count: neither dim is bounded enough by itself.
TEST_F(HostCode, what_holds_of_listed_shapes_is_proved_of_them) {
  const auto bounds = [&](int64_t c) {
    const Proof proof = prove(parsed(fmt::format(R"(only_listed_shapes = true
[kernel]
source = "k.cu"
entry = "put_product"
args = ["y", "r", "c", "stream"]
[dims]
r = {{ min = 1, max = 1000 }}
c = {{ min = 1, max = 1000 }}
[tensors.y]
dtype = "f32"
shape = [1000]
role = "inout"
[reference]
formula = "y[i] = if i == r * c - 1 then 1 else y[i]"
[[shapes]]
r = 1
c = 1000
[[shapes]]
r = 1000
c = {}
)",
                                                 c)),
                              {.only = {"bounds"}});
    return named(proof, "bounds").status;
  };
  EXPECT_EQ(bounds(1), Status::Proved);
  EXPECT_EQ(bounds(2), Status::Refuted);
}

TEST_F(HostCode, memory_that_it_allocates_is_as_large_as_it_asked_for) {
  const Proof proof = prove(contract("own_memory"), {});
  EXPECT_EQ(named(proof, "bounds").status, Status::Proved) << named(proof, "bounds").reason;
  ASSERT_EQ(proof.launches.size(), 1u);
  EXPECT_THAT(proof.launches[0].relation, HasSubstr("cudaMalloc of 4 * n bytes"));
  EXPECT_NE(named(prove(contract("too_little_memory"), {}), "bounds").status, Status::Proved);
}

// What it keeps has the size of the first call, and the largest shape is the first that is recorded.
TEST_F(HostCode, memory_that_it_keeps_is_as_large_as_the_first_call_asked_for) {
  EXPECT_NE(named(prove(contract("memory_of_first_call"), {}), "bounds").status, Status::Proved);
}

// Two of its allocations have one name, which does not say whether two pointers are one.
TEST_F(HostCode, two_allocations_are_not_taken_for_one) {
  const Proof two = prove(contract("two_of_its_own"), {.only = {"bounds"}});
  EXPECT_EQ(two.launches.size(), 1u) << two.problem;
  EXPECT_NE(named(two, "bounds").status, Status::Proved);
}

// The tensor z has one element, and the variable z, which is what the kernel writes, has four.
TEST_F(HostCode, a_variable_with_the_name_of_a_tensor) {
  const Proof proof = prove(parsed(R"([kernel]
source = "k.cu"
entry = "named_alike"
args = ["z", "n", "stream"]
[dims]
n = { min = 1, max = 4 }
[tensors.z]
dtype = "f32"
role = "out"
shape = ["n"]
[reference]
formula = "z[i] = 1"
)"),
                            {.only = {"coverage"}});
  EXPECT_EQ(proof.launches.size(), 1u) << proof.problem;
  EXPECT_NE(named(proof, "coverage").status, Status::Proved);
}

// Each launch by itself has no races; two that run at the same time write the same elements.
TEST_F(HostCode, launches_that_may_run_at_the_same_time_are_not_compared) {
  for (const char* entry : {"starts_early", "on_two_streams"}) {
    const Proof proof = prove(contract(entry), {.only = {"race"}});
    EXPECT_NE(named(proof, "race").status, Status::Proved) << entry;
    EXPECT_EQ(named(proof, "bounds").status, Status::Proved) << entry;
  }
}

// Which array the host code fills is no number that an expression over the dims could give.
TEST_F(HostCode, what_it_fills_at_one_size_only_is_another_case) {
  const auto race = [&](const std::string& entry) {
    const Proof proof = prove(parsed(fmt::format(R"([kernel]
source = "k.cu"
entry = "{}"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = 512
[dims]
n = {{ min = 4, max = 100000 }}
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = "y[z] = 2 * x[0]"
)",
                                                 entry)),
                              {.only = {"race"}});
    return named(proof, "race").status;
  };
  EXPECT_EQ(race("clears_the_flag"), Status::Proved);
  EXPECT_NE(race("sets_the_flag_at_one_size"), Status::Proved);
  EXPECT_NE(race("clears_other_memory"), Status::Proved);  // both are "cudaMalloc"
}

// No expression over the dims gives 128 or 512, but each is a case of its own.
TEST_F(HostCode, blocks_and_grids_of_several_sizes_are_several_cases) {
  const auto proved = [&](const std::string& entry) {
    const Proof proof = prove(contract(entry), {.only = {"launch", "bounds", "coverage"}});
    const bool all = std::all_of(proof.obligations.begin(), proof.obligations.end(),
                                 [](const Obligation& one) { return one.status == Status::Proved; });
    return std::pair(proof.launches.size(), all);
  };
  EXPECT_EQ(proved("blocks_of_two_sizes"), std::pair(size_t{2}, true));
  EXPECT_EQ(proved("a_block_too_few_of_one_size"), std::pair(size_t{2}, false));
  EXPECT_EQ(proved("blocks_of_powers_of_two"), std::pair(size_t{6}, true));
  EXPECT_EQ(proved("grids_of_two_sizes"), std::pair(size_t{2}, true));
  EXPECT_EQ(proved("grids_and_blocks_of_two_sizes"), std::pair(size_t{3}, true));
}

TEST_F(HostCode, clusters_at_one_size_only_are_another_case) {
  const Proof proof = prove(contract("clusters_at_one_size"), {.only = {"launch"}});
  EXPECT_EQ(std::count_if(proof.obligations.begin(), proof.obligations.end(),
                          [](const Obligation& one) { return one.status == Status::Proved; }),
            1);
  EXPECT_EQ(std::count_if(proof.obligations.begin(), proof.obligations.end(),
                          [](const Obligation& one) { return one.status == Status::Unknown; }),
            1);
}

// Lanes beyond n do not take part, and what lane 3 gives them is undefined if it is one of these.
TEST_F(HostCode, values_are_exchanged_only_where_all_lanes_meet) {
  const Proof proof = prove(contract("half_a_warp_exchanges"), {.only = {"bounds"}});
  EXPECT_NE(named(proof, "bounds").status, Status::Proved);
}

// With few shapes, an expression over the dims is easily found for a number that is no function of them.
TEST_F(HostCode, a_scalar_is_no_function_of_the_dims) {
  const contract::Contract scalar = parsed(R"([kernel]
source = "k.cu"
entry = "put"
args = ["y", "at", "stream"]
[dims]
n = { min = 63, max = 64 }
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[scalars.at]
dtype = "i32"
range = [0, 63]
[reference]
formula = "y[i] = y[i]"
)");
  const Proof proof = prove(scalar, {});
  EXPECT_EQ(named(proof, "bounds").status, Status::Refuted);  // at n=63 with at=63
  ASSERT_EQ(proof.launches.size(), 1u);
  EXPECT_EQ(proof.launches[0].relation, "grid.x = 1, block.x = 1, parameter 0 -> y");
}

contract::Contract with_optional(const HostCodeContract& parsed, const std::string& entry) {
  return parsed(fmt::format(R"toml([kernel]
source = "k.cu"
entry = "{}"
args = ["x", "bias", "y", "n", "stream"]
[dims]
n = {{ min = 1, max = 100000 }}
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.bias]
dtype = "f32"
shape = ["n"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i] + (if present(bias) then bias[i] else 0)"
)toml",
                            entry));
}

TEST_F(HostCode, calls_with_and_without_an_optional_tensor_are_cases_of_their_own) {
  const Proof proof = prove(with_optional([&](const auto& toml) { return parsed(toml); }, "biased"), {});
  ASSERT_EQ(proof.launches.size(), 2u);
  std::set<std::string> relations = {proof.launches[0].relation, proof.launches[1].relation};
  EXPECT_THAT(
      relations,
      ::testing::UnorderedElementsAre(
          "if present(bias), grid.x = ceil_div(n, 128), block.x = 128, parameter 0 -> x, parameter 8 -> "
          "bias, "
          "parameter 16 -> y, parameter 24 = n",
          "if not present(bias), grid.x = ceil_div(n, 64), block.x = 64, parameter 0 -> x, parameter 8 -> y, "
          "parameter 16 = n"));
  EXPECT_EQ(proof.verdict, Status::Proved) << proof.obligations.front().reason;
}

TEST_F(HostCode, an_optional_tensor_that_is_read_though_it_is_absent_is_shown_by_a_run) {
  const Proof proof =
      prove(with_optional([&](const auto& toml) { return parsed(toml); }, "bias_read_unasked"), {});
  bool refuted = false;
  for (const Obligation& one : proof.obligations)
    refuted |= one.name == "bounds" && one.status == Status::Refuted;
  EXPECT_TRUE(refuted);
}

// The scalar has all of its choices with each choice of the tensors: otherwise it would look like a constant.
TEST_F(HostCode, a_scalar_is_no_function_of_what_a_call_is_given) {
  const Proof proof = prove(parsed(R"([kernel]
source = "k.cu"
entry = "put_with_bias"
args = ["bias", "y", "at", "stream"]
[dims]
n = { min = 63, max = 64 }
[tensors.bias]
dtype = "f32"
shape = ["n"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[scalars.at]
dtype = "i32"
range = [0, 63]
[reference]
formula = "y[i] = y[i]"
)"),
                            {.only = {"bounds"}});
  ASSERT_EQ(proof.launches.size(), 2u);
  for (const LaunchStatement& launch : proof.launches)
    EXPECT_THAT(launch.relation, HasSubstr("grid.x = 1, block.x = 1, parameter 0 -> y"));
  for (const LaunchStatement& launch : proof.launches)
    EXPECT_THAT(launch.relation, ::testing::Not(HasSubstr("parameter 8")));
  EXPECT_THAT(proof.assumptions, ::testing::Contains(HasSubstr("some values of the scalars")));
  EXPECT_EQ(named(proof, "bounds").status, Status::Refuted);
}

// What the shapes that a relation is inferred from do not show, those that it is checked at do; it is inferred again with them.
TEST_F(HostCode, a_path_that_only_later_shapes_take_becomes_a_case) {
  const contract::Contract ranges = parsed(R"([kernel]
source = "k.cu"
entry = "by_range"
args = ["y", "n", "stream"]
[dims]
n = { min = 1, max = 200 }
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[reference]
formula = "y[i] = y[i]"
)");
  const auto built = subject::build(ranges, {});
  ASSERT_TRUE(built.subject) << built.failure.error.text();
  const auto relation = infer(ranges, *built.subject, {.fitted = 3});
  ASSERT_TRUE(relation);
  EXPECT_THAT(relation->gaps, IsEmpty());
  EXPECT_TRUE(relation->all);
  ASSERT_EQ(relation->cases.size(), 2u);
  for (const Case& one : relation->cases) {
    ASSERT_EQ(one.launches.size(), 1u);
    EXPECT_EQ(one.launches[0].block[0]->value, one.example.at("n") / 10 == 12 ? 32 : 64);
  }
}

// What the host code does with one value of each scalar and what it does with another value of each say nothing of what it does
// with one of this and another of that.
TEST_F(HostCode, scalars_are_recorded_in_combination) {
  const auto launched = [&](const std::string& entry, const std::string& args, const std::string& scalars) {
    const contract::Contract with = parsed(fmt::format(R"([kernel]
source = "k.cu"
entry = "{}"
args = ["x", "y", "n", {}, "stream"]
[dims]
n = {{ min = 1, max = 1000000 }}
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
{}
[reference]
formula = "y[i] = 2 * x[i]"
)",
                                                       entry, args, scalars));
    const auto built = subject::build(with, {});
    EXPECT_TRUE(built.subject) << built.failure.error.text();
    const auto relation = infer(with, *built.subject, {});
    EXPECT_THAT(relation->gaps, IsEmpty());
    std::set<std::string> kernels;
    for (const Case& one : relation->cases) kernels.insert(one.launches.front().kernel);
    return kernels.size();
  };
  EXPECT_EQ(launched("wrong_with_one_of_two", R"("a", "b")", R"([scalars.a]
dtype = "i32"
values = [0, 1]
[scalars.b]
dtype = "i32"
values = [0, 1])"),
            2u);
  EXPECT_EQ(launched("wrong_in_the_third_way", R"("way")", R"([scalars.way]
dtype = "i32"
range = [0, 3])"),
            2u);
  EXPECT_EQ(launched("wrong_with_two_of_three", R"("a", "b", "c")", R"([scalars.a]
dtype = "f32"
range = [-1, 1]
[scalars.b]
dtype = "f32"
range = [-1, 1]
[scalars.c]
dtype = "f32"
range = [-1, 1])"),
            2u);
}

// Of two launches of a kernel each is proved, even if they differ in a number of 64 bits alone.
TEST_F(HostCode, launches_that_differ_in_one_number_are_two) {
  const contract::Contract twice = parsed(R"([kernel]
source = "k.cu"
entry = "put_twice"
args = ["y", "r", "c", "stream"]
[dims]
r = { min = 1, max = 1000000 }
c = { min = 1, max = 1000000 }
[tensors.y]
dtype = "f32"
shape = ["r", "c"]
role = "inout"
[reference]
formula = "y[i, j] = y[i, j]"
)");
  const Proof proof = prove(twice, {.only = {"bounds"}});
  ASSERT_EQ(proof.launches.size(), 2u);
  EXPECT_THAT(proof.launches[0].relation, HasSubstr("parameter 8 = r * c - 1"));
  EXPECT_THAT(proof.launches[1].relation, HasSubstr("parameter 8 = r * c"));
  EXPECT_NE(proof.verdict, Status::Proved);
}

// Where the ends of two cases' ranges were found on different lines, the shapes between them must not get lost.
TEST_F(HostCode, every_shape_is_of_some_case) {
  for (const std::string entry : {"by_the_sum", "by_the_difference"}) {
    const contract::Contract odd = parsed(fmt::format(R"([kernel]
source = "k.cu"
entry = "{}"
args = ["y", "n", "k", "stream"]
[dims]
n = {{ min = 1, max = 1000000 }}
k = {{ min = 1, max = 2000 }}
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[reference]
formula = "y[i] = y[i]"
)",
                                                      entry));
    const auto built = subject::build(odd, {});
    ASSERT_TRUE(built.subject) << built.failure.error.text();
    const auto relation = infer(odd, *built.subject, {});
    ASSERT_TRUE(relation);
    EXPECT_THAT(relation->gaps, IsEmpty());
    for (int64_t n = 1999 * 321 - 2100; n < 1999 * 321 + 2100; n += 7)
      for (const int64_t k : {1, 1000, 2000}) {
        const contract::Shape shape = {{"k", k}, {"n", n}};
        EXPECT_TRUE(std::any_of(relation->cases.begin(), relation->cases.end(),
                                [&](const Case& one) {
                                  return std::all_of(
                                      one.when.begin(), one.when.end(),
                                      [&](const Condition& condition) { return condition.holds(shape); });
                                }))
            << entry << contract::to_string(shape);
      }
  }
}

// A variable of the module may be filled by name, but calls share it: that it is zero when the kernel begins is not known.
TEST_F(HostCode, zeros_in_a_variable_of_the_module_do_not_count) {
  const auto race = [&](const std::string& entry) {
    const contract::Contract draws = parsed(fmt::format(R"toml([kernel]
source = "k.cu"
entry = "{}"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "256 + 4 * n"
[dims]
n = {{ min = 1, max = 100000 }}
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = "y[i] = sum[j](x[j])"
)toml",
                                                        entry));
    return named(prove(draws, {.only = {"race"}}), "race");
  };
  const Obligation known = race("draws_in_the_workspace");
  EXPECT_EQ(known.status, Status::Proved) << known.reason;
  EXPECT_NE(race("draws_in_a_variable").status, Status::Proved);
}

// A contract that promises little of a pointer's alignment promises nothing of what it happens to be.
TEST_F(HostCode, a_path_for_aligned_pointers_is_proved_as_well) {
  contract::Contract little = contract("by_alignment");
  for (contract::TensorSpec& tensor : little.tensors) tensor.align = 4;
  const Proof proof = prove(little, {.only = {"bounds"}});
  ASSERT_EQ(proof.obligations.size(), 2u);
  for (const Obligation& bounds : proof.obligations)
    EXPECT_EQ(bounds.status,
              bounds.kernel.find("past_the_end") == std::string::npos ? Status::Proved : Status::Refuted)
        << bounds.kernel << ": " << bounds.reason;
  EXPECT_THAT(proof.deviations, IsEmpty());
}

// A limit of 2^32 elements, which hardly any shape reaches that is drawn at random.
TEST_F(HostCode, what_it_does_where_32_bits_end_is_recorded) {
  const contract::Contract matrix = parsed(R"([kernel]
source = "k.cu"
entry = "capped"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 4194304 }
cols = { min = 1, max = 262144 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "out"
[reference]
formula = "y[i, j] = x[i, j]"
)");
  const auto built = subject::build(matrix, {});
  ASSERT_TRUE(built.subject) << built.failure.error.text();
  const auto relation = infer(matrix, *built.subject, {});
  ASSERT_TRUE(relation);
  ASSERT_EQ(relation->cases.size(), 1u);
  EXPECT_EQ(text(*relation->cases[0].launches[0].grid[0]), "min(ceil_div(rows * cols, 256), 16777216)");
}

// A launch that the runtime refuses where the relation has a legal one is another launch: nothing is proved for every shape.
TEST_F(HostCode, a_launch_that_is_refused_must_be_illegal_by_the_relation) {
  const Proof proof = prove(contract("refused_beyond"), {.only = {"launch", "bounds"}});
  EXPECT_EQ(named(proof, "bounds").status, Status::Unknown);
  EXPECT_THAT(named(proof, "bounds").reason, HasSubstr("where the launch is refused"));
  EXPECT_EQ(proof.verdict, Status::Refuted);
}

TEST_F(HostCode, that_takes_long_is_not_waited_for) {
  const contract::Contract slow = contract("slow");
  const auto began = std::chrono::steady_clock::now();
  const Proof proof = prove(slow, {.only = {"bounds"}, .recording_seconds = 1});
  EXPECT_LT(std::chrono::steady_clock::now() - began,
            std::chrono::seconds(60));  // of 250 calls, with a third of a second each
  EXPECT_EQ(named(proof, "bounds").status, Status::Unknown);
  EXPECT_THAT(named(proof, "bounds").reason, HasSubstr("shapes only in 1 s"));
}

TEST_F(HostCode, replays_have_a_limit_of_their_own) {
  const contract::Contract wrong = contract("wrong");
  EXPECT_EQ(named(prove(wrong, {}), "bounds").status, Status::Refuted);
  const Proof without = prove(wrong, {.replay_seconds = 0});
  EXPECT_EQ(named(without, "bounds").status, Status::Unknown);
  EXPECT_THAT(without.findings, IsEmpty());
  ASSERT_FALSE(without.gaps.empty());
  EXPECT_THAT(without.gaps.front(), HasSubstr("not run"));
}

}  // namespace
}  // namespace assay::prove
