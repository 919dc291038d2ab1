// Every key of the contract file, read.
#include "support.h"

namespace assay::contract {
namespace {

using namespace testing;

TEST(Parse, AGlobalFunctionWithItsLaunch) {
  const Contract contract = parsed(R"toml(
[kernel]
source = ["a.cu", "sub/b.ptx"]
global = "scale<float>"
grid = ["ceil_div(N, 256)", 2]
block = [256]
shared_bytes = "4 * N + 16"
workspace_bytes = "8 * N"
args = ["y", "x", "N", "alpha", "workspace", "stream"]
returns = "int"
flags = ["-O3", "-DX=1"]
arch = "sm_90a"
[dims]
N = { min = 1, max = 5000000000, type = "i64" }
M = 128
[tensors.x]
dtype = "f16"
shape = ["N", 3]
align = 2
values = "real(-2, 2.5)"
[tensors.y]
dtype = "f16"
shape = ["N", "M / 32 - 1"]
role = "out"
may_alias = "x"
[scalars.alpha]
dtype = "f32"
range = [0.5, 2]
[reference]
formula = "y[n, k] = alpha * x[n, k]"
accumulate = "f16"
math = "fast"
[require]
deterministic = true
batch_invariant = ["N"]
nonfinite = "ignore"
concurrent = false
rtol = 1e-3
atol = 1e-6
)toml");
  const Kernel& kernel = contract.kernel;
  EXPECT_EQ(kernel.sources, (std::vector<std::string>{"a.cu", "sub/b.ptx"}));
  EXPECT_EQ(kernel.global, "scale<float>");
  EXPECT_TRUE(kernel.entry.empty());
  const Shape shape = {{"N", 1000}, {"M", 128}};
  ASSERT_EQ(kernel.grid.size(), 2u);
  EXPECT_EQ(*kernel.grid[0].eval(shape), 4);
  EXPECT_EQ(*kernel.grid[1].eval(shape), 2);
  EXPECT_EQ(*kernel.block[0].eval(shape), 256);
  EXPECT_EQ(*kernel.shared_bytes.eval(shape), 4016);
  EXPECT_EQ(*kernel.workspace_bytes.eval(shape), 8000);
  EXPECT_TRUE(kernel.returns_int);
  EXPECT_EQ(kernel.flags.size(), 2u);
  EXPECT_EQ(kernel.arch, "sm_90a");
  EXPECT_EQ(contract.dim("N")->type, DType::i64);
  EXPECT_TRUE(contract.dim("M")->is_constant());
  const TensorSpec& x = *contract.tensor("x");
  EXPECT_EQ(x.align, 2);
  EXPECT_EQ(x.values.kind, ValuesKind::RealRange);
  EXPECT_EQ(x.values.low, -2);
  EXPECT_EQ(x.values.high, 2.5);
  EXPECT_EQ(contract.tensor("y")->may_alias, "x");
  EXPECT_EQ(*contract.tensor("y")->extents(shape), (std::vector<int64_t>{1000, 3}));
  EXPECT_TRUE(contract.scalar("alpha")->is_range());
  EXPECT_EQ(contract.scalar("alpha")->high, 2);
  EXPECT_EQ(contract.reference.accumulate, DType::f16);
  EXPECT_EQ(contract.reference.math, Math::Fast);
  EXPECT_TRUE(contract.require.deterministic);
  EXPECT_EQ(contract.require.batch_invariant, std::vector<std::string>{"N"});
  EXPECT_EQ(contract.require.nonfinite, NonfiniteRule::Ignore);
  EXPECT_FALSE(contract.require.concurrent);
  EXPECT_EQ(contract.require.rtol, 1e-3);
  EXPECT_EQ(contract.require.atol, 1e-6);
}

TEST(Parse, Defaults) {
  const Contract contract = parsed(contract_text(R"toml([tensors.i]
dtype = "i8"
shape = [4]
[tensors.m]
dtype = "bool"
shape = [4]
[tensors.y]
dtype = "f32"
shape = [4]
role = "out"
[reference]
formula = "y[n] = i[n]"
)toml"));
  EXPECT_EQ(contract.kernel.arch, "sm_90");
  EXPECT_FALSE(contract.kernel.returns_int);
  EXPECT_EQ(contract.tensor("i")->values.kind, ValuesKind::Integers);
  EXPECT_EQ(*contract.tensor("i")->values.a.eval({}), -128);
  EXPECT_EQ(*contract.tensor("i")->values.b.eval({}), 127);
  EXPECT_EQ(contract.tensor("m")->values.kind, ValuesKind::Mask);
  EXPECT_EQ(contract.tensor("y")->align, 256);
  EXPECT_EQ(contract.reference.accumulate, DType::f32);
  EXPECT_EQ(contract.reference.math, Math::Standard);
  EXPECT_EQ(contract.require.nonfinite, NonfiniteRule::Propagate);
  EXPECT_TRUE(contract.require.concurrent);
  EXPECT_FALSE(contract.require.rtol);
}

TEST(Parse, EveryKindOfValues) {
  const std::pair<const char*, ValuesKind> kFloats[] = {{"real", ValuesKind::Real},
                                                        {"real(0, 1)", ValuesKind::RealRange},
                                                        {"activations", ValuesKind::Activations},
                                                        {"gradients", ValuesKind::Gradients},
                                                        {"weights", ValuesKind::Weights},
                                                        {"positive", ValuesKind::Positive},
                                                        {"probabilities", ValuesKind::Probabilities}};
  const std::pair<const char*, ValuesKind> kIntegers[] = {{"index(N)", ValuesKind::Index},
                                                          {"tokens(N + 1)", ValuesKind::Tokens},
                                                          {"mask", ValuesKind::Mask},
                                                          {"offsets(max(N, 2))", ValuesKind::Offsets},
                                                          {"integers(-N, 2 * N)", ValuesKind::Integers}};
  const auto with = [](const std::string& dtype, const std::string& values) {
    return parsed(contract_text("[dims]\nN = 4\n[tensors.x]\ndtype = \"" + dtype +
                                "\"\nshape = [\"N\"]\nvalues = \"" + values +
                                "\"\n[tensors.y]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = "
                                "\"out\"\n[reference]\nformula = \"y[n] = x[n]\"\n"));
  };
  for (const auto& [text, kind] : kFloats)
    EXPECT_EQ(with("bf16", text).tensor("x")->values.kind, kind) << text;
  for (const auto& [text, kind] : kIntegers)
    EXPECT_EQ(with("i32", text).tensor("x")->values.kind, kind) << text;
  const Values values = with("i32", "integers(-N, 2 * N)").tensor("x")->values;
  EXPECT_EQ(*values.a.eval({{"N", 4}}), -4);
  EXPECT_EQ(*values.b.eval({{"N", 4}}), 8);
}

TEST(Parse, OtherReferences) {
  const std::string tensors = "[tensors.y]\ndtype = \"f32\"\nshape = [4]\nrole = \"out\"\n[reference]\n";
  const Contract python = parsed(contract_text(tensors + "python = \"lib/ref.py:f\"\n"));
  EXPECT_EQ(python.reference.kind, ReferenceKind::Python);
  EXPECT_EQ(python.reference.python.file, "lib/ref.py");
  EXPECT_EQ(python.reference.python.function, "f");
  const Contract cuda = parsed(contract_text(tensors + "cuda = { source = \"n.cu\", entry = \"e\" }\n"));
  EXPECT_EQ(cuda.reference.kind, ReferenceKind::Cuda);
  EXPECT_EQ(cuda.reference.cuda_source, "n.cu");
}

TEST(Parse, ShapesAreCheckedAgainstThePromise) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 3, max = 100, multiple_of = 4 }
[tensors.y]
dtype = "f32"
shape = ["N - 4"]
role = "out"
[reference]
formula = "y[n] = 1"
)toml"));
  EXPECT_EQ(contract.dims[0].lowest(), 4);
  EXPECT_EQ(contract.dims[0].highest(), 100);
  EXPECT_TRUE(contract.check_shape({{"N", 12}}));
  EXPECT_FALSE(contract.check_shape({{"N", 13}}));
  EXPECT_FALSE(contract.check_shape({{"N", 104}}));
  EXPECT_FALSE(contract.check_shape({}));
  EXPECT_FALSE(contract.check_shape({{"N", 12}, {"M", 1}}));
  EXPECT_TRUE(contract.check_shape({{"N", 4}}));  // an empty tensor
}

TEST(Parse, PathsAreRelativeToTheContract) {
  Contract contract;
  contract.path = "folder/c.toml";
  EXPECT_EQ(contract.resolve("k.cu"), "folder/k.cu");
  EXPECT_EQ(contract.resolve("/abs/k.cu"), "/abs/k.cu");
}

// A contract of a Python function; `kernel` and `rest` replace or follow the usual lines.
std::string python_text(const std::string& kernel = "args = [\"x\", \"N\"]",
                        const std::string& reference = "torch = \"reference.py:run\"",
                        const std::string& rest = "", const std::string& top = "") {
  return top + "\n[kernel]\npython = \"sub/answer.py:run\"\n" + kernel +
         "\n[dims]\nN = { min = 1, max = 64 }\n[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n"
         "[tensors.y]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n[reference]\n" +
         reference + "\n" + rest;
}

TEST(Parse, APythonFunctionWithATorchReferenceAndAGenerator) {
  const Contract contract = parsed(python_text("args = [\"x\", \"N\"]", "torch = \"reference.py:run\"",
                                               "[inputs]\ntorch = \"inputs.py:make\"\n[[shapes]]\nN = 8\n",
                                               "only_listed_shapes = true"));
  EXPECT_EQ(contract.kernel.python.file, "sub/answer.py");
  EXPECT_EQ(contract.kernel.python.function, "run");
  EXPECT_TRUE(contract.kernel.returns_outputs);
  EXPECT_EQ(contract.kernel.sources, (std::vector<std::string>{"sub/answer.py"}));
  EXPECT_EQ(contract.reference.kind, ReferenceKind::Torch);
  EXPECT_EQ(contract.reference.python.file, "reference.py");
  EXPECT_EQ(contract.generator.function, "make");
  EXPECT_TRUE(contract.only_listed_shapes);
  EXPECT_FALSE(parsed(python_text()).only_listed_shapes);
}

TEST(Parse, ConstantDimsAreTheOnlyShapeThereIs) {
  std::string text =
      python_text("args = [\"x\"]", "torch = \"reference.py:run\"", "", "only_listed_shapes = true");
  text.replace(text.find("{ min = 1, max = 64 }"), 21, "64");
  EXPECT_EQ(parsed(text).shapes, (std::vector<Shape>{{{"N", 64}}}));
  EXPECT_FALSE(parsed(text).check_shape({{"N", 32}}));
}

TEST(Parse, APythonFunctionThatWritesItsOutputs) {
  const Contract contract = parsed(python_text("args = [\"x\", \"y\"]\nreturns = \"void\""));
  EXPECT_FALSE(contract.kernel.returns_outputs);
  EXPECT_FALSE(contract.generator);
}

TEST(Parse, WhereItsFilesComeFrom) {
  const Contract contract = parsed(python_text("args = [\"x\"]", "torch = \"r.py:run\"", R"toml([origin]
answer = "/home/me/answer.py"
function = "sub/answer.py:12"
files = { "sub/answer.py" = "/home/me/answer.py" }
)toml"));
  EXPECT_EQ(contract.origin.answer, "/home/me/answer.py");
  EXPECT_EQ(contract.origin.function_file, "sub/answer.py");
  EXPECT_EQ(contract.origin.function_line, 12);
  EXPECT_EQ(contract.origin.files.at("sub/answer.py"), "/home/me/answer.py");
  EXPECT_TRUE(parsed(python_text()).origin.answer.empty());
}

TEST(Parse, WhatAPythonFunctionCannotHave) {
  const struct {
    std::string text, message;
  } cases[] = {
      {python_text("args = [\"x\", \"stream\"]"), "a Python function gets no `stream`"},
      {python_text("args = [\"x\", \"workspace\"]"), "a Python function gets no `workspace`"},
      {python_text("args = [\"x\", \"y\"]"), "`y` is an output, which the function returns"},
      {python_text("args = [\"x\"]\nreturns = \"void\""), "the output `y` is not among the arguments"},
      {python_text("args = [\"x\"]\nreturns = \"int\""), "use outputs or void"},
      {python_text("args = [\"x\"]\nflags = [\"-O3\"]"), "`flags` is not for a Python function"},
      {python_text("args = [\"x\"]", "torch = \"reference.py\""), "written as \"file.py:function\""},
      {python_text("args = [\"x\"]", "formula = \"y[i] = x[i]\"", "[inputs]\ntorch = \"inputs.py:make\"\n"),
       "`torch` inputs need a `torch` reference"},
      {python_text("args = [\"x\"]", "torch = \"r.py:run\"", "", "only_listed_shapes = true"),
       "`only_listed_shapes` needs shapes"},
      {python_text("args = [\"x\"]", "torch = \"r.py:run\"", "[origin]\nfunction = \"a.py\"\n"),
       "`function` is written as \"file.py:LINE\""},
      {python_text("args = [\"x\"]", "torch = \"r.py:run\"", "[origin]\nfunction = \"a.py:x\"\n"),
       "`function` is written as \"file.py:LINE\""},
      {python_text("args = [\"x\"]", "torch = \"r.py:run\"", "[origin]\nfrom = \"a.py\"\n"), "`from`"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Contract> contract = parse(text, "test.toml");
    ASSERT_FALSE(contract) << message;
    EXPECT_NE(contract.error().message.find(message), std::string::npos) << contract.error().text();
    EXPECT_GT(contract.error().line, 0) << message;
  }
}

}  // namespace
}  // namespace assay::contract
