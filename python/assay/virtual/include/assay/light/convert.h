// Values between C++ and Python. Convert<T> says how a T is read from a Python object and made into one:
//
//   static bool load(PyObject* object, bool convert, T& value);   // false: the object is not a T
//   static Object make(const T& value);
//   static std::string name();                                    // the type as signatures show it
//
// The rules are pybind11's with torch's additions: an int is taken for a float when `convert` is set, never a
// float for an int; a sequence for a vector, but not a string; None for an empty optional.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "assay/light/options.h"
#include "assay/light/python.h"

namespace assay {

template <class T, class Enable = void>
struct Convert;

template <class T>
Object to_python(const T& value) {
  return Convert<T>::make(value);
}

/// A tuple of Python objects.
template <class... Values>
Object tuple_of(const Values&... values) {
  Object tuple(PyTuple_New(sizeof...(values)));
  std::ptrdiff_t at = 0;
  (PyTuple_SetItem(tuple.get(), at++, to_python(values).release()), ...);
  return tuple;
}

template <>
struct Convert<Object> {
  static Object make(const Object& value) { return value; }
};

template <>
struct Convert<bool> {
  static bool load(PyObject* object, bool convert, bool& value) {
    if (!is_instance(object, "bool")) {
      if (!convert) return false;
      Object type(PyObject_Type(object)), truth(PyObject_GetAttrString(type.get(), "__bool__"));
      if (!truth) {
        PyErr_Clear();
        return false;
      }
    }
    const int truth = PyObject_IsTrue(object);
    if (truth < 0) PyErr_Clear();
    value = truth == 1;
    return truth >= 0;
  }
  static Object make(bool value) { return Object(PyBool_FromLong(value)); }
  static std::string name() { return "bool"; }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static bool load(PyObject* object, bool, T& value) {
    if (is_instance(object, "float")) return false;
    Object index(PyNumber_Index(object));
    if (index) {
      if constexpr (std::is_unsigned_v<T>) {
        const unsigned long long wide = PyLong_AsUnsignedLongLong(index.get());
        value = static_cast<T>(wide);
        if (!PyErr_Occurred() && value == wide) return true;
      } else {
        const long long wide = PyLong_AsLongLong(index.get());
        value = static_cast<T>(wide);
        if (!PyErr_Occurred() && value == wide) return true;
      }
    }
    PyErr_Clear();
    return false;
  }
  static Object make(T value) {
    if constexpr (std::is_unsigned_v<T>) return Object(PyLong_FromUnsignedLongLong(value));
    return Object(PyLong_FromLongLong(static_cast<long long>(value)));
  }
  static std::string name() { return "int"; }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static bool load(PyObject* object, bool convert, T& value) {
    if (!is_instance(object, "float")) {
      if (!convert || is_instance(object, "str")) return false;
      Object number(PyNumber_Float(object));
      if (!number) {
        PyErr_Clear();
        return false;
      }
      value = static_cast<T>(PyFloat_AsDouble(number.get()));
      return true;
    }
    value = static_cast<T>(PyFloat_AsDouble(object));
    return true;
  }
  static Object make(T value) { return Object(PyFloat_FromDouble(static_cast<double>(value))); }
  static std::string name() { return "float"; }
};

template <>
struct Convert<std::string> {
  static bool load(PyObject* object, bool, std::string& value) {
    if (!is_instance(object, "str")) return false;
    value = text_of(object);
    return true;
  }
  static Object make(const std::string& value) {
    return Object(PyUnicode_FromStringAndSize(value.data(), static_cast<std::ptrdiff_t>(value.size())));
  }
  static std::string name() { return "str"; }
};

template <>
struct Convert<std::string_view> {
  static Object make(std::string_view value) { return to_python(std::string(value)); }
};

template <>
struct Convert<const char*> {
  static Object make(const char* value) { return to_python(std::string(value)); }
};

template <>
struct Convert<std::nullopt_t> {
  static Object make(std::nullopt_t) { return none(); }
};

template <class T>
struct Convert<std::optional<T>> {
  static bool load(PyObject* object, bool convert, std::optional<T>& value) {
    value.reset();
    if (is_none(object)) return true;
    T inner{};
    if (!Convert<T>::load(object, convert, inner)) return false;
    value = std::move(inner);
    return true;
  }
  static Object make(const std::optional<T>& value) { return value ? to_python(*value) : none(); }
  static std::string name() { return Convert<T>::name() + " | None"; }
};

inline bool is_sequence(PyObject* object) {
  return PySequence_Check(object) && !is_instance(object, "str") && !is_instance(object, "bytes") &&
         !is_instance(object, "dict");
}

/// The items of a sequence, in a container that has push_back.
template <class Container>
bool load_sequence(PyObject* object, bool convert, Container& values) {
  using T = typename Container::value_type;
  if (!is_sequence(object)) return false;
  const std::ptrdiff_t size = PySequence_Size(object);
  if (size < 0) {
    PyErr_Clear();
    return false;
  }
  for (std::ptrdiff_t i = 0; i < size; ++i) {
    Object item(PySequence_GetItem(object, i));
    T value{};
    if (!item || !Convert<T>::load(item.get(), convert, value)) return false;
    values.push_back(std::move(value));
  }
  return true;
}

template <class Range>
Object make_list(const Range& values) {
  Object list(PyList_New(0));
  for (const auto& value : values) {
    Object item = to_python(static_cast<const typename Range::value_type&>(value));
    PyList_Append(list.get(), item.get());
  }
  return list;
}

template <class T>
struct Convert<std::vector<T>> {
  static bool load(PyObject* object, bool convert, std::vector<T>& values) {
    values.clear();
    return load_sequence(object, convert, values);
  }
  static Object make(const std::vector<T>& values) { return make_list(values); }
  static std::string name() { return "collections.abc.Sequence[" + Convert<T>::name() + "]"; }
};

template <class T, size_t N>
struct Convert<std::array<T, N>> {
  static bool load(PyObject* object, bool convert, std::array<T, N>& values) {
    std::vector<T> items;
    if (!load_sequence(object, convert, items) || items.size() != N) return false;
    std::move(items.begin(), items.end(), values.begin());
    return true;
  }
  static Object make(const std::array<T, N>& values) { return make_list(values); }
  static std::string name() { return "collections.abc.Sequence[" + Convert<T>::name() + "]"; }
};

template <class T>
struct Convert<c10::ArrayRef<T>> {
  static Object make(c10::ArrayRef<T> values) { return make_list(values); }
};

template <class T>
struct Convert<c10::OptionalArrayRef<T>> {
  static Object make(const c10::OptionalArrayRef<T>& values) { return values ? make_list(*values) : none(); }
};

template <class... T>
struct Convert<std::tuple<T...>> {
  static bool load(PyObject* object, bool convert, std::tuple<T...>& values) {
    if (!is_sequence(object) || PySequence_Size(object) != std::ptrdiff_t(sizeof...(T))) return false;
    return load_items(object, convert, values, std::index_sequence_for<T...>());
  }
  static Object make(const std::tuple<T...>& values) {
    return std::apply([](const T&... items) { return tuple_of(items...); }, values);
  }
  static std::string name() {
    std::string names;
    ((names += (names.empty() ? "" : ", ") + Convert<T>::name()), ...);
    return "tuple[" + names + "]";
  }

 private:
  template <size_t... I>
  static bool load_items(PyObject* object, bool convert, std::tuple<T...>& values,
                         std::index_sequence<I...>) {
    return (Convert<T>::load(Object(PySequence_GetItem(object, I)).get(), convert, std::get<I>(values)) &&
            ...);
  }
};

template <class A, class B>
struct Convert<std::pair<A, B>> {
  static bool load(PyObject* object, bool convert, std::pair<A, B>& values) {
    std::tuple<A, B> both;
    if (!Convert<std::tuple<A, B>>::load(object, convert, both)) return false;
    values = {std::move(std::get<0>(both)), std::move(std::get<1>(both))};
    return true;
  }
  static Object make(const std::pair<A, B>& values) { return tuple_of(values.first, values.second); }
  static std::string name() { return Convert<std::tuple<A, B>>::name(); }
};

/// torch's enumerations and devices: Python's objects are made from numbers and read as numbers by callbacks.
template <class T>
T number_from_python(const char* callback, PyObject* object) {
  int64_t number = 0;
  Convert<int64_t>::load(call_back(callback, tuple_of(Object::borrowed(object))).get(), true, number);
  return static_cast<T>(number);
}

#define ASSAY_CONVERT_ENUM(TYPE, NAME)                                                                     \
  template <>                                                                                              \
  struct Convert<c10::TYPE> {                                                                              \
    static bool load(PyObject* object, bool, c10::TYPE& value) {                                           \
      const int number = number_from_python<int>("number_of_" NAME, object);                               \
      value = static_cast<c10::TYPE>(number);                                                              \
      return number >= 0;                                                                                  \
    }                                                                                                      \
    static Object make(c10::TYPE value) { return call_back(NAME "_of_number", tuple_of(int64_t(value))); } \
    static std::string name() { return "torch." NAME; }                                                    \
  };
ASSAY_CONVERT_ENUM(ScalarType, "dtype")
ASSAY_CONVERT_ENUM(MemoryFormat, "memory_format")
ASSAY_CONVERT_ENUM(Layout, "layout")
#undef ASSAY_CONVERT_ENUM

template <>
struct Convert<c10::Device> {
  static bool load(PyObject* object, bool, c10::Device& value) {
    Object text(PyObject_Str(object));
    const std::string name = text_of(text.get());
    if (name.rfind("cuda", 0) != 0 && name.rfind("cpu", 0) != 0) return false;
    value = c10::Device(name);
    return true;
  }
  static Object make(const c10::Device& value) { return call_back("device_of_name", tuple_of(value.str())); }
  static std::string name() { return "torch.device"; }
};

template <>
struct Convert<caffe2::TypeMeta> {
  static Object make(caffe2::TypeMeta value) { return to_python(value.toScalarType()); }
  static std::string name() { return "torch.dtype"; }
};

template <>
struct Convert<c10::Scalar> {
  static bool load(PyObject* object, bool convert, c10::Scalar& value) {
    bool truth = false;
    int64_t integer = 0;
    double number = 0;
    if (Convert<bool>::load(object, false, truth)) {
      value = truth;
    } else if (Convert<int64_t>::load(object, convert, integer)) {
      value = integer;
    } else if (Convert<double>::load(object, convert, number)) {
      value = number;
    } else {
      return false;
    }
    return true;
  }
  static Object make(const c10::Scalar& value) {
    if (value.isFloatingPoint()) return to_python(value.toDouble());
    return value.isBoolean() ? to_python(value.toBool()) : to_python(value.toLong());
  }
  static std::string name() { return "float"; }
};

}  // namespace assay
