// The order of operations: what streams promise holds under every seed, and the listener hears why.
#include "vgpu/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>

namespace assay::vgpu {
namespace {

constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 x)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [x];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry wait(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
)";

// Hears every operation as it starts.
struct Hearer : Listener {
  struct Heard {
    uint64_t id, stream;
    OperationInfo::Kind kind;
    std::vector<uint64_t> after;
  };
  std::mutex mutex;
  std::vector<Heard> heard;
  int copies = 0, fills = 0;

  void on_operation(const OperationInfo& info) override {
    std::lock_guard lock(mutex);
    heard.push_back({info.id, info.stream, info.kind, {info.after.begin(), info.after.end()}});
  }
  void on_copy(const OperationInfo&, const RangeInfo&, const RangeInfo&) override { ++copies; }
  void on_fill(const OperationInfo&, const RangeInfo&) override { ++fills; }

  size_t position(OperationId id) {
    for (size_t i = 0; i < heard.size(); ++i)
      if (heard[i].id == id) return i;
    return heard.size();
  }
  const std::vector<uint64_t>& after(OperationId id) { return heard.at(position(id)).after; }
};

struct Bench {
  Device device{{.threads = 1}};
  Hearer hearer;
  Streams streams;
  Device::ModuleId module = *device.load(kPtx, "test.ptx");

  explicit Bench(uint64_t seed = 0, double nudge = 1000)
      : streams(device, {.seed = seed, .nudge_seconds = nudge, .grid_ended = {}}) {
    streams.listen(&hearer);
  }
  Address memory(uint64_t bytes) { return *device.memory().allocate(bytes, 256, MemoryKind::Device, "test"); }
  GridWork grid(const char* name, Address p, uint32_t x = 0) {
    Kernel kernel = *device.kernel(module, name);
    std::vector<std::byte> parameters(kernel.function->parameter_bytes);
    std::memcpy(parameters.data(), &p, 8);
    if (parameters.size() >= 12) std::memcpy(parameters.data() + 8, &x, 4);
    return {kernel, {}, parameters};
  }
  uint32_t value(Address p) { return *reinterpret_cast<uint32_t*>(device.memory().host(p, 4)); }
};

class Seeds : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Some, Seeds, ::testing::Values(0, 1, 2, 3, 42));

TEST_P(Seeds, AStreamKeepsItsOrder) {
  Bench bench(GetParam());
  StreamId stream = bench.streams.create(true);
  Address p = bench.memory(4);
  std::vector<OperationId> ids;
  for (uint32_t i = 1; i <= 20; ++i) ids.push_back(bench.streams.submit(stream, bench.grid("store", p, i)));
  bench.streams.synchronise_stream(stream);
  EXPECT_EQ(bench.value(p), 20u);
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_LT(bench.hearer.position(ids[i - 1]), bench.hearer.position(ids[i]));
    EXPECT_EQ(bench.hearer.after(ids[i]), std::vector<uint64_t>{ids[i - 1]});
  }
}

TEST_P(Seeds, TheDefaultStreamWaitsForBlockingStreamsOnly) {
  Bench bench(GetParam());
  StreamId a = bench.streams.create(true), b = bench.streams.create(true), free = bench.streams.create(false);
  OperationId in_a = bench.streams.submit(a, MarkerWork{}), in_b = bench.streams.submit(b, MarkerWork{});
  OperationId in_free = bench.streams.submit(free, MarkerWork{});
  OperationId middle = bench.streams.submit(kDefaultStream, MarkerWork{});
  OperationId later = bench.streams.submit(a, MarkerWork{});
  OperationId apart = bench.streams.submit(free, MarkerWork{});
  bench.streams.synchronise_all();
  EXPECT_EQ(bench.hearer.after(middle), (std::vector<uint64_t>{in_a, in_b}));
  EXPECT_EQ(bench.hearer.after(later), (std::vector<uint64_t>{in_a, middle}));
  EXPECT_EQ(bench.hearer.after(apart), std::vector<uint64_t>{in_free});
  EXPECT_LT(bench.hearer.position(middle), bench.hearer.position(later));
}

TEST_P(Seeds, AnEventOrdersTwoStreams) {
  Bench bench(GetParam());
  StreamId a = bench.streams.create(false), b = bench.streams.create(false);
  auto event = std::make_shared<StreamEvent>();
  OperationId first = bench.streams.submit(a, MarkerWork{});
  OperationId record = bench.streams.record(a, event);
  bench.streams.wait_for(b, event->operation);
  OperationId second = bench.streams.submit(b, MarkerWork{});
  bench.streams.synchronise_stream(b);
  EXPECT_LT(bench.hearer.position(first), bench.hearer.position(second));
  EXPECT_EQ(bench.hearer.after(second), std::vector<uint64_t>{record});
  EXPECT_GT(event->seconds, 0);
}

TEST_P(Seeds, AGraphKeepsItsOrder) {
  Bench bench(GetParam());
  StreamId stream = bench.streams.create(true);
  Address p = bench.memory(4);
  OperationId before = bench.streams.submit(stream, MarkerWork{});
  std::vector<OrderedWork> works;
  works.push_back({bench.grid("store", p, 1), {}});
  works.push_back({MarkerWork{}, {0}});
  works.push_back({MarkerWork{}, {0}});
  works.push_back({bench.grid("store", p, 2), {1, 2}});
  OperationId end = bench.streams.submit(stream, works);
  OperationId next = bench.streams.submit(stream, MarkerWork{});
  bench.streams.synchronise(next);
  EXPECT_EQ(bench.value(p), 2u);
  EXPECT_LT(bench.hearer.position(before), bench.hearer.position(end));
  EXPECT_EQ(bench.hearer.after(next), std::vector<uint64_t>{end});
}

TEST_P(Seeds, GridsOfTwoStreamsAreUnderWayTogether) {
  Bench bench(GetParam());
  StreamId a = bench.streams.create(false), b = bench.streams.create(false);
  Address p = bench.memory(4);
  bench.streams.submit(a, bench.grid("wait", p));
  bench.streams.submit(b, bench.grid("store", p, 1));
  bench.streams.synchronise_stream(a);
  EXPECT_FALSE(bench.streams.faulted());
}

TEST(Streams, NothingRunsUntilItIsAskedFor) {
  Bench bench;
  Address p = bench.memory(4);
  StreamId stream = bench.streams.create(true);
  OperationId id = bench.streams.submit(stream, bench.grid("store", p, 7));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_FALSE(bench.streams.done(id));
  while (!bench.streams.poll(id)) std::this_thread::yield();
  EXPECT_EQ(bench.value(p), 7u);
}

TEST(Streams, ASilentHostIsNotWaitedForLong) {
  Bench bench(0, 0.02);
  Address p = bench.memory(4);
  OperationId id = bench.streams.submit(kDefaultStream, bench.grid("store", p, 7));
  for (int i = 0; i < 200 && !bench.streams.done(id); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(bench.streams.done(id));
}

TEST(Streams, AFaultDropsTheRestAndTellsCallsThatAsked) {
  Bench bench;
  StreamId stream = bench.streams.create(true);
  Address p = bench.memory(4);
  std::atomic<int> plain{0}, told{0};
  bench.streams.submit(stream, bench.grid("store", 64, 1));  // nothing is at address 64
  bench.streams.submit(stream, bench.grid("store", p, 5));
  bench.streams.submit(stream, HostWork{[&] { ++plain; }, false});
  bench.streams.submit(stream, HostWork{[&] { ++told; }, true});
  bench.streams.synchronise_all();
  EXPECT_TRUE(bench.streams.faulted());
  EXPECT_EQ(bench.streams.fault().kind, FaultInfo::Kind::IllegalAddress);
  EXPECT_EQ(bench.value(p), 0u);
  EXPECT_EQ(plain, 0);
  EXPECT_EQ(told, 1);
  OperationId later = bench.streams.submit(stream, bench.grid("store", p, 6));
  EXPECT_TRUE(bench.streams.done(later));
}

TEST(Streams, CopiesAndFillsAreHeardAndPitched) {
  Bench bench;
  Address p = bench.memory(64), q = bench.memory(64);
  FillWork fill{
      .to = {p, nullptr, 16, 64}, .width = 4, .height = 4, .depth = 1, .value = 0xabcd, .value_bytes = 2};
  bench.streams.submit(kDefaultStream, fill);
  CopyWork copy{.to = {q, nullptr, 4, 16},
                .from = {p, nullptr, 16, 64},
                .width = 4,
                .height = 4,
                .depth = 1,
                .staged = {}};
  OperationId id = bench.streams.submit(kDefaultStream, copy);
  bench.streams.synchronise(id);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(bench.value(q + 4 * i), 0xabcdabcdu);
  EXPECT_EQ(bench.value(p + 4), 0u);
  EXPECT_EQ(bench.hearer.copies, 1);
  EXPECT_EQ(bench.hearer.fills, 1);
}

TEST(Streams, ACopyOutsideMemoryIsAFault) {
  Bench bench;
  Address p = bench.memory(64);
  std::vector<std::byte> host(128);
  CopyWork copy{.to = {0, host.data(), 0, 0},
                .from = {p, nullptr, 0, 0},
                .width = 65,
                .height = 1,
                .depth = 1,
                .staged = {}};
  bench.streams.synchronise(bench.streams.submit(kDefaultStream, copy));
  EXPECT_EQ(bench.streams.fault().kind, FaultInfo::Kind::IllegalAddress);
}

TEST(Streams, ManyPendingOperationsStartByThemselves) {
  Bench bench;
  Address p = bench.memory(4);
  OperationId last = 0;
  for (uint32_t i = 0; i < 5000; ++i) last = bench.streams.submit(kDefaultStream, bench.grid("store", p, i));
  bench.streams.synchronise(last);
  EXPECT_EQ(bench.value(p), 4999u);
}

TEST(Streams, AHostCallMayWaitForTheHost) {
  Bench bench;
  StreamId a = bench.streams.create(false), b = bench.streams.create(false);
  Address p = bench.memory(4);
  std::atomic<bool> go{false};
  bench.streams.submit(a, HostWork{[&] {
                                     while (!go) std::this_thread::yield();
                                   },
                                   false});
  OperationId other = bench.streams.submit(b, bench.grid("store", p, 3));
  bench.streams.poll(other);
  bench.streams.synchronise(other);
  EXPECT_EQ(bench.value(p), 3u);
  go = true;
  bench.streams.synchronise_all();
}

// ---- Grids that start early

constexpr char kEarlyPtx[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry first(.param .u64 p)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  griddepcontrol.launch_dependents;
  st.global.u32 [%rd1], 7;
  ret;
}
.visible .entry untold(.param .u64 p)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1], 7;
  ret;
}
.visible .entry second(.param .u64 p)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1+4], %r1;
  ret;
}
.visible .entry second_waits(.param .u64 p)
{
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1+8], 1;
  griddepcontrol.wait;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1+4], %r1;
  ret;
}
)";

// What `second` copies of what `first` writes. A third operation of the stream sees what both did.
struct EarlyOutcome {
  uint32_t copied, last;
};
EarlyOutcome run_early(uint64_t seed, const char* first, const char* second, bool early = true,
                       uint32_t blocks = 3) {
  Device device{{.threads = 1, .seed = seed}};
  Streams streams(device, {.seed = seed, .nudge_seconds = 1000, .grid_ended = {}});
  const auto module = *device.load(kEarlyPtx, "early.ptx");
  const Address p = *device.memory().allocate(256, 256, MemoryKind::Device, "p");
  std::memset(device.memory().host(p, 256), 0, 256);
  const auto grid = [&](const char* name, bool may_be_early) {
    GridWork work{*device.kernel(module, name), {.grid = {blocks}, .block = {64}}, std::vector<std::byte>(8)};
    std::memcpy(work.parameters.data(), &p, 8);
    work.config.early = may_be_early;
    return work;
  };
  streams.submit(kDefaultStream, grid(first, false));
  streams.submit(kDefaultStream, grid(second, early));
  CopyWork copy{.to = {.address = p + 16}, .from = {.address = p}, .width = 8};
  streams.submit(kDefaultStream, std::move(copy));
  streams.synchronise_all();
  const auto* words = reinterpret_cast<const uint32_t*>(device.memory().host(p, 256));
  EXPECT_EQ(words[4], 7u) << "the copy comes after both";
  return {words[1], words[5]};
}

TEST_P(Seeds, ADependentThatDoesNotWaitOvertakesTheGridBefore) {
  const EarlyOutcome outcome = run_early(GetParam(), "first", "second");
  EXPECT_EQ(outcome.copied, GetParam() == 0 ? 7u : 0u) << "in text order nobody starts early";
  EXPECT_EQ(outcome.last, outcome.copied);
}

TEST_P(Seeds, ADependentThatWaitsSeesWhatTheGridBeforeWrote) {
  EXPECT_EQ(run_early(GetParam(), "first", "second_waits").copied, 7u);
}

TEST_P(Seeds, NobodyStartsEarlyBeforeAllBlocksHaveSaidSo) {
  EXPECT_EQ(run_early(GetParam(), "untold", "second").copied, 7u);
  EXPECT_EQ(run_early(GetParam(), "first", "second", false).copied, 7u)
      << "it was not launched to start early";
}

}  // namespace
}  // namespace assay::vgpu
