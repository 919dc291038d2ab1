// The page: that of page/, with what it shows as JSON inside.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "activity/activity.h"
#include "activity/html_page.h"
#include "base/symbol.h"
#include "finding/json.h"
#include "finding/message.h"

namespace assay::activity {

namespace {

// More than a page can draw or a reader look at; the largest and longest are kept.
constexpr std::size_t kMostAllocations = 4000, kMostOperations = 20000;
constexpr std::size_t kMostFindings = 1000;
constexpr std::size_t kMostFrames = 12, kLongestName = 80;

// The program's own line, as far as it is known.
std::string place_of(const std::vector<Frame>& stack) {
  const evidence::HostPlace host{.stack = stack};
  if (const Frame* own = own_frame(host); own && own->where.line > 0) return text_of(*own);
  for (const Frame& frame : stack)
    if (frame.where.line > 0) return text_of(frame);
  return stack.empty() ? "" : stack.front().function;
}

std::string writer_of(const Allocation& one) {
  if (one.writer.empty()) return "";
  const std::string name = short_name(one.writer, kLongestName);
  return one.written_at.line > 0 ? fmt::format("{}, {}", name, text_of(one.written_at)) : name;
}

Json json_of(const Allocation& one, const std::vector<Frame>& stack) {
  Json frames = Json::array();
  for (std::size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i) frames.push_back(text_of(stack[i]));
  return {{"id", one.id},
          {"bytes", one.bytes},
          {"label", one.label},
          {"host", one.is_host},
          {"begin", one.begin},
          {"end", one.is_released ? Json(one.end) : Json()},
          {"counted", one.is_counted},
          {"never_written", one.never_written},
          {"never_read", one.never_read},
          {"last_use", one.last_use},
          {"writer", writer_of(one)},
          {"place", place_of(stack)},
          {"stack", std::move(frames)}};
}

Json json_of(const protocol::OperationEvent& one) {
  using protocol::OperationKind;
  const auto dims = [](const std::array<uint32_t, 3>& dim) {
    return fmt::format("{}", fmt::join(dim, " x "));
  };
  Json json = {{"stream", one.stream}, {"begin", one.begin}, {"end", one.end}, {"fault", one.fault}};
  if (one.kind == OperationKind::Kernel) {
    json["kind"] = "kernel";
    json["name"] = short_name(one.kernel, kLongestName);
    json["detail"] = fmt::format("grid {}, block {}, {} warp instructions", dims(one.grid), dims(one.block),
                                 one.warp_instructions);
  } else {
    const bool is_copy = one.kind == OperationKind::Copy;
    json["kind"] = is_copy ? "copy" : "fill";
    json["name"] = !is_copy ? "memset"
                            : fmt::format("copy, {} to {}", one.from_host ? "host" : "device",
                                          one.to_host ? "host" : "device");
    json["detail"] = fmt::format("{} bytes", one.bytes);
  }
  return json;
}

// The first `most` by `key`, in their own order.
template <class Item, class Key>
std::vector<Item> largest(const std::vector<Item>& all, std::size_t most, Key key) {
  if (all.size() <= most) return all;
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(all[a]) > key(all[b]); });
  order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<Item> kept;
  for (const std::size_t i : order) kept.push_back(all[i]);
  return kept;
}

Json data_of(const Activity& activity, const std::string& program) {
  const Peak peak = peak_of(activity);
  Json held = Json::array(), allocations = Json::array(), operations = Json::array(),
       findings = Json::array();
  for (const std::size_t i : peak.held) held.push_back(activity.allocations[i].id);
  for (const Allocation& one :
       largest(activity.allocations, kMostAllocations, [](const Allocation& a) { return a.bytes; }))
    allocations.push_back(json_of(one, activity.stack_of(one)));
  for (const protocol::OperationEvent& one :
       largest(activity.operations, kMostOperations,
               [](const protocol::OperationEvent& o) { return o.end - o.begin; }))
    operations.push_back(json_of(one));
  for (const FoundAt& found :
       std::span(activity.findings).first(std::min(activity.findings.size(), kMostFindings)))
    findings.push_back({{"seconds", found.seconds},
                        {"kind", to_string(found.finding.kind)},
                        {"severity", to_string(found.finding.severity)},
                        {"where", text_of(found.finding.where)},
                        {"message", message(found.finding)}});
  return {{"program", program},
          {"end", activity.end},
          {"counts",
           {{"allocations", activity.allocations.size()},
            {"operations", activity.operations.size()},
            {"findings", activity.findings.size()}}},
          {"peak", {{"bytes", peak.bytes}, {"seconds", peak.seconds}, {"held", std::move(held)}}},
          {"allocations", std::move(allocations)},
          {"operations", std::move(operations)},
          {"findings", std::move(findings)}};
}

}  // namespace

std::string page(const Activity& activity, const std::string& program) {
  std::string data = data_of(activity, program).dump(-1, ' ', false, Json::error_handler_t::replace);
  // JSON inside of a script element: nothing in it may look like a tag.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
  std::string text(kPage_html);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{css}}", kPage_css}, {"{{js}}", kPage_js}, {"{{data}}", data}};
  for (const auto& [mark, content] : parts) text.replace(text.find(mark), mark.size(), content);
  return text;
}

}  // namespace assay::activity
