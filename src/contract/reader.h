// From a TOML text to a Contract: every key by name, every mistake with its place. Private to parsing:
//   parse.cpp          the whole, and values of a kind
//   parse_tensors.cpp  dims, tensors, scalars
//   parse_memory.cpp   complex numbers, parts of one allocation, arrays of pointers
//   parse_kernel.cpp   kernel, shapes, reference, requirements
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "contract/contract.h"
#include "contract/formula.h"
#include "contract/toml.h"

namespace assay::contract {

using Names = std::vector<std::string>;

bool is_identifier(std::string_view word);
// "a, b or c"
std::string listed(const Names& names, std::string_view last = " or ");
std::string trimmed(std::string_view text);

// Reads one contract. The first mistake found stops everything; after it every
// getter returns its default.
class Reader {
 public:
  Reader(std::string_view text, std::string path) {
    contract_.path = std::move(path);
    contract_.text = std::make_shared<const std::string>(text);
  }
  Result<Contract> run();

 private:
  void fail(Place place, std::string message) {
    if (!failed_) error_ = contract_.error_at(place, std::move(message));
    failed_ = true;
  }

  // ---- values of a kind ----------------------------------------------------
  void keys(const TomlValue& table, std::string_view where, const Names& known);
  const TomlValue* need(const TomlValue& table, std::string_view key, std::string_view where);
  // "`what` must be a list of names, not a string"; without `expected`, the kind's own name.
  bool is(const TomlValue& value, TomlKind kind, std::string_view what, std::string_view expected = "");
  std::string string(const TomlValue* value, std::string_view what);
  std::string string_in(const TomlValue& item, std::string_view list);
  int64_t integer(const TomlValue* value, int64_t otherwise, std::string_view what);
  bool boolean(const TomlValue* value, bool otherwise, std::string_view what);
  double number(const TomlValue& value, std::string_view what);
  std::size_t choice(const TomlValue* value, const Names& words, std::string_view what,
                     std::size_t otherwise);
  DType dtype(const TomlValue* value, std::string_view what);
  IntExpr int_expr(const TomlValue& value, std::string_view what);
  IntExpr int_expr(const std::string& text, Place quote, int offset, std::string_view what);
  // The names that an expression uses are dims.
  void check_names(const std::vector<std::string>& names, const std::string& text, Place quote, int offset);
  std::string suggest_dim(const std::string& name) const;
  std::vector<IntExpr> int_exprs(const TomlValue& value, std::string_view what);
  Names strings(const TomlValue& value, std::string_view what, bool one_allowed);
  void new_name(const std::string& name, Place place, std::string_view what);

  // ---- tables ----------------------------------------------------------------
  void read_all(const TomlValue& root);
  template <class Function>
  void each(const TomlValue& root, std::string_view key, Function read) {
    const TomlValue* table = root.find(key);
    if (failed_ || !table || !is(*table, TomlKind::Table, key)) return;
    for (const TomlEntry& entry : table->table)
      if (!failed_) read(entry);
  }
  void read_dims(const TomlValue& root);
  void read_dim(const TomlEntry& entry);
  void read_derived(const TomlEntry& entry);
  void read_relations(const TomlValue& value);
  void check_promise(const TomlValue& root);
  void read_tensor(const TomlEntry& entry);
  Values default_values(DType type);
  Values read_values(const TomlValue* value, DType type);
  static bool split_arguments(const std::string& text, std::size_t open,
                              std::vector<std::pair<std::string, int>>& arguments);
  double real_argument(const std::pair<std::string, int>& argument, Place quote);
  bool element_type(const TomlValue* value, DType& type);
  void make_complex(TensorSpec& tensor);
  void read_complex_scalar(const TomlEntry& entry, DType part);
  void read_buffer(const TomlValue& table, TensorSpec& tensor);
  void read_pointers(const TomlValue& table, TensorSpec& tensor);
  void check_places(const TomlValue& root);
  void check_buffers(const TomlValue& root);
  void require_room(const TensorSpec& tensor);
  void read_optional(const TomlValue* value, TensorSpec& tensor);
  void check_memory();
  void read_strides(const TomlValue& value, TensorSpec& tensor);
  void read_aliases(const TomlValue& root);
  void read_scalar(const TomlEntry& entry);
  double scalar_number(const TomlValue& value, DType type);
  void read_shapes(const TomlValue& root);
  void read_only_listed(const TomlValue& root);
  void read_kernel(const TomlValue& root);
  void read_entry(const TomlValue& table, Kernel& kernel);
  void read_python_kernel(const TomlValue& table, Kernel& kernel);
  PythonFunction python_function(const TomlValue& value, std::string_view key);
  void read_args(const TomlValue& value, Kernel& kernel);
  bool read_integer_argument(const TomlValue& item, Arg& arg);
  void check_outputs_among_args(const TomlValue& args, const Kernel& kernel);
  void read_reference(const TomlValue& root);
  void read_cases(const TomlValue& root);
  bool is_condition(const Expr& expr);
  void read_inputs(const TomlValue& root);
  void read_cuda(const TomlValue& value);
  void read_require(const TomlValue& root);
  void read_workload(const TomlValue& root);
  std::vector<WorkloadName> workload_names(const TomlValue& table, std::string_view key);
  void read_origin(const TomlValue& root);
  void read_monitor(const TomlValue& root);
  void read_batch_invariant(const TomlValue* value);
  Contract contract_;
  IntExpr::Named named_;               // the derived dims so far
  std::vector<Place> formula_places_;  // of each byte of the formula's text, and of its end
  bool failed_ = false;
  Error error_;
};

}  // namespace assay::contract
