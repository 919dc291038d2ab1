#include "prove/tensor_memory.h"

#include <algorithm>

namespace assay::prove {

namespace {

constexpr int kByte = 8;

struct ParsedAxis {
  ExprPtr extent, stride;  // in elements
};

ExprPtr product_of(const std::vector<ParsedAxis>& axes) {
  ExprPtr product = Expr::literal(1);
  for (const ParsedAxis& axis : axes) product = Expr::make(Expr::Op::Mul, product, axis.extent);
  return product;
}

// The axes, the outermost first: the others' strides are smaller where strides are products of dims. That is an order to
// look for an element in, and proves nothing.
void sort_by_stride(Terms& terms, std::vector<std::pair<ParsedAxis, Term>>& axes) {
  const auto size = [&](Term stride) {
    size_t dims = 0;
    Bits factor = 0;
    for (const auto& [leaves, by] : terms.ring(stride)) {
      dims = std::max(dims, leaves.size());
      factor = std::max(factor, by);
    }
    return std::pair{dims, factor};
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const auto& a, const auto& b) { return size(a.second) > size(b.second); });
}

class Reader {
 public:
  Reader(Terms& terms, Dims& dims, const contract::TensorSpec& tensor)
      : terms_(terms), dims_(dims), tensor_(tensor), bits_(contract::info(tensor.dtype).bits) {}

  TensorMemory run() {
    TensorMemory memory;
    if (!parse()) return memory;
    memory.item = static_cast<uint32_t>(std::max(1, bits_ / kByte));
    memory.never_empty = std::all_of(axes_.begin(), axes_.end(), [&](const ParsedAxis& axis) {
      const auto range = interval(*axis.extent, dims_.contract());
      return range && range->low >= 1;
    });
    const bool dense = tensor_.strides.empty() || put_in_order();
    if (dense)
      plain(memory);
    else if (bits_ >= kByte && memory.never_empty)
      with_gaps(memory);
    return memory;
  }

 private:
  bool parse() {
    for (size_t i = 0; i < tensor_.shape.size(); ++i) {
      const auto extent = parse_expr(tensor_.shape[i].text());
      const auto stride =
          tensor_.strides.empty() ? Result<ExprPtr>(Expr::literal(1)) : parse_expr(tensor_.strides[i].text());
      if (!extent || !stride || !dims_.term(**extent) || !dims_.term(**stride)) return false;
      axes_.push_back({*extent, *stride});
    }
    return true;
  }

  // Whether the strides are those of some order of the axes without gaps: then the axes are put in that order. An axis of
  // one element may have any stride.
  bool put_in_order() {
    std::vector<ParsedAxis> left = axes_, ordered;
    std::erase_if(left, [](const ParsedAxis& axis) {
      return axis.extent->op == Expr::Op::Literal && axis.extent->value == 1;
    });
    Term next = terms_.constant(1, 64);
    while (!left.empty()) {
      const auto here = std::find_if(left.begin(), left.end(), [&](const ParsedAxis& axis) {
        return terms_.canonical(*dims_.term(*axis.stride)) == terms_.canonical(next);
      });
      if (here == left.end()) return false;
      next = terms_.mul(next, *dims_.term(*here->extent));
      ordered.insert(ordered.begin(), *here);
      left.erase(here);
    }
    axes_ = std::move(ordered);
    return true;
  }

  void plain(TensorMemory& memory) {
    const ExprPtr elements = product_of(axes_);
    if (bits_ < kByte) return packed(memory, *elements);
    const auto bytes = dims_.term(*Expr::make(Expr::Op::Mul, elements, Expr::literal(bits_ / kByte)));
    if (!bytes) return;
    memory.bytes = *bytes;
    for (const ParsedAxis& axis : axes_) memory.axes.push_back({*dims_.term(*axis.extent), kNoTerm});
    set_dense_strides(memory, memory.item);
  }

  // Two elements in a byte, rows without padding. Rows of an even number of elements are rows of bytes; otherwise all of it
  // is one row, whose last byte may be half used.
  void packed(TensorMemory& memory, const Expr& elements) {
    if (2 * bits_ != kByte || !dims_.term(elements)) return;
    const auto half = axes_.empty() ? std::nullopt : halved(*dims_.term(*axes_.back().extent));
    if (half) {
      for (const ParsedAxis& axis : axes_) memory.axes.push_back({*dims_.term(*axis.extent), kNoTerm});
      memory.axes.back().extent = *half;
    } else {
      const Term both = terms_.add(*dims_.term(elements), terms_.constant(1, 64));
      memory.axes = {{terms_.bitwise(Op::UDiv, both, terms_.constant(2, 64)), kNoTerm}};
    }
    memory.bytes = terms_.constant(1, 64);
    for (const TensorAxis& axis : memory.axes) memory.bytes = terms_.mul(memory.bytes, axis.extent);
    set_dense_strides(memory, 1);
  }

  // Half of a sum of even multiples, without a division. An extent lies far within 63 bits, so its ring is the polynomial
  // itself, read with signs.
  std::optional<Term> halved(Term extent) {
    Ring half = terms_.ring(extent);
    for (auto& [leaves, by] : half) {
      const Int times = signed_of(by, 64);
      if (times % 2 != 0) return std::nullopt;
      by = static_cast<Bits>(times / 2) & mask_of(64);
    }
    return terms_.from_ring(half, 64);
  }

  void set_dense_strides(TensorMemory& memory, uint32_t item) {
    Term stride = terms_.constant(item, 64);
    for (size_t i = memory.axes.size(); i-- > 0;) {
      memory.axes[i].stride = stride;
      stride = terms_.mul(stride, memory.axes[i].extent);
    }
  }

  // From the first element to the last: one more than the sum of (extent - 1) * stride.
  void with_gaps(TensorMemory& memory) {
    memory.gaps = true;
    std::vector<std::pair<ParsedAxis, Term>> sorted;
    ExprPtr reach = Expr::literal(1);
    for (const ParsedAxis& axis : axes_) {
      sorted.emplace_back(axis, *dims_.term(*axis.stride));
      const ExprPtr last = Expr::make(Expr::Op::Sub, axis.extent, Expr::literal(1));
      reach = Expr::make(Expr::Op::Add, reach, Expr::make(Expr::Op::Mul, last, axis.stride));
    }
    const auto bytes = dims_.term(*Expr::make(Expr::Op::Mul, reach, Expr::literal(memory.item)));
    memory.bytes = bytes.value_or(kNoTerm);
    sort_by_stride(terms_, sorted);
    for (const auto& [axis, stride] : sorted)
      memory.axes.push_back(
          {*dims_.term(*axis.extent), terms_.mul(stride, terms_.constant(memory.item, 64))});
    join_axes(memory);
  }

  // Indices (i, j) of two axes with strides e s and s, where e is the extent of the second: e i + j is one index of stride s,
  // and every number below the product of the extents is such an index, of one (i, j). The strides are compared as
  // polynomials modulo 2^64, and both lie far below that.
  void join_axes(TensorMemory& memory) {
    for (const TensorAxis& axis : memory.axes) {
      if (!memory.joined.empty()) {
        TensorAxis& outer = memory.joined.back();
        if (terms_.canonical(outer.stride) == terms_.canonical(terms_.mul(axis.stride, axis.extent))) {
          outer = {terms_.mul(outer.extent, axis.extent), axis.stride};
          continue;
        }
      }
      memory.joined.push_back(axis);
    }
  }

  Terms& terms_;
  Dims& dims_;
  const contract::TensorSpec& tensor_;
  const int bits_;
  std::vector<ParsedAxis> axes_;
};

// part / (by * factors), as far as it goes: the quotient, and what is left.
std::pair<Poly, Poly> taken_out(const Poly& poly, const Monomial& factors, Int by) {
  Poly quotient, rest;
  for (const auto& [monomial, times] : poly) {
    if (!std::includes(monomial.begin(), monomial.end(), factors.begin(), factors.end())) {
      rest[monomial] = times;
      continue;
    }
    Monomial left;
    std::set_difference(monomial.begin(), monomial.end(), factors.begin(), factors.end(),
                        std::back_inserter(left));
    const Int whole = floor_div(times, by);
    if (whole != 0) quotient[left] += whole;
    if (times != whole * by) rest[monomial] = times - whole * by;
  }
  return {quotient, rest};
}

}  // namespace

TensorMemory memory_of(Terms& terms, Dims& dims, const contract::TensorSpec& tensor) {
  return Reader(terms, dims, tensor).run();
}

// offset = sum of index_i * stride_i + rest. If every index is one of its axis, and the rest and the bytes from there on fit
// into an element, then the bytes are those of the element with these indices. Where the last stride is the size of an
// element, a row of elements is one piece of memory, and the bytes may be anywhere in it. Which part of the offset is taken
// for which index does not matter: any indices that add up to the offset will do.
std::optional<std::vector<Formula>> within_elements(Lowering& lowering, const TensorMemory& memory,
                                                    const std::vector<TensorAxis>& axes, const Poly& offset,
                                                    Int bytes) {
  std::vector<Formula> needed;
  Poly rest = offset;
  Poly room = constant_poly(memory.item);
  for (const TensorAxis& axis : axes) {
    const Poly stride = lowering.poly(axis.stride), extent = lowering.poly(axis.extent);
    if (stride.size() != 1) return std::nullopt;
    const auto& [factors, by] = *stride.begin();
    if (by <= 0) return std::nullopt;
    if (&axis == &axes.back() && factors.empty() && by == Int{memory.item}) {
      room = scale(extent, by);
      break;
    }
    auto [index, left] = taken_out(rest, factors, by);
    needed.push_back(at_least_zero(index));
    needed.push_back(at_least_zero(plus(add(extent, index, -1), -1)));
    rest = std::move(left);
  }
  needed.push_back(at_least_zero(rest));
  needed.push_back(at_least_zero(plus(add(room, rest, -1), -bytes)));
  return needed;
}

}  // namespace assay::prove
