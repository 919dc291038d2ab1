// The kernel, its shapes, its reference, and what is required of it.
#include <charconv>
#include <cmath>

#include "contract/complex.h"
#include "contract/formula.h"
#include "contract/keys.h"
#include "contract/reader.h"

namespace assay::contract {
void Reader::read_shapes(const TomlValue& root) {
  const TomlValue* list = root.find("shapes");
  if (!list || !is(*list, TomlKind::Array, "shapes", "a list of tables [[shapes]]")) return;
  Names names;
  for (const Dim& dim : contract_.dims) names.push_back(dim.name);
  for (const DerivedDim& dim : contract_.derived) names.push_back(dim.name);
  for (const TomlValue& item : list->array) {
    if (!is(item, TomlKind::Table, "shapes", "a list of tables [[shapes]]")) return;
    keys(item, "[[shapes]]", names);
    if (failed_) return;
    Shape shape;
    for (const Dim& dim : contract_.dims) {
      const TomlValue* value = item.find(dim.name);
      if (!value && !dim.is_constant())
        return fail(item.place, fmt::format("this shape lacks a value for the dim `{}`; add it", dim.name));
      shape[dim.name] = integer(value, dim.min, dim.name);
      if (!failed_ && !dim.contains(shape[dim.name]))
        return fail(
            value ? value->place : item.place,
            fmt::format("{} = {} is outside the range in [dims]: {} to {}{}", dim.name, shape[dim.name],
                        dim.min, dim.max,
                        dim.multiple_of == 1 ? "" : fmt::format(", a multiple of {}", dim.multiple_of)));
    }
    for (const DerivedDim& dim : contract_.derived) {
      const TomlValue* given = item.find(dim.name);
      const Result<int64_t> value = dim.value.eval(shape);
      if (given && value && integer(given, *value, dim.name) != *value)
        return fail(given->place, fmt::format("{} is {} = {} in this shape, not {}", dim.name,
                                              dim.value.written(), *value, given->integer));
    }
    for (const DimRelation& relation : contract_.relations)
      if (!failed_ && !relation.holds(shape))
        return fail(item.place, fmt::format("this shape does not satisfy `{}` of [dims]", relation.text));
    contract_.shapes.push_back(std::move(shape));
  }
}

void Reader::read_only_listed(const TomlValue& root) {
  const TomlValue* only = root.find("only_listed_shapes");
  contract_.only_listed_shapes = boolean(only, false, "only_listed_shapes");
  if (failed_ || !contract_.only_listed_shapes || !contract_.shapes.empty()) return;
  Shape constants;
  for (const Dim& dim : contract_.dims) constants[dim.name] = dim.min;
  if (std::ranges::all_of(contract_.dims, &Dim::is_constant))
    contract_.shapes.push_back(std::move(constants));
  else
    fail(only->place, "`only_listed_shapes` needs shapes; add a table [[shapes]] for each");
}

void Reader::read_kernel(const TomlValue& root) {
  const TomlValue* table = root.find("kernel");
  if (!table) return fail({}, "the contract lacks the table [kernel]; add it");
  if (!is(*table, TomlKind::Table, "kernel")) return;
  keys(*table, "[kernel]", keys_of(Section::Kernel));
  Kernel& kernel = contract_.kernel;
  kernel.place = table->place;
  for (const TomlEntry& entry : table->table) kernel.value_places.emplace(entry.key, entry.value.place);
  if (table->find("python")) return read_python_kernel(*table, kernel);
  if (const TomlValue* source = need(*table, "source", "[kernel]")) {
    kernel.sources = strings(*source, "source", true);
    if (!failed_ && kernel.sources.empty()) fail(source->place, "`source` must not be empty");
    for (const std::string& path : kernel.sources)
      if (!failed_ && !path.ends_with(".cu") && !path.ends_with(".ptx"))
        fail(source->place, fmt::format("`{}` is neither CUDA C++ (.cu) nor PTX (.ptx)", path));
  }
  read_entry(*table, kernel);
  if (const TomlValue* args = need(*table, "args", "[kernel]")) {
    read_args(*args, kernel);
    check_outputs_among_args(*args, kernel);
  }
  if (const TomlValue* bytes = table->find("workspace_bytes"))
    kernel.workspace_bytes = int_expr(*bytes, "workspace_bytes");
  const bool wants =
      std::ranges::any_of(kernel.args, [](const Arg& arg) { return arg.kind == ArgKind::Workspace; });
  if (wants && !table->find("workspace_bytes"))
    fail(table->find("args")->place, "the argument `workspace` needs its size: add `workspace_bytes`");
  kernel.returns_int = choice(table->find("returns"), {"void", "int"}, "return type", 0) == 1;
  if (const TomlValue* flags = table->find("flags")) kernel.flags = strings(*flags, "flags", false);
  if (const TomlValue* arch = table->find("arch")) {
    kernel.arch = string(arch, "arch");
    if (!failed_ && !kernel.arch.starts_with("sm_")) fail(arch->place, "`arch` is written like \"sm_90\"");
  }
}

void Reader::read_entry(const TomlValue& table, Kernel& kernel) {
  const TomlValue* entry = table.find("entry");
  const TomlValue* global = table.find("global");
  if ((entry != nullptr) == (global != nullptr))
    return fail(table.place,
                "[kernel] needs one of `entry` (a host function), `global` (a __global__ function) and "
                "`python` (a Python function)");
  if (entry) kernel.entry = string(entry, "entry");
  if (global) kernel.global = string(global, "global");
  for (const char* key : {"grid", "block"}) {
    const TomlValue* value = table.find(key);
    if (entry && value)
      return fail(
          value->place,
          fmt::format("`{}` belongs to `global`; a host function named by `entry` chooses its own", key));
    if (entry) continue;
    if (!value) return fail(table.place, fmt::format("`global` needs `{}`; add it", key));
    std::vector<IntExpr> list = int_exprs(*value, key);
    if (!failed_ && (list.empty() || list.size() > 3))
      return fail(value->place, fmt::format("`{}` must have 1 to 3 elements", key));
    (std::string_view(key) == "grid" ? kernel.grid : kernel.block) = std::move(list);
  }
  if (const TomlValue* bytes = table.find("shared_bytes")) {
    if (entry)
      return fail(bytes->place,
                  "`shared_bytes` belongs to `global`; a host function named by `entry` chooses its own");
    kernel.shared_bytes = int_expr(*bytes, "shared_bytes");
  }
  for (const std::string& path : kernel.sources)
    if (entry && path.ends_with(".ptx"))
      fail(entry->place, "PTX has no host functions; use `global` instead of `entry`");
}

// A Python function gets tensors and numbers, works on torch's current stream, and allocates what it needs.
void Reader::read_python_kernel(const TomlValue& table, Kernel& kernel) {
  kernel.python = python_function(*table.find("python"), "python");
  kernel.sources = {kernel.python.file};
  for (const TomlEntry& entry : table.table) {
    const Names own = {"python", "args", "returns"};
    if (std::ranges::find(own, entry.key) == own.end())
      return fail(entry.place, fmt::format("`{}` is not for a Python function; remove it", entry.key));
  }
  kernel.returns_outputs =
      choice(table.find("returns"), {"outputs", "void"}, "kind of return of a Python function", 0) == 0;
  const TomlValue* args = need(table, "args", "[kernel]");
  if (failed_ || !args) return;
  read_args(*args, kernel);
  for (std::size_t i = 0; i < kernel.args.size(); ++i) {
    const Arg& arg = kernel.args[i];
    if (arg.kind == ArgKind::Stream)
      return fail(args->array[i].place, "a Python function gets no `stream`: it uses torch's current stream");
    if (arg.kind == ArgKind::Workspace)
      return fail(args->array[i].place, "a Python function gets no `workspace`: it allocates its own memory");
    const TensorSpec* tensor = contract_.tensor(arg.name);
    if (kernel.returns_outputs && tensor && tensor->role == Role::Out)
      return fail(args->array[i].place, fmt::format("`{}` is an output, which the function returns; remove "
                                                    "it from `args`, or set returns = \"void\"",
                                                    arg.name));
  }
  if (!kernel.returns_outputs) check_outputs_among_args(*args, kernel);
}

void Reader::read_args(const TomlValue& value, Kernel& kernel) {
  if (!is(value, TomlKind::Array, "args", "a list of names")) return;
  Names known = {"stream", "workspace"};
  for (const Dim& dim : contract_.dims) known.push_back(dim.name);
  for (const DerivedDim& dim : contract_.derived) known.push_back(dim.name);
  for (const TensorSpec& tensor : contract_.tensors) known.push_back(tensor.name);
  for (const ScalarSpec& scalar : contract_.scalars)
    known.push_back(scalar.name.substr(0, scalar.name.find('.')));  // a complex one is known by its name
  const Names buffers = contract_.buffers();
  known.insert(known.end(), buffers.begin(), buffers.end());
  for (const TomlValue& item : value.array) {
    Arg arg;
    arg.name = string_in(item, "args");
    if (failed_) return;
    if (arg.name == "stream")
      arg.kind = ArgKind::Stream;
    else if (arg.name == "workspace")
      arg.kind = ArgKind::Workspace;
    else if (contract_.tensor(arg.name))
      arg.kind = ArgKind::Tensor;
    else if (std::ranges::find(buffers, arg.name) != buffers.end())
      arg.kind = ArgKind::Buffer;
    else if (contract_.scalar(real_part_of(arg.name)))
      arg.kind = ArgKind::Complex;
    else if (contract_.dim(arg.name))
      arg.kind = ArgKind::Dim;
    else if (contract_.scalar(arg.name))
      arg.kind = ArgKind::Scalar;
    else if (!read_integer_argument(item, arg)) {
      if (failed_) return;
      const std::string near = nearest(arg.name, known);
      return fail(item.place, fmt::format("`{}` is not a tensor, a dim or a scalar{}", arg.name,
                                          near.empty() ? ", nor `stream` or `workspace`"
                                                       : fmt::format("; did you mean `{}`?", near)));
    }
    if (const TensorSpec* tensor = contract_.tensor(arg.name); tensor && !tensor->buffer.empty())
      return fail(item.place,
                  fmt::format("`{}` is part of the buffer `{}`; pass the buffer", arg.name, tensor->buffer));
    kernel.args.push_back(std::move(arg));
  }
}

// A derived dim, an expression over dims, or one with its type: "rows * cols", "i64(rows * cols)". A single word that
// means nothing is no expression: it is a name with a mistake in it.
bool Reader::read_integer_argument(const TomlValue& item, Arg& arg) {
  arg.kind = ArgKind::Integer;
  if (const DerivedDim* derived = contract_.derived_dim(arg.name)) {
    arg.value = derived->value;
    arg.type = derived->type;
    return true;
  }
  if (is_identifier(arg.name)) return false;
  std::string text = arg.name;
  int offset = 1;
  for (const DType type : {DType::i32, DType::i64, DType::u32, DType::u64}) {
    const std::string opening = fmt::format("{}(", info(type).name);
    if (!text.starts_with(opening) || !text.ends_with(")")) continue;
    arg.type = type;
    text = text.substr(opening.size(), text.size() - opening.size() - 1);
    offset += static_cast<int>(opening.size());
    break;
  }
  const std::string word = text.substr(0, text.find('('));
  if (word != text && is_identifier(word) && word != "ceil_div" && word != "min" && word != "max") {
    fail(item.place,
         fmt::format("`{}` is not an argument type; write i32(...), i64(...), u32(...) or u64(...)", word));
    return false;
  }
  arg.value = int_expr(text, item.place, offset, "args");
  return !failed_;
}

void Reader::check_outputs_among_args(const TomlValue& value, const Kernel& kernel) {
  for (const TensorSpec* output : contract_.outputs()) {
    const std::string& passed = output->buffer.empty() ? output->name : output->buffer;
    if (std::ranges::none_of(kernel.args, [&](const Arg& arg) { return arg.name == passed; }))
      fail(value.place, output->buffer.empty()
                            ? fmt::format("the output `{}` is not among the arguments", output->name)
                            : fmt::format("the buffer `{}` of the output `{}` is not among the arguments",
                                          output->buffer, output->name));
  }
}

void Reader::read_reference(const TomlValue& root) {
  const TomlValue* table = root.find("reference");
  if (!table) return fail({}, "the contract lacks the table [reference]; add it");
  if (!is(*table, TomlKind::Table, "reference")) return;
  keys(*table, "[reference]", keys_of(Section::Reference));
  ReferenceSpec& reference = contract_.reference;
  const TomlValue* formula = table->find("formula");
  const TomlValue* python = table->find("python");
  const TomlValue* torch = table->find("torch");
  const TomlValue* cuda = table->find("cuda");
  if ((formula != nullptr) + (python != nullptr) + (torch != nullptr) + (cuda != nullptr) != 1)
    return fail(table->place, "[reference] needs exactly one of `formula`, `python`, `torch` and `cuda`");
  if (formula && is(*formula, TomlKind::String, "formula")) {
    reference.formula_text = formula->string;
    formula_places_ = content_places(*contract_.text, formula->place, formula->string);
    reference.formula_place = formula_places_.front();
  }
  if (python) {
    reference.kind = ReferenceKind::Python;
    reference.python = python_function(*python, "python");
  }
  if (torch) {
    reference.kind = ReferenceKind::Torch;
    reference.python = python_function(*torch, "torch");
  }
  if (cuda) read_cuda(*cuda);
  const Names kinds = {"f64", "f32", "f16", "bf16"};
  const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
  reference.accumulate = types[choice(table->find("accumulate"), kinds, "precision", 1)];
  reference.math = static_cast<Math>(choice(table->find("math"), {"standard", "fast"}, "kind of math", 0));
}

// A condition is made of dims, scalars and numbers: what is known before anything is computed.
bool Reader::is_condition(const Expr& expr) {
  const bool plain = expr.kind == ExprKind::Integer || expr.kind == ExprKind::Real ||
                     expr.kind == ExprKind::Bool || expr.kind == ExprKind::Unary ||
                     (expr.kind == ExprKind::Binary && expr.name != "^");
  if (expr.kind == ExprKind::Name) {
    if (contract_.dim(expr.name) || contract_.derived_dim(expr.name) || contract_.scalar(expr.name))
      return true;
    Names known;
    for (const Dim& dim : contract_.dims) known.push_back(dim.name);
    for (const DerivedDim& dim : contract_.derived) known.push_back(dim.name);
    for (const ScalarSpec& scalar : contract_.scalars) known.push_back(scalar.name);
    const std::string near = nearest(expr.name, known);
    fail(expr.place, fmt::format("`{}` is not a dim or a scalar{}", expr.name,
                                 near.empty() ? "" : fmt::format("; did you mean `{}`?", near)));
    return false;
  }
  if (!plain) {
    fail(expr.place,
         "a condition compares dims, scalars and numbers; the formula itself may test elements with `if`");
    return false;
  }
  return std::ranges::all_of(expr.children, [&](const ExprPtr& child) { return is_condition(*child); });
}

void Reader::read_cases(const TomlValue& root) {
  const TomlValue* list = root.find("case");
  if (!list || !is(*list, TomlKind::Array, "case", "a list of tables [[case]]")) return;
  if (contract_.reference.kind != ReferenceKind::Formula)
    return fail(list->place, "[[case]] needs a reference that is a formula: it replaces that formula");
  for (const TomlValue& item : list->array) {
    if (!is(item, TomlKind::Table, "case", "a list of tables [[case]]")) return;
    keys(item, "[[case]]", keys_of(Section::Case));
    const TomlValue* when = need(item, "when", "[[case]]");
    const TomlValue* formula = need(item, "formula", "[[case]]");
    FormulaCase one;
    one.when_text = string(when, "when");
    one.formula_text = string(formula, "formula");
    if (failed_) return;
    const auto parsed = [&](const std::string& prefix,
                            const TomlValue& value) -> std::shared_ptr<const Formula> {
      std::vector<Place> places = content_places(*contract_.text, value.place, value.string);
      if (!prefix.empty()) places.insert(places.begin(), prefix.size(), places.front());
      Result<Formula> made = parse_formula(prefix + value.string, places, contract_.path, contract_.names());
      if (made) made = in_real_numbers(contract_, std::move(*made));
      if (made) return std::make_shared<const Formula>(std::move(*made));
      fail({made.error().line, made.error().column}, made.error().message);
      return nullptr;
    };
    one.when = parsed("when = ", *when);
    if (failed_) return;
    if (one.when->statements.size() != 1) return fail(when->place, "`when` is one condition");
    if (!is_condition(*one.when->statements[0].body)) return;
    one.formula = parsed("", *formula);
    one.formula_place = content_places(*contract_.text, formula->place, formula->string).front();
    if (failed_) return;
    contract_.reference.cases.push_back(std::move(one));
  }
}

void Reader::read_inputs(const TomlValue& root) {
  const TomlValue* table = root.find("inputs");
  for (const TensorSpec& tensor : contract_.tensors)
    if (!table && tensor.values.kind == ValuesKind::Generated)
      return fail(
          tensor.place,
          fmt::format("the values of `{}` are \"generated\": name the generator in [inputs]", tensor.name));
  if (!table || !is(*table, TomlKind::Table, "inputs")) return;
  keys(*table, "[inputs]", keys_of(Section::Inputs));
  const TomlValue* torch = need(*table, "torch", "[inputs]");
  if (!torch) return;
  if (contract_.reference.kind != ReferenceKind::Torch)
    return fail(torch->place, "`torch` inputs need a `torch` reference: the same process makes both");
  contract_.generator = python_function(*torch, "torch");
}

PythonFunction Reader::python_function(const TomlValue& value, std::string_view key) {
  const std::string text = string(&value, key);
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos && colon > 0 && is_identifier(text.substr(colon + 1)))
    return {text.substr(0, colon), text.substr(colon + 1), value.place};
  fail(value.place, fmt::format("`{}` is written as \"file.py:function\"", key));
  return {};
}

void Reader::read_cuda(const TomlValue& value) {
  ReferenceSpec& reference = contract_.reference;
  reference.kind = ReferenceKind::Cuda;
  if (!is(value, TomlKind::Table, "cuda", "a table { source = \"...\", entry = \"...\" }")) return;
  keys(value, "`cuda`", keys_of(Section::Cuda));
  const TomlValue* source = need(value, "source", "`cuda`");
  reference.cuda_source = string(source, "source");
  if (source) reference.cuda_place = source->place;
  reference.cuda_entry = string(need(value, "entry", "`cuda`"), "entry");
}

void Reader::read_require(const TomlValue& root) {
  // Python functions are written for the default stream, as a rule.
  contract_.require.concurrent = !contract_.kernel.python;
  const TomlValue* table = root.find("require");
  if (!table || !is(*table, TomlKind::Table, "require")) return;
  keys(*table, "[require]", keys_of(Section::Require));
  Require& require = contract_.require;
  require.deterministic = boolean(table->find("deterministic"), false, "deterministic");
  require.concurrent = boolean(table->find("concurrent"), require.concurrent, "concurrent");
  require.own_kernel = boolean(table->find("own_kernel"), true, "own_kernel");
  require.nonfinite = static_cast<NonfiniteRule>(
      choice(table->find("nonfinite"), {"propagate", "warn", "ignore"}, "rule for nonfinite values", 0));
  read_batch_invariant(table->find("batch_invariant"));
  for (auto [key, target] : {std::pair{"rtol", &require.rtol}, std::pair{"atol", &require.atol}}) {
    const TomlValue* value = table->find(key);
    if (!value) continue;
    *target = number(*value, key);
    if (!(**target >= 0)) fail(value->place, fmt::format("`{}` cannot be negative", key));
  }
}

void Reader::read_workload(const TomlValue& root) {
  const TomlValue* table = root.find("workload");
  if (!table || !is(*table, TomlKind::Table, "workload")) return;
  keys(*table, "[workload]", keys_of(Section::Workload));
  Workload& workload = contract_.workload;
  const TomlValue* slot = need(*table, "slot", "[workload]");
  if (!slot) return;
  workload.slot = string(slot, "slot");
  workload.place = slot->place;
  workload.tensors = workload_names(*table, "tensors");
  workload.dims = workload_names(*table, "dims");
  workload.scalars = workload_names(*table, "scalars");
}

// { own = "the slot's" }; a dim may be a number.
std::vector<WorkloadName> Reader::workload_names(const TomlValue& table, std::string_view key) {
  std::vector<WorkloadName> names;
  const TomlValue* list = table.find(key);
  if (!list || !is(*list, TomlKind::Table, key, "a table { of the contract = \"of the slot\" }"))
    return names;
  for (const TomlEntry& entry : list->table) {
    const bool is_number = key == "dims" && entry.value.kind == TomlKind::Integer;
    const std::string slots =
        is_number ? std::to_string(entry.value.integer) : string(&entry.value, entry.key);
    names.push_back({entry.key, slots, entry.place, entry.value.place});
  }
  return names;
}

// Only its keys: what they mean is the monitor's business (monitor/settings.h).
void Reader::read_monitor(const TomlValue& root) {
  const TomlValue* table = root.find("monitor");
  if (!table || !is(*table, TomlKind::Table, "monitor")) return;
  keys(*table, "[monitor]", keys_of(Section::Monitor));
  if (const TomlValue* trusted = table->find("trusted"); trusted && is(*trusted, TomlKind::Table, "trusted"))
    keys(*trusted, "`trusted` of [monitor]", keys_of(Section::Trusted));
}

void Reader::read_origin(const TomlValue& root) {
  const TomlValue* table = root.find("origin");
  if (!table || !is(*table, TomlKind::Table, "origin")) return;
  keys(*table, "[origin]", keys_of(Section::Origin));
  Origin& origin = contract_.origin;
  if (const TomlValue* answer = table->find("answer")) origin.answer = string(answer, "answer");
  if (const TomlValue* function = table->find("function")) {
    const std::string text = string(function, "function");
    const std::size_t colon = text.rfind(':');
    const char* end = text.data() + text.size();
    const char* digits = colon == std::string::npos ? end : text.data() + colon + 1;
    const auto [rest, problem] = std::from_chars(digits, end, origin.function_line);
    if (failed_) return;
    if (colon == 0 || problem != std::errc() || rest != end || origin.function_line <= 0)
      return fail(function->place, "`function` is written as \"file.py:LINE\"");
    origin.function_file = text.substr(0, colon);
  }
  const TomlValue* files = table->find("files");
  if (!files || !is(*files, TomlKind::Table, "files", "a table { copy = \"original\" }")) return;
  for (const TomlEntry& entry : files->table) origin.files[entry.key] = string(&entry.value, entry.key);
}

void Reader::read_batch_invariant(const TomlValue* value) {
  if (!value) return;
  const Names names = strings(*value, "batch_invariant", false);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (contract_.derived_dim(names[i]))
      return fail(value->array[i].place,
                  fmt::format("`{}` follows from other dims; name one of those", names[i]));
    if (!contract_.dim(names[i]))
      return fail(value->array[i].place, fmt::format("`{}` is not a dim{}", names[i], suggest_dim(names[i])));
    contract_.require.batch_invariant.push_back(names[i]);
  }
}

}  // namespace assay::contract
