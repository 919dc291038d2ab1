#include "cli/http_get.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace assay::cli {

namespace {

constexpr std::size_t kLongestAnswer = 64 << 20;  // bytes
constexpr std::string_view kUnix = "unix:", kHttp = "http://";

void limit_time(int socket, int seconds) {
  const timeval limit{seconds, 0};
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO})
    setsockopt(socket, SOL_SOCKET, which, &limit, sizeof limit);
}

// A connected socket, or -1 and errno.
int connect_unix(const std::string& path, int seconds) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  limit_time(made, seconds);
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return made;
  const int number = errno;
  close(made);
  errno = number;
  return -1;
}

Result<int> connect_tcp(const std::string& host, const std::string& port, int seconds) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); problem != 0)
    return Error{gai_strerror(problem)};
  int made = -1, number = 0;
  for (const addrinfo* one = found; one && made < 0; one = one->ai_next) {
    made = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    limit_time(made, seconds);
    if (connect(made, one->ai_addr, one->ai_addrlen) == 0) break;
    number = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(made);
    made = -1;
  }
  freeaddrinfo(found);
  if (made < 0) return Error{std::strerror(number)};
  return made;
}

struct Target {
  std::string host, port, socket;  // the latter of a Unix socket
  std::string path;
};

Result<Target> target_of(const std::string& address) {
  Target target;
  if (address.starts_with(kUnix)) {
    const std::size_t end = address.find(':', kUnix.size());
    target.socket = address.substr(kUnix.size(), end - kUnix.size());
    target.host = "localhost";
    target.path = end == std::string::npos ? "/" : address.substr(end + 1);
    return target;
  }
  if (!address.starts_with(kHttp)) return Error{"an address begins with http:// or unix:"};
  const std::size_t slash = address.find('/', kHttp.size());
  std::string place = address.substr(kHttp.size(), slash - kHttp.size());
  target.path = slash == std::string::npos ? "/" : address.substr(slash);
  const std::size_t colon = place.rfind(':'), bracket = place.rfind(']');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  target.port = has_port ? place.substr(colon + 1) : "80";
  target.host = has_port ? place.substr(0, colon) : place;
  if (target.host.starts_with('[') && target.host.ends_with(']'))
    target.host = target.host.substr(1, target.host.size() - 2);
  if (target.host.empty() || target.port.empty()) return Error{"an address is written like http://host:9464"};
  return target;
}

Result<std::string> question(int socket, const std::string& request) {
  if (send(socket, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return Error{std::strerror(errno)};
  std::string answer;
  char part[1 << 14];
  for (;;) {
    const ssize_t got = recv(socket, part, sizeof part, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{errno == EAGAIN ? "no answer in time" : std::strerror(errno)};
    if (got == 0) return answer;
    answer.append(part, static_cast<std::size_t>(got));
    if (answer.size() > kLongestAnswer) return Error{"the answer is too long"};
  }
}

}  // namespace

Result<std::string> http_get(const std::string& address, int seconds) {
  const auto target = target_of(address);
  if (!target) return Error{target.error().message, address};
  const auto made = target->socket.empty() ? connect_tcp(target->host, target->port, seconds)
                                           : Result<int>(connect_unix(target->socket, seconds));
  if (!made) return Error{made.error().message, address};
  if (*made < 0) return Error{std::strerror(errno), address};
  const auto answer = question(*made, fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                                                  target->path, target->host));
  close(*made);
  if (!answer) return Error{answer.error().message, address};
  const std::size_t body = answer->find("\r\n\r\n");
  if (!answer->starts_with("HTTP/1.") || body == std::string::npos)
    return Error{"the answer is not HTTP", address};
  if (answer->substr(8, 5) != " 200 ")
    return Error{fmt::format("the answer is {}", answer->substr(9, answer->find('\r') - 9)), address};
  return answer->substr(body + 4);
}

}  // namespace assay::cli
