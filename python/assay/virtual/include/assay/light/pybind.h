// The part of pybind11 that binds functions: PYBIND11_MODULE, module_::def with docstrings, py::arg with and
// without defaults, py::kw_only and call guards. Classes, NumPy arrays and the wrappers of Python's own types
// are not here.
#pragma once
#include <map>
#include <unordered_map>

#include "assay/light/binding.h"
#include "assay/light/python_objects.h"

namespace assay {

/// std::map and std::unordered_map as dictionaries.
template <class Map>
struct ConvertMap {
  using Key = typename Map::key_type;
  using Value = typename Map::mapped_type;
  static bool load(PyObject* object, bool convert, Map& values) {
    values.clear();
    if (!is_instance(object, "dict")) return false;
    std::vector<std::pair<Key, Value>> items;
    if (!load_sequence(Object(PyDict_Items(object)).get(), convert, items)) return false;
    for (auto& item : items) values.emplace(std::move(item));
    return true;
  }
  static Object make(const Map& values) {
    Object dictionary(PyDict_New());
    for (const auto& [key, value] : values) {
      PyDict_SetItem(dictionary.get(), to_python(key).get(), to_python(value).get());
    }
    return dictionary;
  }
  static std::string name() { return "dict[" + Convert<Key>::name() + ", " + Convert<Value>::name() + "]"; }
};
template <class Key, class Value>
struct Convert<std::map<Key, Value>> : ConvertMap<std::map<Key, Value>> {};
template <class Key, class Value>
struct Convert<std::unordered_map<Key, Value>> : ConvertMap<std::unordered_map<Key, Value>> {};

}  // namespace assay

namespace pybind11 {

struct arg_v;

/// The name of a parameter: py::arg("x"), py::arg("x") = 1.
struct arg {
  std::string name;
  bool converts = true;
  explicit arg(const char* text) : name(text) {}
  arg& noconvert(bool value = true) {
    converts = !value;
    return *this;
  }
  arg& none(bool = true) { return *this; }
  template <class T>
  arg_v operator=(T&& value) const;
};
struct arg_v : arg {
  assay::Object value;
  arg_v(const arg& base, assay::Object fallback) : arg(base), value(std::move(fallback)) {}
};

namespace detail {
template <class T>
assay::Object default_value(const T& value) {
  return assay::to_python(value);
}
template <size_t N>
assay::Object default_value(const char (&text)[N]) {
  return assay::to_python(std::string(text));
}
}  // namespace detail

/// Python's None as a default.
struct none {};
}  // namespace pybind11

namespace assay {
template <>
struct Convert<pybind11::none> {
  static Object make(const pybind11::none&) { return none(); }
};
}  // namespace assay

namespace pybind11 {

template <class T>
arg_v arg::operator=(T&& value) const {
  return {*this, detail::default_value(value)};
}

namespace literals {
inline arg operator""_a(const char* text, size_t) {
  return arg(text);
}
}  // namespace literals

struct kw_only {};
struct pos_only {};
struct doc {
  const char* text;
  explicit doc(const char* words) : text(words) {}
};
enum class return_value_policy : uint8_t {
  automatic,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal
};

/// Releases the global interpreter lock for a scope.
class gil_scoped_release {
  struct _ts* state_ = PyEval_SaveThread();

 public:
  gil_scoped_release() = default;
  gil_scoped_release(const gil_scoped_release&) = delete;
  gil_scoped_release& operator=(const gil_scoped_release&) = delete;
  ~gil_scoped_release() { PyEval_RestoreThread(state_); }
};
using gil_scoped_acquire = assay::Locked;

template <class... Guards>
struct call_guard {};

namespace detail {

/// What the arguments of def() after the function say.
struct Extras {
  std::string documentation;
  std::vector<assay::Parameter> parameters;
  bool keyword_only = false;

  void take(const char* text) { documentation = text; }
  void take(const std::string& text) { documentation = text; }
  void take(const doc& text) { documentation = text.text; }
  void take(const arg& name) { parameters.push_back({name.name, {}, keyword_only, name.converts}); }
  void take(const arg_v& name) { parameters.push_back({name.name, name.value, keyword_only, name.converts}); }
  void take(kw_only) { keyword_only = true; }
  void take(pos_only) {}
  void take(return_value_policy) {}
  template <class... Guards>
  void take(call_guard<Guards...>) {}
};

}  // namespace detail

struct mod_gil_not_used {
  explicit mod_gil_not_used(bool = true) {}
};

/// An attribute of a module, to be assigned.
class attribute {
  assay::Object module_;
  std::string name_;

 public:
  attribute(assay::Object module, std::string name) : module_(std::move(module)), name_(std::move(name)) {}
  template <class T>
  void operator=(const T& value) {
    PyObject_SetAttrString(module_.get(), name_.c_str(), detail::default_value(value).get());
  }
};

/// The module being made.
class module_ {
  assay::Object module_object_;
  std::vector<assay::Function*> functions_;  // owned by Python's functions, which live as long as the process

 public:
  explicit module_(assay::Object module) : module_object_(std::move(module)) {}

  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    detail::Extras extras;
    (extras.take(extra), ...);
    assay::Function* target = nullptr;
    for (assay::Function* existing : functions_) {
      if (existing->name() == name) target = existing;
    }
    if (!target) {
      target = new assay::Function(name, extras.documentation);
      functions_.push_back(target);
    }
    target->add(
        assay::make_overload(std::decay_t<F>(std::forward<F>(function)), std::move(extras.parameters)));
    assay::Object module_name(PyObject_GetAttrString(module_object_.get(), "__name__"));
    PyObject_SetAttrString(module_object_.get(), name, target->python_function(module_name.get()).get());
    return *this;
  }
  attribute attr(const char* name) { return {module_object_, name}; }
  std::string doc() { return {}; }
};
using module = module_;

template <class... Arguments>
struct overload_cast_t {
  template <class Result>
  constexpr auto operator()(Result (*function)(Arguments...)) const {
    return function;
  }
};
template <class... Arguments>
inline constexpr overload_cast_t<Arguments...> overload_cast{};

}  // namespace pybind11

namespace py = pybind11;

namespace torch {
template <class Function>
Function wrap_pybind_function(Function&& function) {
  return std::forward<Function>(function);
}
template <class Result, class... Arguments>
auto wrap_pybind_function(Result (*function)(Arguments...)) {
  return function;
}
template <class Function>
auto wrap_pybind_function_no_gil(Function&& function) {
  return wrap_pybind_function(std::forward<Function>(function));
}
}  // namespace torch

#define PYBIND11_MODULE(NAME, VARIABLE, ...)                                                                \
  static void assay_module_body(::pybind11::module_& VARIABLE);                                             \
  static const bool assay_module_added = (::assay::bindings().push_back([](const ::assay::Object& module) { \
    ::pybind11::module_ wrapper(module);                                                                    \
    assay_module_body(wrapper);                                                                             \
  }),                                                                                                       \
                                          true);                                                            \
  static void assay_module_body(::pybind11::module_& VARIABLE)
