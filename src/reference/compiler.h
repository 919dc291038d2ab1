// Names, types and scopes: from the tree of a formula to a CompiledFormula. Private to compilation:
//   compile.cpp              nodes, conversions, index variables
//   compile_expressions.cpp  what stands on the right
//   compile_statements.cpp   reductions, and what stands on the left
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "contract/formula.h"
#include "reference/compiled_formula.h"
#include "reference/shaped_formula.h"

namespace assay::reference {

// Where an expression stands.
struct Context {
  bool index = false;    // a subscript or the end of a range: `/` is floor division
  bool guarded = false;  // evaluated only where a condition holds
  bool bound = false;    // the end of a range: its subscripts say little of other ranges
};

// "`x` has 2 dimensions, but 1 index is given"
inline std::string index_count(std::string_view name, std::size_t dimensions, std::size_t given) {
  return fmt::format("`{}` has {} dimension{}, but {} {} given", name, dimensions, dimensions == 1 ? "" : "s",
                     given, given == 1 ? "index is" : "indices are");
}

struct Scope {
  int definition = -1;
  Scope* outer = nullptr;
  bool implicit = false;  // unknown names are indices to reduce over (`+=`)
  std::map<std::string, int, std::less<>> names;
};

class Compiler {
 public:
  Compiler(const Contract& contract, bool as_written) : contract_(contract), as_written_(as_written) {
    compiled_.final_definition.assign(contract.tensors.size(), -1);
    for (std::size_t i = 0; i < contract.tensors.size(); ++i)
      if (contract.tensors[i].is_input()) names_[contract.tensors[i].name] = add_source({true, int(i), -1});
  }
  Result<std::shared_ptr<const CompiledFormula>> run();

 private:
  int fail(Place place, std::string message) {
    if (!failed_) error_ = contract_.error_at(place, std::move(message));
    failed_ = true;
    return -1;
  }
  int add_source(Source source) {
    compiled_.sources.push_back(source);
    return static_cast<int>(compiled_.sources.size()) - 1;
  }
  Definition& definition(const Scope& scope) {
    return compiled_.definitions[static_cast<std::size_t>(scope.definition)];
  }
  Node& at(const Scope& scope, int node) { return definition(scope).nodes[static_cast<std::size_t>(node)]; }
  int add(const Scope& scope, Node node);
  bool is_exponential(const std::vector<Node>& nodes, const Node& node) const;
  bool is_shifted_exponential(const std::vector<Node>& nodes, int id) const;
  bool depends_on_extreme(const std::vector<Node>& nodes, int id) const;
  const Definition* loaded(const Node& node) const;  // the definition that it reads; null if there is none
  int add(const Scope& scope, Op op, Type type, Place place, int a, int b = -1, int c = -1);
  int integer_node(const Scope& scope, int64_t value, Place place);

  // ---- conversions -----------------------------------------------------------
  int to_float(const Scope& scope, int node);
  int to_number(const Scope& scope, int node);
  void bool_to_int(const Scope& scope, int& node);
  int to_bool(const Scope& scope, int node);
  int to_int(const Scope& scope, int node, std::string_view what);
  Type unify(const Scope& scope, int& a, int& b);

  // ---- variables -------------------------------------------------------------
  int new_variable(Scope& scope, const std::string& name, Place place);
  int find_variable(Scope& scope, const std::string& name);
  int index_node(Scope& scope, int variable, Place place);
  void record_use(const Scope& scope, int variable, Use use);

  // ---- expressions -----------------------------------------------------------
  int expression(Scope& scope, const Expr& expr, Context context);
  int unknown(const std::string& word, Place place, bool subscripted);
  std::string not_a_tensor(const std::string& word) const;
  int name(Scope& scope, const Expr& expr);
  int leaf(Scope& scope, Op op, Type type, int ref, Place place);
  static Type type_of(DType dtype);
  Type source_type(int source) const;
  std::size_t rank(int source) const;
  static bool is_single(const TensorSpec& spec);
  bool is_single(int source) const;
  int element(Scope& scope, const Expr& expr, Context context);
  int stored_in_between(Scope& scope, int source, int load);
  int binary(Scope& scope, const Expr& expr, Context context);
  int power(Scope& scope, int base, int exponent, Place place);
  int conditional(Scope& scope, const Expr& expr, Context context);
  int arguments(Scope& scope, const Expr& expr, Context context, std::size_t least, std::size_t most,
                std::vector<int>& list);
  int call(Scope& scope, const Expr& expr, Context context);
  int cast(Scope& scope, const Expr& expr, Context context, DType dtype);

  void add_choice(Choice choice);
  void drop_casts_of_stores();
  void mark_centres();
  void mark_avoidable_overflow();

  // ---- reductions and statements -------------------------------------------------
  int new_definition(std::string defined, Place place);
  void bind_range(Scope& scope, int variable, const Expr& low, const Expr& high, Context context,
                  bool on_left);
  int reduction(Scope& outer, const Expr& expr, Context context);
  int find_twin(const Scope& outer, const Scope& scope);
  std::pair<int, int> origin(int definition_id, int variable) const;
  static bool find_in_outer(const Scope& scope, const std::string& word) {
    for (const Scope* s = &scope; s; s = s->outer)
      if (s->names.contains(word)) return true;
    return false;
  }
  int load_captured(Scope& outer, const Scope& scope, const Expr& expr);
  void statement(const Statement& written);
  static void reduce_the_rest(Definition& made);
  int finish_body(Scope& scope, int body, const TensorSpec* spec, AssignKind kind);
  void left_side(Scope& scope, const Statement& written, const TensorSpec* spec, int tensor, int previous);
  void place(Scope& scope, const Statement& written, std::size_t i, int variable, int tensor, int previous);
  const Contract& contract_;
  const bool as_written_;
  CompiledFormula compiled_;
  std::map<std::string, int, std::less<>> names_;  // the latest source of every name
  bool failed_ = false;
  Error error_;
};

}  // namespace assay::reference
