// A trace in the format of Chrome's trace viewer, with the names that PyTorch's profiler (Kineto) uses, so that Perfetto
// and PyTorch's tools read it alike.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "activity/activity.h"
#include "finding/json.h"
#include "finding/message.h"

namespace assay::activity {

namespace {

constexpr int kHost = 1, kDevice = 0;  // process ids of the trace

double microseconds(double seconds) {
  return std::round(seconds * 1e9) / 1e3;
}

class Trace {
 public:
  explicit Trace(const Activity& activity) : activity_(activity) {}

  std::string run() {
    text_ =
        "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"virtual "
        "GPU\"}],\"displayTimeUnit\":\"ms\",";
    text_ +=
        "\"assay\":{\"time\":\"of the virtual GPU on this CPU: order and overlap, not the speed of a GPU\"},"
        "\"traceEvents\":[\n";
    assign_lanes();
    name_lanes();
    for (std::size_t i = 0; i < activity_.operations.size(); ++i) add(activity_.operations[i], lanes_[i]);
    add_memory();
    for (const FoundAt& found : activity_.findings) add(found);
    for (const OutOfMemory& failed : activity_.out_of_memory) add(failed);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  void put(const Json& event) {
    if (!is_first_) text_ += ",\n";
    is_first_ = false;
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Viewers take events of one lane that overlap for calls within calls. Those of several host threads overlap as they like:
  // each goes to the first lane that is free. What one graph launch asked for is one call.
  void assign_lanes() {
    const auto& operations = activity_.operations;
    std::vector<std::size_t> order(operations.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return operations[a].called < operations[b].called;
    });
    std::vector<std::pair<double, double>> last;  // call of each lane
    lanes_.resize(operations.size());
    for (const std::size_t i : order) {
      const std::pair<double, double> call = {operations[i].called, operations[i].returned};
      const auto free = std::ranges::find_if(
          last, [&](const auto& before) { return before.second <= call.first || before == call; });
      lanes_[i] = static_cast<uint64_t>(free - last.begin());
      if (free == last.end())
        last.push_back(call);
      else
        *free = call;
    }
    host_lanes_ = std::max<std::size_t>(1, last.size());
  }

  void name_lanes() {
    const auto name = [&](const char* what, int process, uint64_t thread, const std::string& text) {
      put({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}});
    };
    name("process_name", kDevice, 0, "virtual GPU");
    name("process_name", kHost, 0, "host");
    for (std::size_t lane = 0; lane < host_lanes_; ++lane)
      name("thread_name", kHost, lane,
           lane == 0 ? "CUDA calls" : fmt::format("CUDA calls at the same time, {}", lane + 1));
    std::set<uint64_t> streams;
    for (const protocol::OperationEvent& operation : activity_.operations) streams.insert(operation.stream);
    for (const uint64_t stream : streams)
      name("thread_name", kDevice, stream, fmt::format("stream {}", stream));
  }

  static const char* category(const protocol::OperationEvent& operation) {
    return operation.kind == protocol::OperationKind::Kernel ? "kernel"
           : operation.kind == protocol::OperationKind::Copy ? "gpu_memcpy"
                                                             : "gpu_memset";
  }
  static std::string name_of(const protocol::OperationEvent& operation) {
    if (operation.kind == protocol::OperationKind::Kernel) return operation.kernel;
    if (operation.kind == protocol::OperationKind::Fill) return "Memset (Device)";
    return fmt::format("Memcpy {}to{}", operation.from_host ? "H" : "D", operation.to_host ? "H" : "D");
  }
  static const char* call_of(const protocol::OperationEvent& operation) {
    if (operation.is_graph) return "cudaGraphLaunch";
    return operation.kind == protocol::OperationKind::Kernel ? "cudaLaunchKernel"
           : operation.kind == protocol::OperationKind::Copy ? "cudaMemcpyAsync"
                                                             : "cudaMemsetAsync";
  }

  void add(const protocol::OperationEvent& operation, uint64_t host_lane) {
    const char* kind = category(operation);
    Json arguments = {
        {"device", 0}, {"context", 1}, {"stream", operation.stream}, {"correlation", operation.id}};
    if (operation.kind == protocol::OperationKind::Kernel) {
      arguments["grid"] = operation.grid;
      arguments["block"] = operation.block;
      arguments["shared memory"] = operation.shared_bytes;
      arguments["warp instructions"] = operation.warp_instructions;
      if (!operation.fault.empty()) arguments["fault"] = operation.fault;
    } else {
      arguments["bytes"] = operation.bytes;
    }
    const double begin = microseconds(operation.begin), called = microseconds(operation.called);
    put({{"ph", "X"},
         {"cat", kind},
         {"name", name_of(operation)},
         {"pid", kDevice},
         {"tid", operation.stream},
         {"ts", begin},
         {"dur", microseconds(operation.end - operation.begin)},
         {"args", std::move(arguments)}});
    put({{"ph", "X"},
         {"cat", "cuda_runtime"},
         {"name", call_of(operation)},
         {"pid", kHost},
         {"tid", host_lane},
         {"ts", called},
         {"dur", microseconds(operation.returned - operation.called)},
         {"args", {{"correlation", operation.id}}}});
    put({{"ph", "s"},
         {"id", operation.id},
         {"pid", kHost},
         {"tid", host_lane},
         {"ts", called},
         {"cat", "ac2g"},
         {"name", "ac2g"}});
    put({{"ph", "f"},
         {"id", operation.id},
         {"pid", kDevice},
         {"tid", operation.stream},
         {"ts", begin},
         {"cat", "ac2g"},
         {"name", "ac2g"},
         {"bp", "e"}});
  }

  // Device memory that is held, after each change.
  void add_memory() {
    std::vector<std::pair<double, int64_t>> changes;
    for (const Allocation& one : activity_.allocations) {
      if (one.is_host) continue;
      changes.emplace_back(one.begin, static_cast<int64_t>(one.bytes));
      if (one.is_released) changes.emplace_back(one.end, -static_cast<int64_t>(one.bytes));
    }
    std::sort(changes.begin(), changes.end());
    int64_t held = 0;
    for (const auto& [seconds, change] : changes) {
      held += change;
      put({{"ph", "C"},
           {"name", "allocated bytes"},
           {"pid", kDevice},
           {"ts", microseconds(seconds)},
           {"args", {{"bytes", held}}}});
    }
  }

  void add(const FoundAt& found) {
    const Finding& finding = found.finding;
    put({{"ph", "i"},
         {"s", "g"},
         {"cat", "finding"},
         {"name", fmt::format("{}: {}", to_string(finding.severity), to_string(finding.kind))},
         {"pid", kDevice},
         {"tid", 0},
         {"ts", microseconds(found.seconds)},
         {"args", {{"message", message(finding)}, {"where", text_of(finding.where)}}}});
  }

  void add(const OutOfMemory& failed) {
    put({{"ph", "i"},
         {"s", "g"},
         {"cat", "memory"},
         {"name", "out of memory"},
         {"pid", kDevice},
         {"tid", 0},
         {"ts", microseconds(failed.seconds)},
         {"args", {{"bytes", failed.bytes}, {"free", failed.free}}}});
  }

  const Activity& activity_;
  std::vector<uint64_t> lanes_;  // of the call of each operation
  std::size_t host_lanes_ = 1;
  std::string text_;
  bool is_first_ = true;
};

}  // namespace

std::string trace(const Activity& activity) {
  return Trace(activity).run();
}

}  // namespace assay::activity
