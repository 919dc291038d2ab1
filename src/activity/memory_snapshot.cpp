// A snapshot for PyTorch's memory viewer (pytorch.org/memory_viz, torch.cuda._memory_viz): the pickle that
// torch.cuda.memory._dump_snapshot() writes.
//
// The viewer's reader knows few opcodes, and puts a whole APPENDS on its call stack: protocol 4, numbers of at most eight
// bytes, strings of at most 4 GiB, a thousand items at a time.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <map>

#include "activity/activity.h"
#include "activity/pieces.h"

namespace assay::activity {

namespace {

// Python refuses to read anything else. File names and functions of a program may be any bytes.
std::string as_utf8(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return c >= 0; })) return text;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

// Items of a list that are appended at once.
constexpr std::size_t kAtOnce = 1000;

class Pickle {
 public:
  explicit Pickle(const Sink& sink) : bytes_(sink) { bytes_ << "\x80\x04"; }

  void mark() { bytes_ << '('; }
  void dict() { bytes_ << '}'; }
  void set_items() { bytes_ << 'u'; }
  void list() { bytes_ << ']'; }
  void append_items() { bytes_ << 'e'; }
  void pair() { bytes_ << '\x86'; }
  void no() { bytes_ << '\x89'; }
  void stop() { bytes_ << '.'; }

  void number(uint64_t value) {
    if (value < 256) {
      little_endian<1>('K', value);
    } else if (value < 65536) {
      little_endian<2>('M', value);
    } else if (value <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      little_endian<4>('J', value);
    } else {
      bytes_ << '\x8a';
      little_endian<8>('\x08', std::min(value, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
    }
  }
  // Equal strings are written once.
  void text(const std::string& value) {
    if (const auto known = texts_.find(value); known != texts_.end()) return again(known->second);
    texts_[value] = new_text(as_utf8(value));
  }
  // A key or word that is written again and again: it knows where it was kept.
  struct Word {
    std::string_view text;
    uint32_t kept = 0;  // plus one; 0: not yet
  };
  void word(Word& word) {
    if (word.kept != 0) return again(word.kept - 1);
    word.kept = new_text(word.text) + 1;
  }
  // Keeps what was written last, for again().
  uint32_t remember() {
    bytes_ << '\x94';
    return memo_++;
  }
  void again(uint32_t number) {
    if (number < 256)
      little_endian<1>('h', number);
    else
      little_endian<4>('j', number);
  }

  template <class Items, class Write>
  void items(const Items& all, Write write) {
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
  void entry(Word& key, uint64_t value) {
    word(key);
    number(value);
  }

 private:
  uint32_t new_text(std::string_view value) {
    if (value.size() < 256)
      little_endian<1>('\x8c', value.size());
    else
      little_endian<4>('X', value.size());
    bytes_ << value;
    return remember();
  }
  template <int N>
  void little_endian(char opcode, uint64_t value) {
    bytes_.raw<1 + N>([&](char* to) {
      to[0] = opcode;
      std::memcpy(to + 1, &value, N);  // as this machine has it
    });
  }
  static_assert(std::endian::native == std::endian::little);

  Pieces bytes_;
  std::map<std::string, uint32_t> texts_;
  uint32_t memo_ = 0;
};

class Snapshot {
 public:
  Snapshot(const Activity& activity, const Sink& sink)
      : activity_(activity), pickle_(sink), stacks_(activity.stacks.size()) {}

  void run() {
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
    history();
    pickle_.append_items();
    pickle_.text("allocator_settings");
    pickle_.dict();
    pickle_.text("external_annotations");
    pickle_.list();
    pickle_.set_items();
    pickle_.stop();
  }

 private:
  void frames(std::size_t stack) {
    pickle_.word(frames_);
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

  // The lines of the viewer's history, in the order of time.
  void history() {
    std::vector<const OutOfMemory*> failures;
    for (const OutOfMemory& failed : activity_.out_of_memory) failures.push_back(&failed);
    std::ranges::stable_sort(failures, {}, &OutOfMemory::seconds);
    auto failed = failures.begin();
    const auto add_failures = [&](double until) {
      for (; failed != failures.end() && (*failed)->seconds < until; ++failed)
        add_entry({(*failed)->seconds, &oom_, 0, (*failed)->bytes, (*failed)->free, (*failed)->stack});
    };
    pickle_.list();
    for (const Change& change : activity_.changes) {
      add_failures(change.seconds);
      const Allocation& one = activity_.allocations[change.allocation];
      const auto add = [&](Pickle::Word& action) {
        add_entry({change.seconds, &action, one.address, one.bytes, 0, one.stack});
      };
      if (change.is_end) {
        add(free_requested_);
        add(free_completed_);
        add(segment_free_);
      } else {
        add(segment_alloc_);
        add(alloc_);
      }
    }
    add_failures(std::numeric_limits<double>::infinity());
    if (entries_ % kAtOnce != 0) pickle_.append_items();
  }

  struct Entry {
    double seconds = 0;
    Pickle::Word* action = nullptr;
    uint64_t address = 0, bytes = 0, free = 0;
    std::size_t stack = 0;
  };
  void add_entry(const Entry& one) {
    constexpr double kMicroseconds = 1e6, kLongest = 1e9;  // 30 years, in seconds
    const bool is_failure = one.action == &oom_;
    if (entries_ % kAtOnce == 0) pickle_.mark();
    pickle_.dict();
    pickle_.mark();
    pickle_.word(action_);
    pickle_.word(*one.action);
    pickle_.entry(is_failure ? device_free_ : addr_, is_failure ? one.free : one.address);
    pickle_.entry(size_, one.bytes);
    pickle_.entry(stream_, 0);
    pickle_.entry(time_us_, static_cast<uint64_t>(std::clamp(one.seconds, 0.0, kLongest) * kMicroseconds));
    frames(one.stack);
    pickle_.set_items();
    if (++entries_ % kAtOnce == 0) pickle_.append_items();
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
  std::size_t entries_ = 0;       // of the history
  Pickle::Word frames_{"frames"}, action_{"action"}, addr_{"addr"}, device_free_{"device_free"},
      size_{"size"}, stream_{"stream"}, time_us_{"time_us"};
  Pickle::Word segment_alloc_{"segment_alloc"}, alloc_{"alloc"}, free_requested_{"free_requested"},
      free_completed_{"free_completed"}, segment_free_{"segment_free"}, oom_{"oom"};
};

}  // namespace

void memory_snapshot(const Activity& activity, const Sink& sink) {
  Snapshot(activity, sink).run();
}

}  // namespace assay::activity
