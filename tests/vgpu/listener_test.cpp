// What listeners keep for the blocks under way.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "machine.h"
#include "vgpu/grid.h"

namespace assay::vgpu {
namespace {

using testing::Machine;

constexpr const char* kHeardKernel = R"(
.visible .entry k(.param .u64 x) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  bar.sync 0;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

// Counts the accesses of each block in a state of its own.
class Counter final : public Listener {
 public:
  explicit Counter(int step) : step_(step) {}
  void on_block(const Block& block) override { states_.put(block, std::make_unique<State>(block.linear)); }
  void on_access(const Warp& warp, const Inst&, const Access&) override {
    states_[*warp.block].count += step_;
  }
  void on_block_end(const Block& block) override {
    const std::unique_ptr<State> state = states_.take(block);
    std::lock_guard lock(mutex_);
    EXPECT_EQ(state->block, block.linear);
    counts_.insert(state->count);
    ++blocks_;
  }
  std::set<int> counts_;
  int blocks_ = 0;

 private:
  struct State {
    explicit State(uint64_t b) : block(b) {}
    uint64_t block;
    int count = 0;
  };
  int step_;
  std::mutex mutex_;
  BlockStates<State> states_{*this};
};

TEST(Listeners, KeepStatesOfTheirOwn) {
  Machine m(kHeardKernel, {.threads = 4, .watch = true});
  Counter first(1), second(100);
  m.device().listen(&first);
  m.device().listen(&second);
  const Address x = m.array(std::vector<uint32_t>(64), "x");
  m.launch("k", {64}, {32}, {x});
  EXPECT_EQ(first.blocks_, 64);
  EXPECT_EQ(first.counts_, std::set<int>{2});
  EXPECT_EQ(second.counts_, std::set<int>{200});
}

TEST(Listeners, ASlotIsFreeAgainAfterIgnore) {
  Machine m(kHeardKernel, {.watch = true});
  std::vector<std::unique_ptr<Counter>> counters;
  for (uint32_t i = 0; i < kMostListeners; ++i) {
    counters.push_back(std::make_unique<Counter>(1));
    m.device().listen(counters.back().get());
  }
  Counter late(7);
  EXPECT_THROW(m.device().listen(&late), std::length_error);
  m.device().ignore(counters[3].get());
  m.device().listen(&late);
  EXPECT_EQ(late.slot(), counters[3]->slot());
  m.launch("k", {4}, {32}, {m.array(std::vector<uint32_t>(64), "x")});
  EXPECT_EQ(late.counts_, std::set<int>{14});
  EXPECT_EQ(counters[3]->blocks_, 0);
}

}  // namespace
}  // namespace assay::vgpu
