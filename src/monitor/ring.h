// What an application and assayd share: a piece of memory with samples in it, and counters.
//
// The memory is a file without a name (memfd) that the application makes, and passes to assayd over a Unix socket. It
// outlives both: an assayd that was killed leaves the samples where they are, and the next one goes on; the samples of an
// application that was killed are judged all the same. Neither side ever waits for the other.
//
//   | header: version, counters, states of the slots | description, JSON | slot 0 | slot 1 | … |
//
// A slot is Free, Filling (the application writes), Full, or Judging (assayd reads). The application takes only Free slots,
// assayd only Full ones; Judging is given back as Free when what the sample says is on the disk. One thread writes, one
// reads; a new reader takes Judging slots for Full, because the reader that had them is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace assay::monitor {

inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint32_t kMostSlots = 16;

// Why a sample was dropped.
enum class Drop : uint8_t {
  RingFull,     // assayd is slow, dead or missing
  StagingFull,  // samples are taken faster than they are copied off the device
  TooLarge,     // more than max_bytes
  Shape,        // outside of what the contract promises
  Capturing,    // the call was recorded into a graph, not made
  OtherDevice,  // the call was made on another GPU than the first
  DeviceError,  // a copy failed
  Refused,      // assayd does not understand this application, or its contract
};
inline constexpr std::size_t kDropCount = 8;
std::string_view to_string(Drop reason);  // as metrics have it: "ring_full"

struct Counters {
  std::atomic<uint64_t> calls, samples;       // made; that were to be sampled
  std::atomic<uint64_t> dropped[kDropCount];  // of the samples
  std::atomic<uint64_t> overhead_ns;          // that sampled calls spent in the monitor
};

class Ring {
 public:
  enum class State : uint32_t { Free, Filling, Full, Judging };

  // Of the application. `description`: JSON, what a reader has to know first.
  static Result<Ring> make(uint64_t slot_bytes, const std::string& description);
  // Of assayd: the memory that another process made. Refuses what make() would not have made.
  static Result<Ring> attach(int file);

  ~Ring();
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;

  int file() const { return file_; }
  std::string_view description() const;
  // The application, before anybody has read it: another description.
  void describe(const std::string& description);
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slots() const { return slots_; }
  Counters& counters() const;

  // The application: a free slot to write into; none: the ring is full.
  std::optional<uint32_t> begin_fill();
  std::byte* slot(uint32_t index) const;
  void end_fill(uint32_t index, uint64_t bytes, int64_t unix_ns);
  void abandon(uint32_t index);
  bool is_empty() const;  // nothing is Full or Judging
  bool is_full() const;   // no slot is Free

  // assayd: the oldest full slot.
  struct Filled {
    uint32_t index = 0;
    std::span<const std::byte> bytes;
    int64_t unix_ns = 0;  // when it was filled
    uint32_t attempts =
        0;  // to judge it, this one included: an assayd that ended in the middle leaves it to the next
  };
  std::optional<Filled> begin_judge();
  void end_judge(uint32_t index);
  uint32_t waiting() const;  // slots that are Full

 private:
  struct Header;
  Ring(int file, std::byte* memory, uint64_t bytes);
  Header& header() const;

  int file_ = -1;
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
  // Copies of what the header says, checked once: the other side may change the header.
  uint64_t slot_bytes_ = 0;
  uint32_t slots_ = 0;
};

// Where assayd listens: $ASSAYD_SOCKET, the socket of the system's service, or one of this user's own.
std::string socket_path();

}  // namespace assay::monitor
