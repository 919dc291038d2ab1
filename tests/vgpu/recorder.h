// A listener that keeps what it heard, for tests.
#pragma once

#include "machine.h"

namespace assay::vgpu::testing {

inline Options one_thread(bool watch) {
  Options options;
  options.threads = 1;
  options.watch = watch;
  return options;
}

struct Recorder : Listener {
  struct Seen {
    Violation what;
    uint32_t lanes;
    Address address;
    ptx::Space space;
  };
  std::vector<Seen> violations;
  std::vector<Access> accesses;
  std::vector<std::vector<Address>> addresses;
  void on_violation(const Warp&, const Inst&, const ViolationInfo& info) override {
    violations.push_back({info.what, info.lanes, info.address, info.space});
  }
  void on_access(const Warp&, const Inst&, const Access& access) override {
    accesses.push_back(access);
    addresses.emplace_back(access.addresses, access.addresses + kWarpSize);
  }
  size_t count(Violation what) const {
    size_t n = 0;
    for (const Seen& seen : violations) n += seen.what == what;
    return n;
  }
};

}  // namespace assay::vgpu::testing
