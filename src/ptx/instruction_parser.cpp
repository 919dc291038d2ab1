// Instructions and their operands.
#include <fmt/format.h>

#include "ptx/function_parser.h"

namespace assay::ptx {
namespace {

constexpr size_t kMostElements = 256;

}  // namespace

void FunctionParser::instruction() {
  Instruction instruction;
  if (reader_.is('@')) guard(instruction);
  if (!reader_.is_name()) reader_.fail_expected("an instruction");
  Token at = reader_.take_word();
  const Word& word = module_.word(at);
  instruction.opcode = word.opcode;
  instruction.mods = word.mods;
  instruction.types = word.types;
  instruction.location = location_;
  instruction.line = at.line;
  instruction.column = at.column;
  if (word.opcode == Opcode::call) {
    call_operands(instruction);
  } else if (!reader_.is(';')) {
    instruction.operands.reserve(4);
    do instruction.operands.push_back(operand(word.opcode));
    while (reader_.accept(','));
  }
  if (!reader_.is(';')) reader_.fail_expected("',' or ';'");
  check(at, word, instruction);
  reader_.advance();
  function_.body.push_back(std::move(instruction));
}

void FunctionParser::guard(Instruction& instruction) {
  reader_.advance();
  instruction.guard_negated = reader_.accept('!');
  instruction.guard = predicate(reader_.expect_name("a predicate register"));
}

uint32_t FunctionParser::predicate(const Token& name) {
  const Binding* binding = scopes_.find(name.text);
  if (!binding || binding->kind != Binding::Kind::Register)
    reader_.fail(name, fmt::format("unknown register {}", quote(name)));
  if (function_.registers[binding->index].type != Type::Pred)
    reader_.fail(name, fmt::format("{} is not a predicate", quote(name)));
  return binding->index;
}

void FunctionParser::check(const Token& at, const Word& word, Instruction& instruction) {
  for (uint16_t row : word.rows) {
    if (!match_operands(rows()[row], word.mods, instruction.operands)) continue;
    instruction.form = row;
    return;
  }
  std::string problem;
  match_operands(rows()[word.rows.front()], word.mods, instruction.operands, &problem);
  reader_.fail(at, fmt::format("{}: {}", quote(at.text), problem));
}

// (results), function, (arguments), prototype: each but the function may be missing.
void FunctionParser::call_operands(Instruction& instruction) {
  do {
    if (reader_.is('(')) {
      instruction.operands.push_back(list());
    } else {
      instruction.operands.push_back(operand(Opcode::call));
    }
  } while (reader_.accept(','));
}

Operand FunctionParser::list() {
  Operand result;
  result.kind = Kind::List;
  reader_.expect('(');
  if (reader_.accept(')')) return result;
  do {
    if (reader_.is('{') || reader_.is('[')) reader_.fail_expected("a register, constant or parameter");
    result.elements.push_back(operand(Opcode::call));
  } while (reader_.accept(','));
  reader_.expect(')');
  return result;
}

Operand FunctionParser::operand(Opcode opcode) {
  const Token& token = reader_.token();
  if (token.kind == TokenKind::Name && token.text != "WARP_SZ") return name_operand(opcode);
  if (token.is('[')) return address();
  if (token.is('{')) {
    Operand result = vector();
    if (reader_.accept('|')) pair(result);
    return result;
  }
  if (token.is('!') || token.is('-')) {
    Token after = reader_.peek();
    if (after.kind == TokenKind::Name && after.text != "WARP_SZ") {
      Token sign = reader_.take();
      Operand result = name_operand(opcode);
      if (result.kind != Kind::Register && result.kind != Kind::Special)
        reader_.fail(sign, fmt::format("{} goes before a register", quote(sign)));
      result.negated = true;
      return result;
    }
  }
  return constant_operand();
}

Operand FunctionParser::constant_operand() {
  Constant value = reader_.constant();
  Operand result;
  result.kind = Kind::Immediate;
  result.bits = value.bits;
  result.is_float = value.is_float;
  result.is_f32_bits = value.is_f32_bits;
  return result;
}

Operand FunctionParser::vector() {
  Operand result;
  result.kind = Kind::Vector;
  reader_.expect('{');
  result.elements.reserve(4);
  do {
    Token at = reader_.token();
    if (at.is('{') || at.is('[')) reader_.fail(at, "a vector holds registers and constants only");
    result.elements.push_back(operand(Opcode::mov));
    if (result.elements.back().kind == Kind::Vector)  // a vector register
      reader_.fail(at, "a vector holds registers and constants only");
    if (result.elements.size() > kMostElements) reader_.fail(at, "too many elements in a vector");
  } while (reader_.accept(','));
  reader_.expect('}');
  return result;
}

// [base], [base+offset], [base, {coordinates}], [base, sampler, {coordinates}]
Operand FunctionParser::address() {
  Operand result;
  reader_.expect('[');
  if (reader_.is_name() && reader_.token().text != "WARP_SZ") {
    Token name = reader_.take();
    Operand base = resolve(name);
    if (base.kind == Kind::Register) {
      result.base = Operand::Base::Register;
      result.index = base.index;
    } else if (base.kind == Kind::Symbol) {
      result.base = Operand::Base::Symbol;
      result.symbol = base.symbol;
    } else {
      reader_.fail(name, fmt::format("{} is not an address", quote(name)));
    }
    if (reader_.is('+') || reader_.is('-')) result.offset = reader_.integer("an offset");
  } else {
    result.base = Operand::Base::Immediate;
    result.bits = static_cast<uint64_t>(reader_.integer("an address"));
  }
  result.kind = Kind::Address;
  while (reader_.accept(',')) {
    Token at = reader_.token();
    if (at.is('[') || result.elements.size() == 2) reader_.fail_expected("coordinates in braces and ']'");
    result.elements.push_back(operand(Opcode::tex));
  }
  reader_.expect(']');
  if (reader_.accept_dotted(".unified")) result.is_unified = true;
  return result;
}

// A register, special register, symbol, label or `_`, with what may follow it.
Operand FunctionParser::name_operand(Opcode opcode) {
  Token name = reader_.take();
  Operand result;
  if (name.text == "_") {
    result.kind = Kind::Sink;
  } else if (opcode == Opcode::bra) {
    result.kind = Kind::Label;
    label_scopes_.back().pending.push_back({name, static_cast<uint32_t>(function_.body.size()), 0, 0});
    return result;
  } else {
    result = resolve(name);
  }
  if (result.kind == Kind::Symbol) {
    symbol_offset(result, opcode);
    return result;
  }
  if (reader_.is_dotted() && reader_.touches(name))
    suffixes(result, name);
  else if (result.kind == Kind::Special && components_of(result.special) > 1)
    reader_.fail(name, fmt::format("{} needs .x, .y, .z or .w", quote(name)));
  if (reader_.accept('|')) pair(result);
  return result;
}

Operand FunctionParser::resolve(const Token& name) {
  Operand result;
  if (const Binding* binding = scopes_.find(name.text)) {
    result.index = binding->index;
    switch (binding->kind) {
      case Binding::Kind::VectorRegister:
        result.kind = Kind::Vector;
        for (uint32_t i = 0; i < binding->width; ++i) {
          Operand element;
          element.kind = Kind::Register;
          element.index = binding->index + i;
          result.elements.push_back(std::move(element));
        }
        result.index = kNone;
        return result;
      case Binding::Kind::Register:
        result.kind = Kind::Register;
        return result;
      default:
        break;
    }
    static constexpr SymbolRef::Kind kKinds[] = {
        SymbolRef::Kind::None,      SymbolRef::Kind::None,
        SymbolRef::Kind::None,      SymbolRef::Kind::FunctionVariable,
        SymbolRef::Kind::Parameter, SymbolRef::Kind::ReturnParameter,
        SymbolRef::Kind::TargetList};
    result.kind = Kind::Symbol;
    result.symbol = {kKinds[static_cast<size_t>(binding->kind)], binding->index};
    result.index = kNone;
    return result;
  }
  if (const SymbolRef* symbol = module_.find_symbol(name.text)) {
    result.kind = Kind::Symbol;
    result.symbol = *symbol;
    return result;
  }
  if (name.text[0] == '%') {
    if (auto special = find_special(name.text.substr(1))) {
      result.kind = Kind::Special;
      result.special = *special;
      return result;
    }
    reader_.fail(name, fmt::format("unknown register {}", quote(name)));
  }
  reader_.fail(name, fmt::format("unknown name {}", quote(name)));
}

void FunctionParser::suffixes(Operand& operand, const Token& name) {
  Token suffix = reader_.take();
  if (operand.kind == Kind::Special || operand.kind == Kind::Vector) return component(operand, suffix);
  if (operand.kind == Kind::Register) return selector(operand, suffix);
  reader_.fail(suffix, fmt::format("{} has no {}", quote(name), quote(suffix)));
}

// .x .y .z .w of a special register or of a vector register; also .r .g .b .a
void FunctionParser::component(Operand& operand, const Token& suffix) {
  static constexpr std::string_view kNames[] = {".x", ".y", ".z", ".w", ".r", ".g", ".b", ".a"};
  size_t which = 0;
  while (which < std::size(kNames) && kNames[which] != suffix.text) ++which;
  size_t limit = operand.kind == Kind::Vector ? operand.elements.size()
                                              : static_cast<size_t>(components_of(operand.special));
  if (which == std::size(kNames) || which % 4 >= limit || limit == 1)
    reader_.fail(suffix, fmt::format("unknown component {}", quote(suffix)));
  if (operand.kind == Kind::Vector) {
    Operand element = operand.elements[which % 4];
    operand = std::move(element);
  } else {
    operand.component = static_cast<uint8_t>(which % 4);
  }
}

// .b0 … .b3, .h0, .h1 of the scalar video instructions; .h10, .b3210 and the like of the SIMD ones.
void FunctionParser::selector(Operand& operand, const Token& suffix) {
  std::string_view text = suffix.text.substr(1);
  std::string_view digits = text.substr(1);
  bool halves = text[0] == 'h';
  bool good = (halves || text[0] == 'b') && !digits.empty() && digits.size() <= (halves ? 2u : 4u);
  for (char c : digits) good = good && c >= '0' && c <= (halves ? '3' : '7');
  if (good && digits.size() == 1) good = digits[0] <= (halves ? '1' : '3');
  if (!good) reader_.fail(suffix, fmt::format("unknown selector {}", quote(suffix)));
  operand.offset = static_cast<int64_t>(digits.size());
  for (char c : digits) operand.bits = operand.bits << 4 | static_cast<uint64_t>(c - '0');
  if (digits.size() == 1) {
    operand.component = static_cast<uint8_t>(1 + operand.bits + (halves ? 4 : 0));
  } else {
    operand.component = halves ? 7 : 8;
  }
}

void FunctionParser::pair(Operand& operand) {
  Token name = reader_.expect_name("a register");
  if (name.text == "_") {
    operand.sink_pair = true;
    return;
  }
  const Binding* binding = scopes_.find(name.text);
  if (!binding || binding->kind != Binding::Kind::Register)
    reader_.fail(name, fmt::format("unknown register {}", quote(name)));
  operand.pair = binding->index;
}

// symbol+offset, or symbol[index], which counts elements and is a place in memory except in moves.
void FunctionParser::symbol_offset(Operand& operand, Opcode opcode) {
  if (reader_.is('+') || reader_.is('-')) {
    operand.offset = reader_.integer("an offset");
  } else if (reader_.accept('[')) {
    auto index = static_cast<uint64_t>(reader_.integer("an index"));
    operand.offset = static_cast<int64_t>(index * element_size(operand.symbol));
    reader_.expect(']');
    if (opcode == Opcode::mov || opcode == Opcode::cvta) return;
    operand.kind = Kind::Address;
    operand.base = Operand::Base::Symbol;
  }
}

uint64_t FunctionParser::element_size(const SymbolRef& symbol) const {
  switch (symbol.kind) {
    case SymbolRef::Kind::ModuleVariable:
      return size_of(module_.module().variables[symbol.index].type);
    case SymbolRef::Kind::FunctionVariable:
      return size_of(function_.variables[symbol.index].type);
    case SymbolRef::Kind::Parameter:
      return size_of(function_.parameters[symbol.index].type);
    case SymbolRef::Kind::ReturnParameter:
      return size_of(function_.returns[symbol.index].type);
    default:
      return 1;
  }
}

}  // namespace assay::ptx
