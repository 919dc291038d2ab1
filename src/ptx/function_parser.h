// The body of one function: declarations, labels, instructions.
#pragma once

#include "ptx/parser.h"
#include "ptx/scopes.h"

namespace assay::ptx {

class FunctionParser {
 public:
  FunctionParser(ModuleParser& module, Function& function);
  void parse();

 private:
  using Kind = Operand::Kind;

  void statement();
  void directive();
  void registers();
  void variables(Space space);
  void define(const Token& name, Variable variable);
  void label();
  void target_list(const Token& name);
  uint32_t call_target(const Token& name);
  uint32_t branch_target(const Token& name, uint32_t list, size_t at);
  void prototype(TargetList& list);
  void open_scope();
  void close_scope();

  void instruction();
  void guard(Instruction& instruction);
  void call_operands(Instruction& instruction);
  void check(const Token& at, const Word& word, Instruction& instruction);

  Operand operand(Opcode opcode);
  Operand vector();
  Operand list();
  Operand address();
  Operand name_operand(Opcode opcode);
  Operand resolve(const Token& name);
  Operand constant_operand();
  void suffixes(Operand& operand, const Token& name);
  void selector(Operand& operand, const Token& suffix);
  void component(Operand& operand, const Token& suffix);
  void pair(Operand& operand);
  void symbol_offset(Operand& operand, Opcode opcode);
  uint64_t element_size(const SymbolRef& symbol) const;
  uint32_t predicate(const Token& name);

  // A label that was used before its scope showed it: filled in when the scope closes.
  struct Pending {
    Token name;
    uint32_t instruction = kNone, operand = 0;  // the operand to fill in, or
    uint32_t list = 0;                          // the target list to add to
  };
  struct LabelScope {
    NameMap<uint32_t> labels;  // → 1 + instruction index
    std::vector<Pending> pending;
    bool has_labels = false;
  };

  ModuleParser& module_;
  TokenReader& reader_;
  Function& function_;
  Scopes scopes_;
  std::vector<LabelScope> label_scopes_;
  uint32_t location_ = kNone;
};

}  // namespace assay::ptx
