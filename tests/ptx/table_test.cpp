// The instruction table: sound, complete, and every row of it parses.
#include "ptx/table.h"

#include <fmt/format.h>

#include <set>

#include "support.h"

namespace assay::ptx {
namespace {

TEST(Table, HasNoDefects) {
  EXPECT_EQ(table_defects(), "");
}

TEST(Table, SpellingsAreUniqueAndFoundAgain) {
  for (size_t i = 0; i < static_cast<size_t>(Opcode::Count_); ++i)
    EXPECT_EQ(find_opcode(name(static_cast<Opcode>(i))), static_cast<Opcode>(i));
  for (size_t i = 0; i < static_cast<size_t>(Mod::Count_); ++i)
    EXPECT_EQ(find_mod(name(static_cast<Mod>(i))), static_cast<Mod>(i));
  for (size_t i = 1; i < static_cast<size_t>(Type::Count_); ++i)
    EXPECT_EQ(find_type(name(static_cast<Type>(i))), static_cast<Type>(i));
  for (size_t i = 0; i < static_cast<size_t>(SpecialRegister::Count_); ++i)
    EXPECT_EQ(find_special(name(static_cast<SpecialRegister>(i))), static_cast<SpecialRegister>(i));
  for (size_t i = 0; i < static_cast<size_t>(Mod::Count_); ++i)
    EXPECT_FALSE(find_type(name(static_cast<Mod>(i))))
        << "both a type and a modifier: " << name(static_cast<Mod>(i));
}

TEST(Table, EveryModifierAndTypeIsUsedByARow) {
  std::set<Mod> mods;
  std::set<Type> types;
  for (const Row& row : rows()) {
    for_each_form(row, [&](const Form& form) {
      mods.insert(form.mods.begin(), form.mods.end());
      types.insert(form.types.begin(), form.types.end());
      return true;
    });
  }
  for (size_t i = 0; i < static_cast<size_t>(Mod::Count_); ++i)
    EXPECT_TRUE(mods.count(static_cast<Mod>(i))) << name(static_cast<Mod>(i));
  for (size_t i = 1; i < static_cast<size_t>(Type::Count_); ++i)
    EXPECT_TRUE(types.count(static_cast<Type>(i))) << name(static_cast<Type>(i));
}

std::string sample_operand(const OperandPattern& pattern, bool with_pair) {
  static const char* const kText[] = {"%r1",  "{%r1, %r2}", "%p1", "%r3",      "{%r3, %r4}",   "{%r5, %r6}",
                                      "-%r3", "!%p2",       "1",   "[%d1+16]", "[%d1, {%r1}]", "[%d1, {%r1}]",
                                      "%r3",  "L",          "T",   "f",        "(%r1, %r2)",   "%d5",
                                      "_"};
  std::string text = kText[static_cast<size_t>(pattern.kind)];
  if (pattern.has_selector) text += ".h1";
  if (with_pair && pattern.pair != OperandPattern::Pair::None) text += "|%p3";
  return text;
}

std::string sample(const Form& form, bool full) {
  std::string text = form.text;
  if (!form.mods.empty() && form.mods[0] == Mod::cta && text.starts_with("bar")) {  // bar.cta.sync
    std::string spelled(name(form.row->opcode));
    std::string family = spelled.substr(0, spelled.find('.'));
    text = family + ".cta" + spelled.substr(family.size()) + text.substr(spelled.size() + 4);
  }
  const char* separator = " ";
  for (const OperandPattern& pattern : form.row->operands) {
    bool has_hint = std::find(form.mods.begin(), form.mods.end(), Mod::L2_cache_hint) != form.mods.end();
    if (pattern.kind == OperandKind::CachePolicy ? !has_hint : pattern.optional && !full) continue;
    bool with_pair = full || pattern.pair == OperandPattern::Pair::Required;
    text += separator + sample_operand(pattern, with_pair);
    separator = ", ";
  }
  return text + ";";
}

// Instructions of the first forms of every row, and of some further on: they parse, to a row that
// allows exactly that, and print as they were written.
TEST(Table, FormsOfEveryRowParseAndPrint) {
  const std::string before =
      kHeader +
      ".func f() { ret; }\n.entry k() {\n.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
      "T: .branchtargets L;\nL:\n";
  size_t forms = 0;
  for (const Row& row : rows()) {
    size_t seen = 0, step = 1;
    std::vector<std::string> texts;
    for_each_form(row, [&](const Form& form) {
      if (seen++ % step == 0) {
        texts.push_back(sample(form, false));
        texts.push_back(sample(form, true));
        if (texts.size() % 40 == 0) step *= 7;
      }
      return true;
    });
    std::string body;
    for (const std::string& text : texts) body += text + "\n";
    Result<Module> module = parse(before + body + "}\n", "table");
    ASSERT_TRUE(module) << describe(row) << ": " << module.error().text();
    const Function& function = module->functions[1];
    ASSERT_EQ(function.body.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const Instruction& instruction = function.body[i];
      EXPECT_EQ(instruction.opcode, row.opcode);
      EXPECT_EQ(print(*module, function, instruction), texts[i]);
    }
    forms += texts.size();
  }
  EXPECT_GT(forms, 5000u);
}

TEST(Table, AnInstructionMatchesItsOwnRow) {
  for (const Row& row : rows()) {
    int left = 50;
    for_each_form(row, [&](const Form& form) {
      std::vector<uint16_t> found = match_rows(row.opcode, form.mods, form.types);
      EXPECT_NE(std::find(found.begin(), found.end(), row.index), found.end()) << form.text;
      return --left > 0;
    });
  }
}

TEST(Table, ModifierOrderIsFreeExceptWhereItMeansSomething) {
  EXPECT_EQ(error_of(kernel("atom.add.release.gpu.global.u32 %r1, [%d1], %r2;")), "");
  EXPECT_EQ(error_of(kernel("atom.global.gpu.release.add.u32 %r1, [%d1], %r2;")), "");
  EXPECT_EQ(error_of(kernel("min.NaN.ftz.f32 %f1, %f2, %f3;")), "");
  EXPECT_NE(
      error_of(kernel("mma.sync.aligned.m16n8k8.col.row.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2};")), "");
  EXPECT_NE(error_of(kernel("cp.async.ca.global.shared [%r1], [%d1], 4;")), "");
  EXPECT_NE(error_of(kernel("cvt.rn.f32.s32.rn %f1, %r1;")), "") << "a modifier twice";
}

TEST(Table, DescribesRowsWithTheirSetsSpelledOut) {
  EXPECT_EQ(describe(rows(Opcode::exit)[0]), "exit");
  EXPECT_EQ(describe(rows(Opcode::rem)[0]), "rem(.u16|.u32|.u64|.s16|.s32|.s64) d, a, b");
  EXPECT_EQ(describe(rows(Opcode::fma)[1]), "fma(.rn|.rz|.rm|.rp).f64 d, a, b, c");
}

}  // namespace
}  // namespace assay::ptx
