// Contexts: created ones, the primary one, what is current on a thread, and the runtime beside them.
#include <thread>

#include "support.h"

namespace assay::driver::test {
namespace {

TEST(Contexts, NothingWorksBeforeInit) {
  EXPECT_EQ(in_child([](Api& api) {
              int count = 0;
              void* memory = nullptr;
              NEED(api("cuDeviceGetCount", &count) == Status::InitializationError);
              NEED(api("cuMemAlloc_v2", &memory, size_t{16}) == Status::InitializationError);
              NEED(api("cuInit", 1u) == Status::InvalidValue);
              NEED_OK(api("cuInit", 0u));
              NEED_OK(api("cuDeviceGetCount", &count));
              NEED(count == 1);
              NEED(api("cuMemAlloc_v2", &memory, size_t{16}) == Status::DeviceUninitialized);
              return 0;
            }),
            0);
}

TEST(Contexts, AStackForEachThread) {
  EXPECT_EQ(in_child([](Api& api) {
              ContextHandle *first = nullptr, *second = nullptr, *found = nullptr;
              NEED_OK(api("cuInit", 0u));
              NEED_OK(api("cuCtxGetCurrent", &found));
              NEED(!found);
              NEED_OK(api("cuCtxCreate_v2", &first, 4u, 0));
              NEED_OK(api("cuCtxCreate_v4", &second, static_cast<void*>(nullptr), 0u, 0));
              NEED_OK(api("cuCtxGetCurrent", &found));
              NEED(found == second && first != second);
              NEED_OK(api("cuCtxPopCurrent_v2", &found));
              NEED(found == second);
              NEED_OK(api("cuCtxGetCurrent", &found));
              NEED(found == first);
              unsigned flags = 0;
              NEED_OK(api("cuCtxGetFlags", &flags));
              NEED((flags & 7) == 4);
              bool other_thread_has_none = false;
              std::thread([&] {
                ContextHandle* other = first;
                api("cuCtxGetCurrent", &other);
                other_thread_has_none = !other && api("cuCtxSynchronize") == Status::DeviceUninitialized;
              }).join();
              NEED(other_thread_has_none);
              unsigned long long ids[2];
              NEED_OK(api("cuCtxGetId", first, &ids[0]));
              NEED_OK(api("cuCtxGetId", second, &ids[1]));
              NEED(ids[0] != ids[1]);
              NEED_OK(api("cuCtxSetCurrent", static_cast<ContextHandle*>(nullptr)));
              NEED(api("cuCtxPopCurrent_v2", &found) == Status::DeviceUninitialized);
              NEED_OK(api("cuCtxPushCurrent_v2", second));
              NEED_OK(api("cuCtxDestroy_v2", second));
              NEED(api("cuCtxPushCurrent_v2", second) != Status::Success);
              NEED_OK(api("cuCtxDestroy_v2", first));
              return 0;
            }),
            0);
}

TEST(Contexts, ADestroyedOneIsRefusedWhereItIsStillCurrent) {
  EXPECT_EQ(in_child([](Api& api) {
              ContextHandle *lasting = nullptr, *destroyed = nullptr, *top = nullptr;
              NEED_OK(api("cuInit", 0u));
              NEED_OK(api("cuCtxCreate_v2", &destroyed, 0u, 0));
              NEED_OK(api("cuCtxCreate_v2", &lasting, 0u, 0));
              NEED_OK(api("cuCtxDestroy_v2", destroyed));  // below the top of the stack
              NEED_OK(api("cuCtxSynchronize"));
              NEED_OK(api("cuCtxPopCurrent_v2", &top));
              NEED(api("cuCtxSynchronize") == Status::ContextIsDestroyed);
              return 0;
            }),
            0);
}

TEST(Contexts, MemoryGoesWithTheLastContext) {
  EXPECT_EQ(in_child([](Api& api) {
              ContextHandle *first = nullptr, *second = nullptr;
              void* memory = nullptr;
              size_t before = 0, after = 0, total = 0;
              NEED_OK(api("cuInit", 0u));
              NEED_OK(api("cuCtxCreate_v2", &first, 0u, 0));
              NEED_OK(api("cuMemGetInfo_v2", &before, &total));
              NEED_OK(api("cuMemAlloc_v2", &memory, size_t{1} << 20));
              NEED_OK(api("cuCtxCreate_v2", &second, 0u, 0));
              NEED_OK(api("cuCtxDestroy_v2", first));
              // Contexts separate nothing here.
              if (kIsOurs) NEED_OK(api("cuMemsetD8_v2", memory, static_cast<unsigned char>(1), size_t{16}));
              NEED_OK(api("cuCtxDestroy_v2", second));
              NEED_OK(api("cuCtxCreate_v2", &first, 0u, 0));
              NEED_OK(api("cuMemGetInfo_v2", &after, &total));
              NEED(after == before);
              NEED(api("cuMemFree_v2", memory) == Status::InvalidValue);
              return 0;
            }),
            0);
}

TEST(Contexts, ThePrimaryOneIsTheRuntimes) {
  EXPECT_EQ(in_child([](Api& api) {
              ContextHandle *primary = nullptr, *found = nullptr;
              unsigned flags = 0;
              int active = -1;
              NEED_OK(api("cuInit", 0u));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 0);
              NEED_OK(api("cudaFree", static_cast<void*>(nullptr)));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 1);
              NEED_OK(api("cuDevicePrimaryCtxRetain", &primary, 0));
              NEED_OK(api("cuCtxGetCurrent", &found));
              NEED(found == primary);
              bool other_thread_has_none = false;
              std::thread([&] {
                ContextHandle* other = primary;
                other_thread_has_none = api("cuCtxGetCurrent", &other) == Status::Success && !other;
              }).join();
              NEED(other_thread_has_none);
              NEED_OK(api("cuDevicePrimaryCtxRelease_v2", 0));
              NEED(api("cuDevicePrimaryCtxRetain", &primary, 1) == Status::InvalidDevice);
              return 0;
            }),
            0);
}

TEST(Contexts, ThePrimaryOneIsCounted) {
  EXPECT_EQ(in_child([](Api& api) {
              ContextHandle *first = nullptr, *second = nullptr;
              unsigned flags = 0;
              int active = -1;
              NEED_OK(api("cuInit", 0u));
              NEED(api("cuDevicePrimaryCtxRelease_v2", 0) == Status::DeviceUninitialized);
              NEED_OK(api("cuDevicePrimaryCtxRetain", &first, 0));
              NEED_OK(api("cuDevicePrimaryCtxRetain", &second, 0));
              NEED(first == second);
              NEED_OK(api("cuDevicePrimaryCtxRelease_v2", 0));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 1);
              NEED_OK(api("cuDevicePrimaryCtxRelease_v2", 0));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 0);
              return 0;
            }),
            0);
}

// Any call of the runtime initialises the driver, as cuInit does.
TEST(Contexts, TheRuntimeInitialisesTheDriver) {
  EXPECT_EQ(in_child([](Api& api) {
              int count = 0, active = -1;
              unsigned flags = 0;
              NEED_OK(api("cudaGetDeviceCount", &count));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 0);
              NEED_OK(api("cudaSetDevice", 0));
              NEED_OK(api("cuDevicePrimaryCtxGetState", 0, &flags, &active));
              NEED(active == 1);
              return 0;
            }),
            0);
}

// Errors of the driver API are returned, and are not the runtime's last error.
TEST(Contexts, TheRuntimesLastErrorIsItsOwn) {
  EXPECT_EQ(in_child([](Api& api) {
              NEED_OK(api("cudaFree", static_cast<void*>(nullptr)));
              NEED(api("cuMemFree_v2", reinterpret_cast<void*>(0x1234)) == Status::InvalidValue);
              NEED_OK(api("cudaGetLastError"));
              NEED(api("cudaFree", reinterpret_cast<void*>(0x1234)) == Status::InvalidValue);
              NEED_OK(api("cuCtxSynchronize"));
              NEED(api("cudaGetLastError") == Status::InvalidValue);
              return 0;
            }),
            0);
}

TEST(Contexts, LimitsAndPriorities) {
  EXPECT_EQ(in_context([](Api& api) {
              size_t stack = 0;
              NEED_OK(api("cuCtxSetLimit", cudart::Limit::StackSize, size_t{4096}));
              NEED_OK(api("cuCtxGetLimit", &stack, cudart::Limit::StackSize));
              NEED(stack == 4096);
              int least = -1, greatest = 1, device = 7;
              NEED_OK(api("cuCtxGetStreamPriorityRange", &least, &greatest));
              NEED(least == 0 && greatest < 0);
              NEED_OK(api("cuCtxGetDevice", &device));
              NEED(device == 0);
              return 0;
            }),
            0);
}

TEST(Device, SaysWhatItIs) {
  EXPECT_EQ(in_child([](Api& api) {
              NEED_OK(api("cuInit", 0u));
              int device = 5, major = 0, minor = -1, version = 0, threads = 0;
              char name[64], shortened[4];
              size_t bytes = 0;
              NEED_OK(api("cuDeviceGet", &device, 0));
              NEED(device == 0);
              NEED(api("cuDeviceGet", &device, 1) == Status::InvalidDevice);
              NEED_OK(api("cuDeviceGetName", name, 64, 0));
              NEED_OK(api("cuDeviceGetName", shortened, 4, 0));
              NEED(std::string(name).substr(0, 3) == shortened);
              NEED_OK(api("cuDeviceComputeCapability", &major, &minor, 0));
              NEED(major == 9 && minor == 0);
              NEED_OK(api("cuDriverGetVersion", &version));
              NEED(version >= 13000);
              NEED_OK(api("cuDeviceGetAttribute", &threads, 1, 0));
              NEED(threads == 1024);
              // What cuMemCreate and cuMemMap are needed for is not there, and so it says.
              NEED(api("cuMemAddressReserve", &bytes, size_t{1} << 21, size_t{0}, size_t{0}, uint64_t{0}) ==
                   Status::NotSupported);
              for (const int ability : {102, 103, 110, 128, 141, 145}) {
                int provided = -1;
                NEED_OK(api("cuDeviceGetAttribute", &provided, ability, 0));
                NEED(provided == 0);
              }
              NEED_OK(api("cuDeviceTotalMem_v2", &bytes, 0));
              NEED(bytes > size_t{1} << 30);
              const char* text = nullptr;
              NEED_OK(api("cuGetErrorName", Status::DeviceUninitialized, &text));
              NEED(std::string(text) == "CUDA_ERROR_INVALID_CONTEXT");
              NEED_OK(api("cuGetErrorString", Status::InvalidValue, &text));
              NEED(std::string(text) == "invalid argument");
              NEED(api("cuGetErrorName", static_cast<Status>(12345), &text) == Status::InvalidValue && !text);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace assay::driver::test
