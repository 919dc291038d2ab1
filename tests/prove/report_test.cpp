// What a proof looks like: on the terminal, as JSON that docs/prove.schema.json describes, as a page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "folders.h"
#include "prove/prove.h"
#include "report/schema.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kReported =
    "__global__ void k(float* x, int n) {\n  int i = threadIdx.x;\n  x[i] = 1;\n  x[i + n] = 2;\n}\n";

fs::path folder() {
  const fs::path path = fs::path(kBinaryFolder) / "proof_page";
  fs::create_directories(path);
  std::ofstream(path / "k.cu") << kReported;
  return path;
}

// Everything at once: a refuted, an unknown and a proved obligation, and values that agree.
Proof example() {
  const std::string file = (folder() / "k.cu").string();
  Proof proof;
  proof.contract = "k.toml";
  proof.title = "Ones </script><b>";
  proof.verdict = Status::Refuted;
  proof.shapes = {"n from 1 to 4096"};
  proof.launches = {{"k", "grid.x = n, block.x = 32"}};
  proof.recorded = 250;
  proof.assumptions = {"the machine code does what the PTX says"};
  proof.gaps = {"overflow: at n=5: not seen on the virtual GPU"};
  proof.seconds = 1.25;
  proof.finished = true;
  Obligation aligned{.kernel = "k", .name = "alignment", .status = Status::Proved, .total = 2};
  aligned.proved = {{{file, 3}, "", std::nullopt, "st.global.f32 [%rd1], 1;"},
                    {{file, 4}, "", std::nullopt, "st.global.f32 [%rd2], 2;"}};
  Obligation bounds{.kernel = "k", .name = "bounds", .status = Status::Refuted, .total = 2};
  bounds.proved = {aligned.proved.front()};
  bounds.open = {{{file, 4},
                  "a write of 4 bytes of x may be out of bounds",
                  Candidate{{{"n", 5}}, "tid.x = 1"},
                  "st.global.f32 [%rd2], 2;"}};
  bounds.where = {file, 4};
  bounds.reason = "writes 4 bytes past the end of `x`";
  Obligation race{.kernel = "k", .name = "race", .status = Status::Unknown, .total = 3};
  race.open = {{{file, 3}, "time ran out", std::nullopt, "st.global.f32 [%rd1], 1;"},
               {{file, 4}, "time ran out", std::nullopt, "st.global.f32 [%rd2], 2;"},
               {{}, "a call that was not inlined", std::nullopt, "call f;"}};
  race.reason = race.open.front().reason;
  race.where = race.open.front().where;
  Obligation values{.kernel = "k", .name = "values", .status = Status::Agrees};
  values.reason = "300 elements at 16 shapes were compared; the largest shape is n=4096";
  values.compared = {300, 16, {{"n", 4096}}};
  proof.obligations = {aligned, bounds, race, values};
  proof.findings = {{.kind = Kind::OutOfBounds,
                     .where = {file, 4},
                     .evidence = evidence::Access{},
                     .found = {.smallest = "n=1, seed 1"},
                     .reproduce = "assay replay t.json"}};
  proof.files = {{{"path", "k.toml"}, {"text", "[kernel]"}}};
  return proof;
}

contract::Contract contract() {
  auto contract = contract::parse(
      "[kernel]\nsource = \"k.cu\"\nglobal = \"k\"\nargs = [\"x\", \"n\"]\ngrid = [1]\nblock = "
      "[1]\n[dims]\nn = { min = 1, "
      "max = 4096 }\n[tensors.x]\ndtype = \"f32\"\nshape = [\"n\"]\nrole = \"out\"\n[reference]\nformula = "
      "\"x[i] = 0\"\n",
      (folder() / "k.toml").string());
  EXPECT_TRUE(contract) << contract.error().text();
  return *contract;
}

TEST(ProofJson, is_as_the_schema_says) {
  const auto schema = assay::testing::schema_named("prove.schema.json");
  EXPECT_EQ(assay::testing::schema_problem(to_json(example()), schema), "");
  Proof failed;
  failed.problem = "the subject holds no PTX";
  EXPECT_EQ(assay::testing::schema_problem(to_json(failed), schema), "");
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = to_json(example());
    json[Json::json_pointer(pointer)] = value;
    return assay::testing::schema_problem(json, schema);
  };
  EXPECT_EQ(with("/verdict", "pass"), "report.verdict is \"pass\"");
  EXPECT_EQ(with("/obligations/0/obligation", "luck"), "report.obligations[].obligation is \"luck\"");
  EXPECT_EQ(with("/obligations/0/places/0", Json::object()), "report.obligations[].places[] has no where");
  EXPECT_EQ(with("/verdict", "agrees"), "report.verdict is \"agrees\"");
  EXPECT_EQ(with("/obligations/3/compared/shapes", "many"),
            "report.obligations[].compared.shapes has another type");
  EXPECT_EQ(with("/launch/0/checked", "never"), "report.launch[].checked is \"never\"");
  EXPECT_EQ(with("/finished", 1), "report.finished has another type");
}

TEST(ProofJson, tells_where_something_is_refuted_and_where_it_is_only_not_proved) {
  const Json bounds = to_json(example())["obligations"][1];
  EXPECT_EQ(bounds["places"][0]["status"], "proved");
  EXPECT_EQ(bounds["places"][1]["status"], "refuted");
  EXPECT_EQ(bounds["places"][1]["candidate"]["shape"], "n=5");
  EXPECT_EQ(bounds["proved"], 1);
  for (const Json& place : to_json(example())["obligations"][2]["places"])
    EXPECT_EQ(place["status"], "unknown");
}

TEST(ProofTerminal, says_what_was_found_before_what_was_proved) {
  const std::string text = terminal(example(), {});
  EXPECT_LT(text.find("out-of-bounds"), text.find("For n from 1 to 4096"));
  for (const char* part : {"REFUTED  k.toml", "assay replay t.json", "launched with grid.x = n, block.x = 32",
                           "(2 of 2)", "time ran out (at 2 places)", "a call that was not inlined",
                           "at 250 shapes; they are assumed to hold", "not seen on",
                           "1 obligation proved, 1 refuted, 1 unknown; the values agree", "agrees   values",
                           "300 elements at 16 shapes were compared"})
    EXPECT_THAT(text, HasSubstr(part));
  Proof all = example();
  all.all_shapes_recorded = true;
  EXPECT_THAT(terminal(all, {}), HasSubstr("at every shape."));
}

TEST(ProofPage, shows_the_proof_line_by_line) {
  const report::Report pages[] = {to_report(contract(), example())};
  const std::string page = report::html(pages);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  const std::string path = (folder() / "proof.html").string();
  std::ofstream(path) << page;
  const int status =
      std::system(("python3 " + std::string(kSourceFolder) + "/tests/report/browser.py " + path)
                      .c_str());  // NOLINT(cert-env33-c)
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no Chromium";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace assay::prove
