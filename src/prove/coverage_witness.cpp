#include "prove/coverage_witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace assay::prove {

namespace {

bool includes(const Monomial& all, const Monomial& part) {
  return std::includes(all.begin(), all.end(), part.begin(), part.end());
}

// The stride as one monomial with a factor; none where it is a sum.
std::optional<std::pair<Monomial, Int>> monomial_of(Lowering& lowering, Term stride) {
  const Poly poly = lowering.poly(stride);
  if (poly.size() != 1) return std::nullopt;
  return *poly.begin();
}

// ---- digits

struct Digit {
  Atom atom = 0;
  Int by = 1;
  Monomial others;  // by * others is what the atom is multiplied with
};

class Inversion {
 public:
  Inversion(Terms& terms, Lowering& lowering, const Summary& summary, bool shifted)
      : terms_(terms), lowering_(lowering), summary_(summary), shifted_(shifted) {
    for (unsigned i = 0; i < 3; ++i)
      for (const Term extent : {summary.threads[i], summary.blocks[i]}) {
        const Poly poly = lowering.poly(extent);
        if (poly.size() == 1 && poly.begin()->second == 1 && poly.begin()->first.size() == 1)
          known_[poly.begin()->first.front()] = extent;
      }
  }

  std::optional<ThreadOf> run(const View& view, const Poly& offset) {
    const Split parts = split(lowering_, view, offset);
    for (size_t i = 0; i < view.size(); ++i)
      solve(parts.parts[i], terms_.mul(view[i].index, number(parts.scale[i])));
    while (!divisions_.empty()) {
      const Division division = divisions_.back();
      divisions_.pop_back();
      const auto divisor = term_of(division.divisor);
      if (!divisor) return std::nullopt;
      Term value = terms_.constant(0, 64);
      if (const auto q = digits_.find(division.quotient); q != digits_.end())
        value = terms_.mul(q->second, *divisor);
      if (const auto r = digits_.find(division.remainder); r != digits_.end())
        value = terms_.add(value, r->second);
      solve(division.value, value);
    }
    if (found_.empty() && !view.empty() && !offset_is_constant(offset)) return std::nullopt;
    ThreadOf result;
    for (unsigned i = 0; i < 3; ++i) {
      result.thread[i] = result.block[i] = terms_.constant(0, 64);
      for (const auto& [var, value] : found_) {
        if (terms_.of(var) == summary_.thread[i]) result.thread[i] = value;
        if (terms_.of(var) == summary_.block[i]) result.block[i] = value;
      }
    }
    return result;
  }

 private:
  Term number(Int value) { return terms_.constant(static_cast<Bits>(value), 64); }

  static bool offset_is_constant(const Poly& offset) {
    return offset.empty() || (offset.size() == 1 && offset.begin()->first.empty());
  }

  bool is_index(Atom atom) const {
    const auto& var = lowering_.atoms()[atom].var;
    if (!var) return false;
    const VarKind kind = terms_.var(*var).kind;
    return kind == VarKind::Thread || kind == VarKind::Block;
  }
  bool is_count(Atom atom) const {
    const auto& var = lowering_.atoms()[atom].var;
    return var && terms_.var(*var).kind == VarKind::Count;
  }
  // Indices, counts, and quotients and remainders of them.
  bool is_digit(Atom atom) const {
    if (is_index(atom) || is_count(atom)) return true;
    const auto division = lowering_.division(atom);
    return division && std::any_of(division->value.begin(), division->value.end(), [&](const auto& item) {
             return std::any_of(item.first.begin(), item.first.end(), [&](Atom a) { return is_digit(a); });
           });
  }

  // As a term over the dims; none where it is something else.
  std::optional<Term> term_of(Atom atom) {
    if (const auto found = known_.find(atom); found != known_.end()) return found->second;
    if (const auto division = lowering_.division(atom)) {
      const auto value = term_of(division->value), divisor = term_of(division->divisor);
      if (!value || !divisor) return std::nullopt;
      return terms_.bitwise(atom == division->quotient ? Op::UDiv : Op::URem, *value, *divisor);
    }
    const AtomInfo& info = lowering_.atoms()[atom];
    if (!info.var || !info.is_dim) return std::nullopt;
    return terms_.of(*info.var);
  }
  std::optional<Term> term_of(const Monomial& monomial, Int by) {
    Term product = number(by);
    for (const Atom atom : monomial) {
      const auto factor = term_of(atom);
      if (!factor) return std::nullopt;
      product = terms_.mul(product, *factor);
    }
    return product;
  }
  std::optional<Term> term_of(const Poly& poly) {
    Term sum = number(0);
    for (const auto& [monomial, by] : poly) {
      const auto part = term_of(monomial, by);
      if (!part) return std::nullopt;
      sum = terms_.add(sum, *part);
    }
    return sum;
  }

  // How many values an index can have, where that is a number, or a quotient or a remainder of one.
  std::optional<Int> extent(Atom atom) const {
    if (const auto division = lowering_.division(atom)) {
      const Poly& value = division->value;
      const Int by = known_number(division->divisor);
      if (by == kInfinity || value.size() != 1 || value.begin()->second != 1 ||
          value.begin()->first.size() != 1)
        return std::nullopt;
      const auto whole = extent(value.begin()->first.front());
      if (!whole) return std::nullopt;
      return atom == division->quotient ? (*whole - 1) / by + 1 : std::min(*whole, by);
    }
    const auto& var = lowering_.atoms()[atom].var;
    if (!var) return std::nullopt;
    for (unsigned i = 0; i < 3; ++i)
      for (const auto& [index, size] : {std::pair{summary_.thread[i], summary_.threads[i]},
                                        std::pair{summary_.block[i], summary_.blocks[i]}})
        if (terms_.of(*var) == index)
          if (const auto value = terms_.value(size)) return static_cast<Int>(*value);
    return std::nullopt;
  }

  static bool smaller(const Digit& a, const Digit& b) {
    return a.others.size() != b.others.size() ? a.others.size() < b.others.size() : a.by < b.by;
  }

  // target = sum of by * others * digit: the digits, smallest factor first.
  void solve(const Poly& poly, Term target) {
    std::vector<Digit> digits;
    Poly rest;
    for (const auto& [monomial, by] : poly) {
      const auto atom = std::find_if(monomial.begin(), monomial.end(), [&](Atom a) { return is_digit(a); });
      if (atom == monomial.end())
        rest[monomial] = by;
      else
        digits.push_back({*atom, by, without(monomial, {*atom})});
    }
    turn_around(digits, rest);
    const bool backwards =
        !digits.empty() && std::all_of(digits.begin(), digits.end(), [](const Digit& d) { return d.by < 0; });
    if (backwards) {  // rest - target = sum of -by * others * digit
      const auto end = term_of(rest);
      if (!end) return;
      target = difference(*end, target);
      for (Digit& digit : digits) digit.by = -digit.by;
    } else if (const auto start = shifted_ && !rest.empty() ? term_of(rest) : std::nullopt) {
      target = difference(target, *start);
    }
    std::erase_if(digits, [](const Digit& d) { return d.by < 0; });
    std::stable_sort(digits.begin(), digits.end(), smaller);
    for (size_t i = 0; i < digits.size(); ++i) {
      const Digit& digit = digits[i];
      const auto size = term_of(digit.others, digit.by);
      if (!size) continue;
      Term value = terms_.bitwise(Op::UDiv, target, *size);
      if (i + 1 < digits.size()) {
        const Digit& next = digits[i + 1];
        std::optional<Term> radix;
        if (next.by % digit.by == 0 && includes(next.others, digit.others))
          radix = term_of(without(next.others, digit.others), next.by / digit.by);
        // A block of fewer threads than the next digit counts: other stores fill what lies between.
        if (const auto most = extent(digit.atom);
            most && !shifted_ && (!radix || *most < known_number(*radix)))
          radix = number(*most);
        // The same where both are functions of the dims: a loop over the grid that was unrolled counts by several grids.
        if (is_index(digit.atom) && counts_several(digit, next)) radix = extent_of(digit.atom);
        if (!radix) continue;
        value = terms_.bitwise(Op::URem, value, *radix);
      }
      assign(digit.atom, value);
    }
  }

  bool counts_several(const Digit& digit, const Digit& next) {
    if (next.by % digit.by != 0 || !includes(next.others, digit.others)) return false;
    const Poly radix{{without(next.others, digit.others), next.by / digit.by}},
        all = lowering_.poly(extent_of(digit.atom));
    if (all.size() != 1 || all.begin()->first.empty() || all.begin()->second <= 0) return false;
    const Int times = radix.begin()->second / all.begin()->second;
    return times > 1 && radix == scale(all, times);
  }

  // Some indices count down beside others that count up: by * i = by * (extent - 1) - by * (extent - 1 - i), and
  // extent - 1 - i is the digit.
  void turn_around(std::vector<Digit>& digits, Poly& rest) {
    if (std::all_of(digits.begin(), digits.end(), [](const Digit& d) { return d.by < 0; })) return;
    for (Digit& digit : digits) {
      const Term extent = digit.by < 0 && is_index(digit.atom) ? extent_of(digit.atom) : kNoTerm;
      if (extent == kNoTerm) continue;
      const Poly last = plus(lowering_.poly(extent), -1);
      rest = add(rest, multiply(last, Poly{{digit.others, digit.by}}));
      digit.by = -digit.by;
      turned_[digit.atom] = terms_.sub(extent, number(1));
    }
  }

  Term extent_of(Atom atom) const {
    for (unsigned i = 0; i < 3; ++i)
      for (const auto& [index, size] : {std::pair{summary_.thread[i], summary_.threads[i]},
                                        std::pair{summary_.block[i], summary_.blocks[i]}})
        if (terms_.of(*lowering_.atoms()[atom].var) == index) return size;
    return kNoTerm;
  }

  Term difference(Term a, Term b) {  // at least 0
    return terms_.ite(terms_.compare(Op::Ule, b, a), terms_.sub(a, b), number(0));
  }

  static Int known_number(const Poly& poly) {
    const bool is_number = poly.size() == 1 && poly.begin()->first.empty();
    return is_number ? poly.begin()->second : kInfinity;
  }
  Int known_number(Term term) const {
    const auto value = terms_.value(term);
    return value ? static_cast<Int>(*value) : kInfinity;
  }

  void assign(Atom atom, Term value) {
    if (is_index(atom)) {
      if (const auto last = turned_.find(atom); last != turned_.end())
        value = difference(last->second, value);
      found_.emplace(*lowering_.atoms()[atom].var, value);
      return;
    }
    const auto division = lowering_.division(atom);
    if (!division || !digits_.emplace(atom, value).second) return;
    // The other half may be assigned later in the same round: quotients wait until all are.
    const bool waits = std::any_of(divisions_.begin(), divisions_.end(),
                                   [&](const Division& d) { return d.quotient == division->quotient; });
    if (!waits) divisions_.insert(divisions_.begin(), *division);
  }

  Terms& terms_;
  Lowering& lowering_;
  const Summary& summary_;
  bool shifted_;                     // what is no index is taken off before dividing
  std::map<Atom, Term> known_;       // extents of the launch
  std::map<Atom, Term> turned_;      // indices that count down, and the last of each
  std::map<Var, Term> found_;        // indices
  std::map<Atom, Term> digits_;      // quotients and remainders
  std::vector<Division> divisions_;  // of which a digit is known
};

}  // namespace

Split split(Lowering& lowering, const View& view, const Poly& offset) {
  Split result;
  result.parts.resize(view.size());
  std::vector<Monomial> strides;
  for (const Coordinate& coordinate : view) {
    const auto stride = monomial_of(lowering, coordinate.stride);
    if (!stride) throw TooHard{"a stride that is a sum"};
    strides.push_back(stride->first);
    result.scale.push_back(stride->second);
  }
  for (const auto& [monomial, by] : offset) {
    size_t best = view.size();
    for (size_t i = 0; i < view.size(); ++i)
      if (includes(monomial, strides[i]) && (best == view.size() || strides[i].size() > strides[best].size()))
        best = i;
    if (best == view.size()) throw TooHard{"an offset that is not a multiple of a stride"};
    // Half a stride is no step of this coordinate, but of a smaller one: of rows of 2 H, H.
    const Int scale = result.scale[best], part = best + 1 < view.size() ? by % scale : 0;
    size_t inner = view.size();
    for (size_t i = best + 1; i < view.size() && part != 0; ++i)
      if (includes(monomial, strides[i]) && part % result.scale[i] == 0) inner = i;
    const Int whole = inner < view.size() ? by - part : by;
    if (whole != 0) result.parts[best][without(monomial, strides[best])] += whole;
    if (inner < view.size()) result.parts[inner][without(monomial, strides[inner])] += part;
  }
  return result;
}

namespace {

// Without gaps several axes may be one coordinate.
View joined_axes(Terms& terms, Lowering& lowering, const TensorMemory& memory,
                 const std::vector<Poly>& offsets) {
  View view;
  Term stride = terms.constant(memory.item, 64), extent = terms.constant(1, 64);
  Term next = stride;
  for (size_t i = memory.axes.size(); i-- > 0;) {
    extent = terms.mul(extent, memory.axes[i].extent);
    next = terms.mul(next, memory.axes[i].extent);
    // The coordinate ends here if the stride of the one before it occurs in some offset.
    const auto above = monomial_of(lowering, next), here = monomial_of(lowering, stride);
    const bool differs = above && here && above->first != here->first;
    const bool occurs = differs && std::any_of(offsets.begin(), offsets.end(), [&](const Poly& offset) {
                          return std::any_of(offset.begin(), offset.end(), [&](const auto& item) {
                            return includes(item.first, above->first);
                          });
                        });
    if (i > 0 && !occurs) continue;
    view.push_back({stride, extent, kNoTerm});
    stride = next;
    extent = terms.constant(1, 64);
  }
  if (view.empty()) view.push_back({stride, terms.constant(1, 64), kNoTerm});
  std::reverse(view.begin(), view.end());
  return view;
}

}  // namespace

View view_of(Terms& terms, Lowering& lowering, const TensorMemory& memory, const std::vector<Poly>& offsets,
             const std::string& name) {
  View view;
  if (memory.gaps)
    for (const TensorAxis& axis : memory.axes) view.push_back({axis.stride, axis.extent, kNoTerm});
  else
    view = joined_axes(terms, lowering, memory, offsets);
  for (size_t i = 0; i < view.size(); ++i) {
    Variable variable{fmt::format("{}[{}]", name, i), VarKind::Unknown};
    variable.width = 64;
    variable.high = std::max<Int>(0, lowering.interval(lowering.poly(view[i].extent)).high - 1);
    view[i].index = terms.variable(std::move(variable));
    const Var var = terms.mentions(view[i].index).front();
    const Term below = terms.compare(Op::Slt, view[i].index, view[i].extent);
    terms.var(var).facts.push_back(below);
  }
  return view;
}

// Where x = d q + r, any multiple of x - d q - r may be taken off. That is done where the sum becomes shorter: x - d q was
// computed in it, or it has both x and q, as b H + (x - b H) with b = x / H does.
Poly with_remainders(const Lowering& lowering, Poly offset) {
  const auto shorter_by = [&](const Poly& zero, const Monomial& monomial, Int by) -> std::optional<Poly> {
    for (const auto& [part, times] : zero)
      if (!part.empty() && by % times == 0 && includes(monomial, part))
        if (Poly other = add(offset, multiply(zero, Poly{{without(monomial, part), by / times}}), -1);
            other.size() < offset.size())
          return other;
    return std::nullopt;
  };
  const auto shorter = [&]() -> std::optional<Poly> {
    std::set<Atom> quotients;
    for (const auto& [monomial, by] : offset)
      for (const Atom atom : monomial)
        if (const auto division = lowering.division(atom); division && division->quotient == atom)
          quotients.insert(atom);
    for (const Atom quotient : quotients) {
      const Division division = *lowering.division(quotient);
      const Poly whole = multiply(division.divisor, atom_poly(quotient));
      const Poly zero = add(add(division.value, whole, -1), atom_poly(division.remainder), -1);
      for (const auto& [monomial, by] : offset)
        if (auto other = shorter_by(zero, monomial, by)) return other;
    }
    return std::nullopt;
  };
  while (auto other = shorter()) offset = std::move(*other);
  return offset;
}

std::vector<ThreadOf> threads_of(Terms& terms, Lowering& lowering, const Summary& summary, const View& view,
                                 const Poly& offset) {
  std::vector<ThreadOf> guesses;
  for (const bool shifted : {false, true}) {
    const auto guess = Inversion(terms, lowering, summary, shifted).run(view, offset);
    if (guess && std::find(guesses.begin(), guesses.end(), *guess) == guesses.end())
      guesses.push_back(*guess);
  }
  return guesses;
}

}  // namespace assay::prove
