#include "protocol/lines.h"

#include <sys/socket.h>

namespace assay::protocol {

std::optional<std::string> LineBuffer::take() {
  const std::size_t end = bytes_.find('\n', taken_);
  if (end == std::string::npos) return std::nullopt;
  std::string line = bytes_.substr(taken_, end - taken_);
  taken_ = end + 1;
  return line;
}

void LineBuffer::append(std::string_view bytes) {
  bytes_.erase(0, taken_);
  taken_ = 0;
  bytes_ += bytes;
}

void LineBuffer::clear() {
  bytes_.clear();
  taken_ = 0;
}

bool send_line(int socket, std::string message) {
  message += '\n';
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t n = send(socket, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> receive_line(int socket, LineBuffer& buffer) {
  for (;;) {
    if (auto line = buffer.take()) return line;
    char bytes[65536];
    const ssize_t n = recv(socket, bytes, sizeof bytes, 0);
    if (n <= 0) return std::nullopt;
    buffer.append({bytes, static_cast<std::size_t>(n)});
  }
}

}  // namespace assay::protocol
