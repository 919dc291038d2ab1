#include "compiler/flow.h"

#include <algorithm>

namespace assay::compiler {

namespace {

bool leaves(const Operation& op) {
  return op.code == Code::Leave;
}

bool add(Registers& to, const Registers& from) {
  uint64_t fresh = 0;
  for (size_t w = 0; w < to.size(); ++w) {
    fresh |= from[w] & ~to[w];
    to[w] |= from[w];
  }
  return fresh != 0;
}
void insert(Registers& set, uint32_t reg) {
  set[reg / 64] |= uint64_t{1} << (reg % 64);
}
void erase(Registers& set, uint32_t reg) {
  set[reg / 64] &= ~(uint64_t{1} << (reg % 64));
}

class Builder {
 public:
  explicit Builder(const vgpu::CompileRequest& request)
      : request_(request),
        body_(request.function->ptx->body),
        none_((request.function->ptx->registers.size() + 63) / 64) {}

  Flow run() {
    flow_.ranges = ranges_of(request_);
    for (size_t i = 0; i < body_.size(); ++i)
      flow_.operations.push_back(operation_of(request_, body_[i], flow_.ranges[i]));
    find_blocks();
    find_live();
    leave_out_entries();
    find_passed_together();
    return std::move(flow_);
  }

 private:
  const vgpu::CompileRequest& request_;
  const std::vector<ptx::Instruction>& body_;
  const Registers none_;
  Flow flow_;

  // Where the interpreter may go after an instruction, whether compiled code does or not.
  std::vector<size_t> successors(size_t i) const {
    using ptx::Opcode;
    const ptx::Instruction& inst = body_[i];
    std::vector<size_t> found;
    for (const ptx::Operand& operand : inst.operands) {
      if (operand.kind == ptx::Operand::Kind::Label) found.push_back(operand.index);
      if (inst.opcode == Opcode::brx_idx && operand.symbol.kind == ptx::SymbolRef::Kind::TargetList)
        for (uint32_t t : request_.function->ptx->target_lists.at(operand.symbol.index).targets)
          found.push_back(t);
    }
    const bool ends = inst.opcode == Opcode::bra || inst.opcode == Opcode::brx_idx ||
                      inst.opcode == Opcode::ret || inst.opcode == Opcode::exit ||
                      inst.opcode == Opcode::trap;
    if (!ends || inst.guard != ptx::kNone) found.push_back(i + 1);
    return found;
  }

  void find_blocks() {
    const size_t count = body_.size();
    flow_.starts_block.assign(count + 1, false);
    flow_.is_entry.assign(count + 1, false);
    flow_.starts_block[0] = flow_.is_entry[0] = true;
    for (size_t i = 0; i < count; ++i) {
      const Operation& op = flow_.operations[i];
      if (flow_.ranges[i].has_join) flow_.starts_block[i] = flow_.is_entry[i] = true;
      if (leaves(op) || op.code == Code::CallThatMayWait)
        flow_.starts_block[i + 1] = flow_.is_entry[i + 1] = true;
      if (op.code == Code::Branch) flow_.starts_block[i + 1] = true;
    }
    for (size_t i = 0; i <= count; ++i)  // an instruction that leaves at once is no entry
      if (i == count || leaves(flow_.operations[i]) || flow_.ranges[i].first == flow_.ranges[i].last)
        flow_.is_entry[i] = false;
  }

  void find_live() {
    flow_.live.assign(body_.size() + 1, none_);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = body_.size(); i-- > 0;) {
        Registers live = none_;
        for (size_t s : successors(i))
          if (s < flow_.live.size()) add(live, flow_.live[s]);
        for (uint32_t r : request_.effects[i].writes) erase(live, r);
        for (uint32_t r : request_.effects[i].reads) insert(live, r);
        changed |= add(flow_.live[i], live);
      }
    }
  }

  // Whether a register that is wider than compiled code's is defined, nobody asks.
  void leave_out_entries() {
    if (!request_.watched) return;
    for (size_t i = 0; i < body_.size(); ++i)
      for_each(flow_.live[i], [&](uint32_t r) {
        if (bits_of(*request_.function, r) > 64) flow_.is_entry[i] = false;
      });
  }

  void find_passed_together() {
    using ptx::Opcode;
    flow_.is_passed_together.assign(body_.size() + 1, false);
    for (size_t i = 0; i < body_.size(); ++i) {
      const ptx::Instruction& inst = body_[i];
      flow_.is_passed_together[i] =
          (inst.opcode == Opcode::bar_sync || inst.opcode == Opcode::barrier_sync) &&
          inst.guard == ptx::kNone && inst.operands.size() == 1 &&
          inst.operands[0].kind == ptx::Operand::Kind::Immediate &&
          flow_.ranges[i].last == flow_.ranges[i].first + 1 && flow_.is_entry[i + 1];
    }
  }
};

}  // namespace

Flow flow_of(const vgpu::CompileRequest& request) {
  return Builder(request).run();
}

std::vector<Registers> dirty_of(const vgpu::CompileRequest& request, const Flow& flow,
                                const Registers& first_lanes) {
  const size_t count = flow.operations.size();
  const Registers none(first_lanes.size());
  std::vector<Registers> dirty(count + 1, none);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < count; ++i) {
      const Operation& op = flow.operations[i];
      Registers after = dirty[i];
      if (leaves(op)) {
        if (!flow.is_passed_together[i]) continue;
        for (size_t w = 0; w < after.size(); ++w) after[w] &= first_lanes[w];
      } else if (op.code == Code::CallThatMayWait) {
        after = none;
      } else if (op.code == Code::Call) {
        for (uint32_t r : request.effects[i].reads) erase(after, r);
        for (uint32_t r : request.effects[i].writes) erase(after, r);
      } else {
        for (uint32_t r : request.effects[i].writes) insert(after, r);
      }
      if (op.code == Code::Branch) {
        changed |= add(dirty[op.target], after);
        if (op.guard == ptx::kNone) continue;
      }
      changed |= add(dirty[i + 1], after);
    }
  }
  return dirty;
}

unsigned bits_of(const vgpu::Function& kernel, uint32_t reg) {
  const ptx::Type type = kernel.ptx->registers[reg].type;
  if (type == ptx::Type::Pred) return 1;
  return std::max<uint32_t>(ptx::size_of(type), 2) * 8;
}

}  // namespace assay::compiler
