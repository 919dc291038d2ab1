// The GPUs that the virtual device can present itself as: what a kernel built for sm_90 meets in practice.
//
// The limits of a multiprocessor (threads, registers, shared memory) are the same on all of them; what a GPU
// has of everything else differs. The first is the default, and the only one whose figures were read from a
// device. The others are close to what NVIDIA publishes, not exact: multiprocessors and memory sizes matter to
// kernels and are meant to be right; clocks, bus widths and the exact number of bytes only have to differ from
// GPU to GPU. `bytes` is what cudaMemGetInfo gives as the total. A slice ("MIG") has its share of memory, L2
// and bus.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

struct Gpu {
  std::string_view id;    // in trials and settings
  std::string_view name;  // as cudaGetDeviceProperties gives it
  uint32_t multiprocessors;
  uint64_t bytes;
  int clock_khz, memory_clock_khz;
  int bus_bits;
  int l2_bytes;
  int copy_engines;
  int pci_bus, pci_device;
  bool slice = false;
};

inline constexpr Gpu kGpus[] = {
    {"h200", "NVIDIA H200", 132, 150109880320, 1980000, 3201000, 6016, 60 << 20, 3, 0, 6},
    {"h100-mig-1g", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 10334765056, 1980000, 2619000, 640, 6553600, 1,
     24, 0, true},
    {"h20", "NVIDIA H20", 78, 102031949824, 1980000, 2619000, 6144, 60 << 20, 3, 59, 0},
    {"h100", "NVIDIA H100 80GB HBM3", 132, 85029158912, 1980000, 2619000, 5120, 50 << 20, 3, 76, 0},
    {"h100-mig-3g", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60, 42278584320, 1980000, 2619000, 2560, 25 << 20, 3,
     93, 0, true},
    {"h100-pcie", "NVIDIA H100 PCIe", 114, 84942979072, 1755000, 1593000, 5120, 50 << 20, 3, 129, 0},
    {"h100-mig-2g", "NVIDIA H100 80GB HBM3 MIG 2g.20gb", 32, 21072183296, 1980000, 2619000, 1280, 13107200, 2,
     155, 0, true},
    {"h100-nvl", "NVIDIA H100 NVL", 132, 99926605824, 1785000, 2619000, 6016, 60 << 20, 3, 171, 0},
    // Without its access to the host's page tables: kernels see host memory as on the others.
    {"gh200", "NVIDIA GH200 480GB", 132, 101468602368, 1980000, 2619000, 6144, 60 << 20, 3, 1, 0},
};

// The GPU with this id; null if there is none.
constexpr const Gpu* gpu_named(std::string_view id) {
  for (const Gpu& gpu : kGpus)
    if (gpu.id == id) return &gpu;
  return nullptr;
}

}  // namespace assay
