// Kernels that run as machine code: how the engine and the compiler (room `compiler`) meet.
//
// A kernel that has run for long enough is compiled, and the instructions at which its code can be entered get a
// handler that enters it. Compiled code runs a warp whose 32 lanes are all at the same place, and leaves wherever
// something comes up that it does not do itself: lanes part, a barrier, a call, a turn that is over. It leaves the
// planes as the interpreter would have, and names the instruction to go on with; so the scheduler, the schedules and
// the listeners do not notice. Nothing has to be compiled: without the library, everything is interpreted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vgpu/code.h"
#include "vgpu/planes.h"
#include "vgpu/program.h"

namespace assay::vgpu {

struct GridContext;
struct Dim3;

// How the threads of a block lie in its warps: decides what is known about %tid.
enum class BlockShape : uint8_t {
  Rows,  // the width is a multiple of 32: %tid.x counts the lanes, %tid.y and .z are the same for all of them
  HalfRows,  // it is 16: each half of a warp is a row
  Other,
};
inline constexpr size_t kBlockShapes = 3;
BlockShape shape_of_block(const Dim3& block);

// What compiled code asks of the engine.
struct CompiledRuntime {
  const Handler* interpreted;  // by Inst::index: the handlers of the kernel's instructions
  // Watched code: a store of all lanes, whose first and seventeenth addresses are these and whose values are in their
  // plane, is about to happen. Reports it; the bytes count as initialised.
  void (*note_store)(Warp& warp, const Inst& inst, Address first, Address second, uint32_t shape);
  void (*deliver)(const Warp& warp);  // deliver_pending_loads
  // Writes the lanes of a register of `bits` bits that the code keeps as one or two scalars.
  void (*spread)(void* plane, uint64_t first, uint64_t second, const int64_t* steps, uint32_t bits);
  // Of the launch that runs: somebody wants these accesses.
  bool reports_global = false, reports_shared = false;
};

// Runs from entry `entry` on. Returns what a Handler returns.
using CompiledCode = const Inst* (*)(Warp* warp, const Inst* code, uint32_t entry,
                                     const CompiledRuntime* runtime);

// What code relies on, of a register that it reads at an entry: its lanes are a known distance from lane 0, with `two`
// those from 16 on from lane 16. Watched code relies on values that are defined, too.
using LaneSteps = std::array<int64_t, kLanesPerPlane>;
struct EntryCheck {
  PlaneOffset plane = 0;
  uint8_t bits = 0;  // of a lane; 1: a predicate, all or none
  bool scalar = false, two = false;
  bool constant = false;  // lane 0 is always `value`
  uint64_t value = 0;
  uint32_t steps = 0;  // in CompiledObject::steps
};

struct CompileRequest {
  const Program* program = nullptr;
  const Function* function = nullptr;  // a kernel
  const Handler* interpreted = nullptr;
  // By body index of the kernel: what each instruction reads and writes.
  std::vector<Effects> effects{};
  uint64_t (*immediate)(const ptx::Operand& operand, ptx::Type type) = nullptr;  // bits as a lane holds them
  BlockShape shape = BlockShape::Other;
  bool watched = false;
  bool avx512 = false;
  std::string cache{};       // folder of code that was made before; empty: none
  bool only_cached = false;  // what is not there is not made
};

// An ELF object with one function, `compiled`, that refers to nothing outside itself; and where it can be entered.
struct CompiledObject {
  std::vector<std::byte> elf;
  std::vector<uint32_t> entries;                // by entry: Inst::index
  std::vector<std::vector<EntryCheck>> checks;  // by entry
  std::vector<LaneSteps> steps;
  std::string error;  // why there is no object
};

// What the library exports, as `assay_compile`.
using CompileFunction = void (*)(const CompileRequest& request, CompiledObject& object);

// Machine code in memory.
class LoadedCode {
 public:
  // Null: it is no object of ours.
  static std::unique_ptr<LoadedCode> load(std::span<const std::byte> elf);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;
  CompiledCode run() const { return run_; }

 private:
  LoadedCode() = default;
  void* pages_ = nullptr;
  size_t bytes_ = 0;
  CompiledCode run_ = nullptr;
};

struct CompiledVariant {
  std::unique_ptr<LoadedCode> code;
  std::vector<uint32_t> entry_of;               // by Inst::index: 1 + its entry; 0 where there is none
  std::vector<std::vector<EntryCheck>> checks;  // as CompiledObject has them
  std::vector<LaneSteps> steps;
  bool tried = false;
  bool looked_up = false;  // among code that was made before
};

struct CompiledKernel {
  std::vector<Handler> interpreted;  // by Inst::index
  CompiledRuntime runtime{};
  CompiledVariant variants[kBlockShapes];
  uint64_t executed = 0;  // warp instructions of its launches so far
};

// The interpreter's handler of an instruction, whether compiled code can be entered there or not.
inline Handler interpreted_handler(const Function& function, const Inst& inst) {
  return function.compiled ? function.compiled->interpreted[inst.index] : inst.run;
}

// Loads the compiler's library now rather than when a kernel is hot: for a process that will be confined by then, or
// whose system calls will be observed. Takes 4 ms, 14 with a shared libLLVM. False: there is none, and everything is interpreted.
bool load_compiler();

// Before a launch, and before each of its steps: compiles the kernel if that pays, and says which code the launch
// enters; null: none. Nothing of the program may be running. `executed`: warp instructions since the last call.
const CompiledVariant* choose_code(Program& program, const GridContext& grid, uint64_t executed);

}  // namespace assay::vgpu
