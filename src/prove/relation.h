// The launch relation R: what the host code launches, as a function of the dims.
//
// Grid, block, shared memory and arguments are computed by the subject's own host code, which is untrusted
// and is not analysed. Instead it is run, on many shapes, against a device that only records what it is asked
// to do (subject::Runner::record), and for each number in the records an expression over the dims is looked
// for that gives it for every shape. Whatever is then proved is proved about the PTX under this relation,
// which is printed; it is checked against further shapes (all of them, where there are few).
//
//   block.x = 256   grid.x = ceil_div(n, 256)   parameter 0 -> x   parameter 16 = n
//
// Calls with and without an optional tensor are cases of their own: in the one its parameter points to it, in the other it
// is 0.
//
// A number without an expression is unknown: any value is then possible. Shapes may differ in which kernels
// they launch: each sequence of launches is a case of its own. Conditions that tell its shapes from the others are
// looked for (n >= 1, D % 4 == 0), and where none are found, those that hold for its shapes and not for some others:
// cases may overlap, and a case without conditions is taken to be possible for every shape. A shape that was recorded
// later and is as no case says is counted among those that the relation is inferred from, and it is inferred anew.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/size_constants.h"
#include "finding/json.h"
#include "prove/expr.h"
#include "prove/recorded_call.h"
#include "subject/runner.h"

namespace assay::prove {

// Which shapes a case is for, as far as that was found. In the place of a dim may stand whether an optional tensor is given,
// by its presence_of(): at least 1, or at most 0.
struct Condition {
  enum class Kind : uint8_t { AtLeast, AtMost, Multiple, NoMultiple } kind = Kind::AtLeast;
  std::string dim;
  int64_t value = 0;

  bool holds(const contract::Shape& shape) const;
  std::string text() const;
  bool operator==(const Condition&) const = default;
};

struct Pointer {
  std::string array;  // a tensor, "workspace", or how the host code allocated it itself
  ExprPtr offset;     // bytes; null: unknown
  ExprPtr bytes{};    // of an allocation of the host code's own; null: unknown
};

// A contiguous part of an array that the host code fills or copies to.
struct Fill {
  std::string array;
  ExprPtr offset, bytes;  // null: unknown
  bool zeros = false;     // it is filled with zeros
  size_t after = 0;       // launches of the call that come before it
};

struct Launch {
  std::string kernel;           // its symbol
  std::vector<Condition> when;  // it is launched only if these hold
  ExprPtr grid[3], block[3];    // null: unknown
  ExprPtr dynamic_shared;
  int64_t static_shared = 0;
  ExprPtr shared_limit;  // dynamic shared memory that the kernel is allowed; null: unknown
  bool clusters = false, cooperative = false;
  bool overlaps = false;  // operations of the call may run at the same time
  uint32_t parameter_bytes = 0;
  std::map<uint32_t, Pointer> pointers;      // by offset in the parameters
  std::map<uint32_t, ExprPtr> words, pairs;  // 32 and 64 bits, by offset; missing: unknown
  std::vector<Fill> zeroed;                  // what the host code has set to 0 since the launch before it

  std::vector<std::string> text() const;  // "grid.x = ceil_div(n, 256)", one per line
};

// One sequence of operations that some shapes give.
struct Case {
  std::vector<Condition> when;  // as of its launches
  contract::Shape given{};      // what its calls are given of the optional tensors (RecordedCall)
  std::vector<Launch> launches;
  std::vector<Fill> fills;
  std::vector<std::string> filled;  // arrays that fills and copies write
  size_t shapes = 0;
  contract::Shape example;
};

// A launch that the runtime refused.
struct Refusal {
  contract::Shape shape;
  std::string error;
  int status = 0;  // the cudaError_t
};

struct Relation {
  std::vector<Case> cases;
  std::vector<Refusal> refused;
  size_t recorded = 0;            // shapes that the relation was fitted to or checked on
  bool all = false;               // that are all there are
  std::vector<std::string> gaps;  // what keeps anything from being proved under it
};

struct RelationOptions {
  int fitted = 90;            // shapes from which it is inferred
  int checked = 160;          // further shapes on which it is checked
  int64_t exhaustive = 3000;  // where there are no more shapes than this, all are
  // Elapsed seconds for all of it. Chosen: a recording takes about a millisecond, so ordinary host code needs one or two.
  double seconds = 20;
  SizeConstants constants{};        // of the subject's code: shapes about these are among those recorded
  subject::RunnerOptions runner{};  // where the worker is
};

Result<Relation> infer(const contract::Contract& contract, const subject::Subject& subject,
                       const RelationOptions& options);

// What of a call is not as the relation says ("grid.x of k is 5, not ceil_div(n, 256) = 4"); empty: nothing.
std::string deviation(const Relation& relation, const RecordedCall& call);

// Whether the hardware takes all that the relation says is launched at this shape. If the runtime refused it all the same, the
// host code asked for something else.
bool is_legal(const Relation& relation, const contract::Shape& shape);

Json to_json(const Relation& relation);
// Its cases again; what a program wrote that is not this one is an error.
Result<Relation> relation_from_json(const Json& cases);

// An expression over the dims that has this value for each of these shapes; null: none was found.
struct Point {
  const contract::Shape* shape = nullptr;
  int64_t value = 0;
};
// `known`: expressions of other numbers of the same launch, which it may be computed from.
ExprPtr fit(const contract::Contract& contract, const std::vector<Point>& points,
            const std::vector<ExprPtr>& known = {});

}  // namespace assay::prove
