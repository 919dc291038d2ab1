// The events of a worker's device: read from its pipe as they arrive, decoded, and kept until the call has
// ended.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/event.h"
#include "protocol/lines.h"

namespace assay::subject {

class EventPipe {
 public:
  EventPipe() = default;
  ~EventPipe() { close(); }
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  // `descriptor`: the read end of the pipe, from now on this object's.
  void open(int descriptor);
  // Forgets everything.
  void close();

  // The descriptor to wait for; -1: nothing more will come.
  int waiting_for() const { return ended_ ? -1 : descriptor_; }
  // Takes what the pipe holds, so that the runtime never waits for room in it.
  void read();
  // Whether an error has been reported since this was last asked.
  bool take_error();
  // The worker's end is closed.
  bool has_ended() const { return ended_; }
  // Something that is no event came: the runtime writes nothing else, so the subject wrote it.
  bool is_forged() const { return forged_; }

  // Since they were last taken. Of very many events, only the first are kept.
  std::vector<protocol::Event> take_events();
  // What calls asked of the device; `left_out`: whether some of it was not kept.
  std::vector<protocol::Event> take_recorded(bool& left_out);
  std::set<std::string> take_kernels();  // symbols of kernels that were launched
  std::optional<protocol::LaunchEvent> take_last_launch();
  std::vector<std::string> take_code();  // PTX that was loaded

 private:
  void add(const std::string& line);

  int descriptor_ = -1;
  protocol::LineBuffer bytes_;
  std::vector<protocol::Event> events_, recorded_;
  std::set<std::string> kernels_;
  std::optional<protocol::LaunchEvent> last_launch_;
  std::vector<std::string> code_;
  bool saw_error_ = false, left_out_ = false, ended_ = false, forged_ = false;
};

}  // namespace assay::subject
