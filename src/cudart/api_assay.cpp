// The functions of protocol/hooks.h, for the worker, and of include/assay.h, for programs.
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/symbol.h"
#include "cudart/code_place.h"
#include "cudart/copy.h"
#include "cudart/launch.h"
#include "cudart/python_frames.h"
#include "cudart/runtime.h"
#include "protocol/hooks.h"
#include "protocol/messages.h"

using namespace assay::cudart;
using assay::vgpu::Address;

ASSAY_API void assay_configure(const char* settings) {
  auto decoded = assay::protocol::decode_settings(settings);
  if (decoded) Runtime::get().configure(std::move(*decoded));
}

ASSAY_API void assay_set_seed(uint64_t seed) {
  (void)api([&](Context& context) {
    context.streams().with_device([&](assay::vgpu::Device& device) { device.set_seed(seed); });
    context.streams().set_seed(seed);
    return Status::Success;
  });
}

ASSAY_API void assay_advance_clock(uint64_t cycles) {
  (void)api([&](Context& context) {
    context.streams().with_device([&](assay::vgpu::Device& device) { device.advance_clock(cycles); });
    return Status::Success;
  });
}

ASSAY_API void assay_undefine(void* pointer, size_t bytes) {
  (void)api([&](Context& context) {
    context.memory().mark_initialised(reinterpret_cast<Address>(pointer), bytes, false);
    return Status::Success;
  });
}

ASSAY_API void assay_fill_new(uint64_t pattern) {
  (void)api([&](Context& context) {
    context.set_new_content(pattern);
    return Status::Success;
  });
}

// ---- A sample of the blocks (checks/block_sample.h) ----

ASSAY_API int assay_make_on_touch(void* pointer, size_t offset, size_t length, const void* table,
                                  size_t table_bytes, unsigned item, uint64_t seed, int64_t last_value,
                                  int64_t last_index, int defined) {
  bool made = false;
  (void)api([&](Context& context) {
    assay::vgpu::GeneratedContent content{.offset = offset, .length = length, .defined = defined != 0};
    const auto* bytes = static_cast<const std::byte*>(table);
    content.values = {{bytes, bytes + table_bytes}, item, seed, last_value, last_index};
    made = context.memory().make_on_touch(reinterpret_cast<Address>(pointer), std::move(content));
    return Status::Success;
  });
  return made;
}

ASSAY_API int assay_sample_begin(const char* request) {
  bool begun = false;
  (void)api([&](Context& context) {
    auto decoded = assay::protocol::decode_sample_request(request);
    begun = decoded && context.sample();
    if (begun) context.sample()->begin(std::move(*decoded));
    return Status::Success;
  });
  return begun;
}

// Also after the device has failed.
ASSAY_API const char* assay_sample_end() {
  static std::string text;
  Context* context = Runtime::get().existing_context();
  text = context && context->sample() ? encode(context->sample()->end()) : "";
  return text.c_str();
}

ASSAY_API int assay_sample_written(void* pointer, void* to, size_t room) {
  bool fits = false;
  (void)api([&](Context& context) {
    if (!context.sample()) return Status::Success;
    const auto base = reinterpret_cast<Address>(pointer);
    const auto pieces = context.sample()->written(base);
    size_t bytes = sizeof(uint64_t) * (1 + 2 * pieces.size());
    for (const auto& [offset, length] : pieces) bytes += length;
    if (bytes > room) return Status::Success;
    auto* out = static_cast<std::byte*>(to);
    const auto put = [&](const void* from, size_t count) {
      std::memcpy(out, from, count);
      out += count;
    };
    const uint64_t count = pieces.size();
    put(&count, sizeof count);
    for (const auto& piece : pieces)
      for (const uint64_t number : {piece.first, piece.second}) put(&number, sizeof number);
    for (const auto& [offset, length] : pieces) put(context.memory().host(base + offset, length), length);
    fits = true;
    return Status::Success;
  });
  return fits;
}

// ---- include/assay.h ----

namespace {

template <class Use>
void with_ranges(const void* pointer, Use use) {
  (void)api([&](Context& context) {
    const auto address = reinterpret_cast<Address>(pointer);
    if (HostCheck* check = context.host_check(); check && context.memory().find(address))
      use(check->ranges(), address, check->last_submitted());
    return Status::Success;
  });
}

}  // namespace

ASSAY_API void assay_range_expect_written(const void* pointer, size_t bytes, const char* name) {
  with_ranges(pointer, [&](auto& ranges, Address at, uint64_t since) {
    ranges.expect_written(at, bytes, name ? name : "output", since);
  });
}

ASSAY_API void assay_range_protect(const void* pointer, size_t bytes, const char* name) {
  with_ranges(pointer, [&](auto& ranges, Address at, uint64_t since) {
    ranges.protect(at, bytes, name ? name : "input", since);
  });
}

// Writes out the findings, too: a copy or a fill may come after the last kernel.
ASSAY_API void assay_range_forget() {
  (void)api([&](Context& context) {
    if (HostCheck* check = context.host_check()) check->ranges().forget();
    context.report_findings();
    return Status::Success;
  });
}

// Waits for the stream, and reports what is missing.
ASSAY_API void assay_range_judge(StreamHandle* handle) {
  (void)stream_api(handle, [&](Context& context, StreamHandle& stream) {
    HostCheck* check = context.host_check();
    if (!check) return Status::Success;
    return synchronised(context, [&] {
      context.streams().synchronise_stream(stream.id);
      check->ranges().judge(0);
    });
  });
}

ASSAY_API void assay_label(void* pointer, const char* label) {
  (void)api([&](Context& context) {
    if (label) context.memory().relabel(reinterpret_cast<Address>(pointer), label);
    return Status::Success;
  });
}

ASSAY_API void assay_on_launch(void (*call)(void* const* bases, int count)) {
  launch_listener() = call;
}

ASSAY_API int assay_fetch(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                          size_t height, void* stream) {
  return static_cast<int>(
      stream_api(static_cast<StreamHandle*>(stream), [&](Context& context, StreamHandle& on) {
        const assay::vgpu::UnseenWaits unseen;
        return copy(context, on,
                    {.to = to,
                     .from = from,
                     .to_pitch = to_pitch,
                     .from_pitch = from_pitch,
                     .width = width,
                     .height = height,
                     .kind = CopyKind::DeviceToHost},
                    false);
      }));
}

ASSAY_API void assay_frees_wait(int wait) {
  Runtime::get().frees_wait = wait != 0;
}

ASSAY_API void assay_watch_order() {
  (void)api([&](Context& context) {
    context.streams().watch_order();
    return Status::Success;
  });
}

ASSAY_API int assay_work_left(void* stream, char* kernel, size_t capacity,
                              void (*frame)(const char* file, int line)) {
  std::optional<assay::vgpu::Streams::WorkLeft> left;
  (void)stream_api(static_cast<StreamHandle*>(stream), [&](Context& context, StreamHandle& on) {
    left = context.streams().work_left(on.id);
    return Status::Success;
  });
  if (!left) return 0;
  snprintf(kernel, capacity, "%s", assay::demangled(left->kernel).c_str());
  for (const assay::Frame& one : python_frames(left->origin)) frame(one.where.file.c_str(), one.where.line);
  return 1;
}

ASSAY_API void assay_report_precision() {
  (void)api([&](Context& context) {
    context.report_precision();
    return Status::Success;
  });
}

namespace {

assay::Kind kind_of(assay_host_finding kind) {
  switch (kind) {
    case assay_forbidden_call:
      return assay::Kind::ForbiddenCall;
    case assay_environment_probe:
      return assay::Kind::EnvironmentProbe;
    case assay_aliased_output:
      return assay::Kind::AliasedOutput;
    case assay_calls_reference:
      return assay::Kind::CallsReference;
    case assay_tampering:
      return assay::Kind::Tampering;
  }
  return assay::Kind::ForbiddenCall;
}

}  // namespace

ASSAY_API void assay_report_python(assay_host_finding kind, int is_error, const char* text, const char* file,
                                   int line) {
  Context* context = Runtime::get().existing_context();
  if (!context) return;
  assay::Where where{file, line};
  assay::Finding finding =
      assay::checks::finding_of(kind_of(kind), std::move(where), assay::evidence::Process{.detail = text});
  if (!is_error) finding.severity = assay::Severity::Warning;
  context->report(std::move(finding));
}

ASSAY_API void assay_report_host(assay_host_finding kind, int is_error, const char* what, const char* why,
                                 void* const* calls, int count) {
  Context* context = Runtime::get().existing_context();
  if (!context) return;
  assay::evidence::Process evidence;
  evidence.what = what;
  evidence.detail = why;
  for (int i = 0; i < count; ++i)
    evidence.host.calls.push_back(place_in_code(reinterpret_cast<uint64_t>(calls[i]) - 1));
  assay::Finding finding = assay::checks::finding_of(kind_of(kind), {}, std::move(evidence));
  if (!is_error) finding.severity = assay::Severity::Warning;
  context->report(std::move(finding));
}

// ---- what a call asks of the device (recording.h) ----

ASSAY_API void assay_call_begins() {
  Runtime& runtime = Runtime::get();
  if (!runtime.settings().report_launches) return;
  runtime.writer().write(assay::protocol::CallEvent{});
  runtime.in_call = true;
}

ASSAY_API void assay_call_returned() {
  Runtime::get().in_call = false;
}

// ---- equal calls, one after another (growth.h) ----

ASSAY_API void assay_call_ended() {
  (void)api([&](Context& context) {
    context.growth().call_ended(context);
    return Status::Success;
  });
}

ASSAY_API void assay_calls_ended() {
  (void)api([&](Context& context) {
    if (auto finding = context.growth().judge(context)) context.report(std::move(*finding));
    return Status::Success;
  });
}
