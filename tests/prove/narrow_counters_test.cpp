// Loops whose position is a counter of fewer bits than the tensor has elements: what is still known of it, and the shape at which
// it wraps for the first time.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// y[i] = 0 for i from the thread's index on, in steps of the grid. %rd10 = n; %r9 = i; %rd15 = i, extended. `next` makes the
// next of both.
KernelText narrow_stride(const std::string& next, const std::string& first = "cvt.u64.u32 %rd15, %r9;") {
  KernelText text;
  text.dims = "n = { min = 1, max = 4831838208, type = \"i64\" }";
  text.grid = "1056";
  text.parameters = {"x", "y", "== n"};
  text.body = fmt::format(R"(
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd10, [p2];
    mov.u32 %r1, %ntid.x; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %tid.x; mad.lo.s32 %r9, %r6, %r1, %r7;
    {} setp.ge.s64 %p1, %rd15, %rd10; @%p1 bra END;
    mov.u32 %r8, %nctaid.x; mul.lo.s32 %r3, %r8, %r1;
    LOOP:
    shl.b64 %rd11, %rd15, 2; add.s64 %rd14, %rd2, %rd11; st.global.f32 [%rd14], 0f00000000;
    {} setp.lt.s64 %p2, %rd15, %rd10; @%p2 bra LOOP;
    END:)",
                          first, next);
  return text;
}

constexpr const char* kUnsigned = "add.s32 %r9, %r9, %r3; cvt.u64.u32 %rd15, %r9;";

TEST(NarrowCounters, an_extended_counter_follows_the_count) {
  EXPECT_EQ(ProvedKernel(narrow_stride(kUnsigned)).bounds(), Status::Proved);
}

TEST(NarrowCounters, the_extension_must_be_the_same_all_along) {
  // As another type than at the beginning: below 0 it is an index that the test lets through.
  EXPECT_EQ(ProvedKernel(narrow_stride("add.s32 %r9, %r9, %r3; cvt.s64.s32 %rd15, %r9;")).bounds(),
            Status::Unknown);
}

TEST(NarrowCounters, the_first_wrap_is_where_the_type_ends) {
  ProvedKernel k(narrow_stride(kUnsigned));
  const Obligation overflow = k.prove(prove_overflow, true);
  ASSERT_FALSE(overflow.open.empty());
  const auto& candidate = overflow.open.front().candidate;
  ASSERT_TRUE(candidate);
  EXPECT_GT(candidate->shape.at("n"), (int64_t{1} << 32) - 1056 * 256);  // before that the loop ends
  ASSERT_TRUE(candidate->control);
  EXPECT_LE(candidate->control->at("n"), 40);
}

TEST(NarrowCounters, none_wraps_where_there_are_few_elements) {
  KernelText small = narrow_stride(kUnsigned);
  small.dims = "n = { min = 1, max = 4294000000, type = \"i64\" }";
  EXPECT_EQ(ProvedKernel(small).overflow(), Status::Proved);
}

// With several dims the number of elements is a product, and so is what is compared: of unknown dims no model is found in
// time, of a shape at which tensors end beyond 32 bits one is at once.
TEST(NarrowCounters, a_shape_is_found_where_the_number_of_elements_is_a_product) {
  KernelText text = narrow_stride(kUnsigned);
  text.dims = "b = { min = 1, max = 1048576 }\nr = { min = 1, max = 16384 }\nc = { min = 1, max = 16384 }";
  text.x = text.y = "dtype = \"f32\"\nshape = [\"b\", \"r\", \"c\"]";
  text.left = "y[i, j, k]";
  text.parameters = {"x", "y", "== b * r * c"};
  ProvedKernel k(text);
  const Obligation overflow = k.prove(prove_overflow, true);
  ASSERT_FALSE(overflow.open.empty());
  const auto& candidate = overflow.open.front().candidate;
  ASSERT_TRUE(candidate);
  double elements = 1;
  for (const auto& [name, size] : candidate->shape) elements *= static_cast<double>(size);
  EXPECT_GT(elements, 0x1p32 - 1056 * 256);
  EXPECT_LT(elements, 0x1p33);  // a sample of its blocks can be run
  EXPECT_TRUE(candidate->control);
}

// Rows that are counted in 16 bits: `next` makes the next of %r13, the row.
KernelText rows(const std::string& next, int most) {
  KernelText text;
  text.dims = fmt::format("n = {{ min = 1, max = {} }}", most);
  text.grid = "264";
  text.block = "1";
  text.body = fmt::format(R"(
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2];
    mov.u32 %r3, %nctaid.x; mov.u32 %r11, %ctaid.x; and.b32 %r13, %r11, 65535;
    setp.ge.s32 %p1, %r13, %r1; @%p1 bra END;
    LOOP:
    mul.wide.u32 %rd9, %r13, 4; add.s64 %rd10, %rd2, %rd9; st.global.f32 [%rd10], 0f00000000;
    {} setp.lt.s32 %p4, %r13, %r1; @%p4 bra LOOP;
    END:)",
                          next);
  return text;
}

TEST(NarrowCounters, a_mask_of_16_bits_is_a_type) {
  const std::string next = "add.s32 %r12, %r13, %r3; and.b32 %r13, %r12, 65535;";
  EXPECT_EQ(ProvedKernel(rows(next, 100000)).bounds(), Status::Proved);
  ProvedKernel wraps(rows(next, 100000));
  const Obligation overflow = wraps.prove(prove_overflow, true);
  ASSERT_FALSE(overflow.open.empty());
  ASSERT_TRUE(overflow.open.front().candidate);
  EXPECT_GT(overflow.open.front().candidate->shape.at("n"), 65536 - 264);
}

TEST(NarrowCounters, not_if_it_began_beyond_the_mask) {
  KernelText text = rows("add.s32 %r12, %r13, %r3; and.b32 %r13, %r12, 65535;", 100000);
  const std::string mask = "and.b32 %r13, %r11, 65535;";
  text.body.replace(text.body.find(mask), mask.size(), "add.s32 %r13, %r11, 65536;");
  text.body.replace(text.body.find("setp.ge.s32 %p1, %r13, %r1; @%p1 bra END;"), 41, "");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
