// A trace in the format of Chrome's trace viewer, with the names that PyTorch's profiler (Kineto) uses, so that Perfetto
// and PyTorch's tools read it alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "activity/activity.h"
#include "activity/pieces.h"
#include "finding/message.h"

namespace assay::activity {

using protocol::OperationKind;

namespace {

constexpr unsigned kHost = 1, kDevice = 0;  // process ids of the trace

class Trace {
 public:
  Trace(const Activity& activity, const Sink& sink) : activity_(activity), text_(sink) {}

  void run() {
    text_ << "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"virtual GPU\"}],"
             "\"displayTimeUnit\":\"ms\",\"assay\":{\"time\":\"of the virtual GPU on this CPU: order and "
             "overlap, not the speed of a GPU\"},\"traceEvents\":[\n";
    assign_lanes();
    name_lanes();
    for (std::size_t i = 0; i < activity_.operations.size(); ++i) add(activity_.operations[i], lanes_[i]);
    add_memory();
    for (const FoundAt& found : activity_.findings) add(found);
    for (const OutOfMemory& failed : activity_.out_of_memory) add(failed);
    text_ << "\n]}\n";
  }

 private:
  // Viewers take events of one lane that overlap for calls within calls. Those of several host threads overlap as they like:
  // each goes to the first lane that is free. What one graph launch asked for is one call.
  void assign_lanes() {
    const auto& operations = activity_.operations;
    std::vector<std::size_t> order(operations.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto is_before = [&](std::size_t a, std::size_t b) {
      return operations[a].called < operations[b].called;
    };
    if (!std::ranges::is_sorted(order, is_before)) std::ranges::stable_sort(order, is_before);
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
    const auto name = [&](std::string_view what, unsigned process, uint64_t thread, std::string_view text) {
      text_ << (is_first_ ? "{\"ph\":\"M\",\"name\":" : ",\n{\"ph\":\"M\",\"name\":") << json_string(what)
            << ",\"pid\":" << process << ",\"tid\":" << thread << ",\"args\":{\"name\":" << json_string(text)
            << "}}";
      is_first_ = false;
    };
    name("process_name", kDevice, 0, "virtual GPU");
    name("process_name", kHost, 0, "host");
    for (std::size_t lane = 0; lane < host_lanes_; ++lane)
      name("thread_name", kHost, lane,
           lane == 0 ? "CUDA calls" : fmt::format("CUDA calls at the same time, {}", lane + 1));
    std::set<uint64_t> streams;
    for (const Operation& operation : activity_.operations)
      if (streams.empty() || *streams.rbegin() != operation.stream) streams.insert(operation.stream);
    for (const uint64_t stream : streams)
      name("thread_name", kDevice, stream, fmt::format("stream {}", stream));
  }

  static std::string_view category(const Operation& operation) {
    return operation.kind == OperationKind::Kernel ? "kernel"
           : operation.kind == OperationKind::Copy ? "gpu_memcpy"
                                                   : "gpu_memset";
  }
  std::string_view name_of(const Operation& operation) {
    if (operation.kind == OperationKind::Kernel) return quoted_(operation.kernel);
    if (operation.kind == OperationKind::Fill) return "\"Memset (Device)\"";
    constexpr std::string_view kCopies[] = {"\"Memcpy DtoD\"", "\"Memcpy DtoH\"", "\"Memcpy HtoD\"",
                                            "\"Memcpy HtoH\""};
    return kCopies[2 * operation.from_host + operation.to_host];
  }
  static std::string_view call_of(const Operation& operation) {
    if (operation.is_graph) return "cudaGraphLaunch";
    return operation.kind == OperationKind::Kernel ? "cudaLaunchKernel"
           : operation.kind == OperationKind::Copy ? "cudaMemcpyAsync"
                                                   : "cudaMemsetAsync";
  }

  // {"ph":"X","cat":"kernel","name":"…","pid":0,"tid":7,"ts":1.5,"dur":0.25,"args":{…}}: the operation on its stream, the call
  // that asked for it, and an arrow from this to that.
  void add(const Operation& operation, uint64_t host_lane) {
    const ShortText begin(microseconds(operation.begin)), called(microseconds(operation.called));
    const ShortText id(operation.id), stream(operation.stream), lane(host_lane);
    text_ << ",\n{\"ph\":\"X\",\"cat\":\"" << category(operation) << "\",\"name\":" << name_of(operation)
          << ",\"pid\":0,\"tid\":" << stream << ",\"ts\":" << begin
          << ",\"dur\":" << microseconds(operation.end - operation.begin)
          << ",\"args\":{\"device\":0,\"stream\":" << stream << ",\"correlation\":" << id;
    if (operation.kind == OperationKind::Kernel) {
      add_extents(",\"grid\":[", operation.grid);
      add_extents(",\"block\":[", operation.block);
      if (operation.shared_bytes != 0) text_ << ",\"shared memory\":" << operation.shared_bytes;
      text_ << ",\"warp instructions\":" << operation.warp_instructions;
      if (!operation.fault.empty()) text_ << ",\"fault\":" << quoted_(operation.fault);
    } else {
      text_ << ",\"bytes\":" << operation.bytes;
    }
    text_ << "}},\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"" << call_of(operation)
          << "\",\"pid\":1,\"tid\":" << lane << ",\"ts\":" << called
          << ",\"dur\":" << microseconds(operation.returned - operation.called)
          << ",\"args\":{\"correlation\":" << id
          << "}},\n{\"ph\":\"s\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":1,\"tid\":" << lane
          << ",\"ts\":" << called << ",\"id\":" << id
          << "},\n{\"ph\":\"f\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":0,\"tid\":" << stream
          << ",\"ts\":" << begin << ",\"id\":" << id << ",\"bp\":\"e\"}";
  }
  void add_extents(std::string_view name, const std::array<uint32_t, 3>& extents) {
    text_ << name << extents[0] << ',' << extents[1] << ',' << extents[2] << ']';
  }

  // Device memory that is held, after each change.
  void add_memory() {
    uint64_t held = 0;
    for (const Change& change : activity_.changes) {
      const uint64_t bytes = activity_.allocations[change.allocation].bytes;
      held = change.is_end ? held - bytes : held + bytes;
      text_ << ",\n{\"ph\":\"C\",\"name\":\"allocated bytes\",\"pid\":0,\"ts\":"
            << microseconds(change.seconds) << ",\"args\":{\"bytes\":" << held << "}}";
    }
  }

  void add(const FoundAt& found) {
    const Finding& finding = found.finding;
    begin_instant("finding", fmt::format("{}: {}", to_string(finding.severity), to_string(finding.kind)),
                  found.seconds);
    text_ << "\"message\":" << json_string(message(finding))
          << ",\"where\":" << json_string(text_of(finding.where)) << "}}";
  }

  void add(const OutOfMemory& failed) {
    begin_instant("memory", "out of memory", failed.seconds);
    text_ << "\"bytes\":" << failed.bytes << ",\"free\":" << failed.free << "}}";
  }

  void begin_instant(std::string_view category, std::string_view name, double seconds) {
    text_ << ",\n{\"ph\":\"i\",\"cat\":\"" << category << "\",\"name\":" << json_string(name)
          << ",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":" << microseconds(seconds) << ",\"args\":{";
  }

  const Activity& activity_;
  std::vector<uint64_t> lanes_;  // of the call of each operation
  std::size_t host_lanes_ = 1;
  QuotedTexts quoted_;
  bool is_first_ = true;
  Pieces text_;
};

}  // namespace

void trace(const Activity& activity, const Sink& sink) {
  Trace(activity, sink).run();
}

}  // namespace assay::activity
