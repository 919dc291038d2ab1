#include <gmock/gmock.h>

#include <map>

#include "protocol/protocol.h"
#include "support.h"

namespace assay::protocol {
namespace {

using ::testing::HasSubstr;

TEST(Checks, AListIsParsedAndWritten) {
  EXPECT_EQ(*CheckSet::parse("memory,races"), (CheckSet{Check::Memory, Check::Races}));
  EXPECT_EQ(*CheckSet::parse("all"), CheckSet::for_run());
  EXPECT_EQ(*CheckSet::parse("none"), CheckSet());
  EXPECT_EQ(*CheckSet::parse(""), CheckSet());
  CheckSet with_notes = CheckSet::for_run();
  with_notes.add(Check::SameValue);
  EXPECT_EQ(*CheckSet::parse("all,same-value"), with_notes);
  EXPECT_EQ((CheckSet{Check::Races, Check::Memory}.text()), "memory,races");
  EXPECT_EQ(CheckSet().text(), "none");
}

TEST(Checks, AnUnknownNameListsTheKnownOnes) {
  const auto parsed = CheckSet::parse("memory,nonsense");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().text(), HasSubstr("unknown check 'nonsense'"));
  for (const CheckInfo& check : all_checks())
    EXPECT_THAT(parsed.error().text(), HasSubstr(std::string(check.name)));
}

TEST(Checks, TheTableDecidesWhereACheckIsUsed) {
  for (const CheckInfo& check : all_checks()) {
    EXPECT_EQ(CheckSet::for_run().has(check.id), check.in_run) << check.name;
    EXPECT_EQ(CheckSet::for_check().has(check.id), check.in_check) << check.name;
    EXPECT_EQ(*CheckSet::parse(check.name), CheckSet{check.id});
  }
  EXPECT_EQ(CheckSet::for_check().text(), "memory,init,races,streams,sync");
}

TEST(Settings, SurviveTheTrip) {
  EXPECT_EQ(*decode_settings(encode(Settings{})), Settings{});
  EXPECT_EQ(*decode_settings(encode(full_settings())), full_settings());
}

Result<Settings> from(const std::map<std::string, std::string>& variables) {
  return settings_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Settings, HaveDefaults) {
  EXPECT_EQ(*from({}), Settings{});
  EXPECT_EQ(*from({{"ASSAY_CHECK", ""}, {"ASSAY_SEED", ""}, {"ASSAY_GPU", ""}}), Settings{});
}

TEST(Settings, AreReadFromTheUsersVariables) {
  Settings expected;
  expected.seed = 0x10;
  expected.threads = 2;
  expected.gpu = gpu_named("h20");
  expected.checks = CheckSet::for_run();
  expected.engine = EngineChoice::Interpret;
  expected.code_cache = "/tmp/code";
  expected.events = "events.jsonl";
  expected.max_instructions = 1000;
  expected.faults = expected.quiet = true;
  EXPECT_EQ(*from({{"ASSAY_SEED", "0x10"},
                   {"ASSAY_THREADS", "2"},
                   {"ASSAY_ENGINE", "interpret"},
                   {"ASSAY_CODE_CACHE", "/tmp/code"},
                   {"ASSAY_GPU", "h20"},
                   {"ASSAY_CHECK", "all"},
                   {"ASSAY_REPORT", "events.jsonl"},
                   {"ASSAY_MAX_INSTRUCTIONS", "1000"},
                   {"ASSAY_FAULTS", "1"},
                   {"ASSAY_QUIET", "1"}}),
            expected);
}

TEST(Settings, OfAssayRunReplaceTheUsersVariables) {
  EXPECT_EQ(*from({{"ASSAY_SETTINGS", encode(full_settings())}, {"ASSAY_SEED", "1"}}), full_settings());
}

TEST(Settings, AWrongVariableIsNamed) {
  for (const auto& [name, value] : std::map<std::string, std::string>{{"ASSAY_GPU", "h300"},
                                                                      {"ASSAY_ENGINE", "jit"},
                                                                      {"ASSAY_CHECK", "all,nonsense"},
                                                                      {"ASSAY_SEED", "three"},
                                                                      {"ASSAY_THREADS", "99999999999"},
                                                                      {"ASSAY_QUIET", "-1"},
                                                                      {"ASSAY_SETTINGS", "{}"}}) {
    const auto settings = from({{name, value}});
    ASSERT_FALSE(settings) << name;
    EXPECT_THAT(settings.error().text(), HasSubstr(name));
  }
}

TEST(Settings, OfAnotherVersionAreRefused) {
  std::string text = encode(full_settings());
  const std::string version = ":" + std::to_string(kVersion) + ",";
  text.replace(text.find(version), version.size(), ":99,");
  const auto settings = decode_settings(text);
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().text(), HasSubstr("version 99"));
  EXPECT_THAT(settings.error().text(), HasSubstr("version " + std::to_string(kVersion)));
}

TEST(Settings, DamagedOnesNeverCrash) {
  std::mt19937 random(1);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto settings = decode_settings(mutated(encode(full_settings()), random));
    if (!settings) continue;
    ++valid;
    EXPECT_EQ(*decode_settings(encode(*settings)), *settings);
  }
  EXPECT_GT(valid, 0);
}

}  // namespace
}  // namespace assay::protocol
