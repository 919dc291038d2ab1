#include "cudart/properties.h"

#include <cstring>

namespace assay::cudart {
namespace {

constexpr int kUnknown = -2147483647;

constexpr int find_attribute(int attribute) {
  switch (attribute) {
#define ATTRIBUTE(number, value) \
  case number:                   \
    return value;
#include "cudart/h200.def"
    default:
      return kUnknown;
  }
}

// Fields that are attributes under another name.
template <class Field>
void take(Field& field, int attribute) {
  field = static_cast<Field>(find_attribute(attribute));
}

template <size_t N>
void take_all(int (&fields)[N], const int (&attributes)[N]) {
  for (size_t i = 0; i < N; ++i) take(fields[i], attributes[i]);
}

void take_textures(DeviceProperties& p) {
  take(p.texture_1d, 21);
  take(p.texture_1d_mipmap, 77);
  take_all(p.texture_2d, {22, 23});
  take_all(p.texture_2d_mipmap, {73, 74});
  take_all(p.texture_2d_linear, {70, 71, 72});
  take_all(p.texture_2d_gather, {45, 46});
  take_all(p.texture_3d, {24, 25, 26});
  take_all(p.texture_3d_alt, {47, 48, 49});
  take(p.texture_cubemap, 52);
  take_all(p.texture_1d_layered, {42, 43});
  take_all(p.texture_2d_layered, {27, 28, 29});
  take_all(p.texture_cubemap_layered, {53, 54});
  take(p.surface_1d, 55);
  take_all(p.surface_2d, {56, 57});
  take_all(p.surface_3d, {58, 59, 60});
  take_all(p.surface_1d_layered, {61, 62});
  take_all(p.surface_2d_layered, {63, 64, 65});
  take(p.surface_cubemap, 66);
  take_all(p.surface_cubemap_layered, {67, 68});
  take(p.surface_alignment, 30);
  take(p.texture_alignment, 14);
  take(p.texture_pitch_alignment, 51);
}

void take_limits(DeviceProperties& p) {
  take(p.shared_per_block, 8);
  take(p.registers_per_block, 12);
  take(p.warp_size, 10);
  take(p.max_pitch, 11);
  take(p.max_threads_per_block, 1);
  take_all(p.max_block, {2, 3, 4});
  take_all(p.max_grid, {5, 6, 7});
  take(p.const_bytes, 9);
  take(p.multiprocessors, 16);
  take(p.memory_bus_width, 37);
  take(p.l2_bytes, 38);
  take(p.persisting_l2_bytes, 108);
  take(p.threads_per_multiprocessor, 39);
  take(p.shared_per_multiprocessor, 81);
  take(p.registers_per_multiprocessor, 82);
  take(p.shared_per_block_optin, 97);
  take(p.blocks_per_multiprocessor, 106);
  take(p.access_policy_window, 109);
  take(p.reserved_shared_per_block, 111);
  take(p.async_engines, 40);
}

void take_abilities(DeviceProperties& p) {
  take(p.major, 75);
  take(p.minor, 76);
  take(p.integrated, 18);
  take(p.can_map_host, 19);
  take(p.concurrent_kernels, 31);
  take(p.ecc, 32);
  take(p.pci_bus, 33);
  take(p.pci_device, 34);
  take(p.pci_domain, 50);
  take(p.tcc, 35);
  take(p.unified_addressing, 41);
  take(p.stream_priorities, 78);
  take(p.global_l1, 79);
  take(p.local_l1, 80);
  take(p.managed_memory, 83);
  take(p.multi_gpu_board, 84);
  take(p.multi_gpu_group, 85);
  take(p.host_native_atomics, 86);
  take(p.pageable_access, 88);
  take(p.concurrent_managed, 89);
  take(p.compute_preemption, 90);
  take(p.host_pointer_for_registered, 91);
  take(p.cooperative, 95);
  take(p.pageable_uses_host_tables, 100);
  take(p.direct_managed, 101);
  take(p.host_register, 99);
  take(p.sparse_arrays, 112);
  take(p.host_register_read_only, 113);
  take(p.timeline_semaphores, 114);
  take(p.memory_pools, 115);
  take(p.rdma, 116);
  take(p.rdma_flush, 117);
  take(p.rdma_ordering, 118);
  take(p.pool_handle_kinds, 119);
  take(p.cluster_launch, 120);
  take(p.deferred_arrays, 121);
  take(p.ipc_events, 125);
  take(p.unified_function_pointers, 129);
  take(p.numa_config, 130);
  take(p.numa_id, 131);
  take(p.mps, 133);
  take(p.host_numa_id, 134);
  take(p.pci_device_id, 139);
  take(p.pci_subsystem_id, 140);
  take(p.host_numa_multinode, 143);
}

}  // namespace

std::optional<int> device_attribute(int attribute) {
  int value = find_attribute(attribute);
  return value == kUnknown ? std::nullopt : std::optional(value);
}

DeviceProperties device_properties() {
  DeviceProperties properties;
  std::memset(&properties, 0, sizeof properties);
  std::strcpy(properties.name, "NVIDIA H200");
  std::memcpy(properties.uuid, "assay virtualGPU", sizeof properties.uuid);
  properties.global_bytes = kGlobalBytes;
  take_limits(properties);
  take_abilities(properties);
  take_textures(properties);
  return properties;
}

}  // namespace assay::cudart
