// The files that `assay run` and `assay events` write about a program's memory and streams over time.
#pragma once

#include <string>
#include <vector>

#include "activity/activity.h"
#include "cli/suppressions.h"
#include "protocol/event.h"
#include "subject/places.h"

namespace assay::cli {

class Arguments;

struct ActivityFiles {
  std::string memory, trace, html;  // paths; empty: not wanted
  bool empty() const { return memory.empty() && trace.empty() && html.empty(); }
};
void add_activity_files(Arguments& arguments, ActivityFiles& files);

// The events of a program, and the files about them.
class ActivityLog {
 public:
  void add(const protocol::Event& event) { recorder_.add(event); }
  void expect(uint64_t log_bytes) { recorder_.expect(log_bytes); }
  // Host code as source lines, shared with the code that names findings, which knows the modules.
  subject::Places& places() { return places_; }
  // Looks up the calls of all events so far.
  void look_up();
  // False: a file could not be written, which was said on stderr. Once.
  bool write(const std::string& program, const std::vector<Suppression>& suppressions,
             const ActivityFiles& files);

 private:
  activity::Recorder recorder_;
  subject::Places places_;
};

}  // namespace assay::cli
