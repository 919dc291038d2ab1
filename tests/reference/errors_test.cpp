// Every mistake is answered with its place and with what would be right.
#include "base/diagnostic.h"
#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;

const char* const kGood = R"toml(title = "t"
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N", "D", "eps", "stream"]
[dims]
N = { min = 1, max = 64 }
D = { min = 8, max = 64, multiple_of = 8 }
[[shapes]]
N = 4
D = 16
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
values = "activations"
[tensors.ids]
dtype = "i32"
shape = ["N"]
values = "index(N)"
[tensors.y]
dtype = "bf16"
shape = ["N", "D"]
role = "out"
[scalars.eps]
dtype = "f32"
value = 1e-5
[reference]
formula = """
m[i] = mean[d](x[i, d])
y[i, d] = x[i, d] - m[i] + eps
"""
[require]
deterministic = true
)toml";

struct Mistake {
  const char* what;  // to replace in the good contract
  const char* with;
  int line;  // where the error points; 0: any
  int column;
  const char* message;  // a part of what it says
};

// Reading a contract and understanding its formula are two steps; a mistake may show in either.
Result<Reference> understood(const std::string& text) {
  Result<Contract> contract = parse(text, "c.toml");
  if (!contract) return contract.error();
  return Reference::make(*contract);
}

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, PointsAtTheLineAndSaysWhatIsRight) {
  const Mistake& mistake = GetParam();
  std::string text = kGood;
  const std::size_t at = text.find(mistake.what);
  ASSERT_NE(at, std::string::npos) << mistake.what;
  text.replace(at, std::string(mistake.what).size(), mistake.with);
  const Result<Reference> reference = understood(text);
  ASSERT_FALSE(reference) << "accepted: " << mistake.with;
  const Error& error = reference.error();
  EXPECT_NE(error.message.find(mistake.message), std::string::npos) << error.text();
  EXPECT_EQ(error.file, "c.toml");
  if (mistake.line > 0) {
    EXPECT_EQ(error.line, mistake.line) << error.text();
  }
  if (mistake.column > 0) {
    EXPECT_EQ(error.column, mistake.column) << error.text();
  }
}

const Mistake kMistakes[] = {
    // the file
    {"title = \"t\"", "titel = \"t\"", 1, 1, "did you mean `title`"},
    {"title = \"t\"", "title = 5", 1, 9, "`title` must be a string, not an integer"},
    {"entry = \"k\"", "entri = \"k\"", 4, 1, "did you mean `entry`"},
    {"entry = \"k\"\n", "", 0, 0, "needs one of `entry`"},
    {"entry = \"k\"", "global = \"k\"", 0, 0, "`global` needs `grid`"},
    {"entry = \"k\"", "entry = \"k\"\ngrid = [1]", 5, 0, "`grid` belongs to `global`"},
    {"source = \"k.cu\"", "source = \"k.cpp\"", 3, 0, "neither CUDA C++ (.cu) nor PTX (.ptx)"},
    {"\"eps\", \"stream\"", "\"ep\", \"stream\"", 5, 29, "did you mean `eps`"},
    {"\"x\", \"y\", ", "\"x\", ", 5, 0, "the output `y` is not among the arguments"},
    {"\"stream\"]", "\"workspace\"]", 5, 0, "add `workspace_bytes`"},
    {"N = { min = 1, max = 64 }", "N = { min = 1, mxa = 64 }", 7, 16, "did you mean `max`"},
    {"N = { min = 1, max = 64 }", "N = { min = 9, max = 4 }", 7, 22, "max = 4, which is less than min = 9"},
    {"N = { min = 1, max = 64 }", "N = { min = 1, max = 3000000000 }", 7, 22, "add type = \"i64\""},
    {"N = { min = 1, max = 64 }", "N = \"64\"", 7, 0, "a dim is an integer, or a range"},
    {"multiple_of = 8", "multiple_of = 100", 8, 40, "there is no multiple of 100 from 8 to 64"},
    {"N = { min", "sum = { min", 7, 1, "a word of the formula language"},
    {"N = 4", "M = 4", 10, 1, "unknown key `M` in [[shapes]]; the keys there are N and D"},
    {"N = 4\n", "", 0, 0, "lacks a value for the dim `N`"},
    {"D = 16", "D = 12", 11, 5, "D = 12 is outside the range in [dims]: 8 to 64, a multiple of 8"},
    {"dtype = \"bf16\"", "dtype = \"bf61\"", 13, 9, "did you mean `bf16`"},
    {"dtype = \"bf16\"\n", "", 0, 0, "[tensors.x] needs the key `dtype`"},
    {"shape = [\"N\", \"D\"]", "shape = [\"N\", \"E\"]", 14, 16, "`E` is not a dim; the dims are N and D"},
    {"shape = [\"N\", \"D\"]", "shape = [\"N\", \"D +\"]", 14, 19,
     "expected an integer, a dim or `(`, found the end of the expression"},
    {"shape = [\"N\", \"D\"]", "shape = \"N\"", 14, 9,
     "`shape` must be a list of integers and expressions over dims, not a string"},
    {"values = \"activations\"", "values = \"activation\"", 15, 10, "did you mean `activations`"},
    {"values = \"activations\"", "values = \"index(N)\"", 15, 0, "describes integers"},
    {"values = \"index(N)\"", "values = \"index(M)\"", 19, 17, "`M` is not a dim; the dims are N and D"},
    {"values = \"index(N)\"", "values = \"index\"", 19, 10, "`index` takes 1 argument, not 0"},
    {"role = \"out\"", "role = \"output\"", 23, 8, "unknown role `output`; use in, out or inout"},
    {"role = \"out\"", "role = \"in\"", 0, 0, "no tensor is an output"},
    {"role = \"out\"", "role = \"out\"\nalign = 3", 24, 9, "power of two"},
    {"role = \"out\"", "role = \"out\"\nmay_alias = \"z\"", 24, 13, "`z` is not an input"},
    {"value = 1e-5", "value = 1e-5\nrange = [0, 1]", 0, 0, "exactly one of"},
    {"value = 1e-5", "range = [1, 0]", 26, 9, "the range is empty: 1 is more than 0"},
    {"[scalars.eps]", "[scalars.N]", 24, 10, "already taken by a dim"},
    {"deterministic = true", "deterministic = 1", 33, 17,
     "`deterministic` must be true or false, not an integer"},
    {"deterministic = true", "rtol = -1", 33, 8, "cannot be negative"},
    {"deterministic = true", "batch_invariant = [\"Q\"]", 33, 20, "`Q` is not a dim; the dims are N and D"},
    {"deterministic = true", "batch_invariant = true", 33, 19,
     "`batch_invariant` must be a list of strings, not true or false"},
    {"deterministic = true", "nonfinite = \"ignored\"", 33, 13, "did you mean `ignore`"},
    {"formula = \"\"\"", "math = \"quick\"\nformula = \"\"\"", 28, 8,
     "unknown kind of math `quick`; use standard or fast"},
    {"formula = \"\"\"", "accumulate = \"e4m3\"\nformula = \"\"\"", 28, 14, "f64, f32, f16 or bf16"},
    {"formula = \"\"\"", "python = \"f.py:g\"\nformula = \"\"\"", 0, 0,
     "exactly one of `formula`, `python`, `torch` and `cuda`"},
    {"title = \"t\"", "title = \"t", 1, 9, "this string is not closed by the end of its line"},
    {"title = \"t\"", "title = \"\"\"a \"quoted\"\"\"\" # it's\ntitel = 1", 2, 1, "did you mean `title`"},
    {"[dims]", "[dims", 6, 6, "expected ']'"},
    {"title = \"t\"", "title = t", 1, 9, "text is written in quotes: \"t\""},
    {"args = [\"x\", \"y\"", "args = [\"x\", y", 5, 14, "text is written in quotes: \"y\""},
    {"entry = \"k\"", "entry = \"k\"\ndeterministic = true", 5, 1, "it belongs in [require]"},
    {"entry = \"k\"", "entry = \"k\"\nonly_listed_shapes = true", 5, 1, "it belongs at the top of the file"},
    {"title = \"t\"", "title = \"\xc3\xa9\" # \xc3\xa9\n\xc6\x80 = 1", 2, 1,
     "may only appear in strings and comments"},
    {"title = \"t\"", "title = 6o\"\xc3\x9c", 1, 0, "may only appear in strings and comments"},
    {"title = \"t\"", "title = \"\"\"a \\ \n \xd0\xa5\"\"\"", 2, 2, "a line that follows a backslash"},
    {"entry = \"k\"", "entry = \"k\" junk", 4, 0, "the file is not valid TOML"},
    {"D = { min = 8", "D = { min = -8", 8, 13, "cannot be negative"},
    {"N = { min = 1, max = 64 }", "N = { min = 1 }", 7, 1, "needs the key `max`"},
    {"N = { min = 1, max = 64 }", "N = { min = 1, max = \"64\" }", 7, 22,
     "`max` must be an integer, not a string"},
    {"shape = [\"N\", \"D\"]", "shape = [\"N\", \"ND + D * N2\"]", 14, 25, "`N2` is not a dim"},
    {"shape = [\"N\", \"D\"]", "shape = [\"N\", \"half(D)\"]", 14, 16, "`half` is not a function here"},
    {"shape = [\"N\", \"D\"]", "shape = [\"N\", 1.5]", 14, 15, "not a decimal number"},
    {"values = \"activations\"", "values = \"real(0, one)\"", 15, 19, "expected a number, found `one`"},
    {"values = \"activations\"", "values = \"real(0\"", 15, 10, "written as NAME"},
    {"\"x\", \"y\", ", "\"x\", 7, \"y\", ", 5, 14,
     "the elements of `args` must be strings; this is an integer"},
    {"[reference]", "[referense]", 27, 2, "did you mean `reference`"},
    // the formula's words
    {"mean[d](x[i, d])", "mean[d](x[i, d]", 30, 1, "expected `)` after the body of `mean`, found `y`"},
    {"mean[d](x[i, d])", "mean(x[i, d])", 29, 8, "`mean` needs an index"},
    {"mean[d](x[i, d])", "maen[d](x[i, d])", 29, 8, "did you mean `mean`"},
    {"mean[d](x[i, d])", "expp(x[i, 0])", 29, 8, "did you mean `exp`"},
    {"mean[d](x[i, d])", "x[i, 0] @ 2", 29, 16, "unexpected character `@`"},
    {"mean[d](x[i, d])", "x[i, 0] ** 2", 29, 16, "write `^`"},
    {"mean[d](x[i, d])", "x[i, 0] ? 1 : 2", 29, 16, "write `if c then a else b`"},
    {"mean[d](x[i, d])", "2x[i, 0]", 29, 8, "write `*` between its factors"},
    {"mean[d](x[i, d])", "1e999 * x[i, 0]", 29, 8, "this number is too large"},
    {"mean[d](x[i, d])", "if x[i, 0] > 0 then 1", 29, 29, "an `if` needs both branches"},
    {"mean[d](x[i, d])", "if x[i, 0] = 0 then 1 else 2", 29, 19, "write `==`"},
    {"mean[d](x[i, d])", "if x[i, 0] > 0 && true then 1 else 2", 29, 23, "write `and`"},
    {"mean[d](x[i, d])", "x[i, 0] +", 30, 9, "write `==`"},
    {"m[i] = mean[d](x[i, d])", "5 = mean[d](x[i, d])", 29, 1, "begins with the name"},
    {"m[i] = mean[d](x[i, d])", "then = 1", 29, 1, "`then` is a keyword"},
    {"m[i] = mean[d](x[i, d])", "m[i] := 2", 29, 6, "unexpected character `:`"},
    {"m[i] = mean[d](x[i, d])", "m[i] - 2", 29, 6,
     "expected `=`, `+=` or `max=` after the left side, found `-`"},
    {"m[i] = mean[d](x[i, d])\ny[i, d] = x[i, d] - m[i] + eps\n", "# nothing\n", 0, 0,
     "the formula is empty"},
    // its meaning
    {"- m[i] + eps", "- m[i] + epps", 30, 28, "did you mean `eps`"},
    {"- m[i] + eps", "- k", 30, 21, "an index must appear on the left side"},
    {"y[i, d] = x[i, d] - m[i] + eps", "y[i, d] += x[i, d] * eps2", 30, 22,
     "`eps2` is not defined; did you mean `eps`?"},
    {"y[i, d] = x[i, d] - m[i] + eps", "y[i, d] += x[i, d] * q", 30, 22,
     "`q` is not defined, and cannot be an index"},
    {"- m[i] + eps", "- (m[i] + eps", 30, 32, "expected `)`, found the end of the formula"},
    {"- m[i] + eps", "- z[i]", 30, 21, "`z` is not defined; define it in a statement above"},
    {"- m[i] + eps", "- x[i]", 30, 21, "`x` has 2 dimensions, but 1 index is given"},
    {"- m[i] + eps", "- N[i]", 30, 21, "`N` is a number and takes no indices"},
    {"- m[i] + eps", "- y[i, d]", 30, 21, "has no value yet"},
    {"- m[i] + eps", "- x[d, i]", 30, 21, "ranges over"},
    {"- m[i] + eps", "- x[i, d + 1]", 30, 21, "guard it: `if ... then x[i, d + 1] else ...`"},
    {"- m[i] + eps", "- x[i - 1, d]", 30, 21, ": index 1 is -1, but only 0 to "},
    {"- m[i] + eps", "- x[i, x[i, d]]", 30, 26, "an index must be an integer"},
    {"- m[i] + eps", "- sum[i](x[i, d])", 30, 25, "already in use"},
    {"- m[i] + eps", "- sum[k](eps)", 30, 25, "cannot be inferred"},
    {"- m[i] + eps", "- sum[k in 0..k](eps)", 30, 25, "depends on itself"},
    {"- m[i] + eps", "- exp(eps, 1)", 30, 21, "takes 1 argument"},
    {"- m[i] + eps", "- (if m[i] then 1 else 2)", 30, 25, "expected a condition, found a number"},
    {"- m[i] + eps", "- 5.0 % 2", 30, 25, "`%` is only defined for integers"},
    {"y[i, d] = x", "x[i, d] = x", 30, 1, "`x` is an input"},
    {"y[i, d] = x", "eps = x", 30, 1, "cannot be assigned"},
    {"y[i, d] = x", "y[i] = x", 30, 1, "`y` has 2 dimensions, but 1 index is given"},
    {"y[i, d] = x", "z[i, d] = x", 0, 0, "never assigns the output `y`; add `y[...] = ...`"},
    {"y[i, d] = x", "z[ids[i], d] = x", 30, 1, "the shape of `z` is not known"},
    {"y[i, d] = x", "y[i, eps] = x", 30, 6, "an index on the left must be an integer"},
};

INSTANTIATE_TEST_SUITE_P(All, Mistakes, ::testing::ValuesIn(kMistakes));

TEST(Errors, TheGoodContractIsGood) {
  const Result<Reference> reference = understood(kGood);
  EXPECT_TRUE(reference) << reference.error().text();
}

TEST(Errors, ShowTheLineAndACaret) {
  std::string text = kGood;
  text.replace(text.find("+ eps"), 5, "+ epps");
  EXPECT_EQ(diagnostic(understood(text).error()),
            "c.toml:30:28: error: `epps` is not defined; did you mean `eps`?\n"
            "   30 | y[i, d] = x[i, d] - m[i] + epps\n"
            "      |                            ^~~~");
}

TEST(Errors, OfTheWholeFileShowNoLine) {
  std::string text = kGood;
  text.replace(text.find("[reference]"), std::string::npos, "");
  EXPECT_EQ(diagnostic(understood(text).error()),
            "assay: c.toml: the contract lacks the table [reference]; add it");
}

TEST(Errors, AMissingFileIsNamed) {
  Result<Contract> contract = load("no/such/contract.toml");
  ASSERT_FALSE(contract);
  EXPECT_EQ(contract.error().file, "no/such/contract.toml");
}

TEST(Errors, ANegativeExtentBreaksThePromise) {
  const Result<Reference> reference = understood(contract_text(R"toml([dims]
N = { min = 3, max = 100 }
[tensors.y]
dtype = "f32"
shape = ["N - 8"]
role = "out"
[reference]
formula = "y[n] = 1"
)toml"));
  ASSERT_FALSE(reference);
  EXPECT_NE(reference.error().message.find("negative extent"), std::string::npos) << reference.error().text();
  EXPECT_EQ(reference.error().line, 7);
}

// What only data can show.
Error evaluation_error(const std::string& formula, const std::string& shape = "8") {
  const std::string text = contract_text(R"toml([dims]
N = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.i]
dtype = "i64"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
)toml" + formula + "\n\"\"\"\n");
  const Contract contract = parsed(text);
  Bindings bindings;
  const int64_t n = std::stoll(shape);
  bindings.shape = {{"N", n}};
  bindings.inputs["x"] = normal(DType::f32, {n}, 1);
  bindings.inputs["i"] = uniform_integers(DType::i64, {n}, 5, 9, 2);
  Result<Expectation> e = reference_of(contract).expect_all(bindings, "y");
  EXPECT_FALSE(e) << formula;
  return e ? Error{} : e.error();
}

TEST(Errors, OfEvaluationHaveThePlaceToo) {
  EXPECT_NE(evaluation_error("y[n] = x[i[n]]").message.find("guard it with `if`"), std::string::npos);
  EXPECT_NE(evaluation_error("y[n] = mean[k in 0..n](x[k])").message.find("mean of no elements"),
            std::string::npos);
  EXPECT_NE(evaluation_error("y[n] = argmax[k in 0..n](x[k])").message.find("argmax of no elements"),
            std::string::npos);
  EXPECT_NE(evaluation_error("y[n / 2] = x[n]").message.find("assigned twice"), std::string::npos);
  EXPECT_NE(evaluation_error("y[n] = x[n] * (i[n]^40 % 7)").message.find("64 bits"), std::string::npos);
  EXPECT_NE(evaluation_error("y[n] = x[n] * (i[n] % (i[n] - i[n]))").message.find("divided by zero"),
            std::string::npos);
  const Error error = evaluation_error("y[n] = 0 * x[n] +\n  x[i[n]]");
  EXPECT_EQ(error.line, 20);
  EXPECT_EQ(error.column, 3);
  EXPECT_EQ(error.source_line, "  x[i[n]]");
}

TEST(Errors, MissingInputsAreNamed) {
  const Contract contract = parsed(kGood);
  Bindings bindings;
  bindings.shape = {{"N", 4}, {"D", 8}};
  bindings.inputs["ids"] = uniform_integers(DType::i32, {4}, 0, 3, 1);
  Result<Expectation> e = reference_of(contract).expect_all(bindings, "y");
  ASSERT_FALSE(e);
  EXPECT_NE(e.error().message.find("`x` is missing"), std::string::npos);
  bindings.inputs["x"] = normal(DType::bf16, {4, 9}, 1);
  e = reference_of(contract).expect_all(bindings, "y");
  ASSERT_FALSE(e);
  EXPECT_NE(e.error().message.find("dtype and shape"), std::string::npos);
}

}  // namespace
}  // namespace assay::reference
