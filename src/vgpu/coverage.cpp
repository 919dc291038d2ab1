#include "vgpu/coverage.h"

#include <algorithm>

#include "vgpu/program.h"

namespace assay::vgpu {

namespace {

using ptx::Operand;
using ptx::OperandKind;
using Kind = ptx::Operand::Kind;

// Registers of every width that an operand may need; the first of each is enough.
constexpr ptx::Type kRegisterTypes[] = {ptx::Type::Pred, ptx::Type::B16, ptx::Type::B32, ptx::Type::B64,
                                        ptx::Type::B128};
enum Width : uint32_t { Predicate, Bits16, Bits32, Bits64, Bits128 };

Width width_of(ptx::Type type) {
  switch (ptx::bits_of(type)) {
    case 64:
      return Bits64;
    case 128:
      return Bits128;
    case 8:
    case 16:
      return Bits16;
    default:
      return type == ptx::Type::Pred ? Predicate : Bits32;
  }
}

Operand register_of(Width width) {
  Operand operand;
  operand.kind = Kind::Register;
  operand.index = width;
  return operand;
}

Operand vector_of(Width width, size_t length) {
  Operand operand;
  operand.kind = Kind::Vector;
  operand.elements.assign(length, register_of(width));
  return operand;
}

Operand address() {
  Operand operand;
  operand.kind = Kind::Address;
  operand.base = Operand::Base::Register;
  operand.index = Bits64;
  return operand;
}

bool is_control(OperandKind kind) {
  return kind == OperandKind::Label || kind == OperandKind::TargetList || kind == OperandKind::Callee ||
         kind == OperandKind::Arguments;
}

// Lengths of the vectors: what .v2 and its like say; a matrix's fragment may have any.
std::vector<size_t> lengths_of(const ptx::Form& form) {
  for (const ptx::Mod mod : form.mods) {
    if (mod == ptx::Mod::v2) return {2};
    if (mod == ptx::Mod::v4) return {4};
    if (mod == ptx::Mod::v8) return {8};
    if (mod == ptx::Mod::x1) return {1};
    if (mod == ptx::Mod::x2) return {2};
    if (mod == ptx::Mod::x4) return {4};
  }
  return {1, 2, 4, 8};
}

bool has_vector_modifier(const ptx::Form& form) {
  return !form.row->operands.empty() && lengths_of(form).size() == 1;
}

// One way to write the operands of a form.
struct Choice {
  std::vector<size_t> lengths;  // of each vector, in order
  bool with_optional = true;
  uint64_t constant = 1;
  bool wide = false;  // values whose type the form does not say are addresses
};

class Writer {
 public:
  Writer(const ptx::Form& form, const Choice& choice) : form_(form), choice_(choice) {}

  std::vector<Operand> operands() {
    std::vector<Operand> all;
    for (const ptx::OperandPattern& pattern : form_.row->operands) {
      if (pattern.optional && !choice_.with_optional) continue;
      if (pattern.kind == OperandKind::CachePolicy && !has_hint()) continue;
      all.push_back(one(pattern, all.empty()));
    }
    return all;
  }

 private:
  const ptx::Form& form_;
  const Choice& choice_;
  size_t vectors_ = 0;

  bool has_hint() const {
    return std::find(form_.mods.begin(), form_.mods.end(), ptx::Mod::L2_cache_hint) != form_.mods.end();
  }
  // The destination has the first type, what is read the last one.
  Width width(bool first) const {
    if (form_.types.empty()) return choice_.wide ? Bits64 : Bits32;
    return width_of(first ? form_.types.front() : form_.types.back());
  }
  Operand next_vector(bool first) {
    const size_t length = vectors_ < choice_.lengths.size() ? choice_.lengths[vectors_] : 1;
    ++vectors_;
    const Width bits = width(first);
    return vector_of(bits == Bits16 || bits == Predicate ? Bits32 : bits, length);
  }

  Operand one(const ptx::OperandPattern& pattern, bool first) {
    Operand operand;
    switch (pattern.kind) {
      case OperandKind::PredicateResult:
      case OperandKind::Predicate:
        operand = register_of(Predicate);
        break;
      case OperandKind::Vector:
        operand = next_vector(first);
        break;
      case OperandKind::DestinationOrVector:
      case OperandKind::ValueOrVector:
        operand = has_vector_modifier(form_) ? next_vector(first) : register_of(width(first));
        break;
      case OperandKind::Constant:
        operand.kind = Kind::Immediate;
        operand.bits = choice_.constant;
        break;
      case OperandKind::Address:
      case OperandKind::ValueOrAddress:
        operand = address();
        break;
      case OperandKind::Coordinates:
      case OperandKind::SampledCoordinates:
        operand = address();
        operand.elements.push_back(vector_of(Bits32, 2));
        break;
      case OperandKind::CachePolicy:
        operand = register_of(Bits64);
        break;
      case OperandKind::Dropped:
        operand.kind = Kind::Sink;
        break;
      default:
        operand = register_of(width(first));
        break;
    }
    if (pattern.pair == ptx::OperandPattern::Pair::Required) operand.pair = Predicate;
    return operand;
  }
};

size_t vectors_in(const ptx::Form& form) {
  size_t count = 0;
  for (const ptx::OperandPattern& pattern : form.row->operands)
    count +=
        pattern.kind == OperandKind::Vector ||
        ((pattern.kind == OperandKind::DestinationOrVector || pattern.kind == OperandKind::ValueOrVector) &&
         has_vector_modifier(form));
  return count;
}

// Every choice of lengths for the vectors of a form.
std::vector<std::vector<size_t>> all_lengths(const ptx::Form& form) {
  const std::vector<size_t> lengths = lengths_of(form);
  std::vector<std::vector<size_t>> all{{}};
  for (size_t v = vectors_in(form); v > 0; --v) {
    std::vector<std::vector<size_t>> longer;
    for (const auto& some : all)
      for (const size_t length : lengths) {
        longer.push_back(some);
        longer.back().push_back(length);
      }
    all = std::move(longer);
  }
  return all;
}

// Every way to write a form's operands that may make a difference.
std::vector<Choice> choices_of(const ptx::Form& form) {
  const auto& operands = form.row->operands;
  const auto has = [&](auto&& test) { return std::any_of(operands.begin(), operands.end(), test); };
  const bool optional = has([](const ptx::OperandPattern& o) { return o.optional; });
  const bool constant = has([](const ptx::OperandPattern& o) { return o.kind == OperandKind::Constant; });
  std::vector<Choice> choices;
  for (const auto& lengths : all_lengths(form))
    for (const bool with_optional : {false, true})
      for (const uint64_t value : {1, 4, 16})
        for (const bool wide : {false, true})
          if ((optional || !with_optional) && (constant || value == 1) && (form.types.empty() || !wide))
            choices.push_back({lengths, with_optional, value, wide});
  return choices;
}

}  // namespace

struct Coverage::Impl {
  Memory memory{uint64_t{1} << 20, false};
  const Engine& engine_used = engine(false);

  bool runs(const ptx::Form& form, const Choice& choice) {
    ptx::Module module;
    ptx::Function& function = module.functions.emplace_back();
    function.name = "form";
    function.is_entry = true;
    for (const ptx::Type type : kRegisterTypes) function.registers.push_back({.name = "%r", .type = type});
    ptx::Instruction inst;
    inst.opcode = form.row->opcode;
    inst.form = form.row->index;
    inst.mods = form.mods;
    inst.types = form.types;
    inst.operands = Writer(form, choice).operands();
    if (!ptx::match_operands(*form.row, inst.mods, inst.operands)) return false;
    function.body.push_back(std::move(inst));
    const auto program = decode(std::move(module), "form", memory, engine_used);
    return program && (*program)->functions.front().unsupported.empty();
  }
};

Coverage::Coverage() : impl_(std::make_unique<Impl>()) {}
Coverage::~Coverage() = default;

bool Coverage::runs(const ptx::Form& form) {
  if (impl_->engine_used.by_opcode[static_cast<size_t>(form.row->opcode)] == nullptr) return false;
  const auto& operands = form.row->operands;
  // What a branch or a call leads to is another matter: these run as opcodes.
  if (std::any_of(operands.begin(), operands.end(), [](const auto& o) { return is_control(o.kind); }))
    return true;
  for (const Choice& choice : choices_of(form))
    if (impl_->runs(form, choice)) return true;
  return false;
}

}  // namespace assay::vgpu
