// A formula, resolved: what is evaluated.
//
// Every assignment becomes a Definition, and so does every reduction inside an
// expression: `y[i, j] = x[i, j] / sum[k](x[i, k])` is two definitions, the sum
// being a tensor over i of its own. So a definition's body never contains a
// loop, values that do not depend on an index are computed once, and the
// evaluator (evaluation.h) has one kind of thing to do: compute some elements of a
// definition, asking for the elements of others as it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "reference/names.h"
#include "reference/reference.h"

namespace assay::reference {

enum class Type : uint8_t { Int, Float, Bool };

// clang-format off
enum class Op : uint8_t {
  // leaves
  Integer, Real, Dim, Scalar, Index, Load,
  Choice,  // what the kernel chose (choices.h)
  // conversions: Int to Float; a cast that an implementation may round at; to an
  // integer toward zero (CastInt) or to nearest even (StoreInt); a shift of exps (shifted.h)
  ToFloat, CastFloat, CastInt, StoreInt, ToBool, Shift,
  // arithmetic, on Int or Float as the node's type says
  Neg, Add, Sub, Mul, Div, FloorDiv, Mod, CeilDiv, Pow, Min, Max, Abs, Sign,
  // on Int
  BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight,
  // functions of Float
  Floor, Ceil, Round, Exp, Exp2, Expm1, Log, Log2, Log1p, Sqrt, Rsqrt, Tanh, Erf, Erfc, Sigmoid, Softplus,
  Sin, Cos,
  // conditions; the operands of comparisons have one type
  Less, LessEqual, Equal, NotEqual, IsNan, And, Or, Not,
  If,
};
// clang-format on

struct Node {
  Op op = Op::Integer;
  Type type = Type::Int;
  Place place;
  int a = -1, b = -1, c = -1;  // operands
  // Integer; Pow: a literal exponent if `literal_exponent`; Div: 1 if of integers; Shift: 1 if it depends on
  // one element only; Add: of a logarithm that was shifted, what it is of (Arithmetic::LogOf);
  // Add and Sub: contract::kAnyOrder
  int64_t integer = 0;
  double real = 0;
  int ref = -1;                 // Dim, Scalar, Index, Load: which
  DType dtype = DType::f32;     // casts
  std::vector<int> subscripts;  // Load
  bool guarded = false;         // under an `if` or a filter: may be out of range where not evaluated
  bool exponential = false;     // a product or quotient of an exp
  bool rescaled =
      false;  // CastFloat: of an exp that is shifted by an extreme, for which a kernel may take another
  bool literal_exponent = false;  // Pow
  uint64_t indices = 0;           // the variables of the definition that it depends on
  std::string text;               // Load: as written, for messages
};

// Where a value comes from: a tensor before the call, or a definition.
struct Source {
  bool is_input = false;
  int tensor = -1;      // of inputs: index into Contract::tensors
  int definition = -1;  // else
};

// An index variable of a definition. Its range is given by `low` and `high`, or
// follows from its uses, or is that of the enclosing definition's variable.
struct Use {
  int source = -1;
  int output = -1;  // a left side: index into Contract::tensors; then source is -1
  int coordinate = 0;
  int64_t divisor = 1;  // of `x[i / 64]`, which says that i is below 64 times the extent
  bool guarded = false;
  std::string text;
  Place place;
};
struct Variable {
  std::string name;
  Place place;
  int low = -1, high = -1;                         // nodes; -1: inferred
  int outer_definition = -1, outer_variable = -1;  // captured
  std::vector<Use> uses;
  std::vector<Use> divided_uses;  // tell the range where no other use does
  std::string range_text;         // as written; empty: inferred
  bool implicit = false;          // summed over by `+=`: bound neither by a reduction nor on the left
};

enum class Reduce : uint8_t { None, Sum, Mean, Max, Min, ArgMax, ArgMin, Prod };
inline bool adds_up(Reduce reduce) {
  return reduce == Reduce::Sum || reduce == Reduce::Mean;
}

struct Coordinate {
  int variable = -1;   // plain: the index itself
  int node = -1;       // computed: a scatter
  std::string text{};  // of the computed place, as written
};

struct Definition {
  std::string name;  // as people know it: "dw", "sum[k](...)"
  std::string key;   // of a reduction: its text, whatever its indices are called
  Place place;
  std::vector<Node> nodes;
  std::vector<Variable> variables;
  std::vector<Coordinate> coordinates;
  Reduce reduce = Reduce::None;
  bool any_of_equals = false;  // of argmax and argmin: every index of an extreme is right, not only the first
  std::vector<int> reduced;    // variables, outermost first
  int filter = -1;
  int body = -1;
  int previous = -1;  // source whose elements it starts from, or keeps where nothing is assigned
  int output = -1;    // index into Contract::tensors if it assigns an output
  bool is_choice = false;
  bool is_centre = false;  // a sum of squares of the formula is about it
  // Of a sum: only an exp can make its terms too large, and a kernel may shift that. An exp that is shifted already is at most
  // 1; what is too large beside it is what it is multiplied by.
  bool overflow_is_avoidable = false;
  // Of a sum of p * w, where p is such a shifted exp: the node of w. An online softmax sums with another shift, under which
  // every p may have been 1.
  int weighted = -1;
  int shape_source = -1;  // intermediate with computed coordinates: the source it has the shape of
  bool is_scatter() const {
    for (const Coordinate& coordinate : coordinates)
      if (coordinate.variable < 0) return true;
    return false;
  }
  Type type() const { return nodes[static_cast<std::size_t>(body)].type; }
};

struct CompiledFormula {
  std::vector<Source> sources;
  std::vector<Definition> definitions;
  std::vector<int> final_definition;  // by tensor: the definition of an output; -1 for inputs
  std::vector<reference::Choice> choices;
  std::vector<int> choice_definitions, weight_definitions;  // by choice
};

// Resolves, types and verifies the formula of a contract, its index ranges
// included, at shapes chosen from the whole promise. `as_written`: exps are not shifted (shifted.h).
Result<std::shared_ptr<const CompiledFormula>> compile(const Contract& contract, bool as_written = false);

// Type of the result of a reduction of a body of type `body`.
Type reduced_type(Reduce reduce, Type body);
std::string_view to_string(Reduce reduce);

}  // namespace assay::reference
