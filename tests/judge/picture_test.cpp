// Pictures hold what the outputs hold: nothing is lost by making them small.
#include "judge/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace assay::judge {
namespace {

constexpr std::string_view kPictured = R"toml(
[kernel]
source = "k.cu"
entry  = "k"
args   = ["x", "rows", "y", "N", "V", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
V = { min = 1, max = 4096 }
D = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
[tensors.rows]
dtype = "i32"
shape = ["N"]
values = "index(V)"
[tensors.y]
dtype = "f32"
shape = ["V", "D"]
role = "out"
[reference]
formula = "y[rows[n], d] += x[n, d]"
)toml";

// All terms go to row 0, except the last two, which go to row 1.
struct Scatter {
  contract::Contract contract;
  reference::Reference reference;
  contract::Bindings bindings;
  contract::Tensor y;

  Scatter(int64_t terms, int64_t rows, int64_t columns)
      : contract(*contract::parse(kPictured, "k.toml")),
        reference(*reference::Reference::make(contract)),
        y(contract::Tensor::zeros(contract::DType::f32, {rows, columns})) {
    auto x = contract::Tensor::zeros(contract::DType::f32, {terms, columns});
    auto index = contract::Tensor::zeros(contract::DType::i32, {terms});
    for (int64_t n = 0; n < terms; ++n) {
      index.store_int(n, n + 2 >= terms ? 1 : 0);
      for (int64_t d = 0; d < columns; ++d) {
        const double value = 1 + 0.25 * static_cast<double>((n * 7 + d) % 5);
        x.store(n * columns + d, value);
        const int64_t at = index.load_int(n) * columns + d;
        y.store(at, y.load(at) + value);
      }
    }
    bindings.shape = {{"N", terms}, {"V", rows}, {"D", columns}};
    bindings.inputs["x"] = std::make_shared<contract::Tensor>(x);
    bindings.inputs["rows"] = std::make_shared<contract::Tensor>(index);
  }

  Outputs outputs() const { return {{"y", std::make_shared<contract::Tensor>(y)}}; }
  Picture picture() const {
    const auto pictures = draw(contract, reference, bindings, outputs());
    EXPECT_TRUE(pictures) << pictures.error().text();
    EXPECT_EQ(pictures->size(), 1u);
    return pictures->front();
  }
};

int64_t total(const Picture& picture) {
  return std::accumulate(picture.histogram.begin(), picture.histogram.end(), int64_t{0});
}

TEST(Picture, OfARightResultIsCalm) {
  const Picture picture = Scatter(40, 3, 5).picture();
  EXPECT_EQ(picture.output, "y");
  EXPECT_EQ(picture.outside, 0);
  EXPECT_EQ(picture.grid_rows, 3);
  EXPECT_EQ(picture.grid_columns, 5);
  EXPECT_THAT(picture.grid, ::testing::Each(::testing::Le(1.0f)));
  EXPECT_EQ(total(picture), 10);  // nothing was ever added to the last row
  EXPECT_EQ(picture.histogram.front() + picture.histogram.back(), 0);
  EXPECT_TRUE(picture.hits_vary);
}

TEST(Picture, ShowsAWrongElementWhereItIs) {
  Scatter scatter(40, 3, 5);
  scatter.y.store(1 * 5 + 3, 77);
  scatter.y.store(2 * 5 + 4, std::nan(""));
  const Picture picture = scatter.picture();
  EXPECT_EQ(picture.outside, 2);
  EXPECT_GT(picture.grid[1 * 5 + 3], 100.0f);
  EXPECT_TRUE(std::isinf(picture.grid[2 * 5 + 4]));
  EXPECT_LE(picture.grid[0], 1.0f);
  EXPECT_GE(picture.histogram.back(), 1);
  const auto wrong = std::count_if(picture.points.begin(), picture.points.end(),
                                   [](const Picture::Point& point) { return !point.admitted; });
  EXPECT_EQ(wrong, 1);  // NaN has no place among the points
}

TEST(Picture, OfALargeOutputIsSmallAndLosesNoError) {
  Scatter scatter(4, 300, 500);
  scatter.y.store(299 * 500 + 499, 5);
  const Picture picture = scatter.picture();
  EXPECT_EQ(picture.grid_rows, Picture::kSide);
  EXPECT_EQ(picture.grid_columns, Picture::kSide);
  EXPECT_EQ(picture.rows, 300);
  EXPECT_GT(picture.grid.back(), 6.0f);
  EXPECT_EQ(picture.outside, 1);
  EXPECT_LE(picture.points.size(), static_cast<std::size_t>(Picture::kMostPoints));
}

TEST(Sheets, HoldInputsAndWhatOutputsShouldBe) {
  Scatter scatter(3, 2, 2);
  scatter.y.store(1, 9);
  const auto sheets = tabulate(scatter.contract, scatter.reference, scatter.bindings, scatter.outputs());
  ASSERT_TRUE(sheets);
  ASSERT_EQ(sheets->size(), 3u);
  const Sheet& y = sheets->back();
  EXPECT_TRUE(y.is_output);
  EXPECT_FALSE(y.is_cut);
  EXPECT_EQ(y.values[1], 9);
  EXPECT_EQ(y.admitted, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(y.exact[0], y.values[0]);
  EXPECT_EQ(y.texts[1], "9");
  ASSERT_EQ(y.wrong.size(), 1u);
  EXPECT_EQ(y.wrong[0].at, 1);
  EXPECT_EQ(y.wrong[0].text.stored, "9");
  EXPECT_LE(y.low[0], y.exact[0]);
  EXPECT_GE(y.high[0], y.exact[0]);
}

}  // namespace
}  // namespace assay::judge
