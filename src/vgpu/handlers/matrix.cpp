// mma.sync and wmma.mma: the warp's fragments are gathered into rows of A, columns of B and
// elements of C, multiplied as the tensor cores do (numerics/tensor_core.h), and scattered into D.
#include "vgpu/handlers/matrix.h"

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- Fragments to rows and columns ----

// Register r of lane 4 * g + t holds word t of a row of A that g counts; of B, of a column.
template <class Word>
void gather_words(Warp& w, const PlaneOffset* planes, const uint16_t* corners, uint32_t registers,
                  uint32_t words, Word* out) {
  for (uint32_t r = 0; r < registers; ++r) {
    const Word* plane = w.plane<Word>(planes[r]);
    for (uint32_t g = 0; g < 8; ++g) {
      std::memcpy(out + corners[r] + g * words, plane + 4 * g, 4 * sizeof(Word));
    }
  }
}

// Registers 2p and 2p + 1 of C (the halves of register p, if they are f16) are neighbours in a row.
template <class T>
void gather_elements(Warp& w, const MmaForm& f, T* c) {
  for (uint32_t p = 0; p < f.c_registers / 2; ++p) {
    const T *even = w.plane<T>(f.c[2 * p]), *odd = w.plane<T>(f.c[2 * p + 1]);
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      T* at = c + f.c_corner[p] + l / 4 * f.n + l % 4 * 2;
      at[0] = even[l];
      at[1] = odd[l];
    }
  }
}
template <class T>
void scatter_elements(Warp& w, const MmaForm& f, const T* d) {
  for (uint32_t p = 0; p < f.d_registers / 2; ++p) {
    T *even = w.plane<T>(f.d[2 * p]), *odd = w.plane<T>(f.d[2 * p + 1]);
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      const T* at = d + f.c_corner[p] + l / 4 * f.n + l % 4 * 2;
      even[l] = at[0];
      odd[l] = at[1];
    }
  }
}
void gather_pairs(Warp& w, const MmaForm& f, uint16_t* c) {
  for (uint32_t p = 0; p < f.c_registers; ++p) {
    const uint32_t* plane = w.plane<uint32_t>(f.c[p]);
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      std::memcpy(c + f.c_corner[p] + l / 4 * f.n + l % 4 * 2, plane + l, 4);
    }
  }
}
void scatter_pairs(Warp& w, const MmaForm& f, const uint16_t* d) {
  for (uint32_t p = 0; p < f.d_registers; ++p) {
    uint32_t* plane = w.plane<uint32_t>(f.d[p]);
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      std::memcpy(plane + l, d + f.c_corner[p] + l / 4 * f.n + l % 4 * 2, 4);
    }
  }
}

// ---- Poison: an element of D is undefined if its row of A, its column of B or its C is ----

struct Undefined {
  bool any = false;
  uint32_t rows = 0, columns = 0;  // bit by row of A, by column of B
  uint32_t c[kMaxRegisters] = {};  // lanes, by register of C
};

// Of four lanes that hold the same row or column.
uint32_t groups_of(uint32_t lanes) {
  uint32_t found = 0;
  for (uint32_t g = 0; g < 8; ++g) found |= uint32_t{(lanes >> 4 * g & 0xf) != 0} << g;
  return found;
}

[[gnu::noinline]] void find_undefined(Warp& w, const MmaForm& f, Undefined& u) {
  if constexpr (!kWatched) return;
  for (uint32_t r = 0; r < f.a_registers; ++r)
    u.rows |= groups_of(w.poisoned(f.a[r])) << (f.a_corner[r] / f.words);
  for (uint32_t r = 0; r < f.b_registers; ++r) {
    u.columns |= groups_of(w.poisoned(f.b[r])) << (f.b_corner[r] / f.words);
  }
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
    const uint32_t corner = f.c_corner[index / 2] + index % 2;
    const uint32_t c = u.c[f.c_bits == 16 ? index / 2 : index];
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      const uint32_t row = corner / f.n + l / 4, col = corner % f.n + l % 4 * 2;
      const bool undefined = (u.rows >> row & 1) | (u.columns >> col & 1) | (c >> l & 1);
      lanes[f.d_bits == 16 ? index / 2 : index] |= uint32_t{undefined} << l;
    }
  }
  for (uint32_t r = 0; r < f.d_registers; ++r) {
    poison_whole(w, f.d[r], f.d_bits == 64 ? 8 : 4, kAllLanes, lanes[r]);
  }
}

// ---- The handler: everything but the arithmetic, which is the form's ----

template <class Word>
const Inst* multiply(Warp& w, const Inst& i) {
  if (w.lanes_of(i) == 0) return &i + 1;
  const Inst* next = nullptr;
  if (!collect(w, i, kAllLanes, &next)) return next;
  const auto& f = *static_cast<const MmaForm*>(i.extra);
  Undefined undefined;
  find_undefined(w, f, undefined);
  Matrices x;
  gather_words(w, f.a, f.a_corner, f.a_registers, f.words, x.as<Word>(x.a));
  gather_words(w, f.b, f.b_corner, f.b_registers, f.words, x.as<Word>(x.b));
  if (f.c_bits == 16) {
    gather_pairs(w, f, x.as<uint16_t>(x.c));
  } else {
    gather_elements(w, f, x.as<Word>(x.c));
  }
  f.arithmetic(f, x);
  if (f.d_bits == 16) {
    scatter_pairs(w, f, x.as<uint16_t>(x.c));
  } else {
    scatter_elements(w, f, x.as<Word>(x.c));
  }
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

// A tile of A has 16 rows (or all 8), its registers going down before they go along k; a tile of B is 8
// columns; the tiles of C lie side by side. (fragment.h says the same, element by element.)
void place_corners(MmaForm& f) {
  const uint32_t halves = f.m == 8 ? 1 : 2, steps = f.words / 4, wide = f.n / 8;
  f.a_registers = f.m / 8 * steps, f.b_registers = f.n / 8 * steps;
  for (uint32_t r = 0; r < f.a_registers; ++r) {
    const uint32_t tile = r / (halves * steps), within = r % (halves * steps);
    f.a_corner[r] = static_cast<uint16_t>((tile * 16 + within % halves * 8) * f.words + within / halves * 4);
  }
  for (uint32_t r = 0; r < f.b_registers; ++r) {
    f.b_corner[r] = static_cast<uint16_t>(r / steps * 8 * f.words + r % steps * 4);
  }
  for (uint32_t p = 0; p < f.m * f.n / kWarpSize / 2; ++p) {
    const uint32_t tile = p / halves;
    f.c_corner[p] = static_cast<uint16_t>((tile / wide * 16 + p % halves * 8) * f.n + tile % wide * 8);
  }
}

void lower_product(Lowering& l, const WmmaShape& shape, Types types, bool wmma) {
  MmaForm* form = l.extra<MmaForm>();
  form->m = shape.m, form->n = shape.n, form->k = shape.k;
  const uint32_t bits = ptx::bits_of(types.a);
  form->words = bits == 64 ? shape.k : shape.k * bits / 32;
  form->c_bits = ptx::bits_of(types.c), form->d_bits = ptx::bits_of(types.d);
  place_corners(*form);
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
  const Handler handler = types.a == Type::F64 ? multiply<uint64_t> : multiply<uint32_t>;
  l.emit(handler).extra = form;
}

// ---- mma.m8n8k4 of f16: four products at once, one for each quad pair (lanes q..q+3 and q+16..q+19) ----

struct Place {
  uint32_t row, col;
};

// Element i of a lane; `upper` for lanes 16 to 31, `t` for the lane's place in its quad.
Place quad_place(Matrix matrix, bool col_major, bool f32, uint32_t t, uint32_t upper, uint32_t i) {
  if (matrix == Matrix::C) {
    if (!f32) return {t + 4 * upper, i};
    return {(t & 1) + (i & 2) + 4 * upper, (i & 4) + (t & 2) + (i & 1)};
  }
  // A by rows and B by columns hold four consecutive elements along k; the others, four along m or n.
  const bool along_k = (matrix == Matrix::A) != col_major;
  const Place across{t + 4 * upper, i};
  const Place within{i + 4 * upper, t};
  const Place p = along_k ? across : within;  // (m or n, k)
  return matrix == Matrix::A ? p : Place{p.col, p.row};
}

struct QuadForm {
  MmaForm product;  // of one quad pair
  bool a_col, b_col;
};

uint32_t quad_lane(uint32_t quad, uint32_t t, uint32_t upper) {
  return quad * 4 + t + 16 * upper;
}

// Calls visit(lane, element, place) for every element of a matrix of one quad pair.
template <class Visit>
void for_each_place(Matrix matrix, bool col_major, bool f32, uint32_t quad, Visit visit) {
  const uint32_t elements = matrix == Matrix::C ? 8 : 4;
  for (uint32_t t = 0; t < 4; ++t) {
    for (uint32_t upper = 0; upper < 2; ++upper) {
      for (uint32_t i = 0; i < elements; ++i) {
        visit(quad_lane(quad, t, upper), i, quad_place(matrix, col_major, f32, t, upper, i));
      }
    }
  }
}

uint16_t half_at(Warp& w, const PlaneOffset* planes, uint32_t lane, uint32_t i) {
  return static_cast<uint16_t>(w.plane<uint32_t>(planes[i / 2])[lane] >> (i % 2 * 16));
}

void multiply_quad(Warp& w, const QuadForm& q, uint32_t quad) {
  const MmaForm& f = q.product;
  Matrices x;
  for_each_place(Matrix::A, q.a_col, false, quad, [&](uint32_t lane, uint32_t i, Place p) {
    x.as<uint16_t>(x.a)[p.row * 4 + p.col] = half_at(w, f.a, lane, i);
  });
  for_each_place(Matrix::B, q.b_col, false, quad, [&](uint32_t lane, uint32_t i, Place p) {
    x.as<uint16_t>(x.b)[p.col * 4 + p.row] = half_at(w, f.b, lane, i);
  });
  for_each_place(Matrix::C, false, f.c_bits == 32, quad, [&](uint32_t lane, uint32_t i, Place p) {
    if (f.c_bits == 32) {
      x.as<uint32_t>(x.c)[p.row * 8 + p.col] = w.plane<uint32_t>(f.c[i])[lane];
    } else {
      x.as<uint16_t>(x.c)[p.row * 8 + p.col] = half_at(w, f.c, lane, i);
    }
  });
  f.arithmetic(f, x);
  for_each_place(Matrix::C, false, f.d_bits == 32, quad, [&](uint32_t lane, uint32_t i, Place p) {
    if (f.d_bits == 32) {
      w.plane<uint32_t>(f.d[i])[lane] = x.as<uint32_t>(x.c)[p.row * 8 + p.col];
    } else {
      std::memcpy(w.planes + f.d[i / 2] + lane * 4 + i % 2 * 2, x.as<uint16_t>(x.c) + p.row * 8 + p.col, 2);
    }
  });
}

// Undefined bits anywhere in a quad pair make its whole product undefined.
void spread_quad_poison(Warp& w, const MmaForm& f) {
  if constexpr (!kWatched) return;
  uint32_t undefined = 0;
  for (uint32_t r = 0; r < 2; ++r) undefined |= w.poisoned(f.a[r]) | w.poisoned(f.b[r]);
  for (uint32_t r = 0; r < f.c_registers; ++r) undefined |= w.poisoned(f.c[r]);
  uint32_t quads = 0;
  for (uint32_t quad = 0; quad < 4; ++quad) {
    const uint32_t lanes = 0x000f000fu << (4 * quad);
    if (undefined & lanes) quads |= lanes;
  }
  for (uint32_t r = 0; r < f.d_registers; ++r) poison_whole(w, f.d[r], 4, kAllLanes, quads);
}

const Inst* multiply_quads(Warp& w, const Inst& i) {
  if (w.lanes_of(i) == 0) return &i + 1;
  const Inst* next = nullptr;
  if (!collect(w, i, kAllLanes, &next)) return next;
  const auto& form = *static_cast<const QuadForm*>(i.extra);
  spread_quad_poison(w, form.product);
  for (uint32_t quad = 0; quad < 4; ++quad) multiply_quad(w, form, quad);
  return &i + 1;
}

void lower_quad_mma(Lowering& l, Types types) {
  QuadForm* form = l.extra<QuadForm>();
  MmaForm& f = form->product;
  f.m = f.n = 8, f.k = 4;
  f.c_bits = ptx::bits_of(types.c), f.d_bits = ptx::bits_of(types.d);
  f.c_registers = f.c_bits / 4, f.d_registers = f.d_bits / 4;
  bool first = true;
  for (Mod mod : l.inst->mods) {  // .alayout.blayout
    if (mod != Mod::row && mod != Mod::col) continue;
    (first ? form->a_col : form->b_col) = mod == Mod::col;
    first = false;
  }
  if (!describe_arithmetic(*l.inst, types.d, types.a, types.b, types.c, f)) return refuse(l);
  const auto& operands = l.inst->operands;
  const bool fits = operands.size() == 4 && planes(l, operands[1], types.a, 2, false, f.a) &&
                    planes(l, operands[2], types.b, 2, false, f.b) &&
                    planes(l, operands[3], types.c, f.c_registers, false, f.c) &&
                    planes(l, operands[0], types.d, f.d_registers, true, f.d);
  if (!fits) return l.unsupported("fragments of this size");
  l.emit(multiply_quads).extra = form;
}

void lower_mma(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  if (inst.types.size() != 4) return refuse(l);
  const Types types{inst.type(0), inst.type(1), inst.type(2), inst.type(3)};
  if (inst.has(Mod::m8n8k4) && types.a == Type::F16) return lower_quad_mma(l, types);
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
