// How one instruction changes the errors that are followed: a Plan per instruction, from the PTX alone.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "shadow/flow.h"

namespace assay::shadow {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using OperandKind = ptx::Operand::Kind;

// How many elements a type packs into a register, and what they are.
struct Packing {
  Type type;
  Number number;
  uint8_t count;
};
const Packing* packing(Type type);
bool is_float(Type type);
bool is_integer(Number number);

class Planner {
 public:
  explicit Planner(const ptx::Function& function);
  Plan plan(const Instruction& inst) const;

 private:
  const ptx::Function& function_;
  std::vector<int> definitions_;
  std::unordered_map<uint32_t, double> constants_;  // registers that only ever hold this
  std::unordered_map<uint32_t, uint64_t> integers_;
  std::vector<bool> is_upper_;
  std::vector<bool> is_f32_;  // registers that some instruction reads or writes as one float

  uint32_t bytes_of(uint32_t reg) const;
  static std::vector<uint32_t> written(const Instruction& inst);
  static double value_of(const Operand& o);
  void find_constants();
  void find_upper_halves();
  void find_floats();
  std::optional<double> constant(const Operand& o) const;
  std::optional<uint64_t> integer_constant(const Operand& o) const;
  static std::optional<Place> home_of(const Part& part);
  void connect(Plan& p, bool gives) const;
  static Part part_of(const Operand& operand, const Packing& packing, uint32_t index);
  void fill(const Instruction& inst, Plan& p) const;
  static void other(Plan& p);
  // plan_values.cpp
  void arithmetic(const Instruction& inst, Plan& p) const;
  bool rounds_on_purpose(const Instruction& inst, Op op, Number number) const;
  void convert(const Instruction& inst, Plan& p) const;
  void compare(const Instruction& inst, Plan& p) const;
  // plan_bits.cpp
  void copy_bytes(Plan& p, const Operand& to, uint32_t to_at, const Operand& from, uint32_t from_at,
                  uint32_t bytes, uint8_t act = 0) const;
  void move(const Instruction& inst, Plan& p) const;
  void cut(Plan& p, uint32_t to, uint8_t byte, uint32_t from) const;
  void select(const Instruction& inst, Plan& p) const;
  void shift(const Instruction& inst, Plan& p) const;
  void logic(const Instruction& inst, Plan& p) const;
  void mask_bytes(const Instruction& inst, Plan& p, const Operand& to, const Operand& from, uint64_t mask,
                  uint32_t bytes) const;
  static bool is_plain_mask(Opcode opcode, uint32_t mask);
  void bits(Plan& p, const Operand& to, const Operand& from) const;
  void permute(const Instruction& inst, Plan& p) const;
  void integer(const Instruction& inst, Plan& p) const;
  // plan_memory.cpp
  void shuffle(const Instruction& inst, Plan& p) const;
  static const std::vector<Operand>& elements(const Operand& o, std::vector<Operand>& one);
  void load(const Instruction& inst, Plan& p) const;
  void give_bytes(Plan& p, const Operand& to, uint32_t bytes) const;
  void need_bytes(Plan& p, const Operand& from, uint32_t bytes) const;
  void store(const Instruction& inst, Plan& p) const;
  void atomic(const Instruction& inst, Plan& p) const;
  static std::vector<uint8_t> fragment_homes(Type type);
  void product(const Instruction& inst, Plan& p) const;
  void load_matrix(const Instruction& inst, Plan& p) const;
  void store_matrix(const Instruction& inst, Plan& p) const;
};

}  // namespace assay::shadow
