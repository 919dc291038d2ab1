// Inputs of any size, made as they are read: those of a trial of which a sample of the blocks is run.
//
// An element is a function of its index (base/generated_values.h), so a tensor of 2^32 elements costs nothing but the parts
// that somebody looks at: the kernel's blocks that are run, and the formula for the elements that they store. Both see
// the same values. The function picks from a few thousand values that were drawn as for any trial (families.h), so
// they are what the contract allows; offsets, which must rise, rise evenly.
//
// Example:
//
//     Result<GeneratedInputs> inputs = GeneratedInputs::make(contract, trial);
//     const int64_t element = 1'000'000'000;
//     inputs->make_read("x", std::span(&element, 1));  // the reference says so before it reads
//     use(inputs->bindings().inputs.at("x"));
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/generated_values.h"
#include "trial/trial.h"

namespace assay::trial {

// What an input of the trial holds. An error: it cannot be made element by element.
Result<GeneratedValues> generated_values(const contract::TensorSpec& spec, const Trial& trial);

class GeneratedInputs {
 public:
  static Result<GeneratedInputs> make(const contract::Contract& contract, const Trial& trial);

  // Tensors of which only the elements are there that were named to make_read().
  const contract::Bindings& bindings() const { return bindings_; }
  // Called before these elements of an input are read, from any thread. False: no more can be made.
  bool make_read(const std::string& input, std::span<const int64_t> elements);

 private:
  struct Input {
    GeneratedValues values;
    std::shared_ptr<contract::Tensor> tensor;
    std::vector<bool> made;  // by part
  };
  contract::Bindings bindings_;
  std::map<std::string, Input, std::less<>> inputs_;
  int64_t left_ = 0;  // parts that may still be made
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace assay::trial
