// A machine that is followed, and compiled kernels, for the tests.
#pragma once

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "folders.h"
#include "numerics/lanes.h"
#include "shadow/shadow.h"
#include "vgpu/machine.h"

namespace assay::shadow {

struct Shadowed {
  Shadow shadow;
  vgpu::testing::Machine machine;

  explicit Shadowed(const std::string& body) : machine(body, options(&shadow)) {
    shadow.watch(machine.device().memory());
  }
  static vgpu::Options options(Shadow* shadow) {
    vgpu::Options o;
    o.threads = 1;
    o.instrumenter = shadow;
    return o;
  }
  std::byte* host(vgpu::Address address, uint64_t bytes) {
    return machine.device().memory().host(address, bytes);
  }
  // value − error: what FP64 says.
  double truth_f32(vgpu::Address address, size_t i) {
    std::byte* at = host(address + 4 * i, 4);
    float v;
    std::memcpy(&v, at, 4);
    return static_cast<double>(v) - shadow.error_at(at, 4);
  }
  double truth_bf16(vgpu::Address address, size_t i) {
    std::byte* at = host(address + 2 * i, 2);
    uint16_t v;
    std::memcpy(&v, at, 2);
    return static_cast<double>(numerics::bf16_to_f32(v)) - shadow.error_at(at, 2);
  }
  Profile profile_of(vgpu::Address address, uint64_t bytes) {
    shadow.take_output("out", host(address, bytes), bytes);
    return shadow.profile();
  }
};

inline std::vector<float> random_floats(size_t n, float low = 0.5f, float high = 1.5f, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(low, high);
  std::vector<float> all(n);
  for (float& x : all) x = number(random);
  return all;
}

// The PTX of kernels/NAME.ptx, without the lines that a Machine writes itself.
inline std::string compiled(const std::string& name) {
  std::ifstream file(std::string(kSourceFolder) + "/tests/shadow/kernels/" + name + ".ptx");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return text.substr(text.find(".address_size") + 16);
}

}  // namespace assay::shadow
