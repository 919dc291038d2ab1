#include "doctor/canary.h"

namespace assay::doctor {

// canary_value() in PTX: integer hashing, shared memory and a barrier, f32 and f64 arithmetic.
const char* const kCanaryPtx = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry assay_canary(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<12>;
  .reg .f32 %f<8>;
  .reg .f64 %d<8>;
  .shared .align 4 .b8 values[1024];

  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mad.lo.u32 %r5, %r4, -1640531535, 12345;
  shr.u32 %r6, %r5, 16;
  xor.b32 %r7, %r5, %r6;
  mul.lo.u32 %r8, %r7, -2048144789;
  shr.u32 %r9, %r8, 13;
  xor.b32 %r10, %r8, %r9;
  shl.b32 %r11, %r3, 2;
  mov.u32 %r12, values;
  add.u32 %r13, %r12, %r11;
  st.shared.u32 [%r13], %r10;
  bar.sync 0;
  xor.b32 %r14, %r3, 129;
  shl.b32 %r15, %r14, 2;
  add.u32 %r16, %r12, %r15;
  ld.shared.u32 %r17, [%r16];
  shr.u32 %r18, %r10, 9;
  or.b32 %r19, %r18, 1065353216;
  mov.b32 %f1, %r19;
  neg.f32 %f2, %f1;
  fma.rn.f32 %f3, %f1, %f1, %f2;
  add.rn.f32 %f4, %f3, 0f3F800000;
  sqrt.rn.f32 %f5, %f4;
  div.rn.f32 %f6, %f5, %f1;
  cvt.f64.f32 %d1, %f6;
  cvt.f64.f32 %d2, %f1;
  fma.rn.f64 %d3, %d1, %d1, %d2;
  sqrt.rn.f64 %d4, %d3;
  mov.b64 %rd3, %d4;
  cvt.u64.u32 %rd4, %r17;
  shl.b64 %rd5, %rd4, 17;
  xor.b64 %rd6, %rd3, %rd5;
  mul.wide.u32 %rd7, %r4, 8;
  add.u64 %rd8, %rd2, %rd7;
  st.global.u64 [%rd8], %rd6;
  ret;
}
)";

}  // namespace assay::doctor
