// Source lines: whose an instruction is, and which get slots.
#include <algorithm>
#include <cstdlib>

#include "shadow/emitter.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::shadow {

LineKey line_of(const vgpu::Program& program, const vgpu::Function& function, uint32_t body_index) {
  vgpu::Inst at;
  at.source = body_index;
  const vgpu::SourcePlace place = vgpu::place_of(program, function, at);
  if (place.line != 0) return {place.file, static_cast<int>(place.line)};
  return {program.name, static_cast<int>(function.ptx->body[body_index].line)};
}

namespace {

std::vector<uint32_t> loop_depths(const ptx::Function& function) {
  std::vector<uint32_t> depth(function.body.size(), 0);
  for (size_t i = 0; i < function.body.size(); ++i)
    for (const Operand& o : function.body[i].operands)
      if (o.kind == OperandKind::Label && o.index <= i)
        for (size_t k = o.index; k <= i; ++k) ++depth[k];
  return depth;
}

// How likely a line is to lose precision, before anything has run.
uint32_t weight(const Plan& plan, const ptx::Instruction& inst) {
  switch (plan.kind) {
    case Kind::Cut:
    case Kind::ToInteger:
      return 300;
    case Kind::Product:
      return 200;
    case Kind::Atomic:
      return ptx::size_of(inst.type()) == 2 || inst.type() == Type::F16x2 || inst.type() == Type::BF16x2
                 ? 400
                 : 100;
    case Kind::Bits:
      return 10;
    case Kind::Arithmetic:
      break;
    default:
      return 0;
  }
  const Number to = plan.parts.empty() ? Number::F64 : plan.parts[0].to.number;
  if (to == Number::F64) return 0;
  if (size_of(to) <= 2) return 300;
  switch (plan.op) {
    case Op::Neg:
    case Op::Abs:
    case Op::Min:
    case Op::Max:
    case Op::Copysign:
      return 0;
    case Op::Convert:
      return plan.gives.empty() ? 0 : 20;
    default:
      return inst.has(Mod::approx) ? 120 : 50;
  }
}

}  // namespace

std::vector<LineKey> ranked_lines(const Flow& flow, const vgpu::Program& program,
                                  const vgpu::Function& function) {
  std::map<LineKey, uint32_t> weights;
  const std::vector<uint32_t> depth = loop_depths(*function.ptx);
  for (uint32_t i = 0; i < function.ptx->body.size(); ++i) {
    const uint32_t w = weight(flow.plan(i), function.ptx->body[i]);
    if (w == 0) continue;
    uint32_t& most = weights[line_of(program, function, i)];
    most = std::max(most, w + 10 * std::min(depth[i], 4u));
  }
  std::vector<std::pair<uint32_t, LineKey>> order;
  for (const auto& [key, w] : weights) order.emplace_back(w, key);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<LineKey> lines;
  for (auto& [w, key] : order) lines.push_back(std::move(key));
  return lines;
}

void Shadow::separate_lines(std::span<const Where> lines) {
  uint32_t used = 0;
  for (const auto& [file, line] : lines)
    if (used < kLineSlots) impl_->slots[{file, line}] = ++used;
}

void give_slots(Group& group) {
  Shadow::Impl& impl = *group.impl;
  uint32_t used = 0;
  for (const auto& [key, slot] : impl.slots) used = std::max(used, slot);
  for (const LineKey& key : group.lines)
    if (!impl.slots.contains(key)) impl.slots[key] = used < kLineSlots ? ++used : 0;
  for (Site& site : impl.sites) {
    if (site.group != &group) continue;
    const auto found = impl.slots.find({site.file, site.line});
    site.slot = found == impl.slots.end() ? 0 : found->second;
  }
}

}  // namespace assay::shadow
