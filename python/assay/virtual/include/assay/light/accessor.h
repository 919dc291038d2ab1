// TensorAccessor for the host and PackedTensorAccessor for kernels: a pointer with sizes and strides, indexed
// dimension by dimension.
#pragma once
#include <cstddef>
#include <cstdint>

#include "assay/light/array_ref.h"
#include "assay/light/macros.h"

namespace at {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

/// Borrows its sizes and strides.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;

 public:
  C10_HOST_DEVICE TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE Index size(Index dim) const { return sizes_[dim]; }
  C10_HOST_DEVICE Index stride(Index dim) const { return strides_[dim]; }
  c10::ArrayRef<Index> sizes() const { return {sizes_, N}; }
  c10::ArrayRef<Index> strides() const { return {strides_, N}; }
  C10_HOST_DEVICE PtrType data() const { return data_; }
  C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, PtrTraits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }
};

/// Owns its sizes and strides, so that it can be passed to a kernel by value.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;

 private:
  PtrType data_;
  Index sizes_[N > 0 ? N : 1];
  Index strides_[N > 0 ? N : 1];

 public:
  template <class Source>
  C10_HOST GenericPackedTensorAccessor(PtrType data, const Source* sizes, const Source* strides)
      : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<Index>(sizes[i]);
      strides_[i] = static_cast<Index>(strides[i]);
    }
  }
  C10_HOST_DEVICE Index size(Index dim) const { return sizes_[dim]; }
  C10_HOST_DEVICE Index stride(Index dim) const { return strides_[dim]; }
  C10_HOST_DEVICE PtrType data() const { return data_; }
  C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, PtrTraits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }
};

template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, Index>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

}  // namespace at
