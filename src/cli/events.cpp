// assay events: what a program on the virtual GPU reported to the file that its settings name (ASSAY_REPORT).
// The events hold findings as data; this command puts them into words. `pytest --assay` asks it about each test.
#include <fmt/format.h>

#include <filesystem>

#include "cli/activity_files.h"
#include "cli/arguments.h"
#include "cli/run_commands.h"
#include "cli/run_summary.h"

namespace assay::cli {

int events_command(std::vector<std::string> args) {
  Arguments arguments(
      "Shows the launches and findings of a program on the virtual GPU, from the file that ASSAY_REPORT "
      "named.",
      "assay events");
  std::string events, json;
  ActivityFiles files;
  bool no_launches = false;
  arguments.add("events", events, "the event file").required();
  arguments.add("--json FILE", json, "write launches and findings to this file");
  add_activity_files(arguments, files);
  arguments.add_flag("--no-launches", no_launches, "print only the findings");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (std::error_code error; !std::filesystem::is_regular_file(events, error)) {
    fmt::print(stderr, "assay: {}: there is no such file; name the file that ASSAY_REPORT named\n", events);
    return 2;
  }
  ActivityLog log;
  const RunSummary summary = read_summary(events, {}, files.empty() ? nullptr : &log);
  if (no_launches)
    print_findings(summary);
  else
    print_summary(summary);
  if (!json.empty())
    if (auto written = write_summary(summary, json); !written) {
      fmt::print(stderr, "assay: {}\n", written.error().text());
      return 2;
    }
  if (!files.empty() && !log.write(events, {}, files)) return 2;
  return summary.has_errors() ? 1 : 0;
}

}  // namespace assay::cli
