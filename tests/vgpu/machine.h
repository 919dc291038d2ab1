// A device with one module, for tests: arrays in, one launch, arrays out.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "vgpu/device.h"

namespace assay::vgpu::testing {

class Machine {
 public:
  explicit Machine(const std::string& body, Options options = {}) : device_(with_print(std::move(options))) {
    const std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n" + body;
    Result<Device::ModuleId> module = device_.load(text, "test.ptx");
    if (!module) {
      ADD_FAILURE() << module.error().text();
      return;
    }
    module_ = *module;
  }

  template <class T>
  Address array(const std::vector<T>& values, std::string label = "array") {
    const uint64_t bytes = values.size() * sizeof(T);
    Result<Address> place = device_.memory().allocate(bytes, 256, MemoryKind::Device, std::move(label));
    if (!place) {
      ADD_FAILURE() << place.error().text();
      return 0;
    }
    std::memcpy(device_.memory().host(*place, bytes), values.data(), bytes);
    device_.memory().mark_initialised(*place, bytes);
    return *place;
  }

  template <class T>
  std::vector<T> read(Address address, size_t count) {
    std::vector<T> values(count);
    const std::byte* host = device_.memory().host(address, count * sizeof(T));
    if (host)
      std::memcpy(values.data(), host, count * sizeof(T));
    else
      ADD_FAILURE() << "not readable";
    return values;
  }

  // Every parameter is 8 bytes.
  LaunchOutcome launch(const std::string& kernel, Dim3 grid, Dim3 block,
                       std::initializer_list<uint64_t> parameters, LaunchConfig config = {}) {
    Result<Kernel> found = device_.kernel(module_, kernel);
    if (!found) {
      ADD_FAILURE() << found.error().text();
      return {};
    }
    config.grid = grid;
    config.block = block;
    std::vector<std::byte> bytes(parameters.size() * 8);
    size_t at = 0;
    for (uint64_t p : parameters) std::memcpy(bytes.data() + 8 * at++, &p, 8);
    return device_.launch(*found, config, std::move(bytes));
  }

  Device& device() { return device_; }
  std::string printed;

 private:
  Device device_;
  Device::ModuleId module_ = 0;

  Options with_print(Options options) {
    options.print = [this](std::string_view text) { printed += text; };
    return options;
  }
};

}  // namespace assay::vgpu::testing
