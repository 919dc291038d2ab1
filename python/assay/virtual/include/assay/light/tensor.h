// at::Tensor: a reference to a tensor of Python, with its pointer, type, sizes and strides at hand.
//
// Every tensor of an extension belongs to torch: an argument is the caller's tensor, and torch::empty asks
// torch for one. So a returned tensor is the Python object itself, and nothing is copied or owned twice.
//
// The metadata is here. Operators are not written out: for those that a source mentions,
// extension_operators.py generates declarations from torch's own schemas into assay_methods.inc and
// assay_functions.inc, which are included below. Each names its overload and hands the arguments to Call,
// which lets torch compute the result in Python.
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "assay/light/accessor.h"
#include "assay/light/convert.h"

namespace at {
class Tensor;
using TensorList = c10::ArrayRef<Tensor>;
namespace indexing {
class TensorIndex;
}

/// What Tensor::type() returns: deprecated in torch, still used in checks and dispatch macros.
class DeprecatedTypeProperties {
  ScalarType type_;
  DeviceType device_;

 public:
  DeprecatedTypeProperties(ScalarType type, DeviceType device) : type_(type), device_(device) {}
  ScalarType scalarType() const { return type_; }
  caffe2::TypeMeta typeMeta() const { return caffe2::TypeMeta(type_); }
  DeviceType device_type() const { return device_; }
  bool is_cuda() const { return device_ == DeviceType::CUDA; }
  bool is_sparse() const { return false; }
  std::string toString() const { return c10::str(is_cuda() ? "CUDA" : "CPU", type_, "Type"); }
  TensorOptions options() const { return TensorOptions(type_).device(device_); }
  bool operator==(const DeprecatedTypeProperties& other) const {
    return type_ == other.type_ && device_ == other.device_;
  }
  bool operator!=(const DeprecatedTypeProperties& other) const { return !(*this == other); }
};
inline std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& type) {
  return out << type.toString();
}
}  // namespace at

namespace assay {

template <>
struct Convert<at::Tensor>;

/// A tensor of Python and what C++ asks of it. The description is read when the tensor arrives, and again
/// after an operator that changed it in place.
struct TensorState {
  Object object;
  void* data = nullptr;
  c10::ScalarType type = c10::ScalarType::Undefined;
  c10::Device device = c10::DeviceType::CPU;
  int64_t elements = 0, storage_offset = 0, storage = 0;
  bool requires_grad = false;
  std::vector<int64_t> sizes, strides;

  void read();
};

/// One call of a callback, argument by argument. `name` is an operator with its overload ("sum.dim_IntList"),
/// or, for what has no operator, one of the functions of extension_calls.py.
class Call {
  Locked lock_;
  const char* name_;
  Object arguments_;

  Object run(const char* callback);

 public:
  explicit Call(const char* name) : name_(name), arguments_(PyList_New(0)) {}
  template <class T>
  Call& operator()(const T& value) {
    PyList_Append(arguments_.get(), to_python(value).get());
    return *this;
  }
  /// TensorOptions stand for four arguments of the schema.
  Call& operator()(const c10::TensorOptions& options) {
    return (*this)(options.dtype_opt())(std::nullopt)(options.device_opt())(options.pinned_memory_opt());
  }
  template <class Result>
  Result result();
  /// For operators that change their first argument.
  const at::Tensor& into(const at::Tensor& changed);
  at::Tensor& into(at::Tensor& changed) {
    return const_cast<at::Tensor&>(into(static_cast<const at::Tensor&>(changed)));
  }
};

}  // namespace assay

namespace at {

class Tensor {
  std::shared_ptr<assay::TensorState> state_;

  const assay::TensorState& state() const {
    TORCH_CHECK(state_, "Expected a proper Tensor but got None (or an undefined Tensor in C++)");
    return *state_;
  }
  int64_t wrapped(int64_t dim) const {
    const int64_t dims = this->dim();
    TORCH_CHECK_INDEX(dim >= -std::max<int64_t>(dims, 1) && dim < std::max<int64_t>(dims, 1),
                      "Dimension out of range (expected to be in range of [", -std::max<int64_t>(dims, 1),
                      ", ", std::max<int64_t>(dims, 1) - 1, "], but got ", dim, ")");
    TORCH_CHECK_INDEX(dims > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
    return dim < 0 ? dim + dims : dim;
  }
  /// Strides as those of a contiguous tensor whose dimensions are stored in `order`, the slowest first.
  bool stored_in_order(const std::vector<int64_t>& order) const {
    int64_t expected = 1;
    for (size_t i = order.size(); i-- > 0;) {
      const int64_t dim = order[i];
      if (sizes()[dim] != 1 && strides()[dim] != expected) return false;
      expected *= sizes()[dim];
    }
    return true;
  }
  template <class T>
  T* typed_data() const {
    using Element = std::remove_const_t<T>;
    const ScalarType wanted = CppTypeToScalarType<Element>::value;
    TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
    return static_cast<T*>(state().data);
  }

 public:
  Tensor() = default;
  explicit Tensor(assay::Object object) : state_(std::make_shared<assay::TensorState>()) {
    state_->object = std::move(object);
    state_->read();
  }
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  // Assigning to a temporary, as in `x[0] = 1` or `x.slice(0, 0, 2) = y`, writes into its elements.
  Tensor& operator=(const Tensor& values) &&;
  Tensor& operator=(Tensor&& values) && { return std::move(*this) = static_cast<const Tensor&>(values); }
  Tensor& operator=(const Scalar& value) &&;

  bool defined() const { return state_ != nullptr; }
  void reset() { state_.reset(); }
  bool is_same(const Tensor& other) const {
    return state_ == other.state_ ||
           (state_ && other.state_ && state_->object.get() == other.state_->object.get());
  }
  const assay::Object& python_object() const { return state().object; }
  void read_again() const {
    if (state_) state_->read();
  }

  int64_t dim() const { return static_cast<int64_t>(state().sizes.size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return state().sizes; }
  IntArrayRef strides() const { return state().strides; }
  int64_t size(int64_t dim) const { return state().sizes[wrapped(dim)]; }
  int64_t stride(int64_t dim) const { return state().strides[wrapped(dim)]; }
  int64_t numel() const { return state().elements; }
  int64_t storage_offset() const { return state().storage_offset; }
  size_t itemsize() const { return elementSize(state().type); }
  int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  ScalarType scalar_type() const { return state().type; }
  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(state().type); }
  DeprecatedTypeProperties type() const { return {scalar_type(), device().type()}; }
  Device device() const { return state().device; }
  DeviceIndex get_device() const { return device().index(); }
  Layout layout() const { return Layout::Strided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return isComplexType(scalar_type()); }
  bool is_signed() const {
    return !isIntegralType(scalar_type(), true) || scalar_type() == kChar || scalar_type() == kShort ||
           scalar_type() == kInt || scalar_type() == kLong;
  }
  bool is_pinned() const;
  bool requires_grad() const { return state().requires_grad; }
  bool is_alias_of(const Tensor& other) const { return state().storage == other.state().storage; }
  bool has_storage() const { return defined(); }

  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    if (numel() == 0) return true;
    if (format == MemoryFormat::ChannelsLast) return dim() == 4 && stored_in_order({0, 2, 3, 1});
    if (format == MemoryFormat::ChannelsLast3d) return dim() == 5 && stored_in_order({0, 2, 3, 4, 1});
    std::vector<int64_t> order(dim());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    return stored_in_order(order);
  }
  MemoryFormat suggest_memory_format() const {
    if (is_contiguous()) return MemoryFormat::Contiguous;
    if (is_contiguous(MemoryFormat::ChannelsLast)) return MemoryFormat::ChannelsLast;
    if (is_contiguous(MemoryFormat::ChannelsLast3d)) return MemoryFormat::ChannelsLast3d;
    return MemoryFormat::Contiguous;
  }
  bool is_non_overlapping_and_dense() const {
    std::vector<int64_t> order(dim());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return stride(a) > stride(b); });
    return stored_in_order(order);
  }

  void* data_ptr() const { return state().data; }
  void* mutable_data_ptr() const { return state().data; }
  const void* const_data_ptr() const { return state().data; }
  template <class T>
  T* data_ptr() const {
    return typed_data<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return typed_data<T>();
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return typed_data<const std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return typed_data<T>();
  }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_accessor<N>();
    return {typed_data<T>(), state().sizes.data(), state().strides.data()};
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, Index> generic_packed_accessor() const& {
    check_accessor<N>();
    return {typed_data<T>(), state().sizes.data(), state().strides.data()};
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(),
                "numel needs to be smaller than int32_t max; otherwise, "
                "please use packed_accessor64");
    return generic_packed_accessor<T, N, PtrTraits, int32_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, PtrTraits, int64_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, Index> packed_accessor() const& {
    return generic_packed_accessor<T, N, PtrTraits, Index>();
  }

  Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor toType(ScalarType type) const;
  Tensor cpu() const;
  Tensor cuda() const;
  Tensor to(const TensorOptions& options = {}, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(Device device, ScalarType type, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value);
  Tensor operator[](int64_t index) const;
  Tensor operator[](const Scalar& index) const { return (*this)[index.toLong()]; }
  Tensor operator[](const Tensor& index) const;
  Tensor variable_data() const;
  Tensor tensor_data() const;
  Tensor data() const { return variable_data(); }
  const Tensor& set_requires_grad(bool value) const;
  Tensor grad() const;
  template <class Stream>
  void record_stream(const Stream& stream) const {
    assay::Call("record_stream")(*this)(stream.python_object()).template result<void>();
  }
  void print() const;
  std::string toString() const { return type().toString(); }

  Tensor operator-() const;
  Tensor operator~() const;
  Tensor& operator+=(const Tensor& other);
  Tensor& operator+=(const Scalar& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator-=(const Scalar& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator*=(const Scalar& other);
  Tensor& operator/=(const Tensor& other);
  Tensor& operator/=(const Scalar& other);

#if __has_include("assay_methods.inc")
#include "assay_methods.inc"
#endif

 private:
  template <size_t N>
  void check_accessor() const {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == static_cast<int64_t>(N), "TensorAccessor expected ", N, " dims but tensor has ",
                dim());
  }
};

using TensorBase = Tensor;
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace at

namespace assay {

template <>
struct Convert<at::Tensor> {
  static bool load(PyObject* object, bool, at::Tensor& value) {
    if (number_from_python<int>("is_tensor", object) == 0) return false;
    value = at::Tensor(Object::borrowed(object));
    return true;
  }
  static Object make(const at::Tensor& value) { return value.defined() ? value.python_object() : none(); }
  static std::string name() { return "torch.Tensor"; }
};

inline void TensorState::read() {
  Locked lock;
  Object description = call_back("describe", tuple_of(object));
  int64_t numbers[8] = {};
  for (int i = 0; i < 8; ++i) {
    Convert<int64_t>::load(PyTuple_GetItem(description.get(), i), true, numbers[i]);
  }
  Convert<std::vector<int64_t>>::load(PyTuple_GetItem(description.get(), 8), true, sizes);
  Convert<std::vector<int64_t>>::load(PyTuple_GetItem(description.get(), 9), true, strides);
  data = reinterpret_cast<void*>(numbers[0]);
  type = static_cast<c10::ScalarType>(numbers[1]);
  device = c10::Device(static_cast<c10::DeviceType>(numbers[2]), static_cast<c10::DeviceIndex>(numbers[3]));
  elements = numbers[4];
  storage_offset = numbers[5];
  storage = numbers[6];
  requires_grad = numbers[7] != 0;
}

inline Object Call::run(const char* callback) {
  return call_back(callback, tuple_of(name_, Object(PyList_AsTuple(arguments_.get()))));
}

template <class Result>
Result Call::result() {
  Object object = run("operator");
  if constexpr (!std::is_void_v<Result>) {
    Result value{};
    const bool loaded = Convert<Result>::load(object.get(), true, value);
    if constexpr (std::is_same_v<Result, at::Tensor>) {
      if (!loaded && is_none(object.get())) return value;
    }
    TORCH_CHECK(loaded, name_, " returned a value of an unexpected type");
    return value;
  }
}

inline const at::Tensor& Call::into(const at::Tensor& changed) {
  run("operator");
  changed.read_again();
  return changed;
}

}  // namespace assay

#include "assay/light/tensor_functions.h"
