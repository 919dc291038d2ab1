// Approximate functions and flushed subnormals, where the contract's `math` is "standard".
//
// The compiler's own accurate expf or tanhf hold approximate instructions too, always with .ftz; so in code
// that does not flush elsewhere, only forms without .ftz were asked for. exp2f and rsqrtf are their
// approximate instructions: exponentials count only where the argument was multiplied by log2(e) in one
// rounding.
#include <fmt/format.h>

#include <algorithm>

#include "lint/rules.h"

namespace assay::lint {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

struct Approximation {
  Opcode opcode;
  std::string_view what, why, instead;
};
constexpr Approximation kApproximations[] = {
    {Opcode::ex2, "__expf", "its relative error grows with the argument", "expf"},
    {Opcode::lg2, "__logf", "it loses all accuracy near 1", "logf"},
    {Opcode::sin, "__sinf", "its error is absolute, and unbounded for large arguments", "sinf"},
    {Opcode::cos, "__cosf", "its error is absolute, and unbounded for large arguments", "cosf"},
    {Opcode::tanh, "tanh.approx", "it holds 11 bits", "tanhf"},
    {Opcode::div, "a fast division", "it is 2 ulp off, and 0 for divisors beyond 2^126", "a plain division"},
    {Opcode::rcp, "a fast reciprocal", "it is not rounded correctly", "a plain division"},
    {Opcode::sqrt, "a fast square root", "it is not rounded correctly", "sqrtf"},
};

bool flushes(const Instruction& instruction) {
  if (!instruction.has(Mod::ftz) || instruction.has(Mod::approx)) return false;
  return instruction.type() == Type::F32 &&
         (instruction.opcode == Opcode::add || instruction.opcode == Opcode::sub ||
          instruction.opcode == Opcode::mul || instruction.opcode == Opcode::fma);
}

// x times log2(e), rounded once.
bool is_scaled_argument(const Flow& flow, Index i) {
  constexpr uint64_t kLog2eF32 = 0x3fb8aa3b;
  const auto argument = flow.source(i, flow.at(i).operands[1]);
  if (!argument || flow.at(*argument).opcode != Opcode::mul) return false;
  const Instruction& product = flow.at(*argument);
  return std::any_of(product.operands.begin() + 1, product.operands.end(),
                     [&](const Operand& operand) { return flow.constant(*argument, operand) == kLog2eF32; });
}

const Approximation* approximation(const Flow& flow, Index i, bool flushing) {
  const Instruction& instruction = flow.at(i);
  if (!instruction.has(Mod::approx) && !instruction.has(Mod::full)) return nullptr;
  if (instruction.type() != Type::F32 || (instruction.has(Mod::ftz) && !flushing)) return nullptr;
  if (instruction.opcode == Opcode::ex2 && !is_scaled_argument(flow, i)) return nullptr;
  const auto* found =
      std::find_if(std::begin(kApproximations), std::end(kApproximations),
                   [&](const Approximation& row) { return row.opcode == instruction.opcode; });
  return found == std::end(kApproximations) ? nullptr : found;
}

}  // namespace

void find_math(const Subject& subject, Hits& hits) {
  if (subject.options.fast_math) return;
  const Flow& flow = subject.flow;
  const auto& body = flow.function().body;
  const auto flushing = std::find_if(body.begin(), body.end(), flushes);
  if (flushing != body.end()) {
    hits.push_back(
        {Kind::FlushedSubnormals, static_cast<Index>(flushing - body.begin()),
         "this code was compiled to flush subnormal numbers to zero (-ftz=true, --use_fast_math), but "
         "the contract's math is \"standard\". Compile without, or declare math = \"fast\""});
  }
  for (Index i = 0; i < flow.size(); ++i) {
    const Approximation* found = approximation(flow, i, flushing != body.end());
    if (!found) continue;
    hits.push_back(
        {Kind::ApproximateMath, i,
         fmt::format("{}: {}, but the contract's math is \"standard\". Use {}, or declare math = \"fast\"",
                     found->what, found->why, found->instead)});
  }
}

}  // namespace assay::lint
