// From a parsed module to decoded functions: assigns addresses to variables and planes to registers, finds
// where branches join, and passes each instruction to the lowering function of its family.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

#include "base/toolkit.h"
#include "vgpu/layout.h"
#include "vgpu/planes.h"
#include "vgpu/program.h"

namespace assay::vgpu {

uint64_t immediate_bits(const ptx::Operand& operand, ptx::Type type) {
  const auto as_double = [&] {
    double value;
    if (operand.is_f32_bits) {
      const uint32_t bits = static_cast<uint32_t>(operand.bits);
      float f;
      std::memcpy(&f, &bits, sizeof f);
      value = f;
    } else {
      std::memcpy(&value, &operand.bits, sizeof value);
    }
    return value;
  };
  if (!operand.is_float) return operand.bits;
  if (operand.is_f32_bits && ptx::size_of(type) == 4) return operand.bits;
  if (type == ptx::Type::F32 || ptx::size_of(type) == 4) {
    const float f = static_cast<float>(as_double());
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    return bits;
  }
  const double value = as_double();
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

const Function* Program::find(std::string_view kernel) const {
  for (const Function& f : functions)
    if (f.ptx->is_entry && f.ptx->name == kernel) return &f;
  return nullptr;
}

// ---- Lowering ----

bool names(const ptx::Operand& operand, uint32_t reg) {
  using Kind = ptx::Operand::Kind;
  const bool is_one = operand.kind == Kind::Register || operand.kind == Kind::Address;
  return (is_one && operand.index == reg) || operand.pair == reg ||
         std::any_of(operand.elements.begin(), operand.elements.end(),
                     [&](const ptx::Operand& element) { return names(element, reg); });
}

struct Lowering::Impl {
  Program& program;
  Function& out;
  const ptx::Function& in;
  const Engine& engine;
  std::map<std::tuple<uint32_t, uint64_t>, PlaneOffset> constants;
  std::map<std::tuple<ptx::SpecialRegister, uint8_t, uint32_t>, PlaneOffset> specials;
  std::map<std::tuple<uint64_t, uint32_t>, PlaneOffset> local_symbols;
  struct Fixup {
    const Inst** slot;
    uint32_t body_index;
  };
  std::vector<Fixup> fixups;
  std::vector<uint32_t> starts;  // by body index: first Inst
  uint32_t body_index = 0;
  PlaneOffset all_lanes = 0;
  PlaneOffset carry = 0;  // 0: none yet
  bool refused = false;

  PlaneOffset new_plane(uint32_t lane_bytes) {
    const PlaneOffset offset = out.plane_bytes;
    out.plane_bytes += plane_bytes_of(lane_bytes);
    return offset;
  }
};

uint32_t Lowering::next_site() {
  impl_.out.sites.push_back({*site_counter_, impl_.body_index});
  return (*site_counter_)++;
}

PlaneOffset Lowering::reg(uint32_t register_index) const {
  return impl_.out.register_planes.at(register_index);
}

PlaneOffset Lowering::constant(uint64_t bits, uint32_t lane_bytes) {
  if (lane_bytes == 0) bits = bits ? 0xffffffff : 0;
  if (lane_bytes > 0 && lane_bytes < 8) bits &= (uint64_t{1} << (8 * lane_bytes)) - 1;
  auto [it, fresh] = impl_.constants.try_emplace({lane_bytes, bits}, 0);
  if (fresh) {
    it->second = impl_.new_plane(lane_bytes);
    impl_.out.constants.push_back({it->second, lane_bytes, bits});
  }
  return it->second;
}

PlaneOffset Lowering::scratch(uint32_t lane_bytes) {
  return impl_.new_plane(lane_bytes);
}

PlaneOffset Lowering::storage(uint32_t bytes) {
  const PlaneOffset offset = impl_.out.plane_bytes;
  impl_.out.plane_bytes += static_cast<uint32_t>(align_up(bytes, 64));
  return offset;
}

uint32_t Lowering::position() const {
  return static_cast<uint32_t>(impl_.out.code.size());
}
const Inst& Lowering::emitted(uint32_t position) const {
  return impl_.out.code.at(position);
}
const Program& Lowering::program() const {
  return impl_.program;
}
const Function& Lowering::decoded() const {
  return impl_.out;
}

PlaneOffset Lowering::carry_plane() {
  if (impl_.carry == 0) impl_.carry = scratch(0);
  return impl_.carry;
}

uint32_t Lowering::lane_bytes(const ptx::Operand& operand, ptx::Type type) const {
  if (operand.kind == ptx::Operand::Kind::Register)
    return lane_bytes_of(function.registers.at(operand.index).type);
  return lane_bytes_of(type);
}

PlaneOffset Lowering::source(const ptx::Operand& operand, ptx::Type type) {
  using Kind = ptx::Operand::Kind;
  const uint32_t bytes = lane_bytes_of(type);
  switch (operand.kind) {
    case Kind::Register: {
      const PlaneOffset plane = reg(operand.index);
      if (!operand.negated) return plane;
      if (type != ptx::Type::Pred) {
        unsupported("negated operand");
        return plane;
      }
      Inst& inverted = emit(impl_.engine.not_predicate);
      inverted.guard = impl_.all_lanes;
      inverted.guard_flip = 0;
      inverted.a = plane;
      return inverted.dst = scratch(0);
    }
    case Kind::Immediate:
      return constant(immediate_bits(operand, type), bytes);
    case Kind::Special: {
      auto [it, fresh] = impl_.specials.try_emplace({operand.special, operand.component, bytes}, 0);
      if (fresh) {
        it->second = impl_.new_plane(bytes);
        impl_.out.specials.push_back({it->second, operand.special, operand.component, bytes});
      }
      return it->second;
    }
    case Kind::Symbol: {
      ptx::Space space = ptx::Space::None;
      const uint64_t value = symbol_value(operand.symbol, &space) + static_cast<uint64_t>(operand.offset);
      if (space != ptx::Space::Local) return constant(value, bytes);
      auto [it, fresh] = impl_.local_symbols.try_emplace({value, bytes}, 0);
      if (fresh) {
        it->second = impl_.new_plane(bytes);
        impl_.out.local_symbols.push_back({it->second, bytes, value});
      }
      return it->second;
    }
    default:
      unsupported("operand");
      return constant(0, bytes);
  }
}

PlaneOffset Lowering::dest(const ptx::Operand& operand, ptx::Type type) {
  if (operand.kind == ptx::Operand::Kind::Register) return reg(operand.index);
  if (operand.kind != ptx::Operand::Kind::Sink) unsupported("destination operand");
  return scratch(lane_bytes_of(type));
}

Lowering::AddressParts Lowering::address(const ptx::Operand& operand, ptx::Space space) {
  using Base = ptx::Operand::Base;
  if (operand.base == Base::Register)
    return {reg(operand.index), true, operand.offset,
            lane_bytes_of(function.registers.at(operand.index).type)};
  uint64_t value = operand.bits;
  if (operand.base == Base::Symbol) {
    ptx::Space found = ptx::Space::None;
    value = symbol_value(operand.symbol, &found);
    // A shared or parameter symbol used with a generic address means its window.
    if (space == ptx::Space::Generic && found == ptx::Space::Shared) value += kSharedWindow;
    if (space == ptx::Space::Generic && found == ptx::Space::Param) value += kParamWindow;
  }
  return {constant(0, 8), false, static_cast<int64_t>(value) + operand.offset, 8};
}

uint64_t Lowering::symbol_value(const ptx::SymbolRef& symbol, ptx::Space* space) const {
  using Kind = ptx::SymbolRef::Kind;
  const Program& program = impl_.program;
  switch (symbol.kind) {
    case Kind::ModuleVariable:
      *space = module.variables.at(symbol.index).space;
      return program.variables.at(symbol.index);
    case Kind::FunctionVariable:
      *space = function.variables.at(symbol.index).space;
      return program.function_variables.at(impl_.out.index).at(symbol.index);
    case Kind::Parameter:
    case Kind::ReturnParameter:
      *space = ptx::Space::Param;
      return param_offset(symbol);
    case Kind::Function:
      *space = ptx::Space::None;
      return kFunctionWindow + symbol.index * kFunctionStride;
    default:
      *space = ptx::Space::None;
      return 0;
  }
}

uint32_t Lowering::param_offset(const ptx::SymbolRef& symbol) const {
  using Kind = ptx::SymbolRef::Kind;
  if (symbol.kind == Kind::Parameter) return impl_.out.parameter_offsets.at(symbol.index);
  if (symbol.kind == Kind::ReturnParameter) return impl_.out.return_offsets.at(symbol.index);
  return static_cast<uint32_t>(impl_.program.function_variables.at(impl_.out.index).at(symbol.index));
}

Inst& Lowering::emit(Handler handler) {
  Inst& out = impl_.out.code.emplace_back();
  out.run = handler;
  out.guard = impl_.all_lanes;
  if (inst && inst->guard != ptx::kNone) {
    out.guard = reg(inst->guard);
    out.guard_flip = inst->guard_negated ? kAllLanesMask : 0;
  }
  out.index = static_cast<uint32_t>(impl_.out.code.size() - 1);
  out.source = inst ? impl_.body_index : ptx::kNone;
  return out;
}

void Lowering::resolve(const Inst** slot, uint32_t body_index) {
  impl_.fixups.push_back({slot, body_index});
}

const Function* Lowering::callee(uint32_t function_index) const {
  const Function* found = &impl_.program.functions.at(function_index);
  return found->ptx->alias_of == ptx::kNone ? found : &impl_.program.functions.at(found->ptx->alias_of);
}

void Lowering::order_dependent_atomics() {
  impl_.out.uses_order_dependent_atomics = true;
}

void* Lowering::allocate(size_t bytes, size_t align) {
  return impl_.program.arena.allocate(bytes, align);
}

void Lowering::unsupported(std::string why) {
  if (impl_.refused) return;
  impl_.refused = true;
  const std::string text = fmt::format("not supported: `{}` ({})", ptx::print(module, function, *inst), why);
  auto* kept = static_cast<char*>(allocate(text.size() + 1, 1));
  std::memcpy(kept, text.c_str(), text.size() + 1);
  emit(impl_.engine.unsupported).extra = kept;
  if (impl_.out.unsupported.empty())
    impl_.out.unsupported =
        fmt::format("{}: {}", where(impl_.program, impl_.out, impl_.out.code.back()), text);
}

// ---- Functions ----

namespace {

class FunctionDecoder {
 public:
  FunctionDecoder(Program& program, Function& out, Instrumenter* instrumenter)
      : program_(program), out_(out), in_(*out.ptx), instrumenter_(instrumenter) {}

  void run() {
    Lowering::Impl impl{.program = program_, .out = out_, .in = in_, .engine = *program_.engine};
    Lowering lowering(impl, program_.module, in_, &program_.memory_sites);
    place_registers(impl);
    mark_targets();
    if (instrumenter_) instrumenter_->begin(lowering);
    impl.starts.resize(in_.body.size() + 1);
    for (uint32_t i = 0; i < in_.body.size(); ++i) {
      impl.body_index = i;
      impl.starts[i] = static_cast<uint32_t>(out_.code.size());
      lowering.inst = nullptr;
      if (is_target_[i]) emit_join(lowering, i);
      lower(impl, lowering, in_.body[i]);
    }
    impl.starts[in_.body.size()] = static_cast<uint32_t>(out_.code.size());
    lowering.inst = nullptr;
    lowering.emit(program_.engine->end);
    for (const auto& fixup : impl.fixups) *fixup.slot = &out_.code[impl.starts[fixup.body_index]];
    count_instructions();
    find_blocks();
  }

 private:
  Program& program_;
  Function& out_;
  const ptx::Function& in_;
  Instrumenter* instrumenter_;
  std::vector<bool> is_target_;

  void place_registers(Lowering::Impl& impl) {
    impl.all_lanes = impl.new_plane(0);
    out_.constants.push_back({impl.all_lanes, 0, 0xffffffff});
    impl.constants[{0, 0xffffffff}] = impl.all_lanes;
    out_.register_planes = vgpu::place_registers(in_, out_.plane_bytes);
  }

  void mark_targets() {
    is_target_.assign(in_.body.size() + 1, false);
    for (const ptx::Instruction& inst : in_.body)
      for (const ptx::Operand& operand : inst.operands)
        if (operand.kind == ptx::Operand::Kind::Label && operand.index <= in_.body.size())
          is_target_[operand.index] = true;
    for (const ptx::TargetList& list : in_.target_lists)
      if (!list.is_prototype)
        for (uint32_t t : list.targets)
          if (t <= in_.body.size()) is_target_[t] = true;
  }

  void emit_join(Lowering& lowering, uint32_t body_index) {
    Inst& join = lowering.emit(program_.engine->join);
    join.source = body_index;
  }

  void lower(Lowering::Impl& impl, Lowering& lowering, const ptx::Instruction& inst) {
    lowering.inst = &inst;
    impl.refused = false;
    const size_t first = out_.code.size();
    if (instrumenter_) instrumenter_->before(lowering);
    const auto opcode = static_cast<size_t>(inst.opcode);
    const LowerFunction function =
        opcode < std::size(program_.engine->by_opcode) ? program_.engine->by_opcode[opcode] : nullptr;
    try {
      if (function)
        function(lowering);
      else
        lowering.unsupported("instruction");
    } catch (
        const std::out_of_range&) {  // a modifier asks for an operand that the table allows to be left out
      lowering.unsupported("an operand that is missing");
    }
    if (instrumenter_) instrumenter_->after(lowering);
    if (first == out_.code.size()) return;
    out_.code[first].may_part = may_part(inst);
    out_.code[first].may_interleave = may_interleave(inst);
  }

  static bool is_access(const ptx::Instruction& inst) {
    using ptx::Mod;
    using ptx::Opcode;
    switch (inst.opcode) {
      case Opcode::ld:
      case Opcode::st:
        return !inst.has(Mod::param) && !inst.has(Mod::param_entry) && !inst.has(Mod::param_func) &&
               !inst.has(Mod::const_) && !inst.has(Mod::local);
      case Opcode::atom:
      case Opcode::red:
        return true;
      default:
        return false;
    }
  }

  static bool may_part(const ptx::Instruction& inst) {
    using ptx::Opcode;
    return is_access(inst) || inst.opcode == Opcode::bra || inst.opcode == Opcode::brx_idx ||
           inst.opcode == Opcode::call;
  }

  static bool may_interleave(const ptx::Instruction& inst) {
    using ptx::Mod;
    using ptx::Opcode;
    if (!is_access(inst)) return false;
    return inst.opcode == Opcode::atom || inst.opcode == Opcode::red || inst.has(Mod::volatile_) ||
           inst.has(Mod::relaxed) || inst.has(Mod::acquire) || inst.has(Mod::release) || inst.has(Mod::mmio);
  }

  // Instructions are counted where control may leave: each such place knows how many came before it.
  void count_instructions() {
    int64_t count = 0;
    for (Inst& inst : out_.code) {
      const bool is_join = inst.run == program_.engine->join;
      count += is_join ? 0 : 1;
      const bool counts = is_join || (inst.source != ptx::kNone && is_counting(in_.body[inst.source], inst));
      if (!counts) continue;
      inst.imm = count;
      count = 0;
    }
  }

  bool is_counting(const ptx::Instruction& source, const Inst& inst) const {
    using ptx::Opcode;
    const Opcode opcode = source.opcode;
    if (inst.run == program_.engine->clock || inst.run == program_.engine->clock64) return true;
    return opcode == Opcode::bra || opcode == Opcode::brx_idx || opcode == Opcode::call ||
           opcode == Opcode::ret || opcode == Opcode::exit;
  }

  // Basic blocks of the decoded code: a block begins at a join or after an instruction that may leave.
  void find_blocks() {
    out_.blocks.clear();
    BasicBlock block{};
    for (uint32_t i = 0; i < out_.code.size(); ++i) {
      if (out_.code[i].run == program_.engine->join && i > block.first) {
        block.last = i - 1;
        out_.blocks.push_back(block);
        block = {.first = i};
      }
    }
    block.last = static_cast<uint32_t>(out_.code.size() - 1);
    out_.blocks.push_back(block);
  }
};

}  // namespace

Result<std::unique_ptr<Program>> decode(ptx::Module module, std::string name, Memory& memory,
                                        const Engine& engine, Instrumenter* instrumenter) {
  auto program = std::make_unique<Program>();
  program->name = std::move(name);
  program->module = std::move(module);
  program->engine = &engine;
  program->instrumented = instrumenter != nullptr;
  program->functions.resize(program->module.functions.size());
  for (size_t f = 0; f < program->functions.size(); ++f) {
    program->functions[f].ptx = &program->module.functions[f];
    program->functions[f].index = static_cast<uint32_t>(f);
  }
  if (Result<void> placed = place_variables(*program, memory); !placed) return placed.error();
  for (Function& f : program->functions) FunctionDecoder(*program, f, instrumenter).run();
  return program;
}

std::vector<SourceFrame> frames_of(const Program& program, const Function& function, const Inst& inst) {
  constexpr size_t kDeepest = 64;  // what a broken table may chain in a circle
  if (inst.source == ptx::kNone || inst.source >= function.ptx->body.size()) return {};
  const auto& [locations, files] = std::tie(program.module.locations, program.module.files);
  std::vector<SourceFrame> frames;
  for (uint32_t at = function.ptx->body[inst.source].location;
       at != ptx::kNone && frames.size() < kDeepest;) {
    const ptx::SourceLocation& location = locations[at];
    at = location.inlined_at;
    frames.push_back({location.file < files.size() ? files[location.file] : "", location.line,
                      at == ptx::kNone ? function.ptx->name : location.function});
  }
  return frames;
}

SourcePlace place_of(const std::vector<SourceFrame>& frames) {
  for (const SourceFrame& frame : frames)
    if (!is_toolkit_header(frame.file)) return {frame.file, frame.line};
  return frames.empty() ? SourcePlace{} : SourcePlace{frames.back().file, frames.back().line};
}

SourcePlace place_of(const Program& program, const Function& function, const Inst& inst) {
  return place_of(frames_of(program, function, inst));
}

std::string where(const Program& program, const Function& function, const Inst& inst) {
  if (inst.source == ptx::kNone || inst.source >= function.ptx->body.size()) return program.name;
  const ptx::Instruction& at = function.ptx->body[inst.source];
  if (at.location == ptx::kNone) return fmt::format("{}:{}", program.name, at.line);
  const ptx::SourceLocation& location = program.module.locations[at.location];
  const std::string file =
      location.file < program.module.files.size() ? program.module.files[location.file] : "?";
  std::string text = fmt::format("{}:{}", file, location.line);
  uint32_t outer = location.inlined_at;
  for (int depth = 0; outer != ptx::kNone && depth < 16; ++depth) {
    const ptx::SourceLocation& caller = program.module.locations[outer];
    text += fmt::format(", inlined at {}:{}",
                        caller.file < program.module.files.size() ? program.module.files[caller.file] : "?",
                        caller.line);
    outer = caller.inlined_at;
  }
  return text;
}

}  // namespace assay::vgpu
