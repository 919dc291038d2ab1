// A snapshot for PyTorch's memory viewer (pytorch.org/memory_viz, torch.cuda._memory_viz): the pickle that
// torch.cuda.memory._dump_snapshot() writes.
//
// The viewer's reader knows few opcodes, and puts a whole APPENDS on its call stack: protocol 4, numbers of at most eight
// bytes, strings of at most 4 GiB, a thousand items at a time.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "activity/activity.h"

namespace assay::activity {

namespace {

class Pickle {
 public:
  Pickle() { bytes_ = "\x80\x04"; }
  std::string take() { return std::move(bytes_) + '.'; }

  void mark() { bytes_ += '('; }
  void dict() { bytes_ += '}'; }
  void set_items() { bytes_ += 'u'; }
  void list() { bytes_ += ']'; }
  void append_items() { bytes_ += 'e'; }
  void pair() { bytes_ += '\x86'; }
  void no() { bytes_ += '\x89'; }

  void number(uint64_t value) {
    if (value < 256) {
      bytes_ += 'K';
      little_endian(value, 1);
    } else if (value < 65536) {
      bytes_ += 'M';
      little_endian(value, 2);
    } else if (value <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      bytes_ += 'J';
      little_endian(value, 4);
    } else {
      bytes_ += "\x8a\x08";
      little_endian(std::min(value, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())), 8);
    }
  }
  // Equal strings are written once.
  void text(const std::string& value) {
    if (const auto known = texts_.find(value); known != texts_.end()) return again(known->second);
    if (value.size() < 256) {
      bytes_ += '\x8c';
      little_endian(value.size(), 1);
    } else {
      bytes_ += 'X';
      little_endian(value.size(), 4);
    }
    bytes_ += value;
    texts_[value] = remember();
  }
  // Keeps what was written last, for again().
  uint32_t remember() {
    bytes_ += '\x94';
    return memo_++;
  }
  void again(uint32_t number) {
    bytes_ += number < 256 ? 'h' : 'j';
    little_endian(number, number < 256 ? 1 : 4);
  }

  template <class Items, class Write>
  void items(const Items& all, Write write) {
    constexpr std::size_t kAtOnce = 1000;
    list();
    std::size_t count = 0;
    for (const auto& item : all) {
      if (count % kAtOnce == 0) mark();
      write(item);
      if (++count % kAtOnce == 0) append_items();
    }
    if (count % kAtOnce != 0) append_items();
  }
  void entry(const char* key, uint64_t value) {
    text(key);
    number(value);
  }
  void entry(const char* key, const std::string& value) {
    text(key);
    text(value);
  }

 private:
  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
  std::map<std::string, uint32_t> texts_;
  uint32_t memo_ = 0;
};

// One line of the viewer's history.
struct Entry {
  double seconds = 0;
  const char* action = "";
  uint64_t address = 0, bytes = 0, free = 0;
  std::size_t stack = 0;
};

std::vector<Entry> history(const Activity& activity) {
  std::vector<Entry> entries;
  for (const Allocation& one : activity.allocations) {
    if (one.is_host) continue;
    for (const char* action : {"segment_alloc", "alloc"})
      entries.push_back({one.begin, action, one.address, one.bytes, 0, one.stack});
    if (!one.is_released) continue;
    for (const char* action : {"free_requested", "free_completed", "segment_free"})
      entries.push_back({one.end, action, one.address, one.bytes, 0, one.stack});
  }
  for (const OutOfMemory& failed : activity.out_of_memory)
    entries.push_back({failed.seconds, "oom", 0, failed.bytes, failed.free, failed.stack});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.seconds < b.seconds; });
  return entries;
}

class Snapshot {
 public:
  explicit Snapshot(const Activity& activity) : activity_(activity), stacks_(activity.stacks.size()) {}

  std::string run() {
    std::vector<const Allocation*> held;
    for (const Allocation& one : activity_.allocations)
      if (!one.is_host && !one.is_released) held.push_back(&one);
    pickle_.dict();
    pickle_.mark();
    pickle_.text("segments");
    pickle_.items(held, [&](const Allocation* one) { segment(*one); });
    pickle_.text("device_traces");
    pickle_.list();
    pickle_.mark();
    pickle_.items(history(activity_), [&](const Entry& one) { entry(one); });
    pickle_.append_items();
    pickle_.text("allocator_settings");
    pickle_.dict();
    pickle_.text("external_annotations");
    pickle_.list();
    pickle_.set_items();
    return pickle_.take();
  }

 private:
  void frames(std::size_t stack) {
    pickle_.text("frames");
    if (stacks_[stack] != 0) return pickle_.again(stacks_[stack] - 1);
    pickle_.items(activity_.stacks[stack], [&](const Frame& frame) {
      pickle_.dict();
      pickle_.mark();
      pickle_.entry("filename", frame.where.file);
      pickle_.entry("line", static_cast<uint64_t>(std::max(0, frame.where.line)));
      pickle_.entry("name", frame.function);
      pickle_.set_items();
    });
    stacks_[stack] = pickle_.remember() + 1;
  }

  void entry(const Entry& one) {
    constexpr double kMicroseconds = 1e6;
    const bool is_failure = one.free != 0 || one.address == 0;
    pickle_.dict();
    pickle_.mark();
    pickle_.entry("action", std::string(one.action));
    pickle_.entry(is_failure ? "device_free" : "addr", is_failure ? one.free : one.address);
    pickle_.entry("size", one.bytes);
    pickle_.entry("stream", 0);
    pickle_.entry("time_us", static_cast<uint64_t>(std::max(0.0, one.seconds) * kMicroseconds));
    frames(one.stack);
    pickle_.set_items();
  }

  // Each allocation of the program is a segment with one block.
  void segment(const Allocation& one) {
    pickle_.dict();
    pickle_.mark();
    pickle_.entry("device", 0);
    pickle_.entry("address", one.address);
    for (const char* key : {"total_size", "allocated_size", "active_size", "requested_size"})
      pickle_.entry(key, one.bytes);
    pickle_.entry("stream", 0);
    pickle_.entry("segment_type", std::string("large"));
    pickle_.text("segment_pool_id");
    pickle_.number(0);
    pickle_.number(0);
    pickle_.pair();
    pickle_.text("is_expandable");
    pickle_.no();
    frames(one.stack);
    pickle_.text("blocks");
    pickle_.items(std::array{&one}, [&](const Allocation* block) {
      pickle_.dict();
      pickle_.mark();
      pickle_.entry("address", block->address);
      pickle_.entry("size", block->bytes);
      pickle_.entry("requested_size", block->bytes);
      pickle_.entry("state", std::string("active_allocated"));
      frames(block->stack);
      pickle_.set_items();
    });
    pickle_.set_items();
  }

  const Activity& activity_;
  Pickle pickle_;
  std::vector<uint32_t> stacks_;  // where each is kept, plus one; 0: not written yet
};

}  // namespace

std::string memory_snapshot(const Activity& activity) {
  return Snapshot(activity).run();
}

}  // namespace assay::activity
