#include "judge/defect_match.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace assay::judge::testing {
namespace {

using contract::DType;
using contract::Tensor;

// Each element by itself, some with an exp that overflows f32 on the way to a result of 0.
struct ElementWise {
  contract::Contract contract;
  reference::Reference reference;
  contract::Bindings bindings;

  ElementWise() {
    auto parsed = contract::parse(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "g", "y", "stream"]
[tensors.x]
dtype = "f32"
shape = [1024]
[tensors.g]
dtype = "f32"
shape = [1024]
[tensors.y]
dtype = "bf16"
shape = [1024]
role = "out"
[reference]
formula = "y[i] = exp(x[i]) * g[i]"
)toml");
    EXPECT_TRUE(parsed) << parsed.error().text();
    contract = std::move(*parsed);
    auto made = reference::Reference::make(contract);
    EXPECT_TRUE(made) << made.error().text();
    reference = std::move(*made);
    std::vector<double> x, g;
    for (int i = 0; i < 1024; ++i) {
      x.push_back(i % 16 != 0 ? 100 : 0.001 * i);
      g.push_back(i % 16 != 0 ? 0 : 1 + 0.0007 * i);
    }
    bindings.inputs["x"] = std::make_shared<Tensor>(Tensor::of(DType::f32, {1024}, x));
    bindings.inputs["g"] = std::make_shared<Tensor>(Tensor::of(DType::f32, {1024}, g));
  }

  // What match_defect says of a kernel that stores these.
  std::optional<DefectMatch> match(const std::function<double(int, double)>& stored) const {
    const auto expected = reference.expect_all(bindings, "y");
    EXPECT_TRUE(expected) << expected.error().text();
    Tensor tensor = Tensor::zeros(DType::bf16, {1024});
    for (int i = 0; i < 1024; ++i) tensor.store(i, stored(i, expected->value[static_cast<std::size_t>(i)]));
    Margins margins;
    return match_defect(reference, bindings, measure("y", tensor, *expected, {}), {}, margins);
  }
};

double truncated(double value) {
  const auto code = numerics::from_double(numerics::Format::BF16, value, numerics::Rounding::TowardZero);
  return numerics::to_double(numerics::Format::BF16, code);
}

// Every simulation has the NaN of inf * 0, so it is the mark of none. Some of the others are off by a rounding, as those of any sum in another
// order are.
TEST(DefectMatch, NanThatASoundKernelHasTooIsEvidenceForNoDefect) {
  const ElementWise test;
  const auto match = test.match([](int i, double value) {
    return i % 16 != 0 ? NAN : i % 128 == 0 ? value * (1 + 0x1p-7) : value;
  });
  EXPECT_FALSE(match) << match->description;
}

TEST(DefectMatch, TheOtherElementsStillTell) {
  const ElementWise test;
  const auto match = test.match([](int i, double value) { return i % 16 != 0 ? NAN : truncated(value); });
  ASSERT_TRUE(match);
  EXPECT_EQ(match->defect.name, "truncating-store");
}

}  // namespace
}  // namespace assay::judge::testing
