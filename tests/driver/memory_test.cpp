// Allocation, copies, fills, and what a pointer is.
#include <cstring>
#include <numeric>
#include <vector>

#include "support.h"

namespace assay::driver::test {
namespace {

using cudart::StreamHandle;

TEST(Memory, AllocatesOfAllKinds) {
  EXPECT_EQ(in_context([](Api& api) {
              void *device = nullptr, *managed = nullptr, *host = nullptr, *seen = nullptr,
                   *pitched = nullptr;
              size_t pitch = 0;
              unsigned flags = 0;
              NEED(api("cuMemAlloc_v2", &device, size_t{0}) == Status::InvalidValue);
              NEED_OK(api("cuMemAlloc_v2", &device, size_t{64}));
              NEED_OK(api("cuMemAllocManaged", &managed, size_t{64}, 1u));
              NEED_OK(api("cuMemHostAlloc", &host, size_t{64}, 2u));
              NEED_OK(api("cuMemAllocPitch_v2", &pitched, &pitch, size_t{100}, size_t{4}, 4u));
              NEED(pitch >= 100 && pitch % 32 == 0);
              NEED_OK(api("cuMemHostGetDevicePointer_v2", &seen, host, 0u));
              NEED_OK(api("cuMemHostGetFlags", &flags, host));
              NEED(flags & 2);
              std::memset(managed, 5, 64);
              std::memset(host, 6, 64);
              char back[64];
              NEED_OK(api("cuMemcpyDtoD_v2", device, managed, size_t{64}));
              NEED_OK(api("cuMemcpyDtoH_v2", static_cast<void*>(back), device, size_t{64}));
              NEED(back[63] == 5);
              NEED_OK(api("cuMemcpy", device, seen, size_t{64}));
              NEED_OK(api("cuMemcpyDtoH_v2", static_cast<void*>(back), device, size_t{64}));
              NEED(back[0] == 6);
              for (void* pointer : {device, managed, pitched}) NEED_OK(api("cuMemFree_v2", pointer));
              NEED_OK(api("cuMemFreeHost", host));
              NEED(api("cuMemFree_v2", device) == Status::InvalidValue);
              std::vector<char> own(4096);
              NEED_OK(api("cuMemHostRegister_v2", static_cast<void*>(own.data()), own.size(), 0u));
              NEED(api("cuMemHostRegister_v2", static_cast<void*>(own.data()), own.size(), 0u) ==
                   Status::HostMemoryAlreadyRegistered);
              NEED_OK(api("cuMemHostUnregister", static_cast<void*>(own.data())));
              return 0;
            }),
            0);
}

TEST(Memory, PoolsAreStreamOrdered) {
  EXPECT_EQ(in_context([](Api& api) {
              StreamHandle* stream = nullptr;
              cudart::PoolHandle *pool = nullptr, *found = nullptr;
              void* pointer = nullptr;
              uint64_t used = 0;
              NEED_OK(api("cuStreamCreate", &stream, 0u));
              NEED_OK(api("cuDeviceGetDefaultMemPool", &pool, 0));
              cudart::MemoryLocation here{1, 0}, nowhere{1, 7};
              NEED_OK(api("cuMemGetDefaultMemPool", &found, &here, 1));
              NEED(found == pool);
              NEED(api("cuMemGetMemPool", &found, &nowhere, 1) != Status::Success);
              NEED_OK(api("cuMemAllocAsync", &pointer, size_t{4096}, stream));
              NEED_OK(api("cuMemPoolGetAttribute", pool, cudart::PoolAttribute::UsedCurrent, &used));
              NEED(used >= 4096);
              NEED_OK(api("cuPointerGetAttribute", &found, PointerAttribute::PoolHandle, pointer));
              NEED(found == pool);
              NEED_OK(api("cuMemFreeAsync", pointer, stream));
              NEED_OK(api("cuStreamSynchronize", stream));
              return 0;
            }),
            0);
}

TEST(Memory, FillsWithElementsOfAllSizes) {
  EXPECT_EQ(
      in_context([](Api& api) {
        void* device = nullptr;
        uint32_t host[16];
        NEED_OK(api("cuMemAlloc_v2", &device, sizeof host));
        NEED_OK(api("cuMemsetD32_v2", device, 0x01020304u, size_t{16}));
        NEED_OK(api("cuMemsetD16_v2", device, static_cast<unsigned short>(0xabcd), size_t{2}));
        auto* second = static_cast<char*>(device) + 4;
        NEED_OK(api("cuMemsetD8Async", static_cast<void*>(second), static_cast<unsigned char>(9), size_t{1},
                    kNone));
        // The first element of each of two rows of 32 bytes, of which the second starts at host[8].
        auto* row = static_cast<char*>(device) + 12;
        NEED_OK(api("cuMemsetD2D32_v2", static_cast<void*>(row), size_t{32}, 77u, size_t{1}, size_t{2}));
        NEED_OK(api("cuMemcpyDtoH_v2", static_cast<void*>(host), device, sizeof host));
        NEED(host[0] == 0xabcdabcd && host[1] == 0x01020309 && host[2] == 0x01020304);
        NEED(host[3] == 77 && host[11] == 77 && host[4] == 0x01020304);
        NEED(api("cuMemsetD32_v2", static_cast<void*>(second + 1), 1u, size_t{1}) == Status::InvalidValue);
        return 0;
      }),
      0);
}

TEST(Memory, CopiesRowsAndSlices) {
  EXPECT_EQ(in_context([](Api& api) {
              // 2 slices of 3 rows of 8 bytes; the middle 4 bytes of the last two rows of the second slice go to
              // the device and from there to the first rows of a buffer with rows of 16 bytes.
              unsigned char from[2 * 3 * 8], to[2 * 16] = {};
              std::iota(std::begin(from), std::end(from), static_cast<unsigned char>(0));
              void* device = nullptr;
              size_t pitch = 0;
              NEED_OK(api("cuMemAllocPitch_v2", &device, &pitch, size_t{4}, size_t{2}, 4u));
              DriverCopy3D upload{};
              upload.from = {
                  .x = 2, .y = 1, .z = 1, .type = MemoryType::Host, .host = from, .pitch = 8, .height = 3};
              upload.to = {.type = MemoryType::Device, .device = device, .pitch = pitch, .height = 2};
              upload.width = 4;
              upload.height = 2;
              upload.depth = 1;
              NEED_OK(api("cuMemcpy3D_v2", &upload));
              DriverCopy2D download{};
              download.from = {.type = MemoryType::Unified, .device = device, .pitch = pitch};
              download.to = {.type = MemoryType::Host, .host = to, .pitch = 16};
              download.width = 4;
              download.height = 2;
              NEED_OK(api("cuMemcpy2DAsync_v2", &download, kNone));
              NEED_OK(api("cuCtxSynchronize"));
              const unsigned char first = 24 + 8 + 2;  // second slice, second row, third byte
              for (unsigned char i = 0; i < 4; ++i) {
                NEED(to[i] == first + i);
                NEED(to[16 + i] == first + 8 + i);
              }
              download.to.type = MemoryType::Array;
              if (kIsOurs) NEED(api("cuMemcpy2D_v2", &download) == Status::NotSupported);
              return 0;
            }),
            0);
}

TEST(Pointers, SayWhatTheyPointTo) {
  EXPECT_EQ(in_context([](Api& api) {
              void *device = nullptr, *host = nullptr, *managed = nullptr;
              NEED_OK(api("cuMemAlloc_v2", &device, size_t{256}));
              NEED_OK(api("cuMemAllocHost_v2", &host, size_t{256}));
              NEED_OK(api("cuMemAllocManaged", &managed, size_t{256}, 1u));
              auto* inside = static_cast<void*>(static_cast<char*>(device) + 100);
              void *found = nullptr, *start = nullptr;
              size_t bytes = 0;
              MemoryType type{};
              int ordinal = -1;
              NEED_OK(api("cuPointerGetAttribute", &found, PointerAttribute::DevicePointer, inside));
              NEED(found == inside);
              NEED_OK(api("cuPointerGetAttribute", &type, PointerAttribute::MemoryType, inside));
              NEED(type == MemoryType::Device);
              NEED_OK(api("cuPointerGetAttribute", &type, PointerAttribute::MemoryType, host));
              NEED(type == MemoryType::Host);
              NEED_OK(api("cuPointerGetAttribute", &ordinal, PointerAttribute::DeviceOrdinal, inside));
              NEED(ordinal == 0);
              NEED(api("cuPointerGetAttribute", &found, PointerAttribute::HostPointer, device) ==
                   Status::InvalidValue);
              NEED_OK(api("cuPointerGetAttribute", &found, PointerAttribute::HostPointer, managed));
              NEED(found == managed);
              unsigned is_managed = 0;
              NEED_OK(api("cuPointerGetAttribute", &is_managed, PointerAttribute::IsManaged, managed));
              NEED(is_managed);
              NEED_OK(api("cuMemGetAddressRange_v2", &start, &bytes, inside));
              NEED(start == device && bytes == 256);
              NEED(api("cuMemGetAddressRange_v2", &start, &bytes, static_cast<void*>(&api)) ==
                   Status::SymbolNotFound);
              return 0;
            }),
            0);
}

// Memory that CUDA knows nothing of is an error of one question and zeros to several.
TEST(Pointers, ForeignOnes) {
  EXPECT_EQ(in_context([](Api& api) {
              int local = 0, ordinal = 7;
              void *pointer = &local, *device = &local;
              MemoryType type = MemoryType::Device;
              NEED(api("cuPointerGetAttribute", &device, PointerAttribute::DevicePointer, pointer) ==
                   Status::InvalidValue);
              PointerAttribute attributes[] = {PointerAttribute::DevicePointer, PointerAttribute::MemoryType,
                                               PointerAttribute::DeviceOrdinal};
              void* to[] = {&device, &type, &ordinal};
              NEED_OK(api("cuPointerGetAttributes", 3u, attributes, to, pointer));
              NEED(!device && static_cast<int>(type) == 0 && ordinal == -2);
              attributes[0] = PointerAttribute::HostPointer;
              NEED_OK(api("cuPointerGetAttributes", 1u, attributes, to, pointer));
              NEED(device == pointer);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace assay::driver::test
