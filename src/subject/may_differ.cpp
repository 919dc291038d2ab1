#include "subject/may_differ.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptx/module.h"
#include "subject/device_code.h"

namespace assay::subject {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

bool is_float(Type type) {
  constexpr Type kFloats[] = {Type::F16, Type::F16x2, Type::F32, Type::F64, Type::BF16, Type::BF16x2};
  return std::find(std::begin(kFloats), std::end(kFloats), type) != std::end(kFloats);
}

bool is_rounded_explicitly(const Instruction& instruction) {
  return instruction.has(Mod::rn) || instruction.has(Mod::rz) || instruction.has(Mod::rm) ||
         instruction.has(Mod::rp);
}

// The registers that products which may be fused go to.
std::set<uint32_t> products_of(const ptx::Function& function) {
  std::set<uint32_t> products;
  for (const Instruction& instruction : function.body)
    if (instruction.opcode == Opcode::mul && is_float(instruction.type()) &&
        !is_rounded_explicitly(instruction) && !instruction.operands.empty())
      products.insert(instruction.operands[0].index);
  return products;
}

std::string reason(const Instruction& instruction, const std::set<uint32_t>& products) {
  const std::string name = fmt::format("{}.{}", ptx::name(instruction.opcode), ptx::name(instruction.type()));
  const bool floats = is_float(instruction.type());
  switch (instruction.opcode) {
    case Opcode::add:
    case Opcode::sub:
      if (!floats || is_rounded_explicitly(instruction)) return "";
      for (std::size_t i = 1; i < instruction.operands.size(); ++i)
        if (instruction.operands[i].kind == Operand::Kind::Register &&
            products.contains(instruction.operands[i].index))
          return fmt::format(
              "{} of a product that is not explicitly rounded: the GPU's compiler may fuse them", name);
      return "";
    case Opcode::atom:
    case Opcode::red:
      return floats ? fmt::format("{}: the order of atomic additions", name) : "";
    case Opcode::mma:
    case Opcode::wmma_mma:
    case Opcode::wgmma_mma_async:
      return fmt::format("{}: sums in tensor cores", name);
    default:
      return instruction.has(Mod::approx) ? fmt::format("{}: an approximate function", name) : "";
  }
}

}  // namespace

std::vector<MayDiffer> instructions_that_may_differ(const Subject& subject, const std::string& arch) {
  std::vector<MayDiffer> found;
  const auto texts = device_code(subject, arch);
  if (!texts) return found;
  for (const std::string& text : *texts) {
    const auto module = ptx::parse(text, "ptx");
    if (!module) continue;
    for (const ptx::Function& function : module->functions) {
      const std::set<uint32_t> products = products_of(function);
      for (const Instruction& instruction : function.body) {
        MayDiffer one{reason(instruction, products), place_of(*module, instruction)};
        const auto same = [&](const MayDiffer& other) {
          return other.what == one.what && other.where == one.where;
        };
        if (!one.what.empty() && std::none_of(found.begin(), found.end(), same))
          found.push_back(std::move(one));
      }
    }
  }
  return found;
}

}  // namespace assay::subject
