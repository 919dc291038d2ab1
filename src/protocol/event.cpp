#include "protocol/event.h"

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>

#include "finding/json.h"
#include "protocol/fields.h"
#include "protocol/quick_line.h"
#include "protocol/quick_reader.h"

namespace assay::protocol {

namespace {

constexpr std::size_t kMostLaunchLines = 64;  // of a launch that still runs
constexpr std::size_t kMostWords = 8192;      // of a kernel's parameters: 32 KiB is all that CUDA allows
constexpr std::size_t kMostFrames = 256;      // of a stack
constexpr std::string_view kOperations[] = {"kernel", "copy", "fill"};  // in the order of OperationKind
constexpr std::size_t kLongestCode = 8 << 20;                           // bytes of PTX

// In the order of the variant.
constexpr std::string_view kNames[] = {
    "launch",    "fault",       "finding", "early-finding",   "findings-reported", "still-running", "module",
    "precision", "unsupported", "code",    "recorded-launch", "recorded-fill",     "recorded-copy", "call",
    "stack",     "allocation",  "release", "out-of-memory",   "operation"};
static_assert(std::size(kNames) == std::variant_size_v<Event>);

// ---- Writing ----

Json json_of(const FaultEvent& e) {
  return {{"fault", e.fault}, {"detail", e.detail}};
}
Json json_of(const FindingEvent& e) {
  return {{"finding", to_event(e.finding)}};
}
Json json_of(const EarlyFindingEvent& e) {
  return {{"finding", to_event(e.finding)}};
}
Json json_of(const FindingsReportedEvent&) {
  return Json::object();
}
Json json_of(const StillRunningEvent& e) {
  Json lines = Json::array();
  for (const StillRunningEvent::Line& line : e.lines)
    lines.push_back({{"file", line.where.file}, {"line", line.where.line}, {"warps", line.warps}});
  return {{"kernel", e.kernel}, {"seconds", e.seconds}, {"lines", lines}};
}
Json json_of(const ModuleEvent& e) {
  return {{"name", e.name}, {"path", e.path}};
}
Json json_of(const ProfileEvent& e) {
  return {{"profile", to_json(e.profile)}};
}
Json json_of(const UnsupportedEvent& e) {
  return {{"what", e.what}};
}
Json json_of(const CodeEvent& e) {
  return {{"ptx", e.ptx}};
}

Json json_of(const RecordedPlace& place) {
  return {
      {"label", place.label}, {"offset", place.offset}, {"is_host", place.is_host}, {"bytes", place.bytes}};
}
Json json_of(const RecordedLaunchEvent& e) {
  Json pointers = Json::array();
  for (const RecordedPointer& pointer : e.pointers)
    pointers.push_back({{"at", pointer.at}, {"to", json_of(pointer.to)}});
  return {{"kernel", e.kernel},
          {"grid", e.grid},
          {"block", e.block},
          {"cluster", e.cluster},
          {"cooperative", e.cooperative},
          {"dynamic_shared", e.dynamic_shared},
          {"static_shared", e.static_shared},
          {"shared_limit", e.shared_limit},
          {"words", e.words},
          {"pointers", pointers},
          {"stream", e.stream},
          {"early", e.early}};
}
Json json_of(const RecordedFillEvent& e) {
  return {
      {"to", json_of(e.to)}, {"width", e.width}, {"rows", e.rows}, {"stream", e.stream}, {"zeros", e.zeros}};
}
Json json_of(const RecordedCopyEvent& e) {
  return {{"to", json_of(e.to)},
          {"from", json_of(e.from)},
          {"width", e.width},
          {"rows", e.rows},
          {"stream", e.stream}};
}
Json json_of(const CallEvent&) {
  return Json::object();
}

Json json_of(const StackEvent& e) {
  Json stack = Json::array();
  for (const Frame& frame : e.stack)
    stack.push_back({{"file", frame.where.file}, {"line", frame.where.line}, {"function", frame.function}});
  return {{"id", e.id}, {"calls", e.calls}, {"stack", stack}};
}
// Those of which a program makes many: the fields of each, in their order, for QuickLine and for QuickReader.
template <class Fields, class E>
requires std::same_as<std::remove_const_t<E>, LaunchEvent>
void quick_fields(Fields& fields, E& e) {
  fields.add("id", e.id)
      .add("kernel", e.kernel)
      .add("grid", e.grid)
      .add("block", e.block)
      .add("stream", e.stream)
      .add("dynamic_shared", e.dynamic_shared)
      .add("warp_instructions", e.warp_instructions)
      .add("seconds", e.seconds)
      .add("fault", e.fault)
      .add("file", e.launched_at.where.file)
      .add("line", e.launched_at.where.line)
      .add("function", e.launched_at.function);
}
template <class Fields, class E>
requires std::same_as<std::remove_const_t<E>, AllocationEvent>
void quick_fields(Fields& fields, E& e) {
  fields.add("id", e.id)
      .add("address", e.address)
      .add("bytes", e.bytes)
      .add("label", e.label)
      .add("host", e.is_host)
      .add("stack", e.stack)
      .add("seconds", e.seconds);
}
template <class Fields, class E>
requires std::same_as<std::remove_const_t<E>, ReleaseEvent>
void quick_fields(Fields& fields, E& e) {
  fields.add("id", e.id)
      .add("seconds", e.seconds)
      .add("called", e.called)
      .add("held", e.is_held)
      .add("counted", e.is_counted)
      .add("never_written", e.never_written)
      .add("never_read", e.never_read)
      .add("last_use", e.last_use)
      .add("writer", e.writer)
      .add("file", e.written_at.file)
      .add("line", e.written_at.line);
}
template <class Fields, class E>
requires std::same_as<std::remove_const_t<E>, OperationEvent>
void quick_fields(Fields& fields, E& e) {
  fields.add("id", e.id)
      .add("stream", e.stream)
      .add_choice("kind", e.kind, kOperations)
      .add("called", e.called)
      .add("returned", e.returned)
      .add("begin", e.begin)
      .add("end", e.end)
      .add("graph", e.is_graph);
  if (e.kind == OperationKind::Kernel) {
    fields.add("kernel", e.kernel)
        .add("grid", e.grid)
        .add("block", e.block)
        .add("shared_bytes", e.shared_bytes)
        .add("warp_instructions", e.warp_instructions)
        .add("fault", e.fault);
  } else {
    fields.add("bytes", e.bytes).add("from_host", e.from_host).add("to_host", e.to_host);
  }
}
Json json_of(const OutOfMemoryEvent& e) {
  return {{"bytes", e.bytes}, {"free", e.free}, {"stack", e.stack}, {"seconds", e.seconds}};
}

// ---- Reading ----

// An event that was written by QuickLine; none: it is another, or was not, and takes the long way.
template <class E>
bool read_quickly(std::string_view line, std::string_view name, Result<Event>& event) {
  QuickReader reader(line, name);
  if (!reader.is_good()) return false;
  E e;
  quick_fields(reader, e);
  if (!reader.is_whole()) return false;
  event = Event(std::move(e));
  return true;
}

std::array<uint32_t, 3> read_extents(FieldReader& fields, const char* name) {
  std::array<uint32_t, 3> extents{};
  std::size_t i = 0;
  fields.integers(name, 3, 0, std::numeric_limits<uint32_t>::max(),
                  [&](int64_t n) { extents[i++] = static_cast<uint32_t>(n); });
  if (i != 3) fields.fail(name, "does not have three elements");
  return extents;
}

LaunchEvent read_launch(FieldReader& fields) {
  LaunchEvent e;
  e.id = fields.unsigned_integer("id");
  e.kernel = fields.text("kernel", kLongestText);
  e.grid = read_extents(fields, "grid");
  e.block = read_extents(fields, "block");
  e.stream = fields.unsigned_integer("stream");
  e.dynamic_shared = fields.unsigned_integer("dynamic_shared");
  e.warp_instructions = fields.unsigned_integer("warp_instructions");
  e.seconds = fields.number("seconds");
  e.fault = fields.text("fault", kLongestText);
  e.launched_at.where.file = fields.text("file", kLongestText);
  e.launched_at.where.line = static_cast<int>(fields.integer("line", 0, std::numeric_limits<int>::max()));
  e.launched_at.function = fields.text("function", kLongestText);
  return e;
}

StillRunningEvent read_still_running(FieldReader& fields) {
  constexpr int kMost = std::numeric_limits<int>::max();
  StillRunningEvent e;
  e.kernel = fields.text("kernel", kLongestText);
  e.seconds = fields.number("seconds");
  fields.objects("lines", kMostLaunchLines, [&](FieldReader& line) {
    const std::string file = line.text("file", kLongestText);
    const auto number = static_cast<int>(line.integer("line", 0, kMost));
    e.lines.push_back({{file, number}, static_cast<uint32_t>(line.integer("warps", 0, kMost))});
  });
  return e;
}

RecordedPlace read_place(FieldReader fields) {
  RecordedPlace place{fields.text("label", kLongestText), 0, false};
  place.offset = fields.unsigned_integer("offset");
  place.is_host = fields.boolean("is_host");
  place.bytes = fields.unsigned_integer("bytes");
  return place;
}

RecordedLaunchEvent read_recorded_launch(FieldReader& fields) {
  RecordedLaunchEvent e;
  e.kernel = fields.text("kernel", kLongestText);
  e.grid = read_extents(fields, "grid");
  e.block = read_extents(fields, "block");
  e.cluster = read_extents(fields, "cluster");
  e.cooperative = fields.boolean("cooperative");
  e.dynamic_shared = fields.unsigned_integer("dynamic_shared");
  e.static_shared = fields.unsigned_integer("static_shared");
  e.shared_limit = fields.unsigned_integer("shared_limit");
  fields.integers("words", kMostWords, 0, std::numeric_limits<uint32_t>::max(),
                  [&](int64_t word) { e.words.push_back(static_cast<uint32_t>(word)); });
  fields.objects("pointers", kMostWords / 2, [&](FieldReader& pointer) {
    const int64_t last = 4 * static_cast<int64_t>(e.words.size()) - 8;
    const auto at = static_cast<uint32_t>(pointer.integer("at", 0, last));
    e.pointers.push_back({at, read_place(pointer.object("to"))});
  });
  e.stream = fields.unsigned_integer("stream");
  e.early = fields.boolean("early");
  return e;
}

RecordedFillEvent read_recorded_fill(FieldReader& fields) {
  RecordedFillEvent e{read_place(fields.object("to")), 0, 0};
  e.width = fields.unsigned_integer("width");
  e.rows = fields.unsigned_integer("rows");
  e.stream = fields.unsigned_integer("stream");
  e.zeros = fields.boolean("zeros");
  return e;
}

RecordedCopyEvent read_recorded_copy(FieldReader& fields) {
  RecordedCopyEvent e{read_place(fields.object("to")), read_place(fields.object("from")), 0, 0};
  e.width = fields.unsigned_integer("width");
  e.rows = fields.unsigned_integer("rows");
  e.stream = fields.unsigned_integer("stream");
  return e;
}

Finding read_finding(FieldReader& fields) {
  auto finding = finding_from_event(fields.raw("finding"));
  if (finding) return std::move(*finding);
  fields.fail("finding", finding.error().text().c_str());
  return {};
}

Profile read_profile(FieldReader& fields) {
  auto profile = profile_from_json(fields.raw("profile"));
  if (profile) return std::move(*profile);
  fields.fail("profile", profile.error().text().c_str());
  return {};
}

StackEvent read_stack(FieldReader& fields) {
  StackEvent e;
  e.id = fields.unsigned_integer("id");
  fields.texts("calls", kMostFrames, kLongestText,
               [&](std::string call) { e.calls.push_back(std::move(call)); });
  fields.objects("stack", kMostFrames, [&](FieldReader& frame) {
    const std::string file = frame.text("file", kLongestText);
    const auto line = static_cast<int>(frame.integer("line", 0, std::numeric_limits<int>::max()));
    e.stack.push_back({{file, line}, frame.text("function", kLongestText), true});
  });
  return e;
}

AllocationEvent read_allocation(FieldReader& fields) {
  AllocationEvent e;
  e.id = fields.unsigned_integer("id");
  e.address = fields.unsigned_integer("address");
  e.bytes = fields.unsigned_integer("bytes");
  e.label = fields.text("label", kLongestText);
  e.is_host = fields.boolean("host");
  e.stack = fields.unsigned_integer("stack");
  e.seconds = fields.number("seconds");
  return e;
}

ReleaseEvent read_release(FieldReader& fields) {
  ReleaseEvent e;
  e.id = fields.unsigned_integer("id");
  e.seconds = fields.number("seconds");
  e.called = fields.number("called");
  e.is_held = fields.boolean("held");
  e.is_counted = fields.boolean("counted");
  e.never_written = fields.unsigned_integer("never_written");
  e.never_read = fields.unsigned_integer("never_read");
  e.last_use = fields.number("last_use");
  e.writer = fields.text("writer", kLongestText);
  e.written_at.file = fields.text("file", kLongestText);
  e.written_at.line = static_cast<int>(fields.integer("line", 0, std::numeric_limits<int>::max()));
  return e;
}

OutOfMemoryEvent read_out_of_memory(FieldReader& fields) {
  OutOfMemoryEvent e;
  e.bytes = fields.unsigned_integer("bytes");
  e.free = fields.unsigned_integer("free");
  e.stack = fields.unsigned_integer("stack");
  e.seconds = fields.number("seconds");
  return e;
}

OperationEvent read_operation(FieldReader& fields) {
  OperationEvent e;
  e.id = fields.unsigned_integer("id");
  e.stream = fields.unsigned_integer("stream");
  e.kind = static_cast<OperationKind>(fields.choice("kind", kOperations));
  e.called = fields.number("called");
  e.returned = fields.number("returned");
  e.begin = fields.number("begin");
  e.end = fields.number("end");
  e.is_graph = fields.boolean("graph");
  if (e.kind == OperationKind::Kernel) {
    e.kernel = fields.text("kernel", kLongestText);
    e.grid = read_extents(fields, "grid");
    e.block = read_extents(fields, "block");
    e.shared_bytes = fields.unsigned_integer("shared_bytes");
    e.warp_instructions = fields.unsigned_integer("warp_instructions");
    e.fault = fields.text("fault", kLongestText);
  } else {
    e.bytes = fields.unsigned_integer("bytes");
    e.from_host = fields.boolean("from_host");
    e.to_host = fields.boolean("to_host");
  }
  return e;
}

Event read(FieldReader& fields) {
  switch (fields.choice("event", kNames)) {
    case 0:
      return read_launch(fields);
    case 1: {
      FaultEvent e{fields.text("fault", kLongestText), ""};
      e.detail = fields.text("detail", kLongestText);
      return e;
    }
    case 2:
      return FindingEvent{read_finding(fields)};
    case 3:
      return EarlyFindingEvent{read_finding(fields)};
    case 4:
      return FindingsReportedEvent{};
    case 5:
      return read_still_running(fields);
    case 6: {
      ModuleEvent e{fields.text("name", kLongestText), ""};
      e.path = fields.text("path", kLongestText);
      return e;
    }
    case 7:
      return ProfileEvent{read_profile(fields)};
    case 8:
      return UnsupportedEvent{fields.text("what", kLongestText)};
    case 9:
      return CodeEvent{fields.text("ptx", kLongestCode)};
    case 10:
      return read_recorded_launch(fields);
    case 11:
      return read_recorded_fill(fields);
    case 12:
      return read_recorded_copy(fields);
    case 13:
      return CallEvent{};
    case 14:
      return read_stack(fields);
    case 15:
      return read_allocation(fields);
    case 16:
      return read_release(fields);
    case 17:
      return read_out_of_memory(fields);
    default:
      return read_operation(fields);
  }
}

}  // namespace

std::string encode(const Event& event) {
  return std::visit(
      [&](const auto& e) {
        if constexpr (requires(QuickLine & line) { quick_fields(line, e); }) {
          QuickLine line(kNames[event.index()]);
          quick_fields(line, e);
          return line.take();
        } else {
          Json json = {{"event", std::string(kNames[event.index()])}};
          json.update(json_of(e));
          return line_of(json);
        }
      },
      event);
}

Result<Event> decode_event(std::string_view line) {
  Result<Event> quick = Event{};
  if (read_quickly<OperationEvent>(line, "operation", quick) ||
      read_quickly<LaunchEvent>(line, "launch", quick) ||
      read_quickly<AllocationEvent>(line, "allocation", quick) ||
      read_quickly<ReleaseEvent>(line, "release", quick))
    return quick;
  FieldReader fields(line, "an event");
  Event event = read(fields);
  if (fields.failed()) return fields.error();
  return event;
}

const Finding* finding_of(const Event& event) {
  if (const auto* now = std::get_if<FindingEvent>(&event)) return &now->finding;
  if (const auto* early = std::get_if<EarlyFindingEvent>(&event)) return &early->finding;
  return nullptr;
}

}  // namespace assay::protocol
