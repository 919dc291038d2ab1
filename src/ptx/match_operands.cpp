// Do the operands have the number and the kinds that a row requires?
#include <fmt/format.h>

#include <algorithm>

#include "ptx/table.h"

namespace assay::ptx {
namespace {

using Kind = Operand::Kind;

bool is_value(const Operand& operand) {
  switch (operand.kind) {
    case Kind::Register:
    case Kind::Immediate:
    case Kind::Special:
    case Kind::Symbol:
    case Kind::Sink:
      return true;
    default:
      return false;
  }
}

bool is_plain_value(const Operand& operand) {
  return is_value(operand) && !operand.negated;
}
bool is_destination(const Operand& operand) {
  return (operand.kind == Kind::Register && !operand.negated) || operand.kind == Kind::Sink;
}

bool fits_kind(OperandKind kind, const Operand& operand) {
  switch (kind) {
    case OperandKind::Destination:
    case OperandKind::PredicateResult:
      return is_destination(operand);
    case OperandKind::DestinationOrVector:
      return is_destination(operand) || operand.kind == Kind::Vector;
    case OperandKind::Dropped:
      return operand.kind == Kind::Sink;
    case OperandKind::Value:
    case OperandKind::CachePolicy:
      return is_plain_value(operand);
    case OperandKind::ValueOrVector:
      return is_plain_value(operand) || operand.kind == Kind::Vector;
    case OperandKind::Vector:
      return operand.kind == Kind::Vector;
    case OperandKind::NegatableValue:
    case OperandKind::Predicate:
      return is_value(operand);
    case OperandKind::Constant:
      return operand.kind == Kind::Immediate;
    case OperandKind::Address:
      return operand.kind == Kind::Address && operand.elements.empty();
    case OperandKind::Coordinates:
      return operand.kind == Kind::Address && operand.elements.size() == 1;
    case OperandKind::SampledCoordinates:
      return operand.kind == Kind::Address && (operand.elements.size() == 1 || operand.elements.size() == 2);
    case OperandKind::ValueOrAddress:
      return is_plain_value(operand) || (operand.kind == Kind::Address && operand.elements.empty());
    case OperandKind::Label:
      return operand.kind == Kind::Label;
    case OperandKind::TargetList:
      return operand.kind == Kind::Symbol && operand.symbol.kind == SymbolRef::Kind::TargetList;
    case OperandKind::Callee:
      return (operand.kind == Kind::Register && !operand.negated) ||
             (operand.kind == Kind::Symbol && operand.symbol.kind == SymbolRef::Kind::Function);
    case OperandKind::Arguments:
      return operand.kind == Kind::List;
  }
  return false;
}

bool fits(const OperandPattern& pattern, const Operand& operand) {
  if (!fits_kind(pattern.kind, operand)) return false;
  if (operand.kind == Kind::Register && operand.component != 0 && !pattern.has_selector) return false;
  bool paired = operand.pair != kNone || operand.sink_pair;
  if (paired) return pattern.pair != OperandPattern::Pair::None;
  return pattern.pair != OperandPattern::Pair::Required;
}

std::string_view words_for(OperandKind kind) {
  switch (kind) {
    case OperandKind::Destination:
      return "a register";
    case OperandKind::DestinationOrVector:
      return "a register or a vector of registers";
    case OperandKind::PredicateResult:
      return "a predicate register";
    case OperandKind::Value:
      return "a value";
    case OperandKind::ValueOrVector:
      return "a value or a vector of values";
    case OperandKind::Vector:
      return "a vector in braces";
    case OperandKind::NegatableValue:
      return "a value";
    case OperandKind::Predicate:
      return "a predicate or a value";
    case OperandKind::Constant:
      return "a constant";
    case OperandKind::Address:
      return "an address in brackets";
    case OperandKind::Coordinates:
      return "an address with coordinates, [a, {x, …}]";
    case OperandKind::SampledCoordinates:
      return "an address with coordinates, [a, {x, …}] or [a, sampler, {x, …}]";
    case OperandKind::ValueOrAddress:
      return "a value or an address in brackets";
    case OperandKind::Label:
      return "a label";
    case OperandKind::TargetList:
      return "a list of targets or a prototype";
    case OperandKind::Callee:
      return "a function or a register";
    case OperandKind::Arguments:
      return "a list in parentheses";
    case OperandKind::CachePolicy:
      return "a cache policy";
    case OperandKind::Dropped:
      return "'_'";
  }
  return "";
}

// Optional operands may be left out: try with, then without.
class OperandMatcher {
 public:
  OperandMatcher(std::span<const OperandPattern> patterns, std::span<const Operand> operands,
                 bool has_cache_hint)
      : patterns_(patterns), operands_(operands), has_cache_hint_(has_cache_hint) {}

  bool match(size_t pattern, size_t operand) {
    if (operand > furthest_ || (operand == furthest_ && expected_ == patterns_.size())) {
      furthest_ = operand;
      expected_ = pattern;
    }
    if (pattern == patterns_.size()) return operand == operands_.size();
    if (operand < operands_.size() && is_allowed(patterns_[pattern]) &&
        fits(patterns_[pattern], operands_[operand]) && match(pattern + 1, operand + 1))
      return true;
    return !is_required(patterns_[pattern]) && match(pattern + 1, operand);
  }

  std::string problem() const {
    size_t least = 0, most = 0, count = operands_.size();
    for (const OperandPattern& pattern : patterns_) {
      least += is_required(pattern);
      most += is_allowed(pattern);
    }
    if (count < least || count > most) {
      std::string takes = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
      return fmt::format("takes {} operand{}, not {}", takes, takes == "1" ? "" : "s", count);
    }
    if (expected_ == patterns_.size()) return fmt::format("operand {} is one too many", furthest_ + 1);
    const OperandPattern& pattern = patterns_[expected_];
    std::string pair = pattern.pair == OperandPattern::Pair::Required ? " with a second one after '|'" : "";
    return fmt::format("operand {} must be {}{}", furthest_ + 1, words_for(pattern.kind), pair);
  }

 private:
  bool is_allowed(const OperandPattern& pattern) const {
    return pattern.kind != OperandKind::CachePolicy || has_cache_hint_;
  }
  bool is_required(const OperandPattern& pattern) const {
    return pattern.kind == OperandKind::CachePolicy ? has_cache_hint_ : !pattern.optional;
  }

  std::span<const OperandPattern> patterns_;
  std::span<const Operand> operands_;
  bool has_cache_hint_;
  size_t furthest_ = 0, expected_ = 0;
};

}  // namespace

bool match_operands(const Row& row, std::span<const Mod> mods, std::span<const Operand> operands,
                    std::string* problem) {
  bool has_cache_hint = std::find(mods.begin(), mods.end(), Mod::L2_cache_hint) != mods.end();
  OperandMatcher matcher(row.operands, operands, has_cache_hint);
  if (matcher.match(0, 0)) return true;
  if (problem) *problem = matcher.problem();
  return false;
}

}  // namespace assay::ptx
