// What a report draws of one trial: small arrays, whatever the size of the outputs.
//
// Example:
//
//     const Outputs outputs = {{"dw", std::make_shared<const contract::Tensor>(dw)}};
//     auto pictures = draw(contract, reference, bindings, outputs);    // the error over the output, its distribution
//     auto sheets = tabulate(contract, reference, bindings, outputs);  // the numbers of a small trial
#pragma once

#include <array>
#include <string>
#include <vector>

#include "judge/judge.h"
#include "judge/numbers.h"

namespace assay::judge {

// The error of one output. Its unit is the budget: the standard deviation that rounding is expected to give
// it.
struct Picture {
  static constexpr int kSide = 128;    // most cells along a side of the grid
  static constexpr int kBins = 60;     // of the histogram, over -kRange to kRange
  static constexpr double kRange = 6;  // in units of the budget
  static constexpr int kMostPoints = 2000;

  std::string output;
  std::string dtype;
  std::vector<int64_t> extents;
  int64_t rows = 0, columns = 0;  // of the output as a matrix: its last extent, and all others
  int64_t elements = 0, judged = 0, outside = 0;

  // Row-major; the largest error of each cell's elements, in units of the budget. NaN: none was judged.
  // Infinity: a result that has no finite error (NaN, infinity, a wrong integer).
  int grid_rows = 0, grid_columns = 0;
  std::vector<float> grid;

  // Of (stored - exact) / budget: below the range, the bins, above it.
  std::array<int64_t, kBins + 2> histogram{};

  struct Point {
    float magnitude;  // |exact|
    float error;      // |stored - exact|
    float budget;     // one standard deviation
    float hits;       // terms of the element's sum
    bool admitted;
  };
  std::vector<Point> points;  // all that are outside as far as there is room, and others at random
  bool hits_vary = false;     // elements are sums of different lengths: a scatter
};

// The numbers of one tensor; of outputs also what they should be.
struct Sheet {
  static constexpr int64_t kMostValues = 512;

  std::string name, dtype;
  std::vector<int64_t> extents;
  bool is_output = false;
  bool is_cut = false;  // only the first values are here
  std::vector<double> values;
  std::vector<double> exact, low, high;  // of outputs; beside `values`
  std::vector<bool> admitted;
  std::vector<std::string> texts;  // of `values`, each with the digits that its type needs
  static constexpr int64_t kMostLooked = 1 << 14;
  struct Wrong {
    int64_t at;    // linear index; may lie beyond `values`
    double error;  // its size
    evidence::ComparedText text;
  };
  std::vector<Wrong> wrong;  // of outputs, among the first kMostLooked elements
};

Result<std::vector<Picture>> draw(const contract::Contract& contract, const reference::Reference& reference,
                                  const contract::Bindings& bindings, const Outputs& outputs,
                                  const Options& options = {});

Result<std::vector<Sheet>> tabulate(const contract::Contract& contract, const reference::Reference& reference,
                                    const contract::Bindings& bindings, const Outputs& outputs,
                                    const Options& options = {});

}  // namespace assay::judge
