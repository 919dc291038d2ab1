// The page: that of page/, with what it shows as JSON inside.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <unordered_map>

#include "activity/activity.h"
#include "activity/html_page.h"
#include "activity/json_text.h"
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

// An object of JSON as text, field by field.
class ObjectText {
 public:
  explicit ObjectText(std::string& text) : text_(text) { text_ += '{'; }

  ObjectText& field(std::string_view name, std::string_view value) {
    key(name);
    append_quoted(text_, value);
    return *this;
  }
  // No pointer to characters is one.
  ObjectText& field(std::string_view name, std::same_as<bool> auto value) {
    return written(name, value ? "true" : "false");
  }
  // Finite.
  template <class Number>
  requires(std::integral<Number> && !std::same_as<Number, bool>) ||
      std::floating_point<Number> ObjectText& field(std::string_view name, Number value) {
    key(name);
    append_number(text_, value);
    return *this;
  }
  // JSON already.
  ObjectText& written(std::string_view name, std::string_view json) {
    key(name);
    text_ += json;
    return *this;
  }
  void end() { text_ += '}'; }

 private:
  void key(std::string_view name) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_ += name;
    text_ += "\":";
  }

  std::string& text_;
};

// What many allocations and operations have in common, made once: the lines of a stack, and short names of kernels.
class SharedText {
 public:
  explicit SharedText(const Activity& activity) : stacks_(activity.stacks.size()), activity_(activity) {}

  struct Stack {
    std::string place, frames;  // both as JSON
  };
  const Stack& stack(std::size_t at) {
    Stack& made = stacks_[at];
    if (!made.place.empty()) return made;
    const std::vector<Frame>& stack = activity_.stacks[at];
    append_quoted(made.place, place_of(stack));
    made.frames = '[';
    for (std::size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i) {
      if (i > 0) made.frames += ',';
      append_quoted(made.frames, text_of(stack[i]));
    }
    made.frames += ']';
    return made;
  }
  const std::string& kernel(const std::string& name) {
    std::string& made = kernels_[name];
    if (made.empty()) made = short_name(name, kLongestName);
    return made;
  }
  std::string writer(const Allocation& one) {
    if (one.writer.empty()) return "";
    const std::string& name = kernel(one.writer);
    return one.written_at.line > 0 ? fmt::format("{}, {}", name, text_of(one.written_at)) : name;
  }

 private:
  std::vector<Stack> stacks_;
  std::unordered_map<std::string, std::string> kernels_;
  const Activity& activity_;
};

void add(std::string& text, const Allocation& one, SharedText& shared) {
  const SharedText::Stack& stack = shared.stack(one.stack);
  ObjectText object(text);
  object.field("id", one.id)
      .field("bytes", one.bytes)
      .field("label", one.label)
      .field("host", one.is_host)
      .field("begin", one.begin);
  if (one.is_released)
    object.field("end", one.end);
  else
    object.written("end", "null");
  object.field("counted", one.is_counted)
      .field("never_written", one.never_written)
      .field("never_read", one.never_read)
      .field("last_use", one.last_use)
      .field("writer", shared.writer(one))
      .written("place", stack.place)
      .written("stack", stack.frames)
      .end();
}

void add(std::string& text, const protocol::OperationEvent& one, SharedText& shared) {
  using protocol::OperationKind;
  const auto dims = [](const std::array<uint32_t, 3>& dim) {
    return fmt::format("{} x {} x {}", dim[0], dim[1], dim[2]);
  };
  ObjectText object(text);
  object.field("stream", one.stream)
      .field("begin", one.begin)
      .field("end", one.end)
      .field("fault", one.fault);
  if (one.kind == OperationKind::Kernel) {
    object.field("kind", "kernel")
        .field("name", shared.kernel(one.kernel))
        .field("detail", fmt::format("grid {}, block {}, {} warp instructions", dims(one.grid),
                                     dims(one.block), one.warp_instructions));
  } else {
    const bool is_copy = one.kind == OperationKind::Copy;
    object.field("kind", is_copy ? "copy" : "fill")
        .field("name", !is_copy ? "memset"
                                : fmt::format("copy, {} to {}", one.from_host ? "host" : "device",
                                              one.to_host ? "host" : "device"))
        .field("detail", fmt::format("{} bytes", one.bytes));
  }
  object.end();
}

// The positions of the first `most` by `key`, in their own order.
template <class Item, class Key>
std::vector<std::size_t> largest(const std::vector<Item>& all, std::size_t most, Key key) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (all.size() <= most) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(all[a]) > key(all[b]); });
  order.resize(most);
  std::sort(order.begin(), order.end());
  return order;
}

template <class Item>
std::string list_of(const std::vector<Item>& all, const std::vector<std::size_t>& chosen,
                    SharedText& shared) {
  std::string text = "[";
  for (const std::size_t i : chosen) {
    if (text.size() > 1) text += ',';
    add(text, all[i], shared);
  }
  return text + ']';
}

Json findings_of(const Activity& activity) {
  Json findings = Json::array();
  for (const FoundAt& found :
       std::span(activity.findings).first(std::min(activity.findings.size(), kMostFindings)))
    findings.push_back({{"seconds", found.seconds},
                        {"kind", to_string(found.finding.kind)},
                        {"severity", to_string(found.finding.severity)},
                        {"where", text_of(found.finding.where)},
                        {"message", message(found.finding)}});
  return findings;
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string data_of(const Activity& activity, const std::string& program) {
  const Peak peak = peak_of(activity);
  Json held = Json::array();
  for (const std::size_t i : peak.held) held.push_back(activity.allocations[i].id);
  const Json counts = {{"allocations", activity.allocations.size()},
                       {"operations", activity.operations.size()},
                       {"findings", activity.findings.size()}};
  SharedText shared(activity);
  std::string text;
  ObjectText(text)
      .written("program", dumped(Json(program)))
      .field("end", activity.end)
      .written("counts", dumped(counts))
      .written("peak", dumped({{"bytes", peak.bytes}, {"seconds", peak.seconds}, {"held", std::move(held)}}))
      .written("allocations", list_of(activity.allocations,
                                      largest(activity.allocations, kMostAllocations,
                                              [](const Allocation& one) { return one.bytes; }),
                                      shared))
      .written("operations",
               list_of(activity.operations,
                       largest(activity.operations, kMostOperations,
                               [](const protocol::OperationEvent& one) { return one.end - one.begin; }),
                       shared))
      .written("findings", dumped(findings_of(activity)))
      .end();
  return text;
}

}  // namespace

std::string page(const Activity& activity, const std::string& program) {
  std::string data = data_of(activity, program);
  // JSON inside of a script element: nothing in it may look like a tag.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
  std::string text(kPage_html);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{css}}", kPage_css}, {"{{js}}", kPage_js}, {"{{data}}", data}};
  for (const auto& [mark, content] : parts) text.replace(text.find(mark), mark.size(), content);
  return text;
}

}  // namespace assay::activity
