// A loaded module: its PTX, its decoded functions for both builds of the engine, its variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "vgpu/code.h"
#include "vgpu/lowering.h"
#include "vgpu/memory.h"

namespace assay::vgpu {

// A `__shared__` array and where it begins in the memory of a block.
struct SharedVariable {
  const ptx::Variable* variable;
  uint64_t offset;
};

struct Program {
  std::string name;
  ptx::Module module;
  std::vector<Function> functions;  // by index in module.functions, decoded for `engine`
  std::vector<Address> variables;   // by index in module.variables: address, or offset in shared memory
  std::vector<std::vector<uint64_t>> function_variables;      // by function, by variable: offset in its space
  std::vector<std::vector<SharedVariable>> shared_variables;  // by kernel: those that it may reach
  uint32_t dynamic_shared_base = 0;  // where `extern .shared` arrays begin in every block of this program
  uint32_t memory_sites = 0;
  const Engine* engine = nullptr;
  bool instrumented = false;  // there are Insts of an Instrumenter among its own
  Arena arena;                // what the decoded instructions point to

  const Function* find(std::string_view kernel) const;
};

// Lays out a module's variables in `memory` and decodes its functions for `engine`. A function that
// uses something unsupported is still there, and says so (Function::unsupported). `instrumenter` may be null.
Result<std::unique_ptr<Program>> decode(ptx::Module module, std::string name, Memory& memory,
                                        const Engine& engine, Instrumenter* instrumenter = nullptr);

// Where an instruction comes from, through inlining: innermost first. Empty where the code has no line
// information.
struct SourceFrame {
  std::string file;
  uint32_t line = 0;
  std::string function;  // that the line belongs to, mangled
  bool operator==(const SourceFrame&) const = default;
};
std::vector<SourceFrame> frames_of(const Program& program, const Function& function, const Inst& inst);

// The line a person should look at: the innermost one, through inlining, that is not in a header of the
// toolkit. Line 0 where the code has no line information.
struct SourcePlace {
  std::string file;
  uint32_t line = 0;
};
SourcePlace place_of(const std::vector<SourceFrame>& frames);
SourcePlace place_of(const Program& program, const Function& function, const Inst& inst);

// "file.cu:14" (innermost first through inlining) of an instruction; its PTX line where it has no source.
std::string where(const Program& program, const Function& function, const Inst& inst);

}  // namespace assay::vgpu
