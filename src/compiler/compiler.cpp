// libassay_compiler.so: machine code for a kernel of the virtual GPU, through LLVM.
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compiler/emit.h"

namespace assay::compiler {

namespace {

// Registers become values; what repeats or does not change in a loop is computed once. No pass may assume anything
// about floats: nothing here asks for that.
constexpr const char* kPasses =
    "function(mem2reg,instcombine,early-cse<memssa>,simplifycfg,loop-mssa(licm),gvn,adce)";

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
    made = LLVMCreateTargetMachine(target, triple, avx512 ? "x86-64-v4" : "x86-64-v3", "",
                                   LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
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
  object.elf.resize(LLVMGetBufferSize(memory));
  std::memcpy(object.elf.data(), LLVMGetBufferStart(memory), object.elf.size());
  LLVMDisposeMemoryBuffer(memory);
}

}  // namespace

}  // namespace assay::compiler

extern "C" __attribute__((visibility("default"))) void assay_compile(
    const assay::vgpu::CompileRequest& request, assay::vgpu::CompiledObject& object) {
  assay::compiler::compile(request, object);
}
