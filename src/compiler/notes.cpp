// Watched code: loads and stores that one check of bounds has answered for are tested for undefined bytes and reported
// here, as the interpreter's handlers do it. What is not all defined goes to the handler, which finds out what to say.
#include <cstddef>

#include "compiler/emitter.h"
#include "vgpu/access.h"
#include "vgpu/grid.h"
#include "vgpu/warp.h"

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace assay::compiler {

using vgpu::CompiledRuntime;
using vgpu::PendingLoads;
using vgpu::Shape;
using vgpu::ShapedLoad;
using vgpu::SiteRange;
using vgpu::Worker;

namespace {

// Shared bytes that are tested at once; more are left to the handler.
constexpr uint64_t kMostTested = 256;

static_assert(sizeof(ShapedLoad) == 32 && offsetof(ShapedLoad, shape) == offsetof(ShapedLoad, bytes) + 4);

Shape shape_of(const Form& f, uint32_t bytes) {
  if (!f.two && !f.is_flat() && f.step[1] != bytes) return Shape::Other;
  if (f.is_flat()) return f.two ? Shape::HalfUniform : Shape::Uniform;
  return f.two ? Shape::HalfUnit : Shape::Unit;
}

uint32_t bytes_of(const Operation& op) {
  return op.element_bytes * static_cast<uint32_t>(op.to.size() + op.from.size());
}

}  // namespace

void Emitter::require(Value good, BlockRef otherwise) {
  BlockRef goes = ir_.block("good");
  ir_.likely(good, goes, otherwise);
  ir_.at(goes);
}

// Goes on where the bytes are all initialised. Global memory has a bit for each, shared memory a byte.
void Emitter::require_defined(const Operation& op, Value address, uint64_t bytes, BlockRef otherwise) {
  const auto is_full = [&](unsigned bits, Value v, uint64_t mask) {
    return ir_.compare(LLVMIntEQ, ir_.both(v, ir_.constant(bits, mask)), ir_.constant(bits, mask));
  };
  if (op.shared) {
    Value map = ir_.offset(shared_initialised_, address);
    if (bytes <= 8) {
      const auto bits = static_cast<unsigned>(8 * bytes);
      return require(is_full(bits, ir_.load(ir_.integer(bits), map, 1), 0x0101010101010101 >> (64 - bits)),
                     otherwise);
    }
    Value v = ir_.load(ir_.vector(ir_.integer(8), static_cast<unsigned>(bytes)), map, 1);
    Value set = ir_.compare(LLVMIntNE, ir_.both(v, ir_.like(v, 1)), ir_.like(v, 0));
    TypeRef flags = ir_.integer(static_cast<unsigned>(bytes));
    return require(ir_.compare(LLVMIntEQ, ir_.cast(set, flags), LLVMConstAllOnes(flags)), otherwise);
  }
  const uint64_t site = op.site * sizeof(SiteRange);
  Value map = ir_.load(ir_.pointer(), ir_.offset(sites_, site + offsetof(SiteRange, initialised)), 8);
  require(LLVMBuildIsNotNull(ir_.b, map, ""), otherwise);
  Value low = ir_.load(ir_.integer(64), ir_.offset(sites_, site + offsetof(SiteRange, low)), 8);
  Value at = ir_.sub(address, low), bit = ir_.both(at, ir_.constant(64, 7));
  Value place = ir_.offset(map, LLVMBuildLShr(ir_.b, at, ir_.constant(64, 3), ""));
  if (bytes < 8) {
    Value v = ir_.load(ir_.integer(8), place, 1);
    v = LLVMBuildLShr(ir_.b, v, LLVMBuildTrunc(ir_.b, bit, ir_.integer(8), ""), "");
    return require(is_full(8, v, (1u << bytes) - 1), otherwise);
  }
  require(ir_.compare(LLVMIntEQ, bit, ir_.constant(64, 0)), otherwise);
  const auto bits = static_cast<unsigned>(bytes < 64 ? bytes : 64);
  Value all = nullptr;
  for (uint64_t k = 0; k < bytes; k += 64) {
    Value v = ir_.load(ir_.integer(bits), ir_.offset(place, k / 8), 1);
    all = all ? ir_.both(all, v) : v;
  }
  require(ir_.compare(LLVMIntEQ, all, LLVMConstAllOnes(ir_.integer(bits))), otherwise);
}

// The same for lanes that are apart, in shared memory.
void Emitter::require_defined_apart(const Operation& op, const Form& f, Value address, BlockRef otherwise) {
  constexpr unsigned kChains = 4;  // that do not wait for each other
  const unsigned bits = 8 * op.element_bytes;
  Value map = ir_.offset(shared_initialised_, address), chains[kChains] = {};
  for (unsigned l = 0; l < kLanes; ++l) {
    Value& chain = chains[l % kChains];
    Value v = ir_.load(ir_.integer(bits), ir_.offset(map, static_cast<uint64_t>(f.step[l])), 1);
    chain = chain ? ir_.both(chain, v) : v;
  }
  Value all = ir_.both(ir_.both(chains[0], chains[1]), ir_.both(chains[2], chains[3]));
  Value ones = ir_.constant(bits, 0x0101010101010101 >> (64 - bits));
  require(ir_.compare(LLVMIntEQ, ir_.both(all, ones), ones), otherwise);
}

// Adds a load to those that wait for their listeners.
void Emitter::push_load(size_t i, const Form& f, const Place& place) {
  const Operation& op = flow_.operations[i];
  TypeRef p = ir_.pointer(), wide = ir_.integer(64), narrow = ir_.integer(32);
  BlockRef push = ir_.block("push"), full = ir_.block("full"), done = ir_.block("pushed");
  ir_.branch(op.shared ? reports_shared_ : reports_global_, push, done);
  ir_.at(push);
  Value pending =
      ir_.offset(worker_, op.shared ? offsetof(Worker, pending_shared) : offsetof(Worker, pending_global));
  Value count_at = ir_.offset(pending, offsetof(PendingLoads, count));
  Value count = ir_.load(narrow, count_at, 4);
  Value index = LLVMBuildZExt(ir_.b, count, wide, "");
  Value load = ir_.offset(ir_.offset(pending, offsetof(PendingLoads, loads)),
                          LLVMBuildMul(ir_.b, index, ir_.constant(64, sizeof(ShapedLoad)), ""));
  const auto what_of = [&](Shape shape) {
    return ir_.constant(64, bytes_of(op) | static_cast<uint64_t>(shape) << 32);
  };
  Value what = what_of(shape_of(f, bytes_of(op)));
  if (f.two) {  // halves that meet are one run, or one place
    const uint64_t step = f.is_flat() ? 0 : bytes_of(op) * uint64_t{kLanes / 2};
    Value meet = ir_.compare(LLVMIntEQ, ir_.sub(place.second, place.first), ir_.constant(64, step));
    what = ir_.select(meet, what_of(f.is_flat() ? Shape::Uniform : Shape::Unit), what);
  }
  ir_.store(inst_pointer(flow_.ranges[i].first), ir_.offset(load, offsetof(ShapedLoad, inst)), 8);
  ir_.store(place.first, ir_.offset(load, offsetof(ShapedLoad, first)), 8);
  ir_.store(place.second, ir_.offset(load, offsetof(ShapedLoad, second)), 8);
  ir_.store(what, ir_.offset(load, offsetof(ShapedLoad, bytes)), 8);
  Value after = ir_.add(count, ir_.constant(32, 1));
  ir_.store(after, count_at, 4);
  ir_.likely(ir_.compare(LLVMIntNE, after, ir_.constant(32, PendingLoads::kMost)), done, full);
  ir_.at(full);
  TypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(ir_.context), &p, 1, 0);
  Value deliver =
      ir_.load(LLVMPointerType(type, 0), ir_.offset(runtime_, offsetof(CompiledRuntime, deliver)), 8);
  LLVMBuildCall2(ir_.b, type, deliver, &warp_, 1, "");
  ir_.go(done);
  ir_.at(done);
}

void Emitter::note_load(size_t i, const Form& f, const Place& place, BlockRef slow) {
  const Operation& op = flow_.operations[i];
  const Shape shape = shape_of(f, bytes_of(op));
  if (shape == Shape::Other) {
    require_defined_apart(op, f, place.first, slow);
    return push_load(i, f, place);
  }
  const uint64_t one = bytes_of(op), half = f.is_flat() ? one : one * kLanes / 2;
  const uint64_t first = shape == Shape::Unit ? 2 * half : half;
  if (op.shared && first > kMostTested) return ir_.go(slow), ir_.at(ir_.block("never"));
  require_defined(op, place.first, first, slow);
  if (f.two) require_defined(op, place.second, half, slow);
  push_load(i, f, place);
}

void Emitter::note_store(size_t i, const Form& f, const Place& place) {
  const Operation& op = flow_.operations[i];
  const Source& value = op.from[0];
  if (value.kind == Source::Kind::Register && contains(dirty_[i], value.reg)) write_plane(value.reg);
  TypeRef p = ir_.pointer(), wide = ir_.integer(64);
  TypeRef arguments[] = {p, p, wide, wide, ir_.integer(32)};
  TypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(ir_.context), arguments, 5, 0);
  Value note =
      ir_.load(LLVMPointerType(type, 0), ir_.offset(runtime_, offsetof(CompiledRuntime, note_store)), 8);
  Value given[] = {warp_, inst_pointer(flow_.ranges[i].first), place.first, place.second,
                   ir_.constant(32, static_cast<uint64_t>(shape_of(f, bytes_of(op))))};
  LLVMBuildCall2(ir_.b, type, note, given, 5, "");
}

}  // namespace assay::compiler
