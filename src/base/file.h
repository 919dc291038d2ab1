// Files as values. A stream is the wrong tool for a file whose reading may fail half-way: iterating over its
// buffer throws, whatever the stream's own flags say. /proc/PID/stat of a process that has just ended is such
// a file, and so is a folder.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "base/result.h"

namespace assay {

// All bytes of a file, or why they cannot be read. One of more than `most` bytes is not read to its end.
inline Result<std::string> read_file(const std::string& path,
                                     std::size_t most = std::numeric_limits<std::size_t>::max()) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Error{std::strerror(errno), path};
  std::string bytes;
  char part[65536];
  ssize_t got = 0;
  do {
    got = read(file, part, sizeof part);
    if (got > 0) bytes.append(part, static_cast<std::size_t>(got));
  } while ((got > 0 && bytes.size() <= most) || (got < 0 && errno == EINTR));
  const int error = got < 0 ? errno : 0;
  close(file);
  if (error != 0) return Error{std::strerror(error), path};
  if (bytes.size() > most) return Error{"it is too large for what it should be", path};
  return bytes;
}

// The same where a file that cannot be read is as good as an empty one.
inline std::string text_of(const std::string& path) {
  auto bytes = read_file(path);
  return bytes ? std::move(*bytes) : std::string();
}

}  // namespace assay
