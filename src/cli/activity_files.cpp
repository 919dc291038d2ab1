#include "cli/activity_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <set>

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

// Writes a file as its pieces come. False: that failed, and was said.
bool write_pieces(const std::string& path, const std::function<void(const activity::Sink&)>& write) {
  int error = 0;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) error = errno;
  write([&](std::string_view piece) {
    while (error == 0 && !piece.empty()) {
      const ssize_t done = ::write(file, piece.data(), piece.size());
      if (done >= 0)
        piece.remove_prefix(static_cast<std::size_t>(done));
      else if (errno != EINTR)
        error = errno;
    }
  });
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
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
