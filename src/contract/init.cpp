// `assay init`: signatures read from CUDA source, and a contract to complete.
#include "contract/init.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>

#include "contract/formula.h"
#include "contract/init_uses.h"

namespace assay::contract {
namespace {

// Comments, string contents and preprocessor lines become blanks; line breaks stay.
std::string without_comments(std::string_view source) {
  std::string text(source);
  bool line_start = true;
  for (std::size_t i = 0; i < text.size();) {
    const auto blank_until = [&](std::size_t end) {
      for (; i < std::min(end, text.size()); ++i)
        if (text[i] != '\n') text[i] = ' ';
    };
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.starts_with("//")) {
      blank_until(text.find('\n', i));
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text.find("*/", i + 2);
      blank_until(end == std::string::npos ? text.size() : end + 2);
    } else if (rest.starts_with("\"C\"")) {
      i += 3;  // of extern "C"
    } else if (rest.starts_with("\"")) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      blank_until(end + 1);
    } else if (line_start && rest.starts_with("#")) {
      std::size_t end = text.find('\n', i);
      while (end != std::string::npos && end > 0 && text[end - 1] == '\\') end = text.find('\n', end + 1);
      blank_until(end);
    } else {
      if (text[i] == '\n')
        line_start = true;
      else if (text[i] != ' ' && text[i] != '\t')
        line_start = false;
      ++i;
    }
  }
  return text;
}

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string squeezed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (space && (result.empty() || result.back() == ' ')) continue;
    result += space ? ' ' : c;
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

int line_number_at(std::string_view text, std::size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

SignatureArg argument(std::string_view text) {
  std::string whole = squeezed(text.substr(0, text.find('=')));
  std::size_t end = whole.size();
  while (end > 0 && is_word_char(whole[end - 1])) --end;
  SignatureArg arg{squeezed(whole.substr(0, end)), whole.substr(end)};
  static const std::string kRestrict[] = {"__restrict__", "__restrict", "restrict"};
  for (const std::string& word : kRestrict)
    if (const std::size_t at = arg.type.find(word); at != std::string::npos) arg.type.erase(at, word.size());
  arg.type = squeezed(arg.type);
  if (const std::size_t space = arg.type.find(" *"); space != std::string::npos) arg.type.erase(space, 1);
  return arg;
}

// The function that begins at `at`; its end, or npos if there is none.
std::size_t read_function(std::string_view text, std::size_t at, std::vector<Signature>& found) {
  const std::size_t open = text.find('(', at), stop = text.find_first_of(";{", at);
  if (open == std::string_view::npos || stop < open) return std::string_view::npos;
  const std::size_t close = text.find(')', open);
  if (close == std::string_view::npos) return std::string_view::npos;
  std::string head = squeezed(text.substr(at, open - at));
  std::size_t name_at = head.size();
  while (name_at > 0 && is_word_char(head[name_at - 1])) --name_at;
  Signature signature;
  signature.name = head.substr(name_at);
  signature.returns = squeezed(head.substr(0, name_at));
  signature.line = line_number_at(text, text.find_first_not_of(" \n\t\r", at));
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  std::size_t first = 0;
  for (std::size_t i = 0; i <= inside.size(); ++i)
    if (i == inside.size() || inside[i] == ',') {
      const std::string part = squeezed(inside.substr(first, i - first));
      if (!part.empty() && part != "void") signature.args.push_back(argument(part));
      first = i + 1;
    }
  const std::size_t after = text.find_first_of(";{", close);
  signature.is_defined = after != std::string_view::npos && text[after] == '{';
  const bool function = !signature.name.empty() && !signature.returns.empty();
  const bool device = signature.returns.find("__global__") != std::string::npos ||
                      signature.returns.find("__device__") != std::string::npos;
  if (function && !device) found.push_back(std::move(signature));
  return close + 1;
}

std::size_t matching_brace(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return text.size();
}

// Functions inside extern "C" { ... }: whatever stands at the outermost level.
void read_group(std::string_view text, std::size_t open, std::vector<Signature>& found) {
  const std::size_t close = matching_brace(text, open);
  for (std::size_t i = open + 1; i < close;) {
    const std::size_t end = read_function(text.substr(0, close), i, found);
    const std::size_t body = text.find_first_of(";{", end == std::string_view::npos ? i : end);
    if (body == std::string_view::npos || body >= close) return;
    i = (text[body] == '{' ? matching_brace(text, body) : body) + 1;
  }
}

struct CType {
  std::string_view name;
  DType dtype;
};
constexpr CType kTypes[] = {
    {"__nv_bfloat16", DType::bf16}, {"nv_bfloat16", DType::bf16},
    {"__half", DType::f16},         {"half", DType::f16},
    {"__nv_fp8_e4m3", DType::e4m3}, {"__nv_fp8_e5m2", DType::e5m2},
    {"double", DType::f64},         {"float", DType::f32},
    {"int8_t", DType::i8},          {"signed char", DType::i8},
    {"uint8_t", DType::u8},         {"unsigned char", DType::u8},
    {"int16_t", DType::i16},        {"short", DType::i16},
    {"int32_t", DType::i32},        {"uint32_t", DType::u32},
    {"int64_t", DType::i64},        {"uint64_t", DType::u64},
    {"size_t", DType::u64},         {"unsigned long long", DType::u64},
    {"long long", DType::i64},      {"unsigned long", DType::u64},
    {"long", DType::i64},           {"unsigned int", DType::u32},
    {"unsigned", DType::u32},       {"int", DType::i32},
    {"bool", DType::boolean},       {"char", DType::i8},
};

// Pairs of floats that are meant as complex numbers; float2 may be two of anything.
constexpr CType kComplex[] = {
    {"cuComplex", DType::f32},       {"cuFloatComplex", DType::f32},  {"complex<float>", DType::f32},
    {"cuDoubleComplex", DType::f64}, {"complex<double>", DType::f64},
};

// So many elements in one word: a row of them each.
struct VectorType {
  std::string_view name;
  DType dtype;
  int width;
};
constexpr VectorType kVectors[] = {
    {"float2", DType::f32, 2},
    {"float4", DType::f32, 4},
    {"double2", DType::f64, 2},
    {"int2", DType::i32, 2},
    {"int4", DType::i32, 4},
    {"uint2", DType::u32, 2},
    {"uint4", DType::u32, 4},
    {"__half2", DType::f16, 2},
    {"half2", DType::f16, 2},
    {"char4", DType::i8, 4},
    {"__nv_bfloat162", DType::bf16, 2},
    {"nv_bfloat162", DType::bf16, 2},
    {"uchar4", DType::u8, 4},
};

// What is pointed to, without qualifiers.
std::string element_type_of(std::string type) {
  for (const std::string word : {"const ", "volatile ", "cuda::", "std::", "thrust::"})
    if (const std::size_t at = type.find(word); at != std::string::npos) type.erase(at, word.size());
  constexpr std::string_view kConst = "const";
  for (bool again = true; again;) {
    again = false;
    while (!type.empty() && (type.back() == '*' || type.back() == '&' || type.back() == ' ')) type.pop_back();
    const std::size_t before = type.size() - std::min(type.size(), kConst.size());
    if (type.ends_with(kConst) && before > 0 && !is_word_char(type[before - 1])) {
      type.resize(before);
      again = true;
    }
  }
  return type;
}

std::optional<DType> dtype_of(const std::string& type, bool& is_complex) {
  const std::string element = element_type_of(type);
  for (const CType& known : kTypes)
    if (known.name == element) return known.dtype;
  for (const CType& known : kComplex)
    if (known.name == element) {
      is_complex = true;
      return known.dtype;
    }
  return std::nullopt;
}

struct Guess {
  ArgKind kind = ArgKind::Scalar;
  std::string argument;  // as the source calls it
  std::string name;
  DType dtype = DType::f32;
  bool known = true;
  bool output = false;
  bool is_complex = false;
  bool pointers = false;  // an array of them
  std::string vector;     // the name of the type, if it holds several elements
  int width = 1;          // how many

  std::string_view type() const {
    if (is_complex) return dtype == DType::f64 ? "c128" : "c64";
    return info(dtype).name;
  }
};

Guess guess(const SignatureArg& arg, std::size_t position) {
  Guess result;
  result.argument = arg.name;
  result.name = arg.name.empty() ? fmt::format("arg{}", position) : arg.name;
  const bool pointer = arg.type.find('*') != std::string::npos;
  if (arg.type.find("cudaStream_t") != std::string::npos) {
    result.kind = ArgKind::Stream;
    result.name = "stream";
    return result;
  }
  if (pointer &&
      (arg.name.find("workspace") != std::string::npos || arg.name == "ws" || arg.name == "scratch")) {
    result.kind = ArgKind::Workspace;
    result.name = "workspace";
    return result;
  }
  std::optional<DType> dtype = dtype_of(arg.type, result.is_complex);
  for (const VectorType& known : kVectors) {
    if (element_type_of(arg.type) != known.name) continue;
    dtype = known.dtype;
    // By value, two floats are passed as a complex number is.
    if (!pointer && is_float(known.dtype) && known.width == 2 && known.dtype == DType::f32)
      result.is_complex = true;
    result.vector = known.name;
    result.width = known.width;
  }
  result.pointers = std::ranges::count(arg.type, '*') > 1;
  result.known = dtype.has_value();
  result.dtype = dtype.value_or(DType::f32);
  result.kind = pointer ? ArgKind::Tensor : !is_float(result.dtype) ? ArgKind::Dim : ArgKind::Scalar;
  if (result.kind == ArgKind::Dim ? is_reserved(result.name) : is_keyword(result.name)) result.name += "_";
  // `float* const*` points to what may be written.
  const std::string_view elements = std::string_view(arg.type).substr(0, arg.type.find('*'));
  result.output = pointer && elements.find("const") == std::string_view::npos &&
                  (result.pointers || arg.type.find("const") == std::string::npos);
  return result;
}

constexpr std::string_view kUnknownType = "   # a guess: the code does not tell the type";

// What a cast before the place `at` turns a pointer into: `(const half*)x`, `static_cast<const half*>(x)`.
std::string_view cast_before(std::string_view text, std::size_t at) {
  const auto back_over_spaces = [&](std::size_t end) {
    while (end > 0 && std::isspace(static_cast<unsigned char>(text[end - 1]))) --end;
    return end;
  };
  std::size_t end = back_over_spaces(at);
  char open = '(';
  if (end > 0 && text[end - 1] == '(') {
    end = back_over_spaces(end - 1);
    open = '<';
  }
  if (end == 0 || text[end - 1] != (open == '(' ? ')' : '>')) return {};
  const std::size_t begin = text.rfind(open, end - 1);
  if (begin == std::string_view::npos) return {};
  const std::string_view type = text.substr(begin + 1, end - 2 - begin);
  return type.find('*') == std::string_view::npos ? std::string_view() : type;
}

// `const void* x` is what the code casts it to.
void resolve_void(SignatureArg& arg, std::string_view text) {
  const std::size_t is_void = arg.type.find("void");
  if (arg.name.empty() || is_void == std::string::npos || arg.type.find('*') == std::string::npos) return;
  const auto is_part_of_word = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (std::size_t at = text.find(arg.name); at != std::string_view::npos; at = text.find(arg.name, at + 1)) {
    if (is_part_of_word(at + arg.name.size()) || (at > 0 && is_part_of_word(at - 1))) continue;
    const std::string element = element_type_of(std::string(cast_before(text, at)));
    bool is_complex = false;
    const bool is_vector =
        std::ranges::any_of(kVectors, [&](const VectorType& known) { return known.name == element; });
    if (element.empty() || (!is_vector && !dtype_of(element, is_complex))) continue;
    arg.type.replace(is_void, std::string_view("void").size(), element);
    return;
  }
}

std::string dim_line(const Guess& dim) {
  const bool plain = dim.dtype == DType::i32 ||
                     (dim.dtype != DType::i64 && dim.dtype != DType::u32 && dim.dtype != DType::u64);
  return fmt::format("{} = {{ min = 1, max = 4096{} }}   # the range that the kernel promises\n", dim.name,
                     plain ? "" : fmt::format(", type = \"{}\"", info(dim.dtype).name));
}

// As the code indexes it; where that was not understood, the first dims.
std::string shape_line(const Guess& tensor, const std::string& first_dims, const Uses& uses) {
  const auto found = uses.shapes.find(tensor.argument);
  const std::string width = tensor.width > 1 ? fmt::format(", {}", tensor.width) : "";
  const std::string what = tensor.width == 1 ? ""
                           : tensor.width == 2 && is_float(tensor.dtype)
                               ? fmt::format(", {}: pairs (complex numbers are {})", tensor.vector,
                                             tensor.dtype == DType::f64 ? "c128" : "c64")
                               : fmt::format(", {} at a time by {}", tensor.width, tensor.vector);
  if (found == uses.shapes.end())
    return fmt::format("shape = [{}{}]   # row-major{}; check\n", first_dims, width, what);
  std::string shape;
  for (const std::string& extent : found->second)
    shape += fmt::format(
        "{}{}", shape.empty() ? "" : ", ",
        std::isdigit(static_cast<unsigned char>(extent[0])) ? extent : fmt::format("\"{}\"", extent));
  return fmt::format("shape = [{}{}]   # as the code indexes it{}; check\n", shape, width, what);
}

std::string tensor_table(const Guess& tensor, const std::string& first_dims, const Uses& uses) {
  std::string text = fmt::format("\n[tensors.{}]\ndtype = \"{}\"{}\n", tensor.name, tensor.type(),
                                 tensor.known ? "" : kUnknownType) +
                     shape_line(tensor, first_dims, uses);
  if (tensor.pointers)
    text +=
        "pointers = true   # one to each slice along the first dimension, or the name of a tensor of "
        "offsets\n";
  if (tensor.output) return text + "role  = \"out\"   # or \"inout\"\n";
  if (const auto rows = uses.indexes.find(tensor.argument);
      rows != uses.indexes.end() && !is_float(tensor.dtype))
    return text +
           fmt::format("# values = \"index(N)\": it chooses elements of {}; name the dim\n", rows->second);
  return text + (is_float(tensor.dtype) ? "values = \"real\"\n"
                                        : "# values = \"index(N)\", \"tokens(N)\", \"mask\", ...\n");
}

// A formula with the contract's own names: "y[i, j] = 2 * x[i, j]".
std::string example(const std::vector<Guess>& guesses, const std::string& output, std::size_t dims,
                    const Uses& uses) {
  constexpr std::string_view kIndices[] = {"i", "j", "k", "l"};
  const auto element = [&](const Guess& tensor) {
    const auto found = uses.shapes.find(tensor.argument);
    std::size_t rank = found == uses.shapes.end() ? std::min<std::size_t>(dims, 2) : found->second.size();
    rank += tensor.width > 1;
    const std::span<const std::string_view> indices(kIndices, std::min(rank, std::size(kIndices)));
    return rank == 0 ? tensor.name : fmt::format("{}[{}]", tensor.name, fmt::join(indices, ", "));
  };
  std::string left = "y[i, j]", right = "x[i, j]";
  for (const Guess& tensor : guesses)
    if (tensor.kind == ArgKind::Tensor && tensor.name == output) left = element(tensor);
  const auto first = std::ranges::find_if(guesses, [](const Guess& tensor) {
    return tensor.kind == ArgKind::Tensor && !tensor.output && is_float(tensor.dtype);
  });
  if (first != guesses.end()) right = element(*first);
  return fmt::format("{} = 2 * {}", left, right);
}

std::string contract_for(const Signature& entry, std::string_view cuda_source, const std::string& source) {
  std::vector<Guess> guesses;
  const std::string code = without_comments(cuda_source);
  for (std::size_t i = 0; i < entry.args.size(); ++i) {
    SignatureArg arg = entry.args[i];
    resolve_void(arg, code);
    guesses.push_back(guess(arg, i));
  }
  std::string args, dims, shape, tensors, scalars, output;
  std::vector<std::string> names;  // of the dims
  int dim_count = 0;
  for (const Guess& arg : guesses) {
    args += fmt::format("{}\"{}\"", args.empty() ? "" : ", ", arg.name);
    if (arg.kind != ArgKind::Dim) continue;
    dims += dim_line(arg);
    names.push_back(arg.name);
    if (dim_count++ < 2) shape += fmt::format("{}\"{}\"", shape.empty() ? "" : ", ", arg.name);
  }
  const Uses uses = uses_of(code, entry, names);
  bool workspace = false, wide = false;
  for (const Guess& arg : guesses) {
    workspace |= arg.kind == ArgKind::Workspace;
    if (arg.kind == ArgKind::Tensor) tensors += tensor_table(arg, shape, uses);
    if (arg.kind == ArgKind::Tensor && arg.output) output = arg.name;
    wide |= arg.kind == ArgKind::Tensor && arg.output && arg.dtype == DType::f64;
    if (arg.kind == ArgKind::Scalar)
      scalars += fmt::format(
          "\n[scalars.{}]\ndtype = \"{}\"{}\nvalue = {}   # or values = [...], or range = [low, high]\n",
          arg.name, arg.type(), arg.known ? "" : kUnknownType,
          arg.is_complex                  ? "[1.0, 0.0]"
          : arg.name.rfind("eps", 0) == 0 ? "1e-6"
                                          : "1.0");
  }
  const bool returns = entry.returns.find("int") != std::string::npos ||
                       entry.returns.find("cudaError_t") != std::string::npos;
  std::string text =
      fmt::format("title = \"{}\"\n\n[kernel]\nsource = \"{}\"\nentry  = \"{}\"\nargs   = [{}]\n", entry.name,
                  source, entry.name, args);
  if (returns) text += "returns = \"int\"   # nonzero: the launch failed\n";
  if (workspace) text += "workspace_bytes = 0   # an integer expression over dims\n";
  if (!dims.empty()) text += "\n[dims]\n" + dims;
  text += tensors + scalars;
  text += fmt::format(
      "\n[reference]\n# What {} is, element by element, for example\n#   {}\n"
      "formula = \"\"\"\n\"\"\"\naccumulate = \"{}\"\n",
      output.empty() ? "the output" : output, example(guesses, output, names.size(), uses),
      wide ? "f64" : "f32");
  return text;
}

}  // namespace

std::vector<Signature> find_signatures(std::string_view cuda_source) {
  const std::string text = without_comments(cuda_source);
  std::vector<Signature> found;
  for (std::size_t at = text.find("extern"); at != std::string::npos; at = text.find("extern", at + 1)) {
    std::size_t next = text.find_first_not_of(" \t\n\r", at + 6);
    if (next == std::string::npos || text.compare(next, 3, "\"C\"") != 0) continue;
    next = text.find_first_not_of(" \t\n\r", next + 3);
    if (next == std::string::npos) break;
    if (text[next] == '{')
      read_group(text, next, found);
    else
      read_function(text, next, found);
  }
  return found;
}

namespace {

// The names of the kernels themselves, templates left out: nothing outside can name an instance of one.
std::vector<std::string> kernel_names(std::string_view cuda_source) {
  const std::string text = without_comments(cuda_source);
  std::vector<std::string> names;
  for (std::size_t at = text.find("__global__"); at != std::string::npos;
       at = text.find("__global__", at + 1)) {
    const std::size_t open = text.find('(', at), before = text.find_last_of(";}{", at);
    if (open == std::string::npos) break;
    const std::string head = text.substr(before == std::string::npos ? 0 : before, at - before);
    if (head.find("template") != std::string::npos) continue;
    std::size_t end = open, first = open;
    while (first > at && !is_word_char(text[end - 1])) --end, --first;
    while (first > at && is_word_char(text[first - 1])) --first;
    names.push_back(text.substr(first, end - first));
  }
  return names;
}

Error no_host_function(std::string_view cuda_source, const std::string& source) {
  std::string message =
      "no extern \"C\" host function was found: write one that launches the kernel on a stream";
  const std::vector<std::string> kernels = kernel_names(cuda_source);
  if (!kernels.empty())
    message +=
        fmt::format(", or a contract with global = \"{}\", grid and block (docs/contracts.md)", kernels[0]);
  return {message, source};
}

// What is defined comes before what is only declared; of several, the last.
const Signature& entry_of(const std::vector<Signature>& found) {
  const auto defined =
      std::find_if(found.rbegin(), found.rend(), [](const Signature& one) { return one.is_defined; });
  return defined == found.rend() ? found.back() : *defined;
}

// Names what was not chosen, so that a reader can choose it.
std::string others_line(const std::vector<Signature>& found, const Signature& chosen) {
  std::vector<std::string> names;
  for (const Signature& one : found) {
    if (one.name != chosen.name && std::find(names.begin(), names.end(), one.name) == names.end())
      names.push_back(one.name);
  }
  if (names.empty()) return "";
  return fmt::format("# of {}; for another, assay init --entry: {}\n", chosen.name, fmt::join(names, ", "));
}

}  // namespace

Result<std::string> initial_contract(std::string_view cuda_source, const std::string& source,
                                     std::string_view entry) {
  const std::vector<Signature> found = find_signatures(cuda_source);
  if (found.empty()) return no_host_function(cuda_source, source);
  if (entry.empty()) {
    const Signature& chosen = entry_of(found);
    return others_line(found, chosen) + contract_for(chosen, cuda_source, source);
  }
  std::vector<std::string> names;
  for (const Signature& signature : found) {
    if (signature.name == entry) return contract_for(signature, cuda_source, source);
    names.push_back(signature.name);
  }
  const std::string near = nearest(entry, names);
  return Error{fmt::format("there is no extern \"C\" function `{}`; {}", entry,
                           near.empty() ? fmt::format("the first is `{}`", names[0])
                                        : fmt::format("did you mean `{}`?", near)),
               source};
}

}  // namespace assay::contract
