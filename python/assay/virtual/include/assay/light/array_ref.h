// c10::ArrayRef, a borrowed view of contiguous values, and c10::OptionalArrayRef. They convert from what
// torch's convert from: a vector, an array, a braced list, one value.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <vector>

#include "assay/light/exception.h"

namespace c10 {

template <class T>
class ArrayRef {
  const T* data_ = nullptr;
  size_t size_ = 0;

 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& values) : data_(values.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // as every ArrayRef, it borrows
  constexpr ArrayRef(const std::initializer_list<T>& values) : data_(values.begin()), size_(values.size()) {}
#pragma GCC diagnostic pop
  constexpr const T* begin() const {
    return data_;
  }
  constexpr const T* end() const {
    return data_ + size_;
  }
  constexpr const T* data() const {
    return data_;
  }
  constexpr size_t size() const {
    return size_;
  }
  constexpr bool empty() const {
    return size_ == 0;
  }
  constexpr const T& operator[](size_t i) const {
    return data_[i];
  }
  const T& at(size_t i) const {
    TORCH_CHECK(i < size_, "ArrayRef: invalid index Index = ", i, "; Length = ", size_);
    return data_[i];
  }
  const T& front() const {
    return at(0);
  }
  const T& back() const {
    return at(size_ - 1);
  }
  ArrayRef slice(size_t from, size_t count) const {
    TORCH_CHECK(from + count <= size_, "ArrayRef: invalid slice, N = ", from, "; M = ", count,
                "; size = ", size_);
    return {data_ + from, count};
  }
  ArrayRef slice(size_t from) const {
    return slice(from, size_ - from);
  }
  std::vector<T> vec() const {
    return {begin(), end()};
  }
  bool equals(ArrayRef other) const {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }
};

template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}
template <class T>
bool operator!=(const std::vector<T>& a, ArrayRef<T> b) {
  return !ArrayRef<T>(a).equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(b);
}
template <class T>
bool operator!=(ArrayRef<T> a, const std::vector<T>& b) {
  return !a.equals(b);
}

template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> values) {
  out << '[';
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
  return out << ']';
}

using IntArrayRef = ArrayRef<int64_t>;

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;

/// An ArrayRef or nothing. One integer and a braced list convert to it, as they do to torch's.
template <class T>
class OptionalArrayRef {
  std::optional<ArrayRef<T>> values_;

 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(std::nullopt_t) {}
  // One integer must not come here: the temporary that it converts to would be gone when the reference is used.
  template <class U = ArrayRef<T>,
            std::enable_if_t<!std::is_same_v<std::decay_t<U>, OptionalArrayRef> &&
                                 std::is_convertible_v<U&&, ArrayRef<T>> && !std::is_convertible_v<U&&, T>,
                             bool> = false>
  constexpr OptionalArrayRef(U&& values) : values_(std::forward<U>(values)) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& values) : values_(ArrayRef<T>(values)) {}
  constexpr OptionalArrayRef(const T& one) : values_(ArrayRef<T>(one)) {}
  OptionalArrayRef(std::optional<ArrayRef<T>> values) : values_(values) {}
  constexpr bool has_value() const { return values_.has_value(); }
  constexpr explicit operator bool() const { return values_.has_value(); }
  constexpr const ArrayRef<T>& value() const { return values_.value(); }
  constexpr const ArrayRef<T>& operator*() const { return *values_; }
  constexpr const ArrayRef<T>* operator->() const { return &*values_; }
};

using OptionalIntArrayRef = OptionalArrayRef<int64_t>;

}  // namespace c10
