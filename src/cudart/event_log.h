// Writes the log of events of protocol/event_log.h: one chunk after the other, each appended to the file and then filled
// through a mapping. What is in the mapping is in the file, whatever becomes of this process, and no event takes a system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/event_log.h"

namespace assay::cudart {

class EventLog {
 public:
  // `file` is open for reading and appending, and stays its owner's. False: no log can be in such a file.
  bool open(int file);
  void close();
  // False also in a process that was forked from the one that opened it: the mapping belongs to that one.
  bool is_open() const;

  // The number of a text.
  protocol::TextId text(std::string_view text);
  const std::vector<std::string>& texts() const { return texts_; }

  // False: there is no room in the file.
  template <class Record>
  bool add(const Record& record) {
    return append(Record::kType, {reinterpret_cast<const char*>(&record), sizeof record});
  }
  bool add_line(std::string_view json) { return append(protocol::RecordType::Line, json); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  bool append(protocol::RecordType type, std::string_view payload);
  bool append_locked(protocol::RecordType type, std::string_view payload, protocol::TextId text);
  bool start_chunk(uint64_t records_bytes);
  void leave_chunk();

  int file_ = -1;
  uint64_t forks_ = 0;  // of this process when it was opened
  std::mutex mutex_;
  std::byte *mapping_ = nullptr, *next_ = nullptr,
            *end_ = nullptr;  // the chunk, its first free byte, its end
  uint64_t mapped_ = 0;       // bytes
  uint64_t writer_ = 0;
  std::vector<std::string> texts_;  // by number, less one
  std::unordered_map<std::string, protocol::TextId, Hash, std::equal_to<>> numbers_;
};

}  // namespace assay::cudart
