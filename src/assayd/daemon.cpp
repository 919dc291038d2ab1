#include "assayd/daemon.h"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace assay::assayd {

using monitor::Drop;
using monitor::Sample;
using Json = nlohmann::json;

namespace {

constexpr int kPoll = 100;  // ms without anything to judge
// Of one sample: one that kills assayd must not do so for ever.
constexpr uint32_t kMostAttempts = 5;

int64_t now_ns() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// A line of the log; parts of it come from applications.
void say(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  fmt::print(stderr, "assayd: {}\n", text);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

// Whether a process answers at this socket.
bool is_alive(const std::string& path) {
  const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(path);
  const bool alive = connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(made);
  return alive;
}

// Who may connect: this user, and the members of the group.
Result<void> give_to_group(const std::string& socket, const std::string& group) {
  chmod(socket.c_str(), group.empty() ? 0600 : 0660);
  if (group.empty()) return {};
  const ::group* found = getgrnam(group.c_str());
  if (!found) return Error{"there is no group " + group};
  if (chown(socket.c_str(), static_cast<uid_t>(-1), found->gr_gid) != 0)
    return Error{fmt::format("cannot be given to the group {}: {}", group, std::strerror(errno)), socket};
  return {};
}

// The file that came with a message; -1: none. An application sends one: further ones are closed.
int file_of(msghdr& message) {
  int first = -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + at, sizeof file);
      if (first < 0)
        first = file;
      else
        close(file);
    }
  }
  return first;
}

// As many applications as there are file descriptors for: two each, and some for everything else.
std::size_t most_clients() {
  constexpr rlim_t kOthers = 64, kOfAClient = 2;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kOthers) return 1;
  return std::min<std::size_t>(kMostClients, (limit.rlim_cur - kOthers) / kOfAClient);
}

}  // namespace

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), store_(options_.state, options_.captures) {}

Daemon::~Daemon() {
  for (const auto& client : clients_)
    if (client->socket >= 0) close(client->socket);
  if (socket_ >= 0) {
    close(socket_);
    unlink(options_.socket.c_str());
  }
}

Result<void> Daemon::open() {
  if (auto opened = store_.open(); !opened) return opened.error();
  if (options_.socket.size() >= sizeof(sockaddr_un::sun_path))
    return Error{"the path of a socket has at most 107 bytes", options_.socket};
  if (is_alive(options_.socket)) return Error{"another assayd is already running here", options_.socket};
  unlink(options_.socket.c_str());
  socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = address_of(options_.socket);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket_, 64) != 0) {
    const int number = errno;
    close(socket_);
    socket_ = -1;
    return Error{fmt::format("cannot listen here: {}", std::strerror(number)), options_.socket};
  }
  if (auto given = give_to_group(options_.socket, options_.group); !given) return given.error();
  for (const auto& [name, alarm] : store_.alarms()) say(fmt::format("alarm from before: {}", name));
  return {};
}

void Daemon::run(const std::atomic<bool>& stop, std::atomic<bool>& reload) {
  while (!stop) {
    std::vector<pollfd> files = {{socket_, POLLIN, 0}};
    bool is_busy = false;
    for (const auto& client : clients_) {
      files.push_back({client->is_gone ? -1 : client->socket, POLLIN, 0});
      is_busy |= client->ring && client->ring->waiting() > 0;
    }
    poll(files.data(), files.size(), is_busy ? 0 : kPoll);
    accept_clients();
    for (const auto& client : clients_) hear(*client);
    // One sample of each in turn: an application that sends many does not hold up the others.
    for (const auto& client : clients_) judge_one(*client);
    remove_ended();
    const std::lock_guard lock(mutex_);
    if (store_.pending() > 0) store_.write_pending();
    if (!reload.exchange(false)) continue;
    if (auto opened = store_.open(); !opened) say(opened.error().text());
    for (const auto& watched : watched_) watched->detector.reset();
    say(fmt::format("{} alarm{} after a reload", store_.alarms().size(),
                    store_.alarms().size() == 1 ? "" : "s"));
  }
}

void Daemon::accept_clients() {
  for (int made = 0; made >= 0;) {
    made = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) continue;
    if (clients_.size() >= most_clients()) {
      close(made);  // it asks again later
      if (!std::exchange(is_crowded_, true))
        say(fmt::format("{} applications are connected, and no more can be: {}", clients_.size(),
                        clients_.size() == kMostClients ? "this is the limit"
                                                        : "raise the limit of open files (ulimit -n)"));
      const std::lock_guard lock(mutex_);
      ++refused_;
      continue;
    }
    is_crowded_ = false;
    clients_.push_back(std::make_unique<Client>());
    clients_.back()->socket = made;
  }
}

void Daemon::hear(Client& client) {
  while (!client.is_gone) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(client.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      client.is_gone = true;
      return;
    }
    if (const int file = file_of(message); file >= 0) {
      if (client.ring)
        close(file);
      else
        admit(client, file);
    }
  }
}

void Daemon::refuse(Client& client, const std::string& why) {
  const std::lock_guard lock(mutex_);
  refuse_locked(client, why);
}

void Daemon::refuse_locked(Client& client, const std::string& why) {
  say(fmt::format("an application is refused: {}", why));
  const std::string text = Json{{"refused", why}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  send(client.socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  client.is_gone = true;
  client.watched = nullptr;
  ++refused_;
}

// Builds that were deployed before and no application calls any more make room for new ones; those without an alarm first.
bool Daemon::make_room() {
  if (watched_.size() < options_.kernels) return true;
  const auto is_idle = [&](const std::unique_ptr<Watched>& watched) {
    return std::ranges::none_of(clients_,
                                [&](const auto& client) { return client->watched == watched.get(); });
  };
  auto old = std::ranges::find_if(
      watched_, [&](const auto& watched) { return is_idle(watched) && !has_alarm(*watched); });
  if (old == watched_.end()) old = std::ranges::find_if(watched_, is_idle);
  if (old == watched_.end()) return false;
  say(fmt::format("{} makes room for another kernel: its metrics end", (*old)->name()));
  watched_.erase(old);
  return true;
}

void Daemon::admit(Client& client, int file) {
  auto ring = monitor::Ring::attach(file);
  if (!ring) return refuse(client, ring.error().text());
  auto application = read_application(ring->description());
  if (!application) return refuse(client, application.error().text());
  client.application = std::move(*application);
  const auto known =
      std::ranges::find_if(watched_, [&](const auto& watched) { return watched->is_of(client.application); });
  if (known != watched_.end()) {
    client.watched = known->get();
    const std::lock_guard lock(mutex_);
    client.watched->check_certificate(client.application, options_.public_key);
  } else {
    auto made = Watched::make(client.application, options_.public_key);
    if (!made)
      return refuse(
          client, fmt::format("assayd {} cannot use this contract: {}", ASSAY_VERSION, made.error().text()));
    client.watched = made->get();
    if (!client.watched->certificate_problem.empty())
      say(fmt::format("the certificate of {} is not valid: {}", client.watched->name(),
                      client.watched->certificate_problem));
    const std::lock_guard lock(mutex_);
    if (!make_room())
      return refuse_locked(client, fmt::format("assayd watches {} kernels already", watched_.size()));
    watched_.push_back(std::move(*made));
  }
  say(fmt::format("watching {} of {} (pid {}) on {}", client.watched->name(), client.application.program,
                  client.application.pid, client.application.device.name));
  const std::lock_guard lock(mutex_);
  client.ring.emplace(std::move(*ring));
  // An application that starts after an alarm has to know of it.
  for (const char* kind : {"proof", "evidence"})
    if (const auto alarm = store_.alarms().find(fmt::format("{}-{}", client.watched->name(), kind));
        alarm != store_.alarms().end())
      notify(client, alarm->second);
}

void Daemon::notify(const Client& client, const Json& alarm) {
  const std::string text = alarm.dump(-1, ' ', false, Json::error_handler_t::replace);
  send(client.socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// True: there was something to judge.
bool Daemon::judge_one(Client& client) {
  if (!client.ring) return false;
  const auto filled = client.ring->begin_judge();
  if (!filled) return false;
  const auto sample = filled->attempts > kMostAttempts
                          ? Result<Sample>(Error{fmt::format(
                                "assayd ended {} times while judging this sample", filled->attempts - 1)})
                          : monitor::decode_sample(client.watched->contract(), filled->bytes);
  auto verdict = sample ? client.watched->judge(*sample) : Result<SampleVerdict>(sample.error());
  std::optional<SampleVerdict> trusted;
  if (sample && verdict && !sample->trusted.empty()) {
    Sample other = *sample;
    other.outputs = sample->trusted;
    if (auto judged = client.watched->judge(other)) trusted = std::move(*judged);
  }
  {
    const std::lock_guard lock(mutex_);
    Watched& watched = *client.watched;
    watched.lag_seconds = 1e-9 * static_cast<double>(now_ns() - filled->unix_ns);
    Seen& seen =
        watched.seen.at(sample ? shape_class(watched.contract(), sample->bindings.shape) : kUnknownShape);
    if (!verdict) {
      ++seen.unjudged;
      if (watched.last_problem != verdict.error().text())
        say(fmt::format("a sample of {} cannot be judged: {}", watched.name(), verdict.error().text()));
      watched.last_problem = verdict.error().text();
    } else {
      seen.add(*verdict);
      if (trusted) seen.trusted_violations += static_cast<uint64_t>(trusted->violations);
      report(client, *sample, *verdict);
    }
  }
  // Not before the result is on disk: if assayd is killed, the next one judges the sample again.
  client.ring->end_judge(filled->index);
  return true;
}

void Daemon::report(Client& client, const Sample& sample, const SampleVerdict& verdict) {
  Watched& watched = *client.watched;
  watched.drift.add(verdict.errors);
  const auto drift = watched.drift.value();
  if (drift > kMuchDrift && !std::exchange(watched.has_warned, true))
    say(
        fmt::format("warning: errors of {} are larger than when it was certified: {:.0f} % more of its "
                    "elements exceed the same error",
                    watched.name(), 100 * *drift));
  if (drift < kMuchDrift / 2) watched.has_warned = false;
  const bool was_alarmed = watched.detector.is_alarmed();
  const bool is_alarmed = verdict.mean > 0 && watched.detector.add(verdict.differing, verdict.mean);
  if (verdict.violations > 0)
    raise(client, sample, "proof", fmt::format("{} {}", verdict.worst.element, verdict.worst.text), verdict);
  else if (is_alarmed && !was_alarmed)
    raise(
        client, sample, "evidence",
        fmt::format(
            "{} elements of this call differ from the correctly rounded value, where at most {:.3g} are "
            "expected; together with earlier calls, this happens to a correct kernel once in {:.2g} samples",
            verdict.differing, verdict.mean, std::pow(10.0, watched.detector.log10_evidence())),
        verdict);
}

void Daemon::raise(Client& client, const Sample& sample, const std::string& kind, const std::string& why,
                   const SampleVerdict& verdict) {
  Watched& watched = *client.watched;
  const std::string name = fmt::format("{}-{}", watched.name(), kind);
  const std::string kept = store_.keep(watched.name(), kCapturesOfAKernel,
                                       [&] { return watched.capture(client.application, sample, why); });
  if (store_.is_raised(name)) return;
  const Json alarm = {
      {"alarm", kind},
      {"kernel", watched.name()},
      {"function", watched.identity().kernel},
      {"build", watched.identity().build},
      {"why", why},
      {"contract", client.application.contract.path},
      {"library", client.application.library},
      {"device", client.application.device.name},
      {"gpu", client.application.device.uuid},
      {"application", fmt::format("{} (pid {})", client.application.program, client.application.pid)},
      {"call", sample.call},
      {"shape", sample.bindings.shape},
      {"elements_judged", verdict.judged},
      {"elements_wrong", verdict.violations},
      {"log10_evidence",
       std::isfinite(watched.detector.log10_evidence()) ? watched.detector.log10_evidence() : 0},
      {"certificate_problem", watched.certificate_problem},
      {"capture", kept},
      {"time", now_ns() / 1'000'000'000}};
  store_.raise(name, alarm);
  say(fmt::format("alarm ({}): {}: {}{}", kind, watched.name(), why,
                  kept.empty() ? "" : "; captured in " + kept));
  if (const std::string problem = std::exchange(store_.last_error, ""); !problem.empty()) say(problem);
  notify(client, alarm);
}

// Of an application that has ended, what it left in the ring is judged first.
void Daemon::remove_ended() {
  const std::lock_guard lock(mutex_);
  std::erase_if(clients_, [](const std::unique_ptr<Client>& client) {
    if (!client->is_gone || (client->ring && client->ring->waiting() > 0)) return false;
    if (client->ring) client->watched->ended.add(client->ring->counters());
    close(client->socket);
    return true;
  });
}

}  // namespace assay::assayd
