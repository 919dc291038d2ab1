// Instructions and operands: modifiers, types, constants, addresses, vectors, calls.
#include <bit>

#include "support.h"

namespace assay::ptx {
namespace {

using Kind = Operand::Kind;

TEST(Instruction, ModifiersAndTypesInTheirOrder) {
  Instruction i = single("@!%p1 cvt.rni.ftz.sat.s32.f32 %r1, %f1;");
  EXPECT_EQ(i.opcode, Opcode::cvt);
  EXPECT_EQ(i.mods, (std::vector<Mod>{Mod::rni, Mod::ftz, Mod::sat}));
  EXPECT_EQ(i.types, (std::vector<Type>{Type::S32, Type::F32}));
  EXPECT_EQ(i.type(1), Type::F32);
  EXPECT_EQ(i.type(2), Type::None);
  EXPECT_TRUE(i.has(Mod::ftz));
  EXPECT_FALSE(i.has(Mod::rn));
  EXPECT_NE(i.guard, kNone);
  EXPECT_TRUE(i.guard_negated);
}

TEST(Instruction, LongestNameWins) {
  EXPECT_EQ(single("cp.async.wait_all;").opcode, Opcode::cp_async_wait_all);
  EXPECT_EQ(single("cp.async.ca.shared.global [%r1], [%d1], 4;").opcode, Opcode::cp_async);
  EXPECT_EQ(single("bar.warp.sync -1;").opcode, Opcode::bar_warp_sync);
  EXPECT_EQ(single("tcgen05.wait::ld.sync.aligned;").opcode, Opcode::tcgen05_wait_ld);
  EXPECT_EQ(single("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                   "{%f1},{%r1},{%r2},{%f2},%r3,0;")
                .opcode,
            Opcode::mma_sp_ordered_metadata);
  Instruction cta = single("barrier.cta.red.popc.aligned.u32 %r1, 1, !%p1;");
  EXPECT_EQ(cta.opcode, Opcode::barrier_red);
  EXPECT_EQ(cta.mods, (std::vector<Mod>{Mod::cta, Mod::popc, Mod::aligned}));
}

TEST(Instruction, ModifiersMayStandWithinTheName) {
  Instruction ballot = single("vote.ballot.sync.b32 %r1, %p1, -1;");
  EXPECT_EQ(ballot.opcode, Opcode::vote_sync);
  EXPECT_EQ(ballot.mods, std::vector<Mod>{Mod::ballot});
  EXPECT_EQ(single("shfl.up.sync.b32 %r1, %r2, 1, 0, -1;").opcode, Opcode::shfl_sync);
  EXPECT_EQ(single("redux.add.sync.u32 %r1, %r2, -1;").opcode, Opcode::redux_sync);
  EXPECT_EQ(single("match.sync.any.b32 %r1, %r2, -1;").opcode, Opcode::match_any);
}

TEST(Instruction, SpacesInsideANameAreAllowed) {
  EXPECT_EQ(single("ld .global\n.u32 %r1, [%d1];").types, std::vector<Type>{Type::U32});
}

struct ConstantCase {
  const char* text;
  uint64_t bits;
  bool is_float = false, is_f32 = false;
};

class Constants : public testing::TestWithParam<ConstantCase> {};

TEST_P(Constants, Evaluate) {
  const ConstantCase& c = GetParam();
  Operand operand = single(std::string("mov.b64 %d1, ") + c.text + ";").operands.at(1);
  EXPECT_EQ(operand.kind, Kind::Immediate) << c.text;
  EXPECT_EQ(operand.bits, c.bits) << c.text;
  EXPECT_EQ(operand.is_float, c.is_float) << c.text;
  EXPECT_EQ(operand.is_f32_bits, c.is_f32) << c.text;
}

INSTANTIATE_TEST_SUITE_P(
    Ptx, Constants,
    testing::Values(
        ConstantCase{"42", 42}, ConstantCase{"-1", ~0ull}, ConstantCase{"0x1fU", 31},
        ConstantCase{"0b101", 5}, ConstantCase{"017", 15}, ConstantCase{"0", 0},
        ConstantCase{"0xffffffffffffffff", ~0ull}, ConstantCase{"18446744073709551615", ~0ull},
        ConstantCase{"WARP_SZ", 32}, ConstantCase{"-WARP_SZ", static_cast<uint64_t>(-32)},
        ConstantCase{"-1 + 3", 2}, ConstantCase{"!1 + 3", 3}, ConstantCase{"WARP_SZ - 1", 31},
        ConstantCase{"1 + 2 * 3", 7}, ConstantCase{"(1 + 2) * 3", 9}, ConstantCase{"7 - 2 - 1", 4},
        ConstantCase{"1 << 4 | 1", 17}, ConstantCase{"-8 >> 1", static_cast<uint64_t>(-4)},
        ConstantCase{"0x8000000000000000 >> 63", 1}, ConstantCase{"1 << 64", 0},
        ConstantCase{"-1 >> 99", ~0ull}, ConstantCase{"-7 / 2", static_cast<uint64_t>(-3)},
        ConstantCase{"-7 % 3", static_cast<uint64_t>(-1)}, ConstantCase{"0x8000000000000000 / (0 - 1)", 0},
        ConstantCase{"(.s64)0x8000000000000000 / -1", 1ull << 63}, ConstantCase{"~0", ~0ull},
        ConstantCase{"!3", 0}, ConstantCase{"!0", 1}, ConstantCase{"2 > 1 && 0 || 1", 1},
        ConstantCase{"1 < 0U - 1", 1}, ConstantCase{"-1 < 0U", 0}, ConstantCase{"1 ? 2 : 3", 2},
        ConstantCase{"0 ? 2 : 0 ? 3 : 4", 4}, ConstantCase{"5 & 6 ^ 1", 5}, ConstantCase{"3 == 3 != 0", 1},
        ConstantCase{"(.s64)2.75", 2}, ConstantCase{"1.5", std::bit_cast<uint64_t>(1.5), true},
        ConstantCase{"-1.5e3", std::bit_cast<uint64_t>(-1500.0), true},
        ConstantCase{"1e-2", std::bit_cast<uint64_t>(0.01), true},
        ConstantCase{".5", std::bit_cast<uint64_t>(0.5), true},
        ConstantCase{"1.", std::bit_cast<uint64_t>(1.0), true},
        ConstantCase{"1.5 * 2", std::bit_cast<uint64_t>(3.0), true}, ConstantCase{"1.5 < 2", 1},
        ConstantCase{"0d3FF8000000000000", std::bit_cast<uint64_t>(1.5), true},
        ConstantCase{"0f3F800000", 0x3f800000, true, true},
        ConstantCase{"-0f3F800000", 0xbf800000, true, true},
        ConstantCase{"0F7fc00000", 0x7fc00000, true, true}));

TEST(Operands, Addresses) {
  Operand a = single("ld.global.u32 %r1, [%d1+-16];").operands[1];
  EXPECT_EQ(a.kind, Kind::Address);
  EXPECT_EQ(a.base, Operand::Base::Register);
  EXPECT_EQ(a.offset, -16);
  EXPECT_EQ(single("ld.global.u32 %r1, [%d1 - 4];").operands[1].offset, -4);
  EXPECT_EQ(single("ld.global.u32 %r1, [ %d1 + (2*8) ];").operands[1].offset, 16);
  a = single("ld.param.u64 %d1, [p+8];").operands[1];
  EXPECT_EQ(a.base, Operand::Base::Symbol);
  EXPECT_EQ(a.symbol, (SymbolRef{SymbolRef::Kind::Parameter, 0}));
  EXPECT_EQ(a.offset, 8);
  a = single("ld.shared.u32 %r1, [64];").operands[1];
  EXPECT_EQ(a.base, Operand::Base::Immediate);
  EXPECT_EQ(a.bits, 64u);
  EXPECT_TRUE(single("ld.global.u32 %r1, [%d1].unified;").operands[1].is_unified);
}

TEST(Operands, ArrayElements) {
  Module module = parsed(kHeader +
                         ".global .u32 a[8];\n.entry k() { .reg .b32 %r; .reg .b64 %d; ld.global.u32 %r, "
                         "a[3]; mov.u64 %d, a[2]; "
                         "mov.u64 %d, a+4; cvta.global.u64 %d, a; }\n");
  const auto& body = module.functions[0].body;
  EXPECT_EQ(body[0].operands[1].kind, Kind::Address);
  EXPECT_EQ(body[0].operands[1].offset, 12);
  EXPECT_EQ(body[1].operands[1].kind, Kind::Symbol);
  EXPECT_EQ(body[1].operands[1].offset, 8);
  EXPECT_EQ(body[2].operands[1].offset, 4);
  expect_round_trip(module, "elements");
}

TEST(Operands, VectorsAndSinks) {
  Instruction i = single("ld.global.v4.f32 {%f1, _, %f2, _}, [%d1];");
  ASSERT_EQ(i.operands[0].elements.size(), 4u);
  EXPECT_EQ(i.operands[0].elements[1].kind, Kind::Sink);
  EXPECT_TRUE(i.has(Mod::v4));
  EXPECT_EQ(single("mov.b64 {%r1, %r2}, %d1;").operands[0].kind, Kind::Vector);
  EXPECT_EQ(single("mov.b128 %q1, {%d1, %d2};").operands[1].elements.size(), 2u);
}

TEST(Operands, VectorRegistersBecomeScalars) {
  Module module = parsed(kernel(
      ".reg .v4 .f32 v; ld.global.v4.f32 v, [%d1]; mov.f32 %f1, v.z; mov.f32 v.x, %f1; mov.f32 %f2, v.g;"));
  const Function& k = module.functions[0];
  ASSERT_EQ(k.body[0].operands[0].elements.size(), 4u);
  EXPECT_EQ(k.body[1].operands[1].index, k.body[0].operands[0].elements[2].index);
  EXPECT_EQ(k.body[2].operands[0].index, k.body[0].operands[0].elements[0].index);
  EXPECT_EQ(k.body[3].operands[1].index, k.body[0].operands[0].elements[1].index);
  EXPECT_EQ(k.registers[0].type, Type::F32);
  expect_round_trip(module, "vector registers");
}

TEST(Operands, SpecialRegisters) {
  Operand tid = single("mov.u32 %r1, %tid.y;").operands[1];
  EXPECT_EQ(tid.kind, Kind::Special);
  EXPECT_EQ(tid.special, SpecialRegister::Tid);
  EXPECT_EQ(tid.component, 1);
  EXPECT_EQ(single("mov.u64 %d1, %clock64;").operands[1].special, SpecialRegister::Clock64);
  EXPECT_EQ(single("mov.u32 %r1, %envreg31;").operands[1].special, SpecialRegister::Envreg31);
  EXPECT_EQ(single("mov.u32 %r1, %lanemask_lt;").operands[1].special, SpecialRegister::LanemaskLt);
  EXPECT_EQ(type_of(SpecialRegister::Gridid), Type::U64);
}

TEST(Operands, PairsAndNegation) {
  Module module =
      parsed(kernel("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;\nelect.sync _|%p4, -1;\nshfl.sync.idx.b32 "
                    "%r1|_, %r2, 0, 31, -1;\n"
                    "vmad.s32.s32.s32 %r1, -%r2.h0, %r3.b2, %r4;"));
  const Function& k = module.functions[0];
  EXPECT_EQ(k.registers[k.body[0].operands[0].pair].name, "%p2");
  EXPECT_TRUE(k.body[0].operands[3].negated);
  EXPECT_EQ(k.body[1].operands[0].kind, Kind::Sink);
  EXPECT_EQ(k.registers[k.body[1].operands[0].pair].name, "%p4");
  EXPECT_TRUE(k.body[2].operands[0].sink_pair);
  EXPECT_TRUE(k.body[3].operands[1].negated);
  EXPECT_EQ(k.body[3].operands[1].component, 5);
  EXPECT_EQ(k.body[3].operands[2].component, 3);
  expect_round_trip(module, "pairs");
}

TEST(Operands, SimdSelectors) {
  Module module =
      parsed(kernel("vadd4.u32.u32.u32 %r1.b321, %r2.b3210, %r3.b7654, %r4;\nvset2.s32.s32.lt %r1.h10, "
                    "%r2.h32, %r3.h01, %r4;"));
  const auto& operands = module.functions[0].body[0].operands;
  EXPECT_EQ(operands[0].component, 8);
  EXPECT_EQ(operands[0].bits, 0x321u);
  EXPECT_EQ(operands[2].bits, 0x7654u);
  EXPECT_EQ(module.functions[0].body[1].operands[2].component, 7);
  EXPECT_EQ(print(module, module.functions[0], module.functions[0].body[1]),
            "vset2.s32.s32.lt %r1.h10, %r2.h32, %r3.h01, %r4;");
  expect_round_trip(module, "selectors");
}

TEST(Operands, TexturesAndTensors) {
  Instruction i = single("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}|%p1, [%d1, %d2, {%f4, %f5}];");
  ASSERT_EQ(i.operands[1].elements.size(), 2u);
  EXPECT_EQ(i.operands[1].elements[1].elements.size(), 2u);
  EXPECT_NE(i.operands[0].pair, kNone);
  i = single(
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster."
      "L2::cache_hint "
      "[%r1], [%d1, {%r2, %r3, %r4}], [%r5], {%h1}, %h2, %d2;");
  EXPECT_EQ(i.operands.size(), 6u);
  EXPECT_TRUE(i.has(Mod::_3d) && i.has(Mod::shared_cluster) && i.has(Mod::multicast_cluster));
}

TEST(Calls, EveryForm) {
  Module module = parsed(
      kHeader +
      ".func (.param .b32 r) f(.param .b32 a, .param .b64 b);\n.func g() { ret; }\n"
      ".func (.reg .b32 %out) old(.reg .b32 %in) { add.u32 %out, %in, 1; ret; }\n"
      ".entry k() { .reg .b32 %r<3>; .reg .b64 %d<3>; .param .b32 x, z; .param .b64 y;\n"
      "call.uni (z), f, (x, y);\ncall g;\ncall g, ();\ncall (%r1), old, (%r2);\ncall (%r1), old, (5);\n"
      "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\n"
      "C: .calltargets f;\nmov.u64 %d1, f;\ncall (z), %d1, (x, y), P;\ncall (z), %d1, (x, y), C;\n"
      "N: .callprototype _ () .noreturn;\ncall %d1, N; }\n");
  const Function& k = *module.find("k");
  ASSERT_EQ(k.body.size(), 9u);
  const Instruction& first = k.body[0];
  ASSERT_EQ(first.operands.size(), 3u);
  EXPECT_EQ(first.operands[0].kind, Kind::List);
  EXPECT_EQ(first.operands[1].symbol, (SymbolRef{SymbolRef::Kind::Function, 0}));
  EXPECT_EQ(first.operands[2].elements[1].symbol, (SymbolRef{SymbolRef::Kind::FunctionVariable, 2}));
  EXPECT_TRUE(first.has(Mod::uni));
  EXPECT_EQ(k.body[1].operands.size(), 1u);
  EXPECT_EQ(k.body[5].operands[1].symbol, (SymbolRef{SymbolRef::Kind::Function, 0}));
  EXPECT_EQ(k.body[6].operands[1].kind, Kind::Register);
  EXPECT_EQ(k.body[6].operands[3].symbol, (SymbolRef{SymbolRef::Kind::TargetList, 0}));
  ASSERT_EQ(k.target_lists.size(), 3u);
  EXPECT_TRUE(k.target_lists[0].is_prototype);
  EXPECT_EQ(k.target_lists[0].parameters.size(), 2u);
  EXPECT_EQ(k.target_lists[1].targets, std::vector<uint32_t>{0});
  EXPECT_TRUE(k.target_lists[2].is_noreturn);
  EXPECT_EQ(module.functions[2].parameters[0].space, Space::None);
  expect_round_trip(module, "calls");
}

TEST(Printing, KeepsTheTextOfAnInstruction) {
  for (const char* text :
       {"@!%p1 ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%d1+16], %d2;",
        "prmt.b32.f4e %r1, %r2, %r3, %r4;", "bar.cta.sync 1, 64;", "mov.f32 %f1, 0f3F800000;",
        "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r1}, {%r2}, {%r3}, {%r4};",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%r1}, {%r2}, {%r3}, {%r4};",
        "atom.add.acq_rel.gpu.global.u32 %r1, [%d1], -5;", "st.shared::cluster.u32 [%r1], %r2;"}) {
    Module module = parsed(kernel(text));
    EXPECT_EQ(print(module, module.functions[0], module.functions[0].body[0]), text);
  }
}

}  // namespace
}  // namespace assay::ptx
