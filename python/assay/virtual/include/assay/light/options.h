// Devices, memory formats, scalars and c10::TensorOptions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "assay/light/array_ref.h"
#include "assay/light/scalar_types.h"

namespace c10 {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14 };
using DeviceIndex = int8_t;
inline constexpr DeviceType kCPU = DeviceType::CPU;
inline constexpr DeviceType kCUDA = DeviceType::CUDA;
inline constexpr DeviceType kMeta = DeviceType::Meta;

inline const char* device_type_name(DeviceType type) {
  return type == DeviceType::CUDA ? "cuda" : type == DeviceType::CPU ? "cpu" : "meta";
}
inline std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << device_type_name(type);
}

/// A kind of device and its index; -1 stands for the current one.
class Device {
  DeviceType type_ = DeviceType::CPU;
  DeviceIndex index_ = -1;

 public:
  Device() = default;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    TORCH_CHECK(kind == "cuda" || kind == "cpu" || kind == "meta", "Invalid device string: '", text, "'");
    type_ = kind == "cuda" ? DeviceType::CUDA : kind == "cpu" ? DeviceType::CPU : DeviceType::Meta;
    if (colon != std::string::npos) index_ = static_cast<DeviceIndex>(std::stoi(text.substr(colon + 1)));
  }
  Device(const char* text) : Device(std::string(text)) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_meta() const { return type_ == DeviceType::Meta; }
  std::string str() const {
    const std::string name = device_type_name(type_);
    return has_index() ? name + ':' + std::to_string(index_) : name;
  }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }
};

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
inline std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  constexpr const char* names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return out << names[int(format)];
}

enum class Layout : int8_t { Strided };
inline constexpr Layout kStrided = Layout::Strided;
inline std::ostream& operator<<(std::ostream& out, Layout) {
  return out << "Strided";
}

/// A number of Python: an integer, a float or a bool.
class Scalar {
  enum class Kind : int8_t { Integer, Float, Bool } kind_ = Kind::Integer;
  double float_ = 0;
  int64_t integer_ = 0;

 public:
  Scalar() = default;
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value)
      : kind_(std::is_same_v<T, bool>       ? Kind::Bool
              : std::is_floating_point_v<T> ? Kind::Float
                                            : Kind::Integer) {
    if constexpr (std::is_floating_point_v<T>) {
      float_ = static_cast<double>(value);
    } else {
      integer_ = static_cast<int64_t>(value);
    }
  }
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
  bool isFloatingPoint() const { return kind_ == Kind::Float; }
  bool isIntegral(bool include_bool) const { return kind_ == Kind::Integer || (include_bool && isBoolean()); }
  bool isBoolean() const { return kind_ == Kind::Bool; }
  bool isComplex() const { return false; }
  ScalarType type() const {
    return isFloatingPoint() ? ScalarType::Double : isBoolean() ? ScalarType::Bool : ScalarType::Long;
  }
  template <class T>
  T to() const {
    if constexpr (std::is_arithmetic_v<T>) {
      return isFloatingPoint() ? static_cast<T>(float_) : static_cast<T>(integer_);
    } else {
      return T(to<float>());
    }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  Half toHalf() const { return to<Half>(); }
  friend std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
    return scalar.isFloatingPoint() ? out << scalar.float_ : out << scalar.integer_;
  }
};

/// The type, device and so on of a tensor to be made. What is not set is torch's default.
class TensorOptions {
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<bool> pinned_memory_;
  std::optional<MemoryFormat> memory_format_;

 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(caffe2::TypeMeta type) : dtype_(type.toScalarType()) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat format) : memory_format_(format) {}
  template <class T,
            class = std::enable_if_t<
                std::is_same_v<std::decay_t<T>, Device> || std::is_same_v<std::decay_t<T>, DeviceType> ||
                (std::is_convertible_v<T, std::string> && !std::is_same_v<std::decay_t<T>, TensorOptions>)>>
  TensorOptions(T&& device) : device_(Device(std::forward<T>(device))) {}

  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> type) const {
    TensorOptions changed = *this;
    changed.dtype_ = type;
    return changed;
  }
  [[nodiscard]] TensorOptions dtype(std::optional<caffe2::TypeMeta> type) const {
    return dtype(type ? std::optional<ScalarType>(type->toScalarType()) : std::nullopt);
  }
  [[nodiscard]] TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  [[nodiscard]] TensorOptions dtype(caffe2::TypeMeta type) const { return dtype(type.toScalarType()); }
  template <class T>
  [[nodiscard]] TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  [[nodiscard]] TensorOptions device(std::optional<Device> device) const {
    TensorOptions changed = *this;
    changed.device_ = device;
    return changed;
  }
  template <class... Parts, class = std::enable_if_t<std::is_constructible_v<Device, Parts...>>>
  [[nodiscard]] TensorOptions device(Parts&&... parts) const {
    return device(std::optional<Device>(Device(std::forward<Parts>(parts)...)));
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const {
    return device(Device(DeviceType::CUDA, index));
  }
  [[nodiscard]] TensorOptions layout(std::optional<Layout>) const { return *this; }
  [[nodiscard]] TensorOptions requires_grad(std::optional<bool>) const { return *this; }
  [[nodiscard]] TensorOptions pinned_memory(std::optional<bool> pinned) const {
    TensorOptions changed = *this;
    changed.pinned_memory_ = pinned;
    return changed;
  }
  [[nodiscard]] TensorOptions memory_format(std::optional<MemoryFormat> format) const {
    TensorOptions changed = *this;
    changed.memory_format_ = format;
    return changed;
  }

  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(dtype_.value_or(ScalarType::Float)); }
  Device device() const { return device_.value_or(Device(DeviceType::CPU)); }
  Layout layout() const { return Layout::Strided; }
  bool requires_grad() const { return false; }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_memory_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
};

inline TensorOptions dtype(ScalarType type) {
  return TensorOptions().dtype(type);
}
inline TensorOptions dtype(caffe2::TypeMeta type) {
  return TensorOptions().dtype(type);
}
template <class T>
TensorOptions dtype() {
  return TensorOptions().dtype<T>();
}
inline TensorOptions device(Device device) {
  return TensorOptions().device(device);
}
inline TensorOptions device_index(DeviceIndex index) {
  return TensorOptions().device_index(index);
}
inline TensorOptions layout(Layout) {
  return {};
}
inline TensorOptions requires_grad(bool = true) {
  return {};
}
inline TensorOptions memory_format(MemoryFormat format) {
  return TensorOptions().memory_format(format);
}

}  // namespace c10
