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

std::array<uint32_t, 3> extents(const uint32_t (&from)[3]) {
  return {from[0], from[1], from[2]};
}

// One record as an event. A field that cannot be is remembered in `is_good`.
class RecordReader {
 public:
  RecordReader(std::string_view payload, const std::vector<std::string>& texts)
      : payload_(payload), texts_(texts) {}

  std::optional<Event> read(RecordType type) {
    Event event;
    switch (type) {
      case RecordType::Launch:
        event = launch();
        break;
      case RecordType::Allocation:
        event = allocation();
        break;
      case RecordType::Release:
        event = release();
        break;
      case RecordType::Operation:
        event = operation();
        break;
      default:
        return std::nullopt;
    }
    return is_good_ ? std::optional(std::move(event)) : std::nullopt;
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
  const std::string& text(TextId id) {
    static const std::string kNone;
    if (id == 0) return kNone;
    is_good_ = is_good_ && id <= texts_.size();
    return is_good_ ? texts_[id - 1] : kNone;
  }

  LaunchEvent launch() {
    const auto r = payload<LaunchRecord>();
    return {.id = r.id,
            .kernel = text(r.kernel),
            .grid = extents(r.grid),
            .block = extents(r.block),
            .stream = r.stream,
            .dynamic_shared = r.dynamic_shared,
            .warp_instructions = r.warp_instructions,
            .seconds = finite(r.seconds),
            .fault = text(r.fault),
            .launched_at = {{text(r.file), line(r.line)}, text(r.function)}};
  }
  AllocationEvent allocation() {
    const auto r = payload<AllocationRecord>();
    return {.id = r.id,
            .address = r.address,
            .bytes = r.bytes,
            .label = text(r.label),
            .is_host = flag(r.is_host),
            .stack = r.stack,
            .seconds = finite(r.seconds)};
  }
  ReleaseEvent release() {
    const auto r = payload<ReleaseRecord>();
    return {.id = r.id,
            .seconds = finite(r.seconds),
            .called = finite(r.called),
            .is_held = flag(r.is_held),
            .is_counted = flag(r.is_counted),
            .never_written = r.never_written,
            .never_read = r.never_read,
            .last_use = finite(r.last_use),
            .writer = text(r.writer),
            .written_at = {text(r.file), line(r.line)}};
  }
  OperationEvent operation() {
    const auto r = payload<OperationRecord>();
    is_good_ = is_good_ && r.kind <= static_cast<uint8_t>(OperationKind::Fill);
    OperationEvent event{.id = r.id,
                         .stream = r.stream,
                         .kind = static_cast<OperationKind>(r.kind),
                         .called = finite(r.called),
                         .returned = finite(r.returned),
                         .begin = finite(r.begin),
                         .end = finite(r.end),
                         .is_graph = flag(r.is_graph),
                         .from_host = flag(r.from_host),
                         .to_host = flag(r.to_host)};
    if (event.kind != OperationKind::Kernel) {
      event.bytes = r.bytes;
      return event;
    }
    event.kernel = text(r.kernel);
    event.grid = extents(r.grid);
    event.block = extents(r.block);
    event.shared_bytes = r.bytes;
    event.warp_instructions = r.warp_instructions;
    event.fault = text(r.fault);
    return event;
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

std::optional<Event> event_of(RecordType type, std::string_view payload,
                              const std::vector<std::string>& texts) {
  return RecordReader(payload, texts).read(type);
}

std::optional<Event> LogReader::next() {
  while (true) {
    if (!chunk_.empty()) {
      if (auto event = take_record()) return event;
      continue;
    }
    if (rest_.empty()) return std::nullopt;
    if (rest_.front() == '\0') {
      rest_.remove_prefix(std::min(rest_.find_first_not_of('\0'), rest_.size()));
    } else if (uint64_t magic = 0;
               rest_.size() >= sizeof(ChunkHeader) &&
               (std::memcpy(&magic, rest_.data(), sizeof magic), magic == ChunkHeader::kMagic)) {
      enter_chunk();
    } else if (auto event = take_line()) {
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

std::optional<Event> LogReader::take_line() {
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  auto event = decode_event(rest_.substr(0, end));  // a program that was killed may leave half a line
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return event ? std::optional(std::move(*event)) : std::nullopt;
}

std::optional<Event> LogReader::take_record() {
  RecordHeader header{};
  if (chunk_.size() >= sizeof header) std::memcpy(&header, chunk_.data(), sizeof header);
  const auto type = static_cast<RecordType>(header.type);
  if (type == RecordType::None || record_bytes(header.bytes) > chunk_.size()) {
    chunk_ = {};
    return std::nullopt;
  }
  const std::string_view payload = chunk_.substr(sizeof header, header.bytes);
  chunk_.remove_prefix(record_bytes(header.bytes));
  if (type == RecordType::Text) {
    if (header.text == own_->texts.size() + 1)
      own_->texts.push_back(as_text(payload.substr(0, std::min(payload.size(), kLongestText))));
    return std::nullopt;
  }
  std::optional<Event> event;
  if (type != RecordType::Line)
    event = event_of(type, payload, own_->texts);
  else if (auto decoded = decode_event(payload))
    event = std::move(*decoded);
  if (event && own_->number > 0) keep_apart(*event, own_->number << kProcessShift);
  return event;
}

}  // namespace assay::protocol
