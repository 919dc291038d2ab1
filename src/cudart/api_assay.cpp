// What the virtual device offers beyond CUDA, to whoever drives it through this library.
#include "cudart/runtime.h"

using namespace assay::cudart;
using assay::vgpu::Address;

// The order of warps, blocks and streams of what is launched from now on.
ASSAY_API void assay_set_seed(uint64_t seed) {
  (void)api([&](Context& context) {
    context.streams().with_device([&](assay::vgpu::Device& device) { device.set_seed(seed); });
    context.streams().set_seed(seed);
    return Status::Success;
  });
}

// These bytes count as never written.
ASSAY_API void assay_undefine(void* pointer, size_t bytes) {
  (void)api([&](Context& context) {
    context.memory().mark_initialised(reinterpret_cast<Address>(pointer), bytes, false);
    return Status::Success;
  });
}

// What messages call the allocation that starts here.
ASSAY_API void assay_label(void* pointer, const char* label) {
  (void)api([&](Context& context) {
    if (label) context.memory().relabel(reinterpret_cast<Address>(pointer), label);
    return Status::Success;
  });
}
