// Streams, events and graphs.
#include "support.h"

namespace assay::driver::test {
namespace {

using cudart::EventHandle;
using cudart::GraphExec;
using cudart::GraphHandle;
using cudart::GraphNode;
using cudart::StreamHandle;

TEST(Streams, OrderWorkThroughEvents) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        StreamHandle *first = nullptr, *second = nullptr;
        EventHandle *start = nullptr, *end = nullptr;
        NEED_OK(api("cuStreamCreate", &first, 1u));
        NEED_OK(api("cuStreamCreateWithPriority", &second, 1u, -1));
        NEED_OK(api("cuEventCreate", &start, 0u));
        NEED_OK(api("cuEventCreate", &end, 0u));
        uint32_t x = 1;
        void* parameters[] = {&add.numbers, &x};
        NEED_OK(api("cuEventRecord", start, first));
        NEED_OK(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, first, parameters, kNone));
        NEED_OK(api("cuEventRecord", end, first));
        NEED_OK(api("cuStreamWaitEvent", second, end, 0u));
        NEED_OK(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, second, parameters, kNone));
        int called = 0;
        NEED_OK(api(
            "cuLaunchHostFunc", second, +[](void* data) { ++*static_cast<int*>(data); },
            static_cast<void*>(&called)));
        NEED_OK(api("cuStreamSynchronize", second));
        NEED(called == 1);
        NEED(add.grown_by(api, 6));
        NEED_OK(api("cuEventQuery", end));
        NEED_OK(api("cuStreamQuery", first));
        float milliseconds = -1;
        NEED_OK(api("cuEventElapsedTime_v2", &milliseconds, start, end));
        NEED(milliseconds >= 0);
        int priority = 0;
        unsigned flags = 0;
        unsigned long long ids[2] = {};
        ContextHandle *of_stream = nullptr, *current = nullptr;
        NEED_OK(api("cuStreamGetPriority", second, &priority));
        NEED(priority == -1);
        NEED_OK(api("cuStreamGetFlags", second, &flags));
        NEED(flags == 1);
        NEED_OK(api("cuStreamGetId", first, &ids[0]));
        NEED_OK(api("cuStreamGetId", second, &ids[1]));
        NEED(ids[0] != ids[1]);
        NEED_OK(api("cuStreamGetCtx", first, &of_stream));
        NEED_OK(api("cuCtxGetCurrent", &current));
        NEED(of_stream == current);
        NEED_OK(api("cuEventDestroy_v2", end));
        NEED_OK(api("cuStreamDestroy_v2", first));
        if (kIsOurs) NEED(api("cuStreamSynchronize", first) == Status::InvalidResourceHandle);
        return 0;
      }),
      0);
}

TEST(Graphs, CaptureAndLaunch) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        StreamHandle* stream = nullptr;
        GraphHandle* graph = nullptr;
        GraphExec* exec = nullptr;
        NEED_OK(api("cuStreamCreate", &stream, 1u));
        uint32_t x = 1;
        void* parameters[] = {&add.numbers, &x};
        cudart::CaptureStatus status{};
        NEED_OK(api("cuStreamBeginCapture_v2", stream, cudart::CaptureMode::Global));
        NEED_OK(api("cuLaunchKernel", add.kernel, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, parameters, kNone));
        NEED_OK(api("cuStreamIsCapturing", stream, &status));
        NEED(status == cudart::CaptureStatus::Active);
        NEED_OK(api("cuStreamEndCapture", stream, &graph));
        NEED(add.grown_by(api, 0));
        NEED_OK(api("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
        NEED_OK(api("cuGraphLaunch", exec, stream));
        NEED_OK(api("cuGraphLaunch", exec, stream));
        NEED_OK(api("cuStreamSynchronize", stream));
        NEED(add.grown_by(api, 6));
        NEED_OK(api("cuGraphExecDestroy", exec));
        NEED_OK(api("cuGraphDestroy", graph));
        return 0;
      }),
      0);
}

TEST(Graphs, BuiltByHand) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        GraphHandle* graph = nullptr;
        GraphNode *fill = nullptr, *kernel = nullptr, *copy = nullptr, *general = nullptr;
        GraphExec* exec = nullptr;
        auto* no_context = static_cast<ContextHandle*>(nullptr);
        uint32_t x = 2, host[32] = {};
        NEED_OK(api("cuGraphCreate", &graph, 0u));
        cudart::MemsetParams zero{add.numbers, 0, 10, 4, 32, 1};
        NEED_OK(api("cuGraphAddMemsetNode", &fill, graph, kNone, size_t{0}, &zero, no_context));
        void* parameters[] = {&add.numbers, &x};
        DriverKernelNodeParams launch{};
        launch.plain = {add.kernel, {1, 1, 1}, {32, 1, 1}, 0, parameters, nullptr};
        NEED_OK(api("cuGraphAddKernelNode_v2", &kernel, graph, &fill, size_t{1}, &launch));
        DriverCopy3D back{};
        back.from = {.type = MemoryType::Device, .device = add.numbers, .pitch = sizeof host, .height = 1};
        back.to = {.type = MemoryType::Host, .host = host, .pitch = sizeof host, .height = 1};
        back.width = sizeof host;
        back.height = back.depth = 1;
        NEED_OK(api("cuGraphAddMemcpyNode", &copy, graph, &kernel, size_t{1}, &back, no_context));
        // The same kernel once more, as a node of any kind, between the two.
        DriverGraphNodeParams params{};
        params.kind = cudart::NodeKind::Kernel;
        params.kernel = launch;
        NEED_OK(api("cuGraphAddNode_v2", &general, graph, &kernel, kNone, size_t{1}, &params));
        NEED_OK(api("cuGraphAddDependencies_v2", graph, &general, &copy, kNone, size_t{1}));
        NEED_OK(api("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
        NEED_OK(api("cuGraphLaunch", exec, kNone));
        NEED_OK(api("cuCtxSynchronize"));
        NEED(host[0] == 10 + 2 * 6 && host[31] == 22);
        size_t count = 0;
        NEED_OK(api("cuGraphGetNodes", graph, kNone, &count));
        NEED(count == 4);
        DriverKernelNodeParams found{};
        NEED_OK(api("cuGraphKernelNodeGetParams_v2", kernel, &found));
        NEED(found.plain.function == add.kernel && *static_cast<uint32_t*>(found.plain.parameters[1]) == 2);
        DriverCopy3D copied{};
        NEED_OK(api("cuGraphMemcpyNodeGetParams", copy, &copied));
        NEED(copied.from.device == add.numbers && copied.to.host == host && copied.width == sizeof host);
        x = 5;
        NEED_OK(api("cuGraphExecKernelNodeSetParams_v2", exec, kernel, &launch));
        NEED_OK(api("cuGraphLaunch", exec, kNone));
        NEED_OK(api("cuCtxSynchronize"));
        NEED(host[0] == 10 + 15 + 6);
        return 0;
      }),
      0);
}

}  // namespace
}  // namespace assay::driver::test
