// Races by kinds of memory: loads through the read-only cache, fragments of wmma, tensors that may share memory; and how
// fragments are aligned. For each rule a kernel that it proves, and a kernel next to it that must not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

Status races_of(const KernelText& text) {
  return ProvedKernel(text).prove(prove_races).status;
}

KernelText one_block(const std::string& body) {
  KernelText text;
  text.body = kStart + body;
  text.grid = "1";
  return text;
}

// %rd4 = the address of y[tid], %rd5 = that of the element that the thread next to it has.
constexpr const char* kNeighbours = R"(
  mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;
  xor.b32 %r6, %r5, 1; mul.wide.s32 %rd6, %r6, 4; add.s64 %rd5, %rd2, %rd6;
)";

// ---- ld.global.nc

TEST(RaceMemory, a_cached_load_may_miss_what_its_own_thread_wrote) {
  const std::string store = std::string(kNeighbours) + "st.global.f32 [%rd4], 0f00000000;";
  EXPECT_EQ(races_of(one_block(store + "ld.global.f32 %f1, [%rd4];")), Status::Proved);
  EXPECT_EQ(races_of(one_block(store + "ld.global.nc.f32 %f1, [%rd4];")), Status::Unknown);
}

TEST(RaceMemory, a_cached_load_before_the_write_is_fine) {
  EXPECT_EQ(races_of(one_block(std::string(kNeighbours) +
                               "ld.global.nc.f32 %f1, [%rd4]; st.global.f32 [%rd4], 0f00000000;")),
            Status::Proved);
}

TEST(RaceMemory, a_cached_load_in_the_next_iteration_comes_after_the_write) {
  const std::string loop = R"(
    mov.u32 %r10, 0;
    LOOP:
    ld.global.{}f32 %f1, [%rd4]; st.global.f32 [%rd4], 0f00000000;
    add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, 4; @%p1 bra LOOP;)";
  EXPECT_EQ(races_of(one_block(kNeighbours + fmt::format(fmt::runtime(loop), ""))), Status::Proved);
  EXPECT_EQ(races_of(one_block(kNeighbours + fmt::format(fmt::runtime(loop), "nc."))), Status::Unknown);
}

TEST(RaceMemory, a_barrier_does_not_help_a_cached_load) {
  const std::string store = std::string(kNeighbours) + "st.global.f32 [%rd4], 0f00000000; bar.sync 0;";
  EXPECT_EQ(races_of(one_block(store + "ld.global.f32 %f1, [%rd5];")), Status::Proved);
  EXPECT_EQ(races_of(one_block(store + "ld.global.nc.f32 %f1, [%rd5];")), Status::Unknown);
}

TEST(RaceMemory, cached_loads_of_what_nobody_writes) {
  EXPECT_EQ(races_of(one_block(
                std::string(kNeighbours) +
                "add.s64 %rd7, %rd1, %rd6; ld.global.nc.f32 %f1, [%rd7]; st.global.f32 [%rd4], %f1;")),
            Status::Proved);
}

// ---- fragments

// Each warp stores a tile of 16 by 16 numbers to y, `apart` numbers from that of the warp before it.
KernelText tiles(int apart, const std::string& after = "", int offset = 0, int stride = 16) {
  KernelText text;
  text.dims = "n = { min = 65536, max = 100000 }";
  text.grid = "1";
  text.block = "64";
  text.body = kStart + fmt::format(R"(
    shr.u32 %r6, %r5, 5; mul.lo.s32 %r7, %r6, {}; add.s32 %r7, %r7, {};
    mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd2, %rd3;
    mul.wide.s32 %rd6, %r5, 4; add.s64 %rd5, %rd2, %rd6;
    mov.u32 %r8, {};
    wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd4], {{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}}, %r8;
    {})",
                                   apart, offset, stride, after);
  return text;
}

TEST(RaceMemory, the_lanes_of_a_warp_store_a_fragment_together) {
  EXPECT_EQ(races_of(tiles(256)), Status::Proved);
}

TEST(RaceMemory, warps_that_store_overlapping_fragments_race) {
  EXPECT_EQ(races_of(tiles(0)), Status::Unknown);
  EXPECT_EQ(races_of(tiles(240)), Status::Unknown);
}

TEST(RaceMemory, rows_of_a_fragment_lie_a_stride_apart) {
  EXPECT_EQ(races_of(tiles(256, "", 0, 32)), Status::Unknown);
  EXPECT_EQ(races_of(tiles(16, "", 0, 32)), Status::Proved);
}

TEST(RaceMemory, a_fragment_is_there_after_a_barrier) {
  const std::string load = "ld.global.f32 %f9, [%rd5];";
  EXPECT_EQ(races_of(tiles(256, load)), Status::Unknown);
  EXPECT_EQ(races_of(tiles(256, "bar.sync 0;" + load)), Status::Proved);
}

TEST(RaceMemory, fragments_begin_at_multiples_of_32_bytes) {
  EXPECT_EQ(ProvedKernel(tiles(256)).alignment(), Status::Proved);
  EXPECT_EQ(ProvedKernel(tiles(256, "", 8)).alignment(), Status::Proved);
  EXPECT_EQ(ProvedKernel(tiles(256, "", 4)).alignment(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(tiles(260)).alignment(), Status::Unknown);
}

TEST(RaceMemory, rows_of_fragments_begin_at_multiples_of_16_bytes) {
  EXPECT_EQ(ProvedKernel(tiles(256, "", 0, 20)).alignment(), Status::Proved);
  EXPECT_EQ(ProvedKernel(tiles(256, "", 0, 18)).alignment(), Status::Unknown);
}

// ---- loaded values

// y[%r9 + thread], where it is an element. If %r9 were one number for all threads, no two would store to one element.
KernelText moved_by(const std::string& load) {
  KernelText text = kernel(load + R"(
    add.s32 %r10, %r2, %r9; setp.ge.u32 %p1, %r10, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
    END:)");
  text.shared = ".local .align 8 .b8 l[8]; .const .align 4 .b8 c[4]; .shared .align 4 .b8 s[4];";
  return text;
}

TEST(RaceMemory, what_is_read_at_one_place_of_what_nobody_writes_is_one_value) {
  EXPECT_EQ(races_of(moved_by("ld.global.u32 %r9, [%rd1];")), Status::Proved);
  EXPECT_EQ(races_of(moved_by("ld.const.u32 %r9, [c];")), Status::Proved);
}

// y[thread + a] and y[thread + b]: one element only if a = b.
TEST(RaceMemory, what_is_read_at_one_place_is_one_value_if_as_much_is_read) {
  const auto races = [](const char* type) {
    KernelText text = kernel(fmt::format(R"(
      ld.global.u32 %r9, [%rd1]; ld.global.{} %r8, [%rd1];
      add.s32 %r10, %r2, %r9; setp.ge.u32 %p1, %r10, %r1; @%p1 bra NEXT;
      mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
      NEXT: add.s32 %r11, %r2, %r8; setp.ge.u32 %p2, %r11, %r1; @%p2 bra END;
      mul.wide.s32 %rd5, %r11, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;
      END:)",
                                         type));
    return races_of(text);
  };
  EXPECT_EQ(races("u32"), Status::Proved);
  EXPECT_EQ(races("u8"), Status::Unknown);
  EXPECT_EQ(races("u16"), Status::Unknown);
}

// One address, but each thread has memory of its own there, or each block.
TEST(RaceMemory, what_is_read_of_local_or_shared_memory_is_not) {
  const std::string own = "neg.s32 %r8, %r2; mov.u64 %rd5, l; st.local.u32 [%rd5], %r8;";
  EXPECT_EQ(races_of(moved_by(own + "ld.local.u32 %r9, [%rd5];")), Status::Unknown);
  EXPECT_EQ(races_of(moved_by(own + "cvta.local.u64 %rd6, %rd5; ld.u32 %r9, [%rd6];")), Status::Unknown);
  EXPECT_EQ(races_of(moved_by("ld.shared.u32 %r9, [s];")), Status::Unknown);
}

// Each thread stores where the number says that it drew, and reads that back.
TEST(RaceMemory, a_cached_load_of_what_the_thread_stored_under_its_number) {
  const auto races_with = [](const char* load) {
    KernelText text = one_block(fmt::format(R"(
      atom.shared.add.u32 %r8, [c], 1; setp.ge.u32 %p2, %r8, %r1; @%p2 ret;
      mul.wide.u32 %rd13, %r8, 4; add.s64 %rd14, %rd2, %rd13; st.global.f32 [%rd14], 0f00000000;
      {}.f32 %f1, [%rd14];)",
                                            load));
    text.shared = ".shared .align 4 .b8 c[4];";
    return races_of(text);
  };
  EXPECT_EQ(races_with("ld.global"), Status::Proved);
  EXPECT_EQ(races_with("ld.global.nc"), Status::Unknown);
}

// ---- tensors that may share memory

// s[thread + a] and s[thread + b], with a and b read at one place of y before and after a store there.
TEST(RaceMemory, what_is_read_of_an_output_that_may_share_memory_with_an_input) {
  const auto races_with = [](const char* store) {
    KernelText text = one_block(fmt::format(R"(
      ld.global.u32 %r9, [%rd2]; bar.sync 0;
      setp.ne.u32 %p1, %r5, 0; @%p1 bra NEXT; {} NEXT: bar.sync 0;
      ld.global.u32 %r8, [%rd2]; mov.u64 %rd10, s;
      add.s32 %r10, %r5, %r9; mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd10, %rd3; st.shared.f32 [%rd4], 0f00000000;
      add.s32 %r11, %r5, %r8; mul.wide.s32 %rd5, %r11, 4; add.s64 %rd6, %rd10, %rd5; st.shared.f32 [%rd6], 0f00000000;)",
                                            store));
    text.shared = ".shared .align 4 .b8 s[4096];";
    text.y += "\nmay_alias = \"x\"";
    return races_of(text);
  };
  EXPECT_EQ(races_with(""), Status::Proved);
  EXPECT_EQ(races_with("st.global.u32 [%rd2], %r1;"), Status::Unknown);
}

TEST(RaceMemory, an_output_that_may_share_memory_with_an_input) {
  const std::string loads = "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd5, %rd1, %rd3;";
  const std::string own = loads + "ld.global.f32 %f1, [%rd5]; st.global.f32 [%rd4], %f1;";
  const std::string next = loads + "ld.global.f32 %f1, [%rd5+4]; st.global.f32 [%rd4], %f1;";
  EXPECT_EQ(races_of(one_block(own)), Status::Proved);
  EXPECT_EQ(races_of(one_block(next)), Status::Proved);
  for (const auto& [body, status] : {std::pair(own, Status::Proved), std::pair(next, Status::Unknown)}) {
    KernelText text = one_block(body);
    text.y += "\nmay_alias = \"x\"";
    EXPECT_EQ(races_of(text), status) << body;
  }
}

TEST(RaceMemory, a_cached_load_of_memory_that_an_output_may_share) {
  const std::string body =
      "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd5, %rd1, %rd3;"
      "st.global.f32 [%rd4], 0f00000000; ld.global.nc.f32 %f1, [%rd5];";
  EXPECT_EQ(races_of(one_block(body)), Status::Proved);
  KernelText text = one_block(body);
  text.y += "\nmay_alias = \"x\"";
  EXPECT_EQ(races_of(text), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
