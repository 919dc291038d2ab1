// Matrices between memory and the registers of a warp: ldmatrix, stmatrix, movmatrix, wmma.load, wmma.store.
//
// An 8x8 matrix of 16-bit elements, one row in 16 bytes, is exactly one register plane: lane 4r + c holds
// elements 2c and 2c + 1 of row r. So a plane is the matrix in row order, and .trans transposes it.
#include "vgpu/handlers/access.h"
#include "vgpu/handlers/fragment.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

constexpr uint32_t kRows = 8, kRowBytes = 16, kPlaneBytes = kRows * kRowBytes;

struct TileForm : MemoryForm {  // `planes`: one for each matrix
  bool transposed = false;
};

void transpose(const std::byte* from, std::byte* to) {
  uint16_t in[64], out[64];
  std::memcpy(in, from, kPlaneBytes);
  for (uint32_t r = 0; r < kRows; ++r)
    for (uint32_t c = 0; c < kRows; ++c) out[c * kRows + r] = in[r * kRows + c];
  std::memcpy(to, out, kPlaneBytes);
}

// Everybody of the warp takes part.
inline bool together(Warp& w, const Inst& i, const Inst** next) {
  if ((w.live & ~w.active) != 0 && !collect(w, i, kAllLanes, next)) return false;
  *next = &i + 1;
  return w.lanes_of(i) != 0;
}

// The rows of all matrices: lane l gives the address of row l % 8 of matrix l / 8.
bool find_rows(Warp& w, const Inst& i, const TileForm& form, uint32_t lanes, LaneAccess& rows) {
  alignas(64) Address addresses[kWarpSize];
  if constexpr (!kWatched) {
    Reach r;
    const bool reached = form.base_bytes == 4 ? reach_lanes<uint32_t>(w, i, form, lanes, addresses, r)
                                              : reach_lanes<uint64_t>(w, i, form, lanes, addresses, r);
    if (reached) [[likely]] {
      rows.lanes = lanes;
      for (uint32_t l = 0; l < kWarpSize; ++l) rows.host[l] = r.start + addresses[l];
      return true;
    }
  }
  lane_addresses(w, i, form, addresses);
  return resolve(w, i, form, lanes, addresses, rows);
}

uint32_t address_lanes(Warp& w, const TileForm& form) {
  return w.live & (form.count == 4 ? kAllLanes : (1u << form.count * kRows) - 1);
}

// Bytes of a matrix that no live lane gave an address for, or whose address was wrong, are zero.
const Inst* load_matrix(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  if (!together(w, i, &next)) return next;
  const auto& form = static_cast<const TileForm&>(form_of(i));
  LaneAccess rows;
  const uint32_t asked = address_lanes(w, form);
  if (!find_rows(w, i, form, asked, rows)) return nullptr;
  announce(w, i, form, rows, nullptr);
  alignas(64) std::byte all[4][kPlaneBytes];
  for (uint32_t m = 0; m < form.count; ++m) {
    alignas(64) std::byte matrix[kPlaneBytes] = {};
    alignas(64) uint8_t undefined[kPlaneBytes] = {};
    for (uint32_t r = 0; r < kRows; ++r) {
      const uint32_t l = m * kRows + r;
      const bool there = (rows.lanes >> l & 1) != 0;
      if (there) std::memcpy(matrix + r * kRowBytes, rows.host[l], kRowBytes);
      if constexpr (kWatched) {
        if (there)
          read_undefined(rows, l, 0, kRowBytes, undefined + r * kRowBytes);
        else if ((asked >> l & 1) == 0)  // what was left out has been reported
          std::memset(undefined + r * kRowBytes, 0xff, kRowBytes);
      }
    }
    if (form.transposed)
      transpose(matrix, all[m]);
    else
      std::memcpy(all[m], matrix, kPlaneBytes);
    if constexpr (kWatched) {
      alignas(64) uint32_t bits[kWarpSize];
      auto* bytes = reinterpret_cast<std::byte*>(undefined);
      if (form.transposed) transpose(bytes, bytes);
      std::memcpy(bits, undefined, kPlaneBytes);
      set_undefined(w, form.planes[m], w.live, bits);
    }
  }
  for (uint32_t m = 0; m < form.count; ++m)
    blend(w.plane<uint32_t>(form.planes[m]), reinterpret_cast<const uint32_t*>(all[m]), w.active);
  return next;
}

const Inst* store_matrix(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  if (!together(w, i, &next)) return next;
  const auto& form = static_cast<const TileForm&>(form_of(i));
  LaneAccess rows;
  if (!find_rows(w, i, form, address_lanes(w, form), rows)) return nullptr;
  alignas(64) std::byte all[4 * kPlaneBytes];
  for (uint32_t m = 0; m < form.count; ++m) {
    std::byte* matrix = all + m * kPlaneBytes;
    if (form.transposed)
      transpose(w.planes + form.planes[m], matrix);
    else
      std::memcpy(matrix, w.planes + form.planes[m], kPlaneBytes);
  }
  announce(w, i, form, rows, all);
  each_lane(rows.lanes, [&](uint32_t l) { std::memcpy(rows.host[l], all + l * kRowBytes, kRowBytes); });
  if constexpr (kWatched) {
    for (uint32_t m = 0; m < form.count; ++m) {
      alignas(64) uint32_t bits[kWarpSize];
      for (uint32_t l = 0; l < kWarpSize; ++l) bits[l] = undefined_bits<uint32_t>(w, form.planes[m], l);
      auto* bytes = reinterpret_cast<std::byte*>(bits);
      if (form.transposed) transpose(bytes, bytes);
      for (uint32_t r = 0; r < kRows; ++r) {
        const uint32_t l = m * kRows + r;
        if ((rows.lanes >> l & 1) != 0)
          write_undefined(rows, l, 0, kRowBytes, reinterpret_cast<const uint8_t*>(bytes) + r * kRowBytes);
      }
    }
  }
  return next;
}

const Inst* move_matrix(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  if (!together(w, i, &next)) return next;
  alignas(64) std::byte moved[kPlaneBytes];
  transpose(w.planes + i.a, moved);
  if constexpr (kWatched) {
    alignas(64) uint32_t bits[kWarpSize];
    for (uint32_t l = 0; l < kWarpSize; ++l) bits[l] = undefined_bits<uint32_t>(w, i.a, l);
    transpose(reinterpret_cast<const std::byte*>(bits), reinterpret_cast<std::byte*>(bits));
    set_undefined(w, i.dst, w.active, bits);
  }
  blend(w.plane<uint32_t>(i.dst), reinterpret_cast<const uint32_t*>(moved), w.active);
  return next;
}

void lower_matrix(Lowering& l, bool is_store) {
  const ptx::Instruction& inst = *l.inst;
  if (!inst.has(Mod::m8n8)) return l.unsupported("matrices of 8-bit elements");
  const Operand& value = inst.operands.at(is_store ? 1 : 0);
  auto& form = *l.extra<TileForm>();
  form.kind = is_store ? AccessKind::Store : AccessKind::Load;
  form.bytes = kRowBytes;
  form.transposed = inst.has(Mod::trans);
  const bool vector = value.kind == Operand::Kind::Vector;
  form.count = static_cast<uint8_t>(vector ? value.elements.size() : 1);
  if (form.count != (inst.has(Mod::x4) ? 4 : inst.has(Mod::x2) ? 2 : 1))
    return l.unsupported("this number of registers");
  const AddressPlane at = lower_address(l, inst.operands.at(is_store ? 0 : 1), space_of(inst).space, form);
  for (uint32_t m = 0; m < form.count; ++m) {
    const Operand& one = vector ? value.elements[m] : value;
    if (l.lane_bytes(one, Type::B32) != 4) return l.unsupported("registers of another width");
    form.planes[m] = is_store ? l.source(one, Type::B32) : l.dest(one, Type::B32);
  }
  Inst& out = l.emit(is_store ? store_matrix : load_matrix);
  out.a = at.base;
  out.imm = at.offset;
  out.extra = static_cast<const MemoryForm*>(&form);
}

void lower_ldmatrix(Lowering& l) {
  lower_matrix(l, false);
}
void lower_stmatrix(Lowering& l) {
  lower_matrix(l, true);
}

void lower_movmatrix(Lowering& l) {
  const PlaneOffset a = l.source(1, Type::B32), d = l.dest(l.inst->operands.at(0), Type::B32);
  Inst& out = l.emit(move_matrix);
  out.dst = d;
  out.a = a;
}

// ---- wmma: fragments element by element, each where fragment.h says ----

constexpr uint32_t kMostRegisters = 8;

struct FragmentAccess : MemoryForm {
  FragmentForm fragment{};
  bool columns = false;  // .col: elements of a column lie side by side
  bool has_stride = false;
  PlaneOffset stride = 0;
  uint32_t registers = 0;
  uint32_t lane_bytes = 4;
  PlaneOffset parts[kMostRegisters] = {};
  const uint16_t* rows = nullptr;  // of the elements, [index][lane]
  const uint16_t* cols = nullptr;
};

// Position of an element, in bits from the matrix's start.
uint64_t bit_offset(const FragmentAccess& form, const Element& e, uint64_t stride) {
  const uint64_t index = form.columns ? e.col * stride + e.row : e.row * stride + e.col;
  return index * form.fragment.bits;
}

uint64_t stride_of(Warp& w, const FragmentAccess& form, uint32_t lane) {
  if (form.has_stride) return w.plane<uint32_t>(form.stride)[lane];
  return form.columns ? rows_of(form.fragment) : cols_of(form.fragment);
}

// The bytes of element `index` of every lane.
bool find_elements(Warp& w, const Inst& i, const FragmentAccess& form, uint32_t lanes, uint32_t index,
                   LaneAccess& access, uint32_t* shift) {
  Address addresses[kWarpSize];
  lane_addresses(w, i, form, addresses);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const uint64_t bits = bit_offset(form, element_of(form.fragment, l, index), stride_of(w, form, l));
    addresses[l] += bits / 8;
    shift[l] = static_cast<uint32_t>(bits % 8);
  }
  return resolve(w, i, form, lanes, addresses, access);
}

// ---- The common case: one matrix for the warp, all of it in one allocation ----

// Where the matrix begins on the host; null where it is not that simple.
std::byte* whole_matrix(Warp& w, const Inst& i, const FragmentAccess& form, uint64_t stride) {
  if (form.fragment.bits < 8 || w.lanes_of(i) != kAllLanes) return nullptr;
  Address addresses[kWarpSize];
  lane_addresses(w, i, form, addresses);
  bool same = true;
  for (uint32_t l = 1; l < kWarpSize; ++l)
    same &= addresses[l] == addresses[0] && (!form.has_stride || w.plane<uint32_t>(form.stride)[l] == stride);
  if (!same || addresses[0] % form.bytes != 0) return nullptr;
  const uint64_t lines = form.columns ? cols_of(form.fragment) : rows_of(form.fragment),
                 line = form.columns ? rows_of(form.fragment) : cols_of(form.fragment);
  const uint64_t bytes = ((lines - 1) * stride + line) * form.bytes;
  const Address window = form.space == Space::Generic ? kSharedWindow : 0, offset = addresses[0] - window;
  if (form.space == Space::Shared || (form.space == Space::Generic && offset < (1u << kSharedRankShift))) {
    const Block& block = *w.block;
    return offset <= block.shared_bytes && block.shared_bytes - offset >= bytes ? block.shared + offset
                                                                                : nullptr;
  }
  const SiteRange& range = w.sites[form.site];
  const bool known = addresses[0] >= range.low && addresses[0] < range.high;
  if (!known && !refill(w, form.site, addresses[0], bytes)) return nullptr;
  if (range.high - addresses[0] < bytes) return nullptr;
  return reinterpret_cast<std::byte*>(addresses[0] + static_cast<uint64_t>(range.delta));
}

template <class M, bool Store>
void move_fragment(Warp& w, const FragmentAccess& form, std::byte* matrix, uint64_t stride) {
  using Word = std::conditional_t<sizeof(M) == 8, uint64_t, uint32_t>;
  constexpr uint32_t kEach = sizeof(Word) / sizeof(M);
  const uint64_t by_row = form.columns ? 1 : stride, by_col = form.columns ? stride : 1;
  const uint32_t different = form.registers / form.fragment.copies;
  for (uint32_t r = 0; r < different; ++r) {
    Word* plane = w.plane<Word>(form.parts[r]);
    const uint16_t *rows = form.rows + r * kEach * kWarpSize, *cols = form.cols + r * kEach * kWarpSize;
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      Word word = Store ? plane[l] : 0;
#pragma GCC unroll 4
      for (uint32_t e = 0; e < kEach; ++e) {
        const uint32_t at = e * kWarpSize + l;
        M* place = reinterpret_cast<M*>(matrix) + rows[at] * by_row + cols[at] * by_col;
        if constexpr (Store)
          *place = static_cast<M>(word >> e * sizeof(M) * 8);
        else
          word |= static_cast<Word>(*place) << e * sizeof(M) * 8;
      }
      if constexpr (!Store) plane[l] = word;
    }
  }
  if constexpr (!Store)
    for (uint32_t r = different; r < form.registers; ++r)
      std::memcpy(w.planes + form.parts[r], w.planes + form.parts[r % different], sizeof(Word) * kWarpSize);
}

template <bool Store>
bool move_at_once(Warp& w, const Inst& i, const FragmentAccess& form) {
  if constexpr (kWatched) return false;
  const uint64_t stride = stride_of(w, form, 0);
  std::byte* matrix = whole_matrix(w, i, form, stride);
  if (matrix == nullptr) return false;
  switch (form.bytes) {
    case 1:
      move_fragment<uint8_t, Store>(w, form, matrix, stride);
      break;
    case 2:
      move_fragment<uint16_t, Store>(w, form, matrix, stride);
      break;
    case 4:
      move_fragment<uint32_t, Store>(w, form, matrix, stride);
      break;
    default:
      move_fragment<uint64_t, Store>(w, form, matrix, stride);
  }
  return true;
}

// ---- Everything else, element by element ----

const Inst* load_fragment(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  if (!together(w, i, &next)) return next;
  const auto& form = static_cast<const FragmentAccess&>(form_of(i));
  if (move_at_once<false>(w, i, form)) return next;
  const uint32_t lanes = w.lanes_of(i), bits = form.fragment.bits,
                 each = elements_per_register(form.fragment);
  const uint64_t keep = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  for (uint32_t r = 0; r < form.registers; ++r) {
    alignas(64) uint64_t value[kWarpSize] = {}, undefined[kWarpSize] = {};
    for (uint32_t part = 0; part < each; ++part) {
      LaneAccess access;
      uint32_t shift[kWarpSize];
      if (!find_elements(w, i, form, lanes, r * each + part, access, shift)) return nullptr;
      announce(w, i, form, access, nullptr);
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        uint64_t element = 0, doubt = 0;
        if ((access.lanes >> l & 1) != 0) {
          std::memcpy(&element, access.host[l], form.bytes);
          if constexpr (kWatched)
            read_undefined(access, l, 0, form.bytes, reinterpret_cast<uint8_t*>(&doubt));
        } else {
          doubt = ~uint64_t{0};
        }
        value[l] |= (element >> shift[l] & keep) << part * bits;
        undefined[l] |= (doubt >> shift[l] & keep) << part * bits;
      }
    }
    each_lane(lanes, [&](uint32_t l) {
      std::memcpy(w.planes + form.parts[r] + l * form.lane_bytes, &value[l], form.lane_bytes);
      if constexpr (kWatched)
        write_shadow(w, form.parts[r], form.lane_bytes, l, reinterpret_cast<const uint8_t*>(&undefined[l]));
    });
  }
  return next;
}

const Inst* store_fragment(Warp& w, const Inst& i) {
  const Inst* next = nullptr;
  if (!together(w, i, &next)) return next;
  const auto& form = static_cast<const FragmentAccess&>(form_of(i));
  if (move_at_once<true>(w, i, form)) return next;
  const uint32_t lanes = w.lanes_of(i), bits = form.fragment.bits,
                 each = elements_per_register(form.fragment);
  for (uint32_t index = 0; index < form.registers * each; ++index) {
    LaneAccess access;
    uint32_t shift[kWarpSize];
    if (!find_elements(w, i, form, lanes, index, access, shift)) return nullptr;
    std::byte values[kWarpSize * 8];
    uint32_t doubtful = 0;
    each_lane(access.lanes, [&](uint32_t l) {
      const uint32_t skip = index % each * bits / 8;
      std::memcpy(values + l * form.bytes, w.planes + form.parts[index / each] + l * form.lane_bytes + skip,
                  form.bytes);
    });
    announce(w, i, form, access, values);
    each_lane(access.lanes, [&](uint32_t l) {
      std::memcpy(access.host[l], values + l * form.bytes, form.bytes);
      if constexpr (kWatched) {
        uint8_t mask[8];
        read_shadow(w, form.parts[index / each], form.lane_bytes, l, mask);
        const uint32_t skip = index % each * bits / 8;
        // Reported below, so later reads of it are not reported again.
        write_undefined(access, l, 0, form.bytes, access.space[l] == Space::Global ? nullptr : mask + skip);
        for (uint32_t b = 0; b < form.bytes; ++b)
          doubtful |= uint32_t{mask[skip + b] != 0 && access.space[l] == Space::Global} << l;
      }
    });
    if (doubtful != 0) report(w, i, form, Violation::UndefinedStore, doubtful, access.address, "");
  }
  return next;
}

void lower_fragment(Lowering& l, Matrix matrix, bool is_store) {
  const ptx::Instruction& inst = *l.inst;
  const WmmaShape* shape = wmma_shape(inst);
  if (shape == nullptr) return l.unsupported("this shape");
  auto& form = *l.extra<FragmentAccess>();
  form.fragment = wmma_fragment(matrix, shape->m, shape->n, shape->k, inst.type());
  form.columns = inst.has(Mod::col);
  form.kind = is_store ? AccessKind::Store : AccessKind::Load;
  form.bytes = form.fragment.bits < 8 ? 1 : form.fragment.bits / 8;
  form.registers = registers_of(form.fragment);
  form.lane_bytes = form.fragment.bits == 64 ? 8 : 4;
  const Operand& value = inst.operands.at(is_store ? 1 : 0);
  const bool vector = value.kind == Operand::Kind::Vector;
  const size_t given = vector ? value.elements.size() : 1;
  if (given != form.registers || given > kMostRegisters) return l.unsupported("this number of registers");
  const AddressPlane at = lower_address(l, inst.operands.at(is_store ? 0 : 1), space_of(inst).space, form);
  const Type type = form.lane_bytes == 8 ? Type::B64 : Type::B32;
  for (uint32_t r = 0; r < form.registers; ++r) {
    const Operand& one = vector ? value.elements[r] : value;
    if (l.lane_bytes(one, type) != form.lane_bytes) return l.unsupported("registers of another width");
    form.parts[r] = is_store ? l.source(one, type) : l.dest(one, type);
  }
  const uint32_t elements = elements_of(form.fragment);
  auto* rows = l.extra_array<uint16_t>(elements * kWarpSize);
  auto* cols = l.extra_array<uint16_t>(elements * kWarpSize);
  for (uint32_t which = 0; which < elements * kWarpSize; ++which) {
    const Element e = element_of(form.fragment, which % kWarpSize, which / kWarpSize);
    rows[which] = static_cast<uint16_t>(e.row), cols[which] = static_cast<uint16_t>(e.col);
  }
  form.rows = rows, form.cols = cols;
  form.has_stride = inst.operands.size() > 2;
  if (form.has_stride) form.stride = l.source(2, Type::U32);
  Inst& out = l.emit(is_store ? store_fragment : load_fragment);
  out.a = at.base;
  out.imm = at.offset;
  out.extra = static_cast<const MemoryForm*>(&form);
}

template <Matrix M, bool IsStore>
void lower_wmma(Lowering& l) {
  lower_fragment(l, M, IsStore);
}

constexpr LowerRow kTileRows[] = {
    {Opcode::ldmatrix, lower_ldmatrix},
    {Opcode::stmatrix, lower_stmatrix},
    {Opcode::movmatrix, lower_movmatrix},
    {Opcode::wmma_load_a, lower_wmma<Matrix::A, false>},
    {Opcode::wmma_load_b, lower_wmma<Matrix::B, false>},
    {Opcode::wmma_load_c, lower_wmma<Matrix::C, false>},
    {Opcode::wmma_store_d, lower_wmma<Matrix::C, true>},
};

}  // namespace

std::span<const LowerRow> tile_rows() {
  return kTileRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
