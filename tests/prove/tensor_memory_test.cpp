// Tensors that are no plain arrays: rows with gaps between them, other orders of the axes, two elements in a byte, tensors
// that may be absent.
#include "prove/tensor_memory.h"

#include <algorithm>

#include "contract/layout.h"
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// Thread `tid.x` of block `ctaid.x` is at column tid.x of row ctaid.x, where %p1 lets it work. Parameters: x, y, the leading
// dimension, cols, rows. %rd4 is its element of x, %rd5 that of y.
KernelText row_kernel(const std::string& guard, const std::string& access, const std::string& layout) {
  KernelText text;
  text.dims =
      "rows = { min = 1, max = 65536 }\ncols = { min = 1, max = 256 }\nld = { min = 1, max = 8192 }\nrequire "
      "= "
      "\"cols <= ld\"";
  text.x = "dtype = \"f32\"\nshape = [\"rows\", \"cols\"]\n" + layout;
  text.y = text.x;
  text.left = "y[i, j]";
  text.grid = "rows";
  text.parameters = {"x", "y", "= ld", "= cols", "= rows"};
  text.body = R"(
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2]; ld.param.u32 %r6, [p3];
    ld.param.u32 %r7, [p4];
    mov.u32 %r3, %ctaid.x; mov.u32 %r5, %tid.x; mov.u32 %r8, %ntid.x;
    )" + guard +
              R"(
    @!%p1 bra END;
    mul.wide.s32 %rd3, %r3, %r1; cvt.s64.s32 %rd6, %r5; add.s64 %rd3, %rd3, %rd6; shl.b64 %rd3, %rd3, 2;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    )" + access +
              "\nEND:";
  return text;
}

constexpr const char* kRows = "strides = [\"ld\", 1]";
constexpr const char* kColumn = "setp.lt.s32 %p1, %r5, %r6;";
// All columns up to the leading dimension, of every row but the last.
constexpr const char* kBetween =
    "setp.lt.s32 %p1, %r5, %r1; add.s32 %r9, %r3, 1; setp.lt.and.s32 %p1, %r9, %r7, %p1;";
constexpr const char* kLoad = "ld.global.f32 %f1, [%rd4];";
constexpr const char* kStore = "st.global.f32 [%rd5], %f1;";

TEST(Strided, columns_below_the_extent_are_elements) {
  ProvedKernel k(row_kernel(kColumn, std::string(kLoad) + kStore, kRows));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.overflow(), Status::Proved);
  EXPECT_EQ(k.coverage().status, Status::Proved);
}

TEST(Strided, between_the_rows_may_be_read_and_not_written) {
  EXPECT_EQ(ProvedKernel(row_kernel(kBetween, kLoad, kRows)).bounds(), Status::Proved);
  ProvedKernel writes(row_kernel(kBetween, kStore, kRows));
  const Obligation bounds = writes.prove(prove_bounds, true);
  EXPECT_EQ(bounds.status, Status::Unknown);
  ASSERT_EQ(bounds.open.size(), 1u);
  EXPECT_NE(bounds.open.front().reason.find("between its elements"), std::string::npos)
      << bounds.open.front().reason;
  ASSERT_TRUE(bounds.open.front().candidate);
  const contract::Shape& shape = bounds.open.front().candidate->shape;
  EXPECT_GT(shape.at("ld"), shape.at("cols"));
}

TEST(Strided, behind_the_last_row_is_out_of_bounds) {
  EXPECT_EQ(ProvedKernel(row_kernel("setp.lt.s32 %p1, %r5, %r1;", kLoad, kRows)).bounds(), Status::Unknown);
}

TEST(Strided, a_vector_may_not_reach_past_its_row) {
  const std::string pair = "st.global.v2.f32 [%rd5], {%f1, %f1};";
  EXPECT_EQ(ProvedKernel(row_kernel(kColumn, pair, kRows)).bounds(), Status::Unknown);
  const std::string guard = "add.s32 %r9, %r5, 1; setp.lt.s32 %p1, %r9, %r6;";
  EXPECT_EQ(ProvedKernel(row_kernel(guard, pair, kRows)).bounds(), Status::Proved);
}

TEST(Strided, the_row_counts_as_well) {
  KernelText text = row_kernel(kColumn, kStore, kRows);
  text.grid = "rows + 1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

TEST(Strided, an_output_with_gaps_is_covered_only_by_all_of_its_columns) {
  const std::string one_short = "add.s32 %r9, %r5, 1; setp.lt.s32 %p1, %r9, %r6;";
  EXPECT_EQ(ProvedKernel(row_kernel(one_short, kStore, kRows)).coverage().status, Status::Unknown);
}

// x and y are every other column: what lies between is the caller's.
KernelText every_other(const std::string& shift, const std::string& store) {
  KernelText text = row_kernel(kColumn, "", "strides = [\"2 * cols\", 2]");
  text.dims = "rows = { min = 1, max = 65536 }\ncols = { min = 1, max = 256 }";
  text.parameters = {"x", "y", "= 2 * cols", "= cols", "= rows"};
  const size_t at = text.body.find("shl.b64 %rd3, %rd3, 2;");
  text.body.insert(at, "add.s64 %rd3, %rd3, %rd6;");  // the column once more
  text.body.insert(text.body.find("END:"), shift + store);
  return text;
}

// Without columns there are no elements, whatever lies between the rows.
TEST(Strided, a_tensor_that_may_have_no_elements) {
  const auto bounds = [](const char* least) {
    KernelText text = kernel("setp.lt.u32 %p1, %r1, 2; @%p1 bra END; ld.global.f32 %f1, [%rd1]; END:");
    text.dims = fmt::format("n = {{ min = 1, max = 1000 }}\nm = {{ min = {}, max = 1000 }}", least);
    text.x = "dtype = \"f32\"\nshape = [\"n\", \"m\"]\nstrides = [\"m + 1\", 1]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("1"), Status::Proved);
  EXPECT_EQ(bounds("0"), Status::Unknown);
}

TEST(Strided, every_other_column) {
  EXPECT_EQ(ProvedKernel(every_other("", kStore)).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(every_other("", kStore)).coverage().status, Status::Proved);
  EXPECT_EQ(ProvedKernel(every_other("add.s64 %rd5, %rd5, 4;", kStore)).bounds(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(every_other("", "st.global.v2.f32 [%rd5], {%f1, %f1};")).bounds(), Status::Unknown);
}

// Elements that lie a stride of s elements apart: a pair of numbers is one of them and what follows it.
TEST(Strided, a_vector_does_not_reach_the_next_of_elements_that_lie_apart) {
  const auto coverage = [](int step, const char* store) {
    KernelText text = kernel(fmt::format(R"(
      ld.param.u32 %r6, [p3]; mul.lo.s32 %r20, %r2, {}; setp.ge.s32 %p1, %r20, %r1; @%p1 bra END;
      mul.wide.s32 %rd3, %r20, %r6; shl.b64 %rd3, %rd3, 2; add.s64 %rd4, %rd2, %rd3; {}
      END:)",
                                         step, store));
    text.dims = "n = { min = 1, max = 100000 }\ns = { min = 1, max = 1000 }";
    text.y = "dtype = \"f32\"\nshape = [\"n\"]\nstrides = [\"s\"]";
    text.parameters = {"x", "y", "= n", "= s"};
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage(1, "st.global.f32 [%rd4], %f1;"), Status::Proved);
  EXPECT_EQ(coverage(2, "st.global.f32 [%rd4], %f1;"), Status::Unknown);
  EXPECT_EQ(coverage(2, "st.global.v2.f32 [%rd4], {%f1, %f1};"), Status::Unknown);
}

// Another order of the axes has no gaps: element [i, j] lies at i + j * rows.
TEST(Strided, a_transposed_matrix_is_a_plain_array) {
  const auto text = [](const std::string& strides, const std::string& columns) {
    KernelText text = row_kernel(kColumn, std::string(kLoad) + kStore, strides);
    text.dims = "rows = { min = 1, max = 65536 }\ncols = { min = 1, max = 256 }";
    // Row ctaid.x of the memory is column ctaid.x of the tensor.
    text.grid = "cols";
    text.parameters = {"x", "y", "= rows", columns, "= cols"};
    text.block = "1024";
    text.dims = "rows = { min = 1, max = 1024 }\ncols = { min = 1, max = 256 }";
    return text;
  };
  ProvedKernel right(text("strides = [1, \"rows\"]", "= rows"));
  EXPECT_EQ(right.bounds(), Status::Proved);
  EXPECT_EQ(right.coverage().status, Status::Proved);
  ProvedKernel wrong(text("strides = [1, \"rows\"]", "= rows + 1"));
  EXPECT_EQ(wrong.bounds(), Status::Unknown);
}

// What is between the elements is not bounded by what the contract says of elements.
TEST(Strided, an_index_that_may_lie_between_elements_is_anything) {
  const auto bounds = [](const std::string& strides) {
    KernelText text = row_kernel(kColumn, R"(
      ld.global.u32 %r10, [%rd7]; mul.wide.u32 %rd8, %r10, 4; add.s64 %rd8, %rd1, %rd8; ld.global.f32 %f1, [%rd8];)",
                                 "");
    text.more_tensors =
        "[tensors.index]\ndtype = \"u32\"\nshape = [\"rows\", \"cols\"]\nvalues = \"index(rows)\"\n" +
        strides;
    text.x = "dtype = \"f32\"\nshape = [\"rows\"]";
    text.parameters.push_back("index");
    text.body.insert(text.body.find("add.s64 %rd4"), "ld.param.u64 %rd7, [p5]; add.s64 %rd7, %rd7, %rd3;");
    if (strides.empty()) text.parameters[2] = "= cols";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(""), Status::Proved);
  EXPECT_EQ(bounds("strides = [\"ld\", 1]"), Status::Unknown);
}

// Against the layout that trials use, byte by byte: what is said to lie within elements does, and of whole elements it is
// said. Extents and strides are numbers here, so the formulas are true or false.
TEST(Strided, within_elements_is_what_a_layout_says) {
  const auto holds = [](const Formula& formula) {
    EXPECT_EQ(formula.kind, Formula::Kind::AtLeastZero);
    EXPECT_LE(formula.poly.size(), 1u);
    return formula.poly.empty() || formula.poly.begin()->second >= 0;
  };
  int inside = 0, outside = 0;
  for (const auto& [extents, strides] :
       {std::pair{"[3, 4]", "[10, 1]"}, std::pair{"[3, 4]", "[10, 2]"}, std::pair{"[4, 3]", "[1, 7]"},
        std::pair{"[2, 3, 2]", "[20, 5, 2]"}, std::pair{"[5]", "[3]"}, std::pair{"[2, 1, 3]", "[9, 4, 1]"},
        std::pair{"[3, 4]", "[8, 2]"}, std::pair{"[3, 4]", "[13, 3]"},
        std::pair{"[2, 3, 2]", "[12, 4, 2]"}}) {
    KernelText text = kernel("");
    text.y = fmt::format("dtype = \"f32\"\nshape = {}\nstrides = {}", extents, strides);
    text.left = std::string(extents).size() > 8   ? "y[i, j, k]"
                : std::string(extents).size() > 3 ? "y[i, j]"
                                                  : "y[i]";
    ProvedKernel k(text);
    const contract::TensorSpec& y = *k.contract().tensor("y");
    const TensorMemory memory = memory_of(k.terms(), k.dims(), y);
    const contract::Layout layout = *y.layout({{"n", 1}});
    ASSERT_TRUE(memory.gaps) << strides;
    ASSERT_EQ(k.terms().value(memory.bytes), static_cast<Bits>(layout.bytes)) << strides;
    Claims claims(k.terms(), k.summary(), k.solver());
    Lowering lowering(k.terms(), k.summary(), &claims, k.solver());
    const bool joins = std::string(strides) == "[8, 2]" || std::string(strides) == "[12, 4, 2]";
    EXPECT_EQ(memory.joined.size() < memory.axes.size(), joins) << strides;
    for (const auto* axes : {&memory.axes, &memory.joined})
      for (int64_t at = -8; at < layout.bytes + 8; ++at)
        for (const int64_t bytes : {1, 4, 8, 16}) {
          const auto needed = within_elements(lowering, memory, *axes, constant_poly(at), bytes);
          ASSERT_TRUE(needed);
          const bool said = std::all_of(needed->begin(), needed->end(), holds);
          bool all = true;
          for (int64_t byte = at; byte < at + bytes; ++byte) all &= layout.element_at(byte).has_value();
          EXPECT_TRUE(all || !said) << strides << ": " << bytes << " bytes at " << at;
          if (bytes == 4 && at % 4 == 0) {
            EXPECT_EQ(said, all) << strides << ": " << at;
            ++(all ? inside : outside);
          }
        }
  }
  EXPECT_GT(inside, 50);
  EXPECT_GT(outside, 50);
}

// ---- two elements in a byte

KernelText bytes_kernel(const std::string& shape, const std::string& left, const std::string& limit) {
  KernelText text = kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    cvt.s64.s32 %rd3, %r2; add.s64 %rd4, %rd2, %rd3; st.global.u8 [%rd4], 0;
    END:)");
  text.y = "dtype = \"u4\"\nshape = " + shape;
  text.left = left;
  text.parameters = {"x", "y", "= " + limit};
  text.grid = "n";
  return text;
}

TEST(Packed, the_last_byte_may_be_half_used) {
  const auto with = [](const char* limit) { return bytes_kernel("[\"n\"]", "y[i]", limit); };
  ProvedKernel all(with("ceil_div(n, 2)"));
  EXPECT_EQ(all.bounds(), Status::Proved);
  EXPECT_EQ(all.coverage().status, Status::Proved);
  ProvedKernel half_missing(with("n / 2"));
  EXPECT_EQ(half_missing.bounds(), Status::Proved);
  EXPECT_EQ(half_missing.coverage().status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(with("n / 2 + 1")).bounds(), Status::Unknown);
}

TEST(Packed, rows_of_an_even_number_are_rows_of_bytes) {
  const auto with = [](const char* limit) {
    KernelText text = bytes_kernel("[\"m\", \"2 * n\"]", "y[i, j]", limit);
    text.dims = "m = { min = 1, max = 1000 }\nn = { min = 1, max = 1000 }";
    text.grid = "ceil_div(m * n, 256)";
    return text;
  };
  ProvedKernel all(with("m * n"));
  EXPECT_EQ(all.bounds(), Status::Proved);
  EXPECT_EQ(all.coverage().status, Status::Proved);
  EXPECT_EQ(ProvedKernel(with("2 * m * n")).bounds(), Status::Unknown);
}

// ---- tensors that may be absent

constexpr const char* kIfGiven = R"(
  setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
  setp.eq.s64 %p2, %rd1, 0; @%p2 bra END;
  mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
  add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5], %f1;
  END:)";

TEST(Optional, a_null_pointer_that_is_asked_for_is_not_read) {
  KernelText text = kernel(kIfGiven);
  text.parameters = {"== 0", "y", "= n"};
  ProvedKernel absent(text);
  EXPECT_EQ(absent.bounds(), Status::Proved);
  EXPECT_EQ(absent.coverage().status, Status::Unknown);  // it writes nothing then
  ProvedKernel given(kernel(kIfGiven));
  EXPECT_EQ(given.bounds(), Status::Proved);
  EXPECT_EQ(given.coverage().status, Status::Proved);  // a tensor with elements is somewhere
}

TEST(Optional, a_null_pointer_that_is_read_is_out_of_bounds) {
  std::string body = kIfGiven;
  body.erase(body.find("setp.eq.s64"), body.find("mul.wide") - body.find("setp.eq.s64"));
  KernelText text = kernel(body);
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.parameters = {"== 0", "y", "= n"};
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

TEST(Optional, an_empty_tensor_may_be_a_null_pointer) {
  KernelText text = kernel(R"(
    setp.eq.s64 %p2, %rd1, 0; @%p2 bra NULL; bra END;
    NULL: mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], %f1;
    END:)");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);  // never reached
  text.dims = "n = { min = 0, max = 1000 }";
  text.grid = "n + 1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
