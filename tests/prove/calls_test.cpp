// Functions that were not inlined: one that only computes is an instruction with an unknown result, any other keeps the kernel
// from being proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// y[i] = f(x[i]), where f has this body; %x1 is its argument, %x2 its result, and %pointer x.
KernelText calling(const std::string& body, const std::string& index = "%r2") {
  KernelText text = kernel(fmt::format(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    {{
      .param .b32 param0; .param .b64 param1; .param .b32 retval0;
      st.param.f32 [param0], %f1; st.param.b64 [param1], %rd1;
      call.uni (retval0), f, (param0, param1);
      ld.param.b32 %r10, [retval0];
    }}
    mul.wide.s32 %rd5, {}, 4; add.s64 %rd6, %rd2, %rd5; st.global.b32 [%rd6], %r10;
    END:)",
                                       index));
  text.shared = fmt::format(R"(
    .func (.param .b32 result) g(.param .b32 argument) {{
      .reg .f32 %x<4>;
      ld.param.f32 %x1, [argument]; mul.f32 %x2, %x1, %x1; st.param.f32 [result], %x2; ret;
    }}
    .func (.param .b32 result) f(.param .b32 argument, .param .b64 address) {{
      .reg .f32 %x<4>; .reg .pred %q<3>; .reg .b64 %pointer; .reg .b32 %number<3>;
      ld.param.f32 %x1, [argument]; ld.param.u64 %pointer, [address];
      {}
      st.param.f32 [result], %x2; ret;
    }})",
                            body);
  return text;
}

constexpr const char* kComputes = R"(
  setp.lt.f32 %q1, %x1, 0f00000000; @%q1 bra NEGATIVE;
  sqrt.rn.f32 %x2, %x1; bra DONE;
  NEGATIVE: neg.f32 %x2, %x1;
  DONE:)";

TEST(Calls, a_function_that_only_computes_is_an_unknown_result) {
  ProvedKernel k(calling(kComputes));
  ASSERT_TRUE(k.executed());
  EXPECT_TRUE(k.summary().gaps.empty());
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.overflow(), Status::Proved);
  EXPECT_EQ(k.alignment(), Status::Proved);
  EXPECT_EQ(k.legality(), Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
  EXPECT_EQ(k.prove(prove_races).status, Status::Proved);
  EXPECT_EQ(k.coverage().status, Status::Proved);
}

TEST(Calls, its_result_may_be_anything) {
  EXPECT_EQ(ProvedKernel(calling(kComputes, "%r10")).bounds(), Status::Unknown);
}

TEST(Calls, a_function_may_call_another_that_only_computes) {
  const std::string inner = R"({
    .param .b32 given; .param .b32 got;
    st.param.f32 [given], %x1; call.uni (got), g, (given); ld.param.f32 %x2, [got];
  })";
  EXPECT_TRUE(ProvedKernel(calling(inner)).executed());
}

TEST(Calls, everything_else_is_not_modelled) {
  for (const char* body : {"st.global.f32 [%pointer], %x1; mov.f32 %x2, %x1;",  // memory
                           "ld.global.f32 %x2, [%pointer];",                    //
                           "atom.global.add.f32 %x2, [%pointer], %x1;",         //
                           "bar.sync 0; mov.f32 %x2, %x1;",                     // other threads
                           "bar.warp.sync -1; mov.f32 %x2, %x1;",               //
                           "activemask.b32 %number1; mov.f32 %x2, %x1;",        //
                           "exit; mov.f32 %x2, %x1;",                           // an end
                           "mov.f32 %x2, %x1; AGAIN: setp.lt.f32 %q1, %x2, %x1; @%q1 bra AGAIN;",    // a loop
                           "{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.f32 [a], %x1; "  // itself
                           "st.param.b64 [b], %pointer; call.uni (c), f, (a, b); ld.param.f32 %x2, [c]; }"}) {
    EXPECT_FALSE(ProvedKernel(calling(body)).executed()) << body;
  }
}

// A kernel that calls one may stop the grid or wait for ever in it, and what another launch has not written yet is never written.
TEST(Calls, everything_else_may_never_return) {
  ProvedKernel writes(calling(kComputes)), other(calling("trap; mov.f32 %x2, %x1;"));
  ASSERT_FALSE(other.executed());
  EXPECT_EQ(writes.coverage_with({&other}).status, Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
