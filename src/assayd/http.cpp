#include "assayd/http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

namespace assay::assayd {

namespace {

constexpr std::size_t kLongestRequest = 8192;  // bytes
constexpr int kPatience = 2;                   // seconds that a reader may take
constexpr int kPollRequests = 100;             // ms between two looks at whether to stop

Result<int> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{"the path of a socket has at most 107 bytes", path};
  std::memcpy(address.sun_path, path.data(), path.size());
  unlink(path.c_str());
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0 || bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Error{fmt::format("cannot listen here: {}", std::strerror(errno)), path};
  return made;
}

// A number in text; none of it may be left over.
bool port_of(std::string_view text, uint16_t& port) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  return problem == std::errc() && end == text.data() + text.size();
}

Result<int> listen_port(std::string& text) {
  const std::size_t colon = text.rfind(':');
  uint16_t port = 0;
  const bool is_six = text.starts_with('[');
  if (colon == std::string::npos || !port_of(std::string_view(text).substr(colon + 1), port))
    return Error{
        fmt::format("--listen is written like 127.0.0.1:9464 or unix:/run/metrics.sock, not {}", text)};
  const std::string host = is_six ? text.substr(1, colon - 2) : text.substr(0, colon);
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (is_six) {
    auto& six = reinterpret_cast<sockaddr_in6&>(storage);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    length = sizeof six;
    if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1)
      return Error{fmt::format("{} is not an address", host)};
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(storage);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    length = sizeof four;
    if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1)
      return Error{fmt::format("{} is not an address", host)};
  }
  const int made = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  if (made >= 0) setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (made < 0 || bind(made, reinterpret_cast<const sockaddr*>(&storage), length) != 0)
    return Error{fmt::format("cannot listen at {}: {}", text, std::strerror(errno))};
  if (getsockname(made, reinterpret_cast<sockaddr*>(&storage), &length) == 0)
    port = ntohs(is_six ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                        : reinterpret_cast<sockaddr_in&>(storage).sin_port);
  text = fmt::format("{}:{}", text.substr(0, colon), port);
  return made;
}

}  // namespace

Result<void> HttpServer::start(const std::string& address, Handler handler) {
  address_ = address;
  handler_ = std::move(handler);
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) path_ = address.substr(kUnix.size());
  const auto made = path_.empty() ? listen_port(address_) : listen_unix(path_);
  if (!made) return made.error();
  socket_ = *made;
  if (listen(socket_, 16) != 0) return Error{fmt::format("cannot listen at {}", address)};
  thread_ = std::thread([this] { serve(); });
  return {};
}

HttpServer::~HttpServer() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (socket_ >= 0) close(socket_);
  if (!path_.empty()) unlink(path_.c_str());
}

void HttpServer::serve() {
  while (!stop_) {
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, kPollRequests) <= 0) continue;
    const int client = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const timeval patience{kPatience, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    answer(client);
    close(client);
  }
}

void HttpServer::answer(int client) const {
  std::string request;
  char part[2048];
  // There is one thread: a client that sends byte after byte must not block the others.
  const auto end_of_patience = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience);
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < kLongestRequest &&
         std::chrono::steady_clock::now() < end_of_patience) {
    const ssize_t got = recv(client, part, sizeof part, 0);
    if (got <= 0) break;
    request.append(part, static_cast<std::size_t>(got));
  }
  Answer answer{400, "text/plain; charset=utf-8", "bad request\n"};
  const std::size_t end = request.find(' ', 4);
  if (request.starts_with("GET ") && end != std::string::npos) {
    std::string_view path = std::string_view(request).substr(4, end - 4);
    answer = handler_(path.substr(0, path.find('?')));
  } else if (!request.empty()) {
    answer.status = 405;
    answer.body = "only GET\n";
  }
  const char* reason = answer.status == 200 ? "OK" : answer.status == 404 ? "Not Found" : "Bad Request";
  const std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                  answer.status, reason, answer.type, answer.body.size(), answer.body);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t sent = send(client, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<std::size_t>(sent);
  }
}

}  // namespace assay::assayd
