// Element types: c10::ScalarType, its names and sizes, the C++ type of each, and caffe2::TypeMeta, which is
// what Tensor::dtype() returns. The numbers of the enumeration are torch's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "assay/light/complex.h"
#include "assay/light/exception.h"
#include "assay/light/half.h"

/// One row for each type that a tensor of an extension can have: the C++ type, the name, torch's number.
#define ASSAY_SCALAR_TYPES(_)                \
  _(uint8_t, Byte, 0)                        \
  _(int8_t, Char, 1)                         \
  _(int16_t, Short, 2)                       \
  _(int, Int, 3)                             \
  _(int64_t, Long, 4)                        \
  _(c10::Half, Half, 5)                      \
  _(float, Float, 6)                         \
  _(double, Double, 7)                       \
  _(c10::complex<float>, ComplexFloat, 9)    \
  _(c10::complex<double>, ComplexDouble, 10) \
  _(bool, Bool, 11)                          \
  _(c10::BFloat16, BFloat16, 15)             \
  _(c10::Float8_e5m2, Float8_e5m2, 23)       \
  _(c10::Float8_e4m3fn, Float8_e4m3fn, 24)   \
  _(uint16_t, UInt16, 27)                    \
  _(uint32_t, UInt32, 28)                    \
  _(uint64_t, UInt64, 29)                    \
  _(c10::Float8_e8m0fnu, Float8_e8m0fnu, 44)

namespace c10 {

enum class ScalarType : int8_t {
#define ASSAY_ROW(TYPE, NAME, NUMBER) NAME = NUMBER,
  ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW
      Undefined = 47,
};

#define ASSAY_ROW(TYPE, NAME, NUMBER) inline constexpr ScalarType k##NAME = ScalarType::NAME;
ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW

inline const char* toString(ScalarType type) {
  switch (type) {
#define ASSAY_ROW(TYPE, NAME, NUMBER) \
  case ScalarType::NAME:              \
    return #NAME;
    ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW
    default:
      return "UNKNOWN_SCALAR";
  }
}

inline size_t elementSize(ScalarType type) {
  switch (type) {
#define ASSAY_ROW(TYPE, NAME, NUMBER) \
  case ScalarType::NAME:              \
    return sizeof(TYPE);
    ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW
    default:
      TORCH_CHECK(false, "Unknown ScalarType");
  }
}

inline std::ostream& operator<<(std::ostream& out, ScalarType type) {
  return out << toString(type);
}

inline bool isComplexType(ScalarType type) {
  return type == ScalarType::ComplexFloat || type == ScalarType::ComplexDouble;
}

inline bool isReducedFloatingType(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16 || type == ScalarType::Float8_e5m2 ||
         type == ScalarType::Float8_e4m3fn || type == ScalarType::Float8_e8m0fnu;
}

inline bool isFloatingType(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Double || isReducedFloatingType(type);
}

inline bool isIntegralType(ScalarType type, bool include_bool) {
  if (type == ScalarType::Bool) return include_bool;
  return type != ScalarType::Undefined && !isFloatingType(type) && !isComplexType(type);
}

/// The ScalarType of a C++ type. As in torch, `__half`, `long long` and other types that are no element type
/// have none.
template <class T>
struct CppTypeToScalarType;
template <ScalarType Type>
struct ScalarTypeToCPPType;
#define ASSAY_ROW(TYPE, NAME, NUMBER)                                                         \
  template <>                                                                                 \
  struct CppTypeToScalarType<TYPE> : std::integral_constant<ScalarType, ScalarType::NAME> {}; \
  template <>                                                                                 \
  struct ScalarTypeToCPPType<ScalarType::NAME> {                                              \
    using type = TYPE;                                                                        \
  };
ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW
template <ScalarType Type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<Type>::type;

}  // namespace c10

namespace caffe2 {

/// What Tensor::dtype() returns. It compares with ScalarType and, as in torch, does not convert to it.
class TypeMeta {
  c10::ScalarType type_ = c10::ScalarType::Undefined;

 public:
  TypeMeta() = default;
  explicit TypeMeta(c10::ScalarType type) : type_(type) {}
  template <class T>
  static TypeMeta Make() {
    return TypeMeta(c10::CppTypeToScalarType<T>::value);
  }
  static TypeMeta fromScalarType(c10::ScalarType type) { return TypeMeta(type); }
  c10::ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return c10::elementSize(type_); }
  std::string_view name() const {
    switch (type_) {
#define ASSAY_ROW(TYPE, NAME, NUMBER) \
  case c10::ScalarType::NAME:         \
    return #TYPE;
      ASSAY_SCALAR_TYPES(ASSAY_ROW)
#undef ASSAY_ROW
      default:
        return "nullptr (uninitialized)";
    }
  }
  template <class T>
  bool Match() const {
    return type_ == c10::CppTypeToScalarType<T>::value;
  }
  bool isScalarType() const {
    return type_ != c10::ScalarType::Undefined;
  }
  friend bool operator==(TypeMeta a, TypeMeta b) {
    return a.type_ == b.type_;
  }
  friend bool operator!=(TypeMeta a, TypeMeta b) {
    return a.type_ != b.type_;
  }
  friend bool operator==(TypeMeta a, c10::ScalarType b) {
    return a.type_ == b;
  }
  friend bool operator!=(TypeMeta a, c10::ScalarType b) {
    return a.type_ != b;
  }
  friend bool operator==(c10::ScalarType a, TypeMeta b) {
    return a == b.type_;
  }
  friend bool operator!=(c10::ScalarType a, TypeMeta b) {
    return a != b.type_;
  }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta meta) {
    return out << meta.name();
  }
};

}  // namespace caffe2

namespace c10 {
inline ScalarType typeMetaToScalarType(caffe2::TypeMeta meta) {
  return meta.toScalarType();
}
inline caffe2::TypeMeta scalarTypeToTypeMeta(ScalarType type) {
  return caffe2::TypeMeta(type);
}
}  // namespace c10

namespace at {
using namespace c10;  // NOLINT: torch's own rule, which makes at::kFloat, at::ScalarType and the rest
}
