#include "subject/event_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace assay::subject {

namespace {

constexpr std::size_t kMostEvents = 1000;
constexpr std::size_t kMostRecorded = 4000;  // a trial of many calls makes 65
constexpr std::size_t kMostKernels = 1000;
constexpr std::size_t kMostCode = 200;           // modules between two trials
constexpr std::size_t kLongestEvent = 16 << 20;  // bytes: a profile of many lines

bool is_recorded(const protocol::Event& event) {
  return std::holds_alternative<protocol::RecordedLaunchEvent>(event) ||
         std::holds_alternative<protocol::RecordedFillEvent>(event) ||
         std::holds_alternative<protocol::RecordedCopyEvent>(event) ||
         std::holds_alternative<protocol::CallEvent>(event);
}

}  // namespace

void EventPipe::open(int descriptor) {
  close();
  descriptor_ = descriptor;
  fcntl(descriptor_, F_SETFL, O_NONBLOCK);
}

void EventPipe::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  bytes_.clear();
  events_.clear();
  recorded_.clear();
  kernels_.clear();
  last_launch_.reset();
  code_.clear();
  saw_error_ = left_out_ = ended_ = forged_ = false;
}

void EventPipe::read() {
  char buffer[65536];
  while (descriptor_ >= 0 && !ended_) {
    const ssize_t n = ::read(descriptor_, buffer, sizeof buffer);
    if (n < 0) return;
    if (n == 0) ended_ = true;
    bytes_.append({buffer, static_cast<std::size_t>(n)});
    while (const auto line = bytes_.take()) add(*line);
    if (bytes_.size() <= kLongestEvent) continue;
    bytes_.clear();
    forged_ = true;
  }
}

void EventPipe::add(const std::string& line) {
  auto event = protocol::decode_event(line);
  if (!event) {
    forged_ = true;
    return;
  }
  if (const Finding* finding = protocol::finding_of(*event))
    saw_error_ |= finding->severity == Severity::Error;
  if (auto* code = std::get_if<protocol::CodeEvent>(&*event)) {
    if (code_.size() < kMostCode) code_.push_back(std::move(code->ptx));
    return;
  }
  const auto* launch = std::get_if<protocol::LaunchEvent>(&*event);
  if (launch && kernels_.size() < kMostKernels) kernels_.insert(launch->kernel);
  if (launch) last_launch_ = *launch;
  if (!is_recorded(*event)) {
    if (events_.size() < kMostEvents) events_.push_back(std::move(*event));
  } else if (recorded_.size() < kMostRecorded) {
    recorded_.push_back(std::move(*event));
  } else {
    left_out_ = true;
  }
}

bool EventPipe::take_error() {
  return std::exchange(saw_error_, false);
}

std::vector<protocol::Event> EventPipe::take_events() {
  return std::exchange(events_, {});
}

std::vector<protocol::Event> EventPipe::take_recorded(bool& left_out) {
  left_out = std::exchange(left_out_, false);
  return std::exchange(recorded_, {});
}

std::vector<std::string> EventPipe::take_code() {
  return std::exchange(code_, {});
}

std::optional<protocol::LaunchEvent> EventPipe::take_last_launch() {
  return std::exchange(last_launch_, std::nullopt);
}

std::set<std::string> EventPipe::take_kernels() {
  return std::exchange(kernels_, {});
}

}  // namespace assay::subject
