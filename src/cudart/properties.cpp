#include "cudart/properties.h"

#include <cstring>

#include "base/random.h"

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

// What an H200 can do and the virtual GPU does not provide: cuMemCreate, cuMemMap and what belongs to them. kUnknown:
// nothing of the kind.
constexpr int missing_ability(int attribute) {
  switch (attribute) {
    case 102:  // virtual memory management
    case 103:  // export of such memory as a file descriptor
    case 110:  // and to other devices
    case 128:  // and over the fabric
    case 141:  // such memory on the host, of a NUMA node
    case 145:  // and of any
      return 0;
    default:
      return kUnknown;
  }
}

// What differs between GPUs of one architecture; kUnknown: nothing does.
constexpr int own_attribute(const Gpu& gpu, int attribute) {
  switch (attribute) {
    case 13:
      return gpu.clock_khz;
    case 16:
      return static_cast<int>(gpu.multiprocessors);
    case 33:
      return gpu.pci_bus;
    case 34:
      return gpu.pci_device;
    case 36:
      return gpu.memory_clock_khz;
    case 37:
      return gpu.bus_bits;
    case 38:
      return gpu.l2_bytes;
    case 40:
      return gpu.copy_engines;
    case 108:
      return gpu.l2_bytes / 8 * 5;  // that may be set aside for persisting accesses
    default:
      return kUnknown;
  }
}

int attribute_of(const Gpu& gpu, int attribute) {
  for (const int own : {missing_ability(attribute), own_attribute(gpu, attribute)})
    if (own != kUnknown) return own;
  return find_attribute(attribute);
}

// Fields that are attributes under another name.
template <class Field>
void take(const Gpu& gpu, Field& field, int attribute) {
  field = static_cast<Field>(attribute_of(gpu, attribute));
}

template <size_t N>
void take_all(const Gpu& gpu, int (&fields)[N], const int (&attributes)[N]) {
  for (size_t i = 0; i < N; ++i) take(gpu, fields[i], attributes[i]);
}

void take_textures(const Gpu& gpu, DeviceProperties& p) {
  take(gpu, p.texture_1d, 21);
  take(gpu, p.texture_1d_mipmap, 77);
  take_all(gpu, p.texture_2d, {22, 23});
  take_all(gpu, p.texture_2d_mipmap, {73, 74});
  take_all(gpu, p.texture_2d_linear, {70, 71, 72});
  take_all(gpu, p.texture_2d_gather, {45, 46});
  take_all(gpu, p.texture_3d, {24, 25, 26});
  take_all(gpu, p.texture_3d_alt, {47, 48, 49});
  take(gpu, p.texture_cubemap, 52);
  take_all(gpu, p.texture_1d_layered, {42, 43});
  take_all(gpu, p.texture_2d_layered, {27, 28, 29});
  take_all(gpu, p.texture_cubemap_layered, {53, 54});
  take(gpu, p.surface_1d, 55);
  take_all(gpu, p.surface_2d, {56, 57});
  take_all(gpu, p.surface_3d, {58, 59, 60});
  take_all(gpu, p.surface_1d_layered, {61, 62});
  take_all(gpu, p.surface_2d_layered, {63, 64, 65});
  take(gpu, p.surface_cubemap, 66);
  take_all(gpu, p.surface_cubemap_layered, {67, 68});
  take(gpu, p.surface_alignment, 30);
  take(gpu, p.texture_alignment, 14);
  take(gpu, p.texture_pitch_alignment, 51);
}

void take_limits(const Gpu& gpu, DeviceProperties& p) {
  take(gpu, p.shared_per_block, 8);
  take(gpu, p.registers_per_block, 12);
  take(gpu, p.warp_size, 10);
  take(gpu, p.max_pitch, 11);
  take(gpu, p.max_threads_per_block, 1);
  take_all(gpu, p.max_block, {2, 3, 4});
  take_all(gpu, p.max_grid, {5, 6, 7});
  take(gpu, p.const_bytes, 9);
  take(gpu, p.multiprocessors, 16);
  take(gpu, p.memory_bus_width, 37);
  take(gpu, p.l2_bytes, 38);
  take(gpu, p.persisting_l2_bytes, 108);
  take(gpu, p.threads_per_multiprocessor, 39);
  take(gpu, p.shared_per_multiprocessor, 81);
  take(gpu, p.registers_per_multiprocessor, 82);
  take(gpu, p.shared_per_block_optin, 97);
  take(gpu, p.blocks_per_multiprocessor, 106);
  take(gpu, p.access_policy_window, 109);
  take(gpu, p.reserved_shared_per_block, 111);
  take(gpu, p.async_engines, 40);
}

void take_abilities(const Gpu& gpu, DeviceProperties& p) {
  take(gpu, p.major, 75);
  take(gpu, p.minor, 76);
  take(gpu, p.integrated, 18);
  take(gpu, p.can_map_host, 19);
  take(gpu, p.concurrent_kernels, 31);
  take(gpu, p.ecc, 32);
  take(gpu, p.pci_bus, 33);
  take(gpu, p.pci_device, 34);
  take(gpu, p.pci_domain, 50);
  take(gpu, p.tcc, 35);
  take(gpu, p.unified_addressing, 41);
  take(gpu, p.stream_priorities, 78);
  take(gpu, p.global_l1, 79);
  take(gpu, p.local_l1, 80);
  take(gpu, p.managed_memory, 83);
  take(gpu, p.multi_gpu_board, 84);
  take(gpu, p.multi_gpu_group, 85);
  take(gpu, p.host_native_atomics, 86);
  take(gpu, p.pageable_access, 88);
  take(gpu, p.concurrent_managed, 89);
  take(gpu, p.compute_preemption, 90);
  take(gpu, p.host_pointer_for_registered, 91);
  take(gpu, p.cooperative, 95);
  take(gpu, p.pageable_uses_host_tables, 100);
  take(gpu, p.direct_managed, 101);
  take(gpu, p.host_register, 99);
  take(gpu, p.sparse_arrays, 112);
  take(gpu, p.host_register_read_only, 113);
  take(gpu, p.timeline_semaphores, 114);
  take(gpu, p.memory_pools, 115);
  take(gpu, p.rdma, 116);
  take(gpu, p.rdma_flush, 117);
  take(gpu, p.rdma_ordering, 118);
  take(gpu, p.pool_handle_kinds, 119);
  take(gpu, p.cluster_launch, 120);
  take(gpu, p.deferred_arrays, 121);
  take(gpu, p.ipc_events, 125);
  take(gpu, p.unified_function_pointers, 129);
  take(gpu, p.numa_config, 130);
  take(gpu, p.numa_id, 131);
  take(gpu, p.mps, 133);
  take(gpu, p.host_numa_id, 134);
  take(gpu, p.pci_device_id, 139);
  take(gpu, p.pci_subsystem_id, 140);
  take(gpu, p.host_numa_multinode, 143);
}

// A random one as of RFC 4122, the same for equal GPUs.
template <size_t N>
void fill_uuid(const Gpu& gpu, char (&uuid)[N]) {
  Random random(hash(gpu.name));
  for (char& byte : uuid) byte = static_cast<char>(random.bits() >> 56);
  uuid[6] = static_cast<char>((uuid[6] & 0x0f) | 0x40);
  uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
}

}  // namespace

std::optional<int> device_attribute(const Gpu& gpu, int attribute) {
  const int value = attribute_of(gpu, attribute);
  return value == kUnknown ? std::nullopt : std::optional(value);
}

DeviceProperties device_properties(const Gpu& gpu) {
  DeviceProperties properties;
  std::memset(&properties, 0, sizeof properties);
  gpu.name.copy(properties.name, sizeof properties.name - 1);
  fill_uuid(gpu, properties.uuid);
  properties.global_bytes = gpu.bytes;
  take_limits(gpu, properties);
  take_abilities(gpu, properties);
  take_textures(gpu, properties);
  return properties;
}

}  // namespace assay::cudart
