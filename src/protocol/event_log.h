// A file of events of a program that reports what it does over time (Settings::report_activity): a program may make
// millions of allocations, operations and launches, and writing and reading a line of JSON for each took longer than
// everything else about it.
//
//   file    = { line | chunk | zeros }            lines as event.h has them, from processes that report little
//   chunk   = ChunkHeader { record } zeros        appended by one process, which then fills it in memory that it shares with the file
//   record  = RecordHeader payload padding        to a multiple of eight bytes; a header of zero: no more records
//
// A record's header is written after its payload, so a process may be killed at any moment and leaves whole records. Texts
// (names of kernels, files) are records of their own, written once by each process and named by number from then on; 0 is
// the empty text. Events that are not frequent are records that hold a line of JSON.
//
// A reader trusts none of it: the code under test may have written the file.
//
// Several processes of one program may write to one log, each with numbers of its own for allocations, operations and stacks.
// A reader keeps them apart: it adds a number of the process to those of all but the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/event.h"

namespace assay::protocol {

using TextId = uint32_t;

struct ChunkHeader {
  static constexpr uint64_t kMagic = 0x01'67'6f'6c'79'61'73'73;  // no line of JSON starts like that
  uint64_t magic = kMagic;
  uint64_t bytes = 0;   // of the chunk, this header included
  uint64_t writer = 0;  // the process: numbers of texts are its own
};

enum class RecordType : uint8_t { None, Line, Text, Launch, Allocation, Release, Operation };
constexpr std::size_t kRecordTypes = 7;

struct RecordHeader {
  static constexpr uint32_t kMostBytes = (1u << 24) - 1;  // of a payload
  uint32_t type : 8;
  uint32_t bytes : 24;  // of the payload, without padding
  uint32_t text;        // of a Text: its number
};
static_assert(sizeof(RecordHeader) == 8);

// A record with its header takes so many bytes.
constexpr uint64_t record_bytes(uint64_t payload) {
  return sizeof(RecordHeader) + (payload + 7) / 8 * 8;
}

// The payloads; the fields are those of the events of the same name (event.h).
struct LaunchRecord {
  static constexpr RecordType kType = RecordType::Launch;
  uint64_t id, stream, dynamic_shared, warp_instructions;
  double seconds;
  uint32_t grid[3], block[3];
  TextId kernel, fault, file, function;
  int32_t line;
  uint32_t unused = 0;
};

struct AllocationRecord {
  static constexpr RecordType kType = RecordType::Allocation;
  uint64_t id, address, bytes, stack;
  double seconds;
  TextId label;
  uint32_t is_host;
};

struct ReleaseRecord {
  static constexpr RecordType kType = RecordType::Release;
  uint64_t id;
  double seconds, called;
  uint64_t never_written, never_read;
  double last_use;
  TextId writer, file;
  int32_t line;
  uint8_t is_held, is_counted, unused[2];
};

struct OperationRecord {
  static constexpr RecordType kType = RecordType::Operation;
  uint64_t id, stream;
  double called, returned, begin, end;
  uint64_t bytes;  // of a copy or fill; of a kernel, its dynamic shared memory
  uint64_t warp_instructions;
  uint32_t grid[3], block[3];
  TextId kernel, fault;
  uint8_t kind, is_graph, from_host, to_host;
  uint32_t unused = 0;
};

// The event of a record. False: it cannot be read. `texts`: by number, less one. If the event is one of the same type, it keeps its
// memory: reading many records one after the other takes hardly any.
bool read_record(RecordType type, std::string_view payload, const std::vector<std::string>& texts,
                 Event& event);

// The events of a log, in its order.
class LogReader {
 public:
  explicit LogReader(std::string_view log) : rest_(log) {}
  // The next event, until the call that follows; null: there is none. What cannot be read is left out.
  const Event* next();

 private:
  struct Writer {
    uint64_t number = 0;             // in the order of their first chunks, from 0
    std::vector<std::string> texts;  // by number, less one
  };

  void enter_chunk();
  const Event* take_line();
  const Event* take_record();

  std::string_view rest_, chunk_;
  std::unordered_map<uint64_t, Writer> writers_;
  Writer* own_ = nullptr;                   // of the chunk
  std::array<Event, kRecordTypes> events_;  // the last one of each type of record
};

}  // namespace assay::protocol
