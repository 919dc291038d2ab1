#include "monitor/ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace assay::monitor {

namespace {

constexpr uint64_t kMagic = 0x474e495259415341;  // "ASAYRING"
constexpr uint64_t kPage = 4096;
constexpr uint64_t kDescriptionBytes = 1 << 20;
// Of all slots together, about. Chosen: samples of small calls have many slots, those of large ones two.
constexpr uint64_t kRingBytes = uint64_t{256} << 20;
constexpr uint64_t kLargestSlot = uint64_t{1} << 36;

uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

uint32_t slots_of(uint64_t slot_bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(kRingBytes / slot_bytes, 2, kMostSlots));
}

}  // namespace

struct Ring::Header {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint64_t slot_bytes;
  uint64_t description_bytes;
  Counters counters;
  std::atomic<uint64_t> next;  // number of the next sample
  struct Slot {
    std::atomic<uint32_t> state;
    std::atomic<uint32_t> attempts;
    uint64_t bytes;
    uint64_t number;
    int64_t unix_ns;
  } slot[kMostSlots];
};

namespace {
constexpr uint64_t kHeaderBytes = 2 * kPage;
}

std::string_view to_string(Drop reason) {
  constexpr std::string_view kNames[kDropCount] = {"ring_full", "staging_full", "too_large",    "shape",
                                                   "capturing", "other_device", "device_error", "refused"};
  return kNames[static_cast<std::size_t>(reason)];
}

Ring::Ring(int file, std::byte* memory, uint64_t bytes) : file_(file), memory_(memory), bytes_(bytes) {}

Ring::Ring(Ring&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      slot_bytes_(other.slot_bytes_),
      slots_(other.slots_) {}

Ring::~Ring() {
  if (memory_) munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

Ring::Header& Ring::header() const {
  static_assert(sizeof(Header) <= kHeaderBytes);
  return *reinterpret_cast<Header*>(memory_);
}

Counters& Ring::counters() const {
  return header().counters;
}

Result<Ring> Ring::make(uint64_t slot_bytes, const std::string& description) {
  if (description.size() > kDescriptionBytes) return Error{"the contract is larger than 1 MiB"};
  slot_bytes = whole_pages(slot_bytes);
  const uint32_t slots = slots_of(slot_bytes);
  const uint64_t bytes = kHeaderBytes + kDescriptionBytes + slots * slot_bytes;
  const int file = memfd_create("assay-monitor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return Error{fmt::format("no shared memory: {}", std::strerror(errno))};
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return Error{fmt::format("no shared memory of {} bytes: {}", bytes, std::strerror(errno))};
  }
  // A file that cannot shrink: a reader never faults.
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return Error{fmt::format("no shared memory: {}", std::strerror(errno))};
  }
  Ring ring(file, static_cast<std::byte*>(memory), bytes);
  ring.slot_bytes_ = slot_bytes;
  ring.slots_ = slots;
  Header& header = ring.header();
  header.version = kRingVersion;
  header.slots = slots;
  header.slot_bytes = slot_bytes;
  ring.describe(description);
  header.magic = kMagic;
  return ring;
}

Result<Ring> Ring::attach(int file) {
  struct stat status {};
  const bool is_sealed = (fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  if (!is_sealed || fstat(file, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) < kHeaderBytes + kDescriptionBytes) {
    close(file);
    return Error{"what the application sent is not a monitor's memory"};
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return Error{fmt::format("the application's memory cannot be mapped: {}", std::strerror(errno))};
  }
  Ring ring(file, static_cast<std::byte*>(memory), bytes);
  const Header& header = ring.header();
  if (header.magic != kMagic) return Error{"what the application sent is not a monitor's memory"};
  if (header.version != kRingVersion)
    return Error{
        fmt::format("the application's libassay_monitor uses version {} of the protocol, this assayd version "
                    "{}; use the same release of both",
                    header.version, kRingVersion)};
  ring.slot_bytes_ = header.slot_bytes;
  ring.slots_ = header.slots;
  const bool fits = ring.slots_ >= 1 && ring.slots_ <= kMostSlots && ring.slot_bytes_ <= kLargestSlot &&
                    header.description_bytes <= kDescriptionBytes &&
                    kHeaderBytes + kDescriptionBytes + ring.slots_ * ring.slot_bytes_ <= bytes;
  if (!fits) return Error{"the header of the application's memory is damaged"};
  for (uint32_t i = 0; i < ring.slots_; ++i) {
    uint32_t judging = static_cast<uint32_t>(State::Judging);
    ring.header().slot[i].state.compare_exchange_strong(judging, static_cast<uint32_t>(State::Full));
  }
  return ring;
}

std::string_view Ring::description() const {
  const uint64_t length = std::min<uint64_t>(header().description_bytes, kDescriptionBytes);
  return {reinterpret_cast<const char*>(memory_ + kHeaderBytes), length};
}

void Ring::describe(const std::string& description) {
  const uint64_t length = std::min<uint64_t>(description.size(), kDescriptionBytes);
  std::memcpy(memory_ + kHeaderBytes, description.data(), length);
  header().description_bytes = length;
}

std::byte* Ring::slot(uint32_t index) const {
  return memory_ + kHeaderBytes + kDescriptionBytes + index * slot_bytes_;
}

std::optional<uint32_t> Ring::begin_fill() {
  for (uint32_t i = 0; i < slots_; ++i) {
    uint32_t free = static_cast<uint32_t>(State::Free);
    if (header().slot[i].state.compare_exchange_strong(free, static_cast<uint32_t>(State::Filling))) return i;
  }
  return std::nullopt;
}

void Ring::end_fill(uint32_t index, uint64_t bytes, int64_t unix_ns) {
  Header::Slot& slot = header().slot[index];
  slot.bytes = bytes;
  slot.number = header().next.fetch_add(1);
  slot.unix_ns = unix_ns;
  slot.attempts = 0;
  slot.state.store(static_cast<uint32_t>(State::Full));
}

void Ring::abandon(uint32_t index) {
  header().slot[index].state.store(static_cast<uint32_t>(State::Free));
}

bool Ring::is_empty() const {
  for (uint32_t i = 0; i < slots_; ++i) {
    const auto state = static_cast<State>(header().slot[i].state.load());
    if (state == State::Full || state == State::Judging) return false;
  }
  return true;
}

bool Ring::is_full() const {
  for (uint32_t i = 0; i < slots_; ++i)
    if (header().slot[i].state.load() == static_cast<uint32_t>(State::Free)) return false;
  return true;
}

uint32_t Ring::waiting() const {
  uint32_t count = 0;
  for (uint32_t i = 0; i < slots_; ++i)
    count += header().slot[i].state.load() == static_cast<uint32_t>(State::Full);
  return count;
}

std::optional<Ring::Filled> Ring::begin_judge() {
  std::optional<uint32_t> oldest;
  for (uint32_t i = 0; i < slots_; ++i) {
    const Header::Slot& slot = header().slot[i];
    if (slot.state.load() != static_cast<uint32_t>(State::Full)) continue;
    if (!oldest || slot.number < header().slot[*oldest].number) oldest = i;
  }
  if (!oldest) return std::nullopt;
  Header::Slot& taken = header().slot[*oldest];
  taken.state.store(static_cast<uint32_t>(State::Judging));
  // Read once: the application may change it at any moment.
  const uint64_t bytes = __atomic_load_n(&taken.bytes, __ATOMIC_RELAXED);
  return Filled{
      *oldest, {slot(*oldest), std::min(bytes, slot_bytes_)}, taken.unix_ns, taken.attempts.fetch_add(1) + 1};
}

void Ring::end_judge(uint32_t index) {
  header().slot[index].state.store(static_cast<uint32_t>(State::Free));
}

std::string socket_path() {
  if (const char* set = std::getenv("ASSAYD_SOCKET"); set && *set) return set;
  constexpr const char* kService = "/run/assayd/assayd.sock";
  if (access(kService, F_OK) == 0) return kService;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime)
    return std::string(runtime) + "/assayd.sock";
  return fmt::format("/tmp/assayd-{}.sock", getuid());
}

}  // namespace assay::monitor
