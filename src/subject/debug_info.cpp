// A debugging information entry (DIE) is a number that names an abbreviation (a tag, and a list of attributes
// with the form of each), the values of those attributes, and, where the abbreviation says so, children up to
// an entry of number zero. Whatever is not understood ends the reading: nothing is better than a guess.
#include "subject/debug_info.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

namespace assay::subject {

namespace {

// Of the standard, chapter 7.5.
enum Tag : uint64_t {
  kEnumeration = 0x04,
  kFormalParameter = 0x05,
  kPointer = 0x0f,
  kReference = 0x10,
  kCompileUnit = 0x11,
  kTypedef = 0x16,
  kUnspecifiedParameters = 0x18,
  kBaseType = 0x24,
  kConst = 0x26,
  kSubprogram = 0x2e,
  kVolatile = 0x35,
  kRestrict = 0x37,
  kNamespace = 0x39,
  kRvalueReference = 0x42,
};
enum Attribute : uint64_t {
  kSibling = 0x01,
  kName = 0x03,
  kByteSize = 0x0b,
  kAbstractOrigin = 0x31,
  kDeclLine = 0x3b,
  kDeclaration = 0x3c,
  kEncoding = 0x3e,
  kExternal = 0x3f,
  kSpecification = 0x47,
  kType = 0x49,
  kLinkageName = 0x6e,
};
constexpr uint64_t kFloatEncoding = 0x04;
constexpr uint64_t kImplicitConstant = 0x21;  // a form
constexpr int kDeepest = 32;                  // of types within types; more is a loop

class Cursor {
 public:
  Cursor(std::string_view bytes, uint64_t at) : bytes_(bytes), at_(at) {}

  template <class T>
  uint64_t fixed() {
    T value{};
    if (at_ > bytes_.size() || bytes_.size() - at_ < sizeof(T)) {
      fail();
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  uint64_t number() {  // LEB128
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = fixed<uint8_t>();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }
  std::string_view text() {
    const std::size_t end = at_ < bytes_.size() ? bytes_.find('\0', at_) : std::string_view::npos;
    if (end == std::string_view::npos) {
      fail();
      return {};
    }
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  void skip(uint64_t size) {
    if (size > bytes_.size() || at_ > bytes_.size() - size) return fail();
    at_ += size;
  }
  void fail() {
    failed_ = true;
    at_ = bytes_.size();
  }
  bool failed() const { return failed_; }
  uint64_t at() const { return at_; }

 private:
  std::string_view bytes_;
  uint64_t at_;
  bool failed_ = false;
};

struct Abbreviation {
  uint64_t tag = 0;
  bool has_children = false;
  struct Field {
    uint64_t attribute, form;
    uint64_t constant = 0;  // where the form is that of a value in the abbreviation itself
  };
  std::vector<Field> fields;
};

struct Unit {
  uint64_t start = 0, end = 0, entries = 0;  // in .debug_info
  unsigned version = 0;
  std::map<uint64_t, Abbreviation> abbreviations;
};

struct Die {
  uint64_t at = 0, next = 0;  // where it is, and what comes after its attributes
  uint64_t tag = 0;           // 0: the end of a list of children
  bool has_children = false;
  std::string_view name, linkage_name;
  uint64_t sibling = 0, type = 0, origin = 0;  // where these are; 0: none
  uint64_t bytes = 0, encoding = 0, line = 0;
  bool external = false, declaration = false;
};

class Reader {
 public:
  explicit Reader(const fatbinary::ElfFile& library)
      : info_(bytes_of(library, ".debug_info")),
        abbreviations_(bytes_of(library, ".debug_abbrev")),
        strings_(bytes_of(library, ".debug_str")),
        line_strings_(bytes_of(library, ".debug_line_str")) {}

  std::optional<CSignature> find(std::string_view name, bool mangled) {
    std::optional<CSignature> found;
    for (uint64_t at = 0; at < info_.size();) {
      if (!read_unit(at)) return std::nullopt;
      if (!search(unit_.entries, unit_.end, name, mangled, found)) return std::nullopt;
      at = unit_.end;
    }
    return found;
  }

 private:
  static std::string_view bytes_of(const fatbinary::ElfFile& library, std::string_view name) {
    const fatbinary::ElfSection* section = library.section(name);
    return section ? section->bytes : std::string_view();
  }

  bool read_unit(uint64_t at) {
    constexpr uint64_t k64Bit = 0xffffffff;
    constexpr uint64_t kCompile = 1, kPartial = 3;  // kinds of unit
    Cursor cursor(info_, at);
    const uint64_t length = cursor.fixed<uint32_t>();
    if (length == k64Bit) return false;
    unit_ = {.start = at, .end = cursor.at() + length};
    unit_.version = static_cast<unsigned>(cursor.fixed<uint16_t>());
    uint64_t kind = kCompile, abbreviations = 0;
    if (unit_.version == 5) {
      kind = cursor.fixed<uint8_t>();
      cursor.fixed<uint8_t>();  // size of an address
      abbreviations = cursor.fixed<uint32_t>();
    } else if (unit_.version == 4) {
      abbreviations = cursor.fixed<uint32_t>();
      cursor.fixed<uint8_t>();
    } else {
      return false;
    }
    unit_.entries = cursor.at();
    if (cursor.failed() || unit_.end > info_.size() || (kind != kCompile && kind != kPartial)) return false;
    return read_abbreviations(abbreviations);
  }

  bool read_abbreviations(uint64_t at) {
    Cursor cursor(abbreviations_, at);
    while (const uint64_t number = cursor.number()) {
      Abbreviation& one = unit_.abbreviations[number];
      one.tag = cursor.number();
      one.has_children = cursor.fixed<uint8_t>() != 0;
      for (;;) {
        const uint64_t attribute = cursor.number(), form = cursor.number();
        if (cursor.failed()) return false;
        if (attribute == 0 && form == 0) break;
        one.fields.push_back({attribute, form, form == kImplicitConstant ? cursor.number() : 0});
      }
    }
    return !cursor.failed();
  }

  std::optional<Die> read(uint64_t at) {
    Cursor cursor(info_, at);
    Die die{.at = at};
    const uint64_t number = cursor.number();
    if (number != 0) {
      const auto found = unit_.abbreviations.find(number);
      if (found == unit_.abbreviations.end()) return std::nullopt;
      die.tag = found->second.tag;
      die.has_children = found->second.has_children;
      for (const Abbreviation::Field& field : found->second.fields)
        if (!read_field(cursor, field, die)) return std::nullopt;
    }
    die.next = cursor.at();
    if (cursor.failed()) return std::nullopt;
    return die;
  }

  struct Value {
    uint64_t number = 0;
    std::string_view text;
  };

  // Chapter 7.5.5. Numbers are as they stand; references are places in .debug_info.
  std::optional<Value> read_value(Cursor& cursor, const Abbreviation::Field& field) {
    const auto string_at = [](std::string_view strings, uint64_t at) {
      return Value{0, Cursor(strings, at).text()};
    };
    switch (field.form) {
      case 0x01:  // addr
      case 0x07:  // data8
      case 0x20:  // ref_sig8
        return Value{cursor.fixed<uint64_t>()};
      case 0x05:  // data2
        return Value{cursor.fixed<uint16_t>()};
      case 0x06:  // data4
      case 0x17:  // sec_offset
        return Value{cursor.fixed<uint32_t>()};
      case 0x0b:  // data1
      case 0x0c:  // flag
        return Value{cursor.fixed<uint8_t>()};
      case 0x08:  // string
        return Value{0, cursor.text()};
      case 0x0e:  // strp
        return string_at(strings_, cursor.fixed<uint32_t>());
      case 0x1f:  // line_strp
        return string_at(line_strings_, cursor.fixed<uint32_t>());
      case 0x0d:  // sdata
      case 0x0f:  // udata
      case 0x22:  // loclistx
      case 0x23:  // rnglistx
        return Value{cursor.number()};
      case 0x10:  // ref_addr
        return Value{cursor.fixed<uint32_t>()};
      case 0x11:  // ref1
        return Value{unit_.start + cursor.fixed<uint8_t>()};
      case 0x12:  // ref2
        return Value{unit_.start + cursor.fixed<uint16_t>()};
      case 0x13:  // ref4
        return Value{unit_.start + cursor.fixed<uint32_t>()};
      case 0x14:  // ref8
        return Value{unit_.start + cursor.fixed<uint64_t>()};
      case 0x15:  // ref_udata
        return Value{unit_.start + cursor.number()};
      case 0x19:  // flag_present
        return Value{1};
      case kImplicitConstant:
        return Value{field.constant};
      case 0x1e:  // data16
        cursor.skip(16);
        return Value{};
      case 0x09:  // block
      case 0x18:  // exprloc
        cursor.skip(cursor.number());
        return Value{};
      case 0x0a:  // block1
        cursor.skip(cursor.fixed<uint8_t>());
        return Value{};
      case 0x03:  // block2
        cursor.skip(cursor.fixed<uint16_t>());
        return Value{};
      case 0x04:  // block4
        cursor.skip(cursor.fixed<uint32_t>());
        return Value{};
      default:
        return std::nullopt;
    }
  }

  bool read_field(Cursor& cursor, const Abbreviation::Field& field, Die& die) {
    const auto value = read_value(cursor, field);
    if (!value) return false;
    switch (field.attribute) {
      case kName:
        die.name = value->text;
        break;
      case kLinkageName:
        die.linkage_name = value->text;
        break;
      case kSibling:
        die.sibling = value->number;
        break;
      case kType:
        die.type = value->number;
        break;
      case kAbstractOrigin:
      case kSpecification:
        die.origin = value->number;
        break;
      case kByteSize:
        die.bytes = value->number;
        break;
      case kEncoding:
        die.encoding = value->number;
        break;
      case kDeclLine:
        die.line = value->number;
        break;
      case kExternal:
        die.external = value->number != 0;
        break;
      case kDeclaration:
        die.declaration = value->number != 0;
        break;
      default:
        break;
    }
    return true;
  }

  // With what an entry inherits from the declaration, or from the abstract function, that it points to.
  std::optional<Die> whole(uint64_t at) {
    auto die = read(at);
    uint64_t origin = die ? die->origin : 0;
    for (int depth = 0; die && origin != 0 && depth < kDeepest; ++depth) {
      const auto other = in_unit(origin) ? read(origin) : std::nullopt;
      if (!other) return std::nullopt;
      if (die->name.empty()) die->name = other->name;
      if (die->linkage_name.empty()) die->linkage_name = other->linkage_name;
      if (die->type == 0) die->type = other->type;
      if (die->line == 0) die->line = other->line;
      die->external |= other->external;
      origin = other->origin;
    }
    return die;
  }

  bool in_unit(uint64_t at) const { return at >= unit_.entries && at < unit_.end; }

  // What follows an entry and its children; 0: it cannot be told.
  uint64_t after(const Die& die) {
    if (!die.has_children) return die.next;
    if (die.sibling > die.at && die.sibling <= unit_.end) return die.sibling;
    uint64_t at = die.next;
    while (at < unit_.end) {
      const auto child = read(at);
      if (!child) return 0;
      if (child->tag == 0) return child->next;
      at = after(*child);
      if (at == 0) return 0;
    }
    return at;
  }

  // Functions of namespaces included; those within functions and classes cannot be entries.
  bool search(uint64_t at, uint64_t end, std::string_view name, bool mangled,
              std::optional<CSignature>& found) {
    while (at < end) {
      const auto die = read(at);
      if (!die) return false;
      const bool opens = die->tag == kCompileUnit || die->tag == kNamespace;
      if (die->tag == kSubprogram && !die->declaration && !add(*die, name, mangled, found)) return false;
      at = die->tag == 0 || opens ? die->next : after(*die);
      if (at == 0) return false;
    }
    return true;
  }

  // False: another one of this name has been found before, and is not the same.
  bool add(const Die& at, std::string_view name, bool mangled, std::optional<CSignature>& found) {
    const auto die = whole(at.at);
    if (!die || !die->external) return die.has_value();
    const bool wanted = mangled ? die->linkage_name == name || die->name == name
                                : die->name == name && die->linkage_name.empty();
    if (!wanted) return true;
    auto signature = read_signature(*die);
    if (!signature) return false;
    const bool same = !found || same_types(*found, *signature);
    if (!found) found = std::move(signature);
    return same;
  }

  static bool same_types(const CSignature& a, const CSignature& b) {
    if (a.parameters.size() != b.parameters.size()) return false;
    for (std::size_t i = 0; i < a.parameters.size(); ++i)
      if (a.parameters[i].type.text != b.parameters[i].type.text) return false;
    return true;
  }

  std::optional<CSignature> read_signature(const Die& die) {
    CSignature signature{.line = static_cast<int>(die.line)};
    auto result = type_at(die.type, 0);
    if (!result) return std::nullopt;
    signature.result = std::move(*result);
    for (uint64_t at = die.next; die.has_children && at != 0 && at < unit_.end;) {
      const auto child = whole(at);
      if (!child || child->tag == 0) return child ? std::optional(signature) : std::nullopt;
      if (child->tag == kUnspecifiedParameters) signature.variadic = true;
      if (child->tag == kFormalParameter) {
        auto type = type_at(child->type, 0);
        if (!type) return std::nullopt;
        const bool own = !child->name.starts_with("__cuda_");  // names that nvcc gives those of kernels
        signature.parameters.push_back({own ? std::string(child->name) : "", std::move(*type)});
      }
      at = after(*child);
    }
    return signature;
  }

  std::optional<CType> type_at(uint64_t at, int depth) {
    if (at == 0) return CType{.kind = CType::Kind::Void, .text = "void", .name = "void"};
    const auto die = depth < kDeepest && in_unit(at) ? read(at) : std::nullopt;
    if (!die) return std::nullopt;
    const std::string name(die->name);
    CType type{.bytes = static_cast<int>(die->bytes), .text = name, .name = name};
    switch (die->tag) {
      case kBaseType:
        type.kind = die->encoding == kFloatEncoding ? CType::Kind::Float : CType::Kind::Integer;
        return type;
      case kEnumeration:
        type.kind = CType::Kind::Integer;
        return type;
      case kPointer:
      case kReference:
      case kRvalueReference: {
        auto pointee = type_at(die->type, depth + 1);
        if (!pointee) return std::nullopt;
        type.kind = die->tag == kPointer ? CType::Kind::Pointer : CType::Kind::Reference;
        type.text = pointee->text + (die->tag == kPointer ? "*" : die->tag == kReference ? "&" : "&&");
        type.pointee = std::make_shared<const CType>(std::move(*pointee));
        return type;
      }
      case kTypedef: {
        auto meant = type_at(die->type, depth + 1);
        if (meant) meant->text = die->name;
        return meant;
      }
      case kConst:
      case kVolatile:
      case kRestrict: {
        auto plain = type_at(die->type, depth + 1);
        if (!plain || die->tag != kConst) return plain;
        const bool address = plain->kind == CType::Kind::Pointer && plain->text.ends_with('*');
        plain->text = address ? plain->text + " const" : "const " + plain->text;
        plain->is_const = true;
        return plain;
      }
      default:
        type.kind = CType::Kind::Other;
        return type;
    }
  }

  std::string_view info_, abbreviations_, strings_, line_strings_;
  Unit unit_;
};

}  // namespace

std::optional<CSignature> signature_of(const fatbinary::ElfFile& library, std::string_view name,
                                       bool mangled) {
  return Reader(library).find(name, mangled);
}

}  // namespace assay::subject
