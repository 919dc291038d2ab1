// The page: that of page/, with what it shows as JSON inside.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "activity/activity.h"
#include "activity/html_page.h"
#include "activity/pieces.h"
#include "activity/pool.h"
#include "base/symbol.h"
#include "finding/json.h"
#include "finding/message.h"

namespace assay::activity {

namespace {

// More than a page can draw or a reader look at; the largest and longest are kept.
constexpr std::size_t kMostAllocations = 4000, kMostOperations = 20000;
constexpr std::size_t kMostFindings = 1000, kMostFailures = 1000;
constexpr std::size_t kMostBlocks = 4000;  // of a pool
constexpr std::size_t kMostFrames = 12, kLongestName = 80;

// Of PyTorch's operators on the virtual GPU.
bool is_of_virtual_gpu(const Frame& frame) {
  return frame.where.file.find("/assay/virtual/") != std::string::npos;
}

// The program's own line, as far as it is known.
std::string place_of(const std::vector<Frame>& stack) {
  const evidence::HostPlace host{.stack = stack};
  if (const Frame* own = own_frame(host); own && own->where.line > 0) return text_of(*own);
  // No Python code called the operator: torch's autograd has threads of its own.
  if (!stack.empty() && std::ranges::all_of(stack, is_of_virtual_gpu))
    return "a thread of PyTorch, as in a backward pass";
  for (const Frame& frame : stack)
    if (frame.where.line > 0) return text_of(frame);
  return stack.empty() ? "" : stack.front().function;
}

// The line that called the program's own line, of the same program: many programs allocate in one function of their own.
std::string caller_of(const std::vector<Frame>& stack) {
  const std::string place = place_of(stack);
  const auto at = std::ranges::find(stack, place, [](const Frame& frame) { return text_of(frame); });
  if (at == stack.end()) return "";
  const evidence::HostPlace rest{.stack = {at + 1, stack.end()}};
  const Frame* own = own_frame(rest);
  return own && own->where.line > 0 ? text_of(*own) : "";
}

// What many allocations and operations have in common, made once, as JSON: the lines of a stack, and names.
class SharedText {
 public:
  explicit SharedText(const Activity& activity) : stacks_(activity.stacks.size()), activity_(activity) {}

  // "place":"…","caller":"…","stack":["…","…"]
  const std::string& stack(std::size_t at) {
    std::string& made = stacks_[at];
    if (!made.empty()) return made;
    const std::vector<Frame>& stack = activity_.stacks[at];
    made = "\"place\":" + json_string(place_of(stack)) + ",\"caller\":" + json_string(caller_of(stack)) +
           ",\"stack\":[";
    for (std::size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i) {
      if (i > 0) made += ',';
      made += json_string(text_of(stack[i]));
    }
    return made += ']';
  }
  const std::string& kernel(std::string_view name) {
    if (last_kernel_.first == name.data() && last_kernel_.second) return *last_kernel_.second;
    std::string& made = kernels_[name.data()];
    if (made.empty()) made = json_string(short_name(std::string(name), kLongestName));
    last_kernel_ = {name.data(), &made};
    return made;
  }
  // "add, add.cu:7"
  const std::string& writer(const Allocation& one) {
    if (last_writer_.first == Writer{one.writer.data(), one.file.data(), one.line} && last_writer_.second)
      return *last_writer_.second;
    const Writer who{one.writer.data(), one.file.data(), one.line};
    std::string& made = writers_[who];
    if (made.empty()) {
      const std::string name = short_name(std::string(one.writer), kLongestName);
      made = json_string(one.writer.empty() ? ""
                         : one.line > 0
                             ? fmt::format("{}, {}", name, text_of(Where{std::string(one.file), one.line}))
                             : name);
    }
    last_writer_ = {who, &made};
    return made;
  }
  QuotedTexts quoted_text;

 private:
  using Writer = std::tuple<const char*, const char*, int>;
  std::vector<std::string> stacks_;
  std::unordered_map<const char*, std::string> kernels_;  // by the place of the text, which stays
  std::map<Writer, std::string> writers_;
  std::pair<const char*, const std::string*> last_kernel_{};
  std::pair<Writer, const std::string*> last_writer_{};
  const Activity& activity_;
};

void add(Pieces& text, const Allocation& one, SharedText& shared) {
  text << "{\"id\":" << one.id << ",\"bytes\":" << one.bytes << ",\"label\":" << shared.quoted_text(one.label)
       << ",\"host\":" << one.is_host << ",\"begin\":" << in_seconds(one.begin) << ",\"end\":";
  if (one.is_released)
    text << in_seconds(one.end);
  else
    text << "null";
  text << ",\"counted\":" << one.is_counted << ",\"never_written\":" << one.never_written
       << ",\"never_read\":" << one.never_read << ",\"last_use\":" << in_seconds(one.last_use)
       << ",\"writer\":" << shared.writer(one) << ',' << shared.stack(one.stack) << '}';
}

void add(Pieces& text, const OutOfMemory& one, SharedText& shared) {
  text << "{\"seconds\":" << in_seconds(one.seconds) << ",\"bytes\":" << one.bytes << ",\"free\":" << one.free
       << ',' << shared.stack(one.stack) << '}';
}

void add(Pieces& text, const Operation& one, SharedText& shared) {
  using protocol::OperationKind;
  const auto extents = [&](const std::array<uint32_t, 3>& dim) {
    text << dim[0] << " x " << dim[1] << " x " << dim[2];
  };
  text << "{\"stream\":" << one.stream << ",\"begin\":" << in_seconds(one.begin)
       << ",\"end\":" << in_seconds(one.end) << ",\"fault\":" << shared.quoted_text(one.fault);
  if (one.kind == OperationKind::Kernel) {
    text << ",\"kind\":\"kernel\",\"name\":" << shared.kernel(one.kernel) << ",\"detail\":\"grid ";
    extents(one.grid);
    text << ", block ";
    extents(one.block);
    text << ", " << one.warp_instructions << " warp instructions\"}";
    return;
  }
  constexpr std::string_view kCopies[] = {"device to device", "device to host", "host to device",
                                          "host to host"};
  if (one.kind == OperationKind::Copy)
    text << ",\"kind\":\"copy\",\"name\":\"copy, " << kCopies[2 * one.from_host + one.to_host];
  else
    text << ",\"kind\":\"fill\",\"name\":\"memset";
  text << "\",\"detail\":\"" << one.bytes << " bytes\"}";
}

// The positions of the `most` largest by `key`, in their own order; of equal ones, the first.
template <class Item, class Key>
std::vector<std::size_t> largest(const std::vector<Item>& all, std::size_t most, Key key) {
  std::vector<std::size_t> chosen(std::min(all.size(), most));
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (all.size() <= most) return chosen;
  std::vector<decltype(key(all.front()))> keys(all.size());
  std::ranges::transform(all, keys.begin(), key);
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(most) - 1;
  std::ranges::nth_element(keys, last, std::greater<>{});
  const auto least = *last;
  auto equal = static_cast<std::size_t>(std::count(keys.begin(), last + 1, least));
  chosen.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto own = key(all[i]);
    if (own < least || (own == least && equal == 0)) continue;
    if (own == least) --equal;
    chosen.push_back(i);
  }
  return chosen;
}

template <class Item>
void add_list(Pieces& text, std::string_view name, const std::vector<Item>& all,
              const std::vector<std::size_t>& chosen, SharedText& shared) {
  text << name;
  char before = '[';
  for (const std::size_t i : chosen) {
    text << std::exchange(before, ',');
    add(text, all[i], shared);
  }
  text << (chosen.empty() ? "[]" : "]");
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

uint64_t gaps_of(const PoolSegment& segment) {
  uint64_t bytes = 0;
  for (const PoolBlock& block : segment.blocks) bytes += block.allocation ? 0 : block.bytes;
  return bytes;
}

// Segments with the most bytes in gaps first, as many as can be drawn.
Json pool_json(const Activity& activity) {
  const Pool pool = pool_of(activity);
  std::size_t gaps = 0;
  uint64_t largest = 0;
  std::vector<std::pair<uint64_t, const PoolSegment*>> order;
  for (const PoolSegment& segment : pool.segments) {
    order.emplace_back(gaps_of(segment), &segment);
    for (const PoolBlock& block : segment.blocks) {
      if (block.allocation) continue;
      ++gaps;
      largest = std::max(largest, block.bytes);
    }
  }
  std::ranges::stable_sort(order, std::greater<>{}, &std::pair<uint64_t, const PoolSegment*>::first);
  Json segments = Json::array();
  std::size_t blocks = 0;
  for (const auto& [free, segment] : order) {
    blocks += segment->blocks.size();
    if (blocks > kMostBlocks) break;
    Json list = Json::array();
    for (const PoolBlock& block : segment->blocks)
      list.push_back({block.bytes, block.allocation ? activity.allocations[*block.allocation].id : 0});
    segments.push_back({{"bytes", segment->bytes}, {"gaps", free}, {"blocks", std::move(list)}});
  }
  return {{"allocations", pool.allocations},
          {"reserved", pool.reserved},
          {"most_in_use", pool.most_in_use},
          {"seconds", pool.seconds},
          {"in_use", pool.in_use},
          {"rounding", pool.rounding},
          {"gaps", {{"bytes", pool.gaps}, {"count", gaps}, {"largest", largest}}},
          {"segment_count", pool.segments.size()},
          {"segments", std::move(segments)}};
}

// Nothing in it looks like a tag.
std::string dumped(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  return text;
}

void add_data(Pieces& text, const Activity& activity, const std::string& program) {
  const Peak peak = peak_of(activity);
  Json held = Json::array();
  for (const std::size_t i : std::span(peak.held).first(std::min(peak.held.size(), kMostAllocations)))
    held.push_back(activity.allocations[i].id);
  const Json counts = {{"allocations", activity.allocations.size()},
                       {"operations", activity.operations.size()},
                       {"failures", activity.out_of_memory.size()},
                       {"findings", activity.findings.size()}};
  SharedText shared(activity);
  text << "{\"program\":" << json_string(program) << ",\"end\":" << in_seconds(activity.end)
       << ",\"counts\":" << dumped(counts) << ",\"peak\":"
       << dumped({{"bytes", peak.bytes},
                  {"seconds", peak.seconds},
                  {"allocations", peak.held.size()},
                  {"held", std::move(held)}});
  add_list(text, ",\"allocations\":", activity.allocations,
           largest(activity.allocations, kMostAllocations, [](const Allocation& one) { return one.bytes; }),
           shared);
  add_list(
      text, ",\"operations\":", activity.operations,
      largest(activity.operations, kMostOperations, [](const Operation& one) { return one.end - one.begin; }),
      shared);
  std::vector<std::size_t> failures(std::min(activity.out_of_memory.size(), kMostFailures));
  std::iota(failures.begin(), failures.end(), std::size_t{0});
  add_list(text, ",\"failures\":", activity.out_of_memory, failures, shared);
  text << ",\"pool\":" << dumped(pool_json(activity));
  text << ",\"findings\":" << dumped(findings_of(activity)) << '}';
}

}  // namespace

void page(const Activity& activity, const std::string& program, const Sink& sink) {
  Pieces text(sink);
  std::string_view rest = kPage_html;
  const auto put_until = [&](std::string_view mark) {
    const std::size_t at = rest.find(mark);
    text << rest.substr(0, at);
    rest.remove_prefix(at + mark.size());
  };
  put_until("{{css}}");
  text << kPage_css;
  put_until("{{data}}");
  add_data(text, activity, program);
  put_until("{{js}}");
  text << kPage_js << rest;
}

}  // namespace assay::activity
