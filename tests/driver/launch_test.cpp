// Launches: parameters as pointers and packed, configurations with attributes, occupancy.
#include "support.h"

namespace assay::driver::test {
namespace {

using cudart::FunctionEntry;
using cudart::StreamHandle;

TEST(Launches, TakeParametersAsPointers) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        uint32_t x = 100;
        void* parameters[] = {&add.numbers, &x};
        NEED_OK(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, kNone, parameters, kNone));
        NEED(add.grown_by(api, 300));
        NEED_OK(
            api("cuLaunchKernel_ptsz", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, kNone, parameters, kNone));
        NEED_OK(api("cuCtxSynchronize"));
        NEED(add.grown_by(api, 600));
        return 0;
      }),
      0);
}

TEST(Launches, TakeParametersPacked) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        struct {
          void* numbers;
          uint32_t x;
        } packed{add.numbers, 7};
        size_t bytes = 12;
        void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes, nullptr};
        NEED_OK(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, kNone, kNone, extra));
        NEED(add.grown_by(api, 21));
        void* parameters[] = {&packed.numbers, &packed.x};
        NEED(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, kNone, parameters, extra) ==
             Status::InvalidValue);
        return 0;
      }),
      0);
}

TEST(Launches, TakeAConfigurationWithAttributes) {
  EXPECT_EQ(in_context([](Api& api) {
              Add add;
              NEED(add.prepare(api) == 0);
              StreamHandle* stream = nullptr;
              NEED_OK(api("cuStreamCreate", &stream, 1u));
              uint32_t x = 1;
              void* parameters[] = {&add.numbers, &x};
              cudart::LaunchAttribute cluster{};
              cluster.id = cudart::AttributeId::ClusterDimension;
              cluster.value.dim = {2, 1, 1};
              DriverLaunchConfiguration configuration{{1, 1, 1}, {32, 1, 1}, 0, stream, &cluster, 1};
              NEED(api("cuLaunchKernelEx", &configuration, add.kernel, parameters, kNone) ==
                   Status::InvalidClusterSize);  // one block is no cluster of two
              configuration.attribute_count = 0;
              NEED_OK(api("cuLaunchKernelEx", &configuration, add.kernel, parameters, kNone));
              NEED_OK(api("cuStreamSynchronize", stream));
              NEED(add.grown_by(api, 3));
              NEED_OK(api("cuLaunchCooperativeKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream,
                          parameters));
              NEED(api("cuLaunchCooperativeKernel", add.kernel, 1u << 20, 1u, 1u, 32u, 1u, 1u, 0u, stream,
                       parameters) == Status::CooperativeLaunchTooLarge);
              NEED_OK(api("cuStreamSynchronize", stream));
              NEED(add.grown_by(api, 6));
              return 0;
            }),
            0);
}

TEST(Launches, WrongOnesAreRefused) {
  EXPECT_EQ(in_context([](Api& api) {
              Add add;
              NEED(add.prepare(api) == 0);
              uint32_t x = 1;
              void* parameters[] = {&add.numbers, &x};
              NEED(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 2048u, 1u, 1u, 0u, kNone, parameters,
                       kNone) == Status::InvalidValue);
              NEED(api("cuLaunchKernel", kNone, 1u, 1u, 1u, 32u, 1u, 1u, 0u, kNone, parameters, kNone) ==
                   Status::InvalidResourceHandle);
              NEED(api("cuLaunchKernelEx", kNone, add.kernel, parameters, kNone) == Status::InvalidValue);
              NEED(add.grown_by(api, 0));
              return 0;
            }),
            0);
}

TEST(Kernels, AttributesAndOccupancy) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        int value = -1, blocks = 0, grid = 0, block = 0;
        NEED_OK(api("cuFuncGetAttribute", &value, KernelAttribute::SharedBytes, add.kernel));
        NEED(value == 0);
        NEED_OK(api("cuFuncSetAttribute", add.kernel, KernelAttribute::MaxDynamicShared, 100 * 1024));
        NEED_OK(api("cuFuncGetAttribute", &value, KernelAttribute::MaxDynamicShared, add.kernel));
        NEED(value == 100 * 1024);
        NEED(api("cuFuncSetAttribute", add.kernel, KernelAttribute::MaxDynamicShared, 1 << 20) ==
             Status::InvalidValue);
        NEED(api("cuFuncGetAttribute", &value, static_cast<KernelAttribute>(99), add.kernel) ==
             Status::InvalidValue);
        NEED_OK(api("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, add.kernel, 1024, size_t{0}));
        NEED(blocks == 2);
        NEED_OK(api("cuOccupancyMaxPotentialBlockSize", &grid, &block, add.kernel, kNone, size_t{0}, 0));
        NEED(block == 1024 && grid == 2 * 132);
        NEED_OK(api("cuOccupancyMaxPotentialBlockSize", &grid, &block, add.kernel, kNone, size_t{0}, 100));
        NEED(block == 64 && grid == 32 * 132);
        return 0;
      }),
      0);
}

}  // namespace
}  // namespace assay::driver::test
