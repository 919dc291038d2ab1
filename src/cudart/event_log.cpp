#include "cudart/event_log.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/random.h"

namespace assay::cudart {

namespace {

using protocol::ChunkHeader;
using protocol::record_bytes;
using protocol::RecordHeader;
using protocol::RecordType;

constexpr uint64_t kChunk =
    256 << 10;  // bytes: thousands of events for each of the system calls that a chunk takes

// Appends zeros, so that the file has the room: a mapping of a file that cannot grow would end the program when it is
// written to. Returns where they begin; -1: there is no room. At once, since other processes append to the file, too.
off_t append_zeros(int file, uint64_t bytes) {
  static constexpr char kZeros[64 << 10] = {};
  std::vector<iovec> parts;  // a few hundred for the longest record: fewer than a call may have
  for (uint64_t at = 0; at < bytes; at += sizeof kZeros)
    parts.push_back({const_cast<char*>(kZeros), std::min<uint64_t>(sizeof kZeros, bytes - at)});
  ssize_t done = 0;
  do done = writev(file, parts.data(), static_cast<int>(parts.size()));
  while (done < 0 && errno == EINTR);
  if (done >= 0 && static_cast<uint64_t>(done) < bytes) errno = ENOSPC;
  const off_t end = static_cast<uint64_t>(done) == bytes ? lseek(file, 0, SEEK_CUR) : -1;
  return end < 0 ? -1 : end - static_cast<off_t>(bytes);
}

// How often this process has come out of a fork.
std::atomic<uint64_t> forks{0};

void count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
}

}  // namespace

bool EventLog::open(int file) {
  close();
  count_forks();
  forks_ = forks;
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  file_ = file;
  writer_ = mix(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()),
                static_cast<uint64_t>(getpid()));
  return true;
}

void EventLog::close() {
  leave_chunk();
  file_ = -1;
  texts_.clear();
  numbers_.clear();
}

bool EventLog::is_open() const {
  return file_ >= 0 && forks.load(std::memory_order_relaxed) == forks_;
}

void EventLog::leave_chunk() {
  if (mapping_) munmap(mapping_, mapped_);
  mapping_ = next_ = end_ = nullptr;
}

bool EventLog::start_chunk(uint64_t records_bytes) {
  leave_chunk();
  const uint64_t bytes = std::max(kChunk, sizeof(ChunkHeader) + records_bytes);
  const off_t begin = append_zeros(file_, bytes);
  if (begin < 0) return false;
  const off_t page = begin & ~(static_cast<off_t>(sysconf(_SC_PAGESIZE)) - 1);
  mapped_ = bytes + static_cast<uint64_t>(begin - page);
  void* const made = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, page);
  if (made == MAP_FAILED) return false;
  mapping_ = static_cast<std::byte*>(made);
  next_ = mapping_ + (begin - page);
  end_ = next_ + bytes;
  const ChunkHeader header{.bytes = bytes, .writer = writer_};
  std::memcpy(next_, &header, sizeof header);
  next_ += sizeof header;
  return true;
}

protocol::TextId EventLog::text(std::string_view text) {
  if (text.empty()) return 0;
  const std::lock_guard lock(mutex_);
  if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
  texts_.emplace_back(text);
  const auto number = static_cast<protocol::TextId>(texts_.size());
  numbers_.emplace(text, number);
  append_locked(RecordType::Text, text.substr(0, RecordHeader::kMostBytes), number);
  return number;
}

bool EventLog::append(RecordType type, std::string_view payload) {
  if (!is_open()) return false;
  const std::lock_guard lock(mutex_);
  return append_locked(type, payload, 0);
}

bool EventLog::append_locked(RecordType type, std::string_view payload, protocol::TextId text) {
  if (file_ < 0 || payload.size() > RecordHeader::kMostBytes) return false;
  const uint64_t bytes = record_bytes(payload.size());
  if (bytes > static_cast<uint64_t>(end_ - next_) && !start_chunk(bytes)) return false;
  std::memcpy(next_ + sizeof(RecordHeader), payload.data(), payload.size());
  const RecordHeader header{static_cast<uint32_t>(type),
                            static_cast<uint32_t>(payload.size()) & RecordHeader::kMostBytes, text};
  std::atomic_signal_fence(std::memory_order_release);
  std::memcpy(next_, &header, sizeof header);  // now it is a record
  next_ += bytes;
  // The memory was zeroed long ago. Without this, unlocking waits until the next record has come to the cache.
  constexpr uint64_t kLine = 64, kAhead = 256;
  for (uint64_t at = 0; at < kAhead; at += kLine) __builtin_prefetch(next_ + at, 1);
  return true;
}

}  // namespace assay::cudart
