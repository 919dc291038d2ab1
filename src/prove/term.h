// Terms: what a register holds, as a function of the thread, the block, the dims and the loops.
//
// A term is a node of a directed acyclic graph of bit-vector operations, exactly those of PTX: everything is
// modulo 2^width, and nothing is rounded off or assumed. Equal terms are one node (hash-consing), so that
// comparing two is comparing two numbers, and a kernel unrolled a hundredfold stays small. A width of 0 means
// a truth value. The constructors fold constants and a few identities; each of them is an equation of
// bit-vector arithmetic, which tests/prove/term_test.cpp checks against an evaluator.
//
//   Terms t;
//   Term i = t.add(t.mul(ctaid, t.constant(256, 32)), tid);
//   Term address = t.add(base, t.mul(t.sext(i, 64), t.constant(4, 64)));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace assay::prove {

using Term = uint32_t;
__extension__ typedef unsigned __int128 Bits;
__extension__ typedef __int128 Int;
inline constexpr Term kNoTerm = 0xffffffff;

enum class Op : uint8_t {
  Const,
  Var,
  Add,
  Mul,
  And,
  Or,
  Xor,
  Shl,
  LShr,
  AShr,
  UDiv,
  URem,
  SDiv,
  SRem,
  ZExt,
  SExt,
  Trunc,
  Ite,
  Not,
  Both,
  Eq,
  Ult,
  Ule,
  Slt,
  Sle,  // truth values; Both: conjunction
};

// What a variable stands for. `Thread` differs within a block, `Block` between blocks; a `Count` numbers the
// iterations of a loop; `Base` is where an array begins; `Unknown` is anything: a loaded value, say.
enum class VarKind : uint8_t { Dim, Thread, Block, Count, Base, Unknown };

using Var =
    uint32_t;  // in the order of creation: what a loop's body makes has a higher number than what it uses

struct Variable {
  std::string name;
  VarKind kind = VarKind::Unknown;
  uint8_t width = 32;
  bool is_signed = false;      // how `low` and `high` read the bits
  Int low = 0, high = 0;       // both included
  Int multiple_of = 1;         // Base: alignment
  std::vector<Term> facts{};   // hold whenever the variable has a meaning
  Term loaded_from = kNoTerm;  // Unknown: the value was read at this address
  // Unknown: it was loaded where nothing writes, from an address that neither a loop nor another such load changes. Threads
  // that agree on the address agree on the value, and so do iterations.
  bool is_fixed = false;
  // Unknown: all threads of a block have one value of it, in every iteration: what one of them drew or stored for all.
  bool is_of_block = false;
  // Unknown: it is an element of a tensor no two elements of which are equal, those below 0 aside.
  bool is_one_of_distinct = false;
};

struct Node {
  Op op = Op::Const;
  uint8_t width = 0;
  Term a = kNoTerm, b = kNoTerm, c = kNoTerm;
  Bits value = 0;  // Const: the bits. Var: which
  bool operator==(const Node&) const = default;
};

inline Bits mask_of(unsigned width) {
  return width >= 128 ? ~Bits{0} : width == 0 ? Bits{1} : (Bits{1} << width) - 1;
}
Int signed_of(Bits bits, unsigned width);

// A sum of products of leaves, modulo 2^width: sorted leaves → coefficient. Equal functions that differ by
// ring laws alone have the same form.
using Ring = std::map<std::vector<Term>, Bits>;

class Terms {
 public:
  Term constant(Bits value, unsigned width);
  Term truth(bool value) { return constant(value ? 1 : 0, 0); }
  Term variable(Variable variable);
  // Any value of this width; `why` names it in messages.
  Term unknown(unsigned width, const std::string& why);

  const Node& operator[](Term term) const { return nodes_[term]; }
  unsigned width(Term term) const { return nodes_[term].width; }
  bool is_constant(Term term) const { return nodes_[term].op == Op::Const; }
  std::optional<Bits> value(Term term) const;
  Variable& var(Var var) { return variables_[var]; }
  const Variable& var(Var var) const { return variables_[var]; }
  Var variables() const { return static_cast<Var>(variables_.size()); }
  Term of(Var var) const { return var_terms_[var]; }

  Term add(Term a, Term b);
  Term mul(Term a, Term b);
  Term neg(Term a);
  Term sub(Term a, Term b);
  Term complement(Term a);
  Term bitwise(Op op, Term a, Term b);  // And … SRem
  Term zext(Term a, unsigned width);    // to a narrower width: truncates
  Term sext(Term a, unsigned width);
  Term trunc(Term a, unsigned width);
  Term ite(Term condition, Term a, Term b);
  Term compare(Op op, Term a, Term b);  // Eq … Sle
  Term negation(Term a);
  Term both(Term a, Term b);
  Term either(Term a, Term b);
  Term all(const std::vector<Term>& terms);
  // Whether a condition holds whatever its comparisons give, as where all ways around something meet again. False:
  // it does not, or it has many of them.
  bool always_holds(Term condition);

  // The variables that a term mentions, facts not followed.
  const std::vector<Var>& mentions(Term term);
  Term substitute(Term term, const std::map<Var, Term>& by);

  // So many of its lowest bits are 0, whatever the variables are: it is a multiple of 2 to the power of this. At least;
  // the width where it is 0.
  unsigned trailing_zeros(Term term);

  const Ring& ring(Term term);
  Term from_ring(const Ring& ring, unsigned width);
  Term canonical(Term term) { return from_ring(ring(term), width(term)); }

  // A number for a text, the same for equal texts: names for what the prover makes of terms.
  uint32_t intern(const std::string& text);

  // The value under an assignment of the variables: what every other use of a term is tested against.
  Bits evaluate(Term term, const std::function<Bits(Var)>& of) const;

  std::string text(Term term, int depth = 8) const;

 private:
  struct Hash {
    size_t operator()(const Node& node) const;
  };
  Term make(Op op, unsigned width, Term a = kNoTerm, Term b = kNoTerm, Term c = kNoTerm, Bits value = 0);
  std::optional<Term> fold(Op op, Term a, Term b);
  std::optional<Term> narrowed(Term x, Bits mask);
  bool is_narrow_division(Term condition, Term narrow, Term wide);

  std::vector<Node> nodes_;
  std::vector<Variable> variables_;
  std::vector<Term> var_terms_;
  std::unordered_map<Node, Term, Hash> known_;
  std::unordered_map<Term, std::vector<Var>> mentions_;
  std::unordered_map<Term, unsigned> trailing_zeros_;
  std::unordered_map<Term, Ring> rings_;
  std::unordered_map<std::string, uint32_t> interned_;
};

// One operation on bits, as the machine does it. Division by zero gives all ones, the remainder the dividend.
Bits apply(Op op, unsigned width, Bits a, Bits b);

}  // namespace assay::prove
