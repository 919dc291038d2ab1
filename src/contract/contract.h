// The contract: what a kernel claims to compute, as it is written in a TOML file.
//
// Example:
//
//     Result<Contract> read = load("embedding_grad.toml");
//     if (!read) return use(read.error().text());  // file, line, column, and what would be right
//     for (const TensorSpec* output : read->outputs()) use(output->name, output->dtype);
//
// This room reads the file and gives its parts types: dims, tensors, scalars, the kernel's arguments, the
// formula as a tree, and the values that a call is made with. What the formula means (names resolved, exact
// values, rounding budgets) is the next room's subject: reference/reference.h. Neither knows anything of
// kernels, devices or trials.
//
//   contract.h   the file and its types        formula.h    the formula language as a tree
//   tensor.h     dtypes, tensors, .npy files   bindings.h   the arguments of one call
//   int_expr.h   integer expressions, shapes   init.h       a first contract from CUDA source
//   layout.h     where elements are in memory  expr.h       trees of formulas, built and changed
//   complex.h    complex numbers as pairs
//
// Every error has the file, the line and the column, and says what would be right. A formula that load()
// accepts is well formed; that its names and types are right, reference::Reference::make() says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "contract/int_expr.h"
#include "contract/layout.h"
#include "contract/tensor.h"

namespace assay::contract {

struct Place {
  int line = 0;  // 1-based within the contract file; 0 unknown
  int column = 0;
};

struct Dim {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  int64_t multiple_of = 1;
  DType type = DType::i32;
  Place place;

  bool is_constant() const { return min == max; }
  // The smallest and largest values that the promise contains.
  int64_t lowest() const;
  int64_t highest() const;
  bool contains(int64_t value) const;
};

// A name for an integer expression over dims: `C = "G * CPG"`. Its value follows from the shape, which does not hold
// it; wherever an integer expression uses it, the expression holds what it stands for.
struct DerivedDim {
  std::string name;
  IntExpr value;
  DType type = DType::i32;
  Place place;
};

enum class Role : uint8_t { In, Out, InOut };

// What legal input values look like.
enum class ValuesKind : uint8_t {
  Real,       // "real": any finite number
  RealRange,  // "real(a, b)"
  Activations,
  Gradients,
  Weights,
  Positive,
  Probabilities,
  Index,   // "index(N)"
  Tokens,  // "tokens(N)"
  Mask,
  Offsets,    // "offsets(N)"
  Integers,   // "integers(a, b)"
  Generated,  // "generated": what the generator of [inputs] makes, and nothing else
  Distinct,   // "distinct(N)": indices, no two of them equal
  Slots,      // "slots(N)": the same, and -1 for none, any number of times
};
std::string_view to_string(ValuesKind kind);

struct Values {
  ValuesKind kind = ValuesKind::Real;
  double low = 0, high = 0;  // of real(a, b)
  IntExpr a, b;              // index/tokens/offsets: a = N; integers: a and b, both included
  std::string text;          // as written; empty when defaulted
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<IntExpr> shape;
  std::vector<IntExpr> strides;  // in elements, one for each extent; empty: row-major without gaps
  Role role = Role::In;
  Values values;  // default: real for floats, integers over the dtype's range, mask for bool
  int64_t align = 256;
  bool optional = false;    // the kernel may be given a null pointer instead
  std::string may_alias;    // empty: none
  bool is_complex = false;  // held as its parts: the last extent is 2 (complex.h)
  std::string buffer;       // the allocation that it is a part of; empty: one of its own
  IntExpr offset;           // in `buffer`, in bytes
  // The kernel is given an array of pointers, one to each slice along the first dimension; with `pointer_offsets`, one
  // to each stretch of it: from an element of that tensor to the next.
  bool pointers = false;
  std::string pointer_offsets;
  Place place;

  bool is_input() const { return role != Role::Out; }
  bool is_output() const { return role != Role::In; }
  Result<std::vector<int64_t>> extents(const Shape& dims) const;
  // What sets its memory apart from a plain array: "optional", "strided"; empty: nothing.
  std::string_view uncommon_memory() const;
  // Where its elements are in memory.
  Result<Layout> layout(const Shape& dims) const;
};

// One of the tensors that are parts of one allocation.
struct BufferPart {
  const TensorSpec* spec = nullptr;
  Layout layout;
  int64_t at = 0;  // where it begins, in bytes
};

// Two parts of an allocation that have a byte in common. Looked for in small allocations only: expressions that overlap
// do so at small shapes, too.
struct BufferOverlap {
  const TensorSpec *first = nullptr, *second = nullptr;
  int64_t byte = 0;
};
std::optional<BufferOverlap> overlap_of(const std::vector<BufferPart>& parts);

// A scalar argument as the kernel gets it: already rounded to its dtype.
struct Scalar {
  DType dtype = DType::f32;
  uint64_t bits = 0;  // the stored code in the low bytes

  static Scalar of(DType dtype, double value);
  static Scalar of_int(DType dtype, int64_t value);
  double as_double() const;
  int64_t as_int() const;
};

// Whether the kernel is given an optional tensor, or a null pointer, is a scalar of the contract by itself: true or
// false, of this name.
std::string presence_of(std::string_view tensor);  // "present(bias)"

struct ScalarSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<double> values;  // one for `value`; empty when a range is given
  double low = 0, high = 0;    // of `range`
  Place place;

  bool is_range() const { return values.empty(); }
};

// Buffer: an allocation of several tensors. Complex: a complex scalar, whose parts are two scalars of the contract.
enum class ArgKind : uint8_t { Tensor, Dim, Integer, Scalar, Stream, Workspace, Buffer, Complex };
struct Arg {
  ArgKind kind = ArgKind::Tensor;
  std::string name;         // of Integer: as written
  IntExpr value{};          // of Integer: an expression over dims
  DType type = DType::i32;  // of Integer
};

// "answer.py:run": a function of a Python file.
struct PythonFunction {
  std::string file;  // as written: relative to the contract; empty: there is none
  std::string function;
  Place place{};  // of the value that names it

  explicit operator bool() const { return !file.empty(); }
};

struct Kernel {
  std::vector<std::string> sources;  // as written: relative to the contract; of a Python function, its file
  std::string entry;                 // one of entry, global and python is set
  std::string global;
  PythonFunction python;
  bool returns_outputs = false;  // of a Python function: otherwise it writes the outputs among its arguments
  std::vector<Arg> args;
  std::vector<IntExpr> grid, block;  // of global: 1 to 3 each
  IntExpr shared_bytes;
  IntExpr workspace_bytes;
  bool returns_int = false;
  std::vector<std::string> flags;
  std::string arch = "sm_90";
  Place place;
  std::map<std::string, Place, std::less<>> value_places;  // of the keys that are there

  // Where the value of a key is; where the table is, if the key is not there.
  Place place_of(std::string_view key) const;
};

enum class ReferenceKind : uint8_t { Formula, Python, Cuda, Torch };
enum class Math : uint8_t { Standard, Fast };

struct Formula;  // formula.h

// [[case]]: another formula where a condition on dims and scalars holds.
struct FormulaCase {
  std::shared_ptr<const Formula> when;  // one statement, whose body is the condition
  std::string when_text;
  std::string formula_text;
  Place formula_place;
  std::shared_ptr<const Formula> formula;
};

struct ReferenceSpec {
  ReferenceKind kind = ReferenceKind::Formula;
  std::string formula_text;
  Place formula_place;                     // of the first character of the formula's text
  std::shared_ptr<const Formula> formula;  // the text, parsed; null if the reference is not a formula
  std::vector<FormulaCase> cases;          // the first whose condition holds counts; else `formula`
  PythonFunction python;                   // of the kinds Python and Torch
  std::string cuda_source, cuda_entry;
  Place cuda_place;  // of the value of `source`
  DType accumulate = DType::f32;
  Math math = Math::Standard;
};

// What becomes of a NaN or infinity in an input.
enum class NonfiniteRule : uint8_t {
  Propagate,  // it reaches the outputs that depend on it; to hide it is an error
  Warn,       // to hide it is a warning
  Ignore,     // not tried
};

struct Require {
  bool deterministic = false;
  NonfiniteRule nonfinite = NonfiniteRule::Propagate;
  bool concurrent = true;
  bool own_kernel = true;                    // a Python function must launch kernels
  std::vector<std::string> batch_invariant;  // dims along which a slice's bits depend on that slice alone
  std::optional<double> rtol, atol;
};

// Where the files of a contract that a tool wrote come from. Reports name these places: people know them.
struct Origin {
  std::string answer;         // what is checked; empty: the contract itself
  std::string function_file;  // where the function under test is defined; empty: not known
  int function_line = 0;
  std::map<std::string, std::string> files;  // copies and their originals
};

// One line of [workload]: what the contract calls it, and what the slot calls it.
struct WorkloadName {
  std::string own, slots;
  Place own_place, slots_place;
};

// [workload]: the operator of a training step that the kernel computes. Slots are known to train/slots.h, not here.
struct Workload {
  std::string slot;                                  // empty: the contract names none
  std::vector<WorkloadName> tensors, dims, scalars;  // in the order of the file
  Place place;                                       // of the slot's name
};

struct Contract {
  std::string path;                         // as given to load(); empty for text
  std::shared_ptr<const std::string> text;  // of the file, for the lines that errors show
  std::string title;
  Kernel kernel;
  std::vector<Dim> dims;
  std::vector<DerivedDim> derived;
  std::vector<DimRelation> relations;  // that every legal shape fulfils
  std::vector<Shape> shapes;           // [[shapes]], complete: constants are filled in
  bool only_listed_shapes = false;     // only the listed shapes are promised
  PythonFunction generator;            // of [inputs]: the problem's own inputs
  std::vector<TensorSpec> tensors;
  std::vector<ScalarSpec> scalars;
  ReferenceSpec reference;
  Require require;
  Workload workload;
  Origin origin;

  const Dim* dim(std::string_view name) const;
  const DerivedDim* derived_dim(std::string_view name) const;
  const TensorSpec* tensor(std::string_view name) const;
  const ScalarSpec* scalar(std::string_view name) const;
  std::vector<const TensorSpec*> inputs() const;   // in and inout
  std::vector<const TensorSpec*> outputs() const;  // out and inout
  std::vector<std::string> names() const;          // of tensors and scalars
  std::vector<std::string> buffers() const;        // allocations of several tensors, each once
  // The parts of such an allocation at a shape, in the order of the contract.
  Result<std::vector<BufferPart>> parts_of(std::string_view buffer, const Shape& shape) const;

  // An error at a place of the file, with the line that it is about. Place{}: about the file as a whole.
  Error error_at(Place place, std::string message) const;
  // Of the files that the reference and the inputs come from, the first that does not exist.
  std::optional<Error> missing_file() const;
  // `relative` against the folder of the contract file.
  std::string resolve(std::string_view relative) const;
  // Every dim has a legal value, every relation holds, and every tensor has a legal extent and layout.
  Result<void> check_shape(const Shape& shape) const;
};

// Reads the whole contract, and parses the formula.
Result<Contract> load(const std::string& path);
Result<Contract> parse(std::string_view text, std::string path = "");

// The nearest of `known` to `word` if it is near enough to be a slip; else "".
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace assay::contract
