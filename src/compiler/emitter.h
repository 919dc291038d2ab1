// The state of the emitter, between its files: emit.cpp (control, planes), arithmetic.cpp, memory.cpp.
//
// A register is a variable of the function (an alloca, which LLVM turns into values): a vector, one or two scalars, or
// for predicates a lane mask. At an entry the live ones are read from their planes; where code leaves, those that may
// have changed are written back.
//
// NaN. A GPU's operations give one NaN. Here sums, products and fmas keep whatever NaN the CPU makes, because their
// consumers cannot tell, and the register is `loose`: who looks at its bits (a store, a plane, integer code) makes it
// canonical first.
#pragma once

#include "compiler/emit.h"

namespace assay::compiler {

class Emitter {
 public:
  Emitter(Ir& ir, const vgpu::CompileRequest& request, const Flow& flow, const std::vector<Form>& forms);
  void run(vgpu::CompiledObject& object);

 private:
  Ir& ir_;
  const vgpu::CompileRequest& request_;
  const Flow& flow_;
  const std::vector<Form>& forms_;
  const vgpu::Function& kernel_;
  std::vector<bool> loose_;       // registers that may hold any NaN
  std::vector<Registers> dirty_;  // before each instruction: may differ from their planes
  struct Variable {
    Value part[2] = {nullptr, nullptr};  // one, or one for each half
  };
  std::vector<Variable> variables_;
  std::vector<BlockRef> blocks_;  // by body index
  struct Exit {
    BlockRef block;
    size_t instruction;            // where the interpreter goes on
    bool at_join;                  // at its join, where it has one
    std::vector<uint32_t> except;  // registers whose planes are right, though not all lanes may be defined
  };
  std::vector<Exit> exits_;
  std::vector<BlockRef> exit_of_;           // by body index, as exit_at() has made them
  vgpu::CompiledObject* object_ = nullptr;  // its entries, and what they rely on
  std::vector<Value> steps_;                // constants: those of object_->steps
  Value warp_ = nullptr, code_ = nullptr, runtime_ = nullptr;
  Value planes_ = nullptr, poison_ = nullptr, sites_ = nullptr, interpreted_ = nullptr;
  Value shared_ = nullptr, shared_bytes_ = nullptr, parameters_ = nullptr;
  // Of watched code: the initialised bytes of shared memory; whether accesses to global and shared memory are reported;
  // the thread of the host.
  Value shared_initialised_ = nullptr, reports_global_ = nullptr, reports_shared_ = nullptr,
        worker_ = nullptr;
  Value own_last_ = nullptr;  // of SiteRange::last, as an offset in bytes
  Value counted_ = nullptr,
        slice_ = nullptr;  // variables: instructions since the warp's own count, and what it had left

  // ---- emit.cpp ----
  void find_loose();
  void find_dirty();
  void make_variables();
  void read_warp();
  void emit_entries(Value entry);
  std::vector<vgpu::EntryCheck> emit_entry(size_t i);
  uint32_t steps_of(const Form& form);
  void emit_instruction(size_t i);
  void emit_branch(size_t i);
  void emit_call(size_t i, bool may_wait);
  void emit_exits();
  void count(size_t inst);
  void flush_counts();
  BlockRef exit_at(size_t i);
  Value inst_pointer(size_t inst) const;
  // Calls the handlers of an instruction whose registers are in their planes; leaves where it does not go on.
  void call_handlers(size_t i);
  // After a handler: what it wrote, from the planes.
  void reload(size_t i, const std::vector<uint32_t>& registers);

  unsigned bits_of(uint32_t reg) const;  // 1 for a predicate
  bool is_predicate(uint32_t reg) const { return bits_of(reg) == 1; }
  bool is_known_by_first_lanes(uint32_t reg) const;
  Value plane(uint32_t reg, unsigned lane = 0) const;
  Value poison(uint32_t reg) const;
  void write_plane(uint32_t reg);
  void write_first_lanes(uint32_t reg);
  void write_scalars(uint32_t reg);
  void read_plane(uint32_t reg);

  // ---- Values ----
  Form form(const Source& s) const { return form_of(s, forms_, request_.shape); }
  Value get(uint32_t reg, unsigned half);
  Value spread(Value first, Value second, const Form& form, unsigned bits);
  Value lanes(uint32_t reg);  // as a vector, bits as they are
  Value lanes(const Source& s, unsigned bits);
  Value scalar(const Source& s, unsigned bits, unsigned half);
  Value exact(Value v, const Source& s, unsigned bits);  // a loose NaN made canonical
  Value canonical(Value v, unsigned bits);
  void set(uint32_t reg, Value v, unsigned half = 0);
  Value mask(uint32_t reg);

  // ---- arithmetic.cpp ----
  bool emit_arithmetic(size_t i);
  Value apply(const Operation& op, const std::vector<Value>& from);
  Value apply_integer(const Operation& op, const std::vector<Value>& from);
  Value apply_float(const Operation& op, const std::vector<Value>& from);
  Value directed_fma(const Operation& op, const std::vector<Value>& x);  // AVX-512
  Value compare(const Operation& op, Value x, Value y);
  void check_widening(size_t i);
  TypeRef like_real(Value v, unsigned bits) const;

  // ---- memory.cpp ----
  void emit_access(size_t i);
  void emit_parameter(const Operation& op);
  struct Place {
    Value first = nullptr, second = nullptr;  // addresses of lanes 0 and 16
    Value host = nullptr, host_second = nullptr;
    Value fits = nullptr;
  };
  Place find_place(const Operation& op, const Form& form);
  Value within(const Operation& op, Value address, uint64_t span, Value& host);
  void load_vectors(const Operation& op, const Form& form, const Place& place);
  Value load_apart(const Operation& op, const Form& form, const Place& place);
  void prefetch_next(const Operation& op, const Form& form, const Place& place);
  void load_scalars(const Operation& op, const Form& form, const Place& place);
  void store_vectors(const Operation& op, const Form& form, const Place& place);
  Value widen(const Operation& op, Value v) const;
  Value narrow(const Operation& op, Value v) const;

  // ---- notes.cpp: what watched code does besides ----
  void note_load(size_t i, const Form& form, const Place& place, BlockRef slow);
  void note_store(size_t i, const Form& form, const Place& place);
  void require(Value good, BlockRef otherwise);
  void require_defined(const Operation& op, Value address, uint64_t bytes, BlockRef otherwise);
  void require_defined_apart(const Operation& op, const Form& form, Value address, BlockRef otherwise);
  void push_load(size_t i, const Form& form, const Place& place);
};

}  // namespace assay::compiler
