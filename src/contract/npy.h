// .npy files that are a part of something else (tensor.h has those on disk).
#pragma once

#include <string>

#include "contract/tensor.h"

namespace assay::contract {

// The bytes of such a file; `name` is what errors call it.
std::string encode_npy(const Tensor& tensor);
Result<Tensor> decode_npy(const std::string& bytes, const std::string& name, DType dtype);

}  // namespace assay::contract
