// Decoded code: what `ptx` says, made ready to run.
//
// Every register, constant and special register of a function is a *plane* in its frame: 32 lanes
// side by side (64 bytes of u16, 128 of u32, 256 of u64, 512 of b128). A predicate's plane is one
// u32 lane mask. Planes start at multiples of 64 bytes, so `offset / 64` numbers them.
// Constants and special registers are planes too, filled once, so a handler never asks what
// kind of operand it has. An Inst is one cache line and holds its handler: decode once, run often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ptx/module.h"

namespace assay::vgpu {

struct Warp;
struct Inst;

// Runs one instruction for the lanes of the warp's running fragment, and names the next one;
// null hands the warp back to the scheduler (it waits, yields, exited or faulted).
using Handler = const Inst* (*)(Warp& warp, const Inst& inst);

using PlaneOffset = uint32_t;
inline constexpr uint32_t kLanesPerPlane = 32;
inline constexpr uint32_t kAllLanesMask = 0xffffffff;

struct alignas(64) Inst {
  Handler run = nullptr;
  PlaneOffset dst = 0, a = 0, b = 0, c = 0;
  PlaneOffset guard = 0;    // a predicate plane; the constant "all lanes" where there is no guard
  uint32_t guard_flip = 0;  // xor-ed into the guard: ~0 for @!p
  uint32_t index = 0;       // position in Function::code
  uint32_t source = 0;      // index of the ptx::Instruction in its ptx::Function::body; ptx::kNone for joins
  int64_t imm = 0;
  const void* extra = nullptr;  // what the handler's family keeps besides (MemoryForm, BranchForm, …)
  // Where a schedule may change who runs (drift.cpp). Only first Insts of a PTX instruction have these.
  bool may_part = false;        // lanes of a warp may part before it: a memory access, a branch, a call
  bool may_interleave = false;  // and other warps may run first: an atomic, volatile or ordered access
};
static_assert(sizeof(Inst) == 64);

struct BasicBlock {
  uint32_t first = 0, last = 0;  // positions in Function::code, inclusive
  std::vector<uint32_t> successors, predecessors;
};

struct ConstantPlane {
  PlaneOffset offset;
  uint32_t lane_bytes;  // 2, 4, 8, 16; 0 for a predicate
  uint64_t bits;        // of every lane
  uint64_t high = 0;    // upper half of a 16-byte lane
};

struct SpecialPlane {
  PlaneOffset offset;
  ptx::SpecialRegister special;
  uint8_t component;
  uint32_t lane_bytes;
};

struct
    LocalSymbolPlane {  // address of a .local variable: the frame's place in local memory + `offset_in_frame`
  PlaneOffset offset;
  uint32_t lane_bytes;
  uint64_t offset_in_frame;
};

struct CompiledKernel;  // compiled.h

// A memory instruction and the parameter that its address comes from (provenance.h).
struct SiteOrigin {
  uint32_t site = 0;       // MemoryForm::site
  uint32_t source = 0;     // in ptx::Function::body
  uint32_t parameter = 0;  // bytes from the start of the kernel's parameters
};
struct KnownOrigins {
  std::vector<uint32_t> pointers;  // where in the parameters (in bytes) those are that point somewhere
  std::vector<SiteOrigin> sites;
};

struct Function {
  const ptx::Function* ptx = nullptr;
  uint32_t index = 0;      // in Program::functions
  std::vector<Inst> code;  // block order = text order; ends with a sentinel that faults
  std::vector<BasicBlock> blocks;
  uint32_t plane_bytes = 0;  // of one frame
  std::vector<ConstantPlane> constants;
  std::vector<SpecialPlane> specials;
  std::vector<LocalSymbolPlane> local_symbols;
  std::vector<PlaneOffset> register_planes;  // by ptx register index
  uint32_t local_bytes = 0;                  // .local variables, per thread
  uint32_t param_bytes = 0;      // callee parameters + returns + call-argument .param variables, per thread
  uint32_t shared_bytes = 0;     // static shared memory reachable from this entry (entries only)
  uint32_t parameter_bytes = 0;  // of a kernel's parameters (entries only)
  std::vector<uint32_t>
      parameter_offsets;                 // in a kernel's parameter block, or in a function's .param storage
  std::vector<uint32_t> return_offsets;  // of a function's return values, likewise
  bool uses_order_dependent_atomics =
      false;     // float or value-returning atomics on global memory: blocks stay on one thread
  struct Site {  // a memory instruction: MemoryForm::site, and where it is in the body
    uint32_t site, source;
  };
  std::vector<Site> sites;
  // Which parameters addresses come from (provenance.h), for the pointers of the latest launch.
  mutable KnownOrigins origins;
  std::string unsupported;  // the first instruction that cannot run, with its place; empty when there is none
  std::shared_ptr<CompiledKernel> compiled;  // entries only, once they have run (compiled.h)
};

}  // namespace assay::vgpu
