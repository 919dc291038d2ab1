// What a training run looks like: on the terminal, as JSON that docs/train.schema.json describes, as a page.
#include "train/report.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "folders.h"
#include "report/schema.h"

namespace assay::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Cell example_cell(Optimizer optimizer, double gap) {
  Cell cell;
  cell.optimizer = optimizer;
  for (int i = 0; i < 20; ++i) {
    const double loss = 7 - 0.1 * i;
    cell.reference.loss.push_back(loss - 0.01);
    cell.trusted.loss.push_back(loss);
    cell.reordered.loss.push_back(loss + (i % 2 ? 0.001 : -0.001));
    if (i < 15) cell.candidate.loss.push_back(loss + gap * i / 14);
  }
  cell.loss_gap = gap;
  cell.noise = 0.001;
  cell.gap_step = 14;
  cell.unmasked_step = gap > 0.01 ? 4 : -1;
  cell.teacher.signals = {{0, 7.5, {}}};
  cell.teacher.rejected_step = 0;
  cell.states = {{.name = "first batch", .calls = 3, .elements = 400}};
  return cell;
}

Training example() {
  Training training;
  training.contract = "k.toml";
  training.title = "Embedding </script><b>gradient";
  training.slot = "embedding_grad";
  training.device = "virtual";
  training.options.sizes.vocabulary = 2048;
  Report& report = training.report;
  report.verdict = judge::Verdict::Fail;
  TensorSignal whole, frequent;
  whole.tensor = frequent.tensor = "embedding";
  frequent.part = "tokens seen 100 to 999 times";
  frequent.candidate.gain = 0.5;
  frequent.candidate.relative_error = 0.51;
  frequent.noise_gain = 0.0002;
  frequent.noise_error = 0.004;
  whole.candidate.cosine = std::nan("");
  report.teacher.signals = {{0, 7.5, {whole, frequent}}};
  report.teacher.tensor = "embedding";
  report.teacher.part = frequent.part;
  report.teacher.log10_evidence = 31.4;
  report.teacher.rejected_step = 0;
  report.teacher.seconds = 9.25;
  report.states = {
      {.name = "first batch", .calls = 3, .elements = 400, .seconds = 0.5},
      {.name = "odd sizes"},
      {.name = "late training", .calls = 2, .elements = 90, .seconds = 0.25, .failed_site = "embedding"}};
  report.cells = {example_cell(Optimizer::SGD, 0.3), example_cell(Optimizer::AdamW, 0.0008)};
  report.cells[0].states.push_back(
      {.name = "late training", .step = 3, .calls = 2, .elements = 90, .failed_site = "embedding"});
  report.cells[1].teacher.rejected_step = -1;
  report.sites = {"embedding"};
  report.candidate_calls = 128;
  report.candidate_seconds = 12;
  report.seconds = 60;
  return training;
}

TEST(TrainingTerminal, ShowsTheMatrix) {
  EXPECT_EQ(terminal(example(), {}), R"(FAIL  k.toml  Embedding </script><b>gradient

gradient at the weights of the reference run, zipf + sgd, 1 step, 9.2 s: wrong (evidence 10^31);
embedding, tokens seen 100 to 999 times: gain 0.5 (noise 0.0002), relative error 0.51 (noise 0.004)

single calls at 2 states of the model, zipf + sgd, 5 calls, 490 results, 0.8 s: wrong in the state
"late training", at embedding; not accepted by the contract: odd sizes

For each cell: the largest gap between the losses with and without the kernel, and the step at which
it stands out of the noise; the step at which gradients at the weights of the reference run are
wrong; the state of the model in which a single call is. Masked: it does not show there.

  tokens    sgd                         adamw
  zipf      0.3 (noise 0.001)           0.0008 (noise 0.001)
            loss: step 4                loss: masked
            gradients: step 0           gradients: masked
            calls: late training        calls: masked

  slot embedding_grad, at embedding
  2 layers, width 128, vocabulary 2048, 8192 tokens per step, seed 1
  128 calls of the kernel on the virtual device in 12.0 s, everything in 60.0 s
  the gradient comparison fails a correct kernel with a probability of at most 1e-06 over all cells;
  a loss gap counts if it exceeds the noise of six trusted runs
)");
}

TEST(TrainingTerminal, ARightKernelIsMaskedNowhere) {
  Training right = example();
  right.report.verdict = judge::Verdict::Pass;
  right.report.teacher.rejected_step = -1;
  right.report.states.pop_back();
  right.report.cells = {example_cell(Optimizer::SGD, 0.0005)};
  const std::string text = terminal(right, {});
  EXPECT_THAT(text, HasSubstr("within the noise;\nembedding"));
  EXPECT_THAT(text, HasSubstr("0.5 s: within the rounding"));
  EXPECT_THAT(text, Not(HasSubstr("masked")));
}

TEST(TrainingTerminal, SaysWhatWasNotDecided) {
  Training open;
  open.contract = "k.toml";
  open.slot = "linear";
  open.device = "virtual";
  open.report.reason = "no site accepts the kernel";
  open.report.refused = {"head: N = 2048 is outside the promised range"};
  const std::string text = terminal(open, {});
  EXPECT_THAT(text, HasSubstr("INCONCLUSIVE  k.toml\n  could not be decided: no site accepts the kernel\n"));
  EXPECT_THAT(text, HasSubstr("not at head: N = 2048"));
}

TEST(TrainingJson, IsAsTheSchemaSays) {
  const auto schema = assay::testing::schema_named("train.schema.json");
  const Json json = Json::parse(to_json(example()).dump());
  EXPECT_EQ(assay::testing::schema_problem(json, schema), "");
  EXPECT_EQ(json["teacher"]["signals"][0]["tensors"][0]["cosine"], "NaN");
  EXPECT_EQ(json["cells"][0]["unmasked_step"], 4);
  EXPECT_FALSE(json["cells"][1]["unmasked"]);
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = json;
    changed[Json::json_pointer(pointer)] = value;
    return assay::testing::schema_problem(changed, schema);
  };
  EXPECT_EQ(with("/cells/0/tokens", "words"), "report.cells[].tokens is \"words\"");
  EXPECT_EQ(with("/teacher/signals/0/tensors/0", Json::object()),
            "report.teacher.signals[].tensors[] has no tensor");
  EXPECT_EQ(json["states"][2]["failed_site"], "embedding");
  EXPECT_EQ(
      json["cells"][0]["unmasked_by"].dump(),
      R"([{"signal":"gradients","step":0},{"signal":"calls","step":3,"state":"late training","site":"embedding"},{"signal":"loss","step":4}])");
  EXPECT_EQ(json["cells"][1]["unmasked_by"].dump(), "[]");
  EXPECT_EQ(with("/states/0", Json::object()), "report.states[] has no name");
  EXPECT_EQ(with("/verdict", "proved"), "report.verdict is \"proved\"");
}

TEST(TrainingPage, DrawsTheCurves) {
  Training training = example();
  training.report.cells.back().candidate.loss.back() = std::nan("");
  const report::Report pages[] = {to_report(training)};
  const std::string page = report::html(pages);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>gradient")));
  const std::filesystem::path folder = std::filesystem::path(kBinaryFolder) / "training_page";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "training.html").string();
  std::ofstream(path) << page;
  const int status =
      std::system(("python3 " + std::string(kSourceFolder) + "/tests/report/browser.py " + path)
                      .c_str());  // NOLINT(cert-env33-c)
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no Chromium";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace assay::train
