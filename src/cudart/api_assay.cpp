// What the virtual device offers beyond CUDA, to whoever drives it through this library.
#include "cudart/code_place.h"
#include "cudart/runtime.h"

using namespace assay::cudart;
using assay::vgpu::Address;

// The order of warps, blocks and streams of what is launched from now on.
ASSAY_API void assay_set_seed(uint64_t seed) {
  (void)api([&](Context& context) {
    context.streams().with_device([&](assay::vgpu::Device& device) { device.set_seed(seed); });
    context.streams().set_seed(seed);
    return Status::Success;
  });
}

// The device's clock goes on by this, as if it had been busy before.
ASSAY_API void assay_advance_clock(uint64_t cycles) {
  (void)api([&](Context& context) {
    context.streams().with_device([&](assay::vgpu::Device& device) { device.advance_clock(cycles); });
    return Status::Success;
  });
}

// These bytes count as never written.
ASSAY_API void assay_undefine(void* pointer, size_t bytes) {
  (void)api([&](Context& context) {
    context.memory().mark_initialised(reinterpret_cast<Address>(pointer), bytes, false);
    return Status::Success;
  });
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

// The ranges that were named count no more, and what was found by now is told: a copy or a fill may come after the
// last kernel.
ASSAY_API void assay_range_forget() {
  (void)api([&](Context& context) {
    if (HostCheck* check = context.host_check()) check->ranges().forget();
    context.report_findings();
    return Status::Success;
  });
}

// Waits for the stream, and says what is missing.
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

// What messages call the allocation that starts here.
ASSAY_API void assay_label(void* pointer, const char* label) {
  (void)api([&](Context& context) {
    if (label) context.memory().relabel(reinterpret_cast<Address>(pointer), label);
    return Status::Success;
  });
}

// Where precision was lost since the last time goes to the report, if that is watched.
ASSAY_API void assay_report_precision() {
  (void)api([&](Context& context) {
    context.report_precision();
    return Status::Success;
  });
}

// What host code did that it should not have done; `calls`: return addresses, innermost first.
ASSAY_API void assay_report_host(const char* kind, int is_error, const char* message, void* const* calls,
                                 int count) {
  Context* context = Runtime::get().existing_context();
  if (!context) return;
  assay::Finding finding;
  finding.kind = kind;
  finding.severity = is_error ? assay::Severity::Error : assay::Severity::Warning;
  finding.message = message;
  for (int i = 0; i < count; ++i)
    finding.evidence["calls"].push_back(place_in_code(reinterpret_cast<uint64_t>(calls[i]) - 1));
  context->report(std::move(finding));
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
