// The video instructions. They are rare, so each handler works lane by lane.
#include "numerics/video.h"

#include <array>
#include <utility>

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::Part;
using numerics::VideoOp;
using numerics::VideoTail;

enum class Kind : uint8_t { Operate, Shift, Set, Mad, SimdOperate, SimdSet };

struct VideoForm {
  Kind kind;
  VideoOp op;
  numerics::Compare compare;
  Part a_part, b_part;
  bool a_signed, b_signed, d_signed;
  bool wrap;
  VideoTail tail;
  numerics::VideoMad mad;
  numerics::SimdVideo simd;
  uint32_t a_select, b_select;  // SIMD: which bytes of {b, a} each operand takes, as prmt selects
};

uint32_t video_lane(const VideoForm& f, uint32_t a, uint32_t b, uint32_t c) {
  switch (f.kind) {
    case Kind::Operate:
      return numerics::video(f.op, a, f.a_part, f.a_signed, b, f.b_part, f.b_signed, f.tail, c);
    case Kind::Shift:
      return numerics::video_shift(f.op == VideoOp::Shl, f.wrap, a, f.a_part, f.a_signed, b, f.b_part, f.tail,
                                   c);
    case Kind::Set:
      return numerics::video_set(f.compare, a, f.a_part, f.a_signed, b, f.b_part, f.b_signed, f.tail, c);
    case Kind::Mad:
      return numerics::video_mad(f.mad, a, f.a_part, f.a_signed, b, f.b_part, f.b_signed, c, f.d_signed);
    case Kind::SimdOperate:
    case Kind::SimdSet:
      break;
  }
  const uint32_t x = numerics::prmt(a, b, f.a_select), y = numerics::prmt(a, b, f.b_select);
  return numerics::simd_video(f.simd, x, y, c, [&](int64_t p, int64_t q) {
    return f.kind == Kind::SimdSet ? int64_t{numerics::video_compare(f.compare, p, q)}
                                   : numerics::video_operate(f.op, p, q);
  });
}

const Inst* video(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const VideoForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  const uint32_t *a = w.plane<uint32_t>(i.a), *b = w.plane<uint32_t>(i.b), *c = w.plane<uint32_t>(i.c);
  uint32_t* d = w.plane<uint32_t>(i.dst);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if (lanes >> l & 1) d[l] = video_lane(form, a[l], b[l], c[l]);
  }
  spread_poison<uint32_t>(w, i, lanes, i.a, i.b, i.c);
  return &i + 1;
}

// ---- Lowering ----

struct OpRow {
  Opcode opcode;
  Kind kind;
  VideoOp op;
  int width;  // of the SIMD forms
};
constexpr OpRow kOps[] = {
    {Opcode::vadd, Kind::Operate, VideoOp::Add, 0},
    {Opcode::vsub, Kind::Operate, VideoOp::Sub, 0},
    {Opcode::vabsdiff, Kind::Operate, VideoOp::AbsDiff, 0},
    {Opcode::vmin, Kind::Operate, VideoOp::Min, 0},
    {Opcode::vmax, Kind::Operate, VideoOp::Max, 0},
    {Opcode::vshl, Kind::Shift, VideoOp::Shl, 0},
    {Opcode::vshr, Kind::Shift, VideoOp::Shr, 0},
    {Opcode::vset, Kind::Set, VideoOp::Add, 0},
    {Opcode::vmad, Kind::Mad, VideoOp::Add, 0},
    {Opcode::vadd2, Kind::SimdOperate, VideoOp::Add, 16},
    {Opcode::vsub2, Kind::SimdOperate, VideoOp::Sub, 16},
    {Opcode::vavrg2, Kind::SimdOperate, VideoOp::Average, 16},
    {Opcode::vabsdiff2, Kind::SimdOperate, VideoOp::AbsDiff, 16},
    {Opcode::vmin2, Kind::SimdOperate, VideoOp::Min, 16},
    {Opcode::vmax2, Kind::SimdOperate, VideoOp::Max, 16},
    {Opcode::vset2, Kind::SimdSet, VideoOp::Add, 16},
    {Opcode::vadd4, Kind::SimdOperate, VideoOp::Add, 8},
    {Opcode::vsub4, Kind::SimdOperate, VideoOp::Sub, 8},
    {Opcode::vavrg4, Kind::SimdOperate, VideoOp::Average, 8},
    {Opcode::vabsdiff4, Kind::SimdOperate, VideoOp::AbsDiff, 8},
    {Opcode::vmin4, Kind::SimdOperate, VideoOp::Min, 8},
    {Opcode::vmax4, Kind::SimdOperate, VideoOp::Max, 8},
    {Opcode::vset4, Kind::SimdSet, VideoOp::Add, 8},
};

struct CompareRow {
  Mod mod;
  numerics::Compare compare;
};
constexpr CompareRow kCompares[] = {
    {Mod::eq, numerics::Compare::Eq}, {Mod::ne, numerics::Compare::Ne}, {Mod::lt, numerics::Compare::Lt},
    {Mod::le, numerics::Compare::Le}, {Mod::gt, numerics::Compare::Gt}, {Mod::ge, numerics::Compare::Ge},
};

// Selectors of a video operand, as the parser keeps them: component 1 to 4 a byte, 5 and 6 a half,
// 7 and 8 the digits of a SIMD selector, most significant first, in `bits` (`offset` of them).
Part part_of(const Operand& operand) {
  return operand.component <= 6 ? static_cast<Part>(operand.component) : Part::Word;
}

uint32_t simd_select(const Operand& operand, int width, bool is_b) {
  const uint32_t fallback = is_b ? 0x7654 : 0x3210;
  if (operand.component < 7) return fallback;
  if (width == 8) return static_cast<uint32_t>(operand.bits);
  const auto low = static_cast<uint32_t>(operand.bits & 0xf),
             high = static_cast<uint32_t>(operand.bits >> 4 & 0xf);
  const auto half = [](uint32_t h) { return (2 * h + 1) << 4 | 2 * h; };
  return half(high) << 8 | half(low);
}

uint32_t simd_mask(const Operand& operand, int width) {
  const uint32_t all = width == 8 ? 0xf : 3;
  if (operand.component == 0) return all;
  uint32_t mask = 0;
  for (int64_t digit = 0; digit < operand.offset; ++digit) mask |= 1u << (operand.bits >> (4 * digit) & 0xf);
  return mask & all;
}

VideoTail tail_of(const ptx::Instruction& inst, bool d_signed) {
  VideoTail tail;
  tail.d_signed = d_signed;
  tail.sat = inst.has(Mod::sat);
  const Part merge = part_of(inst.operands[0]);
  if (merge != Part::Word) {
    tail.kind = VideoTail::Kind::Merge;
    tail.merge = merge;
  } else if (inst.has(Mod::add)) {
    tail.kind = VideoTail::Kind::Add;
  } else if (inst.has(Mod::min)) {
    tail.kind = VideoTail::Kind::Min;
  } else if (inst.has(Mod::max)) {
    tail.kind = VideoTail::Kind::Max;
  }
  return tail;
}

void fill_mad(const ptx::Instruction& inst, VideoForm& form) {
  form.mad.negate_product = inst.operands[1].negated != inst.operands[2].negated;
  form.mad.negate_c = inst.operands[3].negated;
  form.mad.plus_one = inst.has(Mod::po);
  form.mad.shift = inst.has(Mod::shr7) ? 7 : inst.has(Mod::shr15) ? 15 : 0;
  form.mad.sat = inst.has(Mod::sat);
}

void fill_simd(const ptx::Instruction& inst, int width, VideoForm& form) {
  form.simd = {width,
               form.a_signed,
               form.b_signed,
               form.d_signed,
               inst.has(Mod::sat),
               inst.has(Mod::add),
               simd_mask(inst.operands[0], width)};
  form.a_select = simd_select(inst.operands[1], width, false);
  form.b_select = simd_select(inst.operands[2], width, true);
}

// vmad's operands may be negated: the form has their signs.
PlaneOffset source_of(Lowering& l, size_t at) {
  const Operand& operand = l.inst->operands[at];
  return operand.kind == Operand::Kind::Register ? l.reg(operand.index) : l.source(operand, Type::B32);
}

void lower_video(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const OpRow* row = nullptr;
  for (const OpRow& candidate : kOps) {
    if (candidate.opcode == inst.opcode) row = &candidate;
  }
  if (row == nullptr || inst.operands.size() < 3) return refuse(l);
  VideoForm* form = l.extra<VideoForm>();
  form->kind = row->kind;
  form->op = row->op;
  const bool sets = row->kind == Kind::Set || row->kind == Kind::SimdSet;
  form->d_signed = !sets && is_signed(inst.type(0));
  form->a_signed = is_signed(inst.type(sets ? 0 : 1));
  form->b_signed = is_signed(inst.type(sets ? 1 : 2));
  form->a_part = part_of(inst.operands[1]);
  form->b_part = part_of(inst.operands[2]);
  form->wrap = inst.has(Mod::wrap);
  for (const CompareRow& c : kCompares) {
    if (sets && inst.has(c.mod)) form->compare = c.compare;
  }
  if (row->kind == Kind::Mad) {
    fill_mad(inst, *form);
  } else if (row->width != 0) {
    fill_simd(inst, row->width, *form);
  } else {
    form->tail = tail_of(inst, form->d_signed);
  }
  if (inst.opcode == Opcode::vshl && inst.has(Mod::sat)) {
    return l.unsupported("the hardware departs from the manual here");
  }
  const PlaneOffset a = source_of(l, 1), b = source_of(l, 2);
  const PlaneOffset c = inst.operands.size() > 3 ? source_of(l, 3) : l.constant(0, 4);
  const PlaneOffset dst = l.dest(inst.operands[0], Type::B32);
  Inst& emitted = l.emit(video);
  emitted.dst = dst, emitted.a = a, emitted.b = b, emitted.c = c;
  emitted.extra = form;
}

template <size_t... I>
constexpr std::array<LowerRow, sizeof...(I)> rows_of_ops(std::index_sequence<I...>) {
  return {LowerRow{kOps[I].opcode, lower_video}...};
}
constexpr auto kRows = rows_of_ops(std::make_index_sequence<std::size(kOps)>{});

}  // namespace

std::span<const LowerRow> video_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
