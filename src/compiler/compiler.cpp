// libassay_compiler.so: machine code for a kernel of the virtual GPU, through LLVM.
#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compiler/code_cache.h"
#include "compiler/emit.h"

namespace assay::compiler {

namespace {

// Registers become values; what repeats or does not change in a loop is computed once. No pass may assume anything
// about floats: nothing here asks for that.
constexpr const char* kPasses =
    "function(mem2reg,instcombine,early-cse<memssa>,simplifycfg,loop-mssa(licm),gvn,adce)";

const char* processor(bool avx512) {
  return avx512 ? "x86-64-v4" : "x86-64-v3";
}

LLVMTargetMachineRef machine(bool avx512) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  char* triple = LLVMGetDefaultTargetTriple();
  LLVMTargetRef target = nullptr;
  char* error = nullptr;
  LLVMTargetMachineRef made = nullptr;
  if (LLVMGetTargetFromTriple(triple, &target, &error) == 0)
    made = LLVMCreateTargetMachine(target, triple, processor(avx512), "", LLVMCodeGenLevelDefault,
                                   LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMDisposeMessage(error);
  LLVMDisposeMessage(triple);
  return made;
}

std::string optimise(Ir& ir, LLVMTargetMachineRef target) {
  char* broken = nullptr;
  const bool bad = LLVMVerifyModule(ir.module, LLVMReturnStatusAction, &broken) != 0;
  std::string error = bad ? broken : "";
  LLVMDisposeMessage(broken);
  if (bad) return error;
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  if (LLVMErrorRef failed = LLVMRunPasses(ir.module, kPasses, target, options)) {
    char* text = LLVMGetErrorMessage(failed);
    error = text;
    LLVMDisposeErrorMessage(text);
  }
  LLVMDisposePassBuilderOptions(options);
  return error;
}

std::vector<std::byte> bytes_of(LLVMMemoryBufferRef memory) {
  const auto* first = reinterpret_cast<const std::byte*>(LLVMGetBufferStart(memory));
  std::vector<std::byte> bytes(first, first + LLVMGetBufferSize(memory));
  LLVMDisposeMemoryBuffer(memory);
  return bytes;
}

std::string key_of(const Ir& ir, bool avx512) {
  const std::vector<std::byte> module = bytes_of(LLVMWriteBitcodeToMemoryBuffer(ir.module));
  const std::string_view text(reinterpret_cast<const char*>(module.data()), module.size());
  return CodeCache::key_of(
      std::array<std::string_view, 4>{LLVM_VERSION_STRING, kPasses, processor(avx512), text});
}

void make_object(Ir& ir, LLVMTargetMachineRef target, vgpu::CompiledObject& object) {
  object.error = optimise(ir, target);
  if (const char* file = std::getenv("ASSAY_COMPILER_IR")) LLVMPrintModuleToFile(ir.module, file, nullptr);
  if (!object.error.empty()) return;
  LLVMMemoryBufferRef memory = nullptr;
  char* error = nullptr;
  if (LLVMTargetMachineEmitToMemoryBuffer(target, ir.module, LLVMObjectFile, &error, &memory) != 0) {
    object.error = error ? error : "no object";
    LLVMDisposeMessage(error);
    return;
  }
  object.elf = bytes_of(memory);
}

void compile(const vgpu::CompileRequest& request, vgpu::CompiledObject& object) {
  static LLVMTargetMachineRef const wide = machine(true), narrow = machine(false);
  LLVMTargetMachineRef target = request.avx512 ? wide : narrow;
  if (!target) {
    object.error = "LLVM has no target for this machine";
    return;
  }
  const Flow flow = flow_of(request);
  std::vector<bool> live_at_start(request.function->ptx->registers.size());
  for_each(flow.live[0], [&](uint32_t r) { live_at_start[r] = true; });
  const std::vector<Form> forms = forms_of(request, flow.operations, live_at_start);
  Ir ir("kernel");
  LLVMSetTarget(ir.module, "x86_64-unknown-linux-gnu");
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(target);
  LLVMSetModuleDataLayout(ir.module, layout);
  LLVMDisposeTargetData(layout);
  emit(ir, request, flow, forms, object);
  if (request.cache.empty()) return make_object(ir, target, object);
  CodeCache cache(request.cache);
  const std::string key = key_of(ir, request.avx512);
  object.elf = cache.read(key);
  if (!object.elf.empty() || request.only_cached) return;
  make_object(ir, target, object);
  cache.write(key, object.elf);
}

}  // namespace

}  // namespace assay::compiler

extern "C" __attribute__((visibility("default"))) void assay_compile(
    const assay::vgpu::CompileRequest& request, assay::vgpu::CompiledObject& object) {
  assay::compiler::compile(request, object);
}
