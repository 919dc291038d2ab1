// How the registers that a loop changes look at the head of iteration k: guesses, and what verifies them (execute.h has the
// kinds and the argument).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "prove/machine.h"

namespace assay::prove {

// How a register that the body changes looks at the head of iteration k.
struct RegisterGuess {
  enum class Kind : uint8_t {
    Same,
    Grows,
    Follows,
    Shifted,
    Alternates,
    Selected,
    Unknown
  } kind = Kind::Unknown;
  Term head = kNoTerm;  // its value there; Follows: some function of k
  Term step = kNoTerm;  // Grows
  Term next = kNoTerm;  // Shifted, Alternates: what the back edge must bring
  // Selected: it takes its values from these registers, itself among them, and from these offers of iteration k.
  std::set<uint32_t> among{};
  std::set<Term> offers{};
  std::vector<Var> own{};  // variables that its head brings in
};
using RegisterGuesses = std::map<uint32_t, RegisterGuess>;  // by register

class LoopRegisters {
 public:
  explicit LoopRegisters(Terms& terms) : terms_(terms) {}

  // What the body does to a register: `start` is its value before the loop, `head` the one that a run of the body began with,
  // of which nothing is known, and `next` what that run sends back to the head. Variables from `before` on are the body's.
  RegisterGuess guess_of(Term start, Term head, Term next, Var before, Term k);
  // The same for registers that are computed from others. `blank`: the heads that the run began with.
  void find_followers(RegisterGuesses& guesses, const RegisterGuesses& blank, const State& entry,
                      const State& back, Var before, Var count);
  void find_selections(RegisterGuesses& guesses, const RegisterGuesses& blank, const State& entry,
                       const State& back, Var before, Var count);
  // Whether what goes back to the head is the description at k + 1.
  bool verified(const RegisterGuess& guess, Term back, Var count, const RegisterGuesses& guesses);

 private:
  Term settled(Term term);
  std::vector<Term> choices(Term term, const std::map<Term, uint32_t>& down_to) const;
  Term selected(RegisterGuess& guess, const std::set<Term>& starts, Var count);
  bool is_selection(const RegisterGuess& guess, Term back, const RegisterGuesses& guesses);
  RegisterGuess narrow_counter(Term start, Term head, Term next, Var before, Term k);
  RegisterGuess alternating(Term start, Term head, Term next, Var before, Term k);
  RegisterGuess shifted(Term start, Bits by);

  Terms& terms_;
};

}  // namespace assay::prove
