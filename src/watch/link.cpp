#include "watch/link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace assay::watch {

namespace {

using Clock = std::chrono::steady_clock;

// Between two tries to connect. Chosen: an assayd that was restarted is found again at once, and trying costs nothing.
constexpr auto kRetry = std::chrono::milliseconds(200);
constexpr std::size_t kLongestMessage = 1 << 16;

}  // namespace

Link::~Link() {
  close();
}

void Link::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  next_ = Clock::now() + kRetry;
}

bool Link::connect(int file) {
  if (is_connected()) return true;
  if (Clock::now() < next_) return false;
  next_ = Clock::now() + kRetry;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  const int made = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return false;
  socket_ = made;
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close();
    return false;
  }
  char byte = 'r';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  if (sendmsg(made, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
    close();
    return false;
  }
  return true;
}

void Link::notify() const {
  // Where the buffer is full, assayd has notices enough.
  if (socket_ >= 0) send(socket_, "s", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::vector<std::string> Link::messages() {
  std::vector<std::string> all;
  std::string text(kLongestMessage, '\0');
  while (socket_ >= 0) {
    const ssize_t got = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    if (got > 0) {
      all.emplace_back(text.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    } else {
      close();
    }
  }
  return all;
}

}  // namespace assay::watch
