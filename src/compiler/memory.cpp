// Loads and stores whose addresses are known up to one or two scalars: one check of bounds and alignment for the warp,
// and one access, or one for each half. Whatever does not fit goes to the handler.
#include <algorithm>
#include <cstddef>

#include "compiler/emitter.h"
#include "vgpu/access.h"
#include "vgpu/warp.h"

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace assay::compiler {

using vgpu::SiteRange;

namespace {

bool steps_by(const Form& f, int64_t bytes) {
  for (unsigned l = 0; l < kLanes; ++l)
    if (f.step[l] != bytes * (f.two ? l % kHalf : l)) return false;
  return true;
}

enum class Pattern : uint8_t { Run, One, Known, None };  // Known: steps that are neither

Pattern pattern_of(const Form& f, const Operation& op, uint32_t bytes) {
  if (!f.is_scalar()) return Pattern::None;
  for (int64_t s : f.step)
    if (s % bytes != 0) return Pattern::None;
  if (f.is_flat()) return Pattern::One;
  if (steps_by(f, bytes)) return Pattern::Run;
  const bool word = op.element_bytes * 8 == op.bits && (op.bits == 32 || op.bits == 64);
  return word && bytes == op.element_bytes && !f.two && f.highest() - f.lowest() < (1 << 20) ? Pattern::Known
                                                                                             : Pattern::None;
}

// Rows of a block 16 wide often start a known distance apart, or at one place: then each half is a run or one place.
Form by_halves(Form f, int64_t bytes) {
  if (!f.is_scalar() || f.two || f.is_flat() || steps_by(f, bytes)) return f;
  const int64_t step = f.step[1] - f.step[0], middle = f.step[kHalf];
  if (step != 0 && step != bytes) return f;
  for (unsigned l = 0; l < kLanes; ++l)
    if (f.step[l] != (l < kHalf ? 0 : middle) + step * (l % kHalf)) return f;
  f.two = true;
  for (unsigned l = kHalf; l < kLanes; ++l) f.step[l] -= middle;
  return f;
}

bool is_evenly_spaced(const Form& f) {
  for (unsigned l = 0; l < kLanes; ++l)
    if (f.step[l] != f.step[1] * l) return false;
  return !f.two;
}

uint32_t bytes_of(const Operation& op) {
  return op.element_bytes * static_cast<uint32_t>(std::max(op.to.size(), op.from.size()));
}

}  // namespace

void Emitter::emit_parameter(const Operation& op) {
  Value v = ir_.load(ir_.integer(op.element_bytes * 8),
                     ir_.offset(parameters_, static_cast<uint64_t>(op.offset)), 1);
  v = widen(op, v);
  const Form& f = forms_[op.to[0]];
  if (!f.is_scalar()) return set(op.to[0], ir_.splat(v));
  set(op.to[0], v, 0);
  if (f.two) set(op.to[0], v, 1);
}

Value Emitter::widen(const Operation& op, Value v) const {
  if (op.element_bytes * 8 == op.bits) return v;
  TypeRef type = Ir::is_vector(v) ? ir_.vector(ir_.integer(op.bits), LLVMGetVectorSize(LLVMTypeOf(v)))
                                  : ir_.integer(op.bits);
  return op.is_signed ? LLVMBuildSExt(ir_.b, v, type, "") : LLVMBuildZExt(ir_.b, v, type, "");
}

Value Emitter::narrow(const Operation& op, Value v) const {
  if (op.element_bytes * 8 == op.bits) return v;
  TypeRef type = ir_.integer(op.element_bytes * 8);
  return LLVMBuildTrunc(ir_.b, v, Ir::is_vector(v) ? ir_.vector(type) : type, "");
}

// Whether `span` bytes from `address` on lie in the block's shared memory, or in what the instruction touched last.
Value Emitter::within(const Operation& op, Value address, uint64_t span, Value& host) {
  Value bytes = ir_.constant(64, span);
  if (op.shared) {
    host = ir_.offset(shared_, address);
    return ir_.both(ir_.compare(LLVMIntULE, address, shared_bytes_),
                    ir_.compare(LLVMIntUGE, ir_.sub(shared_bytes_, address), bytes));
  }
  TypeRef wide = ir_.integer(64);
  const uint64_t site = op.site * sizeof(SiteRange);
  const auto field = [&](size_t at) { return ir_.load(wide, ir_.offset(sites_, site + at), 8); };
  Value low = field(offsetof(SiteRange, low)), high = field(offsetof(SiteRange, high));
  host = LLVMBuildIntToPtr(ir_.b, ir_.add(address, field(offsetof(SiteRange, delta))), ir_.pointer(), "");
  Value inside = ir_.both(ir_.compare(LLVMIntUGE, address, low), ir_.compare(LLVMIntULT, address, high));
  return ir_.both(inside, ir_.compare(LLVMIntUGE, ir_.sub(high, address), bytes));
}

Emitter::Place Emitter::find_place(const Operation& op, const Form& f) {
  const uint32_t bytes = bytes_of(op);
  const auto address = [&](unsigned half) {
    Value v = ir_.add(scalar(op.address, op.address_bits, half),
                      ir_.constant(op.address_bits, static_cast<uint64_t>(op.offset)));
    return op.address_bits == 64 ? v : LLVMBuildZExt(ir_.b, v, ir_.integer(64), "");
  };
  const uint64_t span = static_cast<uint64_t>(f.highest() - f.lowest()) + bytes;
  const auto check = [&](Value at, Value& host) {
    Value lowest = f.lowest() == 0 ? at : ir_.add(at, ir_.constant(64, static_cast<uint64_t>(f.lowest())));
    Value aligned = ir_.compare(LLVMIntEQ, ir_.both(at, ir_.constant(64, bytes - 1)), ir_.constant(64, 0));
    return ir_.both(aligned, within(op, lowest, span, host));
  };
  Place place;
  place.first = address(0);
  place.fits = check(place.first, place.host);
  if (f.two) {
    place.second = address(1);
    place.fits = ir_.both(place.fits, check(place.second, place.host_second));
  } else {
    const int64_t middle = f.step[kHalf];
    place.second =
        middle ? ir_.add(place.first, ir_.constant(64, static_cast<uint64_t>(middle))) : place.first;
  }
  return place;
}

// Most instructions go on by equal steps: in a loop, or from one warp of the block to the next. Rows of a matrix are
// too far apart for the CPU to notice, and a warp does too much between two loads for it to look ahead by itself.
void Emitter::prefetch_next(const Operation& op, const Form& f, const Place& place) {
  constexpr uint64_t kLine = 64, kMostLines = 4;
  const uint64_t bytes = bytes_of(op) * uint64_t{f.two ? kHalf : kLanes};
  Value last_at =
      ir_.offset(ir_.offset(sites_, op.site * sizeof(SiteRange) + offsetof(SiteRange, last)), own_last_);
  Value step = ir_.sub(place.first, ir_.load(ir_.integer(64), last_at, 8));
  ir_.store(place.first, last_at, 8);
  for (Value host : {place.host, place.host_second}) {
    if (!host) continue;
    Value ahead = ir_.offset(host, step);
    for (uint64_t at = 0; at < bytes && at < kMostLines * kLine; at += kLine)
      ir_.intrinsic("llvm.prefetch", {ir_.pointer()},
                    {ir_.offset(ahead, at), ir_.constant(32, 0), ir_.constant(32, 3), ir_.constant(32, 1)});
  }
}

void Emitter::load_scalars(const Operation& op, const Form& f, const Place& place) {
  for (size_t e = 0; e < op.to.size(); ++e) {
    TypeRef type = ir_.integer(op.element_bytes * 8);
    Value first = widen(op, ir_.load(type, ir_.offset(place.host, e * op.element_bytes), op.element_bytes));
    Value second =
        f.two
            ? widen(op, ir_.load(type, ir_.offset(place.host_second, e * op.element_bytes), op.element_bytes))
            : nullptr;
    const uint32_t to = op.to[e];
    if (!forms_[to].is_scalar()) {
      set(to, spread(first, second, Form{}, op.bits));
      continue;
    }
    set(to, first, 0);
    if (forms_[to].two) set(to, second ? second : first, 1);
  }
}

// One element a lane, a known distance apart. Without AVX-512, LLVM would take the vector of addresses apart again.
Value Emitter::load_apart(const Operation& op, const Form& f, const Place& place) {
  TypeRef element = ir_.integer(op.element_bytes * 8), vector = ir_.vector(element);
  const auto distance = [&](unsigned lane) { return static_cast<uint64_t>(f.step[lane] - f.lowest()); };
  if (!request_.avx512) {
    Value v = LLVMGetUndef(vector);
    for (unsigned l = 0; l < kLanes; ++l) {
      Value one = ir_.load(element, ir_.offset(place.host, distance(l)), op.element_bytes);
      v = LLVMBuildInsertElement(ir_.b, v, one, ir_.constant(32, l), "");
    }
    return v;
  }
  std::vector<Value> offsets, all(kLanes, ir_.constant(1, 1)), none(kLanes, LLVMGetUndef(element));
  for (unsigned l = 0; l < kLanes; ++l) offsets.push_back(ir_.constant(32, distance(l)));
  Value index = LLVMConstVector(offsets.data(), kLanes);
  Value at = LLVMBuildGEP2(ir_.b, ir_.integer(8), place.host, &index, 1, "");
  TypeRef pointers = ir_.vector(LLVMPointerType(element, 0));
  return ir_.intrinsic("llvm.masked.gather", {vector, pointers},
                       {ir_.cast(at, pointers), ir_.constant(32, op.element_bytes),
                        LLVMConstVector(all.data(), kLanes), LLVMConstVector(none.data(), kLanes)});
}

void Emitter::load_vectors(const Operation& op, const Form& f, const Place& place) {
  TypeRef element = ir_.integer(op.element_bytes * 8);
  const auto count = static_cast<unsigned>(op.to.size());
  if (!steps_by(f, bytes_of(op))) return set(op.to[0], load_apart(op, f, place));
  const unsigned lanes_of_load = (f.two ? kHalf : kLanes) * count;
  TypeRef type = ir_.vector(element, lanes_of_load);
  Value first = ir_.load(type, place.host, op.element_bytes);
  Value second = f.two ? ir_.load(type, place.host_second, op.element_bytes) : LLVMGetUndef(type);
  for (unsigned e = 0; e < count; ++e) {
    std::vector<unsigned> order;
    for (unsigned l = 0; l < kLanes; ++l) order.push_back(l * count + e);
    Value v = count == 1 && !f.two ? first : ir_.shuffle(first, second, order);
    set(op.to[e], widen(op, v));
  }
}

void Emitter::store_vectors(const Operation& op, const Form& f, const Place& place) {
  const auto count = static_cast<unsigned>(op.from.size());
  std::vector<Value> values;
  for (const Source& s : op.from) values.push_back(narrow(op, exact(lanes(s, op.bits), s, op.bits)));
  if (f.is_flat()) {  // the last lane wins
    for (unsigned half = 0; half <= (f.two ? 1u : 0u); ++half)
      for (unsigned e = 0; e < count; ++e) {
        const unsigned lane = f.two && half == 0 ? kHalf - 1 : kLanes - 1;
        Value v = LLVMBuildExtractElement(ir_.b, values[e], ir_.constant(32, lane), "");
        ir_.store(v, ir_.offset(half ? place.host_second : place.host, e * op.element_bytes),
                  op.element_bytes);
      }
    return;
  }
  if (!steps_by(f, bytes_of(op))) {
    for (unsigned l = 0; l < kLanes; ++l) {
      Value v = LLVMBuildExtractElement(ir_.b, values[0], ir_.constant(32, l), "");
      ir_.store(v, ir_.offset(place.host, static_cast<uint64_t>(f.step[l] - f.lowest())), op.element_bytes);
    }
    return;
  }
  // Lane by lane, element by element.
  Value all = values[0];
  const auto interleave = [&](Value x, Value y, unsigned run) {
    std::vector<unsigned> order;
    const unsigned total = LLVMGetVectorSize(LLVMTypeOf(x));
    for (unsigned k = 0; k < total; k += run) {
      for (unsigned r = 0; r < run; ++r) order.push_back(k + r);
      for (unsigned r = 0; r < run; ++r) order.push_back(total + k + r);
    }
    return ir_.shuffle(x, y, order);
  };
  if (count == 2) all = interleave(values[0], values[1], 1);
  if (count == 4)
    all = interleave(interleave(values[0], values[1], 1), interleave(values[2], values[3], 1), 2);
  if (!f.two) return ir_.store(all, place.host, op.element_bytes);
  const unsigned half = kHalf * count;
  std::vector<unsigned> low, high;
  for (unsigned k = 0; k < half; ++k) low.push_back(k), high.push_back(half + k);
  ir_.store(ir_.shuffle(all, LLVMGetUndef(LLVMTypeOf(all)), low), place.host, op.element_bytes);
  ir_.store(ir_.shuffle(all, LLVMGetUndef(LLVMTypeOf(all)), high), place.host_second, op.element_bytes);
}

void Emitter::emit_access(size_t i) {
  const Operation& op = flow_.operations[i];
  const Form f = by_halves(form(op.address), bytes_of(op));
  const Pattern pattern = pattern_of(f, op, bytes_of(op));
  // A watched store is reported by lane unless it is a run; a watched load may be a column of a tile.
  const bool column = pattern == Pattern::Known && op.shared && is_evenly_spaced(f);
  const bool plain =
      pattern == Pattern::Run || (op.code == Code::Load && (pattern == Pattern::One || column));
  if (pattern == Pattern::None || (request_.watched && !plain)) return emit_call(i, false);
  BlockRef fast = ir_.block("fast"), slow = ir_.block("slow"), done = ir_.block("done");
  const Place place = find_place(op, f);
  ir_.likely(place.fits, fast, slow);
  ir_.at(fast);
  if (request_.watched && op.code == Code::Store)
    note_store(i, f, place);
  else if (request_.watched)
    note_load(i, f, place, slow);
  if (!op.shared && pattern == Pattern::Run) prefetch_next(op, f, place);
  if (op.code == Code::Store)
    store_vectors(op, f, place);
  else if (pattern == Pattern::One)
    load_scalars(op, f, place);
  else
    load_vectors(op, f, place);
  ir_.go(done);
  ir_.at(slow);
  emit_call(i, false);
  ir_.go(done);
  ir_.at(done);
}

}  // namespace assay::compiler
