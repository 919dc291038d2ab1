#include "cli/activity_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "cli/arguments.h"

namespace assay::cli {

void add_activity_files(Arguments& arguments, ActivityFiles& files) {
  arguments.add("--memory FILE", files.memory,
                "write a memory snapshot to this file, a pickle for PyTorch's memory viewer");
  arguments.add("--trace FILE", files.trace,
                "write a trace to this file, JSON for Perfetto and chrome://tracing; compressed if its name "
                "ends in .gz");
  arguments.add("--html FILE", files.html, "write an HTML page to this file: memory and streams over time");
}

namespace {

// Fills in the host code of findings, and drops those that the user does not want to see.
void name_findings(std::vector<activity::FoundAt>& found, subject::Places& places,
                   const std::vector<Suppression>& suppressions) {
  std::erase_if(found,
                [&](const activity::FoundAt& one) { return is_suppressed(one.finding, suppressions); });
  std::vector<Finding> findings;
  for (const activity::FoundAt& one : found) findings.push_back(one.finding);
  places.name(findings);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].finding = std::move(findings[i]);
}

// A file that is written as its pieces come.
class File {
 public:
  explicit File(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (file_ < 0) error_ = errno;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { end(); }

  void write(std::string_view piece) {
    if (error_ == 0) make_room(piece.size());
    while (error_ == 0 && !piece.empty()) {
      const ssize_t done = ::write(file_, piece.data(), piece.size());
      if (done >= 0) {
        piece.remove_prefix(static_cast<std::size_t>(done));
        bytes_ += done;
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
  }

  // 0, or what went wrong.
  int end() {
    if (file_ < 0) return error_;
    if (room_ > bytes_ && ftruncate(file_, bytes_) != 0 && error_ == 0) error_ = errno;
    if (close(std::exchange(file_, -1)) != 0 && error_ == 0) error_ = errno;
    return error_;
  }

 private:
  // Asks for the file's space in large parts: a page takes half the time to write where there is space for it. What is no
  // regular file has no such space; that a disk is full is found out by writing.
  void make_room(std::size_t more) {
    constexpr off_t kPart = 4 << 20;
    const off_t end = bytes_ + static_cast<off_t>(more);
    if (bytes_ == 0 || end <= room_ || !has_room_) return;  // of a small file there is one piece
    has_room_ = fallocate(file_, FALLOC_FL_KEEP_SIZE, bytes_, std::max(kPart, end - bytes_)) == 0;
    if (has_room_) room_ = bytes_ + std::max(kPart, end - bytes_);
  }

  int file_;
  int error_ = 0;
  bool has_room_ = true;
  off_t bytes_ = 0, room_ = 0;  // written, and up to where there is space
};

// False: that failed, and was said.
bool write_pieces(const std::string& path, const std::function<void(const activity::Sink&)>& write) {
  File file(path);
  write([&](std::string_view piece) { file.write(piece); });
  const int error = file.end();
  if (error != 0) fmt::print(stderr, "assay: {} cannot be written: {}\n", path, std::strerror(error));
  return error == 0;
}

}  // namespace

void ActivityLog::look_up() {
  const std::vector<std::string> calls = recorder_.calls();
  places_.look_up({calls.begin(), calls.end()});
}

bool ActivityLog::write(const std::string& program, const std::vector<Suppression>& suppressions,
                        const ActivityFiles& files) {
  name_findings(recorder_.findings(), places_, suppressions);
  const activity::Activity seen =
      recorder_.take([&](const std::vector<std::string>& own) { return places_.frames(own); });
  bool written = true;
  const auto plain_trace = [&](const activity::Sink& sink) { trace(seen, sink); };
  // The viewers read both, and the packed one has a twentieth of the size.
  const auto packed_trace = [&](const activity::Sink& sink) { activity::gzip(plain_trace, sink); };
  if (!files.memory.empty())
    written &= write_pieces(files.memory, [&](const activity::Sink& sink) { memory_snapshot(seen, sink); });
  if (files.trace.ends_with(".gz"))
    written &= write_pieces(files.trace, packed_trace);
  else if (!files.trace.empty())
    written &= write_pieces(files.trace, plain_trace);
  if (!files.html.empty())
    written &= write_pieces(files.html, [&](const activity::Sink& sink) { page(seen, program, sink); });
  return written;
}

}  // namespace assay::cli
