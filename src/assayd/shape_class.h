// Classes of shapes, as a label of metrics: "rows<=64,columns<=4096". Faults that depend on the shape (a tail that is not
// guarded, a batch of one) show in one class and not in the others. Sizes are rounded up to powers of two, and only the first
// classes of a kernel get names: Prometheus keeps a series for each.
//
// Example:
//
//     ByShapeClass<uint64_t> judged;
//     ++judged.at(shape_class(contract, {{"n", 100}}));
//     use(judged.all().at("n<=128"));
#pragma once

#include <map>
#include <string>

#include "contract/contract.h"

namespace assay::assayd {

// Dims with one legal value are left out; where there are no others, "fixed".
std::string shape_class(const contract::Contract& contract, const contract::Shape& shape);

// Of samples that cannot be read.
inline constexpr const char* kUnknownShape = "unknown";
// Of shapes beyond the first classes.
inline constexpr const char* kOtherShapes = "other";
inline constexpr std::size_t kMostShapeClasses = 16;

template <class Item>
class ByShapeClass {
 public:
  Item& at(const std::string& shape_class) {
    const bool is_named = shape_class == kUnknownShape || all_.contains(shape_class);
    if (!is_named && named_ == kMostShapeClasses) return all_[kOtherShapes];
    named_ += !is_named;
    return all_[shape_class];
  }
  const std::map<std::string, Item>& all() const { return all_; }

 private:
  std::map<std::string, Item> all_;
  std::size_t named_ = 0;
};

}  // namespace assay::assayd
