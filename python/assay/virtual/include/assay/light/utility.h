// Small helpers of ATen and c10: accumulation types, ceil_div, irange, no-grad guards, and what torch::Tensor
// code finds in namespace torch.
#pragma once
#include "assay/light/cuda.h"
#include "assay/light/dispatch.h"

namespace at {

/// The type in which a sum of T is kept; `Device` is true on the GPU.
template <class T, bool Device>
struct AccumulateType {
  using type =
      std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, float>,
                         std::conditional_t<Device, T, double>,
                         std::conditional_t<std::is_same_v<T, bool>, bool,
                                            std::conditional_t<std::is_integral_v<T>, int64_t, float>>>;
};
template <class T, bool Device>
using acc_type = typename AccumulateType<T, Device>::type;

/// The type in which one operation on T is done.
template <class T>
struct OpMathType {
  using type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

template <class T>
C10_HOST_DEVICE constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
C10_HOST_DEVICE constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

/// Switches the recording of gradients off for a scope.
class NoGradGuard {
  bool before_ = assay::Call("set_grad_enabled")(false).result<bool>();

 public:
  NoGradGuard() = default;
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;
  ~NoGradGuard() { assay::Call("set_grad_enabled")(before_).result<bool>(); }
};
using AutoDispatchBelowADInplaceOrView = NoGradGuard;

namespace native {
using at::ceil_div;
}

}  // namespace at

namespace c10 {

inline int64_t multiply_integers(IntArrayRef values) {
  int64_t product = 1;
  for (const int64_t value : values) product *= value;
  return product;
}

template <class T>
class IntegerRange {
  T begin_, end_;

 public:
  IntegerRange(T begin, T end) : begin_(begin), end_(end < begin ? begin : end) {}
  struct iterator {
    T value;
    T operator*() const { return value; }
    iterator& operator++() {
      ++value;
      return *this;
    }
    bool operator==(const iterator& other) const { return value == other.value; }
    bool operator!=(const iterator& other) const { return value != other.value; }
  };
  iterator begin() const { return {begin_}; }
  iterator end() const { return {end_}; }
};
template <class T>
IntegerRange<T> irange(T end) {
  return {T(), end};
}
template <class Begin, class End>
IntegerRange<End> irange(Begin begin, End end) {
  return {static_cast<End>(begin), end};
}

}  // namespace c10

namespace torch {
using namespace at;  // NOLINT: torch's own rule
using Dtype = at::ScalarType;
using c10::nullopt;
using c10::optional;
using TensorOptions = c10::TensorOptions;

inline constexpr auto kUInt8 = at::kByte;
inline constexpr auto kInt8 = at::kChar;
inline constexpr auto kInt16 = at::kShort;
inline constexpr auto kInt32 = at::kInt;
inline constexpr auto kInt64 = at::kLong;
inline constexpr auto kUInt16 = at::kUInt16;
inline constexpr auto kUInt32 = at::kUInt32;
inline constexpr auto kUInt64 = at::kUInt64;
inline constexpr auto kFloat16 = at::kHalf;
inline constexpr auto kFloat32 = at::kFloat;
inline constexpr auto kFloat64 = at::kDouble;
inline constexpr auto kF16 = at::kHalf;
inline constexpr auto kF32 = at::kFloat;
inline constexpr auto kF64 = at::kDouble;
inline constexpr auto kComplex64 = at::kComplexFloat;
inline constexpr auto kComplex128 = at::kComplexDouble;

namespace cuda {
using at::cuda::device_count;
using at::cuda::is_available;
inline void synchronize(int64_t = -1) {
  at::cuda::device_synchronize();
}
}  // namespace cuda

/// The functions of torch::nn::functional that need no options.
namespace nn::functional {
inline Tensor relu(const Tensor& input) {
  return assay::Call("relu")(input).result<Tensor>();
}
inline Tensor silu(const Tensor& input) {
  return assay::Call("silu")(input).result<Tensor>();
}
inline Tensor mish(const Tensor& input) {
  return assay::Call("mish")(input).result<Tensor>();
}
inline Tensor gelu(const Tensor& input) {
  return assay::Call("gelu")(input)(std::string("none")).result<Tensor>();
}
inline Tensor logsigmoid(const Tensor& input) {
  return assay::Call("log_sigmoid")(input).result<Tensor>();
}
}  // namespace nn::functional

namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;
}  // namespace autograd
}  // namespace torch
