// The constants that PTX compares with what follows from kernel parameters and launch dimensions alone: the
// sizes of a call. What follows from the thread's own place, or from memory, is an index or data.
#include <algorithm>
#include <set>

#include "lint/constants.h"
#include "lint/flow.h"

namespace assay::lint {

namespace {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::SpecialRegister;

constexpr std::size_t kMostSteps = 200;  // of a walk back to where a value comes from

bool is_integer(ptx::Type type) {
  const ptx::TypeKind kind = ptx::kind_of(type);
  return (kind == ptx::TypeKind::Bits || kind == ptx::TypeKind::Unsigned || kind == ptx::TypeKind::Signed) &&
         ptx::bits_of(type) >= 16 && ptx::bits_of(type) <= 64;
}

class Reader {
 public:
  Reader(const ptx::Function& function, SizeConstants& found) : flow_(function), found_(found) {}

  void run() {
    for (Index i = 0; i < flow_.size(); ++i) {
      const Instruction& instruction = flow_.at(i);
      const bool compares = instruction.opcode == Opcode::setp || instruction.opcode == Opcode::set;
      if (!compares || !is_integer(instruction.types.empty() ? ptx::Type::None : instruction.types.back()) ||
          instruction.operands.size() < 3)
        continue;
      compare(i, instruction.operands[1], instruction.operands[2]);
      compare(i, instruction.operands[2], instruction.operands[1]);
    }
  }

 private:
  void compare(Index i, const Operand& value, const Operand& with) {
    const auto constant = flow_.constant(i, with);
    if (!constant || value.kind != Operand::Kind::Register) return;
    const auto limit = static_cast<int64_t>(*constant);
    const auto definition = flow_.source(i, value);
    if (definition && add_residue(*definition, limit)) return;
    if (limit < 2) return;
    const bool size = is_size(i, value);
    add(size ? found_.compared : found_.mentioned, limit);
    if (size && definition) add_scaled(*definition, limit);
  }

  // n % 96 == 32, also as compilers write it: n - (n / 96) * 96.
  bool add_residue(Index i, int64_t remainder) {
    const Instruction& instruction = flow_.at(i);
    const auto& operands = instruction.operands;
    int64_t modulus = 0;
    if (operands.size() == 3 && instruction.opcode == Opcode::rem) {
      modulus = static_cast<int64_t>(flow_.constant(i, operands[2]).value_or(0));
    } else if (operands.size() == 3 && instruction.opcode == Opcode::and_) {
      const auto mask = static_cast<int64_t>(flow_.constant(i, operands[2]).value_or(0));
      if (mask > 0 && (mask & (mask + 1)) == 0) modulus = mask + 1;
    } else if (operands.size() == 3 && instruction.opcode == Opcode::sub) {
      const auto product = flow_.source(i, operands[2]);
      if (product && flow_.at(*product).opcode == Opcode::mul)
        modulus = static_cast<int64_t>(flow_.constant(*product, flow_.at(*product).operands[2]).value_or(0));
    }
    if (modulus < 2 || remainder < 0 || remainder >= modulus || !is_size(i, operands[1])) return false;
    const Residue residue{modulus, remainder};
    auto& list = found_.residues;
    if (std::find(list.begin(), list.end(), residue) == list.end()) list.push_back(residue);
    return true;
  }

  // n >> 2 > 1024: where n is beyond 4096.
  void add_scaled(Index i, int64_t limit) {
    const Instruction& instruction = flow_.at(i);
    if (instruction.operands.size() != 3) return;
    const int64_t by = static_cast<int64_t>(flow_.constant(i, instruction.operands[2]).value_or(0));
    if (by <= 0 || limit > INT64_MAX >> 20) return;
    if (instruction.opcode == Opcode::shr && by < 20) add(found_.compared, limit << by);
    if (instruction.opcode == Opcode::div && by < 1 << 20) add(found_.compared, limit * by);
  }

  // Whether a value follows from parameters, launch dimensions and constants alone.
  bool is_size(Index i, const Operand& value) const {
    if (value.kind != Operand::Kind::Register) return false;
    bool sized = false;
    std::set<Index> seen;
    std::vector<Index> open = flow_.reaching(i, value.index);
    while (!open.empty()) {
      const Index at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      if (seen.size() > kMostSteps) return false;
      const Instruction& instruction = flow_.at(at);
      if (instruction.opcode == Opcode::ld && !instruction.has(ptx::Mod::param)) return false;
      if (instruction.opcode == Opcode::atom || instruction.opcode == Opcode::shfl_sync) return false;
      sized |= instruction.opcode == Opcode::ld;
      for (const Operand& operand : instruction.operands) {
        if (operand.kind != Operand::Kind::Special) continue;
        if (operand.special != SpecialRegister::Ntid && operand.special != SpecialRegister::Nctaid)
          return false;
        sized = true;
      }
      for (const Use& use : flow_.uses(at)) {
        if (use.role != Role::Value) continue;
        for (const Index definition : flow_.reaching(at, use.reg)) open.push_back(definition);
      }
    }
    return sized;
  }

  static void add(std::vector<int64_t>& list, int64_t value) {
    if (value > 1 && std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  Flow flow_;
  SizeConstants& found_;
};

}  // namespace

void constants_of(const ptx::Module& module, SizeConstants& found) {
  for (const ptx::Function& function : module.functions)
    if (!function.body.empty()) Reader(function, found).run();
}

}  // namespace assay::lint
