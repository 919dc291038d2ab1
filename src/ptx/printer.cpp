// Module → PTX text that parses to the same module. Scopes are gone (names are unique), registers
// are declared at the top of each function, names of inlined functions go into .debug_str.
#include <fmt/format.h>

#include <iterator>
#include <unordered_map>

#include "ptx/declarations.h"
#include "ptx/table.h"

namespace assay::ptx {
namespace {

using Kind = Operand::Kind;

bool is_cta_form(const Instruction& instruction) {
  return !instruction.mods.empty() && instruction.mods[0] == Mod::cta &&
         name(instruction.opcode).starts_with("bar");
}

class Printer {
 public:
  Printer(const Module& module, const Function* function) : module_(module), function_(function) {}

  std::string take() { return std::move(out_); }

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void module() {
    put(".version {}.{}\n.target {}\n.address_size {}\n", module_.version_major, module_.version_minor,
        module_.target, module_.address_size);
    for (size_t i = 0; i < module_.files.size(); ++i)
      if (!module_.files[i].empty()) put(".file {} \"{}\"\n", i, module_.files[i]);
    out_ += '\n';
    // Functions keep their order. Where one is named before it is defined all are declared first, those
    // before the first kernel also ahead of the variables that may name them; kernels are never declared.
    bool declared = needs_declarations();
    size_t next = 0;
    for (; declared && next < module_.functions.size() && !module_.functions[next].is_entry; ++next)
      declare(module_.functions[next]);
    for (const Variable& variable : module_.variables) {
      linkage(variable);
      this->variable(variable);
      out_ += ";\n";
    }
    for (; next < module_.functions.size(); ++next) {
      const Function& function = module_.functions[next];
      if (function.is_extern || (declared && !function.is_entry)) {
        declare(function);
      } else {
        define(function);
      }
    }
    for (const Function& function : module_.functions)
      if (declared && !function.is_entry && !function.is_extern) define(function);
    for (const Function& function : module_.functions)
      if (function.alias_of != kNone)
        put(".alias {}, {};\n", function.name, module_.functions[function.alias_of].name);
    debug_strings();
  }

  void instruction(const Instruction& instruction) {
    if (instruction.guard != kNone)
      put("@{}{} ", instruction.guard_negated ? "!" : "", register_name(instruction.guard));
    word(instruction);
    const char* separator = " ";
    for (const Operand& operand : instruction.operands) {
      out_ += separator;
      this->operand(operand);
      separator = ", ";
    }
    out_ += ';';
  }

 private:
  void declare(const Function& function) {
    header(function);
    out_ += ";\n";
  }

  void define(const Function& function) {
    header(function);
    function_ = &function;
    body();
  }

  // Whether a function is named before it is defined.
  bool needs_declarations() const {
    for (const Variable& variable : module_.variables)
      if (!variable.relocations.empty()) return true;
    for (size_t i = 0; i < module_.functions.size(); ++i) {
      const Function& function = module_.functions[i];
      for (const TargetList& list : function.target_lists)
        if (list.is_calls) return true;
      for (const Instruction& instruction : function.body)
        for (const Operand& operand : instruction.operands)
          if (operand.symbol.kind == SymbolRef::Kind::Function && operand.symbol.index > i) return true;
    }
    return false;
  }

  void linkage(const Variable& variable) {
    if (variable.is_extern) out_ += ".extern ";
    if (variable.is_visible) out_ += ".visible ";
    if (variable.is_weak) out_ += ".weak ";
    if (variable.is_common) out_ += ".common ";
  }

  void variable(const Variable& variable) {
    put("{} ", directive_of(variable.space));
    if (variable.is_managed) out_ += ".attribute(.managed) ";
    if (variable.space != Space::None && kind_of(variable.type) != TypeKind::Opaque && !variable.is_pointer)
      put(".align {} ", variable.align);
    put(".{} ", name(variable.type));
    if (variable.is_pointer) {
      out_ += ".ptr ";
      if (variable.pointee_space != Space::Generic) put("{} ", directive_of(variable.pointee_space));
      if (variable.pointee_align != 0) put(".align {} ", variable.pointee_align);
    }
    out_ += variable.name;
    uint32_t element = size_of(variable.type);
    if (variable.is_unsized) {
      out_ += "[]";
    } else if (variable.space != Space::None && variable.size != element) {
      put("[{}]", element == 0 ? 0 : variable.size / element);
    }
    initialiser(variable, element);
  }

  void initialiser(const Variable& variable, uint32_t element) {
    if (variable.init.empty()) return;
    bool is_array = variable.size != element;
    out_ += is_array ? " = {" : " = ";
    size_t next = 0;
    for (size_t offset = 0; offset + element <= variable.init.size(); offset += element) {
      if (offset != 0) out_ += ", ";
      if (next < variable.relocations.size() && variable.relocations[next].offset == offset) {
        relocation(variable.relocations[next++], element);
        continue;
      }
      uint64_t bits = 0;
      for (size_t i = 0; i < element && i < 8; ++i) bits |= uint64_t{variable.init[offset + i]} << (8 * i);
      if (variable.type == Type::F32) {
        put("0f{:08X}", bits);
      } else if (variable.type == Type::F64) {
        put("0d{:016X}", bits);
      } else {
        put("{}", bits);
      }
    }
    if (is_array) out_ += '}';
  }

  void relocation(const Variable::Relocation& relocation, uint32_t element) {
    bool masked = element < static_cast<uint32_t>(module_.address_size) / 8;
    if (masked) put("0x{:x}(", ((uint64_t{1} << (8 * element)) - 1) << relocation.shift);
    if (relocation.generic) out_ += "generic(";
    out_ += relocation.symbol;
    if (relocation.generic) out_ += ')';
    if (relocation.addend != 0) put("+{}", relocation.addend);
    if (masked) out_ += ')';
  }

  void signature(const std::vector<Variable>& variables) {
    out_ += '(';
    for (size_t i = 0; i < variables.size(); ++i) {
      if (i != 0) out_ += ", ";
      variable(variables[i]);
    }
    out_ += ')';
  }

  void dimensions(std::string_view directive, const uint32_t (&dims)[3]) {
    if (dims[0] != 0 || dims[1] != 0 || dims[2] != 0)
      put("{} {}, {}, {}\n", directive, dims[0], dims[1], dims[2]);
  }

  void header(const Function& function) {
    if (function.is_visible) out_ += ".visible ";
    if (function.is_weak) out_ += ".weak ";
    if (function.is_extern && function.alias_of == kNone && !function.is_visible && !function.is_weak)
      out_ += ".extern ";
    out_ += function.is_entry ? ".entry " : ".func ";
    if (!function.returns.empty()) signature(function.returns), out_ += ' ';
    out_ += function.name;
    signature(function.parameters);
    out_ += '\n';
    dimensions(".maxntid", function.max_threads);
    dimensions(".reqntid", function.required_threads);
    dimensions(".reqnctapercluster", function.required_cluster);
    if (function.explicit_cluster) out_ += ".explicitcluster\n";
    if (function.blocks_are_clusters) out_ += ".blocksareclusters\n";
    if (function.max_cluster_rank != 0) put(".maxclusterrank {}\n", function.max_cluster_rank);
    if (function.min_blocks_per_sm != 0) put(".minnctapersm {}\n", function.min_blocks_per_sm);
    if (function.max_registers != 0) put(".maxnreg {}\n", function.max_registers);
    if (function.is_noreturn) out_ += ".noreturn\n";
  }

  void registers() {
    size_t first = 0;  // those of .reg parameters are declared there
    for (const auto* list : {&function_->returns, &function_->parameters})
      for (const Variable& variable : *list) first += variable.space == Space::None && variable.name != "_";
    constexpr size_t kPerLine = 12;
    for (size_t i = first, in_line = 0; i < function_->registers.size(); ++i) {
      const Register& reg = function_->registers[i];
      bool same = i != first && function_->registers[i - 1].type == reg.type && in_line < kPerLine;
      if (!same) {
        put("{}  .reg .{} ", i == first ? "" : ";\n", name(reg.type));
        in_line = 0;
      }
      put("{}{}", same ? ", " : "", reg.name);
      ++in_line;
      if (i + 1 == function_->registers.size()) out_ += ";\n";
    }
  }

  void target_list(const TargetList& list) {
    put("  {}: ", list.name);
    if (list.is_prototype) {
      out_ += ".callprototype ";
      if (!list.returns.empty()) signature(list.returns), out_ += ' ';
      out_ += "_ ";
      signature(list.parameters);
      if (list.is_noreturn) out_ += " .noreturn";
    } else {
      out_ += list.is_calls ? ".calltargets " : ".branchtargets ";
      for (size_t i = 0; i < list.targets.size(); ++i)
        put("{}{}", i == 0 ? "" : ", ",
            list.is_calls ? module_.functions[list.targets[i]].name : label_name(list.targets[i]));
    }
    out_ += ";\n";
  }

  void body() {
    label_of_.clear();
    for (const auto& [label, index] : function_->labels) label_of_.try_emplace(index, label);
    out_ += "{\n";
    for (const std::string& pragma : function_->pragmas) put("  .pragma \"{}\";\n", pragma);
    registers();
    for (const Variable& variable : function_->variables) {
      out_ += "  ";
      this->variable(variable);
      out_ += ";\n";
    }
    for (const TargetList& list : function_->target_lists) target_list(list);
    size_t next_label = 0;
    uint32_t location = kNone;
    for (uint32_t i = 0; i <= function_->body.size(); ++i) {
      for (; next_label < function_->labels.size() && function_->labels[next_label].second == i; ++next_label)
        put("{}:\n", function_->labels[next_label].first);
      if (i == function_->body.size()) break;
      const Instruction& instruction = function_->body[i];
      if (instruction.location != location) {
        location = instruction.location;
        if (location != kNone) this->location(location);
      }
      out_ += "  ";
      this->instruction(instruction);
      out_ += '\n';
    }
    out_ += "}\n";
  }

  // The places a location was inlined at come first, outermost first, so that each finds its chain.
  void location(uint32_t index) {
    constexpr size_t kDeepest = 10000;
    std::vector<uint32_t> chain;
    for (uint32_t at = index; at != kNone && chain.size() < kDeepest; at = module_.locations[at].inlined_at)
      chain.push_back(at);
    for (size_t i = chain.size(); i-- > 0;) {
      const SourceLocation& place = module_.locations[chain[i]];
      put("  .loc {} {} {}", place.file, place.line, place.column);
      if (!place.function.empty()) put(", function_name {}", debug_label(place.function));
      if (place.inlined_at != kNone) {
        const SourceLocation& outer = module_.locations[place.inlined_at];
        put(", inlined_at {} {} {}", outer.file, outer.line, outer.column);
      }
      out_ += '\n';
    }
  }

  std::string debug_label(const std::string& text) {
    auto [it, is_new] = debug_labels_.try_emplace(text, debug_order_.size());
    if (is_new) debug_order_.push_back(text);
    return fmt::format("$L__info_string{}", it->second);
  }

  void debug_strings() {
    if (debug_order_.empty()) return;
    out_ += ".section .debug_str\n{\n";
    for (size_t i = 0; i < debug_order_.size(); ++i) {
      put("$L__info_string{}:\n", i);
      for (unsigned char c : debug_order_[i]) put(".b8 {}\n", c);
      out_ += ".b8 0\n";
    }
    out_ += "}\n";
  }

  // The name with modifiers and types, placed as the table has them, in the order they were written.
  void word(const Instruction& instruction) {
    std::string_view opcode = name(instruction.opcode);
    size_t mod = 0, type = 0;
    if (is_cta_form(instruction)) {
      size_t dot = opcode.find('.');
      put("{}.cta{}", opcode.substr(0, dot), opcode.substr(dot));
      mod = 1;
    } else {
      out_ += opcode;
    }
    std::vector<bool> order = word_order(rows()[instruction.form], instruction.mods, instruction.types);
    for (size_t i = mod; i < order.size(); ++i) {
      out_ += '.';
      out_ += order[i] ? name(instruction.types[type++]) : name(instruction.mods[mod++]);
    }
  }

  std::string_view register_name(uint32_t index) const { return function_->registers[index].name; }

  std::string label_name(uint32_t index) const {
    auto it = label_of_.find(index);
    if (it != label_of_.end()) return it->second;
    for (const auto& [label, at] : function_->labels)
      if (at == index) return label;
    return fmt::format("instruction_{}", index);
  }

  std::string_view symbol_name(const SymbolRef& symbol) const {
    switch (symbol.kind) {
      case SymbolRef::Kind::ModuleVariable:
        return module_.variables[symbol.index].name;
      case SymbolRef::Kind::FunctionVariable:
        return function_->variables[symbol.index].name;
      case SymbolRef::Kind::Parameter:
        return function_->parameters[symbol.index].name;
      case SymbolRef::Kind::ReturnParameter:
        return function_->returns[symbol.index].name;
      case SymbolRef::Kind::Function:
        return module_.functions[symbol.index].name;
      case SymbolRef::Kind::TargetList:
        return function_->target_lists[symbol.index].name;
      case SymbolRef::Kind::None:
        break;
    }
    return "?";
  }

  void elements(const Operand& operand, char open, char close) {
    out_ += open;
    for (size_t i = 0; i < operand.elements.size(); ++i) {
      if (i != 0) out_ += ", ";
      this->operand(operand.elements[i]);
    }
    out_ += close;
  }

  void selector(const Operand& operand) {
    if (operand.component == 0) return;
    if (operand.component <= 6) {
      put(".{}{}", operand.component <= 4 ? 'b' : 'h', (operand.component - 1) % 4);
    } else {
      put(".{}{:0{}x}", operand.component == 7 ? 'h' : 'b', operand.bits, operand.offset);
    }
  }

  void operand(const Operand& operand) {
    switch (operand.kind) {
      case Kind::None:
        break;
      case Kind::Register:
        if (operand.negated) out_ += function_->registers[operand.index].type == Type::Pred ? '!' : '-';
        out_ += register_name(operand.index);
        selector(operand);
        break;
      case Kind::Immediate:
        if (operand.is_f32_bits) {
          put("0f{:08X}", operand.bits);
        } else if (operand.is_float) {
          put("0d{:016X}", operand.bits);
        } else {
          put("{}", static_cast<int64_t>(operand.bits));
        }
        break;
      case Kind::Special:
        put("{}%{}", operand.negated ? "!" : "", name(operand.special));
        if (components_of(operand.special) > 1) put(".{}", "xyzw"[operand.component & 3]);
        break;
      case Kind::Symbol:
        out_ += symbol_name(operand.symbol);
        if (operand.offset != 0) put("+{}", operand.offset);
        break;
      case Kind::Address:
        address(operand);
        break;
      case Kind::Vector:
        elements(operand, '{', '}');
        break;
      case Kind::List:
        elements(operand, '(', ')');
        break;
      case Kind::Label:
        out_ += label_name(operand.index);
        break;
      case Kind::Sink:
        out_ += '_';
        break;
    }
    if (operand.pair != kNone) put("|{}", register_name(operand.pair));
    if (operand.sink_pair) out_ += "|_";
  }

  void address(const Operand& operand) {
    out_ += '[';
    switch (operand.base) {
      case Operand::Base::Register:
        out_ += register_name(operand.index);
        break;
      case Operand::Base::Symbol:
        out_ += symbol_name(operand.symbol);
        break;
      case Operand::Base::Immediate:
        put("{}", static_cast<int64_t>(operand.bits));
        break;
    }
    if (operand.offset != 0) put("+{}", operand.offset);
    for (const Operand& element : operand.elements) {
      out_ += ", ";
      this->operand(element);
    }
    out_ += operand.is_unified ? "].unified" : "]";
  }

  const Module& module_;
  const Function* function_;
  std::string out_;
  std::unordered_map<uint32_t, std::string> label_of_;
  std::unordered_map<std::string, size_t> debug_labels_;
  std::vector<std::string> debug_order_;
};

}  // namespace

std::string print(const Module& module) {
  Printer printer(module, nullptr);
  printer.module();
  return printer.take();
}

std::string print(const Module& module, const Function& function, const Instruction& instruction) {
  Printer printer(module, &function);
  printer.instruction(instruction);
  return printer.take();
}

}  // namespace assay::ptx
