#include "subject/tensor_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/symbol.h"
#include "subject/device_code.h"

namespace assay::subject {

using ptx::Opcode;
using ptx::Type;

namespace {

bool multiplies_matrices(Opcode opcode) {
  constexpr Opcode kOpcodes[] = {
      Opcode::mma,
      Opcode::mma_sp,
      Opcode::mma_sp_ordered_metadata,
      Opcode::wmma_mma,
      Opcode::wgmma_mma_async,
      Opcode::wgmma_mma_async_sp,
      Opcode::tcgen05_mma,
      Opcode::tcgen05_mma_sp,
      Opcode::tcgen05_mma_ws,
      Opcode::tcgen05_mma_ws_sp,
  };
  return std::find(std::begin(kOpcodes), std::end(kOpcodes), opcode) != std::end(kOpcodes);
}

// The types as written: D A B C; without the inputs (D C) where they can be f16 only; none for tcgen05.
bool adds_inexactly(const ptx::Instruction& instruction) {
  if (!multiplies_matrices(instruction.opcode)) return false;
  const Type result = instruction.type(0);
  if (result == Type::None) return !instruction.has(ptx::Mod::kind_i8);
  return result == Type::F32 || result == Type::F16;
}

std::string use_text(const ptx::Instruction& instruction) {
  std::string opcode(ptx::name(instruction.opcode));
  const std::vector<Type>& types = instruction.types;
  if (types.empty()) return opcode;
  const Type f16 = Type::F16;
  const Type a = types.size() > 2 ? types[1] : f16, b = types.size() > 2 ? types[2] : f16;
  return fmt::format("{} ({} += {} × {})", opcode, ptx::name(types[0]), ptx::name(a), ptx::name(b));
}

// What a function does by itself, and which others it may lead to.
struct Code {
  std::string inexact;  // its first such instruction
  std::vector<std::string> named;
  bool calls_indirectly = false;  // … any function
};

void add_names(const ptx::Module& module, const ptx::Operand& operand, Code& code) {
  if (operand.symbol.kind == ptx::SymbolRef::Kind::Function)
    code.named.push_back(module.functions[operand.symbol.index].name);
  for (const ptx::Operand& element : operand.elements) add_names(module, element, code);
}

Code read(const ptx::Module& module, const ptx::Function& function) {
  Code code;
  for (const ptx::Instruction& instruction : function.body) {
    if (code.inexact.empty() && adds_inexactly(instruction)) code.inexact = use_text(instruction);
    for (const ptx::Operand& operand : instruction.operands) {
      add_names(module, operand, code);
      code.calls_indirectly |=
          instruction.opcode == Opcode::call && operand.kind == ptx::Operand::Kind::Register;
    }
  }
  if (function.alias_of != ptx::kNone) code.named.push_back(module.functions[function.alias_of].name);
  return code;
}

// The first inexact instruction that a kernel may come to.
std::string first_inexact(const std::map<std::string, Code>& functions, const std::string& kernel) {
  std::vector<std::string> open = {kernel};
  std::set<std::string> seen = {kernel};
  const auto visit = [&](const std::string& name) {
    if (seen.insert(name).second) open.push_back(name);
  };
  while (!open.empty()) {
    const auto found = functions.find(open.back());
    open.pop_back();
    if (found == functions.end()) continue;
    const Code& code = found->second;
    if (!code.inexact.empty()) return code.inexact;
    for (const std::string& name : code.named) visit(name);
    if (code.calls_indirectly)
      for (const auto& [name, other] : functions) visit(name);
  }
  return "";
}

}  // namespace

TensorCores::TensorCores(std::span<const ptx::Module> modules) : machine_code_(modules.empty()) {
  std::map<std::string, Code> functions;
  std::vector<std::string> entries;
  for (const ptx::Module& module : modules) {
    for (const ptx::Function& function : module.functions) {
      if (function.is_extern) continue;
      functions.try_emplace(function.name, read(module, function));
      if (function.is_entry) entries.push_back(function.name);
    }
  }
  for (const std::string& entry : entries) kernels_[entry] = first_inexact(functions, entry);
}

std::vector<std::string> TensorCores::reasons(const std::optional<std::set<std::string>>& launched) const {
  if (machine_code_) return {"the library holds machine code only, which may use them"};
  std::vector<std::string> reasons;
  const auto add = [&](const std::string& kernel, const std::string& use) {
    if (!use.empty()) reasons.push_back(fmt::format("kernel {} uses {}", short_name(kernel), use));
  };
  if (!launched) {
    for (const auto& [kernel, use] : kernels_) add(kernel, use);
    return reasons;
  }
  for (const std::string& kernel : *launched) {
    if (const auto found = kernels_.find(kernel); found != kernels_.end())
      add(kernel, found->second);
    else
      reasons.push_back(
          fmt::format("kernel {}, whose code could not be read, may use them", short_name(kernel)));
  }
  return reasons;
}

TensorCores tensor_cores_of(const Subject& subject, const std::string& arch) {
  std::vector<ptx::Module> modules;
  const auto texts = device_code(subject, arch);
  if (!texts || !subject.python.empty()) return TensorCores(modules);
  for (const std::string& text : *texts) {
    auto module = ptx::parse(text, "ptx");
    if (!module) return TensorCores(std::span<const ptx::Module>());
    modules.push_back(std::move(*module));
  }
  return TensorCores(modules);
}

}  // namespace assay::subject
