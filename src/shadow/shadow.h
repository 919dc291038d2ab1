// Shadow execution: where precision is lost.
//
// Every floating-point value carries the error it has gathered: its distance from what the same
// operations give in FP64, and how much of that entered at which source line. The program runs as it
// always does; the shadow watches each operation, computes it once more in FP64, and keeps the
// difference.
//
//     Shadow shadow;
//     Device device({.threads = 1, .instrumenter = &shadow});
//     ... load, launch ...
//     shadow.take_output("dw", device.memory().host(address, bytes), bytes);
//     Profile profile = shadow.profile();
//
// How it works (docs/precision.md tells it to users):
//  - flow.h decides, from the PTX of a function, which bytes of which registers may carry a float that
//    somebody needs. Only those are followed.
//  - instrument.cpp puts an Inst of ours before (rarely after) each instruction that touches one. It runs
//    the instruction itself and accounts for it (lanes/*.cpp).
//  - errors.h is the account: the whole error and its parts by line ("slots").
//  - cells.h keeps the accounts of what lies in memory, with the bits they belong to.
//
// One thread runs everything: a Device with a Shadow must have one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "protocol/settings.h"
#include "vgpu/lowering.h"
#include "vgpu/watch.h"

namespace assay::shadow {

struct LineProfile {
  std::string file;
  int line = 0;
  std::string operation;      // the instruction there that introduced most: "add.bf16"
  double share = 0;           // of the outputs' error, over all outputs
  double introduced = 0;      // root mean square of the relative errors that entered here
  double introduced_max = 0;  // the largest of them
  double inherited = 0;       // largest relative error of an operand
  double amplification = 0;   // largest factor by which an operand's relative error grew
  uint64_t executions = 0;    // by threads
  double cancelled_bits = 0;  // most leading bits that cancelled in an addition
  double cancelled_bits_mean = 0;
  double cancelled_from = 0;   // largest operand of additions where several bits cancelled
  uint64_t stagnated = 0;      // additions of something that left the sum as it was
  uint64_t overflowed = 0;     // finite operands, result not finite
  uint64_t flushed = 0;        // became zero and should not
  bool pooled = false;         // not told apart from other lines: it has no share of its own
  bool rounds_result = false;  // what enters here is the rounding of a result to its own type
};

struct LineShare {
  std::string file;
  int line = 0;
  double share = 0;
};

struct OutputProfile {
  std::string name;
  double error = 0;              // largest absolute error of an element
  double relative = 0;           // largest relative one, before the rounding of the result to its own type
  uint64_t elements = 0;         // that have an error
  uint64_t broken = 0;           // that are not finite, and should be
  double others = 0;             // share of the lines that were not told apart
  LineShare rounded_at;          // the line that rounds the elements to their own type; line 0: none does
  std::vector<LineShare> lines;  // largest share first; with `others` they sum to one
};

struct Decision {  // value and shadow disagree
  std::string file;
  int line = 0;
  std::string what;
  uint64_t count = 0;
};

struct Retaken {  // an error that could not be followed was forgotten here
  std::string file;
  int line = 0;
  std::string operation;
  uint64_t count = 0;
};

struct Profile {
  std::vector<LineProfile> lines;  // largest share first, then by what they introduced
  std::vector<OutputProfile> outputs;
  std::vector<Decision> decisions;
  std::vector<Retaken> retaken;
};

Json to_json(const Profile& profile);
// Why a line loses what it loses, in a sentence without the place: "adding … no longer changes the sum".
std::string reason(const LineProfile& line);
std::string reason(const Json& line);  // the same for an entry of to_json(...)["lines"]

class Shadow final : public vgpu::Instrumenter, public vgpu::Listener {
 public:
  Shadow();
  ~Shadow() override;

  // Only so many lines are told apart: these before others. Before anything runs.
  void tell_apart(std::span<const Where> lines);
  // Of the device; needed for copies and fills that a Streams announces.
  void watch(const vgpu::Memory& memory);

  // Takes stock of memory that somebody will read: its errors, by line.
  void take_output(std::string name, const std::byte* host, uint64_t bytes);
  // The error (value less shadow) of the element whose bytes end before `host` + `size`; 0 where there is
  // none.
  double error_at(const std::byte* host, uint32_t size) const;
  Profile profile() const;
  // Forgets outputs and counts, not the code and not what memory carries.
  void forget();

  // Instrumenter
  void begin(vgpu::Lowering& lowering) override;
  void before(vgpu::Lowering& lowering) override;
  void after(vgpu::Lowering& lowering) override;
  // Listener: memory that the host changes carries no errors; what it copies out is an output.
  bool hears_accesses(ptx::Space) const override { return false; }
  void on_copy(const vgpu::OperationInfo&, const vgpu::RangeInfo& to, const vgpu::RangeInfo& from) override;
  void on_fill(const vgpu::OperationInfo&, const vgpu::RangeInfo& to) override;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::shadow
