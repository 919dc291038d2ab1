// Shadow execution: where precision is lost.
//
// Every floating-point value carries the error it has gathered: its distance from what the same
// operations give in FP64, and how much of that entered at which source line. The program runs as it
// always does; the shadow watches each operation, computes it once more in FP64, and keeps the
// difference.
//
// Example:
//
//     Shadow shadow;
//     vgpu::Device device({.threads = 1, .instrumenter = &shadow});
//     // load a module, launch a kernel, and then:
//     shadow.take_output("dw", device.memory().host(address, bytes), bytes);
//     Profile profile = shadow.profile();
//
// How it works (docs/precision.md tells it to users):
//  - flow.h decides, from the PTX of a function, which bytes of which registers may carry a float that
//    a listener needs. Only those are followed.
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

#include "finding/profile.h"
#include "protocol/settings.h"
#include "vgpu/lowering.h"
#include "vgpu/watch.h"

namespace assay::shadow {

class Shadow final : public vgpu::Instrumenter, public vgpu::Listener {
 public:
  Shadow();
  ~Shadow() override;

  // Only so many lines are distinguished: these before others. Before anything runs.
  void separate_lines(std::span<const Where> lines);
  // Of the device; needed for copies and fills that a Streams announces.
  void watch(const vgpu::Memory& memory);

  // Takes stock of memory that will be read: its errors, by line.
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
  bool wants_accesses(ptx::Space) const override { return false; }
  void on_copy(const vgpu::OperationInfo&, const vgpu::RangeInfo& to, const vgpu::RangeInfo& from) override;
  void on_fill(const vgpu::OperationInfo&, const vgpu::RangeInfo& to) override;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::shadow
