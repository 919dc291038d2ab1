// `torch` references: a process that speaks the server's protocol stands in for it, so neither torch nor NumPy is
// needed. It doubles its input, and says which question it was asked.
#include "reference/torch_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "folders.h"
#include "operators.h"

namespace assay::reference {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kServer = R"py(#!/usr/bin/python3
import json, struct, sys

def load(path):
    data = open(path, "rb").read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack("<%dd" % ((len(data) - start) // 8), data[start:]))

def save(path, values):
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    head += " " * (117 - len(head)) + "\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + struct.pack("<%dd" % len(values), *values))

mode = %s
if mode == "dies":
    sys.exit("ModuleNotFoundError: No module named 'torch'")
for line in sys.stdin:
    question = json.loads(line)
    if question["op"] == "open":
        assert question["declared"]["inputs"]["x"]["dtype"] == "bf16", question
        assert question["reference"].endswith("/r.py:run") and question["inputs"].endswith("/i.py:make"), question
        continue
    folder = question["folder"]
    if mode == "fails":
        print(json.dumps({"ok": False, "error": "no such operator"}), flush=True)
        continue
    if question["op"] == "inputs":
        save(folder + "/x.npy", [question["seed"] + 0.001] * question["dims"]["N"])
        print(json.dumps({"ok": True}), flush=True)
        continue
    x = load(folder + "/x.npy")
    save(folder + "/y.out.npy", [2 * v + question["numbers"]["eps"] for v in x])
    save(folder + "/y@bound.out.npy", [0.5 if question["tensor_cores"] else 0.25] * len(x))
    save(folder + "/y@sigma.out.npy", [0.125] * len(x))
    print(json.dumps({"ok": True, "budget": "operators", "rests_on": "one multiplication"}), flush=True)
)py";

class TorchServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(kBinaryFolder) / "torch_server_test";
    fs::create_directories(folder_);
    for (const char* name : {"r.py", "i.py"}) std::ofstream(folder_ / name) << "\n";
    std::ofstream(folder_ / "c.toml") << contract_text(R"toml([dims]
N = { min = 1, max = 64 }
[tensors.x]
dtype = "bf16"
shape = ["N"]
[tensors.y]
dtype = "bf16"
shape = ["N"]
role = "out"
[scalars.eps]
dtype = "f32"
value = 0.5
[reference]
torch = "r.py:run"
[inputs]
torch = "i.py:make"
)toml");
    contract_ = *load(folder_ / "c.toml");
    bindings_.shape = {{"N", 5}};
    bindings_.inputs["x"] = normal(DType::bf16, {5}, 1);
    bindings_.scalars["eps"] = Scalar::of(DType::f32, 0.5);
    if (const char* chosen = std::getenv("ASSAY_PYTHON")) before_ = chosen;
  }
  void TearDown() override {
    if (before_.empty())
      unsetenv("ASSAY_PYTHON");
    else
      setenv("ASSAY_PYTHON", before_.c_str(), 1);
  }

  void serve(const std::string& mode) {
    const fs::path server = folder_ / "server";
    std::string text = kServer;
    text.replace(text.find("%s\n"), 2, "\"" + mode + "\"");
    std::ofstream(server) << text;
    fs::permissions(server, fs::perms::owner_all);
    setenv("ASSAY_PYTHON", server.c_str(), 1);
  }

  fs::path folder_;
  Contract contract_;
  Bindings bindings_;
  std::string before_;
};

TEST_F(TorchServerTest, GivesExactValuesAndBudgetsAsTheyAre) {
  serve("answers");
  const auto reference = Reference::make(contract_);
  ASSERT_TRUE(reference) << reference.error().text();
  const auto expected = reference->expect_all(bindings_, "y");
  ASSERT_TRUE(expected) << expected.error().text();
  for (std::size_t i = 0; i < 5; ++i) {
    const double exact = 2 * bindings_.inputs["x"]->load(static_cast<int64_t>(i)) + 0.5;
    EXPECT_EQ(expected->value[i], exact);
    EXPECT_EQ(expected->bound[i], 0.25);
    EXPECT_EQ(expected->low[i], contract::rounded(DType::bf16, exact - 0.25));
    EXPECT_EQ(expected->high[i], contract::rounded(DType::bf16, exact + 0.25));
    EXPECT_EQ(expected->sigma_rest[i], 0.125);
    EXPECT_GE(expected->sigma[i], 0.125);
  }
  EXPECT_EQ(reference->budgets_rest_on(), (std::set<std::string>{"one multiplication"}));
  const auto wider = reference->expect_all(bindings_, "y", {.tensor_cores = true});
  ASSERT_TRUE(wider);
  EXPECT_EQ(wider->bound[0], 0.5);
}

TEST_F(TorchServerTest, MakesTheProblemsInputsRoundedToTheirDtype) {
  serve("answers");
  const auto reference = Reference::make(contract_);
  ASSERT_TRUE(reference);
  const auto inputs = reference->problem_inputs({{"N", 3}}, 7);
  ASSERT_TRUE(inputs) << inputs.error().text();
  EXPECT_EQ(inputs->at("x").dtype, DType::bf16);
  EXPECT_EQ(inputs->at("x").load(2), contract::rounded(DType::bf16, 7.001));
}

TEST_F(TorchServerTest, SaysWhatTheReferenceSays) {
  serve("fails");
  const auto reference = Reference::make(contract_);
  const auto expected = reference->expect_all(bindings_, "y");
  ASSERT_FALSE(expected);
  EXPECT_THAT(expected.error().message, HasSubstr("the reference r.py:run failed: no such operator"));
}

TEST_F(TorchServerTest, SaysThatTorchIsMissing) {
  serve("dies");
  const auto reference = Reference::make(contract_);
  const auto expected = reference->expect_all(bindings_, "y");
  ASSERT_FALSE(expected);
  EXPECT_THAT(expected.error().message, HasSubstr("has no PyTorch: install it"));
  EXPECT_FALSE(reference->expect_all(bindings_, "y"));  // and does not wait for it again
}

TEST_F(TorchServerTest, SaysThatTheFileIsMissing) {
  serve("answers");
  fs::remove(folder_ / "r.py");
  const auto reference = Reference::make(contract_);
  const auto expected = reference->expect_all(bindings_, "y");
  ASSERT_FALSE(expected);
  EXPECT_THAT(expected.error().text(), HasSubstr("r.py does not exist"));
}

}  // namespace
}  // namespace assay::reference
