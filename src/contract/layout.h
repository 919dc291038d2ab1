// Where the elements of a tensor are in memory. Everywhere else a tensor is row-major without gaps, an element in whole
// bytes (tensor.h); only the memory that a kernel is given is laid out as the contract says: by strides, with gaps
// between rows, two 4-bit elements in a byte.
//
//     layout.pack(tensor, image);      // gaps keep what they hold
//     if (layout.changed_gap(before, after)) ...
//     layout.unpack(after, tensor);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "contract/tensor.h"

namespace assay::contract {

struct Layout {
  DType dtype = DType::f32;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  // in elements
  int64_t bytes = 0;             // from the first byte of the tensor to its last

  // Row-major without gaps, an element in whole bytes: memory holds the tensor's own bytes.
  bool is_plain() const;
  // Bytes that belong to no element.
  bool has_gaps() const;
  // No two elements share memory, as far as the strides in order of their size tell.
  bool is_injective() const;

  void pack(const Tensor& tensor, std::byte* image) const;
  void unpack(const std::byte* image, Tensor& tensor) const;
  // The first byte that belongs to no element and differs, and how many do.
  struct Changed {
    int64_t first = 0, count = 0;
  };
  std::optional<Changed> changed_gap(const std::byte* before, const std::byte* after) const;
  // Of each byte, whether it belongs to an element.
  std::vector<bool> element_bytes() const;

  // The coordinates of the element that this byte belongs to, of two the first; none: it belongs to none.
  std::optional<std::vector<int64_t>> element_at(int64_t byte) const;

  static Layout of(DType dtype, std::vector<int64_t> extents, std::vector<int64_t> strides);

 private:
  template <class Visit>
  void each_row(Visit visit) const;
};

// Row-major without gaps.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents);

}  // namespace assay::contract
