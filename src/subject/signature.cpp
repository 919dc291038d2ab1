#include "subject/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "subject/source_text.h"

namespace assay::subject {

using contract::ArgKind;
using contract::Contract;
using contract::DType;
using Kind = CType::Kind;

namespace {

constexpr int kAddress = 8;  // bytes

bool is_value(const CType& type) {
  return type.kind == Kind::Integer || type.kind == Kind::Float;
}

bool is_address(const CType& type) {
  return type.kind == Kind::Pointer || type.kind == Kind::Reference;
}

// The floating-point dtype of a C type's elements; none for what has no such.
std::optional<DType> float_format(const CType& type) {
  constexpr std::pair<std::string_view, DType> kFormats[] = {
      {"float", DType::f32},          {"double", DType::f64},         {"__half", DType::f16},
      {"__nv_bfloat16", DType::bf16}, {"__nv_fp8_e4m3", DType::e4m3}, {"__nv_fp8_e5m2", DType::e5m2},
  };
  for (const auto& [name, dtype] : kFormats)
    if (type.name == name) return dtype;
  return std::nullopt;
}

std::string name_of(DType dtype) {
  return std::string(contract::info(dtype).name);
}

// Why a pointer to elements of this type cannot be one to elements of the dtype. Copies of the same size
// preserve every bit, and integers are how raw bits of floats are passed.
bool wrong_elements(const CType& pointee, DType dtype) {
  if (contract::info(dtype).bits < 8) return false;  // whatever holds several of them
  const int bytes = contract::info(dtype).bytes;
  if (const auto format = float_format(pointee))
    return *format != dtype && contract::info(*format).bytes != bytes;
  const bool wide = (pointee.bytes == 4 && bytes == 8) || (pointee.bytes == 8 && bytes == 4);
  return pointee.kind == Kind::Integer && !contract::is_float(dtype) && wide;
}

std::string integer_type(int bytes, DType dtype) {
  const bool is_signed = contract::info(dtype).min_integer < 0;
  return fmt::format("{}{}", is_signed ? "i" : "u", 8 * bytes);
}

class Comparison {
 public:
  Comparison(const Contract& contract, const std::vector<std::string>& sources)
      : contract_(contract), raw_(std::any_of(sources.begin(), sources.end(), [](const std::string& text) {
          return reinterprets_memory(text);
        })) {}

  // "…, but the contract passes …; write …"; empty: it fits.
  std::string argument(const contract::Arg& arg, const CType& type) const {
    switch (arg.kind) {
      case ArgKind::Tensor:
        return tensor(*contract_.tensor(arg.name), type);
      case ArgKind::Workspace:
        return address("the workspace's address", type);
      case ArgKind::Buffer:
        return address(fmt::format("the address of the buffer {}", arg.name), type);
      case ArgKind::Complex:
        return complex_value(arg.name, type);
      case ArgKind::Stream:
        return stream(type);
      case ArgKind::Dim: {
        const contract::Dim& dim = *contract_.dim(arg.name);
        return integer(fmt::format("dim {}", dim.name), dim.type, type,
                       fmt::format("write type = \"{{}}\" in [dims] {}", dim.name));
      }
      case ArgKind::Integer:
        return integer(
            fmt::format("`{}`", arg.name), arg.type, type,
            contract_.derived_dim(arg.name)
                ? fmt::format("write {0} = {{{{ value = ..., type = \"{{}}\" }}}} in [dims]", arg.name)
                : fmt::format("write \"{{}}({})\"", arg.name));
      case ArgKind::Scalar: {
        const contract::ScalarSpec& scalar = *contract_.scalar(arg.name);
        const std::string what = fmt::format("scalar {}", scalar.name);
        const std::string advice = fmt::format("write dtype = \"{{}}\" in [scalars.{}]", scalar.name);
        return contract::is_float(scalar.dtype) ? real(what, scalar.dtype, type, advice)
                                                : integer(what, scalar.dtype, type, advice);
      }
    }
    return "";
  }

 private:
  static bool is_stream(const CType& type) {
    return type.kind == Kind::Pointer && type.pointee->name == "CUstream_st";
  }

  // An address fits into any 64-bit integer.
  static std::string address(std::string_view what, const CType& type) {
    const bool fits = !is_value(type) || (type.kind == Kind::Integer && type.bytes == kAddress);
    return fits && !is_stream(type) ? "" : fmt::format("the contract passes {}", what);
  }

  static std::string stream(const CType& type) {
    const bool points = type.kind == Kind::Pointer;
    const bool to_bytes = points && type.pointee->kind == Kind::Integer && type.pointee->bytes == 1;
    const bool to_numbers =
        points && !to_bytes && (is_value(*type.pointee) || float_format(*type.pointee).has_value());
    const bool fits = !is_value(type) || (type.kind == Kind::Integer && type.bytes == kAddress);
    return fits && !to_numbers ? "" : "the contract passes the stream";
  }

  std::string tensor(const contract::TensorSpec& spec, const CType& type) const {
    if (std::string why = address(fmt::format("the address of tensor {}", spec.name), type); !why.empty())
      return why;
    if (!is_address(type) || raw_) return "";
    const CType& pointee = *type.pointee;
    const bool to_pointers = pointee.kind == Kind::Pointer;
    if (spec.pointers && !to_pointers && is_value(pointee) && pointee.bytes != kAddress)
      return fmt::format("tensor {} is behind an array of pointers", spec.name);
    if (!spec.pointers && to_pointers)
      return fmt::format(
          "tensor {} is one tensor; write pointers = true in [tensors.{}] to pass an array of pointers",
          spec.name, spec.name);
    if (spec.pointers) return to_pointers ? elements(spec, *pointee.pointee) : "";
    return elements(spec, pointee);
  }

  static std::string elements(const contract::TensorSpec& spec, const CType& pointee) {
    if (wrong_elements(pointee, spec.dtype)) {
      const auto format = float_format(pointee);
      return fmt::format("tensor {} is {}; write dtype = \"{}\" in [tensors.{}]", spec.name,
                         name_of(spec.dtype),
                         format ? name_of(*format) : integer_type(pointee.bytes, spec.dtype), spec.name);
    }
    if (spec.is_output() && pointee.is_const)
      return fmt::format("tensor {} is an output, which it could not write", spec.name);
    return "";
  }

  // A struct of two floats, which no integer and no single float is.
  static std::string complex_value(const std::string& name, const CType& type) {
    if (!is_value(type) && !is_address(type)) return "";
    return fmt::format("the contract passes scalar {} as c64, two floats in one value", name);
  }

  // `advice` has a place for the type to write.
  static std::string integer(const std::string& what, DType dtype, const CType& type,
                             const std::string& advice) {
    const int bytes = contract::info(dtype).bytes;
    std::string passes = fmt::format("the contract passes {} as {}", what, name_of(dtype));
    if (is_address(type) || type.kind == Kind::Float) return passes;
    const bool differs = (bytes == 4 && type.bytes == 8) || (bytes == 8 && type.bytes == 4);
    if (type.kind != Kind::Integer || !differs) return "";
    return fmt::format("{}; {}", passes, fmt::format(fmt::runtime(advice), integer_type(type.bytes, dtype)));
  }

  static std::string real(const std::string& what, DType dtype, const CType& type,
                          const std::string& advice) {
    std::string passes = fmt::format("the contract passes {} as {}", what, name_of(dtype));
    const bool in_float_register = dtype == DType::f32 || dtype == DType::f64;
    if (is_address(type)) return passes;
    if (type.kind == Kind::Integer) return in_float_register ? passes : "";
    if (type.kind != Kind::Float || type.bytes == contract::info(dtype).bytes) return "";
    const auto format = float_format(type);
    if (!format) return passes;
    return fmt::format("{}; {}", passes, fmt::format(fmt::runtime(advice), name_of(*format)));
  }

  const Contract& contract_;
  bool raw_;  // the source converts pointers
};

// What a call would take for the returned error code.
std::string wrong_result(const Contract& contract, const CType& result) {
  constexpr int kInt = 4;
  if (!contract.kernel.returns_int) return "";
  if (result.kind == Kind::Integer && result.bytes >= kInt) return "";
  if (result.kind == Kind::Other) return "";
  return fmt::format("returns {}, but the contract says returns = \"int\"", result.text);
}

std::string names_of(const CSignature& signature) {
  std::string names;
  for (const CParameter& parameter : signature.parameters)
    names += (names.empty() ? "" : ", ") + (parameter.name.empty() ? parameter.type.text : parameter.name);
  return names;
}

}  // namespace

CSignature signature_of(const ptx::Function& kernel) {
  CSignature signature;
  signature.line = static_cast<int>(kernel.line);
  signature.result = {.kind = Kind::Void, .text = "void", .name = "void"};
  for (const ptx::Variable& parameter : kernel.parameters) {
    CType type{.bytes = static_cast<int>(parameter.size),
               .text = fmt::format(".{}", ptx::name(parameter.type))};
    const ptx::TypeKind kind = ptx::kind_of(parameter.type);
    if (kind == ptx::TypeKind::Signed || kind == ptx::TypeKind::Unsigned) type.kind = Kind::Integer;
    if (parameter.type == ptx::Type::F32) type.kind = Kind::Float, type.name = "float";
    if (parameter.type == ptx::Type::F64) type.kind = Kind::Float, type.name = "double";
    if (parameter.size != ptx::size_of(parameter.type)) type.kind = Kind::Other;  // an array: a struct
    signature.parameters.push_back({parameter.name, std::move(type)});
  }
  return signature;
}

bool reinterprets_memory(std::string_view source) {
  // Memcpy and its like, and void*, take any pointer; "*>(" is a cast to one.
  constexpr std::array<std::string_view, 9> kWords = {
      "reinterpret_cast", "const_cast", "emcpy", "bit_cast", "_as_", "asm", "union", "void*", "*>(",
  };
  const std::string text = without_comments(source);
  std::string dense = text;  // "void *" and "void*" are one
  std::erase_if(dense, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  if (std::any_of(kWords.begin(), kWords.end(),
                  [&](std::string_view word) { return dense.find(word) != std::string::npos; }))
    return true;
  // An alias of a pointer may stand in a cast without a star.
  for (const std::string_view word : {"typedef", "using"})
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      if (text.substr(at, text.find(';', at) - at).find('*') != std::string::npos) return true;
  // "(float*)x", "(const T* __restrict__) (x)": a type that ends in a star, in parentheses, before an
  // operand.
  for (std::size_t close = text.find(')'); close != std::string::npos; close = text.find(')', close + 1)) {
    std::size_t at = close;
    const auto skip_blanks = [&] {
      while (at > 0 && std::isspace(static_cast<unsigned char>(text[at - 1]))) --at;
    };
    skip_blanks();
    if (at > 0 && is_word(text[at - 1])) {  // perhaps a qualifier after the star
      std::size_t word = at;
      while (word > 0 && is_word(text[word - 1])) --word;
      const std::string_view qualifier = std::string_view(text).substr(word, at - word);
      if (qualifier != "const" && qualifier.find("restrict") == std::string_view::npos) continue;
      at = word;
      skip_blanks();
    }
    if (at == 0 || (text[at - 1] != '*' && text[at - 1] != '&')) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", close + 1);
    if (next != std::string::npos &&
        (is_word(text[next]) || text[next] == '(' || text[next] == '&' || text[next] == '*'))
      return true;
  }
  return false;
}

std::string misfit(const Contract& contract, const std::string& function, const CSignature& signature,
                   const std::vector<std::string>& sources) {
  const std::vector<contract::Arg>& args = contract.kernel.args;
  const std::size_t takes = signature.parameters.size();
  if (takes > args.size() || (takes < args.size() && !signature.variadic)) {
    return fmt::format("{} takes {} argument{}{}, but the contract passes {}", function, takes,
                       takes == 1 ? "" : "s", takes == 0 ? "" : fmt::format(" ({})", names_of(signature)),
                       args.size());
  }
  const Comparison comparison(contract, sources);
  for (std::size_t i = 0; i < takes; ++i) {
    const auto& [name, type] = signature.parameters[i];
    const std::string why = comparison.argument(args[i], type);
    if (!why.empty())
      return fmt::format("parameter {} of {} is `{}{}{}`, but {}", i + 1, function, type.text,
                         name.empty() ? "" : " ", name, why);
  }
  const std::string why = wrong_result(contract, signature.result);
  return why.empty() ? "" : fmt::format("{} {}", function, why);
}

}  // namespace assay::subject
