#include "protocol/event_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "finding/json.h"
#include "protocol/fields.h"

namespace assay::protocol {

namespace {

constexpr std::array<uint32_t, 3> kNoExtents{1, 1, 1};

std::array<uint32_t, 3> extents(const uint32_t (&from)[3]) {
  return {from[0], from[1], from[2]};
}

// An event of this type in the place of `event`.
template <class One>
One& made(Event& event) {
  One* const same = std::get_if<One>(&event);
  return same ? *same : event.emplace<One>();
}

// One record as an event, of which every field is set. A field that cannot be is remembered in `is_good`.
class RecordReader {
 public:
  RecordReader(std::string_view payload, const std::vector<std::string>& texts)
      : payload_(payload), texts_(texts) {}

  bool read(RecordType type, Event& event) {
    switch (type) {
      case RecordType::Launch:
        read(made<LaunchEvent>(event));
        break;
      case RecordType::Allocation:
        read(made<AllocationEvent>(event));
        break;
      case RecordType::Release:
        read(made<ReleaseEvent>(event));
        break;
      case RecordType::Operation:
        read(made<OperationEvent>(event));
        break;
      default:
        return false;
    }
    return is_good_;
  }

 private:
  template <class Record>
  Record payload() {
    Record record{};
    is_good_ = payload_.size() == sizeof record;
    if (is_good_) std::memcpy(&record, payload_.data(), sizeof record);
    return record;
  }
  double finite(double value) {
    is_good_ = is_good_ && std::isfinite(value);
    return value;
  }
  bool flag(uint32_t value) {
    is_good_ = is_good_ && value <= 1;
    return value != 0;
  }
  int line(int32_t value) {
    is_good_ = is_good_ && value >= 0;
    return value;
  }
  void set(std::string& text, TextId id) {
    is_good_ = is_good_ && id <= texts_.size();
    if (id == 0 || !is_good_)
      text.clear();
    else
      text = texts_[id - 1];
  }

  void read(LaunchEvent& event) {
    const auto r = payload<LaunchRecord>();
    event.id = r.id;
    set(event.kernel, r.kernel);
    event.grid = extents(r.grid);
    event.block = extents(r.block);
    event.stream = r.stream;
    event.dynamic_shared = r.dynamic_shared;
    event.warp_instructions = r.warp_instructions;
    event.seconds = finite(r.seconds);
    set(event.fault, r.fault);
    set(event.launched_at.where.file, r.file);
    event.launched_at.where.line = line(r.line);
    set(event.launched_at.function, r.function);
  }
  void read(AllocationEvent& event) {
    const auto r = payload<AllocationRecord>();
    event.id = r.id;
    event.address = r.address;
    event.bytes = r.bytes;
    set(event.label, r.label);
    event.is_host = flag(r.is_host);
    event.stack = r.stack;
    event.seconds = finite(r.seconds);
  }
  void read(ReleaseEvent& event) {
    const auto r = payload<ReleaseRecord>();
    event.id = r.id;
    event.seconds = finite(r.seconds);
    event.called = finite(r.called);
    event.is_held = flag(r.is_held);
    event.is_counted = flag(r.is_counted);
    event.never_written = r.never_written;
    event.never_read = r.never_read;
    event.last_use = finite(r.last_use);
    set(event.writer, r.writer);
    set(event.written_at.file, r.file);
    event.written_at.line = line(r.line);
  }
  void read(OperationEvent& event) {
    const auto r = payload<OperationRecord>();
    is_good_ = is_good_ && r.kind <= static_cast<uint8_t>(OperationKind::Fill);
    event.id = r.id;
    event.stream = r.stream;
    event.kind = static_cast<OperationKind>(r.kind);
    event.called = finite(r.called);
    event.returned = finite(r.returned);
    event.begin = finite(r.begin);
    event.end = finite(r.end);
    event.is_graph = flag(r.is_graph);
    event.from_host = flag(r.from_host);
    event.to_host = flag(r.to_host);
    const bool is_kernel = event.kind == OperationKind::Kernel;
    event.bytes = is_kernel ? 0 : r.bytes;
    event.shared_bytes = is_kernel ? r.bytes : 0;
    event.warp_instructions = is_kernel ? r.warp_instructions : 0;
    event.grid = is_kernel ? extents(r.grid) : kNoExtents;
    event.block = is_kernel ? extents(r.block) : kNoExtents;
    set(event.kernel, is_kernel ? r.kernel : 0);
    set(event.fault, is_kernel ? r.fault : 0);
  }

  std::string_view payload_;
  const std::vector<std::string>& texts_;
  bool is_good_ = true;
};

// What a line of JSON would have as a text: ASCII is, other bytes are valid UTF-8 or replaced.
std::string as_text(std::string_view bytes) {
  if (std::ranges::all_of(bytes, [](char c) { return c >= ' ' && c != '\x7f'; })) return std::string(bytes);
  const Json replaced =
      Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
  return replaced.is_string() ? replaced.get<std::string>() : "";
}

// Of numbers that a process gives: no program makes so many allocations or operations.
constexpr int kProcessShift = 48;

void keep_apart(Event& event, uint64_t process) {
  const auto number = [&](uint64_t& one) {
    if (one != 0) one |= process;
  };
  if (auto* stack = std::get_if<StackEvent>(&event)) number(stack->id);
  if (auto* made = std::get_if<AllocationEvent>(&event)) number(made->id), number(made->stack);
  if (auto* released = std::get_if<ReleaseEvent>(&event)) number(released->id);
  if (auto* failed = std::get_if<OutOfMemoryEvent>(&event)) number(failed->stack);
  if (auto* operation = std::get_if<OperationEvent>(&event)) number(operation->id);
}

}  // namespace

bool read_record(RecordType type, std::string_view payload, const std::vector<std::string>& texts,
                 Event& event) {
  return RecordReader(payload, texts).read(type, event);
}

const Event* LogReader::next() {
  while (true) {
    if (!chunk_.empty()) {
      if (const Event* const event = take_record()) return event;
      continue;
    }
    if (rest_.empty()) return nullptr;
    if (rest_.front() == '\0') {
      rest_.remove_prefix(std::min(rest_.find_first_not_of('\0'), rest_.size()));
    } else if (uint64_t magic = 0;
               rest_.size() >= sizeof(ChunkHeader) &&
               (std::memcpy(&magic, rest_.data(), sizeof magic), magic == ChunkHeader::kMagic)) {
      enter_chunk();
    } else if (const Event* const event = take_line()) {
      return event;
    }
  }
}

void LogReader::enter_chunk() {
  ChunkHeader header;
  std::memcpy(&header, rest_.data(), sizeof header);
  const auto bytes = std::clamp<uint64_t>(header.bytes, sizeof header, static_cast<uint64_t>(rest_.size()));
  chunk_ = rest_.substr(sizeof header, bytes - sizeof header);
  rest_.remove_prefix(bytes);
  own_ = &writers_.try_emplace(header.writer, Writer{writers_.size(), {}}).first->second;
}

const Event* LogReader::take_line() {
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  auto decoded = decode_event(rest_.substr(0, end));  // a program that was killed may leave half a line
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (!decoded) return nullptr;
  Event& event = events_[static_cast<std::size_t>(RecordType::Line)];
  event = std::move(*decoded);
  return &event;
}

const Event* LogReader::take_record() {
  RecordHeader header{};
  if (chunk_.size() >= sizeof header) std::memcpy(&header, chunk_.data(), sizeof header);
  const auto type = static_cast<RecordType>(header.type);
  if (type == RecordType::None || record_bytes(header.bytes) > chunk_.size()) {
    chunk_ = {};
    return nullptr;
  }
  const std::string_view payload = chunk_.substr(sizeof header, header.bytes);
  chunk_.remove_prefix(record_bytes(header.bytes));
  if (type == RecordType::Text) {
    if (header.text == own_->texts.size() + 1)
      own_->texts.push_back(as_text(payload.substr(0, std::min(payload.size(), kLongestText))));
    return nullptr;
  }
  if (header.type >= kRecordTypes) return nullptr;
  Event& event = events_[header.type];
  if (type != RecordType::Line) {
    if (!read_record(type, payload, own_->texts, event)) return nullptr;
  } else if (auto decoded = decode_event(payload)) {
    event = std::move(*decoded);
  } else {
    return nullptr;
  }
  if (own_->number > 0) keep_apart(event, own_->number << kProcessShift);
  return &event;
}

}  // namespace assay::protocol
