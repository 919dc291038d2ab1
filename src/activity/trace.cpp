// A trace in the format of Chrome's trace viewer, with the names that PyTorch's profiler (Kineto) uses, so that Perfetto
// and PyTorch's tools read it alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "activity/activity.h"
#include "activity/json_text.h"
#include "finding/json.h"
#include "finding/message.h"

namespace assay::activity {

namespace {

constexpr int kHost = 1, kDevice = 0;  // process ids of the trace

// Writes the fields of an event without building a tree of JSON first: a program makes millions of events.
class TraceText {
 public:
  explicit TraceText(std::string start) : text_(std::move(start)) {}
  std::string take() { return std::move(text_); }

  // {"ph":"X","cat":"kernel","name":"…","pid":0,"tid":7,"ts":1.5
  TraceText& begin(char phase, std::string_view category, std::string_view name) {
    text_ += is_first_ ? "{\"ph\":\"" : ",\n{\"ph\":\"";
    is_first_ = false;
    text_ += phase;
    text_ += '"';
    if (!category.empty()) field("cat", category);
    return field("name", name);
  }
  TraceText& lane(int process, uint64_t thread) { return field("pid", process).field("tid", thread); }
  TraceText& field(std::string_view name, std::string_view value) {
    key(name);
    quote(value);
    return *this;
  }
  TraceText& field(std::string_view name, std::integral auto value) {
    key(name);
    put(value);
    return *this;
  }
  TraceText& field(std::string_view name, const std::array<uint32_t, 3>& value) {
    key(name);
    for (std::size_t i = 0; i < value.size(); ++i) {
      text_ += i == 0 ? '[' : ',';
      put(value[i]);
    }
    text_ += ']';
    return *this;
  }
  // In microseconds, to the nanosecond.
  TraceText& time(std::string_view name, double seconds) {
    key(name);
    const auto nanoseconds = static_cast<int64_t>(std::llround(seconds * 1e9));
    if (nanoseconds < 0) text_ += '-';
    const int64_t size = std::abs(nanoseconds);
    put(size / 1000);
    if (const auto rest = static_cast<int>(size % 1000); rest != 0) {
      text_ += '.';
      text_ += static_cast<char>('0' + rest / 100);
      if (rest % 100 != 0) text_ += static_cast<char>('0' + rest / 10 % 10);
      if (rest % 10 != 0) text_ += static_cast<char>('0' + rest % 10);
    }
    return *this;
  }
  TraceText& arguments() {
    text_ += ",\"args\":{";
    return *this;
  }
  void end() { text_ += '}'; }
  void end_with_arguments() { text_ += "}}"; }

 private:
  void key(std::string_view name) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_ += name;
    text_ += "\":";
  }
  void put(std::integral auto value) { append_number(text_, value); }
  void quote(std::string_view value) { append_quoted(text_, value); }

  std::string text_;
  bool is_first_ = true;
};

class Trace {
 public:
  explicit Trace(const Activity& activity) : activity_(activity) {}

  std::string run() {
    assign_lanes();
    name_lanes();
    for (std::size_t i = 0; i < activity_.operations.size(); ++i) add(activity_.operations[i], lanes_[i]);
    add_memory();
    for (const FoundAt& found : activity_.findings) add(found);
    for (const OutOfMemory& failed : activity_.out_of_memory) add(failed);
    return text_.take() + "\n]}\n";
  }

 private:
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
      text_.begin('M', "", what).lane(process, thread).arguments().field("name", text).end_with_arguments();
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

  // The operation on its stream, the call that asked for it, and an arrow from this to that.
  void add(const protocol::OperationEvent& operation, uint64_t host_lane) {
    text_.begin('X', category(operation), name_of(operation))
        .lane(kDevice, operation.stream)
        .time("ts", operation.begin)
        .time("dur", operation.end - operation.begin)
        .arguments()
        .field("device", 0)
        .field("stream", operation.stream)
        .field("correlation", operation.id);
    if (operation.kind == protocol::OperationKind::Kernel) {
      text_.field("grid", operation.grid).field("block", operation.block);
      if (operation.shared_bytes != 0) text_.field("shared memory", operation.shared_bytes);
      text_.field("warp instructions", operation.warp_instructions);
      if (!operation.fault.empty()) text_.field("fault", operation.fault);
    } else {
      text_.field("bytes", operation.bytes);
    }
    text_.end_with_arguments();
    text_.begin('X', "cuda_runtime", call_of(operation))
        .lane(kHost, host_lane)
        .time("ts", operation.called)
        .time("dur", operation.returned - operation.called)
        .arguments()
        .field("correlation", operation.id)
        .end_with_arguments();
    text_.begin('s', "ac2g", "ac2g")
        .lane(kHost, host_lane)
        .time("ts", operation.called)
        .field("id", operation.id)
        .end();
    text_.begin('f', "ac2g", "ac2g")
        .lane(kDevice, operation.stream)
        .time("ts", operation.begin)
        .field("id", operation.id)
        .field("bp", "e")
        .end();
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
      text_.begin('C', "", "allocated bytes")
          .field("pid", kDevice)
          .time("ts", seconds)
          .arguments()
          .field("bytes", held)
          .end_with_arguments();
    }
  }

  void add(const FoundAt& found) {
    const Finding& finding = found.finding;
    instant("finding", fmt::format("{}: {}", to_string(finding.severity), to_string(finding.kind)),
            found.seconds)
        .field("message", message(finding))
        .field("where", text_of(finding.where))
        .end_with_arguments();
  }

  void add(const OutOfMemory& failed) {
    instant("memory", "out of memory", failed.seconds)
        .field("bytes", failed.bytes)
        .field("free", failed.free)
        .end_with_arguments();
  }

  TraceText& instant(std::string_view category, std::string_view name, double seconds) {
    return text_.begin('i', category, name).field("s", "g").lane(kDevice, 0).time("ts", seconds).arguments();
  }

  const Activity& activity_;
  std::vector<uint64_t> lanes_;  // of the call of each operation
  std::size_t host_lanes_ = 1;
  TraceText text_{
      "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"virtual "
      "GPU\"}],\"displayTimeUnit\":\"ms\","
      "\"assay\":{\"time\":\"of the virtual GPU on this CPU: order and overlap, not the speed of a GPU\"},"
      "\"traceEvents\":[\n"};
};

}  // namespace

std::string trace(const Activity& activity) {
  return Trace(activity).run();
}

}  // namespace assay::activity
