// Undefined bits, followed through instructions: what an instruction makes of them shows when the result is
// stored to memory that outlives the block.
#include <fmt/format.h>

#include "machine.h"

namespace assay::vgpu {
namespace {

class HeardStores : public Listener {
 public:
  void on_violation(const Warp&, const Inst&, const ViolationInfo& info) override {
    if (info.what == Violation::UndefinedStore) undefined |= info.lanes;
  }
  uint32_t undefined = 0;
};

struct Flow {
  const char* text;  // %u is undefined, %h in its lower half, %v is 5; the result goes to %d
  bool undefined;
};

constexpr Flow kFlows[] = {
    {"mov.b32 %d, %u;", true},
    {"mov.b32 %d, %v;", false},
    // Logic knows which bits matter.
    {"and.b32 %d, %u, 0;", false},
    {"and.b32 %d, %u, 1;", true},
    {"or.b32 %d, %u, -1;", false},
    {"or.b32 %d, %u, 0;", true},
    {"xor.b32 %d, %u, %v;", true},
    {"and.b32 %d, %h, 0xffff0000;", false},
    {"not.b32 %d, %h; and.b32 %d, %d, 0xffff0000;", false},
    {"lop3.b32 %d, %u, %v, 0, 0xcc;", false},
    {"lop3.b32 %d, %u, %v, 0, 0xf0;", true},
    // Shifts, fields and permutes move them.
    {"shr.u32 %d, %h, 16;", false},
    {"shr.u32 %d, %h, 15;", true},
    {"shl.b32 %d, %h, 16; and.b32 %d, %d, 0xffff;", false},
    {"shr.s32 %d, %u, 31;", true},
    {"shl.b32 %d, %v, %u;", true},
    {"shf.l.wrap.b32 %d, %u, %v, 0;", false},
    {"shf.l.wrap.b32 %d, %u, %v, 1;", true},
    {"bfe.u32 %d, %h, 16, 8;", false},
    {"bfe.u32 %d, %h, 15, 8;", true},
    {"bfi.b32 %d, %v, %h, 0, 16;", false},
    {"bfi.b32 %d, %v, %h, 0, 8;", true},
    {"prmt.b32 %d, %h, %v, 0x7632;", false},
    {"prmt.b32 %d, %h, %v, 0x7631;", true},
    {"brev.b32 %d, %h; and.b32 %d, %d, 0xffff;", false},
    // Parts of words.
    {".reg .b16 %x, %y; mov.b32 {%x, %y}, %h; cvt.u32.u16 %d, %y;", false},
    {".reg .b16 %x, %y; mov.b32 {%x, %y}, %h; cvt.u32.u16 %d, %x;", true},
    {".reg .b64 %x; mov.b64 %x, {%u, %v}; shr.u64 %x, %x, 32; cvt.u32.u64 %d, %x;", false},
    {".reg .b64 %x; cvt.s64.s32 %x, %u; shr.s64 %x, %x, 63; cvt.u32.u64 %d, %x;", true},
    {".reg .b64 %x; cvt.u64.u32 %x, %u; shr.u64 %x, %x, 32; cvt.u32.u64 %d, %x;", false},
    {"cvt.u32.u8 %d, %h; shr.u32 %d, %d, 8;", false},
    // A packed conversion: each half by itself.
    {"cvt.rn.f16x2.f32 %d, %u, %v; and.b32 %d, %d, 0xffff;", false},
    {"cvt.rn.f16x2.f32 %d, %u, %v; shr.u32 %d, %d, 16;", true},
    {"cvt.rn.bf16x2.f32 %d, %v, %u; shr.u32 %d, %d, 16;", false},
    {".reg .b16 %x; cvt.rn.satfinite.e4m3x2.f32 %x, %u, %v; cvt.u32.u16 %d, %x; and.b32 %d, %d, 0xff;",
     false},
    {".reg .b16 %x; cvt.rn.satfinite.e4m3x2.f32 %x, %u, %v; cvt.u32.u16 %d, %x; shr.u32 %d, %d, 8;", true},
    {".reg .b16 %x; cvt.rn.satfinite.e5m2x2.f32 %x, %u, %v; cvt.rn.f16x2.e5m2x2 %d, %x; and.b32 %d, %d, "
     "0xffff;",
     false},
    {".reg .b16 %x; cvt.rn.satfinite.e5m2x2.f32 %x, %u, %v; cvt.rn.f16x2.e5m2x2 %d, %x; shr.u32 %d, %d, 16;",
     true},
    // Selection takes one side; an undefined choice matters where the sides differ.
    {".reg .pred %x; setp.eq.u32 %x, %v, 5; selp.b32 %d, %v, %u, %x;", false},
    {".reg .pred %x; setp.eq.u32 %x, %v, 5; selp.b32 %d, %u, %v, %x;", true},
    {".reg .pred %x; setp.eq.u32 %x, %u, 5; selp.b32 %d, %v, 5, %x;", false},
    {".reg .pred %x; setp.eq.u32 %x, %u, 5; selp.b32 %d, %v, 6, %x;", true},
    {".reg .pred %x, %y; setp.eq.u32 %x, %u, 5; setp.eq.u32 %y, %v, 6; and.pred %x, %x, %y; selp.b32 %d, 1, "
     "2, %x;",
     false},
    {".reg .pred %x; setp.eq.u32 %x, %u, 5; mov.b32 %d, 1; @%x mov.b32 %d, 2;", true},
    // Arithmetic spreads them over the result; what is overwritten is defined again.
    {"add.u32 %d, %u, 1;", true},
    {"mul.lo.u32 %d, %u, 0;", true},
    {"fma.rn.f32 %d, %u, %v, %v;", true},
    {"cvt.rn.f32.s32 %d, %u;", true},
    {"add.cc.u32 %d, %u, 1; addc.u32 %d, 0, 0;", true},
    {"mov.b32 %d, %u; mov.b32 %d, 3;", false},
    {"add.u32 %d, %u, 1; add.u32 %d, %v, 1;", false},
};

TEST(Undefined, BitsAreFollowedThroughInstructions) {
  for (const Flow& flow : kFlows) {
    Options options;
    options.watch = true;
    testing::Machine m(fmt::format(R"(
.visible .entry k(.param .u64 out, .param .u64 in) {{
  .reg .b32 %u, %h, %v, %d, %t; .reg .b64 %at, %off;
  ld.param.u64 %at, [in]; mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, 4; add.u64 %at, %at, %off;
  ld.global.u32 %u, [%at];
  and.b32 %h, %u, 0xffff;
  mov.u32 %v, 5;
  {}
  ld.param.u64 %at, [out]; add.u64 %at, %at, %off;
  st.global.b32 [%at], %d;
  ret;
}})",
                                   flow.text),
                       options);
    HeardStores stores;
    m.device().listen(&stores);
    const Address out = m.array(std::vector<uint32_t>(32));
    const Result<Address> in = m.device().memory().allocate(128, 256, MemoryKind::Device, "in");
    ASSERT_TRUE(in);
    const LaunchOutcome outcome = m.launch("k", {1}, {32}, {out, *in});
    EXPECT_EQ(outcome.fault.message, "") << flow.text;
    EXPECT_EQ(stores.undefined, flow.undefined ? 0xffffffffu : 0u) << flow.text;
  }
}

}  // namespace
}  // namespace assay::vgpu
