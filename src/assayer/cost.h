// How long a trial will take, estimated from those that ran.
//
// Time goes with the formula's steps, at a rate that depends on what there is many of: rows may be blocks,
// and columns a loop. So there is a rate for each dim, used by the shapes in which it is the largest; and
// what one more of that dim costs at least, since a block for every row costs the same however short the row.
#pragma once

#include <map>
#include <string>

#include "trial/work.h"

namespace assay::assayer {

class Cost {
 public:
  explicit Cost(const contract::Contract& contract) : work_(contract) {}

  void learn(const contract::Shape& shape, double seconds);
  // Seconds; what nothing is known of is taken to be as fast as an ordinary kernel.
  double predict(const contract::Shape& shape) const;
  // Whether that comes from trials in which the same dim was the largest.
  bool knows(const contract::Shape& shape) const;

 private:
  struct Rate {
    double steps = 0;     // of the largest trial, from which the rate comes
    double per_step = 0;  // seconds
    double per_unit = 0;  // the least that one more of the dim was seen to cost
  };
  trial::Work work_;
  std::map<std::string, Rate> rates_;  // by the largest dim
};

}  // namespace assay::assayer
