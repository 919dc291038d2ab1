// Messages as lines of a stream of bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace assay::protocol {

// Collects bytes as they arrive and hands out whole lines.
class LineBuffer {
 public:
  void append(std::string_view bytes);
  // The next line without its end; none: it has not arrived yet.
  std::optional<std::string> take();
  std::size_t size() const { return bytes_.size() - taken_; }  // bytes that were not taken
  bool empty() const { return size() == 0; }
  void clear();

 private:
  std::string bytes_;
  std::size_t taken_ = 0;  // of them
};

// Sends a message and the end of its line; false: the other side is gone.
bool send_line(int socket, std::string message);

// Waits for the next line from a socket; none: the other side is gone.
std::optional<std::string> receive_line(int socket, LineBuffer& buffer);

}  // namespace assay::protocol
