#include "cli/activity_files.h"

#include <set>

#include "cli/arguments.h"
#include "cli/terminal.h"

namespace assay::cli {

void add_activity_files(Arguments& arguments, ActivityFiles& files) {
  arguments.add("--memory", files.memory,
                "write a memory snapshot to this file, a pickle for PyTorch's memory viewer");
  arguments.add(
      "--trace", files.trace,
      "write a trace to this file, JSON for Perfetto and chrome://tracing; packed if its name ends in .gz");
  arguments.add("--html", files.html, "write an HTML page to this file: memory and streams over time");
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

// A name that ends in .gz asks for a packed file: the viewers read both, and the packed one has a twentieth of the size.
bool write_trace(const std::string& path, const std::string& text) {
  return write_text(path, path.ends_with(".gz") ? activity::gzip(text) : text);
}

}  // namespace

void ActivityLog::add(const protocol::Event& event) {
  if (const auto* module = std::get_if<protocol::ModuleEvent>(&event))
    places_.add_module(module->name, module->path);
  recorder_.add(event);
}

bool ActivityLog::write(const std::string& program, const std::vector<Suppression>& suppressions,
                        const ActivityFiles& files) {
  const std::vector<std::string> calls = recorder_.calls();
  places_.look_up({calls.begin(), calls.end()});
  name_findings(recorder_.findings(), places_, suppressions);
  const activity::Activity seen =
      recorder_.take([&](const std::vector<std::string>& own) { return places_.frames(own); });
  bool written = true;
  if (!files.memory.empty()) written &= write_text(files.memory, memory_snapshot(seen));
  if (!files.trace.empty()) written &= write_trace(files.trace, trace(seen));
  if (!files.html.empty()) written &= write_text(files.html, page(seen, program));
  return written;
}

}  // namespace assay::cli
