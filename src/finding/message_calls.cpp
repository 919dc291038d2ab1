// What is said of barriers, launches and the process.
#include <fmt/format.h>

#include "base/symbol.h"
#include "finding/message_parts.h"

namespace assay {

using namespace evidence;

namespace {

std::string leaked(const Growth& growth, const std::optional<Allocation>& allocation) {
  if (growth.allocations > 0) {
    std::string text = fmt::format("{} allocation{} of {} bytes in total {} never freed", growth.allocations,
                                   growth.allocations == 1 ? "" : "s", growth.held,
                                   growth.allocations == 1 ? "was" : "were");
    if (allocation)
      text += fmt::format("; the first is `{}` ({} bytes)", allocation->label, allocation->bytes);
    return text;
  }
  if (growth.what == "memory")
    return fmt::format(
        "each call leaks {:.0f} bytes of memory: {} bytes are still allocated after {} calls with the same "
        "arguments. Free what a call allocates before it returns, or allocate it once and keep it",
        growth.per_call, growth.held, growth.calls);
  const std::string_view release = growth.what == "stream"  ? "cudaStreamDestroy"
                                   : growth.what == "event" ? "cudaEventDestroy"
                                                            : "cudaGraphDestroy, cudaGraphExecDestroy";
  return fmt::format(
      "each call leaks {:.2g} {}s: {} more exist after {} calls with the same arguments. Release "
      "them ({})",
      growth.per_call, growth.what, growth.held, growth.calls, release);
}

std::string unwaited(const Launch& e) {
  const std::string first =
      e.kernel.empty() ? "a copy to the host" : fmt::format("kernel {}", short_name(e.kernel));
  const bool several = e.operations > 1;
  return fmt::format("the program ended without waiting for {}{}: what {} may never have arrived", first,
                     several ? fmt::format(" and {} more", e.operations - 1) : "",
                     several ? "they write" : "it writes");
}

std::string unended(const Process& e) {
  if (e.kernel.empty())
    return fmt::format("the host code of {} did not return ({}), and no kernel was running", e.entry,
                       e.limit);
  std::string places;
  for (const Where& where : e.standing) places += (places.empty() ? "" : ", ") + text_of(where);
  std::string text = fmt::format("kernel `{}` did not end ({})", plain_name(e.kernel), e.limit);
  if (!places.empty()) text += fmt::format("; its warps are at {}", places);
  return e.smaller.empty() ? text : fmt::format("{}; {}", text, e.smaller);
}

}  // namespace

std::string text_of(const HostPlace& place) {
  if (const Frame* own = own_frame(place)) return text_of(*own);
  const std::string raw = !place.code.empty()    ? place.code
                          : !place.calls.empty() ? place.calls.front()
                                                 : std::string();
  if (place.where.line > 0) return fmt::format("{} ({})", text_of(place.where), place.function);
  if (!place.function.empty()) return fmt::format("{} ({})", place.function, raw);
  if (raw.empty()) return place.system_call;
  return place.system_call.empty() ? raw : fmt::format("{} at {}", place.system_call, raw);
}

std::string synchronisation_text(Kind kind, const Synchronisation& e) {
  if (e.matters_at)
    return fmt::format(
        "the mask of a shuffle names lanes that do not reach it; its undefined result is used at {}: {}",
        text_of(*e.matters_at), undefined_text(e.undefined));
  if (kind != Kind::Deadlock) return e.detail;
  return "waits for threads that never arrive" + (e.detail.empty() ? "" : ": " + e.detail);
}

std::string launch_text(Kind kind, const Launch& e) {
  if (e.growth) return leaked(*e.growth, e.allocation);
  if (kind == Kind::UnwaitedWork) return unwaited(e);
  if (!e.function.empty()) return fmt::format("{} returned {}", e.function, e.status);
  if (!e.detail.empty()) return e.detail;
  return fmt::format("the launch of kernel {} failed: {}{}", short_name(e.kernel), e.status_name,
                     e.asked.value_or(true) ? "" : ", and the program did not check for errors");
}

std::string process_text(Kind kind, const Process& e) {
  if (!e.what.empty()) return fmt::format("{}: host code {}", e.what, e.detail);
  if (kind == Kind::Timeout || !e.limit.empty()) return unended(e);
  return e.detail;
}

}  // namespace assay
