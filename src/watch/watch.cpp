#include "watch/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/random.h"
#include "monitor/gap.h"

namespace assay::watch {

using monitor::Drop;
using monitor::Image;
using Json = nlohmann::json;

namespace {

constexpr int64_t kSmallestArea = 64 << 10;    // bytes
constexpr int64_t kStagingBytes = 64 << 20;    // of small areas together: larger ones are fewer
constexpr uint64_t kHeaderRoom = 64 << 10;     // of a slot, before the images
constexpr int kBusyPoll = 1, kIdlePoll = 200;  // ms between two looks at the device and at assayd
constexpr std::size_t kProbes = 4;             // of the table of shapes

// Grows in each child that is forked.
std::atomic<uint32_t> forks{0};

void count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
}

void raise(std::atomic<int64_t>& to, int64_t value) {
  int64_t known = to.load();
  while (known < value && !to.compare_exchange_weak(known, value)) {
  }
}

std::string absolute(const std::string& path) {
  std::error_code error;
  return path.empty() ? "" : std::filesystem::absolute(path, error).lexically_normal().string();
}

}  // namespace

Watch::Watch(contract::Contract contract, monitor::Settings settings, Runtime runtime)
    : contract_(std::move(contract)), settings_(std::move(settings)), runtime_(runtime), call_(contract_) {}

Result<std::unique_ptr<Watch>> Watch::open(const std::string& contract, const std::string& certificate) {
  auto loaded = contract::load(contract);
  if (!loaded) return loaded.error();
  auto settings = monitor::settings_of(*loaded);
  if (!settings) return settings.error();
  const auto runtime = Runtime::find();
  if (!runtime) return runtime.error();
  std::unique_ptr<Watch> watch(new Watch(std::move(*loaded), std::move(*settings), *runtime));
  if (const std::string why = watch->call_.unreadable(); !why.empty()) return Error{why, contract};
  if (auto started = watch->start(certificate); !started) return started.error();
  return watch;
}

Result<void> Watch::start(const std::string& certificate) {
  count_forks();
  forks_ = forks;
  if (runtime_.cudaGetDevice(&device_) != 0) return Error{"there is no CUDA device"};
  // Calls are watched all the same: assayd says of the certificate that it is not valid.
  if (!certificate.empty() && access(certificate.c_str(), R_OK) != 0)
    say_once(fmt::format("the certificate {} cannot be read: {}", certificate, std::strerror(errno)));
  certificate_ = absolute(certificate);
  random_ =
      mix(static_cast<uint64_t>(Clock::now().time_since_epoch().count()), static_cast<uint64_t>(getpid()));
  draw_gap();
  auto ring = monitor::Ring::make(static_cast<uint64_t>(settings_.max_bytes) + kHeaderRoom,
                                  description(certificate_));
  if (!ring) return ring.error();
  ring_.emplace(std::move(*ring));
  link_.emplace(monitor::socket_path());
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { work(); });
  return {};
}

std::string Watch::description(const std::string& certificate) const {
  const Runtime::Device device = runtime_.device(device_);
  const Json json = {
      {"contract", {{"path", absolute(contract_.path)}, {"text", *contract_.text}}},
      {"certificate", certificate},
      {"library", library_},
      {"device",
       {{"kind", runtime_.is_virtual ? "virtual" : "cuda"}, {"name", device.name}, {"uuid", device.uuid}}},
      {"pid", getpid()},
      {"program", std::filesystem::path(text_of("/proc/self/comm")).string()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Watch::~Watch() {
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  for (Area& area : areas_) {
    if (area.ready) runtime_.cudaEventDestroy(area.ready);
    if (area.device) runtime_.cudaFree(area.device);
  }
  for (const auto& graph : graphs_) graph->is_closed = true;
  free_closed_graphs();
  if (wake_ >= 0) close(wake_);
}

// ---- the caller's side ----

void Watch::drop(Drop reason) {
  ring_->counters().dropped[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void Watch::wake() const {
  const uint64_t one = 1;
  if (wake_ >= 0 && write(wake_, &one, sizeof one) < 0) return;  // full: it is awake
}

void Watch::draw_gap() {
  Random random(random_.fetch_add(1, std::memory_order_relaxed));
  left_.store(monitor::gap(random.uniform(), settings_.every), std::memory_order_relaxed);
}

bool Watch::is_new_shape(uint64_t shape) const {
  for (std::size_t i = 0; i < kProbes; ++i) {
    const uint64_t known = shapes_[(shape + i) % kShapes].load(std::memory_order_relaxed);
    if (known == shape) return false;
    if (known == 0) return true;
  }
  return false;  // the table is full here
}

void Watch::remember(uint64_t shape) {
  for (std::size_t i = 0; i < kProbes; ++i) {
    uint64_t none = 0;
    std::atomic<uint64_t>& place = shapes_[(shape + i) % kShapes];
    if (place.load() == shape || place.compare_exchange_strong(none, shape) || none == shape) return;
  }
}

bool Watch::is_due(void* const* args, uint64_t& shape) {
  shape = call_.shape_hash(args);
  if (left_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    draw_gap();
    return true;
  }
  return is_new_shape(shape);
}

uint64_t Watch::before(void* const* args, Stream stream) {
  monitor::Counters& counters = ring_->counters();
  const uint64_t number = counters.calls.fetch_add(1, std::memory_order_relaxed) + 1;
  uint64_t shape = 0;
  if (!is_due(args, shape) && !is_capturing_.load(std::memory_order_relaxed)) return 0;
  const auto start = Clock::now();
  const uint64_t ticket = take(args, stream, shape, number);
  counters.overhead_ns.fetch_add(ns_since(start), std::memory_order_relaxed);
  return ticket;
}

int64_t Watch::staged_bytes(const monitor::CallArguments& call, bool is_shadow) {
  int64_t bytes = 0;
  for (const Image& image : call.images) bytes += aligned(image.bytes) * (is_shadow && image.after ? 2 : 1);
  return bytes;
}

uint64_t Watch::take(void* const* args, Stream stream, uint64_t shape, uint64_t number) {
  const auto dropped = [&](Drop reason, bool for_good) -> uint64_t {
    if (for_good) remember(shape);
    drop(reason);
    return 0;
  };
  if (is_inherited()) {
    ring_->counters().samples.fetch_add(1, std::memory_order_relaxed);
    return dropped(Drop::DeviceError, true);
  }
  int capturing = 0;
  const bool is_captured = runtime_.cudaStreamIsCapturing(stream, &capturing) != 0 || capturing != 0;
  if (is_capturing_) return is_captured ? take_for_graph(args, stream, shape) : 0;
  ring_->counters().samples.fetch_add(1, std::memory_order_relaxed);
  if (is_captured) return dropped(Drop::Capturing, false);
  if (is_refused_.load(std::memory_order_relaxed)) return dropped(Drop::Refused, true);
  int device = 0;
  if (runtime_.cudaGetDevice(&device) != 0 || device != device_) return dropped(Drop::OtherDevice, true);
  auto call = call_.read(args);
  if (!call) return dropped(Drop::Shape, true);
  const bool is_shadow = mode() == ASSAY_SHADOW;
  const int64_t bytes = staged_bytes(*call, is_shadow);
  if (bytes > settings_.max_bytes) return dropped(Drop::TooLarge, true);
  raise(largest_call_, staged_bytes(*call, false));
  Area* area = area_for(bytes);
  if (!area) return dropped(Drop::StagingFull, false);
  remember(shape);
  area->call = std::move(*call);
  area->number = number;
  area->is_shadow = is_shadow;
  if (!copy_images(*area, false, stream)) {
    area->state = State::Free;
    return dropped(Drop::DeviceError, true);
  }
  return static_cast<uint64_t>(area - areas_.data()) + 1;
}

// A free staging area that is large enough; where there is none, the thread is asked for one.
Watch::Area* Watch::area_for(int64_t bytes) {
  for (Area& area : areas_) {
    State free = State::Free;
    if (area.capacity.load() >= bytes && area.state.compare_exchange_strong(free, State::Taken)) return &area;
  }
  raise(wanted_bytes_, bytes);
  wake();
  return nullptr;
}

bool Watch::copy_images(Area& area, bool after, Stream stream) {
  int64_t at = 0;
  for (const Image& image : area.call.images) {
    if (image.after == after && image.bytes > 0 &&
        runtime_.cudaMemcpyAsync(area.device + at, reinterpret_cast<const void*>(image.device),
                                 static_cast<std::size_t>(image.bytes), kOnDevice, stream) != 0) {
      runtime_.cudaGetLastError();  // the application did nothing wrong
      return false;
    }
    at += aligned(image.bytes);
  }
  return true;
}

bool Watch::shadow(uint64_t ticket, void** args, Stream stream) {
  Area* const found = area_of(ticket);
  if (!found || !found->is_shadow) return false;
  Area& area = *found;
  int64_t at = staged_bytes(area.call, false);
  int64_t input = 0;
  for (const Image& image : area.call.images) {
    if (!image.after) continue;
    // What the call reads before it writes is there as it was.
    input = 0;
    for (const Image& before : area.call.images) {
      if (!before.after && before.name == image.name &&
          runtime_.cudaMemcpyAsync(area.device + at, area.device + input,
                                   static_cast<std::size_t>(image.bytes), kOnDevice, stream) != 0) {
        runtime_.cudaGetLastError();
        area.is_shadow = false;
        return false;
      }
      input += aligned(before.bytes);
    }
    for (std::size_t i = 0; i < contract_.kernel.args.size(); ++i)
      if (contract_.kernel.args[i].kind == contract::ArgKind::Tensor &&
          contract_.kernel.args[i].name == image.name)
        *static_cast<void**>(args[i]) = area.device + at;
    at += aligned(image.bytes);
  }
  return true;
}

void Watch::stage(Area& area, Stream stream) {
  const bool is_ready =
      area.ready || runtime_.cudaEventCreateWithFlags(&area.ready, kEventDisableTiming) == 0;
  if (!is_ready || runtime_.cudaEventRecord(area.ready, stream) != 0) {
    runtime_.cudaGetLastError();
    drop(Drop::DeviceError);
    area.state = area.is_graph ? State::Taken : State::Free;
    return;
  }
  area.state = State::Staged;
  wake();
}

// Tickets up to kStagingAreas are areas of eager calls, the others those of the graph that is captured.
Watch::Area* Watch::area_of(uint64_t ticket) {
  if (ticket == 0) return nullptr;
  if (ticket <= kStagingAreas) return &areas_[ticket - 1];
  const std::size_t index = ticket - kStagingAreas - 1;
  return capturing_ && index < capturing_->areas.size() ? capturing_->areas[index].get() : nullptr;
}

void Watch::after(uint64_t ticket, Stream stream) {
  Area* area = area_of(ticket);
  if (!area) return;
  const auto start = Clock::now();
  const bool into_graph = ticket > kStagingAreas;
  if (!copy_images(*area, true, stream)) {
    if (!into_graph) drop(Drop::DeviceError);  // else it is counted when the graph is launched
    area->state = State::Free;
  } else if (into_graph) {
    area->is_graph = true;
  } else {
    stage(*area, stream);
  }
  ring_->counters().overhead_ns.fetch_add(ns_since(start), std::memory_order_relaxed);
}

void Watch::on_alarm(void (*call)(const char*, void*), void* context) {
  const std::lock_guard lock(alarm_mutex_);
  alarm_ = call;
  alarm_context_ = context;
}

void Watch::set_library(const std::string& path) {
  library_ = absolute(path);
  ring_->describe(description(certificate_));
}

const char* Watch::argument(int index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= contract_.kernel.args.size()) return nullptr;
  const contract::Arg& arg = contract_.kernel.args[static_cast<std::size_t>(index)];
  const auto name = [](contract::DType dtype) { return contract::info(dtype).name.data(); };  // a literal
  switch (arg.kind) {
    case contract::ArgKind::Dim:
      if (const contract::Dim* dim = contract_.dim(arg.name)) return name(dim->type);
      return name(contract_.derived_dim(arg.name)->type);
    case contract::ArgKind::Integer:
      return name(arg.type);
    case contract::ArgKind::Scalar:
      return name(contract_.scalar(arg.name)->dtype);
    case contract::ArgKind::Stream:
      return "stream";
    default:
      return "pointer";
  }
}

// ---- the thread's side ----

void Watch::say_once(std::string message) {
  if (said_ == message) return;
  said_ = std::move(message);
  const char* quiet = std::getenv("ASSAY_MONITOR_QUIET");
  if (!quiet || !*quiet) fmt::print(stderr, "assay: monitor of {}: {}\n", contract_.path, said_);
}

void Watch::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the application's threads
  runtime_.cudaSetDevice(device_);
  while (!stop_) {
    grow();
    const bool is_busy = collect(false);
    // What is watched is known when the first call is made.
    if (!is_refused_ && ring_->counters().calls > 0 && !link_->connect(ring_->file()))
      say_once(
          fmt::format("assayd does not answer at {}; calls are not judged until it does", link_->path()));
    for (const std::string& message : link_->messages()) hear(message);
    pollfd files[2] = {{wake_, POLLIN, 0}, {link_->socket(), POLLIN, 0}};
    poll(files, link_->is_connected() ? 2 : 1, is_busy ? kBusyPoll : kIdlePoll);
    uint64_t count = 0;
    if (read(wake_, &count, sizeof count) < 0) continue;  // it was the time, or assayd
  }
  collect(true);
  if (stream_) runtime_.cudaStreamDestroy(stream_);
}

void Watch::grow() {
  const int64_t wanted = wanted_bytes_.load();
  if (wanted == 0) return;
  const auto bytes =
      std::max(kSmallestArea, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))));
  const auto most = static_cast<std::size_t>(std::clamp<int64_t>(kStagingBytes / bytes, 2, kStagingAreas));
  for (std::size_t i = 0; i < most; ++i) {
    Area& area = areas_[i];
    State free = State::Free;
    if (area.capacity >= wanted || !area.state.compare_exchange_strong(free, State::Taken)) continue;
    void* device = nullptr;
    if (runtime_.cudaMalloc(&device, static_cast<std::size_t>(bytes)) == 0) {
      if (area.device) runtime_.cudaFree(area.device);
      area.device = static_cast<std::byte*>(device);
      area.capacity = bytes;
    } else {
      runtime_.cudaGetLastError();
    }
    area.state = State::Free;
  }
}

// Hands over what has arrived. True: something is still on its way.
bool Watch::collect(bool is_last) {
  bool is_busy = false;
  const auto look_at = [&](Area& area) {
    if (area.state != State::Staged) return;
    const int status =
        is_last || hurry_ ? runtime_.cudaEventSynchronize(area.ready) : runtime_.cudaEventQuery(area.ready);
    if (status == kNotReady) {
      is_busy = true;
      return;
    }
    if (status == 0 && area.is_graph && !is_last && ring_->is_full()) {
      // One launch of a graph may give more samples than the ring has room for; they can wait where they are.
      is_busy |= link_->is_connected();
      return;
    }
    if (status == 0)
      hand_over(area);
    else
      drop(Drop::DeviceError);
    area.state = area.is_graph ? State::Taken : State::Free;
  };
  for (Area& area : areas_) look_at(area);
  for (Area* area : staged_by_graphs()) look_at(*area);
  free_closed_graphs();
  return is_busy;
}

void Watch::hand_over(Area& area) {
  const auto slot = ring_->begin_fill();
  if (!slot) return drop(Drop::RingFull);
  if (!stream_) runtime_.cudaStreamCreateWithFlags(&stream_, kStreamNonBlocking);
  const std::string header = monitor::encode_sample(area.call, area.number, area.is_shadow);
  std::byte* to = ring_->slot(*slot);
  std::memcpy(to, header.data(), header.size());
  auto filled = static_cast<int64_t>(header.size());
  int64_t at = 0;
  bool is_copied = true;
  const auto copy = [&](const Image& image) {
    is_copied &= image.bytes == 0 ||
                 runtime_.cudaMemcpyAsync(to + filled, area.device + at,
                                          static_cast<std::size_t>(image.bytes), kToHost, stream_) == 0;
    filled += image.bytes;
    at += aligned(image.bytes);
  };
  for (const Image& image : area.call.images) copy(image);
  if (area.is_shadow)
    for (const Image& image : area.call.images)
      if (image.after) copy(image);
  is_copied &= runtime_.cudaStreamSynchronize(stream_) == 0;
  if (!is_copied) {
    runtime_.cudaGetLastError();
    ring_->abandon(*slot);
    return drop(Drop::DeviceError);
  }
  ring_->end_fill(*slot, static_cast<uint64_t>(filled),
                  std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  link_->notify();
}

void Watch::hear(const std::string& message) {
  const Json json = Json::parse(message, nullptr, false);
  if (!json.is_object()) return;
  if (json.contains("refused")) {
    is_refused_ = true;
    return say_once(json.value("refused", ""));
  }
  if (!json.contains("alarm")) return;
  decltype(alarm_) call = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard lock(alarm_mutex_);
    call = alarm_;
    context = alarm_context_;
  }
  if (call) call(message.c_str(), context);
  if (settings_.on_alarm == monitor::OnAlarm::Reference) {
    set_mode(ASSAY_REFERENCE);
  } else if (settings_.on_alarm == monitor::OnAlarm::Abort) {
    fmt::print(stderr, "assay: monitor of {}: aborted because of an alarm: {}\n", contract_.path, message);
    std::abort();
  }
}

assay_counts Watch::count() const {
  const monitor::Counters& counters = ring_->counters();
  assay_counts counts{counters.calls, counters.samples, 0, counters.overhead_ns};
  for (const auto& dropped : counters.dropped) counts.dropped += dropped;
  return counts;
}

bool Watch::is_inherited() const {
  return forks.load(std::memory_order_relaxed) != forks_;
}

bool Watch::flush(int milliseconds) {
  if (is_inherited()) return false;
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  hurry_ = true;
  bool is_done = false;
  do {
    wake();
    is_done = std::ranges::none_of(areas_, [](const Area& area) { return area.state == State::Staged; }) &&
              staged_by_graphs().empty() && ring_->is_empty();
    if (!is_done) std::this_thread::sleep_for(std::chrono::milliseconds(kBusyPoll));
  } while (!is_done && Clock::now() < end);
  hurry_ = false;
  return is_done;
}

}  // namespace assay::watch
