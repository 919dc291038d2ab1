// From bit-vectors to integers, exactly.
//
// The solver is good at linear integer arithmetic and poor at 64-bit multiplication, so terms are translated
// to polynomials over integer atoms. `poly` gives a polynomial that is congruent to a term modulo 2^width;
// that is all that addition and multiplication need. Where the value itself matters (a comparison, a
// division, an extension to more bits) the polynomial must lie within the range of the type. Three ways, in
// this order:
//   - intervals of the atoms, or the facts known so far, show that it does;
//   - the term is a loop's counter, of which the loop's claims say so (claims.h);
//   - otherwise it may wrap: value = poly - 2^width * q with a new atom q. That is exact too, and the wrap is
//     noted.
// So nothing is ever assumed not to overflow, and a model of the final question is a candidate for a real
// failure.
//
// lower.cpp has the translation, lower_facts.cpp atoms and facts, quotients.cpp what a loop's stride says about how many
// iterations it has, strides.cpp offsets that are built from rows and columns, questions.cpp what the solver is asked.
//
// Products of atoms are atoms of their own to the solver; lemmas.h adds facts about them. In a
// question that looks for a counterexample they are products.
#pragma once

#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "prove/execute.h"
#include "prove/poly.h"
#include "prove/solve.h"

namespace assay::prove {

// Counterexamples are looked for among small shapes first, which are run fast.
inline constexpr double kCounterexampleSeconds = 1;  // for each size of the dims

// Exactness of a loop's counter: at every iteration that is reached, start + k * step lies within the type's
// range.
struct Claim {
  Induction induction;
  bool is_signed = true;
};

class Claims;

// What a type of this width holds.
Interval range_of(unsigned width, bool is_signed);

struct AtomInfo {
  std::string name;
  Int low = -kInfinity, high = kInfinity;
  std::optional<Var> var{};  // that it stands for
  bool is_dim = false;
  // What it stands for as a function of variables: atoms with one key have one value wherever the variables
  // have the same values, in this question or another.
  uint32_t key = 0;
  std::vector<Var> depends{};  // on these variables, sorted
};

struct Wrap {
  Term term = kNoTerm;
  bool is_signed = true;  // as which its bits were read
  Atom times = 0;         // how often 2^width was taken away
};

// The most that dims may be in a question for a model; 0: any. One dim may have another limit than the rest.
struct Caps {
  Int each = 0;
  std::optional<Atom> but{};
  Int most = 0;
  Int of(Atom atom) const { return but == atom ? most : each; }
};

// value = divisor * quotient + remainder, 0 <= remainder < divisor.
struct Division {
  Poly value, divisor;
  Atom quotient = 0, remainder = 0;
};

class Lowering {
 public:
  // `claims` may be null: then loops are only what their terms say.
  Lowering(Terms& terms, const Summary& summary, Claims* claims, Solver& solver);

  void assume(Term fact) { assume(formula(fact)); }
  void assume(const Formula& formula);

  Poly poly(Term term);
  Poly signed_value(Term term);
  Poly unsigned_value(Term term);
  Formula formula(Term term);
  // Values below 2^width of one sign; both gives either.
  Interval interval(const Poly& poly) const;

  // From now on every value is taken to lie within its type, and nothing is asked of the solver. For guesses only.
  void take_on_trust() { trusting_ = true; }
  // A count that comes without what its loop says about it: for the proof of that.
  void leave_bare(Var count) { bare_.insert(count); }
  // Takes this term's value to be this polynomial. For inductions.
  void take_exact(Term term, bool is_signed, Poly value);
  // Puts this polynomial in the place of a term that is known to equal it, in whatever is lowered from now on.
  void put_in_place(Term term, Poly value) { polys_[term] = std::move(value); }
  Poly count(Var count) { return atom_poly(atom_of(count)); }
  // The iteration `back` before k, under a name of its own: the polynomial is k - back. What is said of it must
  // matter only where k >= back. The kernel's own terms may speak of k - back, too, as in i - step, and there it
  // need not be an iteration: i - step wraps in the first one.
  Term earlier(Var count, Int back);
  // Quotient, rounded down, and remainder. The divisor must be known to be at least 1.
  std::pair<Poly, Poly> divided(const Poly& value, const Poly& divisor);
  // The division that this atom is the quotient or the remainder of.
  std::optional<Division> division(Atom atom) const;
  Poly remainder(const Poly& value, Int divisor) { return divided(value, constant_poly(divisor)).second; }

  // For x = d q + r, 0 <= r < d: where p is c (x - R d) + e with e >= 0, it is enough for p >= 0 that R <= q. That is q - R;
  // it has no products of R and d, which solvers are poor at. None: p is nothing of this kind.
  std::optional<Poly> enough_by_quotient(const Poly& poly) const;

  // What a fact says of the quotients of all divisions so far, whose values `same` may put in other words.
  void take_quotients(const Formula& fact, const std::function<Poly(const Poly&)>& same);
  // Atoms of the dims alone that every monomial has.
  Monomial agreed_factor(const Poly& poly) const;

  // Whether the facts imply it.
  bool proves(const Formula& formula, double seconds);
  // Whether the facts and the formula can hold together.
  Answer ask(const Formula& formula, double seconds);
  // The same with true products, and dims that are capped.
  Answer ask_nonlinear(const Formula& formula, double seconds, const Caps& caps = {});
  // A model with small dims, as a shape that is run should have: all of them small, or all but one, or as small as
  // it goes. Each question takes at most `seconds`, and none is asked after `until` (of work_seconds()).
  Answer small_model(const Formula& formula, double seconds, double until);
  std::map<Var, Int> values(const Answer& answer) const;

  // offset = sum of R_s * s over products s of dims; each R_s of several terms becomes one atom. Without it a
  // row index of several terms meets its stride only term by term, and the lemmas about products say nothing.
  Poly delinearised(const Poly& poly);

  // The same value without products of a quotient and its divisor: q d = x - r where x = q d + r. So x - (x / d) d is
  // the remainder, and (x / d) d + x % d is x.
  Poly without_quotients(Poly poly) const;
  // The same value without remainders: r = x - q d. So x - x % d is a multiple of d that can be seen.
  Poly without_remainders(Poly poly) const;

  const std::vector<AtomInfo>& atoms() const { return atoms_; }
  const std::vector<Formula>& facts() const { return facts_; }
  // A polynomial by the keys of its atoms.
  std::string key_text(const Poly& poly) const;
  // For questions put together from others.
  Atom add_atom(AtomInfo info);
  void bound(Atom atom, Int low, Int high);  // both hold besides what is known
  const std::vector<Wrap>& wraps() const { return wraps_; }
  bool imprecise() const { return imprecise_; }  // something became an unknown: a model may be spurious
  std::optional<Atom> base_atom(Var base) const;
  void set_deadline(double seconds_from_now);
  bool out_of_time() const;

 private:
  friend class Lemmas;
  // Which facts a question has. Fewer facts prove less, never more.
  enum class Facts : uint8_t { WithoutProducts, All, Exact };  // Exact: products are products
  std::string smt(const Formula& goal, Facts facts, const Caps& caps);
  Answer ask(const Formula& goal, double seconds, Facts facts);
  Atom atom(std::string name, Int low, Int high, const std::string& key, std::vector<Var> depends);
  std::vector<Var> depends(const Poly& poly) const;
  void depend_on(Atom atom, const std::vector<Var>& vars);
  Atom derived(std::string name, Int low, Int high, const std::vector<Poly>& from,
               const std::string& key = "");
  Atom atom_of(Var var);
  void introduce_loop(Var count);
  Poly lowered(Term term);
  Poly lowered_division(Term term, const Node& node);
  std::optional<Poly> masked(Term term, Bits mask);
  Poly lowered_mask(Term term, const Node& node);
  Poly lowered_disjunction(Term term, const Node& node);
  Poly lowered_choice(const Node& node);
  Poly unknown_poly(Term term, Int high);
  Poly exact(Term term, bool is_signed);
  Formula compared(const Node& node);
  Formula equality(const Node& node);
  Formula strengthened(const Formula& formula) const;
  std::optional<Formula> with_quotients(const Formula& formula, const Division& division) const;

  Terms& terms_;
  const Summary& summary_;
  Claims* claims_;
  Solver& solver_;
  std::vector<AtomInfo> atoms_;
  std::vector<Formula> facts_;
  std::unordered_map<Var, Atom> atom_by_var_;
  std::unordered_map<Term, Poly> polys_, signed_, unsigned_;
  std::unordered_map<Term, Poly> exact_signed_, exact_unsigned_;  // by canonical term
  std::map<std::pair<Poly, Poly>, std::pair<Atom, Atom>> divisions_;
  std::map<Poly, Atom> groups_;
  // dim = replacement, from the definition of a quotient of it by a constant: for cuts.
  struct Elimination {
    Atom dim;
    Poly replacement;
    Int divisor;
  };
  std::vector<Elimination> eliminations_;
  // Values that may wrap, and how often: by polynomial, width and sign.
  std::map<std::tuple<Poly, unsigned, bool>, std::pair<Atom, Atom>> wrapped_;
  std::set<Var> bare_;
  std::vector<Wrap> wraps_;
  bool imprecise_ = false, trusting_ = false;
  double deadline_ = 1e300;
};

// What is known of loops, found once for each and used wherever its count appears.
class Claims {
 public:
  Claims(Terms& terms, const Summary& summary, Solver& solver)
      : terms_(terms), summary_(summary), solver_(solver) {}
  const std::vector<Claim>& of(Var count);
  // Claims that are known of a loop: those of another loop, of which it is a copy under other names.
  void adopt(Var count, std::vector<Claim> claims) { known_[count] = std::move(claims); }

 private:
  std::vector<Claim> proved(const Loop& loop);

  Terms& terms_;
  const Summary& summary_;
  Solver& solver_;
  std::map<Var, std::vector<Claim>> known_;
};

// s * k <= D: a loop that goes on until a counter equals a limit ends where it does. None where the condition
// is none of this kind.
std::optional<Formula> ends_on_equality(Lowering& lowering, Terms& terms, Var count, Term repeats);

}  // namespace assay::prove
