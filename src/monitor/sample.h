// A sample: the arguments of one call, its inputs and its outputs, as bytes in a slot of the ring.
//
// Example:
//
//     CallShape call{contract};
//     void* const* args = nullptr;                      // as cudaLaunchKernel takes them
//     Result<CallArguments> read = call.read(args);
//     for (const Image& image : read->images) use(image.name, image.bytes, image.device);
//
// The application knows the images, memory as the kernel has it, and where they are on the device; it copies them, inputs
// before the call and outputs after it, and puts encode_sample() before them. assayd turns them into tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "contract/bindings.h"
#include "monitor/capture.h"

namespace assay::monitor {

// Memory of a tensor.
struct Image {
  std::string name;
  uint64_t device = 0;  // the address
  int64_t bytes = 0;
  bool after = false;  // the call has written it; false: as it was before
};

struct CallArguments {
  contract::Shape shape;
  std::map<std::string, contract::Scalar, std::less<>> scalars;
  std::vector<Image> images;  // inputs first, then outputs; none of a tensor that is absent
  int64_t bytes = 0;          // of all images
};

// How to read the arguments of a call from pointers to them, in the order of the contract's `args`.
class CallShape {
 public:
  explicit CallShape(const contract::Contract& contract);

  // An Error: a shape that the contract does not promise.
  Result<CallArguments> read(void* const* args) const;
  // A number for the shape, for a look-up that must be cheap.
  uint64_t shape_hash(void* const* args) const;
  // Whether the dims that the images need are among the arguments; else a line that says which is not.
  std::string unreadable() const;

 private:
  const contract::Contract& contract_;
  struct DimArgument {
    std::size_t at = 0, bytes = 0;
  };
  std::vector<DimArgument> dims_;
};

struct Sample {
  uint64_t call = 0;  // of this process, from 1
  contract::Bindings bindings;
  CapturedOutputs outputs;
  CapturedOutputs trusted;  // what the trusted kernel gave for the same inputs, in the mode shadow
};

// What precedes the images in a slot. `is_shadow`: the images of the outputs follow once more, from the trusted kernel.
std::string encode_sample(const CallArguments& call, uint64_t number, bool is_shadow);
Result<Sample> decode_sample(const contract::Contract& contract, std::span<const std::byte> slot);

}  // namespace assay::monitor
