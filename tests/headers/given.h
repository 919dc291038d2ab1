// What the examples in headers take as given (examples.py compiles them): parameters of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "contract/bindings.h"
#include "finding/json.h"
#include "finding/message.h"
#include "protocol/settings.h"
#include "reference/reference.h"
#include "subject/runner.h"
#include "trial/trial.h"
#include "vgpu/device.h"

namespace assay {

template <class... T>
void use(const T&...) {}

}  // namespace assay

// dw is an output, library the bytes of a shared object.
#define GIVEN                                                                                    \
  const assay::contract::Contract &contract, const assay::contract::Bindings &bindings,          \
      const assay::reference::Reference &reference, const assay::contract::Tensor &dw,           \
      const assay::trial::Trial &trial, const std::string &ptx_text, const std::string &library, \
      assay::vgpu::Device &device, assay::vgpu::Address address, uint64_t bytes,                 \
      const std::vector<std::byte>&parameters
