// The reference: what a contract means. Exact values of every output element, and how far rounding alone may
// move them.
//
// Example:
//
//     Result<Reference> made = Reference::make(contract);
//     if (!made) return use(made.error().text());  // a name or a type of the formula is wrong
//     Result<Expectation> expected = made->expect_all(bindings, "dw");
//     for (std::size_t i = 0; i < expected->size(); ++i)
//       if (!expected->admits(i, dw, expected->element[i])) use(expected->value[i], expected->sigma[i]);
//
// From a contract, a shape, scalars and inputs (already rounded to their dtype), `expect` gives for any
// elements of an output: the exact value; the interval of stored results that rounding alone can explain
// (hard: worst case, any summation order); and the standard deviation that rounding is expected to have
// (statistical). Nothing is evaluated that the elements do not need.
//
//   element ok  <=>  expectation.admits(i, tensor, element)          (gates G0 and G1)
//   z           =    (stored - value[i]) / sigma[i]                   (gates G2 to G5)
//
// How, in the order of the data:
//   shifted.h           the formula's tree, rewritten so that no exp overflows without need
//   choices.h           statements whose value the kernel chooses: random draws, orders of equals
//   compiled_formula.h  names resolved, types checked: definitions of nodes
//   shaped_formula.h    the same at one shape: ranges, extents and strides as numbers
//   evaluation.h        elements computed on demand, in batches with their budgets
//   defects.h           the same evaluation with one thing done wrong, for diagnosis
//   foreign.h           references that are not formulas: Python functions and CUDA kernels
//   torch_server.h      PyTorch functions, evaluated exactly with their budgets by a process of their own
//   describe.h          what was understood, in words
//
// This room is trusted: it never sees a kernel's code or a device.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/bindings.h"
#include "finding/kind.h"
#include "reference/names.h"

namespace assay::reference {

struct BudgetOptions {
  // The kernel uses tensor cores: sums of products may be truncated as Hopper's
  // mma and wgmma do (aligned, toward zero), which is a bias and a larger bound.
  bool tensor_cores = false;
  int threads = 0;  // 0: as many as the machine has
  // Of formulas: called before elements of an input are read, for inputs that are made as they are read. False: no
  // more can be made, and the evaluation fails. From any of the threads.
  std::function<bool(const std::string& input, std::span<const int64_t> elements)> on_read{};
};

// What is particular about an element.
enum Flag : uint8_t {
  kNonfiniteValue = 1,  // the exact value is NaN or infinite
  kNonfiniteInput = 2,  // a NaN or infinity in an input took part
  kUndecided = 4,       // a comparison, cast, floor or argmax could go either way within the budget:
                        // judge it by `admits` alone and leave it out of statistics
  kMayOverflow = 8,  // an intermediate value is beyond the declared precision: a nonfinite result is admitted
  kUnspecified = 16,  // the formula does not define this element: anything goes
  kExact = 32,        // no rounding anywhere: the stored value must be the value's own rounding
  kCoherent = 64,     // the terms of a sum are so alike that their roundings need not be independent:
                      // sigma is a worst case, leave it out of energy statistics
  kBeyond = 128,  // a product or power of finite values left the range of FP64, in which all this is computed
};

struct Interval {
  double low = 0;
  double high = 0;
};

// Structure of arrays, one entry per requested element.
struct Expectation {
  DType dtype = DType::f32;
  std::vector<int64_t> element;  // linear index into the output

  std::vector<double> value;       // exact, before the store rounds it
  std::vector<double> bound;       // hard bound on |computed - value| before the store
  std::vector<double> low, high;   // the stored results admitted: low <= stored <= high (may be infinite)
  std::vector<double> sigma;       // standard deviation of stored - value: store and all before it
  std::vector<double> sigma_rest;  // the part of it that is not the output's own store
  std::vector<double> bias;        // magnitude of legitimate lean toward zero (tensor cores); else 0
  std::vector<double> magnitude;   // sum of |terms| of the outermost sum; |value| where there is none
  std::vector<double> terms;       // number of terms of the longest sum (hit count for a scatter); 1 if none
  // Terms that an element's longest sum with a filter asks about, whether they pass or not; 0 if there is no such sum.
  double asked_terms = 0;
  std::vector<uint8_t> flags;
  std::vector<int64_t> integer;  // integer and bool outputs: the exact value; else empty

  // Further results admitted, for elements with kUndecided; empty if there are none. Those of entry i are
  // alternatives[first_alternative[i] .. first_alternative[i + 1]).
  std::vector<Interval> alternatives;
  std::vector<int64_t> first_alternative;

  std::size_t size() const { return value.size(); }
  // Whether a stored result is one that a correct kernel could give. NaN-safe.
  bool admits(std::size_t i, double stored) const;
  bool admits(std::size_t i, const Tensor& output, int64_t at) const;
};

// A statement whose value the kernel chooses (choices.h).
enum class ChoiceKind : uint8_t {
  Random,   // true with the probability that the weights say
  Rounded,  // one of the two neighbours of the weight in `dtype`, the nearer one more often
  Sample,   // an index, drawn by the weights along the last dimension
  Order,    // the index that is this far from the largest or smallest of the weights
};
struct Choice {
  std::string name;
  std::string weights;  // what it is chosen by: a definition of the formula
  std::string word;     // as the formula has it: "topk"
  Place place;
  ChoiceKind kind = ChoiceKind::Random;
  bool largest = false, first_of_equals = false;  // of Order
  bool is_output = false;
  DType dtype = DType::f32;        // of Rounded
  std::vector<std::string> seeds;  // scalars with other values of which the draws are others
  // Of one that is no output: the outputs whose elements tell it, and by dimension of the choice, which of the output's
  // it is.
  struct Told {
    std::string output;
    std::vector<int> dimensions;
  };
  std::vector<Told> told;
};
// The name in Bindings::inputs under which the value of a choice is given. Without it, what depends on the choice is
// kUnspecified.
std::string choice_input(std::string_view choice);

struct ChoiceWeights {
  std::vector<double> value, bound;  // by element, as asked for
  std::vector<uint8_t> flags;
};

// One way of being wrong, or of being precise: how `simulate` evaluates the
// formula. A default Defect is a sound kernel: every operation rounded to the
// declared precision, sums in order.
struct Defect {
  std::string_view name;               // "bf16-accumulator"
  Kind kind = Kind::WrongResult;       // the finding it is evidence for
  std::string_view description;        // for the report, after "as if"
  std::optional<DType> accumulator{};  // running sums are rounded to this after every addition
  std::optional<DType> partials{};  // partial sums over `partial_terms` terms are rounded to this, added in
                                    // the declared precision
  int64_t partial_terms = 0;        // 0: sixteen equal parts
  std::optional<DType> reduced{};   // every finished reduction is rounded to this
  std::optional<DType> intermediates{};  // every operation is rounded to this, sums excepted
  bool truncating_store = false;
  bool truncating_sum = false;      // every addition rounds toward zero
  int64_t dropped_terms = 0;        // the last terms of every reduction over the longest range are left out
  int64_t dropped_fraction = 0;     // n: the last n-th of the terms is left out
  int64_t divisor_offset = 0;       // `mean` divides by n + offset
  bool one_pass_variance = false;   // mean of squares less square of mean
  bool no_max_subtraction = false;  // exp(x - max) without the max
  bool hides_nan = false;           // max and min that ignore NaN; NaN results stored as 0
  bool approximate_math = false;    // functions with the error of the fast intrinsics
  // The defect is in one place: what concerns sums in the sum of this definition, or one value, rounded to
  // `intermediates`. -1: everywhere.
  int only_sum = -1;
  int only_value = -1, value_of = -1;  // a node, and its definition
};

// A place where a kernel could round once too often.
struct Site {
  int value = -1, definition = -1;
  std::string in;  // the name of what is being computed there
};

// The table of defects that diagnosis tries, most specific first.
std::span<const Defect> defects();

// How a reference that is not a formula is run: outputs by name, in FP64.
using ReferenceProvider =
    std::function<Result<std::map<std::string, Tensor>>(const Contract&, const Bindings&)>;

class TorchProcess;

class Reference {
 public:
  // Resolves the names of the formula and checks its types and index ranges; an error has its place in the
  // contract file. `provider` runs `cuda` references; without one they are an error when evaluated. `python`
  // references run in a child process of their own, `torch` ones in `process` if one is running already.
  static Result<Reference> make(const Contract& contract, ReferenceProvider provider = {},
                                std::shared_ptr<TorchProcess> process = nullptr);
  // For simulations of a kernel that computes a formula step by step: exps overflow as they stand there,
  // where `make` takes what they mean.
  static Result<Reference> as_written(const Contract& contract);

  // `elements` are linear indices into the output, in any order.
  Result<Expectation> expect(const Bindings& bindings, const std::string& output,
                             std::span<const int64_t> elements, const BudgetOptions& options = {}) const;
  Result<Expectation> expect_all(const Bindings& bindings, const std::string& output,
                                 const BudgetOptions& options = {}) const;

  // The stored results of a kernel with this defect. Only for formulas.
  Result<std::vector<double>> simulate(const Bindings& bindings, const std::string& output,
                                       std::span<const int64_t> elements, const Defect& defect = {}) const;

  // What the kernel chooses in such a call, in the order of the formula.
  const std::vector<Choice>& choices(const Bindings& bindings) const;
  // The extents of what it chooses by, and elements of it.
  Result<std::vector<int64_t>> weights_extents(const Bindings& bindings, const Choice& choice) const;
  Result<ChoiceWeights> weights(const Bindings& bindings, const Choice& choice,
                                std::span<const int64_t> elements, const BudgetOptions& options = {}) const;

  // Whether `simulate` with this defect can differ from a sound evaluation: it
  // has a sum, a variance, a maximum under an exp, and so on.
  bool applies(const Defect& defect) const;
  bool is_formula() const;
  // Whether an element of the output depends on no sum or extreme, so that elements can be asked for in any
  // pieces at the same cost.
  bool is_elementwise(const std::string& output) const;
  // Whether each element is computed by itself, sums included: no value on the way to it is also on the way to another,
  // and no sum is part of another element's, as prefix sums are. Then elements share no rounding.
  bool shares_nothing(const std::string& output) const;
  // What a term of an element's own sums costs to evaluate, beside a term of a plain sum: functions take longer.
  double cost_of_term(const std::string& output) const;
  // The sums that an output depends on, and the values on the way to it that an operation makes.
  std::vector<Site> sums(const std::string& output) const;
  std::vector<Site> values(const std::string& output) const;
  // Whether the output is a sum of products that a tensor core could compute.
  bool has_products(const std::string& output) const;
  // The inputs whose elements the output's sums add up, or its products multiply, whatever becomes of them first.
  std::set<std::string> summed_inputs(const std::string& output) const;
  // Inputs that a cast rounds to a type whose ties may go either way: tf32(x[i]).
  std::set<std::string> inputs_with_free_ties(const std::string& output) const;

  // Of `torch` references. Starts their process, which takes seconds, without waiting for it.
  void start() const;
  // Waits until it has started.
  void wait() const;
  pid_t process() const;  // 0: there is none
  // Evaluates it for a question that will be asked: what expect() then finds. From any thread.
  void expect_ahead(const Bindings& bindings, bool tensor_cores) const;
  // The problem's own inputs, by the contract's generator.
  Result<std::map<std::string, Tensor>> problem_inputs(const Shape& shape, uint64_t seed) const;
  // What the budgets given so far rest on, a sentence each.
  std::set<std::string> budgets_rest_on() const;

  // What was understood, for people: shapes, ranges, reduction lengths, budgets.
  std::string describe(const Shape& shape) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace assay::reference
