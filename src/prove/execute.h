// Symbolic execution: one run of a kernel for all threads, blocks and shapes at once.
//
// The kernel is walked once in the order of its control flow. A register holds a term; where paths meet, it
// holds the choice between both. The result is the list of every memory access that the kernel can make, each
// with its address as a term and the conditions under which a thread gets there.
//
// A loop is not unrolled. Its iterations are numbered by a variable k, and the registers that its body
// changes are described at the head of iteration k:
//   - one that the body leaves as it was keeps its value;
//   - one to which the body adds the same amount each time is start + k * step;
//   - one that the body computes from such ones (a counter of 16 or 32 bits, extended) is a function of k;
//   - one that is shifted right from a constant is one of the values that this can give;
//   - one that goes back and forth between two values (`turn ^= 1`) is the first or the second, by whether k is even;
//   - one that the body only chooses (the place of the best so far) is one of the values that it began with, or one
//     that an earlier iteration offered;
//   - any other is unknown.
// Each description is first guessed from a run of the body, then verified by a second run that starts from
// it: the value that goes back to the head must be the description at k + 1. By induction over k it then
// holds for every iteration; what fails the test becomes unknown, and the body runs again.
//
// What is not modelled is listed in `gaps`: with one of these, nothing may be called proved.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prove/expr.h"
#include "prove/graph.h"
#include "prove/relation.h"
#include "prove/term.h"
#include "ptx/module.h"

namespace assay::prove {

struct TensorMemory;

// What the hardware takes, per axis.
inline constexpr Int kMostBlocks[3] = {(Int{1} << 31) - 1, 65535, 65535};
inline constexpr Int kMostThreads[3] = {1024, 1024, 64};

using Path = std::vector<Term>;  // conditions, all of which hold

// Memory that an address may begin in: a tensor, the workspace, a variable of the kernel.
struct Array {
  std::string name;
  ptx::Space space = ptx::Space::Global;
  Term bytes = kNoTerm;  // 64 bits; kNoTerm: unknown
  const contract::TensorSpec* tensor = nullptr;
  Var base = 0;  // of its address in its space, or of its generic address: each view is an array of its own
  bool generic = false;                            // the latter
  std::shared_ptr<const TensorMemory> elements{};  // of a tensor

  // Whether such an address means this array to an instruction that names a space (or none, Generic). A generic address of shared
  // memory is no address of `ld.shared`, nor the other way round; those of global memory are the same numbers.
  bool is_reached_from(ptx::Space named) const {
    if (space == ptx::Space::Global) return named == ptx::Space::Generic || named == ptx::Space::Global;
    return named == (generic ? ptx::Space::Generic : space);
  }
};

enum class Effect : uint8_t { Read, Write, Atomic };

struct Access {
  const ptx::Instruction* instruction = nullptr;
  Effect effect = Effect::Read;
  ptx::Space space = ptx::Space::Generic;
  Term address = kNoTerm;
  uint32_t bytes = 0;      // that it touches, from the address on
  uint32_t alignment = 1;  // that the hardware demands
  bool exact = true;       // false: a lane may be made to access less than this (ldmatrix.x1)
  Path path;
  Path control;            // what decides whether a thread gets here, given that loops end
  std::vector<Var> loops;  // around it, by count, the outermost first
  // Of a fragment: where its first row begins, and the alignment of that, which is stricter.
  Term start = kNoTerm;
  uint32_t start_alignment = 1;
  Term stored = kNoTerm;     // what a store of one register stores
  Term exchanged = kNoTerm;  // what an atomic exchange stores, or a compare-and-swap if it does
  bool keeps = false;        // an atomic operation that writes what it has read
};

// An instruction that several threads must reach together: a barrier of the block, or an operation of a warp.
struct Barrier {
  const ptx::Instruction* instruction = nullptr;
  bool of_warp = false;
  Term mask = kNoTerm;  // of_warp: the lanes that it names
  // What decides whether a thread gets here, given that loops end.
  Path control;
  std::vector<Var> loops{};  // around it, by count
  Path path{};               // what holds here
};

// What a strong load, or an atomic operation that writes what it has read, found in global memory: a flag, perhaps, that
// another block has set (flags.h).
struct FlagRead {
  const ptx::Instruction* instruction = nullptr;
  Var seen = 0;
  Term address = kNoTerm;
  std::vector<Var> loops;  // around it, by count
};

// A number drawn from a counter: what an atomic addition of a positive constant found there, or an atomic increment that goes
// back to 0 behind a limit.
struct Ticket {
  const ptx::Instruction* instruction = nullptr;
  Var drawn = 0;
  Term address = kNoTerm;
  Int step = 1;
  std::vector<Var> loops;  // around it, by count
  Term limit = kNoTerm;    // of an increment: what it goes back to 0 behind
};

// A register that grows by the same amount in every iteration.
struct Induction {
  Term value = kNoTerm;  // at the head of iteration k
  Term start = kNoTerm;
  Term step = kNoTerm;
};

struct Loop {
  Var count = 0;      // k
  uint32_t head = 0;  // block
  Path entry;         // when the loop is reached
  Path entered;       // of it, what decides whether a thread gets here, given that the loops before it end
  std::vector<Induction> inductions;
  // Held in iteration k if the thread came to iteration k + 1. Only conditions on k and on what was there
  // before.
  std::vector<Term> repeats;
  Path again;  // all that decides whether a thread goes from iteration k to k + 1
  // Registers that are shifted right from a constant: 0 after a few iterations, and from then on.
  std::vector<Term> shifted;
  // A thread that leaves the loop in iteration k leaves it by one of these ways: what holds then.
  std::vector<Path> exits;
  bool returns = false;  // a thread may end inside
};

// An instruction that stops the whole grid.
struct Stop {
  const ptx::Instruction* instruction = nullptr;
  Path path;  // what holds where a thread gets there
};

struct Summary {
  std::vector<Access> accesses;
  std::vector<Barrier> barriers;
  std::vector<Stop> stops;
  std::vector<Ticket> tickets;
  std::vector<FlagRead> flag_reads;
  std::map<Var, Loop> loops;    // by count
  std::map<Var, Array> arrays;  // by base
  std::vector<std::string> gaps;
  bool exchanges = false;  // a value is taken to be one that another thread gave: if all of them get there
  Term threads[3], blocks[3];  // of a block, of the grid; 64 bits
  Term thread[3], block[3];    // the indices of one; 32 bits
  Graph graph;
};

// `written`: arrays that some kernel of the call, or a copy, writes; the values in others are as the contract
// says.
Result<Summary> execute(Terms& terms, Dims& dims, const ptx::Module& module, const ptx::Function& kernel,
                        const Launch& launch, const std::vector<std::string>& written);

// The conditions of a launch or a case as limits of the dims, as far as they are.
std::vector<DimLimit> limits_of(const std::vector<Condition>& when);

// The conditions of a launch or a case as terms.
Path conditions_of(Terms& terms, const Dims& dims, const std::vector<Condition>& when);

// The arrays that a summary's accesses may write, by name.
std::vector<std::string> written_arrays(Terms& terms, const Summary& summary);

// The loop (by count) in which a variable is a register that is shifted right from a constant: then it is the same
// for all threads in one iteration.
std::optional<Var> shifted_in(Terms& terms, const Summary& summary, Var var);

// The base that an address is built on, if there is exactly one.
std::optional<Var> base_of(Terms& terms, Term address);

}  // namespace assay::prove
