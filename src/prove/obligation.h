// Obligations: what must be proved about one kernel under one launch, and the result.
//
//   bounds.cpp      every access lies within the array that its address begins in
//   overflow.cpp    no 32-bit index wraps on its way into an address
//   alignment.cpp   every access is aligned to its width
//   legality.cpp    the hardware accepts the launch
//   barrier.cpp     every thread of a block reaches each barrier, or none does
//   values.cpp      the values agree with the formula: compared, not proved
//
// Each file asks the solver for a counterexample. If none exists, the obligation is proved. If one is found, it
// is a candidate, which counts only once a run on the virtual GPU shows the failure (witness.h). Otherwise the
// obligation is unknown.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "finding/finding.h"
#include "prove/execute.h"
#include "prove/lower.h"

namespace assay::prove {

// Agrees: what was compared agrees; nothing is proved. Of `values` only.
enum class Status : uint8_t { Proved, Refuted, Unknown, Agrees };
std::string_view to_string(Status status);

// A shape at which something may go wrong, and where in the grid.
struct Candidate {
  contract::Shape shape;
  std::string words;  // "tid.x = 1, k = 3"
  // A small shape where the same cannot go wrong: what a run shows at the one and not at the other has this cause.
  std::optional<contract::Shape> control{};
};

// One place that an obligation is about.
struct Place {
  Where where;
  std::string reason;  // why it is not proved
  std::optional<Candidate> candidate;
  std::string instruction{};  // PTX
};

// What was compared with the formula.
struct Compared {
  size_t elements = 0, shapes = 0;
  contract::Shape largest;  // of these shapes
};

struct Obligation {
  std::string kernel;  // its symbol
  std::string name;    // "bounds"
  Status status = Status::Unknown;
  size_t total = 0;         // accesses, barriers, numbers looked at
  std::vector<Place> open;  // of them, those not proved
  double seconds = 0;
  Where where;
  std::string reason;
  std::vector<Place> proved{};  // the others, as far as they have a place
  std::string refuted_at{};     // the instruction that a run showed to fail, PTX
  bool pending = false;         // it was not looked at yet
  Compared compared{};          // of `values`
  // Of `barrier`: threads that get to a barrier all get to the same one; what may be missing is that the loops before it end.
  // That is all that races and exchanged values rest on: a thread that stays in a loop makes the others wait.
  bool threads_agree = false;
};
// What it says, in words.
std::string_view statement_of(std::string_view obligation);

// A number that one thread of each block draws from a counter in global memory, at most once; the counter starts from 0. So
// blocks get different numbers, and who gets `last` is the last of all of them to draw. messages.h has more.
struct GridTicket {
  Ticket ticket;
  Term thread[3];        // that draws, 32 bits
  Term last = kNoTerm;   // 64 bits
  bool certain = false;  // every block draws, if its loops end
};

// What the obligations of a kernel share.
struct Setting {
  Terms& terms;
  Dims& dims;
  const ptx::Module& module;
  const ptx::Function& kernel;
  const Launch& launch;
  const Summary& summary;
  Claims& claims;
  Solver& solver;
  double access_seconds = 5;  // for one access
  double until = 0;           // of work_seconds(): no question is asked later
  std::string ptx_file{};     // where the kernel's own source is PTX: its path
  // Places of an obligation that a counterexample is looked for of: more than the shapes that are run in the end, since
  // several may fail at one shape. The other places are only proved or not.
  size_t most_counterexamples = 8;
  size_t counterexamples = 0;              // that may still be looked for, of the obligation at work
  std::vector<GridTicket> grid_tickets{};  // of the kernel (messages.h)
  std::map<Var, Term> broadcast{};  // what a load of a shared variable gives to all threads of the block

  bool out_of_time() const;
  // For one question about an access: not so much that nothing is left for a counterexample, or for the others.
  double question_seconds() const;
  Where where(const ptx::Instruction& instruction) const;
  // The same with the instruction's text.
  Place place(const ptx::Instruction& instruction, std::string reason = "") const;
};

Obligation prove_bounds(Setting& setting);
Obligation prove_overflow(Setting& setting);
Obligation prove_alignment(Setting& setting);
Obligation prove_barriers(Setting& setting);
Obligation prove_launch(Setting& setting);
Obligation prove_races(Setting& setting);

// ---- helpers of the obligations (access.cpp)

// An access with an address that chooses between pointers, taken apart: each part has one base.
struct Part {
  Term address = kNoTerm;
  Path conditions;
};
std::vector<Part> parts_of(Terms& terms, const Access& access);
// The part with each side of a choice (an Ite that is a leaf of its address) in the choice's place, under the condition for
// that side: one of the two holds for every thread.
std::array<Part, 2> sides_of(Terms& terms, const Part& part, Term choice);

// Whether an array shares no memory with any other that the contract names.
bool is_alone_in_memory(const Setting& setting, const Array& array);

// How far an operation is strong: to the threads of its block, or of the device.
enum class Strength : uint8_t { Weak, Block, Device };

Strength strength_of(const Access& access);

// The conditions of a path that bear on a term: the others speak of loops and loaded values that it does not
// depend on. Fewer facts prove less, never more.
Path relevant(Terms& terms, const Summary& summary, const Path& path, Term term);

// A part of an access, lowered.
struct Lowered {
  Lowering lowering;
  const Array* array = nullptr;
  Poly address;  // with its base
  Poly offset;   // from the base
};
// Throws TooHard where there is no base, or more than one. With a shape, at that shape alone.
Lowered lowered(Setting& setting, const Access& access, const Part& part, bool whole_path,
                const contract::Shape* shape = nullptr);

// Runs `check` for every access, collecting what it says of those that are not proved; TooHard is a reason.
Obligation for_accesses(Setting& setting, std::string name,
                        const std::function<std::optional<Place>(const Access&)>& check);

// The shape of a model, and the rest of it in words.
Candidate candidate_from(const Setting& setting, const std::map<Var, Int>& values);
// Small shapes first.
std::optional<Candidate> counterexample(Setting& setting, const Access& access, const Part& part,
                                        const std::function<Formula(Lowered&)>& bad);

}  // namespace assay::prove
