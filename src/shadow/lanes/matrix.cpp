// Matrices: the tensor cores' products, and fragments between memory and registers. These follow the
// instruction: then all lanes of the warp have met.
#include "shadow/lanes/hosts.h"
#include "vgpu/handlers/fragment.h"

namespace assay::shadow::ASSAY_BUILD {

namespace {

using vgpu::ASSAY_BUILD::Element;  // (row, column) of a fragment
using vgpu::ASSAY_BUILD::FragmentForm;
using vgpu::ASSAY_BUILD::Matrix;

constexpr uint32_t kMost = 32 * 32;

// A matrix as doubles, with the errors of its elements.
struct Operand {
  double value[kMost];
  const Error* error[kMost];
  Error settled[kMost];
  bool any = false;
};

// Of all registers' parts, lane by lane.
void index_fragment(const FragmentForm& form, const Fragment& fragment, uint32_t width, uint16_t* out) {
  for (uint32_t e = 0; e < fragment.registers * fragment.parts; ++e)
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      const Element at = vgpu::ASSAY_BUILD::element_of(form, l, e);
      *out++ = static_cast<uint16_t>(at.row * width + at.col);
    }
}

FragmentForm fragment_form(const ProductForm& f, Matrix matrix, ptx::Type type) {
  FragmentForm form = vgpu::ASSAY_BUILD::wmma_fragment(matrix, f.m, f.n, f.k, type);
  form.bits = ptx::bits_of(type);
  if (!f.wmma) form.copies = 1;
  return form;
}

void gather(Warp& w, const Fragment& fragment, const uint16_t* index, Operand& out) {
  const uint32_t size = size_of(fragment.number);
  out.any = false;
  for (uint32_t r = 0; r < fragment.registers; ++r) {
    for (uint32_t p = 0; p < fragment.parts; ++p, index += kWarpSize) {
      const shadow::Element e{fragment.plane[r], fragment.errors[r][p],
                              static_cast<uint16_t>(size == 8 ? 8 : 4), static_cast<uint8_t>(p * size),
                              fragment.number};
      alignas(64) double value[32];
      read(w, e, value);
      const uint32_t has = lanes_with_errors(w, e.errors);
      for (uint32_t l = 0; l < kWarpSize; ++l) {
        out.value[index[l]] = value[l];
        out.error[index[l]] = nullptr;
      }
      each_lane(has, [&](uint32_t l) {
        out.settled[index[l]] = errors_at(w, e.errors).error[l];
        settle(out.settled[index[l]]);
        out.error[index[l]] = &out.settled[index[l]];
        out.any = true;
      });
    }
  }
}

void add_scaled(Vector& sum, const Error* e, double factor) {
  if (e == nullptr) return;
  Vector parts;
  std::memcpy(&parts, e, sizeof parts);
  sum += static_cast<float>(factor) * parts;
}

double shadow_of(const Operand& x, uint32_t index) {
  return x.error[index] == nullptr ? x.value[index]
                                   : x.value[index] - static_cast<double>(x.error[index]->slot[kWhole]);
}

struct Scratch {
  Operand a, b, c;
  double exact[kMost], truth[kMost];
};

void multiply(const ProductForm& f, const double* a, const double* b, const double* c, double* out) {
  for (uint32_t row = 0; row < f.m; ++row) {
    double* d = out + row * f.n;
    for (uint32_t col = 0; col < f.n; ++col) d[col] = c[row * f.n + col];
    for (uint32_t k = 0; k < f.k; ++k) {
      const double factor = a[row * f.k + k];
#pragma GCC ivdep
      for (uint32_t col = 0; col < f.n; ++col) d[col] += factor * b[k * f.n + col];
    }
  }
}

// What the product is, from the values and from the shadows.
void multiply_both(const ProductForm& f, Scratch& x) {
  multiply(f, x.a.value, x.b.value, x.c.value, x.exact);
  if (!x.a.any && !x.b.any && !x.c.any) {
    std::memcpy(x.truth, x.exact, sizeof(double) * f.m * f.n);
    return;
  }
  static thread_local double a[kMost], b[kMost], c[kMost];
  for (uint32_t i = 0; i < f.m * f.k; ++i) a[i] = shadow_of(x.a, i);
  for (uint32_t i = 0; i < f.k * f.n; ++i) b[i] = shadow_of(x.b, i);
  for (uint32_t i = 0; i < f.m * f.n; ++i) c[i] = shadow_of(x.c, i);
  multiply(f, a, b, c, x.truth);
}

// Element (row, col) of D: `value` is what the tensor core made of it.
bool account(const ProductForm& f, const Scratch& x, uint32_t row, uint32_t col, uint32_t lane, double value,
             Error& out) {
  const uint32_t c = row * f.n + col;
  const double exact = x.exact[c], truth = x.truth[c];
  const bool inherits = x.a.any || x.b.any || x.c.error[c] != nullptr;
  const double introduced = value - exact, whole = value - truth;
  Site& site = *f.site;
  ++site.executions;
  if (exact != 0 && std::isfinite(introduced)) {
    const double relative = std::fabs(introduced / exact);
    site.introduced2[lane] += relative * relative;
    site.introduced_max[lane] = relative > site.introduced_max[lane] ? relative : site.introduced_max[lane];
  }
  if (!std::isfinite(value) && std::isfinite(exact)) {
    ++site.overflowed;
    write_broken(out, slot_of(site), exact);
    return true;
  }
  if (!(std::fabs(whole) < kHuge)) {  // of something broken
    const auto broken = [&](const Error* e) { return e != nullptr && is_broken(*e); };
    for (uint32_t k = 0; k < f.k; ++k)
      for (const Error* e : {x.a.error[row * f.k + k], x.b.error[k * f.n + col], x.c.error[c]})
        if (broken(e)) {
          out = *e;
          return true;
        }
    return false;
  }
  if (std::fabs(whole) <= kSmallest) return false;
  Vector sum = {};
  if (inherits) {
    add_scaled(sum, x.c.error[c], 1);
    for (uint32_t k = 0; k < f.k && (x.a.any || x.b.any); ++k) {
      add_scaled(sum, x.a.error[row * f.k + k], x.b.value[k * f.n + col]);
      add_scaled(sum, x.b.error[k * f.n + col], x.a.value[row * f.k + k]);
    }
  }
  std::memcpy(&out, &sum, sizeof sum);
  out.slot[slot_of(site)] += static_cast<float>(introduced);
  out.slot[kWhole] = static_cast<float>(whole);
  return true;
}

const Inst* keep_product(Warp& w, const Inst& i) {
  const auto& f = form_of<ProductForm>(i);
  const uint32_t bytes = size_of(f.c.number) == 8 ? 256 : 128;
  for (uint32_t r = 0; r < f.c.registers; ++r) {
    if (f.kept.plane[r] == f.c.plane[r]) continue;
    std::memcpy(w.planes + f.kept.plane[r], w.planes + f.c.plane[r], bytes);
    for (uint32_t p = 0; p < f.c.parts; ++p)
      if (f.c.errors[r][p] != 0) {
        const RegisterErrors& from = errors_at(w, f.c.errors[r][p]);
        RegisterErrors& to = errors_at(w, f.kept.errors[r][p]);
        to.lanes = from.lanes;
        each_lane(from.lanes, [&](uint32_t l) { to.error[l] = from.error[l]; });
      }
  }
  return &i + 1;
}

const Inst* product(Warp& w, const Inst& i) {
  const auto& f = form_of<ProductForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  static thread_local Scratch x;
  if (f.index[0] == nullptr) return &i + 1;
  gather(w, f.a, f.index[0], x.a);
  gather(w, f.b, f.index[1], x.b);
  gather(w, f.kept, f.index[2], x.c);
  multiply_both(f, x);
  const uint16_t* index = f.index[3];
  const uint32_t size = size_of(f.d.number);
  for (uint32_t r = 0; r < f.d.registers; ++r) {
    for (uint32_t p = 0; p < f.d.parts; ++p, index += kWarpSize) {
      if (f.d.errors[r][p] == 0) continue;
      const shadow::Element e{f.d.plane[r], f.d.errors[r][p], static_cast<uint16_t>(size == 8 ? 8 : 4),
                              static_cast<uint8_t>(p * size), f.d.number};
      alignas(64) double value[32];
      read(w, e, value);
      RegisterErrors& out = errors_at(w, e.errors);
      uint32_t got = 0;
      each_lane(lanes, [&](uint32_t l) {
        got |= uint32_t{account(f, x, index[l] / f.n, index[l] % f.n, l, value[l], out.error[l])} << l;
      });
      out.lanes = (out.lanes & ~lanes) | got;
    }
  }
  return &i + 1;
}

// ---- Fragments and memory ----

// Calls visit(errors, lane, host address of the element's last byte, size) for every element.
template <class Visit>
void each_element(Warp& w, const MatrixForm& f, const Hosts& h, uint32_t lanes, Visit visit) {
  const Fragment& fragment = f.fragment;
  const uint32_t size = size_of(fragment.number);
  if (f.plain) {  // lane l's part p of matrix m: row l / 4, column 2 (l mod 4) + p; rows' addresses by lane
    for (uint32_t m = 0; m < fragment.registers; ++m)
      for (uint32_t p = 0; p < 2; ++p)
        each_lane(lanes, [&](uint32_t l) {
          const uint32_t row = f.transposed ? l % 4 * 2 + p : l / 4,
                         col = f.transposed ? l / 4 : l % 4 * 2 + p;
          const uint32_t giver = m * 8 + row;
          const bool known = (h.lanes >> giver & 1) != 0;
          visit(fragment.errors[m][p], l, known ? h.at[giver] + col * 2 + 1 : 0, size);
        });
    return;
  }
  FragmentForm form = vgpu::ASSAY_BUILD::wmma_fragment(static_cast<Matrix>(f.matrix), f.m, f.n, f.k, f.type);
  for (uint32_t r = 0; r < fragment.registers; ++r)
    for (uint32_t p = 0; p < fragment.parts; ++p)
      each_lane(lanes, [&](uint32_t l) {
        const Element at = vgpu::ASSAY_BUILD::element_of(form, l, r * fragment.parts + p);
        const uint64_t stride = f.has_stride ? w.plane<uint32_t>(f.stride)[l]
                                : f.columns  ? vgpu::ASSAY_BUILD::rows_of(form)
                                             : vgpu::ASSAY_BUILD::cols_of(form);
        const uint64_t index = f.columns ? at.col * stride + at.row : at.row * stride + at.col;
        const bool known = (h.lanes >> l & 1) != 0;
        visit(fragment.errors[r][p], l, known ? h.at[l] + index * size + size - 1 : 0, size);
      });
}

bool find_matrix(Warp& w, const Inst& i, const MatrixForm& f, Hosts& h) {
  const Inst& main = *(&i - f.displacement);
  const auto& m = *static_cast<const MemoryForm*>(main.extra);
  uint32_t givers = w.live;
  if (f.plain && f.fragment.registers < 4) givers &= (1u << f.fragment.registers * 8) - 1;
  if (givers == 0) return false;
  find_hosts(w, f, m, main.a, main.imm, f.plain ? 16 : m.bytes, givers, h);
  return true;
}

const Inst* load_matrix(Warp& w, const Inst& i) {
  const auto& f = form_of<MatrixForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  Hosts h;
  if (lanes == 0 || !find_matrix(w, i, f, h)) return &i + 1;
  for (uint32_t r = 0; r < f.fragment.registers; ++r)
    for (uint32_t p = 0; p < f.fragment.parts; ++p) clear(w, f.fragment.errors[r][p], lanes);
  if (f.plain && !any_cells(*f.cells, h, 16)) return &i + 1;
  each_element(w, f, h, lanes, [&](PlaneOffset errors, uint32_t lane, uintptr_t last, uint32_t) {
    if (errors == 0 || last == 0) return;
    const Error* e = f.cells->find(last);
    if (e == nullptr) return;
    RegisterErrors& out = errors_at(w, errors);
    out.error[lane] = *e;
    out.lanes |= 1u << lane;
  });
  return &i + 1;
}

const Inst* store_matrix(Warp& w, const Inst& i) {
  const auto& f = form_of<MatrixForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  Hosts h;
  if (lanes == 0 || !find_matrix(w, i, f, h)) return &i + 1;
  each_element(w, f, h, lanes, [&](PlaneOffset errors, uint32_t lane, uintptr_t last, uint32_t size) {
    if (last == 0) return;
    const bool has = (lanes_with_errors(w, errors) >> lane & 1) != 0;
    if (has)
      f.cells->put(last, size, static_cast<uint8_t>(f.fragment.number), errors_at(w, errors).error[lane]);
    else
      f.cells->clear(last + 1 - size, size);
  });
  return &i + 1;
}

}  // namespace

void fill_index(ProductForm& f) {
  index_fragment(fragment_form(f, Matrix::A, f.a_type), f.a, f.k, f.index[0]);
  index_fragment(fragment_form(f, Matrix::B, f.b_type), f.b, f.n, f.index[1]);
  index_fragment(fragment_form(f, Matrix::C, f.c_type), f.c, f.n, f.index[2]);
  index_fragment(fragment_form(f, Matrix::C, f.d_type), f.d, f.n, f.index[3]);
}

void fill_matrix(Handlers& h) {
  h.fill_index = fill_index;
  h.keep_product = keep_product, h.product = product;
  h.load_matrix = load_matrix, h.store_matrix = store_matrix;
}

// ---- This build's handlers ----

const Handlers& table() {
  static const Handlers made = [] {
    Handlers h{};
    fill_arithmetic(h);
    fill_moves(h);
    fill_memory(h);
    fill_matrix(h);
    return h;
  }();
  return made;
}

}  // namespace assay::shadow::ASSAY_BUILD
