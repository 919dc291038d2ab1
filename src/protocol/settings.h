// What the runtime library is asked to do.
//
// `assay run` and the worker's parent pass all of it in one variable, ASSAY_SETTINGS. Everything has a
// default, so a program also runs with nothing but LD_LIBRARY_PATH set; a user who starts a program by hand
// may set the variables named below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpus.h"
#include "base/result.h"
#include "finding/where.h"
#include "protocol/checks.h"

namespace assay::protocol {

inline constexpr const char* kSettingsVariable = "ASSAY_SETTINGS";

// Which kernels run as machine code: those without checks that run long, none, or all from their first launch on.
enum class EngineChoice : uint8_t { Auto, Interpret, Compile };
std::optional<EngineChoice> engine_named(std::string_view name);  // auto, interpret, compile

struct Settings {
  uint64_t seed = 0;       // ASSAY_SEED: of the schedule
  uint64_t schedules = 0;  // ASSAY_SCHEDULES: others under which each launch is repeated and compared
  unsigned threads = 0;    // ASSAY_THREADS: of the engine; 0: one for each core
  EngineChoice engine = EngineChoice::Auto;  // ASSAY_ENGINE: auto, interpret or compile
  // ASSAY_CODE_CACHE: folder for machine code, which later runs use; empty: none is kept. A process that runs an
  // untrusted kernel has none: it could leave code there that runs in others.
  std::string code_cache;
  const Gpu* gpu = &kGpus[0];     // ASSAY_GPU: the GPU that the device presents itself as, by its id
  CheckSet checks;                // ASSAY_CHECK
  std::string events;             // ASSAY_REPORT: file to which events are appended, one JSON object per line
  uint64_t max_instructions = 0;  // ASSAY_MAX_INSTRUCTIONS: warp instructions of a launch; 0: no limit
  bool faults = false;            // ASSAY_FAULTS: a launch with an access error ends with that error
  bool quiet = false;             // ASSAY_QUIET: no messages on stderr
  bool record = false;            // what the program asks of the device is an event, and is not done
  bool report_launches = false;   // what a call of the worker asks of the device is an event, and is done
  // ASSAY_ACTIVITY, both: allocations, launches, copies and fills are events, with their times; and so is which bytes of
  // an allocation were never written or read.
  bool report_activity = false, count_bytes = false;
  bool report_code = false;         // the PTX of every module whose code is used is an event
  uint64_t stall_milliseconds = 0;  // for which every warp may poll before it is a deadlock; 0: the default
  // The precision check tells only so many lines apart: these before others.
  std::vector<Where> precision_lines;
  bool operator==(const Settings&) const = default;
};

std::string encode(const Settings& settings);
Result<Settings> decode_settings(std::string_view text);

// The value of a variable; null where it is not set.
using Environment = std::function<const char*(const char* name)>;
// ASSAY_SETTINGS where it is set, otherwise the variables of a user. An error names the variable.
Result<Settings> settings_from(const Environment& environment);

}  // namespace assay::protocol
