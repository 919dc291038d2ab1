// Elements of tensors and of definitions, as batches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/evaluation.h"

namespace assay::reference {
namespace {

template <class Stored, class Value, class Convert>
void gather(const std::byte* data, const int64_t* at, bool uniform, bool contiguous, int n, Value* to,
            Convert convert) {
  const auto* from = reinterpret_cast<const Stored*>(data);
  if (uniform) {
    std::fill_n(to, n, convert(from[at[0]]));
  } else if (contiguous) {
    const Stored* first = from + at[0];
    for (int l = 0; l < n; ++l) to[l] = convert(first[l]);
  } else {
    for (int l = 0; l < n; ++l) to[l] = convert(from[at[l]]);
  }
}

template <class Stored>
void gather_integers(const std::byte* data, const int64_t* at, bool uniform, bool contiguous, int n,
                     int64_t* to) {
  gather<Stored>(data, at, uniform, contiguous, n, to, [](Stored x) { return static_cast<int64_t>(x); });
}

}  // namespace

Lanes Evaluator::load(Batch& batch, int node_id, const Node& node) {
  const Source& source = evaluation_.compiled.sources[static_cast<std::size_t>(node.ref)];
  Offsets offset;
  if (evaluation_.failed() || !offsets(batch, node_id, node, offset)) {
    const Arithmetic& math = batch.values_only ? plain_ : budget_;
    return node.type == Type::Float ? math.real(0, batch.n) : math.integer(0, batch.n);
  }
  Lanes r = source.is_input ? load_input(batch, source, offset)
                            : load_definition(batch, node_id, node, source.definition, offset);
  if (offset.uncertain && !batch.values_only) {
    // Another element might be meant: nothing is known of the value.
    budget_.need_budget(r, batch.n);
    budget_.need_flags(r, batch.n);
    for (int l = 0; l < batch.n; ++l)
      if (offset.uncertain[l]) {
        r.b[l] = kInf;
        if (r.s) r.s[l] = kInf;
        r.f[l] |= kUndecided;
      }
  }
  return r;
}

void Evaluator::out_of_range(const Batch& batch, const Node& node, std::size_t subscript, int64_t value,
                             int lane) {
  const Definition& made = definition(batch.definition);
  std::string where;
  for (std::size_t v = 0; v < made.variables.size(); ++v) {
    const int64_t index = batch.index[v] ? batch.index[v][lane] : batch.uniform[v];
    if ((node.indices >> v & 1) != 0)
      where += fmt::format("{}{} = {}", where.empty() ? " at " : ", ", made.variables[v].name, index);
  }
  const int64_t extent = evaluation_.shaped.extents(evaluation_.compiled, node.ref)[subscript];
  evaluation_.fail(node.place, fmt::format("{} is out of range{}: {}; guard it with `if`", node.text, where,
                                           out_of_range_text(subscript, value, extent)));
}

bool Evaluator::offsets(Batch& batch, int node_id, const Node& node, Offsets& result) {
  const Definition& made = definition(batch.definition);
  const Source& source = evaluation_.compiled.sources[static_cast<std::size_t>(node.ref)];
  const std::vector<int64_t>& extents = evaluation_.shaped.extents(evaluation_.compiled, node.ref);
  const std::vector<int64_t>& strides =
      source.is_input ? evaluation_.shaped.tensor_strides[static_cast<std::size_t>(source.tensor)]
                      : shaped(source.definition).strides;
  const auto origin = [&](std::size_t c) {
    return source.is_input ? 0 : shaped(source.definition).origin[c];
  };
  const int n = batch.n;
  std::unique_ptr<LoadCache>& slot =
      caches_[static_cast<std::size_t>(batch.definition)][static_cast<std::size_t>(node_id)];
  if (!slot) slot = std::make_unique<LoadCache>();
  LoadCache& cache = *slot;

  // What is the same for all lanes, and whether anything is computed.
  int64_t constant = 0;
  bool computed = false;
  for (std::size_t c = 0; c < node.subscripts.size(); ++c) {
    const Node& subscript = made.nodes[static_cast<std::size_t>(node.subscripts[c])];
    int64_t value = 0;
    if (subscript.op == Op::Index) {
      if (batch.index[subscript.ref]) continue;
      value = batch.uniform[subscript.ref];
    } else if (subscript.op == Op::Integer) {
      value = subscript.integer;
    } else {
      computed = true;
      continue;
    }
    value -= origin(c);
    if (value < 0 || value >= extents[c]) return out_of_range(batch, node, c, value, 0), false;
    constant += value * strides[c];
  }

  // What varies by plain indices stays the same while loops go on around the batch.
  if (cache.batch != batch.id) {
    cache.batch = batch.id;
    cache.uniform = true;
    std::fill_n(cache.base, n, int64_t{0});
    for (std::size_t c = 0; c < node.subscripts.size(); ++c) {
      const Node& subscript = made.nodes[static_cast<std::size_t>(node.subscripts[c])];
      if (subscript.op != Op::Index || !batch.index[subscript.ref]) continue;
      cache.uniform = false;
      for (int l = 0; l < n; ++l) {
        const int64_t value = batch.index[subscript.ref][l] - origin(c);
        if (value < 0 || value >= extents[c]) {
          cache.batch = 0;
          return out_of_range(batch, node, c, value, l), false;
        }
        cache.base[l] += value * strides[c];
      }
    }
    cache.contiguous = true;
    for (int l = 1; l < n; ++l) cache.contiguous &= cache.base[l] == cache.base[0] + l;
  }

  result.uniform = cache.uniform && !computed;
  result.contiguous = cache.contiguous && !computed && !result.uniform;
  result.at = arena_.get<int64_t>(n);
  if (source.is_input && (result.uniform || result.contiguous)) {
    result.at[0] = cache.base[0] + constant;  // the rest follows from it
    return true;
  }
  for (int l = 0; l < n; ++l) result.at[l] = cache.base[l] + constant;
  if (!computed) return true;
  for (std::size_t c = 0; c < node.subscripts.size(); ++c) {
    const Node& subscript = made.nodes[static_cast<std::size_t>(node.subscripts[c])];
    if (subscript.op == Op::Index || subscript.op == Op::Integer) continue;
    const Lanes values = eval(batch, node.subscripts[c]);
    if (evaluation_.failed()) return false;
    for (int l = 0; l < n; ++l) {
      int64_t value = values.i[l] - origin(c);
      const bool is_outside = value < 0 || value >= extents[c];
      // Of an index that could be another nothing is known. It may be outside because what guards it is as open.
      const bool is_open = values.b && values.b[l] > 0;
      if (is_outside && (!is_open || extents[c] == 0)) return out_of_range(batch, node, c, value, l), false;
      if (is_outside) value = std::clamp<int64_t>(value, 0, extents[c] - 1);
      result.at[l] += value * strides[c];
    }
    if (!values.b) continue;
    if (!result.uncertain) {
      result.uncertain = arena_.get<bool>(n);
      std::fill_n(result.uncertain, n, false);
    }
    for (int l = 0; l < n; ++l) result.uncertain[l] |= values.b[l] > 0;
  }
  result.contiguous = true;
  for (int l = 1; l < n; ++l) result.contiguous &= result.at[l] == result.at[0] + l;
  return true;
}

void Evaluator::announce_reads(const Batch& batch, const Source& source, const Offsets& offset) {
  const int n = offset.uniform ? 1 : batch.n;
  if (offset.contiguous)  // then only the first is there
    for (int l = 1; l < n; ++l) offset.at[l] = offset.at[0] + l;
  const std::string& name = evaluation_.contract.tensors[static_cast<std::size_t>(source.tensor)].name;
  if (!evaluation_.options.on_read(name, {offset.at, static_cast<std::size_t>(n)}))
    evaluation_.fail({}, fmt::format("more elements of `{}` are needed than can be generated", name));
}

Lanes Evaluator::load_input(const Batch& batch, const Source& source, const Offsets& offset) {
  const Tensor& tensor = *evaluation_.tensors[static_cast<std::size_t>(source.tensor)];
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const int n = batch.n;
  const std::byte* data = tensor.bytes.data();
  const int64_t* at = offset.at;
  const bool same = offset.uniform, row = offset.contiguous;
  if (evaluation_.options.on_read) announce_reads(batch, source, offset);
  if (evaluation_.absent[static_cast<std::size_t>(source.tensor)]) {
    const TensorSpec& spec = evaluation_.contract.tensors[static_cast<std::size_t>(source.tensor)];
    evaluation_.fail(spec.place, fmt::format("the formula reads `{0}` where it is absent; write "
                                             "`if present({0}) then ... else ...`",
                                             spec.name));
  }
  Lanes r;
  if (is_float(tensor.dtype))
    r.v = arena_.get<double>(n);
  else
    r.i = arena_.get<int64_t>(n);
  switch (tensor.dtype) {
    case DType::f64:
      gather<double>(data, at, same, row, n, r.v, [](double x) { return x; });
      break;
    case DType::f32:
      gather<float>(data, at, same, row, n, r.v, [](float x) { return static_cast<double>(x); });
      break;
    case DType::f16:
      gather<uint16_t>(data, at, same, row, n, r.v,
                       [](uint16_t x) { return double{numerics::f16_to_f32(x)}; });
      break;
    case DType::bf16:
      gather<uint16_t>(data, at, same, row, n, r.v,
                       [](uint16_t x) { return double{numerics::bf16_to_f32(x)}; });
      break;
    case DType::e4m3:
      gather<uint8_t>(data, at, same, row, n, r.v,
                      [](uint8_t x) { return double{numerics::e4m3_to_f32(x)}; });
      break;
    case DType::e5m2:
      gather<uint8_t>(data, at, same, row, n, r.v,
                      [](uint8_t x) { return double{numerics::e5m2_to_f32(x)}; });
      break;
    case DType::e2m1:
    case DType::e3m2:
    case DType::e2m3:
    case DType::e8m0: {
      const numerics::Format format = info(tensor.dtype).format;
      gather<uint8_t>(data, at, same, row, n, r.v,
                      [format](uint8_t x) { return numerics::to_double(format, x); });
      break;
    }
    case DType::tf32:
      gather<uint32_t>(data, at, same, row, n, r.v,
                       [](uint32_t x) { return double{contract::tf32_value(x)}; });
      break;
    case DType::i4:
    case DType::i8:
      gather_integers<int8_t>(data, at, same, row, n, r.i);
      break;
    case DType::u4:
    case DType::u8:
      gather_integers<uint8_t>(data, at, same, row, n, r.i);
      break;
    case DType::i16:
      gather_integers<int16_t>(data, at, same, row, n, r.i);
      break;
    case DType::i32:
      gather_integers<int32_t>(data, at, same, row, n, r.i);
      break;
    case DType::u32:
      gather_integers<uint32_t>(data, at, same, row, n, r.i);
      break;
    case DType::i64:
    case DType::u64:
      gather_integers<int64_t>(data, at, same, row, n, r.i);
      break;
    case DType::boolean:
      gather<uint8_t>(data, at, same, row, n, r.i, [](uint8_t x) { return int64_t{x != 0}; });
      break;
  }
  if (tensor.dtype == DType::u64)
    for (int l = 0; l < n; ++l)
      if (r.i[l] < 0)
        evaluation_.fail({},
                         "a u64 input holds a value above 2^63 - 1, which the reference cannot represent");
  if (!r.v) return r;
  r.bits = numerics::info(info(tensor.dtype).format).precision();
  math.flag_nonfinite(r, n);
  math.narrow(r, n);
  return r;
}

void Evaluator::demand(int definition_id, const int64_t* elements, int n) {
  Memo& memo = evaluation_.memo(definition_id);
  int64_t* missing = nullptr;
  int count = 0;
  int64_t last = -1;
  for (int l = 0; l < n; ++l) {
    if (elements[l] == last || memo.has(elements[l])) continue;
    if (!missing) missing = arena_.get<int64_t>(n);
    last = elements[l];
    missing[count++] = last;
  }
  if (count == 0) return;
  std::sort(missing, missing + count);
  count = static_cast<int>(std::unique(missing, missing + count) - missing);
  const Elements out{arena_.get<double>(count), arena_.get<double>(count), arena_.get<double>(count),
                     arena_.get<double>(count), arena_.get<double>(count), arena_.get<uint8_t>(count)};
  compute(definition_id, missing, count, out);
  if (!evaluation_.failed()) memo.put(missing, count, out);
}

Lanes Evaluator::load_definition(Batch& batch, int node_id, const Node& node, int definition_id,
                                 const Offsets& offset) {
  const int n = batch.n;
  Lanes r;
  if (evaluation_.simulated && evaluation_.simulated->no_max_subtraction &&
      evaluation_.is_max_under_exp(definition_id))
    return plain_.real(0, n);
  demand(definition_id, offset.at, offset.uniform ? 1 : n);
  if (evaluation_.failed()) return node.type == Type::Float ? plain_.real(0, n) : plain_.integer(0, n);
  r.v = arena_.get<double>(n);
  r.b = arena_.get<double>(n);
  r.s = arena_.get<double>(n);
  r.f = arena_.get<uint8_t>(n);
  const Memo& memo = evaluation_.memo(definition_id);
  double most = 0;
  uint8_t flags = 0;
  const int distinct = offset.uniform ? 1 : n;
  for (int l = 0; l < distinct; ++l) {
    const Page& page = *memo.find(offset.at[l]);
    const int at = static_cast<int>(offset.at[l] % Page::kCount);
    r.v[l] = page.v[at];
    r.b[l] = page.b[at];
    r.s[l] = page.s[at];
    r.f[l] = page.f[at];
    most = std::max(most, page.b[at]);
    flags |= page.f[at];
    const auto terms = static_cast<double>(page.terms[at]);
    for (int to = l; batch.terms && to < (offset.uniform ? n : l + 1); ++to)
      batch.terms[to] = std::max(batch.terms[to], terms);
  }
  if (offset.uniform) {
    std::fill_n(r.v, n, r.v[0]);
    std::fill_n(r.b, n, r.b[0]);
    std::fill_n(r.s, n, r.s[0]);
    std::fill_n(r.f, n, r.f[0]);
  }
  if (flags == 0) r.f = nullptr;
  const Shift shift = shifts_[static_cast<std::size_t>(batch.definition)][static_cast<std::size_t>(node_id)];
  if (shift == Shift::Exact && most > 0)
    suppressed_[static_cast<std::size_t>(batch.definition)][static_cast<std::size_t>(node_id)] = 1;
  if (shift == Shift::Up || shift == Shift::Down)
    for (int l = 0; l < n; ++l) r.v[l] += shift == Shift::Up ? r.b[l] : -r.b[l];
  if (shift == Shift::Deviation)
    for (int l = 0; l < n; ++l) r.v[l] += std::sqrt(r.s[l]);
  if (most == 0 || batch.values_only || shift != Shift::None) r.b = r.s = nullptr;
  if (node.type != Type::Float) {
    r.i = arena_.get<int64_t>(n);
    for (int l = 0; l < n; ++l) r.i[l] = std::bit_cast<int64_t>(r.v[l]);
    r.v = r.s = nullptr;
  }
  return r;
}

}  // namespace assay::reference
