// From a TOML text to a Contract: every key by name, every mistake with its place.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "contract/contract.h"
#include "contract/formula.h"
#include "contract/program.h"
#include "contract/toml.h"

namespace assay::contract {
namespace {

using Names = std::vector<std::string>;

struct ValuesRow {
  std::string_view name;
  ValuesKind kind;
  int arguments;
  bool for_floats;
};
constexpr ValuesRow kValues[] = {
    {"real", ValuesKind::Real, 0, true},
    {"real", ValuesKind::RealRange, 2, true},
    {"activations", ValuesKind::Activations, 0, true},
    {"gradients", ValuesKind::Gradients, 0, true},
    {"weights", ValuesKind::Weights, 0, true},
    {"positive", ValuesKind::Positive, 0, true},
    {"probabilities", ValuesKind::Probabilities, 0, true},
    {"index", ValuesKind::Index, 1, false},
    {"tokens", ValuesKind::Tokens, 1, false},
    {"mask", ValuesKind::Mask, 0, false},
    {"offsets", ValuesKind::Offsets, 1, false},
    {"integers", ValuesKind::Integers, 2, false},
};

bool is_identifier(std::string_view word) {
  if (word.empty() || (word[0] >= '0' && word[0] <= '9')) return false;
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string listed(const Names& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

Names dtype_names() {
  Names names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(info(static_cast<DType>(i)).name);
  return names;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// Reads one contract. The first mistake found stops everything; after it every
// getter returns its default.
class Reader {
 public:
  Reader(std::string_view text, std::string path) : text_(text) { contract_.path = std::move(path); }

  Result<Contract> run() {
    Result<TomlValue> root = parse_toml(text_, contract_.path);
    if (!root) return root.error();
    read_all(*root);
    if (failed_) return error_;
    if (contract_.reference.kind == ReferenceKind::Formula) {
      Result<std::shared_ptr<const Program>> program = compile(contract_);
      if (!program) return program.error();
    }
    return std::move(contract_);
  }

 private:
  void fail(Place place, std::string message) {
    if (!failed_) error_ = {std::move(message), contract_.path, place.line, place.column};
    failed_ = true;
  }

  // ---- values of a kind ----------------------------------------------------

  void keys(const TomlValue& table, std::string_view where, const Names& known) {
    for (const TomlEntry& entry : table.table) {
      if (std::ranges::find(known, entry.key) != known.end()) continue;
      const std::string near = nearest(entry.key, known);
      return fail(entry.place, fmt::format("{} has no key '{}'; {}", where, entry.key,
                                           near.empty() ? "it may have " + listed(known)
                                                        : fmt::format("did you mean '{}'?", near)));
    }
  }

  const TomlValue* need(const TomlValue& table, std::string_view key, std::string_view where) {
    const TomlValue* value = table.find(key);
    if (!value) fail(table.place, fmt::format("{} needs the key '{}'", where, key));
    return value;
  }

  bool is(const TomlValue& value, TomlKind kind, std::string_view what) {
    if (value.kind == kind) return true;
    fail(value.place, fmt::format("{} is expected here", what));
    return false;
  }

  std::string string(const TomlValue* value, std::string_view what) {
    if (!value || !is(*value, TomlKind::String, fmt::format("{}, a string,", what))) return "";
    if (value->string.empty()) fail(value->place, fmt::format("{} is empty", what));
    return value->string;
  }

  int64_t integer(const TomlValue* value, int64_t otherwise, std::string_view what) {
    if (!value) return otherwise;
    return is(*value, TomlKind::Integer, fmt::format("{}, an integer,", what)) ? value->integer : otherwise;
  }

  bool boolean(const TomlValue* value, bool otherwise, std::string_view what) {
    if (!value) return otherwise;
    return is(*value, TomlKind::Bool, fmt::format("{}, true or false,", what)) ? value->boolean : otherwise;
  }

  double number(const TomlValue& value, std::string_view what) {
    if (value.kind == TomlKind::Integer || value.kind == TomlKind::Real) return value.real;
    fail(value.place, fmt::format("{}, a number, is expected here", what));
    return 0;
  }

  // One of a few words; its place in the list.
  std::size_t choice(const TomlValue* value, const Names& words, std::string_view what,
                     std::size_t otherwise) {
    if (!value) return otherwise;
    const std::string word = string(value, what);
    const auto found = std::ranges::find(words, word);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    const std::string near = nearest(word, words);
    fail(value->place, fmt::format("'{}' is not {}: {}{}", word, what, listed(words),
                                   near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    return otherwise;
  }

  DType dtype(const TomlValue* value, std::string_view what) {
    const Names names = dtype_names();
    return static_cast<DType>(choice(value, names, what, static_cast<std::size_t>(DType::f32)));
  }

  IntExpr int_expr(const TomlValue& value, std::string_view what) {
    if (value.kind == TomlKind::Integer) return IntExpr::literal(value.integer);
    if (value.kind != TomlKind::String) {
      fail(value.place, fmt::format("{}: an integer or an expression over dims in quotes is expected", what));
      return {};
    }
    return int_expr(value.string, value.place, 1, what);
  }

  IntExpr int_expr(const std::string& text, Place quote, int offset, std::string_view what) {
    Result<IntExpr> expr = IntExpr::parse(text);
    if (!expr) {
      fail({quote.line, quote.column + offset + expr.error().column - 1},
           fmt::format("{}: {}", what, expr.error().message));
      return {};
    }
    for (const std::string& name : expr->dims()) {
      if (contract_.dim(name)) continue;
      const std::size_t at = text.find(name);
      fail({quote.line, quote.column + offset + static_cast<int>(at)},
           fmt::format("'{}' is not a dim{}", name, suggest_dim(name)));
    }
    return *expr;
  }

  std::string suggest_dim(const std::string& name) const {
    Names names;
    for (const Dim& dim : contract_.dims) names.push_back(dim.name);
    const std::string near = nearest(name, names);
    if (!near.empty()) return fmt::format("; did you mean '{}'?", near);
    return names.empty() ? ": there is no [dims] table" : ": " + listed(names);
  }

  std::vector<IntExpr> int_exprs(const TomlValue& value, std::string_view what) {
    std::vector<IntExpr> list;
    if (!is(value, TomlKind::Array, fmt::format("{}, a list of integer expressions,", what))) return list;
    for (const TomlValue& item : value.array) list.push_back(int_expr(item, what));
    return list;
  }

  Names strings(const TomlValue& value, std::string_view what, bool one_allowed) {
    if (one_allowed && value.kind == TomlKind::String) return {string(&value, what)};
    Names list;
    if (!is(value, TomlKind::Array, fmt::format("{}, a list of strings,", what))) return list;
    for (const TomlValue& item : value.array) list.push_back(string(&item, what));
    return list;
  }

  // A name that the contract defines: an identifier, not a word of the language, not taken.
  void new_name(const std::string& name, Place place, std::string_view what) {
    if (!is_identifier(name))
      return fail(place, fmt::format("'{}' cannot name a {}: letters, digits and '_' only", name, what));
    if (is_reserved(name) || name == "stream" || name == "workspace")
      return fail(place, fmt::format("'{}' cannot name a {}: it is a word of the language", name, what));
    const bool taken = contract_.dim(name) || contract_.tensor(name) || contract_.scalar(name);
    if (taken) fail(place, fmt::format("the name '{}' is already taken", name));
  }

  // ---- tables ----------------------------------------------------------------

  void read_all(const TomlValue& root) {
    keys(root, "a contract",
         {"title", "kernel", "dims", "shapes", "tensors", "scalars", "reference", "require"});
    if (const TomlValue* title = root.find("title");
        title && is(*title, TomlKind::String, "the title, a string,"))
      contract_.title = title->string;
    each(root, "dims", [this](const TomlEntry& entry) { read_dim(entry); });
    each(root, "tensors", [this](const TomlEntry& entry) { read_tensor(entry); });
    each(root, "scalars", [this](const TomlEntry& entry) { read_scalar(entry); });
    if (!failed_ && contract_.tensors.empty())
      fail(root.place, "a contract needs at least one tensor: a table [tensors.NAME]");
    if (!failed_ && contract_.outputs().empty())
      fail(contract_.tensors.back().place, "no tensor is an output: give one role = \"out\"");
    read_aliases(root);
    if (!failed_) read_shapes(root);
    if (!failed_) read_kernel(root);
    if (!failed_) read_reference(root);
    if (!failed_) read_require(root);
  }

  template <class Function>
  void each(const TomlValue& root, std::string_view key, Function read) {
    const TomlValue* table = root.find(key);
    if (failed_ || !table || !is(*table, TomlKind::Table, fmt::format("a table [{}]", key))) return;
    for (const TomlEntry& entry : table->table)
      if (!failed_) read(entry);
  }

  void read_dim(const TomlEntry& entry) {
    new_name(entry.key, entry.place, "dim");
    Dim dim;
    dim.name = entry.key;
    dim.place = entry.place;
    const TomlValue& value = entry.value;
    if (value.kind == TomlKind::Integer) {
      dim.min = dim.max = value.integer;
    } else if (value.kind == TomlKind::Table) {
      keys(value, fmt::format("the dim '{}'", dim.name), {"min", "max", "multiple_of", "type"});
      dim.min = integer(value.find("min"), 1, "min");
      const TomlValue* max = value.find("max");
      if (!max) return fail(entry.place, fmt::format("the dim '{}' needs a max", dim.name));
      dim.max = integer(max, 1, "max");
      dim.multiple_of = integer(value.find("multiple_of"), 1, "multiple_of");
      const DType types[] = {DType::i32, DType::i64, DType::u32, DType::u64};
      dim.type = types[choice(value.find("type"), {"i32", "i64", "u32", "u64"}, "the type of a dim", 0)];
    } else {
      return fail(value.place, "a dim is an integer or { min = ..., max = ... }");
    }
    if (dim.min < 0) fail(value.place, fmt::format("the dim '{}' cannot be negative", dim.name));
    if (dim.max < dim.min) fail(value.place, fmt::format("the dim '{}' has max < min", dim.name));
    if (dim.multiple_of < 1) fail(value.place, "multiple_of must be at least 1");
    if (!failed_ && dim.highest() < dim.lowest())
      fail(value.place,
           fmt::format("no multiple of {} lies between {} and {}", dim.multiple_of, dim.min, dim.max));
    if (dim.max > info(dim.type).max_integer)
      fail(value.place, fmt::format("{} does not fit the dim's type {}: give it type = \"i64\"", dim.max,
                                    info(dim.type).name));
    contract_.dims.push_back(dim);
  }

  void read_tensor(const TomlEntry& entry) {
    new_name(entry.key, entry.place, "tensor");
    if (!is(entry.value, TomlKind::Table, fmt::format("a table [tensors.{}]", entry.key))) return;
    const TomlValue& table = entry.value;
    const std::string where = fmt::format("the tensor '{}'", entry.key);
    keys(table, where, {"dtype", "shape", "role", "values", "align", "may_alias"});
    TensorSpec tensor;
    tensor.name = entry.key;
    tensor.place = entry.place;
    tensor.dtype = dtype(need(table, "dtype", where), "a dtype");
    if (const TomlValue* shape = need(table, "shape", where)) {
      tensor.shape = int_exprs(*shape, "shape");
      if (tensor.shape.size() > 16) fail(shape->place, "a tensor has at most 16 dimensions");
    }
    tensor.role = static_cast<Role>(choice(table.find("role"), {"in", "out", "inout"}, "a role", 0));
    tensor.values = read_values(table.find("values"), tensor.dtype);
    tensor.align = integer(table.find("align"), 256, "align");
    if (tensor.align < 1 || (tensor.align & (tensor.align - 1)) != 0)
      fail(table.find("align")->place, "align must be a power of two");
    contract_.tensors.push_back(std::move(tensor));
  }

  Values default_values(DType type) {
    Values values;
    if (info(type).kind == DTypeKind::Bool) values.kind = ValuesKind::Mask;
    if (info(type).kind != DTypeKind::Integer) return values;
    values.kind = ValuesKind::Integers;
    values.a = IntExpr::literal(info(type).min_integer);
    values.b = IntExpr::literal(info(type).max_integer);
    return values;
  }

  Values read_values(const TomlValue* value, DType type) {
    Values values = default_values(type);
    if (!value) return values;
    const std::string text = string(value, "values");
    values.text = text;
    const std::size_t open = text.find('(');
    const std::string name = trimmed(text.substr(0, open));
    const ValuesRow* row = nullptr;
    std::vector<std::pair<std::string, int>> arguments;  // and where in the text
    if (!split_arguments(text, open, arguments))
      fail(value->place, fmt::format("'{}' is not written name or name(a, b)", text));
    Names known;
    for (const ValuesRow& candidate : kValues) {
      if (known.empty() || known.back() != candidate.name) known.emplace_back(candidate.name);
      if (candidate.name == name && candidate.arguments == static_cast<int>(arguments.size()))
        row = &candidate;
    }
    if (!row) {
      const bool known_name = std::ranges::find(known, name) != known.end();
      const std::string near = nearest(name, known);
      fail(value->place, known_name
                             ? fmt::format("'{}' takes another number of arguments", name)
                             : fmt::format("'{}' is not a kind of values: {}{}", name, listed(known),
                                           near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
      return values;
    }
    if (row->for_floats != is_float(type) && !(row->kind == ValuesKind::Mask))
      fail(value->place,
           fmt::format("'{}' describes {}, and the dtype is {}", name,
                       row->for_floats ? "floating-point numbers" : "integers", info(type).name));
    values.kind = row->kind;
    if (row->kind == ValuesKind::RealRange) {
      values.low = real_argument(arguments[0].first, value->place);
      values.high = real_argument(arguments[1].first, value->place);
      if (!failed_ && !(values.low <= values.high)) fail(value->place, "the range is empty");
    } else if (!arguments.empty()) {
      values.a = int_expr(arguments[0].first, value->place, 1 + arguments[0].second, "values");
      if (arguments.size() > 1)
        values.b = int_expr(arguments[1].first, value->place, 1 + arguments[1].second, "values");
    }
    return values;
  }

  static bool split_arguments(const std::string& text, std::size_t open,
                              std::vector<std::pair<std::string, int>>& arguments) {
    if (open == std::string::npos) return true;
    const std::size_t end = text.find_last_not_of(" \t");
    if (text[end] != ')') return false;
    int depth = 0;
    std::size_t first = open + 1;
    for (std::size_t i = open + 1; i <= end; ++i) {
      if (text[i] == '(') ++depth;
      if ((text[i] == ',' && depth == 0) || i == end) {
        arguments.emplace_back(text.substr(first, i - first), static_cast<int>(first));
        first = i + 1;
      }
      if (text[i] == ')') --depth;
    }
    return true;
  }

  double real_argument(const std::string& text, Place place) {
    const std::string word = trimmed(text);
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0') fail(place, fmt::format("'{}' is not a number", word));
    return value;
  }

  void read_aliases(const TomlValue& root) {
    if (failed_) return;
    for (TensorSpec& tensor : contract_.tensors) {
      const TomlValue* alias = root.find("tensors")->find(tensor.name)->find("may_alias");
      if (!alias) continue;
      tensor.may_alias = string(alias, "may_alias");
      const TensorSpec* other = contract_.tensor(tensor.may_alias);
      if (!other || other->role == Role::Out || other == &tensor)
        fail(alias->place, fmt::format("'{}' is not the name of an input", tensor.may_alias));
      if (!tensor.is_output())
        fail(alias->place, "may_alias belongs to an output; '" + tensor.name + "' is an input");
    }
  }

  void read_scalar(const TomlEntry& entry) {
    new_name(entry.key, entry.place, "scalar");
    if (!is(entry.value, TomlKind::Table, fmt::format("a table [scalars.{}]", entry.key))) return;
    const TomlValue& table = entry.value;
    const std::string where = fmt::format("the scalar '{}'", entry.key);
    keys(table, where, {"dtype", "value", "values", "range"});
    ScalarSpec scalar;
    scalar.name = entry.key;
    scalar.place = entry.place;
    scalar.dtype = dtype(need(table, "dtype", where), "a dtype");
    const TomlValue* one = table.find("value");
    const TomlValue* list = table.find("values");
    const TomlValue* range = table.find("range");
    if ((one != nullptr) + (list != nullptr) + (range != nullptr) != 1)
      return fail(entry.place, where + " needs exactly one of value, values and range");
    if (one) scalar.values = {scalar_number(*one, scalar.dtype)};
    if (list && is(*list, TomlKind::Array, "a list of numbers"))
      for (const TomlValue& item : list->array) scalar.values.push_back(scalar_number(item, scalar.dtype));
    if (list && !failed_ && scalar.values.empty()) fail(list->place, "the list of values is empty");
    if (range) {
      if (range->kind != TomlKind::Array || range->array.size() != 2)
        return fail(range->place, "range = [low, high] is expected here");
      scalar.low = scalar_number(range->array[0], scalar.dtype);
      scalar.high = scalar_number(range->array[1], scalar.dtype);
      if (!(scalar.low <= scalar.high)) fail(range->place, "the range is empty");
    }
    contract_.scalars.push_back(std::move(scalar));
  }

  double scalar_number(const TomlValue& value, DType type) {
    if (value.kind == TomlKind::Bool && type == DType::boolean) return value.boolean;
    const double given = number(value, "the value of a scalar");
    if (!is_float(type) && rounded(type, given) != given)
      fail(value.place, fmt::format("{} is not a value of {}", given, info(type).name));
    return given;
  }

  void read_shapes(const TomlValue& root) {
    const TomlValue* list = root.find("shapes");
    if (!list || !is(*list, TomlKind::Array, "a list of tables [[shapes]]")) return;
    Names names;
    for (const Dim& dim : contract_.dims) names.push_back(dim.name);
    for (const TomlValue& item : list->array) {
      if (!is(item, TomlKind::Table, "a table [[shapes]]")) return;
      keys(item, "[[shapes]]", names);
      Shape shape;
      for (const Dim& dim : contract_.dims) {
        const TomlValue* value = item.find(dim.name);
        if (!value && !dim.is_constant())
          return fail(item.place, fmt::format("this shape needs a value for the dim '{}'", dim.name));
        shape[dim.name] = integer(value, dim.min, dim.name);
        if (!failed_ && !dim.contains(shape[dim.name]))
          return fail(
              value->place,
              fmt::format("{} = {} is not promised in [dims]: {} to {}{}", dim.name, shape[dim.name], dim.min,
                          dim.max,
                          dim.multiple_of == 1 ? "" : fmt::format(", a multiple of {}", dim.multiple_of)));
      }
      contract_.shapes.push_back(std::move(shape));
    }
  }

  void read_kernel(const TomlValue& root) {
    const TomlValue* table = need(root, "kernel", "a contract");
    if (!table || !is(*table, TomlKind::Table, "a table [kernel]")) return;
    keys(*table, "[kernel]",
         {"source", "entry", "global", "args", "grid", "block", "shared_bytes", "workspace_bytes", "returns",
          "flags", "arch"});
    Kernel& kernel = contract_.kernel;
    kernel.place = table->place;
    if (const TomlValue* source = need(*table, "source", "[kernel]")) {
      kernel.sources = strings(*source, "source", true);
      if (!failed_ && kernel.sources.empty()) fail(source->place, "source is empty");
      for (const std::string& path : kernel.sources)
        if (!failed_ && !path.ends_with(".cu") && !path.ends_with(".ptx"))
          fail(source->place, fmt::format("'{}' is neither .cu nor .ptx", path));
    }
    read_entry(*table, kernel);
    if (const TomlValue* args = need(*table, "args", "[kernel]")) read_args(*args, kernel);
    if (const TomlValue* bytes = table->find("workspace_bytes"))
      kernel.workspace_bytes = int_expr(*bytes, "workspace_bytes");
    const bool wants =
        std::ranges::any_of(kernel.args, [](const Arg& arg) { return arg.kind == ArgKind::Workspace; });
    if (wants && !table->find("workspace_bytes"))
      fail(table->find("args")->place, "the argument 'workspace' needs workspace_bytes");
    kernel.returns_int = choice(table->find("returns"), {"void", "int"}, "what a kernel returns", 0) == 1;
    if (const TomlValue* flags = table->find("flags")) kernel.flags = strings(*flags, "flags", false);
    if (const TomlValue* arch = table->find("arch")) {
      kernel.arch = string(arch, "arch");
      if (!failed_ && !kernel.arch.starts_with("sm_")) fail(arch->place, "arch is written like \"sm_90\"");
    }
  }

  void read_entry(const TomlValue& table, Kernel& kernel) {
    const TomlValue* entry = table.find("entry");
    const TomlValue* global = table.find("global");
    if ((entry != nullptr) == (global != nullptr))
      return fail(table.place,
                  "[kernel] needs either 'entry' (a host function) or 'global' (a __global__ function)");
    if (entry) kernel.entry = string(entry, "entry");
    if (global) kernel.global = string(global, "global");
    for (const char* key : {"grid", "block"}) {
      const TomlValue* value = table.find(key);
      if (entry && value)
        return fail(value->place, fmt::format("'{}' goes with 'global', not with 'entry'", key));
      if (entry) continue;
      if (!value) return fail(table.place, fmt::format("'global' needs '{}'", key));
      std::vector<IntExpr> list = int_exprs(*value, key);
      if (!failed_ && (list.empty() || list.size() > 3))
        return fail(value->place, fmt::format("'{}' is a list of 1 to 3 integer expressions", key));
      (std::string_view(key) == "grid" ? kernel.grid : kernel.block) = std::move(list);
    }
    if (const TomlValue* bytes = table.find("shared_bytes")) {
      if (entry) return fail(bytes->place, "'shared_bytes' goes with 'global', not with 'entry'");
      kernel.shared_bytes = int_expr(*bytes, "shared_bytes");
    }
    for (const std::string& path : kernel.sources)
      if (entry && path.ends_with(".ptx")) fail(entry->place, "PTX has no host functions: use 'global'");
  }

  void read_args(const TomlValue& value, Kernel& kernel) {
    if (!is(value, TomlKind::Array, "args, a list of names,")) return;
    Names known = {"stream", "workspace"};
    for (const Dim& dim : contract_.dims) known.push_back(dim.name);
    for (const TensorSpec& tensor : contract_.tensors) known.push_back(tensor.name);
    for (const ScalarSpec& scalar : contract_.scalars) known.push_back(scalar.name);
    for (const TomlValue& item : value.array) {
      Arg arg;
      arg.name = string(&item, "an argument");
      if (failed_) return;
      if (arg.name == "stream")
        arg.kind = ArgKind::Stream;
      else if (arg.name == "workspace")
        arg.kind = ArgKind::Workspace;
      else if (contract_.tensor(arg.name))
        arg.kind = ArgKind::Tensor;
      else if (contract_.dim(arg.name))
        arg.kind = ArgKind::Dim;
      else if (contract_.scalar(arg.name))
        arg.kind = ArgKind::Scalar;
      else {
        const std::string near = nearest(arg.name, known);
        return fail(item.place, fmt::format("'{}' is not a tensor, dim or scalar{}", arg.name,
                                            near.empty() ? ", nor 'stream' or 'workspace'"
                                                         : fmt::format("; did you mean '{}'?", near)));
      }
      kernel.args.push_back(std::move(arg));
    }
    for (const TensorSpec* output : contract_.outputs())
      if (std::ranges::none_of(kernel.args, [&](const Arg& arg) { return arg.name == output->name; }))
        fail(value.place, fmt::format("the output '{}' is not among the arguments", output->name));
  }

  void read_reference(const TomlValue& root) {
    const TomlValue* table = need(root, "reference", "a contract");
    if (!table || !is(*table, TomlKind::Table, "a table [reference]")) return;
    keys(*table, "[reference]", {"formula", "python", "cuda", "accumulate", "math"});
    ReferenceSpec& reference = contract_.reference;
    const TomlValue* formula = table->find("formula");
    const TomlValue* python = table->find("python");
    const TomlValue* cuda = table->find("cuda");
    if ((formula != nullptr) + (python != nullptr) + (cuda != nullptr) != 1)
      return fail(table->place, "[reference] needs exactly one of formula, python and cuda");
    if (formula && is(*formula, TomlKind::String, "the formula, a string,")) {
      reference.formula = formula->string;
      reference.formula_place = content_place(text_, formula->place);
    }
    if (python) read_python(*python);
    if (cuda) read_cuda(*cuda);
    const Names kinds = {"f64", "f32", "f16", "bf16"};
    const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
    reference.accumulate = types[choice(table->find("accumulate"), kinds, "a precision to accumulate in", 1)];
    reference.math =
        static_cast<Math>(choice(table->find("math"), {"standard", "fast"}, "a kind of math", 0));
  }

  void read_python(const TomlValue& value) {
    ReferenceSpec& reference = contract_.reference;
    reference.kind = ReferenceKind::Python;
    const std::string text = string(&value, "python");
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0 || !is_identifier(text.substr(colon + 1)))
      return fail(value.place, "python is written \"file.py:function\"");
    reference.python_file = text.substr(0, colon);
    reference.python_function = text.substr(colon + 1);
  }

  void read_cuda(const TomlValue& value) {
    ReferenceSpec& reference = contract_.reference;
    reference.kind = ReferenceKind::Cuda;
    if (!is(value, TomlKind::Table, "cuda = { source = \"...\", entry = \"...\" }")) return;
    keys(value, "cuda", {"source", "entry"});
    reference.cuda_source = string(need(value, "source", "cuda"), "source");
    reference.cuda_entry = string(need(value, "entry", "cuda"), "entry");
  }

  void read_require(const TomlValue& root) {
    const TomlValue* table = root.find("require");
    if (!table || !is(*table, TomlKind::Table, "a table [require]")) return;
    keys(*table, "[require]", {"deterministic", "nonfinite", "concurrent", "rtol", "atol"});
    Require& require = contract_.require;
    require.deterministic = boolean(table->find("deterministic"), false, "deterministic");
    require.concurrent = boolean(table->find("concurrent"), true, "concurrent");
    require.nonfinite_propagate =
        choice(table->find("nonfinite"), {"propagate", "ignore"}, "a rule for nonfinite values", 0) == 0;
    for (auto [key, target] : {std::pair{"rtol", &require.rtol}, std::pair{"atol", &require.atol}}) {
      const TomlValue* value = table->find(key);
      if (!value) continue;
      *target = number(*value, key);
      if (!(**target >= 0)) fail(value->place, fmt::format("{} cannot be negative", key));
    }
  }

  std::string_view text_;
  Contract contract_;
  bool failed_ = false;
  Error error_;
};

}  // namespace

Result<Contract> parse(std::string_view text, std::string path) {
  return Reader(text, std::move(path)).run();
}

Result<Contract> load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Error{"cannot read this contract", path};
  return parse(text.str(), path);
}

}  // namespace assay::contract
