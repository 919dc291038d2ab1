// C++ functions as Python functions: arguments by position and by name, defaults, overloads, exceptions.
// pybind.h and library.h are written on top of this.
#pragma once
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/light/tensor.h"

namespace assay {

/// Holds one argument of a call between its Python object and the C++ function.
template <class T>
struct Argument {
  T value{};
  bool load(PyObject* object, bool convert) { return Convert<T>::load(object, convert, value); }
  T& get() { return value; }
  static std::string name() { return Convert<T>::name(); }
};
template <class T>
struct Argument<c10::ArrayRef<T>> {
  std::vector<T> values;
  c10::ArrayRef<T> view;
  bool load(PyObject* object, bool convert) {
    if (!Convert<std::vector<T>>::load(object, convert, values)) return false;
    view = values;
    return true;
  }
  c10::ArrayRef<T>& get() { return view; }
  static std::string name() { return Convert<std::vector<T>>::name(); }
};
template <class T>
struct Argument<c10::OptionalArrayRef<T>> {
  Argument<c10::ArrayRef<T>> inner;
  c10::OptionalArrayRef<T> view;
  bool load(PyObject* object, bool convert) {
    if (is_none(object)) return true;
    if (!inner.load(object, convert)) return false;
    view = inner.view;
    return true;
  }
  c10::OptionalArrayRef<T>& get() { return view; }
  static std::string name() { return Argument<c10::ArrayRef<T>>::name() + " | None"; }
};
template <class T>
struct Argument<std::optional<c10::ArrayRef<T>>> {
  Argument<c10::ArrayRef<T>> inner;
  std::optional<c10::ArrayRef<T>> view;
  bool load(PyObject* object, bool convert) {
    if (is_none(object)) return true;
    if (!inner.load(object, convert)) return false;
    view = inner.view;
    return true;
  }
  std::optional<c10::ArrayRef<T>>& get() { return view; }
  static std::string name() { return Argument<c10::ArrayRef<T>>::name() + " | None"; }
};
template <>
struct Argument<std::string_view> {
  std::string text;
  std::string_view view;
  bool load(PyObject* object, bool convert) {
    if (!Convert<std::string>::load(object, convert, text)) return false;
    view = text;
    return true;
  }
  std::string_view& get() { return view; }
  static std::string name() { return "str"; }
};
template <>
struct Argument<const char*> {
  std::string text;
  const char* view = nullptr;
  bool load(PyObject* object, bool convert) {
    if (!Convert<std::string>::load(object, convert, text)) return false;
    view = text.c_str();
    return true;
  }
  const char*& get() { return view; }
  static std::string name() { return "str"; }
};

/// The name and the default of one parameter, where the binding gives them.
struct Parameter {
  std::string name;
  Object fallback;
  bool keyword_only = false;
  bool converts = true;
};

/// Python's exception for the C++ exception that is being handled: pybind11's table with torch's errors
/// before it.
inline void set_python_error() {
  const auto set = [](const char* type, const char* message) {
    Object exception = builtin(type);
    if (!exception) {  // an exception type of torch's own
      PyErr_Clear();
      exception = builtin("RuntimeError");
    }
    PyErr_SetString(exception.get(), message);
  };
  try {
    throw;
  } catch (const c10::Error& error) {
    set(error.python_type().c_str(), error.what());
  } catch (const std::bad_alloc& error) {
    set("MemoryError", error.what());
  } catch (const std::domain_error& error) {
    set("ValueError", error.what());
  } catch (const std::invalid_argument& error) {
    set("ValueError", error.what());
  } catch (const std::length_error& error) {
    set("ValueError", error.what());
  } catch (const std::out_of_range& error) {
    set("IndexError", error.what());
  } catch (const std::range_error& error) {
    set("ValueError", error.what());
  } catch (const std::overflow_error& error) {
    set("OverflowError", error.what());
  } catch (const std::exception& error) {
    set("RuntimeError", error.what());
  } catch (...) {
    set("RuntimeError", "Caught an unknown exception!");
  }
}

/// One C++ function behind a name. call() returns nullptr without a Python error when the arguments do not
/// fit.
class Overload {
 public:
  virtual ~Overload() = default;
  virtual PyObject* call(PyObject* positional, PyObject* named, bool convert) = 0;
  virtual std::string signature() const = 0;
};

/// Sorts the arguments of a call into the order of the parameters. False: too many, too few, or an unknown
/// name.
inline bool arrange(PyObject* positional, PyObject* named, const std::vector<Parameter>& parameters,
                    std::vector<PyObject*>& objects) {
  const std::ptrdiff_t given = PyTuple_Size(positional);
  if (given > std::ptrdiff_t(objects.size())) return false;
  std::ptrdiff_t named_left = named ? PyDict_Size(named) : 0;
  for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(objects.size()); ++i) {
    const Parameter* parameter = i < std::ptrdiff_t(parameters.size()) ? &parameters[i] : nullptr;
    PyObject* by_name = named && parameter ? PyDict_GetItemString(named, parameter->name.c_str()) : nullptr;
    if (i < given) {
      if (by_name || (parameter && parameter->keyword_only)) return false;
      objects[i] = PyTuple_GetItem(positional, i);
    } else if (by_name) {
      objects[i] = by_name;
      --named_left;
    } else if (parameter && parameter->fallback) {
      objects[i] = parameter->fallback.get();
    } else {
      return false;
    }
  }
  return named_left == 0;
}

template <class Function, class Result, class... Arguments>
class TypedOverload : public Overload {
  Function function_;
  std::vector<Parameter> parameters_;

  template <size_t... I>
  PyObject* call_with(const std::vector<PyObject*>& objects, bool convert, std::index_sequence<I...>) {
    std::tuple<Argument<std::decay_t<Arguments>>...> arguments;
    if (!(std::get<I>(arguments).load(objects[I], convert && converts(I)) && ...)) return nullptr;
    if constexpr (std::is_void_v<Result>) {
      function_(static_cast<Arguments&&>(std::get<I>(arguments).get())...);
      return none().release();
    } else {
      return Convert<std::decay_t<Result>>::make(
                 function_(static_cast<Arguments&&>(std::get<I>(arguments).get())...))
          .release();
    }
  }
  bool converts(size_t i) const { return i >= parameters_.size() || parameters_[i].converts; }

 public:
  TypedOverload(Function function, std::vector<Parameter> parameters)
      : function_(std::move(function)), parameters_(std::move(parameters)) {}

  PyObject* call(PyObject* positional, PyObject* named, bool convert) override {
    std::vector<PyObject*> objects(sizeof...(Arguments));
    if (!arrange(positional, named, parameters_, objects)) return nullptr;
    return call_with(objects, convert, std::index_sequence_for<Arguments...>());
  }

  std::string signature() const override {
    const std::vector<std::string> types = {Argument<std::decay_t<Arguments>>::name()...};
    std::string text = "(";
    for (size_t i = 0; i < types.size(); ++i) {
      if (i) text += ", ";
      if (i < parameters_.size() && parameters_[i].keyword_only &&
          (i == 0 || !parameters_[i - 1].keyword_only))
        text += "*, ";
      text += (i < parameters_.size() ? parameters_[i].name : "arg" + std::to_string(i)) + ": " + types[i];
      if (i < parameters_.size() && parameters_[i].fallback) {
        text += " = " + text_of(Object(PyObject_Repr(parameters_[i].fallback.get())).get());
      }
    }
    text += ") -> ";
    if constexpr (std::is_void_v<Result>)
      return text + "None";
    else
      return text + Convert<std::decay_t<Result>>::name();
  }
};

template <class Function, class Result, class... Arguments>
std::unique_ptr<Overload> typed_overload(Function function, Result (*)(Arguments...),
                                         std::vector<Parameter> parameters) {
  return std::make_unique<TypedOverload<Function, Result, Arguments...>>(std::move(function),
                                                                         std::move(parameters));
}

/// The plain function type of a pointer to operator().
template <class T>
struct PlainFunction;
template <class Class, class Result, class... Arguments>
struct PlainFunction<Result (Class::*)(Arguments...)> {
  using type = Result (*)(Arguments...);
};
template <class Class, class Result, class... Arguments>
struct PlainFunction<Result (Class::*)(Arguments...) const> {
  using type = Result (*)(Arguments...);
};

template <class Result, class... Arguments>
std::unique_ptr<Overload> make_overload(Result (*function)(Arguments...), std::vector<Parameter> parameters) {
  return typed_overload(function, function, std::move(parameters));
}
template <class Function, class = decltype(&Function::operator())>
std::unique_ptr<Overload> make_overload(Function function, std::vector<Parameter> parameters) {
  using Plain = typename PlainFunction<decltype(&Function::operator())>::type;
  return typed_overload(std::move(function), static_cast<Plain>(nullptr), std::move(parameters));
}

/// All overloads of one name and the Python function made of them.
class Function {
  std::string name_, documentation_;
  std::vector<std::unique_ptr<Overload>> overloads_;
  PyMethodDef method_{};

  PyObject* call(PyObject* positional, PyObject* named) {
    try {
      for (const bool convert : {false, true}) {
        for (const auto& overload : overloads_) {
          if (PyObject* result = overload->call(positional, named, convert)) return result;
          if (PyErr_Occurred()) return nullptr;
        }
      }
      PyErr_SetString(builtin("TypeError").get(), mismatch(positional, named).c_str());
    } catch (...) {
      set_python_error();
    }
    return nullptr;
  }

  std::string mismatch(PyObject* positional, PyObject* named) const {
    std::string text =
        name_ + "(): incompatible function arguments. The following argument types are supported:\n";
    int number = 1;
    for (const auto& overload : overloads_) {
      text += "    " + std::to_string(number++) + ". " + overload->signature() + "\n";
    }
    text += "\nInvoked with: " +
            text_of(call_back("show_arguments", tuple_of(Object::borrowed(positional),
                                                         named ? Object::borrowed(named) : none()))
                        .get());
    return text;
  }

  static PyObject* entry(PyObject* self, PyObject* positional, PyObject* named) {
    return static_cast<Function*>(PyCapsule_GetPointer(self, "assay.function"))->call(positional, named);
  }

 public:
  Function(std::string name, std::string documentation)
      : name_(std::move(name)), documentation_(std::move(documentation)) {}
  void add(std::unique_ptr<Overload> overload) { overloads_.push_back(std::move(overload)); }
  const std::string& name() const { return name_; }
  /// The Python function. This object must live as long as it, that is, for ever.
  Object python_function(PyObject* module_name);
};

}  // namespace assay

extern "C" PyObject* PyCFunction_NewEx(PyMethodDef*, PyObject*, PyObject*);

namespace assay {

inline Object Function::python_function(PyObject* module_name) {
  documentation_ = name_ + overloads_.front()->signature() + "\n\n" + documentation_ + "\n";
  method_ = {name_.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Function::entry)),
             METH_VARARGS | METH_KEYWORDS, documentation_.c_str()};
  Object self(PyCapsule_New(this, "assay.function", nullptr));
  return Object(PyCFunction_NewEx(&method_, self.get(), module_name));
}

/// What to run when Python binds the extension to its module object: PYBIND11_MODULE and TORCH_LIBRARY add to
/// it.
inline std::vector<std::function<void(const Object& module)>>& bindings() {
  static auto* list = new std::vector<std::function<void(const Object&)>>();
  return *list;
}

}  // namespace assay

/// Called by Python once, after the library is loaded. Returns 0, or -1 with a Python error set.
extern "C" __attribute__((weak, visibility("default"))) int assay_bind(PyObject* module,
                                                                       PyObject* callbacks) {
  assay::callbacks() = assay::Object::borrowed(callbacks);
  try {
    for (const auto& binding : assay::bindings()) binding(assay::Object::borrowed(module));
    return 0;
  } catch (...) {
    assay::set_python_error();
    return -1;
  }
}
