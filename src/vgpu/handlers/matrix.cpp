// mma.sync and wmma.mma: the warp's fragments are gathered into rows of A, columns of B and
// elements of C, multiplied as the tensor cores do (numerics/tensor_core.h), and scattered into D.
#include "vgpu/handlers/matrix.h"

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- Fragments to rows and columns ----

// Rows of A as words: register r of lane 4 * g + t is word t of a row that g counts.
template <class Word>
void gather_rows(Warp& w, const MmaForm& f, Word (*rows)[kMaxWords]) {
  const uint32_t halves = f.m == 8 ? 1 : 2, steps = f.words / 4;
  for (uint32_t r = 0; r < f.m / 8 * steps; ++r) {
    const Word* plane = w.plane<Word>(f.a[r]);
    const uint32_t within = r % (halves * steps);
    const uint32_t row = r / (halves * steps) * 16 + within % halves * 8, word = within / halves * 4;
    for (uint32_t l = 0; l < kWarpSize; ++l) rows[row + l / 4][word + l % 4] = plane[l];
  }
}

template <class Word>
void gather_columns(Warp& w, const MmaForm& f, Word (*columns)[kMaxWords]) {
  const uint32_t steps = f.words / 4;
  for (uint32_t r = 0; r < f.n / 8 * steps; ++r) {
    const Word* plane = w.plane<Word>(f.b[r]);
    const uint32_t column = r / steps * 8, word = r % steps * 4;
    for (uint32_t l = 0; l < kWarpSize; ++l) columns[column + l / 4][word + l % 4] = plane[l];
  }
}

// Where element `index` of lane 0 of C lies; the lane adds its group to the row and twice its member to the
// column.
struct Corner {
  uint32_t row, col;
};
Corner corner_of(const MmaForm& f, uint32_t index) {
  const uint32_t halves = f.m == 8 ? 1 : 2, pair = index / 2, tile = pair / halves, wide = f.n / 8;
  return {tile / wide * 16 + pair % halves * 8, tile % wide * 8 + index % 2};
}

template <class T>
void gather_elements(Warp& w, const MmaForm& f, T (*c)[kMaxColumns]) {
  for (uint32_t index = 0; index < f.m * f.n / kWarpSize; ++index) {
    const Corner at = corner_of(f, index);
    if (f.c_bits == 16) {
      const uint32_t* plane = w.plane<uint32_t>(f.c[index / 2]);
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        c[at.row + l / 4][at.col + l % 4 * 2] = static_cast<T>(plane[l] >> (index % 2 * 16) & 0xffff);
      }
    } else {
      const T* plane = w.plane<T>(f.c[index]);
      for (uint32_t l = 0; l < kWarpSize; ++l) c[at.row + l / 4][at.col + l % 4 * 2] = plane[l];
    }
  }
}

template <class T>
void scatter_elements(Warp& w, const MmaForm& f, const T (*d)[kMaxColumns]) {
  for (uint32_t index = 0; index < f.m * f.n / kWarpSize; ++index) {
    const Corner at = corner_of(f, index);
    if (f.d_bits == 16) {
      uint32_t* plane = w.plane<uint32_t>(f.d[index / 2]);
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        const auto code = static_cast<uint32_t>(d[at.row + l / 4][at.col + l % 4 * 2]);
        plane[l] = index % 2 ? (plane[l] & 0xffff) | code << 16 : code;
      }
    } else {
      T* plane = w.plane<T>(f.d[index]);
      for (uint32_t l = 0; l < kWarpSize; ++l) plane[l] = d[at.row + l / 4][at.col + l % 4 * 2];
    }
  }
}

// ---- Poison: an element of D is undefined if its row of A, its column of B or its C is ----

struct Undefined {
  bool any = false;
  uint32_t rows = 0, columns = 0;  // bit by row of A, by column of B
  uint32_t c[kMaxRegisters] = {};  // lanes, by register of C
};

[[gnu::noinline]] void find_undefined(Warp& w, const MmaForm& f, Undefined& u) {
  if constexpr (!kWatched) return;
  const uint32_t halves = f.m == 8 ? 1 : 2, steps = f.words / 4;
  const auto groups = [](uint32_t lanes) {  // of four lanes that hold the same row
    uint32_t found = 0;
    for (uint32_t g = 0; g < 8; ++g) found |= uint32_t{(lanes >> 4 * g & 0xf) != 0} << g;
    return found;
  };
  for (uint32_t r = 0; r < f.m / 8 * steps; ++r) {
    const uint32_t within = r % (halves * steps);
    u.rows |= groups(w.poisoned(f.a[r])) << (r / (halves * steps) * 16 + within % halves * 8);
  }
  for (uint32_t r = 0; r < f.n / 8 * steps; ++r) u.columns |= groups(w.poisoned(f.b[r])) << (r / steps * 8);
  for (uint32_t r = 0; r < f.c_registers; ++r) {
    u.c[r] = w.poisoned(f.c[r]);
    u.any |= u.c[r] != 0;
  }
  for (uint32_t r = 0; r < f.d_registers; ++r) u.any |= w.poisoned(f.d[r]) != 0;
  u.any |= (u.rows | u.columns) != 0;
}

[[gnu::noinline]] void spread_undefined(Warp& w, const MmaForm& f, const Undefined& u) {
  if constexpr (!kWatched) return;
  uint32_t lanes[kMaxRegisters] = {};
  for (uint32_t index = 0; index < f.m * f.n / kWarpSize; ++index) {
    const Corner at = corner_of(f, index);
    const uint32_t c = u.c[f.c_bits == 16 ? index / 2 : index];
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      const bool undefined =
          (u.rows >> (at.row + l / 4) & 1) | (u.columns >> (at.col + l % 4 * 2) & 1) | (c >> l & 1);
      lanes[f.d_bits == 16 ? index / 2 : index] |= uint32_t{undefined} << l;
    }
  }
  for (uint32_t r = 0; r < f.d_registers; ++r) {
    poison_whole(w, f.d[r], f.d_bits == 64 ? 8 : 4, kAllLanes, lanes[r]);
  }
}

// ---- The handler: everything but the arithmetic, which is the form's ----

template <class Word, class T>
const Inst* multiply(Warp& w, const Inst& i) {
  if (w.lanes_of(i) == 0) return &i + 1;
  const Inst* next = nullptr;
  if (!collect(w, i, kAllLanes, &next)) return next;
  const auto& f = *static_cast<const MmaForm*>(i.extra);
  Undefined undefined;
  find_undefined(w, f, undefined);
  alignas(64) Word rows[kMaxRows][kMaxWords];
  alignas(64) Word columns[kMaxColumns][kMaxWords];
  alignas(64) T c[kMaxRows][kMaxColumns];
  gather_rows(w, f, rows);
  gather_columns(w, f, columns);
  gather_elements(w, f, c);
  reinterpret_cast<Arithmetic<Word, T>>(f.arithmetic)(f, rows, columns, c);
  scatter_elements(w, f, c);
  if (undefined.any) spread_undefined(w, f, undefined);
  return &i + 1;
}

// ---- Lowering ----

constexpr WmmaShape kMmaShapes[] = {
    {Mod::m8n8k4, 8, 8, 4},       {Mod::m8n8k16, 8, 8, 16},     {Mod::m8n8k32, 8, 8, 32},
    {Mod::m8n8k128, 8, 8, 128},   {Mod::m16n8k4, 16, 8, 4},     {Mod::m16n8k8, 16, 8, 8},
    {Mod::m16n8k16, 16, 8, 16},   {Mod::m16n8k32, 16, 8, 32},   {Mod::m16n8k64, 16, 8, 64},
    {Mod::m16n8k128, 16, 8, 128}, {Mod::m16n8k256, 16, 8, 256},
};

// Planes of a vector operand; false where it has another length.
bool planes(Lowering& l, const Operand& operand, Type type, uint32_t count, bool writes, PlaneOffset* out) {
  const Type word = type == Type::F64 ? Type::F64 : type == Type::F32 ? Type::F32 : Type::B32;
  if (operand.kind != Operand::Kind::Vector && count == 1) {
    out[0] = writes ? l.dest(operand, word) : l.source(operand, word);
    return true;
  }
  if (operand.kind != Operand::Kind::Vector || operand.elements.size() != count || count > kMaxRegisters)
    return false;
  for (uint32_t k = 0; k < count; ++k) {
    out[k] = writes ? l.dest(operand.elements[k], word) : l.source(operand.elements[k], word);
  }
  return true;
}

struct Types {
  Type d, a, b, c;
};

void lower_product(Lowering& l, const WmmaShape& shape, Types types, bool wmma) {
  MmaForm* form = l.extra<MmaForm>();
  form->m = shape.m, form->n = shape.n, form->k = shape.k;
  const uint32_t bits = ptx::bits_of(types.a);
  form->words = bits == 64 ? shape.k : shape.k * bits / 32;
  form->c_bits = ptx::bits_of(types.c), form->d_bits = ptx::bits_of(types.d);
  const auto registers = [&](Matrix matrix, Type type) {
    FragmentForm fragment = wmma_fragment(matrix, shape.m, shape.n, shape.k, type);
    fragment.bits = ptx::bits_of(type);
    if (!wmma) fragment.copies = 1;
    return registers_of(fragment);
  };
  form->c_registers = registers(Matrix::C, types.c), form->d_registers = registers(Matrix::C, types.d);
  if (!describe_arithmetic(*l.inst, types.d, types.a, types.b, types.c, *form)) return refuse(l);
  const auto& operands = l.inst->operands;
  const bool fits = operands.size() >= 4 &&
                    planes(l, operands[1], types.a, registers(Matrix::A, types.a), false, form->a) &&
                    planes(l, operands[2], types.b, registers(Matrix::B, types.b), false, form->b) &&
                    planes(l, operands[3], types.c, form->c_registers, false, form->c) &&
                    planes(l, operands[0], types.d, form->d_registers, true, form->d);
  if (!fits) return l.unsupported("fragments of this size");
  const Handler handler = types.a == Type::F64 ? multiply<uint64_t, uint64_t> : multiply<uint32_t, uint32_t>;
  l.emit(handler).extra = form;
}

void lower_mma(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  if (inst.types.size() != 4) return refuse(l);
  const Types types{inst.type(0), inst.type(1), inst.type(2), inst.type(3)};
  if (inst.has(Mod::m8n8k4) && types.a == Type::F16) return lower_quad_mma(l);
  for (const WmmaShape& shape : kMmaShapes) {
    if (inst.has(shape.mod)) return lower_product(l, shape, types, false);
  }
  refuse(l);
}

void lower_wmma(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const WmmaShape* shape = wmma_shape(inst);
  if (shape == nullptr) return refuse(l);
  const Types types = inst.types.size() == 2 ? Types{inst.type(0), Type::F16, Type::F16, inst.type(1)}
                                             : Types{inst.type(0), inst.type(1), inst.type(2), inst.type(3)};
  lower_product(l, *shape, types, true);
}

constexpr LowerRow kRows[] = {
    {Opcode::mma, lower_mma},
    {Opcode::wmma_mma, lower_wmma},
};

}  // namespace

std::span<const LowerRow> matrix_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
