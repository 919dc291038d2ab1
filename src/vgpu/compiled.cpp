// When a kernel is compiled, and how its code is entered.
#include "vgpu/compiled.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "vgpu/access.h"
#include "vgpu/grid.h"
#include "vgpu/warp.h"

namespace assay::vgpu {

namespace {

// Compiling takes about a millisecond for each instruction of a kernel, two with checks; interpreting 3.5 ns for each
// that a warp executes, 8 with checks. A kernel is compiled when it has run for as long as that takes.
constexpr uint64_t kHotPerInstruction = 250'000;
// To see whether there is code from an earlier run takes a fiftieth of the time to make it.
constexpr uint64_t kWarmPerInstruction = kHotPerInstruction / 50;
// Larger kernels are left to the interpreter: the compiler's time grows faster than they do.
constexpr size_t kMostInstructions = 1200;

// The library stands beside the one that this code is in, or beside the programs in ../lib. Null: there is none.
CompileFunction compiler() {
  static const CompileFunction found = []() -> CompileFunction {
    Dl_info here{};
    if (dladdr(reinterpret_cast<void*>(&shape_of_block), &here) == 0 || !here.dli_fname) return nullptr;
    std::error_code none;
    const std::filesystem::path self = std::filesystem::canonical(here.dli_fname, none);
    if (none) return nullptr;
    for (const auto& folder : {self.parent_path(), self.parent_path().parent_path() / "lib"}) {
      const std::filesystem::path library = folder / "libassay_compiler.so";
      if (!std::filesystem::exists(library, none)) continue;
      if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))
        return reinterpret_cast<CompileFunction>(dlsym(handle, "assay_compile"));
    }
    return nullptr;
  }();
  return found;
}

// Whether all of these bits are set in a map of bytes; `bytes` is a power of two.
bool all_set(const uint8_t* map, uint64_t wanted, uint32_t bytes) {
  uint64_t all = ~uint64_t{0};
  for (uint32_t k = 0; k < bytes; k += 8) {
    uint64_t word = ~uint64_t{0};
    std::memcpy(&word, map + k, bytes < 8 ? bytes : 8);
    all &= word;
  }
  return (all & wanted) == wanted;
}

bool bytes_defined(const SiteRange& range, Address address, uint32_t bytes) {
  if (range.initialised == nullptr) return true;
  const uint64_t at = address - range.low;
  if (at % 8 == 0 && bytes >= 8) return all_set(range.initialised + at / 8, ~uint64_t{0}, bytes / 8);
  return all_initialised(range.initialised, at, bytes);
}

void set_bytes(Warp& w, const MemoryForm& form, Address at, uint32_t bytes) {
  if (form.space == ptx::Space::Shared) {
    std::memset(w.block->shared_initialised + at, 1, bytes);
    return;
  }
  const SiteRange& range = w.sites[form.site];
  if (!bytes_defined(range, at, bytes)) set_initialised(range.initialised, at - range.low, bytes, true);
}

void note_store(Warp& w, const Inst& inst, Address first, Address second, uint32_t shape_number) {
  const auto& form = *static_cast<const MemoryForm*>(inst.extra);
  const uint32_t half = form.bytes * kWarpSize / 2;
  // Halves that meet are one run.
  const Shape shape = second - first == half ? Shape::Unit : static_cast<Shape>(shape_number);
  const ptx::Space space = form.space == ptx::Space::Shared ? ptx::Space::Shared : ptx::Space::Global;
  if (!w.grid->listeners_of(space).empty()) {
    Address addresses[kWarpSize];
    const ShapedLoad place{&inst, first, second, form.bytes, shape};
    place.access(space, addresses);
    announce(w, inst, form, space, shape, kAllLanes, addresses, w.planes + form.planes[0]);
  }
  if (shape == Shape::Unit) {
    set_bytes(w, form, first, 2 * half);
  } else {
    set_bytes(w, form, first, half);
    set_bytes(w, form, second, half);
  }
}

template <class T>
void spread_lanes(void* plane, uint64_t first, uint64_t second, const int64_t* steps) {
  T* lane = static_cast<T*>(plane);
  constexpr uint32_t kHalf = kWarpSize / 2;
  for (uint32_t l = 0; l < kHalf; ++l) lane[l] = static_cast<T>(first + static_cast<uint64_t>(steps[l]));
  for (uint32_t l = kHalf; l < kWarpSize; ++l)
    lane[l] = static_cast<T>(second + static_cast<uint64_t>(steps[l]));
}

void spread(void* plane, uint64_t first, uint64_t second, const int64_t* steps, uint32_t bits) {
  const auto make = bits == 16   ? spread_lanes<uint16_t>
                    : bits == 32 ? spread_lanes<uint32_t>
                                 : spread_lanes<uint64_t>;
  make(plane, first, second, steps);
}

template <class T>
bool has_steps(const Warp& w, const EntryCheck& check, const LaneSteps& steps) {
  const T* lane = reinterpret_cast<const T*>(w.planes + check.plane);
  constexpr uint32_t kHalf = kWarpSize / 2;
  const T first = lane[0], second = check.two ? lane[kHalf] : first;
  T wrong = check.constant ? static_cast<T>(first ^ static_cast<T>(check.value)) : T{0};
  for (uint32_t l = 0; l < kHalf; ++l) wrong |= lane[l] ^ static_cast<T>(first + static_cast<T>(steps[l]));
  for (uint32_t l = kHalf; l < kWarpSize; ++l)
    wrong |= lane[l] ^ static_cast<T>(second + static_cast<T>(steps[l]));
  return wrong == 0;
}

bool agrees(const Warp& w, const EntryCheck& check, const std::vector<LaneSteps>& steps) {
  switch (check.bits) {
    case 1: {
      const auto mask = *reinterpret_cast<const uint32_t*>(w.planes + check.plane);
      return mask == 0 || mask == kAllLanes;
    }
    case 16:
      return has_steps<uint16_t>(w, check, steps[check.steps]);
    case 32:
      return has_steps<uint32_t>(w, check, steps[check.steps]);
    default:
      return has_steps<uint64_t>(w, check, steps[check.steps]);
  }
}

// Code that is left at a barrier writes of a register only the lanes that it will read again: makes the others.
void complete_lanes(const Warp& w, const CompiledVariant& variant, uint32_t entry) {
  for (const EntryCheck& check : variant.checks[entry]) {
    if (!check.scalar || check.bits == 1) continue;
    const auto at = [&](uint32_t lane) {
      uint64_t value = 0;
      std::memcpy(&value, w.planes + check.plane + lane * check.bits / 8, check.bits / 8);
      return value;
    };
    const uint64_t first = at(0);
    spread(w.planes + check.plane, first, check.two ? at(kWarpSize / 2) : first,
           variant.steps[check.steps].data(), check.bits);
  }
}

// Whether registers are what the code relies on.
bool may_enter(const Warp& w, const CompiledVariant& variant, uint32_t entry) {
  uint32_t undefined = 0;
  for (const EntryCheck& check : variant.checks[entry]) {
    if (w.poison) undefined |= w.poison[check.plane / 64];
    if (check.scalar && !agrees(w, check, variant.steps)) return false;
  }
  return undefined == 0;
}

// The handler of the instructions where compiled code can be entered.
const Inst* enter_compiled(Warp& w, const Inst& inst) {
  const Function& function = *w.frame->function;
  const CompiledKernel& kernel = *function.compiled;
  const CompiledVariant* variant = w.grid->compiled;
  const bool trusted = w.left_at == &inst - 1;
  w.left_at = nullptr;
  const uint32_t entry = variant ? variant->entry_of[inst.index] : 0;
  const bool together = w.active == kAllLanes && w.others.empty() && !w.unsteady && !w.excused;
  if (trusted && !together) complete_lanes(w, *variant, entry - 1);
  if (variant != nullptr && together) {
    // Left at the barrier before, the code knows its registers: they are what they were, and all defined.
    if (entry != 0 && (trusted || may_enter(w, *variant, entry - 1))) {
      const Inst* next = variant->code->run()(&w, function.code.data(), entry - 1, &kernel.runtime);
      // Left where it was entered: the interpreter executes this instruction; otherwise the warp would make no progress.
      if (next != &inst) return next;
    }
  }
  return kernel.interpreted[inst.index](w, inst);
}

std::shared_ptr<CompiledKernel> make_kernel(const Function& function) {
  auto kernel = std::make_shared<CompiledKernel>();
  for (const Inst& inst : function.code) kernel->interpreted.push_back(inst.run);
  kernel->runtime = {.interpreted = kernel->interpreted.data(),
                     .note_store = note_store,
                     .deliver = deliver_pending_loads,
                     .spread = spread};
  return kernel;
}

// `only_cached`: code that was made before, or none.
void compile(Program& program, Function& function, const GridContext& grid, BlockShape shape,
             bool only_cached) {
  CompiledKernel& kernel = *function.compiled;
  CompiledVariant& variant = kernel.variants[static_cast<size_t>(shape)];
  variant.looked_up = true;
  if (!only_cached) variant.tried = true;
  const CompileFunction compile_now = compiler();
  if (!compile_now) return;
  CompiledObject object;
  CompileRequest request{.program = &program,
                         .function = &function,
                         .interpreted = kernel.interpreted.data(),
                         .immediate = immediate_bits,
                         .shape = shape,
                         .watched = grid.watched,
                         .avx512 = uses_avx512(),
                         .cache = grid.options->code_cache,
                         .only_cached = only_cached};
  for (const ptx::Instruction& inst : function.ptx->body) request.effects.push_back(effects_of(inst));
  compile_now(request, object);
  std::unique_ptr<LoadedCode> code = LoadedCode::load(object.elf);
  if (!code) return;
  variant.entry_of.assign(function.code.size(), 0);
  for (uint32_t e = 0; e < object.entries.size(); ++e) {
    variant.entry_of[object.entries[e]] = e + 1;
    function.code[object.entries[e]].run = enter_compiled;
  }
  variant.checks = std::move(object.checks);
  variant.steps = std::move(object.steps);
  variant.code = std::move(code);
  variant.tried = true;
}

}  // namespace

bool load_compiler() {
  return compiler() != nullptr;
}

Compiling default_compiling() {
  static const Compiling wanted = [] {
    const char* text = std::getenv("ASSAY_ENGINE");
    const std::string_view name = text ? text : "";
    return name == "interpret" ? Compiling::Never
           : name == "compile" ? Compiling::Always
                               : Compiling::WhenHot;
  }();
  return wanted;
}

BlockShape shape_of_block(const Dim3& block) {
  return block.x % kWarpSize == 0   ? BlockShape::Rows
         : block.x == kWarpSize / 2 ? BlockShape::HalfRows
                                    : BlockShape::Other;
}

const CompiledVariant* choose_code(Program& program, const GridContext& grid, uint64_t executed) {
  Function& function = program.functions[grid.entry->index];
  const Compiling compiling = grid.options->compiling;
  if (compiling == Compiling::Never || program.instrumented || function.code.size() > kMostInstructions)
    return nullptr;
  if (!function.compiled) function.compiled = make_kernel(function);
  CompiledKernel& kernel = *function.compiled;
  kernel.executed += executed;
  kernel.runtime.reports_global = !grid.listeners_of(ptx::Space::Global).empty();
  kernel.runtime.reports_shared = !grid.listeners_of(ptx::Space::Shared).empty();
  const BlockShape shape = shape_of_block(grid.info.config.block);
  CompiledVariant& variant = kernel.variants[static_cast<size_t>(shape)];
  // A sampled launch has so many seconds of the processor, in which it should run blocks.
  const auto has_run = [&](uint64_t per_instruction) {
    return compiling == Compiling::Always ||
           (kernel.executed > per_instruction * function.code.size() && !grid.info.config.sampled);
  };
  if (!variant.tried && has_run(kHotPerInstruction))
    compile(program, function, grid, shape, false);
  else if (!variant.looked_up && !grid.options->code_cache.empty() && has_run(kWarmPerInstruction))
    compile(program, function, grid, shape, true);
  return variant.code ? &variant : nullptr;
}

}  // namespace assay::vgpu
