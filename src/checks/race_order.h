// The order of operations: which kernels, copies and fills come before which.
//
// Operations form chains (a stream is one); an operation knows, for every chain, up to where what happened
// comes before it. The blocks of all operations are numbered through, so that a number in the shadow tells
// the operation: a copy has one number, a grid one for each block.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "vgpu/device.h"

namespace assay::checks {

struct Operation {
  uint64_t id = 0;  // of vgpu::OperationInfo; 0: a launch without streams
  uint64_t stream = 0;
  vgpu::OperationInfo::Kind kind{};
  uint32_t first = 0,
           last =
               0;  // numbers of its blocks (and of their copies: race_cluster.h); 0: it has touched nothing
  uint32_t chain = 0, place = 0;
  std::vector<uint32_t> known;  // by chain: places up to this one come before
  // A grid that may start early: the same for its threads that have not waited for the grid before it. Empty: it may not.
  std::vector<uint32_t> known_early;
  std::string kernel;   // grids
  uint64_t origin = 0;  // … what launched it
  vgpu::Dim3 grid, block;

  // Of the host's own accesses, which are an operation to themselves:
  bool by_host = false, host_writes = false;
  uint64_t submitted = 0;  // the last operation that the host had asked for by then; later ones come after
  std::string host_place, host_call;  // as HostAccess has them: in the host's code, or a system call

  // Of a grid, as it runs:
  mutable bool ended = false;
  mutable bool syncs_with_host = false;  // through memory, in a way that orders what it does
  mutable bool waits = false;            // some thread has waited for the grid before it
};

class OperationOrder {
 public:
  Operation& begin(const vgpu::OperationInfo& info);
  // A launch outside of any stream: comes after everything.
  Operation& begin_alone();
  // Accesses of the host, which knows (by chain) what has been done and has asked for operations up to
  // `submitted`.
  Operation& begin_by_host(std::vector<uint32_t> known, uint64_t submitted);
  // Gives numbers to an operation. False: they have run out, and begin again.
  bool number(Operation& operation, uint64_t count);
  Operation* find(uint64_t id);
  // The operation that a number belongs to; null when it is forgotten.
  const Operation* of_block(uint32_t number) const;
  // `waited`: whether the thread of `b` that asks has waited for the grid that its own may overlap.
  bool is_before(const Operation& a, const Operation& b, bool waited = true) const;
  bool is_before(uint32_t number, const Operation& b, bool waited = true) const;
  // All numbers below come before `b`.
  uint32_t ordered_below(const Operation& b) const;

 private:
  std::unordered_map<uint64_t, Operation> operations_;
  std::map<uint32_t, const Operation*> by_number_;  // by the last number of each
  std::vector<uint32_t> tails_;                     // by chain: the place of its last operation
  uint32_t next_number_ = 1;
  uint64_t alone_ = uint64_t{1} << 63;
  uint64_t by_host_ = uint64_t{1} << 62;

  Operation& place_in_chain(Operation operation, std::vector<uint32_t> preferred);
};

}  // namespace assay::checks
