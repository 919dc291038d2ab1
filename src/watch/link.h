// The connection of an application to assayd. It is made, kept and made again by a thread of the monitor; nothing in it
// waits.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace assay::watch {

class Link {
 public:
  explicit Link(std::string path) : path_(std::move(path)) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Connects where that is due, and passes this file to assayd. True: connected.
  bool connect(int file);
  bool is_connected() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  const std::string& path() const { return path_; }
  // Tells assayd that there is something to judge.
  void notify() const;
  // What assayd has sent; a connection that has ended is closed.
  std::vector<std::string> messages();

 private:
  void close();

  std::string path_;
  int socket_ = -1;
  std::chrono::steady_clock::time_point next_{};  // try
};

}  // namespace assay::watch
