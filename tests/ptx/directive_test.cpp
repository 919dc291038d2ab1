// Directives, one by one: what the text says is what the module holds.
#include <set>

#include "support.h"

namespace assay::ptx {
namespace {

TEST(Directive, VersionTargetAddressSize) {
  Module module = parsed(".version 8.7\n.target sm_100a, debug\n.address_size 32\n");
  EXPECT_EQ(module.version_major, 8);
  EXPECT_EQ(module.version_minor, 7);
  EXPECT_EQ(module.target, "sm_100a");
  EXPECT_EQ(module.address_size, 32);
}

TEST(Directive, FilesKeepTheirNumbers) {
  Module module = parsed(kHeader + ".file 2 \"b.cu\", 1700000000, 55\n.file 1 \"a.cu\"\n");
  ASSERT_EQ(module.files.size(), 3u);
  EXPECT_EQ(module.files[1], "a.cu");
  EXPECT_EQ(module.files[2], "b.cu");
}

TEST(Directive, LocationsChainThroughInlining) {
  Module module = parsed(kHeader +
                         ".entry k() {\n"
                         "nanosleep.u32 0;\n"
                         ".loc 1 30 3\nnanosleep.u32 1;\n"
                         ".loc 2 10 5, function_name $L0, inlined_at 1 30 3\nnanosleep.u32 2;\n"
                         ".loc 2 20 7, function_name $L0+6, inlined_at 2 10 5\nnanosleep.u32 3;\n"
                         ".loc 1 31 3\nnanosleep.u32 4;\n"
                         ".loc 1 30 3\nnanosleep.u32 5;\n}\n"
                         ".section .debug_str {\n$L0:\n.b8 111,117,116,101,114,0\n.b8 105\n.b8 110,0\n}\n");
  const auto& body = module.functions[0].body;
  ASSERT_EQ(body.size(), 6u);
  EXPECT_EQ(body[0].location, kNone);
  EXPECT_EQ(chain(module, body[1].location), (std::vector<Place>{{"", 1, 30, 3}}));
  EXPECT_EQ(chain(module, body[2].location), (std::vector<Place>{{"outer", 2, 10, 5}, {"", 1, 30, 3}}));
  EXPECT_EQ(chain(module, body[3].location),
            (std::vector<Place>{{"in", 2, 20, 7}, {"outer", 2, 10, 5}, {"", 1, 30, 3}}));
  EXPECT_EQ(body[5].location, body[1].location) << "each location is kept once";
  EXPECT_EQ(body[3].line, 11u);
  EXPECT_EQ(body[3].column, 1u);
  expect_round_trip(module, "locations");
}

TEST(Directive, DebugSectionsAreSkipped) {
  Module module =
      parsed(kHeader +
             ".entry k() { ret; }\n.section .debug_info {\n.b32 100\n.b64 k\n.b8 1,2\n.b32 $L1-$L2\n}\n"
             ".section .debug_loc { $L7: .b64 $L__tmp0 }\n.section .debug_macinfo { }\n"
             "@@DWARF .section .debug_pubnames, \"\", @progbits\n@@DWARF .byte 0x2b, 0x00\n");
  EXPECT_EQ(module.functions.size(), 1u);
}

TEST(Directive, Variables) {
  Module module = parsed(kHeader +
                         ".visible .global .align 16 .b8 bytes[40];\n"
                         ".const .f32 vals[8] = {0.5, 0.25, 0f3E000000};\n"
                         ".global .s32 x[3][2] = {{1,2}, {-3}};\n"
                         ".global .u16 open[] = {1, 2, 3};\n"
                         ".global .s32 rows[][2] = {{1}, {2, 3}, {4}};\n"
                         ".extern .shared .align 16 .b8 dyn[];\n"
                         ".common .global .u32 c;\n.weak .const .f64 w = 0d4000000000000000;\n"
                         ".global .attribute(.managed) .s64 m = -1;\n"
                         ".global .v4 .f32 v = {1.0, 2.0, 3.0, 4.0};\n"
                         ".shared .v2 .u32 sv[10];\n.global .u32 a, b, n<3>;\n"
                         ".global .u32 expr = (3 + 4) * 2 == 14 ? 0x10 | 1 : 7;\n"
                         ".global .texref t;\n.global .samplerref s = { filter_mode = nearest };\n");
  auto find = [&](const char* wanted) -> const Variable& {
    for (const Variable& variable : module.variables)
      if (variable.name == wanted) return variable;
    ADD_FAILURE() << wanted;
    return module.variables[0];
  };
  EXPECT_EQ(find("bytes").align, 16u);
  EXPECT_EQ(find("bytes").size, 40u);
  EXPECT_TRUE(find("bytes").is_visible);
  EXPECT_TRUE(find("bytes").init.empty());
  EXPECT_EQ(find("vals").space, Space::Const);
  EXPECT_EQ(find("vals").size, 32u);
  EXPECT_EQ(find("vals").align, 4u);
  EXPECT_EQ(find("vals").init.size(), 12u) << "what is not given is zero";
  EXPECT_EQ(find("vals").init[3], 0x3f);
  EXPECT_EQ(find("x").init, (std::vector<uint8_t>{1, 0, 0, 0, 2, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff}));
  EXPECT_EQ(find("x").size, 24u);
  EXPECT_EQ(find("open").size, 6u);
  EXPECT_FALSE(find("open").is_unsized);
  EXPECT_EQ(find("rows").size, 24u);
  EXPECT_EQ(find("rows").init[8], 2);
  EXPECT_TRUE(find("dyn").is_extern);
  EXPECT_TRUE(find("dyn").is_unsized);
  EXPECT_EQ(find("dyn").size, 0u);
  EXPECT_TRUE(find("c").is_common);
  EXPECT_TRUE(find("w").is_weak);
  EXPECT_EQ(find("w").init[7], 0x40);
  EXPECT_TRUE(find("m").is_managed);
  EXPECT_EQ(find("m").init, std::vector<uint8_t>(8, 0xff));
  EXPECT_EQ(find("v").size, 16u);
  EXPECT_EQ(find("v").align, 16u);
  EXPECT_EQ(find("v").init[15], 0x40);
  EXPECT_EQ(find("sv").size, 80u);
  EXPECT_EQ(find("n2").size, 4u);
  EXPECT_EQ(find("expr").init[0], 17);
  EXPECT_EQ(find("t").type, Type::TexRef);
  expect_round_trip(module, "variables");
}

TEST(Directive, Relocations) {
  Module module = parsed(kHeader +
                         ".global .u32 foo[4];\n.func f();\n"
                         ".global .u64 t[5] = {foo, generic(foo)+8, f, 7, foo+4};\n"
                         ".global .u8 bytes[3] = {0xff(foo), 0xff00(generic(foo)+4), 0xff00(131187)};\n");
  const Variable& table = module.variables[1];
  ASSERT_EQ(table.relocations.size(), 4u);
  EXPECT_EQ(table.relocations[0], (Variable::Relocation{0, 8, "foo", 0, false, 0}));
  EXPECT_EQ(table.relocations[1], (Variable::Relocation{8, 8, "foo", 8, true, 0}));
  EXPECT_EQ(table.relocations[2], (Variable::Relocation{16, 8, "f", 0, false, 0}));
  EXPECT_EQ(table.relocations[3], (Variable::Relocation{32, 8, "foo", 4, false, 0}));
  EXPECT_EQ(table.init[24], 7);
  const Variable& bytes = module.variables[2];
  ASSERT_EQ(bytes.relocations.size(), 2u);
  EXPECT_EQ(bytes.relocations[1], (Variable::Relocation{1, 1, "foo", 4, true, 8}));
  EXPECT_EQ(bytes.init[2], 131187 >> 8 & 0xff);
  expect_round_trip(module, "relocations");
}

TEST(Directive, FunctionHeaders) {
  Module module = parsed(
      kHeader +
      ".weak .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 s[24], .param .u32 n)\n"
      ".maxntid 128, 2\n.minnctapersm 3\n.maxnreg 64\n.reqnctapercluster 2, 1, 1\n.explicitcluster\n"
      ".maxclusterrank 8\n.blocksareclusters\n.pragma \"nounroll\";\n{ ret; }\n"
      ".visible .func (.param .b32 r) g(.param .b64 x, .param .align 4 .b8 rest[]) .noreturn .abi_preserve "
      "8;\n"
      ".func .attribute(.unified(0xAB, 0xCD)) h() { ret; }\n.entry bare .reqntid 32 { exit; }\n");
  const Function& k = module.functions[0];
  EXPECT_TRUE(k.is_entry && k.is_weak && !k.is_extern && k.explicit_cluster && k.blocks_are_clusters);
  ASSERT_EQ(k.parameters.size(), 3u);
  EXPECT_TRUE(k.parameters[0].is_pointer);
  EXPECT_EQ(k.parameters[0].pointee_space, Space::Global);
  EXPECT_EQ(k.parameters[0].pointee_align, 16u);
  EXPECT_EQ(k.parameters[0].align, 8u);
  EXPECT_EQ(k.parameters[1].size, 24u);
  EXPECT_EQ(k.parameters[1].align, 8u);
  EXPECT_EQ(k.max_threads[0], 128u);
  EXPECT_EQ(k.max_threads[1], 2u);
  EXPECT_EQ(k.max_threads[2], 1u);
  EXPECT_EQ(k.required_cluster[0], 2u);
  EXPECT_EQ(k.min_blocks_per_sm, 3u);
  EXPECT_EQ(k.max_registers, 64u);
  EXPECT_EQ(k.max_cluster_rank, 8u);
  EXPECT_EQ(k.pragmas, std::vector<std::string>{"nounroll"});
  const Function& g = module.functions[1];
  EXPECT_TRUE(g.is_extern && g.is_visible && g.is_noreturn);
  ASSERT_EQ(g.returns.size(), 1u);
  EXPECT_TRUE(g.parameters[1].is_unsized);
  EXPECT_EQ(module.find("bare")->required_threads[0], 32u);
  EXPECT_EQ(module.find("nothing"), nullptr);
  expect_round_trip(module, "headers");
}

TEST(Directive, ADeclarationAndItsDefinitionAreOne) {
  Module module =
      parsed(kHeader +
             ".visible .func f(.param .b32 a) .noreturn;\n.entry k() { .param .b32 x; call f, (x); ret; }\n"
             ".func f(.param .b32 a) { trap; }\n.func alias_of_f(.param .b32 a);\n.alias alias_of_f, f;\n");
  ASSERT_EQ(module.functions.size(), 3u);
  EXPECT_FALSE(module.functions[0].is_extern);
  EXPECT_TRUE(module.functions[0].is_visible && module.functions[0].is_noreturn);
  EXPECT_EQ(module.functions[2].alias_of, 0u);
  EXPECT_EQ(module.functions[1].body[0].operands[0].symbol, (SymbolRef{SymbolRef::Kind::Function, 0}));
  expect_round_trip(module, "declarations");
}

TEST(Directive, ScopesShadowAndNamesBecomeUnique) {
  Module module = parsed(
      kernel("mov.b32 %r1, 1;\n{ .reg .b32 %r<3>; .reg .f32 %f1; mov.b32 %r1, 2; mov.f32 %f1, 0f00000000;\n"
             "{ .reg .b32 %r1; mov.b32 %r1, 3; } mov.b32 %r1, 4; mov.b32 %r7, 5; }\nmov.b32 %r1, 6;"));
  const Function& k = module.functions[0];
  auto written = [&](size_t i) { return k.registers[k.body[i].operands[0].index]; };
  EXPECT_EQ(written(0).name, "%r1");
  EXPECT_NE(k.body[1].operands[0].index, k.body[0].operands[0].index);
  EXPECT_EQ(written(2).type, Type::F32);
  EXPECT_NE(k.body[3].operands[0].index, k.body[1].operands[0].index);
  EXPECT_EQ(k.body[4].operands[0].index, k.body[1].operands[0].index);
  EXPECT_EQ(written(5).name, "%r7") << "beyond the inner range the outer one holds";
  EXPECT_EQ(k.body[6].operands[0].index, k.body[0].operands[0].index);
  std::set<std::string> names;
  for (const Register& reg : k.registers) EXPECT_TRUE(names.insert(reg.name).second) << reg.name;
  EXPECT_EQ(k.registers.size(), 5u) << "registers that are used, no others";
  expect_round_trip(module, "scopes");
}

TEST(Directive, LabelsResolveInTheirScope) {
  Module module =
      parsed(kernel("bra end;\n{ L: nanosleep.u32 1; @%p1 bra L; }\n{ L: nanosleep.u32 2; bra.uni L; }\n"
                    "T: .branchtargets end, L<2>;\nL0: nanosleep.u32 3;\nL1: brx.idx %r1, T;\nend:"));
  const Function& k = module.functions[0];
  ASSERT_EQ(k.body.size(), 7u);
  EXPECT_EQ(k.body[0].operands[0].kind, Operand::Kind::Label);
  EXPECT_EQ(k.body[0].operands[0].index, 7u) << "a label at the end stands past the last instruction";
  EXPECT_EQ(k.body[2].operands[0].index, 1u);
  EXPECT_EQ(k.body[4].operands[0].index, 3u);
  EXPECT_EQ(k.target_lists[0].targets, (std::vector<uint32_t>{7, 5, 6}));
  EXPECT_EQ(k.body[6].operands[1].symbol, (SymbolRef{SymbolRef::Kind::TargetList, 0}));
  expect_round_trip(module, "labels");
}

TEST(Directive, VariablesInsideFunctions) {
  Module module =
      parsed(kernel(".local .align 8 .b8 depot[24]; .shared .f32 tile[32]; .param .b32 x<2>;\n"
                    "st.param.b32 [x1], 5; { .param .b32 x0; st.param.b32 [x0], 1; } mov.u64 %d1, depot+8; "
                    "st.shared.f32 [tile+4], %f1;"));
  const Function& k = module.functions[0];
  ASSERT_EQ(k.variables.size(), 5u);
  EXPECT_EQ(k.variables[0].space, Space::Local);
  EXPECT_EQ(k.variables[0].size, 24u);
  EXPECT_EQ(k.variables[1].space, Space::Shared);
  EXPECT_EQ(k.body[0].operands[0].symbol, (SymbolRef{SymbolRef::Kind::FunctionVariable, 3}));
  EXPECT_EQ(k.body[1].operands[0].symbol, (SymbolRef{SymbolRef::Kind::FunctionVariable, 4}));
  EXPECT_NE(k.variables[4].name, k.variables[2].name);
  EXPECT_EQ(k.body[2].operands[1].offset, 8);
  expect_round_trip(module, "variables inside");
}

}  // namespace
}  // namespace assay::ptx
