// py::object, py::tuple and py::list: Python objects as arguments, results and values to read. Items are read, not
// assigned; dictionaries, classes and NumPy arrays are not here.
#pragma once
#include "assay/light/convert.h"

namespace pybind11 {

/// A reference to any Python object.
class object {
  assay::Object object_;

 public:
  object() = default;
  explicit object(assay::Object owned) : object_(std::move(owned)) {}
  object(const object&) = default;
  object(object&&) = default;
  // Not for temporaries: `values[0] = x` would change nothing.
  object& operator=(const object&) & = default;
  object& operator=(object&&) & = default;
  PyObject* ptr() const { return object_.get(); }
  explicit operator bool() const { return static_cast<bool>(object_); }
  const assay::Object& owned() const { return object_; }
  bool is_none() const { return assay::is_none(ptr()); }
  object attr(const char* name) const {
    assay::Object found(PyObject_GetAttrString(ptr(), name));
    if (!found) assay::throw_python_error();
    return object(std::move(found));
  }
  template <class T>
  T cast() const {
    T value{};
    if (!assay::Convert<T>::load(ptr(), true, value)) {
      throw std::runtime_error("Unable to cast Python instance to C++ type " + assay::Convert<T>::name());
    }
    return value;
  }
};

/// What tuples and lists share.
class sequence : public object {
 public:
  using object::object;
  size_t size() const { return static_cast<size_t>(PySequence_Size(ptr())); }
  bool empty() const { return size() == 0; }
  object operator[](size_t index) const {
    assay::Object item(PySequence_GetItem(ptr(), static_cast<std::ptrdiff_t>(index)));
    if (!item) assay::throw_python_error();
    return object(std::move(item));
  }
};

class tuple : public sequence {
 public:
  using sequence::sequence;
  tuple() : sequence(assay::Object(PyTuple_New(0))) {}
};

class list : public sequence {
 public:
  using sequence::sequence;
  list() : sequence(assay::Object(PyList_New(0))) {}
  template <class T>
  void append(const T& value) {
    PyList_Append(ptr(), assay::to_python(value).get());
  }
};

template <class... Values>
tuple make_tuple(const Values&... values) {
  return tuple(assay::tuple_of(values...));
}

inline size_t len(const sequence& values) {
  return values.size();
}

}  // namespace pybind11

namespace assay {

template <class T>
struct ConvertObject {
  static Object make(const T& value) { return value ? value.owned() : none(); }
};
template <>
struct Convert<pybind11::object> : ConvertObject<pybind11::object> {
  static bool load(PyObject* object, bool, pybind11::object& value) {
    value = pybind11::object(Object::borrowed(object));
    return true;
  }
  static std::string name() { return "object"; }
};
template <>
struct Convert<pybind11::tuple> : ConvertObject<pybind11::tuple> {
  static bool load(PyObject* object, bool, pybind11::tuple& value) {
    if (!is_instance(object, "tuple")) return false;
    value = pybind11::tuple(Object::borrowed(object));
    return true;
  }
  static std::string name() { return "tuple"; }
};
template <>
struct Convert<pybind11::list> : ConvertObject<pybind11::list> {
  static bool load(PyObject* object, bool, pybind11::list& value) {
    if (!is_instance(object, "list")) return false;
    value = pybind11::list(Object::borrowed(object));
    return true;
  }
  static std::string name() { return "list"; }
};

}  // namespace assay
