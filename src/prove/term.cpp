#include "prove/term.h"

#include <fmt/format.h>

#include <algorithm>

namespace assay::prove {

Int signed_of(Bits bits, unsigned width) {
  bits &= mask_of(width);
  if (width == 0 || width >= 128 || !(bits >> (width - 1))) return static_cast<Int>(bits);
  return static_cast<Int>(bits) - (Int{1} << width);
}

Bits apply(Op op, unsigned width, Bits a, Bits b) {
  const Bits mask = mask_of(width);
  const Int x = signed_of(a, width), y = signed_of(b, width);
  switch (op) {
    case Op::Add:
      return (a + b) & mask;
    case Op::Mul:
      return (a * b) & mask;
    case Op::And:
      return a & b;
    case Op::Or:
      return a | b;
    case Op::Xor:
      return a ^ b;
    case Op::Shl:
      return b >= width ? 0 : (a << b) & mask;
    case Op::LShr:
      return b >= width ? 0 : a >> b;
    case Op::AShr:
      return static_cast<Bits>(x >> std::min<Bits>(b, width - 1)) & mask;
    case Op::UDiv:
      return b == 0 ? mask : a / b;
    case Op::URem:
      return b == 0 ? a : a % b;
    case Op::SDiv:
      return y == 0 ? mask : static_cast<Bits>(x / y) & mask;
    case Op::SRem:
      return y == 0 ? a : static_cast<Bits>(x % y) & mask;
    case Op::Eq:
      return a == b;
    case Op::Ult:
      return a < b;
    case Op::Ule:
      return a <= b;
    case Op::Slt:
      return x < y;
    case Op::Sle:
      return x <= y;
    default:
      return 0;
  }
}

size_t Terms::Hash::operator()(const Node& node) const {
  uint64_t h = static_cast<uint64_t>(node.op) | uint64_t{node.width} << 8;
  for (const uint64_t part : {uint64_t{node.a}, uint64_t{node.b}, uint64_t{node.c},
                              static_cast<uint64_t>(node.value), static_cast<uint64_t>(node.value >> 64)})
    h = (h ^ part) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  return h;
}

Term Terms::make(Op op, unsigned width, Term a, Term b, Term c, Bits value) {
  const Node node{op, static_cast<uint8_t>(width), a, b, c, value};
  const auto [at, is_new] = known_.try_emplace(node, static_cast<Term>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return at->second;
}

Term Terms::constant(Bits value, unsigned width) {
  return make(Op::Const, width, kNoTerm, kNoTerm, kNoTerm, value & mask_of(width));
}

Term Terms::variable(Variable variable) {
  const auto which = static_cast<Var>(variables_.size());
  const Term term = make(Op::Var, variable.width, kNoTerm, kNoTerm, kNoTerm, which);
  variables_.push_back(std::move(variable));
  var_terms_.push_back(term);
  return term;
}

Term Terms::unknown(unsigned width, const std::string& why) {
  Variable variable{fmt::format("{}{}", why, variables_.size()), VarKind::Unknown};
  variable.width = static_cast<uint8_t>(width);
  variable.high = width >= 127 ? (~Bits{0}) >> 1 : static_cast<Int>(mask_of(width));
  return this->variable(std::move(variable));
}

std::optional<Bits> Terms::value(Term term) const {
  if (!is_constant(term)) return std::nullopt;
  return nodes_[term].value;
}

std::optional<Term> Terms::fold(Op op, Term a, Term b) {
  if (!is_constant(a) || !is_constant(b)) return std::nullopt;
  const bool divides = op == Op::UDiv || op == Op::URem || op == Op::SDiv || op == Op::SRem;
  if (divides && nodes_[b].value == 0) return std::nullopt;  // PTX leaves the result open
  const unsigned width = this->width(a);
  const bool truth = op == Op::Eq || op == Op::Ult || op == Op::Ule || op == Op::Slt || op == Op::Sle;
  return constant(apply(op, width, nodes_[a].value, nodes_[b].value), truth ? 0 : width);
}

Term Terms::add(Term a, Term b) {
  if (const auto folded = fold(Op::Add, a, b)) return *folded;
  if (is_constant(a)) std::swap(a, b);
  if (value(b) == Bits{0}) return a;
  const Node left = nodes_[a];
  if (is_constant(b) && left.op == Op::Add && is_constant(left.b))
    return add(left.a, constant(nodes_[left.b].value + nodes_[b].value, width(a)));
  return make(Op::Add, width(a), a, b);
}

Term Terms::mul(Term a, Term b) {
  if (const auto folded = fold(Op::Mul, a, b)) return *folded;
  if (is_constant(a)) std::swap(a, b);
  if (value(b) == Bits{1}) return a;
  if (value(b) == Bits{0}) return b;
  return make(Op::Mul, width(a), a, b);
}

Term Terms::neg(Term a) {
  return mul(a, constant(~Bits{0}, width(a)));
}
Term Terms::sub(Term a, Term b) {
  return a == b ? constant(0, width(a)) : add(a, neg(b));
}
Term Terms::complement(Term a) {
  return width(a) == 0 ? negation(a) : add(neg(a), constant(~Bits{0}, width(a)));  // ~a = -a - 1
}

// An index that is converted to 32 or 16 bits and widened again. Compilers write that as a mask, and of a multiple as a mask
// that is shifted: 4 * i & 4 * (2^32 - 1) for 4 * (uint32_t)i. As a conversion it is seen to wrap (overflow.cpp).
// Modulo 2^w, x = 2^s y; so of the bits of x those from s on are the lowest of y, up to w - s of them.
std::optional<Term> Terms::narrowed(Term x, Bits mask) {
  constexpr unsigned kMostShift = 16;
  const unsigned w = width(x);
  // Above a number that was extended there are zeros: it is the number itself that the mask is about.
  if (const Node node = nodes_[x]; node.op == Op::ZExt && mask <= mask_of(width(node.a)))
    if (const auto inner = narrowed(node.a, mask)) return zext(*inner, w);
  unsigned shift = 0;
  while (shift <= kMostShift && !(mask >> shift & 1)) ++shift;
  if (shift > kMostShift) return std::nullopt;
  // Bits that are 0 in any case may be left out of the mask: (uint32_t)(4 * i).
  if (w == 64 && mask == (mask_of(32) >> shift << shift) && trailing_zeros(x) >= shift)
    return zext(trunc(x, 32), 64);
  for (const unsigned bits : {32u, 16u}) {
    if (bits == w || bits + shift > w || mask != mask_of(bits) << shift) continue;
    Ring part = ring(x);
    for (auto& [leaves, by] : part) {
      if (by & mask_of(shift) && shift > 0) return std::nullopt;
      by >>= shift;
    }
    return mul(zext(trunc(from_ring(part, w), bits), w), constant(Bits{1} << shift, w));
  }
  return std::nullopt;
}

Term Terms::bitwise(Op op, Term a, Term b) {
  if (op == Op::Add) return add(a, b);
  if (op == Op::Mul) return mul(a, b);
  if (const auto folded = fold(op, a, b)) return *folded;
  const unsigned w = width(a);
  if ((op == Op::And || op == Op::Or || op == Op::Xor) && is_constant(a)) std::swap(a, b);
  if (const auto right = value(b)) {
    if (op == Op::Shl) return *right < w ? mul(a, constant(Bits{1} << *right, w)) : constant(0, w);
    if (op == Op::LShr && *right >= w) return constant(0, w);
    if (*right == 0 && (op == Op::LShr || op == Op::AShr || op == Op::Or || op == Op::Xor)) return a;
    if (*right == 0 && op == Op::And) return b;
    if (*right == mask_of(w) && op == Op::And) return a;
    if (*right == mask_of(w) && op == Op::Xor) return complement(a);
    // (uint16_t)i: a conversion to 16 bits, in the same way. A mask of 8 bits is more often a byte of something.
    if (op == Op::And && *right == mask_of(16) && w > 16) return zext(trunc(a, 16), w);
    if (op == Op::And)
      if (const auto narrow = narrowed(a, *right)) return *narrow;
    if (*right == 1 && (op == Op::UDiv || op == Op::SDiv)) return a;
  }
  if (a == b && (op == Op::And || op == Op::Or)) return a;
  return make(op, w, a, b);
}

Term Terms::zext(Term a, unsigned w) {
  if (w == width(a)) return a;
  if (w < width(a)) return trunc(a, w);
  if (const auto bits = value(a)) return constant(*bits, w);
  if (nodes_[a].op == Op::ZExt) return make(Op::ZExt, w, nodes_[a].a);
  return make(Op::ZExt, w, a);
}

Term Terms::sext(Term a, unsigned w) {
  if (w == width(a)) return a;
  if (w < width(a)) return trunc(a, w);
  if (const auto bits = value(a)) return constant(static_cast<Bits>(signed_of(*bits, width(a))), w);
  return make(Op::SExt, w, a);
}

Term Terms::trunc(Term a, unsigned w) {
  if (w == width(a)) return a;
  if (const auto bits = value(a)) return constant(*bits, w);
  const Node node = nodes_[a];
  if (node.op == Op::ZExt || node.op == Op::SExt) {
    if (width(node.a) >= w) return trunc(node.a, w);
    return node.op == Op::ZExt ? zext(node.a, w) : sext(node.a, w);
  }
  if (node.op == Op::Trunc) return make(Op::Trunc, w, node.a);
  // Truncation is a ring homomorphism: pushed inwards, a register and its low half share their form.
  if (node.op == Op::Add) return add(trunc(node.a, w), trunc(node.b, w));
  if (node.op == Op::Mul) return mul(trunc(node.a, w), trunc(node.b, w));
  return make(Op::Trunc, w, a);
}

// How compilers divide 64-bit numbers: by a 32-bit division where the upper halves of both are 0. Then both divisions give
// the same quotient and remainder, signed or not: condition ? zext(x32 / y32) : x / y is x / y.
bool Terms::is_narrow_division(Term condition, Term narrow, Term wide) {
  const Node test = nodes_[condition], outer = nodes_[narrow], full = nodes_[wide];
  if (test.op != Op::Eq || value(test.b) != Bits{0} || outer.op != Op::ZExt || full.width != 64) return false;
  const Node masked = nodes_[test.a], half = nodes_[outer.a];
  if (half.width != 32 || masked.op != Op::And || value(masked.b) != (mask_of(64) & ~mask_of(32)))
    return false;
  const bool quotients = half.op == Op::UDiv && (full.op == Op::UDiv || full.op == Op::SDiv);
  const bool remainders = half.op == Op::URem && (full.op == Op::URem || full.op == Op::SRem);
  if (!quotients && !remainders) return false;
  const Node either = nodes_[masked.a];
  const bool of_both = either.op == Op::Or && ((either.a == full.a && either.b == full.b) ||
                                               (either.a == full.b && either.b == full.a));
  return of_both && half.a == trunc(full.a, 32) && half.b == trunc(full.b, 32);
}

Term Terms::ite(Term condition, Term a, Term b) {
  if (const auto known = value(condition)) return *known ? a : b;
  if (a == b) return a;
  if (is_narrow_division(condition, a, b)) return b;
  if (nodes_[condition].op == Op::Not && is_narrow_division(nodes_[condition].a, b, a)) return a;
  if (width(a) == 0) return either(both(condition, a), both(negation(condition), b));
  if (nodes_[condition].op == Op::Not) return make(Op::Ite, width(a), nodes_[condition].a, b, a);
  return make(Op::Ite, width(a), condition, a, b);
}

Term Terms::compare(Op op, Term a, Term b) {
  if (width(a) == 0 && op == Op::Eq) return either(both(a, b), both(negation(a), negation(b)));
  if (const auto folded = fold(op, a, b)) return *folded;
  if (a == b) return truth(op == Op::Eq || op == Op::Ule || op == Op::Sle);
  if (op == Op::Eq && is_constant(a)) std::swap(a, b);
  // What a variable never is. Only of arrays: that a pointer is null decides which way a kernel goes.
  if (op == Op::Eq && nodes_[a].op == Op::Var && value(b) == Bits{0})
    if (const Variable& one = variables_[nodes_[a].value]; one.kind == VarKind::Base && one.low > 0)
      return truth(false);
  return make(op, 0, a, b);
}

Term Terms::negation(Term a) {
  if (const auto known = value(a)) return truth(!*known);
  if (nodes_[a].op == Op::Not) return nodes_[a].a;
  return make(Op::Not, 0, a);
}

Term Terms::both(Term a, Term b) {
  if (const auto known = value(a)) return *known ? b : a;
  if (const auto known = value(b)) return *known ? a : b;
  if (a == b) return a;
  if (negation(a) == b) return truth(false);
  return make(Op::Both, 0, a, b);
}

Term Terms::either(Term a, Term b) {
  return negation(both(negation(a), negation(b)));
}

Term Terms::all(const std::vector<Term>& terms) {
  Term result = truth(true);
  for (const Term term : terms) result = both(result, term);
  return result;
}

namespace {

constexpr int kMostComparisons = 8;  // of a condition that is tried with all outcomes

}  // namespace

bool Terms::always_holds(Term condition) {
  // The first comparison (or unknown truth value) in it.
  const std::function<Term(Term)> first = [&](Term at) -> Term {
    const Node node = nodes_[at];
    if (node.op == Op::Const) return kNoTerm;
    if (node.op == Op::Not) return first(node.a);
    if (node.op != Op::Both) return at;
    const Term found = first(node.a);
    return found != kNoTerm ? found : first(node.b);
  };
  const std::function<Term(Term, Term, bool)> with = [&](Term at, Term comparison, bool outcome) -> Term {
    if (at == comparison) return truth(outcome);
    const Node node = nodes_[at];
    if (node.op == Op::Not) return negation(with(node.a, comparison, outcome));
    if (node.op == Op::Both)
      return both(with(node.a, comparison, outcome), with(node.b, comparison, outcome));
    return at;
  };
  const std::function<bool(Term, int)> holds = [&](Term at, int left) -> bool {
    if (const auto known = value(at)) return *known != 0;
    if (left == 0) return false;
    const Term comparison = first(at);
    return holds(with(at, comparison, false), left - 1) && holds(with(at, comparison, true), left - 1);
  };
  return holds(condition, kMostComparisons);
}

uint32_t Terms::intern(const std::string& text) {
  return interned_.try_emplace(text, static_cast<uint32_t>(interned_.size())).first->second;
}

const std::vector<Var>& Terms::mentions(Term term) {
  const auto found = mentions_.find(term);
  if (found != mentions_.end()) return found->second;
  std::vector<Var> vars;
  const Node node = nodes_[term];
  if (node.op == Op::Var) vars.push_back(static_cast<Var>(node.value));
  for (const Term child : {node.a, node.b, node.c}) {
    if (child == kNoTerm) continue;
    const std::vector<Var>& more = mentions(child);
    std::vector<Var> merged;
    std::set_union(vars.begin(), vars.end(), more.begin(), more.end(), std::back_inserter(merged));
    vars = std::move(merged);
  }
  return mentions_[term] = std::move(vars);
}

Term Terms::substitute(Term term, const std::map<Var, Term>& by) {
  std::unordered_map<Term, Term> done;
  const std::function<Term(Term)> go = [&](Term at) -> Term {
    const std::vector<Var>& vars = mentions(at);
    if (std::none_of(vars.begin(), vars.end(), [&](Var v) { return by.contains(v); })) return at;
    if (const auto found = done.find(at); found != done.end()) return found->second;
    const Node node = nodes_[at];
    const Term a = node.a == kNoTerm ? kNoTerm : go(node.a), b = node.b == kNoTerm ? kNoTerm : go(node.b);
    Term result = at;
    switch (node.op) {
      case Op::Var:
        result = by.at(static_cast<Var>(node.value));
        break;
      case Op::ZExt:
        result = zext(a, node.width);
        break;
      case Op::SExt:
        result = sext(a, node.width);
        break;
      case Op::Trunc:
        result = trunc(a, node.width);
        break;
      case Op::Ite:
        result = ite(a, b, go(node.c));
        break;
      case Op::Not:
        result = negation(a);
        break;
      case Op::Both:
        result = both(a, b);
        break;
      case Op::Eq:
      case Op::Ult:
      case Op::Ule:
      case Op::Slt:
      case Op::Sle:
        result = compare(node.op, a, b);
        break;
      default:
        result = bitwise(node.op, a, b);
        break;
    }
    return done[at] = result;
  };
  return go(term);
}

// The lowest bits of a sum, a product or a bitwise operation depend on the lowest bits of its operands alone: that
// results wrap at 2^width does not matter.
unsigned Terms::trailing_zeros(Term term) {
  if (const auto found = trailing_zeros_.find(term); found != trailing_zeros_.end()) return found->second;
  const Node node = nodes_[term];
  const auto of_number = [&](Bits bits) {
    unsigned zeros = 0;
    while (zeros < node.width && !(bits >> zeros & 1)) ++zeros;
    return zeros;
  };
  const auto of = [&](Term child) {  // a child that is 0 has none that is not
    const unsigned zeros = trailing_zeros(child);
    return zeros >= width(child) ? unsigned{node.width} : std::min<unsigned>(zeros, node.width);
  };
  unsigned zeros = 0;
  switch (node.op) {
    case Op::Const:
      zeros = of_number(node.value);
      break;
    case Op::Var:
      zeros = of_number(static_cast<Bits>(variables_[static_cast<Var>(node.value)].multiple_of));
      break;
    case Op::Add:
    case Op::Or:
    case Op::Xor:
      zeros = std::min(of(node.a), of(node.b));
      break;
    case Op::Mul:
      zeros = std::min<unsigned>(of(node.a) + of(node.b), node.width);
      break;
    case Op::And:
      zeros = std::max(of(node.a), of(node.b));
      break;
    case Op::Shl:  // by what is not known: no fewer
    case Op::ZExt:
    case Op::SExt:
    case Op::Trunc:
      zeros = of(node.a);
      break;
    case Op::LShr:
    case Op::AShr:
      if (const auto by = value(node.b); by && *by < of(node.a))
        zeros = of(node.a) - static_cast<unsigned>(*by);
      break;
    case Op::URem:
    case Op::SRem:  // a - quotient * b; of b = 0 PTX does not say what the result is
      if (const auto by = value(node.b); by && *by != 0) zeros = std::min(of(node.a), of(node.b));
      break;
    case Op::Ite:
      zeros = std::min(of(node.b), of(node.c));
      break;
    default:
      break;
  }
  return trailing_zeros_[term] = zeros;
}

const Ring& Terms::ring(Term term) {
  if (const auto found = rings_.find(term); found != rings_.end()) return found->second;
  const Node node = nodes_[term];
  const Bits mask = mask_of(node.width);
  Ring ring;
  const auto add_to = [&](const std::vector<Term>& leaves, Bits by) {
    Bits& at = ring[leaves];
    at = (at + by) & mask;
  };
  if (node.op == Op::Const) {
    add_to({}, node.value);
  } else if (node.op == Op::Add) {
    ring = this->ring(node.a);
    for (const auto& [leaves, by] : Ring(this->ring(node.b))) add_to(leaves, by);
  } else if (node.op == Op::Mul) {
    const Ring left = this->ring(node.a), right = this->ring(node.b);
    for (const auto& [x, p] : left) {
      for (const auto& [y, q] : right) {
        std::vector<Term> leaves = x;
        leaves.insert(leaves.end(), y.begin(), y.end());
        std::sort(leaves.begin(), leaves.end());
        add_to(leaves, p * q);
      }
    }
  } else {
    add_to({term}, 1);
  }
  std::erase_if(ring, [](const auto& item) { return item.second == 0; });
  return rings_[term] = std::move(ring);
}

Term Terms::from_ring(const Ring& ring, unsigned width) {
  Term sum = constant(0, width);
  for (const auto& [leaves, by] : ring) {
    Term product = constant(by, width);
    for (const Term leaf : leaves) product = mul(leaf, product);
    sum = add(sum, product);
  }
  return sum;
}

Bits Terms::evaluate(Term term, const std::function<Bits(Var)>& of) const {
  std::unordered_map<Term, Bits> done;
  const std::function<Bits(Term)> go = [&](Term at) -> Bits {
    if (const auto found = done.find(at); found != done.end()) return found->second;
    const Node& node = nodes_[at];
    const Bits mask = mask_of(node.width);
    Bits result = 0;
    switch (node.op) {
      case Op::Const:
        result = node.value;
        break;
      case Op::Var:
        result = of(static_cast<Var>(node.value)) & mask;
        break;
      case Op::ZExt:
        result = go(node.a);
        break;
      case Op::SExt:
        result = static_cast<Bits>(signed_of(go(node.a), width(node.a))) & mask;
        break;
      case Op::Trunc:
        result = go(node.a) & mask;
        break;
      case Op::Ite:
        result = go(node.a) ? go(node.b) : go(node.c);
        break;
      case Op::Not:
        result = !go(node.a);
        break;
      case Op::Both:
        result = go(node.a) && go(node.b);
        break;
      default:
        result = apply(node.op, width(node.a), go(node.a), go(node.b));
        break;
    }
    return done[at] = result;
  };
  return go(term);
}

std::string Terms::text(Term term, int depth) const {
  static constexpr const char* kNames[] = {"",    "",   "+",  "*",  "&",   "|",    "^",    "<<",    ">>",
                                           ">>s", "/",  "%",  "/s", "%s",  "zext", "sext", "trunc", "ite",
                                           "!",   "&&", "==", "<u", "<=u", "<",    "<="};
  const Node& node = nodes_[term];
  if (node.op == Op::Const) {
    const Int shown = signed_of(node.value, node.width);
    return node.width == 0 ? (node.value ? "true" : "false") : fmt::format("{}", static_cast<int64_t>(shown));
  }
  if (node.op == Op::Var) return variables_[static_cast<Var>(node.value)].name;
  if (depth == 0) return "…";
  const char* name = kNames[static_cast<size_t>(node.op)];
  if (node.c != kNoTerm)
    return fmt::format("({} ? {} : {})", text(node.a, depth - 1), text(node.b, depth - 1),
                       text(node.c, depth - 1));
  if (node.b != kNoTerm)
    return fmt::format("({} {} {})", text(node.a, depth - 1), name, text(node.b, depth - 1));
  return fmt::format("{}({})", name, text(node.a, depth - 1));
}

}  // namespace assay::prove
