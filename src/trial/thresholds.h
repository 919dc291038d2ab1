// Values of dims around the constants in a kernel's own code, and the shapes of real models.
//
// A kernel that takes another path for `cols > 8192 && cols % 8 == 0` has to be tried on both sides of 8192,
// with and without the divisor; one that asks for `rows * cols > 1 << 20`, with a product above that. The
// constants only add trials: one that has nothing to do with a size costs a trial and no more.
#pragma once

#include <vector>

#include "base/size_constants.h"
#include "trial/shapes.h"

namespace assay::trial {

class Thresholds {
 public:
  Thresholds(const contract::Contract& contract, SizeConstants constants);

  // Legal values of one dim around the constants, the most telling first.
  std::vector<int64_t> values(const contract::Dim& dim) const;
  // Of these, and before the others, those that a pass requires.
  std::vector<int64_t> required(const contract::Dim& dim) const;
  // Sizes of segments, none above `most`, the smallest first: about the constants, with the remainders, and where tiles end.
  struct Sizes {
    std::vector<int64_t> required, others;
  };
  Sizes sizes(int64_t most) const;
  // Just beyond a constant, the most telling first.
  std::vector<int64_t> beyond(int64_t most) const;
  // One shape for each pair of dims that pass a threshold, or have a remainder, together; other dims are
  // small.
  std::vector<contract::Shape> pairs() const;
  // Shapes in which the product of two dims is just above a constant that some dim may take, or that none may: such a
  // constant cannot be anything but a product.
  enum class Reach : uint8_t { ByADim, ByProductsOnly };
  std::vector<contract::Shape> products(Reach reach) const;

  // The constants that some dim may take, or the product of two: for the report.
  const std::vector<int64_t>& compared() const { return constants_.compared; }

 private:
  std::vector<int64_t> sides(const contract::Dim& dim) const;

  const contract::Contract& contract_;
  SizeConstants constants_;
  std::vector<int64_t> all_;     // compared with, the ordinary ones among them
  std::vector<int64_t> beyond_;  // compared with: beyond which sizes with a remainder are required
  std::vector<Residue> joint_;   // remainders that one size can have at once, as one
};

// Hidden sizes, head sizes, vocabularies and sequence lengths of well-known models, and large multiples of 4,
// 8 and 16 that are not multiples of more; as far as the dim may take them.
std::vector<int64_t> model_sizes(const contract::Dim& dim);

}  // namespace assay::trial
