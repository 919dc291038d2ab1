// A finding: a proven or measured defect, with its evidence.
//
// Example:
//
//     Finding finding{.kind = Kind::Misaligned, .evidence = evidence::Access{.bytes = 16}};
//     std::string text = message(finding);                            // message.h: rendered last
//     std::string line = to_json(finding).dump();                     // json.h
//
// This room is the only owner of kinds (kinds.def), evidence (evidence.h), their JSON form (json.h) and the
// words that readers see (message.h). The device's checks fill in evidence; the judge attributes it to a
// cause and names it; reports render it. Nothing in between reads or edits English.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "finding/evidence.h"
#include "finding/kind.h"

namespace assay {

struct Finding;

// What running the failing trial again, with one condition changed, has shown. The table of message.cpp says
// it in words.
enum class Cause : uint8_t {
  None,
  Overlap,           // correct alone, wrong while another call runs
  SharedByCalls,     // two calls that overlap use the same memory
  Clock,             // differs with the device's clock
  Addresses,         // differs with the addresses of its buffers
  Chance,            // differs from run to run
  Varies,            // differs between runs, it is not known by what
  SeenOnce,          // wrong once, and correct when repeated
  EarlierCalls,      // correct in a new process, wrong after earlier calls
  RelatedCall,       // … after the related call
  FirstCall,         // wrong in a new process, correct after the same call
  LaterConsequence,  // nothing is wrong in a new process; shows in a later call
  EndsOnlyFirst,     // ends in a new process, not after earlier calls
  HostMemory,        // correct when malloc returns zeros
  DeviceMemory,      // correct when outputs and workspace hold zeros
  UnorderedWork,     // the caller's stream does not order the work
  HeldStream,        // correct when the device is idle before and after the call
};

// Why a failure is named as it is, beyond what was seen at first.
struct Attribution {
  Cause cause = Cause::None;
  std::string difference;             // between runs: "y[3] is first 1.5, then 2"
  std::optional<Kind> symptom;        // the kind that was seen first
  std::vector<Finding> consequences;  // what else was seen because of it
  std::vector<Where> also;            // other lines with the same kind of finding
  std::string related;       // the change to the inputs that shows it: "the slices along T in another order"
  std::string relation;      // … by its name: "permuted"
  std::string surroundings;  // "correct on NVIDIA H200, wrong on …"
  bool out_of_time = false;  // there was no time to look for a cause
};

// The case that shows a finding.
struct FoundCase {
  std::string found_with;      // the trial in words
  std::string smallest;        // the smallest trial that shows it
  std::string smallest_shows;  // what that one shows, where it shows only a part
  std::string trial;           // the smallest trial encoded as JSON (trial/trial.h), for `assay replay`
  int trials = 1;              // in which it was seen
  std::vector<std::string>
      devices;          // that showed it: "virtual", "cuda"; empty: the virtual one, with no other beside it
  std::string witness;  // what another tool said of it: "compute-sanitizer memcheck: Invalid …"
  std::string other_shows;  // what the second of them shows of it
};

struct Finding {
  Kind kind = Kind::WrongResult;
  Severity severity = Severity::Error;
  Where where{};
  Evidence evidence{};
  uint64_t count = 1;         // occurrences
  Attribution attribution{};  // by the judge
  FoundCase found{};          // by the check
  std::string reproduce{};    // the command that shows it again
};

// The kernel that a finding is about; empty: none.
const std::string& kernel_of(const Finding& finding);
// The code that it is about; null: none is known.
evidence::CodePlace* code_of(Finding& finding);
const evidence::CodePlace* code_of(const Finding& finding);
// The output that it is about; empty: none.
std::string output_of(const Finding& finding);
// The other line of a race, where it has one that is not the finding's own; line 0: none.
Where other_place(const Finding& finding);
// The host code that it names; null: its evidence has no place for that.
evidence::HostPlace* host_of(Finding& finding);
const evidence::HostPlace* host_of(const Finding& finding);
// The frame of a Python stack that is the program's own: the innermost outside of torch, Triton and Assay; null: none.
const Frame* own_frame(const evidence::HostPlace& place);
// The allocation of device memory that it is about; null: none.
evidence::Allocation* allocation_of(Finding& finding);
const evidence::Allocation* allocation_of(const Finding& finding);
// Calls `use` with every place in source code that a finding holds.
void for_each_place(Finding& finding, const std::function<void(Where&)>& use);
void for_each_place(Profile& profile, const std::function<void(Where&)>& use);

bool has_error(const std::vector<Finding>& findings);

// "kernel softmax, block (0,0,0), thread (5,0,0)"; empty where that is not known.
std::string thread_text(const Finding& finding);
// The functions through which the code was inlined: a line for the finding's place and, of a race, one for
// the other access.
std::vector<std::string> chain_lines(const Finding& finding);
// Whether Python code launched the kernel that it is about.
bool is_launched_by_python(const Finding& finding);
// "launched at train.py:31 in step, called at train.py:40", "allocated at train.py:12": what host code had to do with
// it, as far as that is known.
std::vector<std::string> origin_lines(const Finding& finding);

}  // namespace assay
