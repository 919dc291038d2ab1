// What assayd keeps on disk: alarms and captures. Files are the truth: an assayd that was killed finds its alarms again.
//
//   STATE/alarms/NAME.json          one for each alarm; delete the file and send SIGHUP to clear it
//   STATE/captures/NAME-N.assaycap
//
// A disk that is full or gone stops nothing: alarms wait in memory and are written when that is possible; captures are
// dropped. Both are counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "monitor/capture.h"

namespace assay::assayd {

class Store {
 public:
  // `most_captures`: that the folder may hold, of all kernels together; older ones are never deleted.
  Store(std::string folder, uint64_t most_captures)
      : folder_(std::move(folder)), most_captures_(most_captures) {}

  // Makes the folders, and reads the alarms that are there.
  Result<void> open();

  // The alarms, by name. raise() returns when the alarm is on the disk, or waits for it; false: there is one already.
  bool raise(const std::string& name, const nlohmann::json& alarm);
  bool is_raised(const std::string& name) const { return alarms_.contains(name); }
  const std::map<std::string, nlohmann::json>& alarms() const { return alarms_; }
  // Writes alarms that could not be written yet.
  void write_pending();
  uint64_t pending() const { return pending_.size(); }

  // The path of the capture; empty: it was not written. There are at most `most` of one name, in the folder: those that an
  // assayd before this one wrote count, too.
  std::string keep(const std::string& name, uint64_t most, const std::function<monitor::Capture()>& capture);

  uint64_t captures = 0, captures_dropped = 0, write_errors = 0;  // since this one started
  std::string last_error;

 private:
  bool write(const std::string& name, const nlohmann::json& alarm);

  struct Kept {
    uint64_t of_name = 0, all = 0;
  };
  Kept kept(const std::string& name) const;

  std::string folder_;
  uint64_t most_captures_;
  std::map<std::string, nlohmann::json> alarms_, pending_;
};

}  // namespace assay::assayd
