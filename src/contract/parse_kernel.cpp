// The kernel, its shapes, its reference, and what is required of it.
#include <cmath>

#include "contract/formula.h"
#include "contract/reader.h"

namespace assay::contract {
void Reader::read_shapes(const TomlValue& root) {
  const TomlValue* list = root.find("shapes");
  if (!list || !is(*list, TomlKind::Array, "shapes", "a list of tables [[shapes]]")) return;
  Names names;
  for (const Dim& dim : contract_.dims) names.push_back(dim.name);
  for (const TomlValue& item : list->array) {
    if (!is(item, TomlKind::Table, "shapes", "a list of tables [[shapes]]")) return;
    keys(item, "[[shapes]]", names);
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
    contract_.shapes.push_back(std::move(shape));
  }
}

void Reader::read_kernel(const TomlValue& root) {
  const TomlValue* table = root.find("kernel");
  if (!table) return fail({}, "the contract lacks the table [kernel]; add it");
  if (!is(*table, TomlKind::Table, "kernel")) return;
  keys(*table, "[kernel]",
       {"source", "entry", "global", "args", "grid", "block", "shared_bytes", "workspace_bytes", "returns",
        "flags", "arch"});
  Kernel& kernel = contract_.kernel;
  kernel.place = table->place;
  for (const TomlEntry& entry : table->table) kernel.value_places.emplace(entry.key, entry.value.place);
  if (const TomlValue* source = need(*table, "source", "[kernel]")) {
    kernel.sources = strings(*source, "source", true);
    if (!failed_ && kernel.sources.empty()) fail(source->place, "`source` must not be empty");
    for (const std::string& path : kernel.sources)
      if (!failed_ && !path.ends_with(".cu") && !path.ends_with(".ptx"))
        fail(source->place, fmt::format("`{}` is neither CUDA C++ (.cu) nor PTX (.ptx)", path));
  }
  read_entry(*table, kernel);
  if (const TomlValue* args = need(*table, "args", "[kernel]")) read_args(*args, kernel);
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
                "[kernel] needs either `entry` (a host function) or `global` (a __global__ function)");
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

void Reader::read_args(const TomlValue& value, Kernel& kernel) {
  if (!is(value, TomlKind::Array, "args", "a list of names")) return;
  Names known = {"stream", "workspace"};
  for (const Dim& dim : contract_.dims) known.push_back(dim.name);
  for (const TensorSpec& tensor : contract_.tensors) known.push_back(tensor.name);
  for (const ScalarSpec& scalar : contract_.scalars) known.push_back(scalar.name);
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
    else if (contract_.dim(arg.name))
      arg.kind = ArgKind::Dim;
    else if (contract_.scalar(arg.name))
      arg.kind = ArgKind::Scalar;
    else {
      const std::string near = nearest(arg.name, known);
      return fail(item.place, fmt::format("`{}` is not a tensor, a dim or a scalar{}", arg.name,
                                          near.empty() ? ", nor `stream` or `workspace`"
                                                       : fmt::format("; did you mean `{}`?", near)));
    }
    kernel.args.push_back(std::move(arg));
  }
  for (const TensorSpec* output : contract_.outputs())
    if (std::ranges::none_of(kernel.args, [&](const Arg& arg) { return arg.name == output->name; }))
      fail(value.place, fmt::format("the output `{}` is not among the arguments", output->name));
}

void Reader::read_reference(const TomlValue& root) {
  const TomlValue* table = root.find("reference");
  if (!table) return fail({}, "the contract lacks the table [reference]; add it");
  if (!is(*table, TomlKind::Table, "reference")) return;
  keys(*table, "[reference]", {"formula", "python", "cuda", "accumulate", "math"});
  ReferenceSpec& reference = contract_.reference;
  const TomlValue* formula = table->find("formula");
  const TomlValue* python = table->find("python");
  const TomlValue* cuda = table->find("cuda");
  if ((formula != nullptr) + (python != nullptr) + (cuda != nullptr) != 1)
    return fail(table->place, "[reference] needs exactly one of `formula`, `python` and `cuda`");
  if (formula && is(*formula, TomlKind::String, "formula")) {
    reference.formula_text = formula->string;
    formula_places_ = content_places(*contract_.text, formula->place, formula->string);
    reference.formula_place = formula_places_.front();
  }
  if (python) read_python(*python);
  if (cuda) read_cuda(*cuda);
  const Names kinds = {"f64", "f32", "f16", "bf16"};
  const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
  reference.accumulate = types[choice(table->find("accumulate"), kinds, "precision", 1)];
  reference.math = static_cast<Math>(choice(table->find("math"), {"standard", "fast"}, "kind of math", 0));
}

void Reader::read_python(const TomlValue& value) {
  ReferenceSpec& reference = contract_.reference;
  reference.kind = ReferenceKind::Python;
  const std::string text = string(&value, "python");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || !is_identifier(text.substr(colon + 1)))
    return fail(value.place, "`python` is written as \"file.py:function\"");
  reference.python_file = text.substr(0, colon);
  reference.python_function = text.substr(colon + 1);
}

void Reader::read_cuda(const TomlValue& value) {
  ReferenceSpec& reference = contract_.reference;
  reference.kind = ReferenceKind::Cuda;
  if (!is(value, TomlKind::Table, "cuda", "a table { source = \"...\", entry = \"...\" }")) return;
  keys(value, "`cuda`", {"source", "entry"});
  reference.cuda_source = string(need(value, "source", "`cuda`"), "source");
  reference.cuda_entry = string(need(value, "entry", "`cuda`"), "entry");
}

void Reader::read_require(const TomlValue& root) {
  const TomlValue* table = root.find("require");
  if (!table || !is(*table, TomlKind::Table, "require")) return;
  keys(*table, "[require]", {"deterministic", "nonfinite", "concurrent", "batch_invariant", "rtol", "atol"});
  Require& require = contract_.require;
  require.deterministic = boolean(table->find("deterministic"), false, "deterministic");
  require.concurrent = boolean(table->find("concurrent"), true, "concurrent");
  require.nonfinite_propagate =
      choice(table->find("nonfinite"), {"propagate", "ignore"}, "rule for nonfinite values", 0) == 0;
  read_batch_invariant(table->find("batch_invariant"));
  for (auto [key, target] : {std::pair{"rtol", &require.rtol}, std::pair{"atol", &require.atol}}) {
    const TomlValue* value = table->find(key);
    if (!value) continue;
    *target = number(*value, key);
    if (!(**target >= 0)) fail(value->place, fmt::format("`{}` cannot be negative", key));
  }
}

void Reader::read_batch_invariant(const TomlValue* value) {
  if (!value) return;
  const Names names = strings(*value, "batch_invariant", false);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!contract_.dim(names[i]))
      return fail(value->array[i].place, fmt::format("`{}` is not a dim{}", names[i], suggest_dim(names[i])));
    contract_.require.batch_invariant.push_back(names[i]);
  }
}

}  // namespace assay::contract
