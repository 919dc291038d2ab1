// Errors between registers and memory: loads, stores, atomics, asynchronous copies.
#include "shadow/lanes/hosts.h"
#include "vgpu/async.h"

namespace assay::shadow::ASSAY_BUILD {

namespace {

const Inst* load(Warp& w, const Inst& i) {
  const auto& f = form_of<AccessForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0 || f.cells == nullptr) return &i + 1;
  if (f.cells->none()) {
    for (uint32_t k = 0; k < f.count; ++k) clear(w, f.elements[k].errors, lanes);
    return &i + 1;
  }
  const Inst& main = (&i)[f.displacement];
  const auto& m = *static_cast<const MemoryForm*>(main.extra);
  Hosts h;
  find_hosts<true>(w, f, m, main.a, main.imm, m.bytes, lanes, h);
  if (!any_cells(*f.cells, h, m.bytes)) {
    for (uint32_t k = 0; k < f.count; ++k) clear(w, f.elements[k].errors, lanes);
    return &i + 1;
  }
  // A destination may hold the addresses, but not their errors.
  for (uint32_t k = 0; k < f.count; ++k) {
    RegisterErrors& out = errors_at(w, f.elements[k].errors);
    uint32_t got = 0;
    each_lane(h.lanes, [&](uint32_t l) {
      const Error* e = f.cells->find(h.at[l] + f.elements[k].last);
      if (e == nullptr) return;
      out.error[l] = *e;
      got |= 1u << l;
    });
    out.lanes = (out.lanes & ~lanes) | got;
  }
  return &i + 1;
}

const Inst* store(Warp& w, const Inst& i) {
  const auto& f = form_of<AccessForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr || lanes == 0 || f.cells == nullptr) return next;
  uint32_t has = 0;
  for (uint32_t k = 0; k < f.count; ++k) has |= lanes_with_errors(w, f.elements[k].errors);
  if ((has & lanes) == 0 && f.cells->none()) return next;
  const Inst& main = (&i)[f.displacement];
  const auto& m = *static_cast<const MemoryForm*>(main.extra);
  Hosts h;
  find_hosts(w, f, m, main.a, main.imm, m.bytes, lanes, h);
  // What is overwritten whole needs no clearing first.
  const uint32_t whole = f.count == 1 && f.elements[0].size == m.bytes ? has : 0;
  if (any_cells(*f.cells, h, m.bytes))
    each_lane(h.lanes & ~whole, [&](uint32_t l) { f.cells->clear(h.at[l], m.bytes); });
  if ((has & lanes) == 0) return next;
  each_lane(h.lanes & has, [&](uint32_t l) {
    for (uint32_t k = 0; k < f.count; ++k) {
      const RegisterErrors& e = errors_at(w, f.elements[k].errors);
      if (e.lanes >> l & 1)
        f.cells->put(h.at[l] + f.elements[k].last, f.elements[k].size, f.elements[k].number, e.error[l]);
    }
  });
  return next;
}

// ---- Atomics: lane by lane, in order, as the engine does them ----

double rounded(Number number, bool flushes, double x) {
  switch (number) {
    case Number::F32: {
      const auto f = static_cast<float>(x);
      return static_cast<double>(flushes ? numerics::flush(f) : f);
    }
    case Number::F16:
      return static_cast<double>(numerics::f16_to_f32(numerics::f32_to_f16_rn(static_cast<float>(x))));
    case Number::BF16:
      return static_cast<double>(numerics::bf16_to_f32(numerics::f32_to_bf16_rn(static_cast<float>(x))));
    default:
      return x;
  }
}

void add_one(const AtomicForm& f, uint32_t lane, double old, double operand, double made, Error& e,
             bool& has) {
  Site& s = *f.site;
  const double exact = old + operand, introduced = made - exact;
  ++s.executions;
  if (exact != 0) {
    const double relative = std::fabs(introduced / exact);
    s.introduced2[lane] += relative * relative;
    s.introduced_max[lane] = relative > s.introduced_max[lane] ? relative : s.introduced_max[lane];
  }
  s.stagnated[lane] += made == old && operand != 0 && introduced != 0 ? 1 : 0;
  if (!std::isfinite(made)) {
    if (std::isfinite(exact)) {
      ++s.overflowed;
      write_broken(e, slot_of(s), exact);
      has = true;
    }
    return;
  }
  if (introduced == 0) return;
  const float whole = (has ? e.slot[kWhole] : 0) + static_cast<float>(introduced);
  if (!has) std::memset(&e, 0, sizeof e);
  e.slot[slot_of(s)] += static_cast<float>(introduced);
  e.slot[kWhole] = whole;
  has = whole != 0;
}

void add_lane(Warp& w, const AtomicForm& f, uintptr_t at, uint32_t lane, const double* operand,
              double* current, uint32_t part) {
  const uint32_t size = size_of(f.operand[part].number);
  const uintptr_t last = at + part * size + size - 1;
  Error e{};
  bool has = false;
  if (const Error* old = f.cells->find(last)) {
    e = *old;
    settle(e);
    has = true;
  }
  if (f.old_errors[part] != 0) {
    RegisterErrors& out = errors_at(w, f.old_errors[part]);
    out.lanes = has ? out.lanes | 1u << lane : out.lanes & ~(1u << lane);
    if (has) out.error[lane] = e;
  }
  const bool brings = (lanes_with_errors(w, f.operand[part].errors) >> lane & 1) != 0;
  if (brings && !is_broken(e)) {
    Error more = errors_at(w, f.operand[part].errors).error[lane];
    settle(more);
    if (is_broken(more))
      e = more;
    else
      for (uint32_t s = 0; s < kSlots; ++s) e.slot[s] += more.slot[s];
    has = true;
  }
  const double made = rounded(f.operand[part].number, f.flushes, *current + operand[lane]);
  add_one(f, lane, *current, operand[lane], made, e, has);
  *current = made;
  // The account belongs to the bits that memory will hold in the end; a later lane takes it on.
  if (has)
    f.cells->put(last, size, static_cast<uint8_t>(f.operand[part].number), e);
  else
    f.cells->clear(at + part * size, size);
}

const Inst* add_atomically(Warp& w, const Inst& i, const AtomicForm& f, uint32_t lanes) {
  const Inst& main = (&i)[f.displacement];
  const auto& m = *static_cast<const MemoryForm*>(main.extra);
  Hosts h;
  find_hosts(w, f, m, main.a, main.imm, m.bytes, lanes, h);
  alignas(64) double operand[8][32];
  double current[8][32];
  const uint32_t size = size_of(f.operand[0].number);
  for (uint32_t p = 0; p < f.parts; ++p) {
    read(w, f.operand[p], operand[p]);
    each_lane(h.lanes, [&](uint32_t l) {
      current[p][l] = value_at(f.operand[p].number, reinterpret_cast<const std::byte*>(h.at[l] + p * size));
    });
  }
  // What memory carries is only valid for the bits of now: look before they change.
  struct Held {
    Error error;
    bool has;
  };
  static thread_local Held held[8][kWarpSize];
  for (uint32_t p = 0; p < f.parts; ++p)
    each_lane(h.lanes, [&](uint32_t l) {
      const Error* e = f.cells->find(h.at[l] + p * size + size - 1);
      held[p][l].has = e != nullptr;
      if (e != nullptr) held[p][l].error = *e;
    });
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr) return next;
  for (uint32_t p = 0; p < f.parts; ++p) {
    uint32_t done = 0;
    for (uint32_t rest = h.lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<uint32_t>(__builtin_ctz(rest));
      // An earlier lane at the same place hands its value and its account on.
      int32_t before = -1;
      if (done != 0)
        each_lane(done, [&](uint32_t o) { before = h.at[o] == h.at[l] ? static_cast<int32_t>(o) : before; });
      if (before >= 0) {
        current[p][l] = current[p][before];
      } else if (held[p][l].has) {
        f.cells->put(h.at[l] + p * size + size - 1, size, static_cast<uint8_t>(f.operand[p].number),
                     held[p][l].error);
      } else {
        f.cells->clear(h.at[l] + p * size, size);
      }
      add_lane(w, f, h.at[l], l, operand[p], &current[p][l], p);
      done |= 1u << l;
    }
  }
  return next;
}

// exch and cas: the operand takes the place of what was there, where it was taken.
const Inst* swap(Warp& w, const Inst& i, const AtomicForm& f, uint32_t lanes) {
  const Inst& main = (&i)[f.displacement];
  const auto& m = *static_cast<const MemoryForm*>(main.extra);
  Hosts h;
  find_hosts(w, f, m, main.a, main.imm, m.bytes, lanes, h);
  for (uint32_t k = 0; k < f.count; ++k) {  // the old value's errors, unless lanes meet at one place
    if (f.old_errors[k] == 0) continue;
    RegisterErrors& out = errors_at(w, f.old_errors[k]);
    out.lanes &= ~lanes;
    each_lane(h.lanes, [&](uint32_t l) {
      const Error* e = f.cells->find(h.at[l] + f.elements[k].last);
      if (e == nullptr) return;
      out.error[l] = *e;
      out.lanes |= 1u << l;
    });
  }
  alignas(64) uint64_t compared[32] = {};
  if (f.kind == AtomicKind::Swap)
    for (uint32_t l = 0; l < kWarpSize; ++l)
      std::memcpy(&compared[l], w.planes + f.compared.plane + l * f.compared.lane_bytes, f.part_bytes);
  const Inst* next = run_main(w, i, f.insts);
  if (next == nullptr) return next;
  each_lane(h.lanes, [&](uint32_t l) {
    if (f.kind == AtomicKind::Swap) {
      uint64_t old = 0;
      if (f.old_plane == 0) return;
      std::memcpy(&old, w.planes + f.old_plane + l * f.compared.lane_bytes, f.part_bytes);
      if (old != compared[l]) return;
    }
    f.cells->clear(h.at[l], m.bytes);
    for (uint32_t k = 0; k < f.count; ++k)
      if (lanes_with_errors(w, f.elements[k].errors) >> l & 1)
        f.cells->put(h.at[l] + f.elements[k].last, f.elements[k].size, f.elements[k].number,
                     errors_at(w, f.elements[k].errors).error[l]);
  });
  return next;
}

const Inst* atomic(Warp& w, const Inst& i) {
  const auto& f = form_of<AtomicForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0 || f.cells == nullptr) return run_main(w, i, f.insts);
  return f.kind == AtomicKind::Add ? add_atomically(w, i, f, lanes) : swap(w, i, f, lanes);
}

// Copies that take effect later bring the accounts now: they hold for the bits to come.
const Inst* async_copy(Warp& w, const Inst& i) {
  const auto& f = form_of<AccessForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0 || f.cells == nullptr) return &i + 1;
  const auto& copy = *static_cast<const vgpu::CopyForm*>((&i)[f.displacement].extra);
  Hosts to, from;
  find_hosts(w, f, copy.to.form, copy.to.at.a, copy.to.at.imm, copy.to.form.bytes, lanes, to);
  find_hosts(w, f, copy.from.form, copy.from.at.a, copy.from.at.imm, copy.from.form.bytes, lanes, from);
  const uint32_t bytes = copy.from.form.bytes;
  if (!any_cells(*f.cells, from, bytes) && !any_cells(*f.cells, to, bytes)) return &i + 1;
  each_lane(to.lanes & from.lanes, [&](uint32_t l) { f.cells->copy(to.at[l], from.at[l], bytes); });
  return &i + 1;
}

// Bulk copies likewise; each lane says how much.
const Inst* bulk_copy(Warp& w, const Inst& i) {
  const auto& f = form_of<AccessForm>(i);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0 || f.cells == nullptr || f.cells->none()) return &i + 1;
  const auto& copy = *static_cast<const vgpu::CopyForm*>((&i)[f.displacement].extra);
  if (copy.has_byte_mask || copy.multicast || copy.reduce != nullptr) {
    f.site->forgotten += static_cast<uint64_t>(__builtin_popcount(lanes));
    return &i + 1;
  }
  each_lane(lanes, [&](uint32_t l) {
    const uint32_t bytes = w.plane<uint32_t>(copy.size)[l];
    if (bytes == 0) return;
    Hosts to, from;
    find_hosts(w, f, copy.to.form, copy.to.at.a, copy.to.at.imm, bytes, 1u << l, to);
    find_hosts(w, f, copy.from.form, copy.from.at.a, copy.from.at.imm, bytes, 1u << l, from);
    if ((to.lanes & from.lanes) != 0) f.cells->copy(to.at[l], from.at[l], bytes);
  });
  return &i + 1;
}

// Whatever memory carries may be lost here.
const Inst* unseen(Warp& w, const Inst& i) {
  const auto& f = form_of<AccessForm>(i);
  if (f.cells != nullptr && !f.cells->none())
    f.site->forgotten += static_cast<uint64_t>(__builtin_popcount(w.lanes_of(i)));
  return &i + 1;
}

}  // namespace

void fill_memory(Handlers& h) {
  h.load = load, h.store = store, h.atomic = atomic;
  h.async_copy = async_copy, h.bulk_copy = bulk_copy, h.unseen = unseen;
}

}  // namespace assay::shadow::ASSAY_BUILD
