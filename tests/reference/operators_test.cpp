// The exact reference against an independent evaluation: NumPy in extended
// precision (operators.py), for every operator of operators.cpp.
#include "operators.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "folders.h"

namespace assay::reference {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  return text;
}

void write_job(const fs::path& folder, const Contract& contract, const Bindings& bindings) {
  fs::create_directories(folder);
  std::vector<std::string> inputs, outputs;
  std::string dims, scalars;
  for (const TensorSpec* spec : contract.inputs()) {
    inputs.push_back(spec->name);
    const std::string path = (folder / (spec->name + ".npy")).string();
    const Tensor& tensor = *bindings.inputs.at(spec->name);
    ASSERT_TRUE(is_float(spec->dtype) ? write_npy_f64(path, tensor) : write_npy(path, tensor));
  }
  for (const TensorSpec* spec : contract.outputs()) outputs.push_back(spec->name);
  for (const auto& [name, value] : bindings.shape)
    dims += fmt::format("{}\"{}\": {}", dims.empty() ? "" : ", ", name, value);
  for (const auto& [name, value] : bindings.scalars)
    scalars += fmt::format("{}\"{}\": {:.17g}", scalars.empty() ? "" : ", ", name, value.as_double());
  std::ofstream(folder / "job.json") << fmt::format(
      R"({{"dims": {{{}}}, "scalars": {{{}}}, "inputs": [{}], "outputs": [{}]}})", dims, scalars,
      list_of(inputs), list_of(outputs));
}

TEST(Operators, AgreeWithNumPyInExtendedPrecision) {
  ASSERT_GE(operators().size(), 40u);
  const fs::path root = fs::path(kBinaryFolder) / "operators_test";
  fs::remove_all(root);
  for (const Operator& op : operators()) {
    const Contract contract = parsed(toml_of(op));
    ASSERT_FALSE(contract.shapes.empty()) << op.name;
    write_job(root / op.name, contract, draw_bindings(contract, 11));
  }
  const std::string command =
      fmt::format("/usr/bin/python3 {}/tests/reference/operators.py {}", kSourceFolder, root.string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const Operator& op : operators()) {
    SCOPED_TRACE(op.name);
    const Contract contract = parsed(toml_of(op));
    const Bindings bindings = draw_bindings(contract, 11);
    for (const TensorSpec* spec : contract.outputs()) {
      const Expectation e = expected(contract, bindings, spec->name);
      Result<Tensor> truth = read_npy_f64((root / op.name / (spec->name + ".out.npy")).string());
      ASSERT_TRUE(truth) << truth.error().text();
      ASSERT_EQ(static_cast<int64_t>(e.size()), truth->count());
      int wrong = 0;
      for (std::size_t i = 0; i < e.size() && wrong < 3; ++i) {
        const double v = truth->load(static_cast<int64_t>(i));
        // The reference's own error must not matter next to the budget.
        const double room = 1e-6 * e.bound[i] + 4e-16 * std::abs(v) + 1e-15 * e.magnitude[i];
        const bool same = v == e.value[i] || std::abs(e.value[i] - v) <= room;
        wrong += !same;
        EXPECT_TRUE(same) << spec->name << " " << i << ": " << e.value[i] << " is not " << v << ", bound "
                          << e.bound[i];
        EXPECT_TRUE(e.admits(i, rounded(spec->dtype, v))) << spec->name << " " << i;
        EXPECT_GE(e.sigma[i], 0);
        if (is_float(spec->dtype) && std::isfinite(v)) {
          EXPECT_LE(e.low[i], e.high[i]);
          EXPECT_LE(e.sigma_rest[i], 1.5 * e.bound[i] + 1e-300) << "a deviation beyond the worst case";
        }
      }
    }
  }
}

// A sound evaluation in the declared precision, in the order of the formula, is
// within the budget everywhere, for many inputs.
TEST(Operators, ASoundEvaluationIsAdmitted) {
  for (const Operator& op : operators()) {
    SCOPED_TRACE(op.name);
    const Contract contract = parsed(toml_of(op));
    const Reference reference = reference_of(contract);
    for (unsigned seed = 1; seed <= 8; ++seed) {
      const Bindings bindings = draw_bindings(contract, seed);
      for (const TensorSpec* spec : contract.outputs()) {
        const Expectation e = expected(contract, bindings, spec->name);
        Result<std::vector<double>> got = reference.simulate(bindings, spec->name, e.element);
        ASSERT_TRUE(got) << got.error().text();
        int outside = 0;
        for (std::size_t i = 0; i < e.size(); ++i) {
          const bool in = e.admits(i, (*got)[i]);
          outside += !in;
          if (!in && outside < 3)
            ADD_FAILURE() << spec->name << " " << i << ": " << (*got)[i] << " for " << e.value[i] << " +- "
                          << e.bound[i];
        }
        EXPECT_EQ(outside, 0);
      }
    }
  }
}

}  // namespace
}  // namespace assay::reference
