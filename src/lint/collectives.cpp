// Warp-wide operations whose lanes are not all that the writer may think: without a mask, with the mask of
// the lanes that happen to be active, or with a constant that leaves lanes out.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "lint/rules.h"

namespace assay::lint {

using ptx::Instruction;
using ptx::Opcode;

namespace {

constexpr Opcode kMasked[] = {Opcode::shfl_sync,  Opcode::vote_sync,     Opcode::match_all, Opcode::match_any,
                              Opcode::redux_sync, Opcode::bar_warp_sync, Opcode::elect_sync};

}  // namespace

void find_collectives(const Subject& subject, Hits& hits) {
  const Flow& flow = subject.flow;
  const auto say = [&](Index i, std::string message) {
    hits.push_back({Kind::PartialCollective, i, std::move(message)});
  };
  for (Index i = 0; i < flow.size(); ++i) {
    const Instruction& instruction = flow.at(i);
    if (instruction.opcode == Opcode::shfl || instruction.opcode == Opcode::vote) {
      say(i,
          "without .sync, only the lanes that happen to be active take part: since Volta, warps do not run "
          "in lockstep. Use the _sync form with a full mask");
      continue;
    }
    if (std::find(std::begin(kMasked), std::end(kMasked), instruction.opcode) == std::end(kMasked)) continue;
    const ptx::Operand& mask = instruction.operands.back();
    const auto source = flow.source(i, mask);
    if (source && flow.at(*source).opcode == Opcode::activemask) {
      say(i,
          "its mask is __activemask(): lanes that arrive later are silently left out. Name the lanes that "
          "must "
          "take part (0xffffffff), or compute the mask with __ballot_sync before the branch");
    } else if (const auto bits = flow.constant(i, mask); bits && (*bits & 0xffffffff) != 0xffffffff) {
      const auto lanes = static_cast<uint32_t>(*bits);
      say(i,
          fmt::format("its constant mask {:#010x} names {} of 32 lanes: the others keep their own value, and "
                      "the result is undefined if lanes outside the mask reach it. Check that exactly these "
                      "lanes arrive",
                      lanes, std::popcount(lanes)));
    }
  }
}

}  // namespace assay::lint
