// Trials: which calls of the subject are worth making, and with what.
//
// Example:
//
//     Result<contract::Bindings> inputs = make_inputs(contract, trial);  // the inputs of a trial
//     use(inputs->shape, inputs->inputs.at("x"));                        // run it, judge it
//
// A trial is a small value: a shape, a family of inputs for each tensor, a seed, a condition. Its
// inputs follow from it alone, so a report that holds the trial can repeat it.
//
//   families.h  how numbers are drawn      shapes.h  which dims are worth trying
//   plan.h      the order of trials        shrink.h  making a failing trial small
//   work.h      what a trial costs         sparse.h  tensors larger than memory
//   giant.h     shapes at all corners      generated_inputs.h  their inputs, made as they are read
//   requirements.h  what a pass requires   plan_limits.h  every number of the plan
//   runs.h  segments of chosen lengths
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpus.h"
#include "base/result.h"
#include "contract/bindings.h"

namespace assay::trial {

// How the elements of one input are drawn. What a family means for a tensor depends on its
// `values`; a family that makes no sense there falls back to Natural.
enum class Family : uint8_t {
  Natural,      // what `values` says real inputs look like
  SameSign,     // long sums of one sign
  Negative,     // all below zero, whole rows and columns far below
  FarBelow,     // the same, further below
  NonzeroMean,  // each column has its own mean, noise about it
  SmallScale,   // natural, times 2^-10 and less
  LargeScale,   // natural, times 2^10
  Outliers,     // a few channels a thousand times larger
  LargeMean,    // a large mean with a small variance
  Cancelling,   // +a and -a in pairs
  HeavyTail,    // magnitudes over many orders
  Levels,    // each row about a level of its own, up to 60; between bounds, some rows at the one or the other
  Peaked,    // one element of each row far above the rest
  Constant,  // all equal
  Zeros,
  Ties,           // few distinct values
  SmallIntegers,  // every sum exact
  IndexCoded,     // an integer that depends on the position
  Ramp,           // rising along each row
  Huge,           // squares still finite
  NearOverflow,   // up to the largest finite value
  Subnormal,      // about the smallest normal number
  NanElement,     // natural, one element NaN
  NanRow,         // natural, one row NaN
  InfElement,
  NegInfElement,
  InfPart,  // half of the rows, or the only one
  NegInfPart,
  AllInf,
  AllNegInf,
  // Integers.
  Uniform,
  Zipf,        // as words in text: rank k with probability 1/k
  OneValue,    // the same everywhere
  FewValues,   // a handful of values
  Permuted,    // all different as far as the range allows
  NearTop,     // in the top sixteenth of the range: the largest sums there can be
  Extremes,    // the smallest and the largest legal value
  Largest,     // all equal to the value of largest magnitude: sums that pass the end of a type
  Runs,        // stretches of equal values: a mask with whole rows, whole tiles and tails of it out
  AllOnes,     // masks
  AllZeros,    // masks
  EmptyParts,  // offsets: many empty segments
  OnePart,     // offsets: everything in one segment
  Problem,     // the problem's own generator makes all inputs together
};
std::string_view to_string(Family family);
std::string_view describe(Family family);  // for people: "one element of each row far above the rest"
bool family_named(std::string_view name, Family& family);
bool is_nonfinite(Family family);

// What memory holds before anything is written to it.
enum class Poison : uint8_t { Nan, OtherNan, Zeros, Ones, Large };
std::string_view to_string(Poison poison);
// The byte pattern, repeated, of a poison.
uint64_t pattern(Poison poison);
// The same for elements of four bits: the same in every element, and another for each poison, so that two poisons tell
// what was not written.
uint64_t packed_pattern(Poison poison);

// How the call is made. The default is a plain call on a stream of its own.
struct Condition {
  Poison poison = Poison::Nan;  // of outputs and workspace
  uint64_t schedule = 0;        // of the virtual device (base/schedule.h); 0: text order
  bool ordered =
      true;  // inputs arrive by work queued on the stream; outputs leave by it. Else the device idles
  bool others_late =
      false;           // ordered: not the caller's stream is held up before the call, but the default stream
  bool moved = false;  // at addresses that no earlier call had
  bool aliased = false;     // outputs share memory where may_alias permits it
  bool repeated = false;    // called twice under different schedules: the same bits where that is required
  bool related = false;     // followed by calls whose inputs were changed in known ways (judge/relations.h)
  bool overlapped = false;  // a second call, other inputs and buffers, on another stream at the same time
  bool fresh = false;       // in a new process
  bool warmed =
      false;  // in a new process, after a larger call and one with other inputs at the same addresses
  bool grown = false;  // in a new process, after a smaller call
  // What differs from run to run without anybody's doing.
  uint64_t cycles = 0;  // that the device's clock is ahead
  int64_t shift = 0;    // bytes that device addresses are further on; in a new process only
  // How tensors are aligned. 0: to what the contract promises and no more; kWellAligned: to 256 bytes, as a fresh
  // allocation is; otherwise each to as much as this seed says, from the one to the other.
  uint64_t alignment = 0;
  bool host_poison = true;     // host memory that malloc gives is not zero
  bool shared_inputs = false;  // inputs that may hold the same values lie at one address
  bool loaded =
      false;  // on a real GPU: made again and again while other kernels fill it, and from a CUDA graph
  bool perturbed = false;  // on a real GPU: with pauses in the kernel (subject/perturb.h)
  bool looped = false;     // the call is made many times over: what it allocates must not pile up
  uint8_t gpu =
      0;  // what the virtual device presents itself as: an index of kGpus. Another one, another process
  int64_t clock = 0;  // Unix seconds that the worker's clock shows at its start; 0: the time it is
};

inline constexpr uint64_t kWellAligned = 1;
// Of a tensor under a condition: its address is a multiple of this, and not of twice as much unless this is 256.
int64_t alignment_of(const contract::TensorSpec& spec, const Condition& condition);
// Whether a contract promises so little of a tensor that its address may happen to be better aligned.
bool may_be_better_aligned(const contract::Contract& contract);

// The kinds of condition that this is, in words: "two calls at once", "memory poisoned with large".
std::vector<std::string> kinds_of(const Condition& condition);

struct Trial {
  contract::Shape shape;
  std::map<std::string, contract::Scalar, std::less<>> scalars;
  std::map<std::string, Family, std::less<>> families;  // by input; missing: Natural
  // By input, in place of its family: the lengths of its segments between offsets, or its integers (runs.h).
  std::map<std::string, std::vector<int64_t>, std::less<>> runs;
  uint64_t seed = 1;
  Condition condition;
  std::string sparse;    // the dim whose tensors hold few rows (sparse.h); empty: none
  bool sampled = false;  // only some blocks of each grid are run, on inputs that are made as they are read
};

// "NVIDIA H20 (78 multiprocessors)"
std::string describe(const Gpu& gpu);
// "2028-02-29 23:59", in UTC.
std::string date(int64_t unix_seconds);

// "T=17 D=8 V=3, tokens zipf, seed 5"
std::string to_string(const Trial& trial);
nlohmann::ordered_json to_json(const Trial& trial);
Result<Trial> from_json(const contract::Contract& contract, const nlohmann::ordered_json& json);

// The first input whose memory `spec` may use as well (itself, if there is none before it): equal shapes,
// dtypes and alignments, and what is legal for one is legal for the other.
const contract::TensorSpec& shared_input(const contract::Contract& contract, const contract::TensorSpec& spec,
                                         const contract::Shape& shape);

// The problem's own inputs, those that it makes, at a shape.
using Generator = std::function<Result<std::map<std::string, contract::Tensor>>(const contract::Shape& shape,
                                                                                uint64_t seed)>;

// The inputs of a trial; the same trial always gives the same ones. `generator`: for the family Problem; what
// it does not make is drawn.
Result<contract::Bindings> make_inputs(const contract::Contract& contract, const Trial& trial,
                                       const Generator& generator = {});

// Elements of all tensors together, and their bytes with the workspace; `steps` only where Work tells
// (work.h).
struct Size {
  double elements = 0;
  double bytes = 0;
  double steps = 0;
};
Result<Size> size_of(const contract::Contract& contract, const contract::Shape& shape);

}  // namespace assay::trial
