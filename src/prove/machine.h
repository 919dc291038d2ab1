// One instruction at a time: what it does to the registers of a state, and which memory it touches.
//
// Integer instructions become terms, exactly. Everything that the prover has no use for (floating point,
// shuffles, votes, loaded values that no contract bounds) becomes an unknown value, which stands for any. An
// instruction that may touch memory in a way that is not modelled is a gap.
#pragma once

#include <set>

#include "prove/execute.h"

namespace assay::prove {

struct State {
  Path path;     // what holds here
  Path control;  // of it, what decides whether a thread gets here at all: not that a loop has ended
  std::vector<Term> registers;  // kNoTerm: never written
};

class Machine {
 public:
  Machine(Terms& terms, Dims& dims, const ptx::Module& module, const ptx::Function& kernel,
          const Launch& launch, const std::vector<std::string>& written);

  void step(const ptx::Instruction& instruction, const std::vector<uint32_t>& defined, State& state);
  // Whether the instruction's guard lets it run.
  Term guard(const ptx::Instruction& instruction, State& state);

  // What the launch takes to be true of the dims.
  Path entry_path();

  Terms& terms() { return terms_; }
  Summary& summary() { return summary_; }
  // While not recording, accesses, barriers and gaps are not noted. Returns what it was.
  bool set_recording(bool recording) { return std::exchange(recording_, recording); }
  void enter_loop(Var count) { loops_.push_back(count); }
  void leave_loop() { loops_.pop_back(); }

 private:
  struct Step {  // the instruction at work
    const ptx::Instruction& instruction;
    State& state;
    Term guard;
    const std::vector<uint32_t>& defined;
    ptx::Type type(size_t i = 0) const { return instruction.type(i); }
    unsigned width() const {
      return ptx::bits_of(instruction.types.empty() ? ptx::Type::None : instruction.types.back());
    }
    bool is_signed() const {
      return !instruction.types.empty() && ptx::kind_of(instruction.types.back()) == ptx::TypeKind::Signed;
    }
    const ptx::Operand& operand(size_t i) const { return instruction.operands[i]; }
  };

  // machine.cpp: operands and integer instructions
  void set_up_indices();
  Term value(const Step& step, const ptx::Operand& operand, unsigned width);
  Term special(const ptx::Operand& operand);
  Term symbol_address(const ptx::SymbolRef& symbol);
  bool is_only_shared_variable() const;
  void put(const Step& step, uint32_t reg, Term value);
  void put(const Step& step, const ptx::Operand& operand, Term value);
  void forget(const Step& step);  // what it defines becomes unknown
  bool arithmetic(const Step& step);
  Term multiply(const Step& step);
  void compare(const Step& step);
  void logic_on_predicates(const Step& step);
  void move(const Step& step);
  void convert(const Step& step);
  unsigned width_of(uint32_t reg) const;
  bool is_float(const Step& step) const;

  // memory.cpp: accesses
  bool memory(const Step& step);
  void load_parameter(const Step& step);
  Term unknown_parameter(uint32_t offset, unsigned width);
  void load_store(const Step& step);
  bool draw_ticket(const Step& step, Term at);
  std::optional<Term> exchanged(const Step& step);
  bool keeps_what_is_there(const Step& step);
  void note_flag(const Step& step, Term value, Term at);
  void copy_async(const Step& step);
  void matrix_rows(const Step& step);
  void fragment(const Step& step);
  void convert_address(const Step& step);
  Term address(const Step& step, const ptx::Operand& operand, ptx::Space space);
  void note(const Step& step, Effect effect, ptx::Space space, Term address, uint32_t bytes,
            uint32_t alignment, bool exact = true, Term condition = kNoTerm);
  Term loaded(Term address, unsigned width, unsigned at);
  std::optional<Term> from_tensor(const Array& array, Term address, unsigned width, unsigned at);
  bool is_fixed(Term address);
  Term base(const std::string& name, ptx::Space space, Term bytes, Int align,
            const contract::TensorSpec* tensor, const std::string& view = "",
            const std::string& pointer = "");
  Term generic_view(Var base);
  Term array_base(const Pointer& pointer, uint32_t parameter);
  ptx::Space space_of(const ptx::Instruction& instruction) const;
  void gap(const Step& step, const std::string& why);
  void note_meeting(const Step& step);
  void note_stop(const Step& step);
  void note_result_of_block(const Step& step);
  // exchange.cpp: values of other lanes
  bool exchange(const Step& step);
  Term variable_of_another_lane(Var var, std::map<Var, Term>& renamed);
  std::optional<Term> of_another_lane(Term term, std::map<Var, Term>& renamed);
  bool has_whole_warps() const;
  bool says_something(Term term);

  Terms& terms_;
  Dims& dims_;
  const ptx::Module& module_;
  const ptx::Function& kernel_;
  const Launch& launch_;
  std::set<std::string> written_;
  Summary summary_;
  bool recording_ = true;
  std::vector<Var> loops_;  // around the present instruction
  std::map<std::string, Var> bases_;
  std::map<Term, Term> fixed_elements_;  // by canonical address
  std::map<uint32_t, uint32_t> parameter_offsets_;
  std::map<std::pair<uint32_t, unsigned>, Term> unknown_parameters_;  // by offset and width
  Term thread_[3], block_[3], threads_[3], blocks_[3];                // 32 bits
};

}  // namespace assay::prove
