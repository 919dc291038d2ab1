#include "ptx/declarations.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace assay::ptx {
namespace {

constexpr std::pair<std::string_view, Space> kSpaces[] = {
    {".global", Space::Global}, {".shared", Space::Shared},      {".local", Space::Local},
    {".const", Space::Const},   {".param", Space::Param},        {".reg", Space::None},
    {".tex", Space::Global},    {".shared::cta", Space::Shared},
};
constexpr size_t kMostDimensions = 16;

double real_value(const Constant& value) {
  if (value.is_f32_bits) return std::bit_cast<float>(static_cast<uint32_t>(value.bits));
  if (value.is_float) return std::bit_cast<double>(value.bits);
  return value.is_unsigned ? static_cast<double>(value.bits)
                           : static_cast<double>(static_cast<int64_t>(value.bits));
}

}  // namespace

std::optional<Space> space_of(std::string_view directive) {
  for (auto [text, space] : kSpaces)
    if (text == directive) return space;
  return std::nullopt;
}

std::string_view directive_of(Space space) {
  for (auto [text, candidate] : kSpaces)
    if (candidate == space) return text;
  return "";
}

uint32_t DeclarationParser::alignment() {
  Token at = reader_.token();
  uint64_t value = reader_.count("an alignment", kLargestAlignment);
  if (!std::has_single_bit(value)) reader_.fail(at, "an alignment must be a power of two");
  return static_cast<uint32_t>(value);
}

void DeclarationParser::attribute(Variable* variable) {
  reader_.expect('(');
  do {
    if (!reader_.is_dotted()) reader_.fail_expected("an attribute");
    Token name = reader_.take();
    if (name.text == ".managed") {
      if (variable) variable->is_managed = true;
    } else if (name.text != ".unified") {
      reader_.fail(name, fmt::format("unknown attribute {}", quote(name)));
    }
    if (reader_.accept('(')) {
      do reader_.constant();
      while (reader_.accept(','));
      reader_.expect(')');
    }
  } while (reader_.accept(','));
  reader_.expect(')');
}

Declarator DeclarationParser::specifiers(Space space) {
  Declarator result;
  Variable& variable = result.prototype;
  variable.space = space;
  bool pointee = false, aligned = false;
  while (reader_.is_dotted()) {
    Token word = reader_.take();
    if (word.text == ".align") {
      (pointee ? variable.pointee_align : variable.align) = alignment();
      aligned = aligned || !pointee;
    } else if (word.text == ".attribute") {
      attribute(&variable);
    } else if (word.text == ".ptr") {
      pointee = variable.is_pointer = true;
      variable.pointee_space = Space::Generic;
    } else if (word.text == ".v2" || word.text == ".v4" || word.text == ".v8") {
      result.vector = static_cast<uint32_t>(word.text[2] - '0');
    } else if (pointee && space_of(word.text)) {
      variable.pointee_space = *space_of(word.text);
    } else if (auto type = find_type(word.text.substr(1)); type && variable.type == Type::None) {
      variable.type = *type;
    } else {
      reader_.fail(word, fmt::format("expected a type, found {}", quote(word)));
    }
  }
  if (variable.type == Type::None) reader_.fail_expected("a type");
  uint32_t natural = std::max(1u, size_of(variable.type)) * result.vector;
  if (!aligned) variable.align = std::min(natural, 128u);
  return result;
}

void DeclarationParser::array_bounds(Variable& variable, uint64_t element_size, bool is_parameter) {
  bounds_.clear();
  uint64_t size = element_size;
  while (reader_.is('[')) {
    Token open = reader_.take();
    uint64_t bound = 0;
    if (reader_.is(']')) {
      if (!bounds_.empty()) reader_.fail(open, "only the first dimension of an array may be left open");
      variable.is_unsized = true;
    } else {
      bound = reader_.count("an array bound", kLargestVariable);
    }
    reader_.expect(']');
    bounds_.push_back(bound);
    if (bounds_.size() > kMostDimensions) reader_.fail(open, "too many array dimensions");
    if (bound != 0 && size > kLargestVariable / bound) reader_.fail(open, "the array is too large");
    if (bound != 0 || !variable.is_unsized || bounds_.size() > 1) size *= bound;
  }
  variable.size = variable.is_unsized ? 0 : size;
  if (variable.is_unsized && is_parameter) variable.size = 0;
}

Variable DeclarationParser::declare(const Declarator& declarator) {
  Variable variable = declarator.prototype;
  Token name = reader_.expect_name("a name");
  variable.name = name.text;
  variable.declared_line = name.line;
  vector_ = declarator.vector;
  array_bounds(variable, uint64_t{size_of(variable.type)} * declarator.vector,
               variable.space == Space::Param);
  return variable;
}

Variable DeclarationParser::parameter() {
  if (!reader_.is_dotted(".param") && !reader_.is_dotted(".reg")) reader_.fail_expected("'.param' or '.reg'");
  Space space = reader_.take().text == ".param" ? Space::Param : Space::None;
  Variable variable = declare(specifiers(space));
  return variable;
}

void DeclarationParser::initialiser(Variable& variable) {
  if (!reader_.accept('=')) return;
  if (kind_of(variable.type) == TypeKind::Opaque) {
    reader_.skip_braces();
    return;
  }
  uint64_t element = size_of(variable.type);
  if (vector_ > 1) bounds_.push_back(vector_);
  if (!reader_.is('{')) {
    init_element(variable, 0);
  } else if (variable.is_unsized) {
    uint64_t row = element;
    for (size_t i = 1; i < bounds_.size(); ++i) row *= bounds_[i];
    init_list(variable, 0, 0, row == 0 ? 0 : kLargestVariable / row * row);
    uint64_t rows = row == 0 ? 0 : (variable.init.size() + row - 1) / row;
    variable.size = rows * row;
  } else {
    init_list(variable, 0, 0, variable.size);
  }
  if (variable.size != 0) variable.is_unsized = false;
  bool zero = variable.relocations.empty();
  for (uint8_t byte : variable.init) zero = zero && byte == 0;
  if (zero) variable.init.clear();
}

// One braced list; `extent` bytes from `offset` belong to it. Rows may be nested braces or flat.
void DeclarationParser::init_list(Variable& variable, size_t dimension, uint64_t offset, uint64_t extent) {
  Token open = reader_.token();
  reader_.expect('{');
  uint64_t element = size_of(variable.type);
  uint64_t row = element;
  for (size_t i = dimension + 1; i < bounds_.size(); ++i) row *= bounds_[i];
  uint64_t end = offset + extent;
  while (!reader_.is('}')) {
    Token at = reader_.token();
    if (reader_.is('{')) {
      if (dimension + 1 >= std::max<size_t>(bounds_.size(), 1))
        reader_.fail(at, "more braces than dimensions");
      if (row == 0 || offset + row > end) reader_.fail(at, "more initialisers than elements");
      init_list(variable, dimension + 1, offset, row);
      offset += row;
    } else {
      if (offset + element > end) reader_.fail(at, "more initialisers than elements");
      init_element(variable, offset);
      offset += element;
    }
    if (!reader_.accept(',')) break;
  }
  if (!reader_.is('}')) {
    if (reader_.at_end()) reader_.fail(open, "'{' without its '}'");
    reader_.fail_expected("',' or '}'");
  }
  reader_.advance();
}

void DeclarationParser::store(Variable& variable, uint64_t offset, uint64_t bits) {
  uint64_t size = size_of(variable.type), end = offset + size;
  uint64_t limit = std::max<uint64_t>(uint64_t{16} << 20, uint64_t{16} * text_size_);
  if (end > limit) reader_.fail(reader_.token(), "the initialiser is too far into the array");
  if (variable.init.size() < end) variable.init.resize(end);
  for (uint64_t i = 0; i < std::min<uint64_t>(size, 8); ++i)
    variable.init[offset + i] = static_cast<uint8_t>(bits >> (8 * i));
}

void DeclarationParser::init_element(Variable& variable, uint64_t offset) {
  if (reader_.is_name() && reader_.token().text != "WARP_SZ")
    return init_symbol(variable, offset, ~uint64_t{0});
  Token at = reader_.token();
  Constant value = reader_.constant();
  if (reader_.is('(') && !value.is_float) {  // 0xff00(symbol)
    reader_.advance();
    if (reader_.is_name() && reader_.token().text != "WARP_SZ") {
      init_symbol(variable, offset, value.bits);
    } else if (value.bits == 0) {
      reader_.fail(at, "a mask must not be zero");
    } else {
      uint64_t masked = static_cast<uint64_t>(reader_.integer("a masked constant")) & value.bits;
      store(variable, offset, masked >> (static_cast<uint32_t>(std::countr_zero(value.bits)) & ~7u));
    }
    reader_.expect(')');
    return;
  }
  store(variable, offset, init_image(variable, at, value));
}

uint64_t DeclarationParser::init_image(const Variable& variable, const Token& at, const Constant& value) {
  if (variable.type == Type::F32) {
    if (value.is_f32_bits) return value.bits;
    return std::bit_cast<uint32_t>(static_cast<float>(real_value(value)));
  }
  if (variable.type == Type::F64) return std::bit_cast<uint64_t>(real_value(value));
  if (!value.is_float) return value.bits;
  if (kind_of(variable.type) == TypeKind::Bits) {
    if (size_of(variable.type) == 4 && value.is_f32_bits) return value.bits;
    if (size_of(variable.type) == 8) return std::bit_cast<uint64_t>(real_value(value));
  }
  reader_.fail(at, fmt::format("a floating-point constant cannot initialise .{}", name(variable.type)));
}

void DeclarationParser::init_symbol(Variable& variable, uint64_t offset, uint64_t mask) {
  Token name = reader_.expect_name("a symbol");
  bool generic = false;
  if (name.text == "generic" && reader_.is('(')) {
    reader_.advance();
    name = reader_.expect_name("a symbol");
    generic = true;
  }
  int64_t addend = 0;
  auto read_addend = [&] {
    if (reader_.is('+') || reader_.is('-')) addend = reader_.integer("an offset");
  };
  read_addend();
  if (generic) {
    reader_.expect(')');
    if (addend == 0) read_addend();
  }
  if (mask == 0) reader_.fail(name, "the mask of an address must not be zero");
  uint32_t size = size_of(variable.type);
  uint32_t shift = static_cast<uint32_t>(std::countr_zero(mask)) & ~7u;
  variable.relocations.push_back({offset, size, std::string(name.text), addend, generic, shift});
  store(variable, offset, 0);
}

}  // namespace assay::ptx
