// What the machine-readable reports promise about kinds is what kinds.def says: docs/report.schema.json and
// the rules of SARIF.
#include "report/schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "finding/message.h"
#include "report/report.h"

namespace assay::report {
namespace {

using ::testing::HasSubstr;

const Json& schema() {
  static const Json json = assay::testing::schema_named("report.schema.json");
  return json;
}
std::string problem(const Json& value, const Json& whole) {
  return assay::testing::schema_problem(value, whole);
}

Evidence evidence_of(Family family) {
  switch (family) {
    case Family::Numeric: {
      evidence::Numeric numeric{.output = "y", .judged = 10, .outside = 3};
      numeric.worst =
          evidence::Worst{.index = {3}, .stored = std::numeric_limits<double>::quiet_NaN(), .exact = 1};
      numeric.error_line = evidence::ErrorLine{.where = {"k.cu", 7}, .operation = "add.bf16"};  // a suspicion
      return numeric;
    }
    case Family::Access:
      return evidence::Access{};
    case Family::Race:
      return evidence::Race{};
    case Family::Synchronisation:
      return evidence::Synchronisation{};
    case Family::Launch:
      return evidence::Launch{};
    case Family::Process:
      return evidence::Process{};
    case Family::Code:
      return evidence::Code{};
    case Family::Training:
      return evidence::Training{};
  }
  return {};
}

// A report with a finding of every kind.
Report full() {
  Report report;
  report.contract = "k.toml";
  report.verdict = judge::Verdict::Fail;
  report.unknown = {"one shape was too large"};
  report.files = {{{"path", "k.toml"}, {"text", "[kernel]"}}};
  for (const KindInfo& kind : kinds()) {
    report.findings.push_back(
        {.kind = kind.kind, .severity = kind.severity, .evidence = evidence_of(kind.family), .count = 3});
  }
  Finding& caused = report.findings.front();
  caused.attribution = {
      .cause = Cause::EarlierCalls, .symptom = Kind::Crash, .consequences = {report.findings[5]}};
  caused.found = {.smallest = "N=1", .trials = 4};
  caused.where = {"k.cu", 14};
  caused.reproduce = "assay replay report.json";
  return report;
}

TEST(Schema, KnowsEveryKindAndFamily) {
  Json names = Json::array(), families = Json::array();
  for (const KindInfo& kind : kinds()) names.push_back(kind.name);
  for (int family = 0; family <= static_cast<int>(Family::Training); ++family)
    families.push_back(to_string(static_cast<Family>(family)));
  EXPECT_EQ(schema()["$defs"]["kind"]["enum"], names);
  EXPECT_EQ(schema()["$defs"]["finding"]["properties"]["evidence"]["properties"]["family"]["enum"], families);
}

TEST(Schema, HoldsOfReports) {
  EXPECT_EQ(problem(to_json(full()), schema()), "");
  EXPECT_EQ(problem(to_json(Report{}), schema()), "");
}

TEST(Schema, DoesNotHoldOfAnythingElse) {
  const Json good = to_json(full());
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return problem(json, schema());
  };
  EXPECT_EQ(with("/verdict", "maybe"), "report.verdict is \"maybe\"");
  EXPECT_EQ(with("/findings/0/kind", "bad-luck"), "report.findings[].kind is \"bad-luck\"");
  EXPECT_EQ(with("/findings/0/severity", "note"), "report.findings[].severity is \"note\"");
  EXPECT_EQ(with("/findings/0/where", Json::object()), "report.findings[].where has no file");
  EXPECT_EQ(with("/findings/0/evidence/family", "luck"), "report.findings[].evidence.family is \"luck\"");
  EXPECT_EQ(with("/findings/0/evidence/symptom", 3), "report.findings[].evidence.symptom is 3");
  EXPECT_EQ(with("/seed", "one"), "report.seed has another type");
  EXPECT_EQ(with("/assay", "2"), "report.assay has another value");
}

TEST(Sarif, RulesAreThoseOfTheKinds) {
  const std::vector<Report> reports = {full(), full()};
  const Json rules = sarif(reports)["runs"][0]["tool"]["driver"]["rules"];
  ASSERT_EQ(rules.size(), kinds().size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const KindInfo& kind = kinds()[i];
    EXPECT_EQ(rules[i]["id"], kind.name);
    EXPECT_EQ(rules[i]["shortDescription"]["text"], kind.summary) << kind.name;
    EXPECT_EQ(rules[i]["help"]["text"], kind.fix) << kind.name;
  }
}

TEST(Sarif, ResultsHaveTheLevelOfTheFinding) {
  const Json results = sarif(std::vector<Report>{full()})["runs"][0]["results"];
  ASSERT_EQ(results.size(), kinds().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i]["ruleId"], kinds()[i].name);
    EXPECT_EQ(results[i]["level"], to_string(kinds()[i].severity));
  }
}

}  // namespace
}  // namespace assay::report
