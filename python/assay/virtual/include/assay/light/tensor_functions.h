// What at::Tensor hands to torch: conversions, indexing, the operators of C++, from_blob and torch::tensor;
// and the generated functions of namespace at. Included by tensor.h.
#pragma once
#include "assay/light/tensor.h"

namespace at {

namespace indexing {

enum class EllipsisIndexType { Ellipsis };
inline constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
inline constexpr std::nullopt_t None = std::nullopt;

/// start:stop:step, each of which may be left out.
class Slice {
  std::optional<int64_t> start_, stop_, step_;

 public:
  explicit Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
                 std::optional<int64_t> step = std::nullopt)
      : start_(start), stop_(stop), step_(step) {}
  assay::Object python_object() const {
    return assay::Object(PySlice_New(assay::to_python(start_).get(), assay::to_python(stop_).get(),
                                     assay::to_python(step_).get()));
  }
};

/// One item between the brackets of an index.
class TensorIndex {
  assay::Object object_;

 public:
  TensorIndex(std::nullopt_t) : object_(assay::none()) {}
  TensorIndex(EllipsisIndexType) : object_(assay::builtin("Ellipsis")) {}
  TensorIndex(const char* text) : TensorIndex(EllipsisIndexType::Ellipsis) {
    TORCH_CHECK_VALUE(std::string(text) == "...",
                      "Expected \"...\" to represent an ellipsis index, but got \"", text, "\"");
  }
  TensorIndex(Slice slice) : object_(slice.python_object()) {}
  TensorIndex(const Tensor& tensor) : object_(tensor.python_object()) {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  TensorIndex(T value) : object_(assay::to_python(value)) {}
  const assay::Object& python_object() const { return object_; }
};

}  // namespace indexing
}  // namespace at

namespace assay {
template <>
struct Convert<at::indexing::TensorIndex> {
  static Object make(const at::indexing::TensorIndex& value) { return value.python_object(); }
};
}  // namespace assay

namespace at {

inline Scalar Tensor::item() const {
  return assay::Call("item")(*this).result<Scalar>();
}
inline Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  return assay::Call("contiguous")(*this)(format).result<Tensor>();
}
inline Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy,
                         std::optional<MemoryFormat> format) const {
  return assay::Call("to")(*this)(options.device_opt())(options.dtype_opt())(non_blocking)(copy)(format)
      .result<Tensor>();
}
inline Tensor Tensor::to(ScalarType type, bool non_blocking, bool copy,
                         std::optional<MemoryFormat> format) const {
  return to(TensorOptions(type), non_blocking, copy, format);
}
inline Tensor Tensor::to(Device device, ScalarType type, bool non_blocking, bool copy,
                         std::optional<MemoryFormat> format) const {
  return to(TensorOptions(type).device(device), non_blocking, copy, format);
}
inline Tensor Tensor::to(const Tensor& other, bool non_blocking, bool copy,
                         std::optional<MemoryFormat> format) const {
  return to(other.options(), non_blocking, copy, format);
}
inline Tensor Tensor::toType(ScalarType type) const {
  return to(type);
}
inline Tensor Tensor::cpu() const {
  return to(TensorOptions(kCPU));
}
inline Tensor Tensor::cuda() const {
  return to(TensorOptions(kCUDA));
}
inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
  return assay::Call("get_item")(*this)(indices).result<Tensor>();
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) {
  return assay::Call("set_item")(*this)(indices)(values).into(*this);
}
inline Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) {
  return assay::Call("set_item")(*this)(indices)(value).into(*this);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices,
                                  const Tensor& values) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), values);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}
inline Tensor Tensor::operator[](int64_t index) const {
  return assay::Call("select.int")(*this)(int64_t(0))(index).result<Tensor>();
}
inline Tensor Tensor::operator[](const Tensor& index) const {
  return this->index({indexing::TensorIndex(index)});
}
inline Tensor Tensor::variable_data() const {
  return assay::Call("detach")(*this).result<Tensor>();
}
inline Tensor Tensor::tensor_data() const {
  return variable_data();
}
inline const Tensor& Tensor::set_requires_grad(bool value) const {
  return assay::Call("requires_grad_")(*this)(value).into(*this);
}
inline bool Tensor::is_pinned() const {
  return assay::Call("is_pinned")(*this).result<bool>();
}
inline Tensor Tensor::grad() const {
  return assay::Call("grad")(*this).result<Tensor>();
}
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  return out << assay::Call("str")(tensor).result<std::string>();
}
inline void Tensor::print() const {
  std::fprintf(stderr, "%s\n", c10::str(*this).c_str());
}
inline Tensor& Tensor::operator=(const Tensor& values) && {
  return assay::Call("copy_")(*this)(values)(false).into(*this);
}
inline Tensor& Tensor::operator=(const Scalar& value) && {
  return assay::Call("fill_.Scalar")(*this)(value).into(*this);
}

inline Tensor Tensor::operator-() const {
  return assay::Call("neg")(*this).result<Tensor>();
}
inline Tensor Tensor::operator~() const {
  return assay::Call("bitwise_not")(*this).result<Tensor>();
}
inline Tensor operator!(const Tensor& tensor) {
  return assay::Call("logical_not")(tensor).result<Tensor>();
}

// a + b for two tensors, and for a tensor and a number. Python's own operators compute them, so that the type
// of the result is torch's.
#define ASSAY_OPERATOR(OP, NAME)                                \
  inline Tensor operator OP(const Tensor& a, const Tensor& b) { \
    return assay::Call(NAME)(a)(b).result<Tensor>();            \
  }                                                             \
  inline Tensor operator OP(const Tensor& a, const Scalar& b) { \
    return assay::Call(NAME)(a)(b).result<Tensor>();            \
  }                                                             \
  inline Tensor operator OP(const Scalar& a, const Tensor& b) { \
    return assay::Call(NAME)(a)(b).result<Tensor>();            \
  }
ASSAY_OPERATOR(+, "operator +")
ASSAY_OPERATOR(-, "operator -")
ASSAY_OPERATOR(*, "operator *")
ASSAY_OPERATOR(/, "operator /")
ASSAY_OPERATOR(%, "operator %")
ASSAY_OPERATOR(&, "operator &")
ASSAY_OPERATOR(|, "operator |")
ASSAY_OPERATOR(^, "operator ^")
ASSAY_OPERATOR(<, "operator <")
ASSAY_OPERATOR(<=, "operator <=")
ASSAY_OPERATOR(>, "operator >")
ASSAY_OPERATOR(>=, "operator >=")
ASSAY_OPERATOR(==, "operator ==")
ASSAY_OPERATOR(!=, "operator !=")
#undef ASSAY_OPERATOR
#define ASSAY_OPERATOR(OP, NAME)                            \
  inline Tensor& Tensor::operator OP(const Tensor& other) { \
    return assay::Call(NAME)(*this)(other).into(*this);     \
  }                                                         \
  inline Tensor& Tensor::operator OP(const Scalar& other) { \
    return assay::Call(NAME)(*this)(other).into(*this);     \
  }
ASSAY_OPERATOR(+=, "operator +=")
ASSAY_OPERATOR(-=, "operator -=")
ASSAY_OPERATOR(*=, "operator *=")
ASSAY_OPERATOR(/=, "operator /=")
#undef ASSAY_OPERATOR

#if __has_include("assay_functions.inc")
#include "assay_functions.inc"
#endif

/// A tensor over memory that the extension owns and keeps alive.
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                        const TensorOptions& options = {}) {
  return assay::Call("from_blob")(reinterpret_cast<int64_t>(data))(sizes)(strides)(options).result<Tensor>();
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return from_blob(data, sizes, strides, options);
}

/// torch::tensor: values given in the source. The type is that of the values unless the options name one.
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}) {
  const ScalarType type = std::is_floating_point_v<T> ? kFloat : std::is_same_v<T, bool> ? kBool : kLong;
  return assay::Call("tensor")(values)(options.has_dtype() ? options : options.dtype(type))
      .template result<Tensor>();
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<T>(values), options);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(T value, const TensorOptions& options = {}) {
  const ScalarType type = std::is_floating_point_v<T> ? kFloat : std::is_same_v<T, bool> ? kBool : kLong;
  return assay::Call("tensor")(value)(options.has_dtype() ? options : options.dtype(type))
      .template result<Tensor>();
}

inline Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {}) {
  return assay::Call("tensor")(value)(options).result<Tensor>();
}

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}

}  // namespace at

namespace c10 {
using at::device_of;
}
