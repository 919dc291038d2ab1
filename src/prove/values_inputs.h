// Inputs of any size, made as they are read.
//
// An element is a function of its index alone, so a tensor of 2^31 elements costs nothing but the parts that a block
// looks at: the kernel's blocks that are run, and the formula for the elements that they store. Both see the same
// values. The function picks from a few thousand values that were drawn as a trial draws them (trial/families.h), so
// they are what the contract allows; offsets, which must rise, rise evenly.
//
//   auto inputs = ValuesInputs::make(contract, shape, scalars, choice);
//   inputs->copy(*contract.tensor("x"), first, count, bytes);                   // for the device
//   reference.expect(inputs->bindings(), "y", elements, inputs->options(false)); // for the formula
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/bindings.h"
#include "reference/reference.h"
#include "trial/trial.h"

namespace assay::prove {

class ValuesInputs {
 public:
  // `choice` picks the family of each input: 0 gives natural values, others the families in turn (of integers, every other
  // one natural). Errors: an input that only the problem's own generator can make; more memory than there is.
  static Result<ValuesInputs> make(const contract::Contract& contract, const contract::Shape& shape,
                                   uint64_t choice);

  const contract::Bindings& bindings() const { return bindings_; }
  // The same shape, scalars and families as a trial.
  const trial::Trial& trial() const { return trial_; }
  // With which bindings() is to be evaluated.
  reference::BudgetOptions options(bool tensor_cores);

  // The bytes of these elements, as they are before the call.
  void copy(const contract::TensorSpec& tensor, int64_t first, int64_t count, std::byte* to) const;

 private:
  struct Values {
    contract::Tensor drawn;    // some values, of which each element is one
    int64_t offsets_end = -1;  // offsets: the last one; -1: it holds none
    int64_t count = 0;         // elements of the input
    uint64_t seed = 0;
    std::shared_ptr<contract::Tensor> tensor;  // what the formula reads, made as far as `made` says
    std::vector<bool> made;                    // by part of kPart elements
  };
  bool make_read(const std::string& input, std::span<const int64_t> elements);

  contract::Bindings bindings_;
  trial::Trial trial_;
  std::map<std::string, Values, std::less<>> values_;
  int64_t left_ = 0;  // elements that may still be made for the formula
};

}  // namespace assay::prove
