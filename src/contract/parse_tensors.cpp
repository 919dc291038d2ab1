// Dims, tensors and scalars.
#include <cmath>
#include <limits>

#include "contract/formula.h"
#include "contract/keys.h"
#include "contract/reader.h"

namespace assay::contract {
namespace {

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
    {"distinct", ValuesKind::Distinct, 1, false},
    {"slots", ValuesKind::Slots, 1, false},
    {"mask", ValuesKind::Mask, 0, false},
    {"offsets", ValuesKind::Offsets, 1, false},
    {"integers", ValuesKind::Integers, 2, false},
    {"generated", ValuesKind::Generated, 0, false},
};

// "no arguments", "1 argument" or "no arguments or 2 arguments".
std::string arguments_of(std::string_view name) {
  std::string text;
  for (const ValuesRow& row : kValues)
    if (row.name == name)
      text += fmt::format("{}{} argument{}", text.empty() ? "" : " or ",
                          row.arguments == 0 ? "no" : std::to_string(row.arguments),
                          row.arguments == 1 ? "" : "s");
  return text;
}

}  // namespace

// Ranges and constants first: what follows from dims, and relations between them, may stand above them.
void Reader::read_dims(const TomlValue& root) {
  const auto is_relation = [](const TomlEntry& entry) {
    return entry.key == "require" &&
           (entry.value.kind == TomlKind::String || entry.value.kind == TomlKind::Array);
  };
  const auto is_derived = [](const TomlEntry& entry) {
    return entry.value.kind == TomlKind::String || entry.value.find("value") != nullptr;
  };
  each(root, "dims", [&](const TomlEntry& entry) {
    if (!is_relation(entry) && !is_derived(entry)) read_dim(entry);
  });
  each(root, "dims", [&](const TomlEntry& entry) {
    if (!is_relation(entry) && is_derived(entry)) read_derived(entry);
  });
  each(root, "dims", [&](const TomlEntry& entry) {
    if (is_relation(entry)) read_relations(entry.value);
  });
}

void Reader::read_derived(const TomlEntry& entry) {
  new_name(entry.key, entry.place, "dim");
  DerivedDim dim;
  dim.name = entry.key;
  dim.place = entry.place;
  const TomlValue* value = &entry.value;
  if (value->kind == TomlKind::Table) {
    keys(*value, fmt::format("the dim `{}`", dim.name), keys_of(Section::Derived));
    const DType types[] = {DType::i32, DType::i64, DType::u32, DType::u64};
    dim.type = types[choice(value->find("type"), {"i32", "i64", "u32", "u64"}, "type of a dim", 0)];
    value = value->find("value");
  }
  dim.value = int_expr(*value, dim.name);
  if (failed_) return;
  if (dim.value.dims().empty())
    return fail(value->place,
                fmt::format("a dim is an integer, or a range {{ min = ..., max = ... }}; write `{}` "
                            "without quotes, or an expression over other dims",
                            dim.value.written()));
  named_[dim.name] = dim.value;
  contract_.derived.push_back(std::move(dim));
}

void Reader::read_relations(const TomlValue& value) {
  const std::vector<TomlValue> one = {value};
  for (const TomlValue& item : value.kind == TomlKind::Array ? value.array : one) {
    const std::string text = string_in(item, "require");
    if (failed_) return;
    Result<std::vector<DimRelation>> relations = DimRelation::parse(text, named_);
    if (!relations)
      return fail({item.place.line, item.place.column + relations.error().column},
                  fmt::format("in `require`: {}", relations.error().message));
    for (DimRelation& relation : *relations) {
      check_names(relation.dims(), text, item.place, 1);
      contract_.relations.push_back(std::move(relation));
    }
  }
}

void Reader::read_dim(const TomlEntry& entry) {
  new_name(entry.key, entry.place, "dim");
  Dim dim;
  dim.name = entry.key;
  dim.place = entry.place;
  const TomlValue& value = entry.value;
  if (value.kind == TomlKind::Integer) {
    dim.min = dim.max = value.integer;
  } else if (value.kind == TomlKind::Table) {
    keys(value, fmt::format("the dim `{}`", dim.name), keys_of(Section::Dim));
    dim.min = integer(value.find("min"), 1, "min");
    const TomlValue* max = value.find("max");
    if (!max) return fail(entry.place, fmt::format("the dim `{}` needs the key `max`", dim.name));
    dim.max = integer(max, 1, "max");
    dim.multiple_of = integer(value.find("multiple_of"), 1, "multiple_of");
    const DType types[] = {DType::i32, DType::i64, DType::u32, DType::u64};
    dim.type = types[choice(value.find("type"), {"i32", "i64", "u32", "u64"}, "type of a dim", 0)];
  } else {
    return fail(value.place,
                "a dim is an integer, or a range { min = ..., max = ... }, or an expression over other dims "
                "in quotes");
  }
  const auto at = [&](std::string_view key) {
    const TomlValue* found = value.find(key);
    return found ? found->place : value.place;
  };
  if (dim.min < 0) fail(at("min"), fmt::format("the dim `{}` cannot be negative", dim.name));
  if (dim.max < dim.min)
    fail(at("max"),
         fmt::format("the dim `{}` has max = {}, which is less than min = {}", dim.name, dim.max, dim.min));
  if (dim.multiple_of < 1) fail(at("multiple_of"), "`multiple_of` must be at least 1");
  if (!failed_ && dim.highest() < dim.lowest())
    fail(at("multiple_of"),
         fmt::format("there is no multiple of {} from {} to {}", dim.multiple_of, dim.min, dim.max));
  if (dim.max > info(dim.type).max_integer)
    fail(at("max"),
         fmt::format("{} does not fit the dim's type {}; add type = \"i64\"", dim.max, info(dim.type).name));
  contract_.dims.push_back(dim);
}

void Reader::read_tensor(const TomlEntry& entry) {
  new_name(entry.key, entry.place, "tensor");
  if (!is(entry.value, TomlKind::Table, "tensors." + entry.key)) return;
  const TomlValue& table = entry.value;
  const std::string where = fmt::format("[tensors.{}]", entry.key);
  keys(table, where, keys_of(Section::Tensor));
  TensorSpec tensor;
  tensor.name = entry.key;
  tensor.place = entry.place;
  const bool is_complex = element_type(need(table, "dtype", where), tensor.dtype);
  if (const TomlValue* shape = need(table, "shape", where)) {
    tensor.shape = int_exprs(*shape, "shape");
    if (tensor.shape.size() > 16) fail(shape->place, "a tensor can have at most 16 dimensions");
  }
  if (const TomlValue* strides = table.find("strides")) read_strides(*strides, tensor);
  tensor.role = static_cast<Role>(choice(table.find("role"), {"in", "out", "inout"}, "role", 0));
  tensor.values = read_values(table.find("values"), tensor.dtype);
  if (!failed_ && tensor.values.kind == ValuesKind::Distinct) require_room(tensor);
  tensor.align = integer(table.find("align"), 256, "align");
  if (tensor.align < 1 || (tensor.align & (tensor.align - 1)) != 0)
    fail(table.find("align")->place, "`align` must be a power of two");
  if (!failed_ && is_complex) make_complex(tensor);
  read_optional(table.find("optional"), tensor);
  read_buffer(table, tensor);
  read_pointers(table, tensor);
  contract_.tensors.push_back(std::move(tensor));
}

// So many different indices there must be.
void Reader::require_room(const TensorSpec& tensor) {
  std::string count;
  for (const IntExpr& extent : tensor.shape)
    count += fmt::format("{}({})", count.empty() ? "" : " * ", extent.written());
  if (tensor.shape.size() == 1) count = tensor.shape[0].written();
  Result<std::vector<DimRelation>> relations = DimRelation::parse(
      fmt::format("{} <= {}", count.empty() ? "1" : count, tensor.values.a.written()), named_);
  if (!relations) return fail(tensor.place, relations.error().message);
  for (DimRelation& relation : *relations) contract_.relations.push_back(std::move(relation));
}

void Reader::read_optional(const TomlValue* value, TensorSpec& tensor) {
  tensor.optional = boolean(value, false, "optional");
  if (failed_ || !tensor.optional) return;
  if (tensor.role != Role::In)
    return fail(value->place, fmt::format("`optional` is for inputs, but `{}` is an output", tensor.name));
  ScalarSpec presence;
  presence.name = presence_of(tensor.name);
  presence.dtype = DType::boolean;
  presence.values = {1, 0};
  presence.place = value->place;
  contract_.scalars.push_back(std::move(presence));
}

void Reader::read_strides(const TomlValue& value, TensorSpec& tensor) {
  tensor.strides = int_exprs(value, "strides");
  if (failed_ || tensor.strides.size() == tensor.shape.size()) return;
  fail(value.place, fmt::format("`strides` needs one element for each extent of `shape`: {}, not {}",
                                tensor.shape.size(), tensor.strides.size()));
}

Values Reader::default_values(DType type) {
  Values values;
  if (info(type).kind == DTypeKind::Bool) values.kind = ValuesKind::Mask;
  if (info(type).kind != DTypeKind::Integer) return values;
  values.kind = ValuesKind::Integers;
  values.a = IntExpr::literal(info(type).min_integer);
  values.b = IntExpr::literal(info(type).max_integer);
  return values;
}

Values Reader::read_values(const TomlValue* value, DType type) {
  Values values = default_values(type);
  if (!value) return values;
  const std::string text = string(value, "values");
  values.text = text;
  const std::size_t open = text.find('(');
  const std::string name = trimmed(text.substr(0, open));
  const ValuesRow* row = nullptr;
  std::vector<std::pair<std::string, int>> arguments;  // and where in the text
  if (!split_arguments(text, open, arguments))
    fail(value->place, "`values` is written as NAME, NAME(a) or NAME(a, b)");
  Names known;
  for (const ValuesRow& candidate : kValues) {
    if (known.empty() || known.back() != candidate.name) known.emplace_back(candidate.name);
    if (candidate.name == name && candidate.arguments == static_cast<int>(arguments.size())) row = &candidate;
  }
  if (!row) {
    const bool known_name = std::ranges::find(known, name) != known.end();
    const std::string near = nearest(name, known);
    fail(value->place, known_name
                           ? fmt::format("`{}` takes {}, not {}", name, arguments_of(name), arguments.size())
                           : fmt::format("unknown kind of values `{}`; use {}{}", name, listed(known),
                                         near.empty() ? "" : fmt::format("; did you mean `{}`?", near)));
    return values;
  }
  const bool for_all = row->kind == ValuesKind::Mask || row->kind == ValuesKind::Generated;
  if (row->for_floats != is_float(type) && !for_all)
    fail(value->place, fmt::format("`{}` describes {}, but the dtype is {}", name,
                                   row->for_floats ? "floating-point numbers" : "integers", info(type).name));
  values.kind = row->kind;
  if (row->kind == ValuesKind::RealRange) {
    values.low = real_argument(arguments[0], value->place);
    values.high = real_argument(arguments[1], value->place);
    if (!failed_ && !(values.low <= values.high))
      fail(value->place, fmt::format("the range is empty: {} is more than {}", values.low, values.high));
  } else if (!arguments.empty()) {
    values.a = int_expr(arguments[0].first, value->place, 1 + arguments[0].second, "values");
    if (arguments.size() > 1)
      values.b = int_expr(arguments[1].first, value->place, 1 + arguments[1].second, "values");
  }
  return values;
}

bool Reader::split_arguments(const std::string& text, std::size_t open,
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

double Reader::real_argument(const std::pair<std::string, int>& argument, Place quote) {
  const auto& [text, offset] = argument;
  const std::string word = trimmed(text);
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  const int blanks = word.empty() ? 0 : static_cast<int>(text.find(word));
  if (word.empty() || *end != '\0')
    fail({quote.line, quote.column + 1 + offset + blanks},
         fmt::format("expected a number, found `{}`", word));
  return value;
}

void Reader::read_aliases(const TomlValue& root) {
  if (failed_) return;
  for (TensorSpec& tensor : contract_.tensors) {
    const TomlValue* alias = root.find("tensors")->find(tensor.name)->find("may_alias");
    if (!alias) continue;
    tensor.may_alias = string(alias, "may_alias");
    const TensorSpec* other = contract_.tensor(tensor.may_alias);
    if (!other || other->role == Role::Out || other == &tensor)
      fail(alias->place, fmt::format("`{}` is not an input", tensor.may_alias));
    if (!tensor.is_output())
      fail(alias->place, fmt::format("`may_alias` is for outputs, but `{}` is an input", tensor.name));
  }
}

void Reader::read_scalar(const TomlEntry& entry) {
  new_name(entry.key, entry.place, "scalar");
  if (!is(entry.value, TomlKind::Table, "scalars." + entry.key)) return;
  const TomlValue& table = entry.value;
  const std::string where = fmt::format("[scalars.{}]", entry.key);
  keys(table, where, keys_of(Section::Scalar));
  ScalarSpec scalar;
  scalar.name = entry.key;
  scalar.place = entry.place;
  if (element_type(need(table, "dtype", where), scalar.dtype))
    return read_complex_scalar(entry, scalar.dtype);
  const TomlValue* one = table.find("value");
  const TomlValue* list = table.find("values");
  const TomlValue* range = table.find("range");
  if ((one != nullptr) + (list != nullptr) + (range != nullptr) != 1)
    return fail(entry.place, where + " needs exactly one of `value`, `values` and `range`");
  if (one) scalar.values = {scalar_number(*one, scalar.dtype)};
  if (list && is(*list, TomlKind::Array, "values", "a list of numbers"))
    for (const TomlValue& item : list->array) scalar.values.push_back(scalar_number(item, scalar.dtype));
  if (list && !failed_ && scalar.values.empty()) fail(list->place, "`values` must not be empty");
  if (range) {
    if (range->kind != TomlKind::Array || range->array.size() != 2)
      return fail(range->place, "`range` is written as [low, high]");
    scalar.low = scalar_number(range->array[0], scalar.dtype);
    scalar.high = scalar_number(range->array[1], scalar.dtype);
    if (!(scalar.low <= scalar.high))
      fail(range->place, fmt::format("the range is empty: {} is more than {}", scalar.low, scalar.high));
  }
  contract_.scalars.push_back(std::move(scalar));
}

double Reader::scalar_number(const TomlValue& value, DType type) {
  if (value.kind == TomlKind::Bool && type == DType::boolean) return value.boolean;
  const double given = number(value, "value");
  if (!is_float(type) && rounded(type, given) != given)
    fail(value.place, fmt::format("{} is not a value of type {}", given, info(type).name));
  return given;
}

}  // namespace assay::contract
