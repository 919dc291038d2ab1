// TORCH_LIBRARY and its relatives: operators registered with torch's dispatcher, called as
// torch.ops.name.operator. The C++ function becomes a Python function, which is registered with
// torch.library.
#pragma once
#include "assay/light/binding.h"

namespace c10 {
enum class DispatchKey {
  CPU,
  CUDA,
  Meta,
  Autograd,
  AutogradCUDA,
  AutogradCPU,
  CompositeImplicitAutograd,
  CompositeExplicitAutograd
};
}

namespace assay {

/// The type of a parameter or result as a schema names it.
template <class T>
struct SchemaType;
#define ASSAY_SCHEMA_TYPE(TYPE, NAME)          \
  template <>                                  \
  struct SchemaType<TYPE> {                    \
    static std::string name() { return NAME; } \
  };
ASSAY_SCHEMA_TYPE(at::Tensor, "Tensor")
ASSAY_SCHEMA_TYPE(int64_t, "int")
ASSAY_SCHEMA_TYPE(double, "float")
ASSAY_SCHEMA_TYPE(bool, "bool")
ASSAY_SCHEMA_TYPE(std::string, "str")
ASSAY_SCHEMA_TYPE(std::string_view, "str")
ASSAY_SCHEMA_TYPE(c10::Scalar, "Scalar")
ASSAY_SCHEMA_TYPE(c10::ScalarType, "ScalarType")
ASSAY_SCHEMA_TYPE(c10::Device, "Device")
#undef ASSAY_SCHEMA_TYPE
template <class T>
struct SchemaType<std::optional<T>> {
  static std::string name() { return SchemaType<T>::name() + "?"; }
};
template <class T>
struct SchemaType<std::vector<T>> {
  static std::string name() { return SchemaType<T>::name() + "[]"; }
};
template <class T>
struct SchemaType<c10::ArrayRef<T>> {
  static std::string name() { return SchemaType<T>::name() + "[]"; }
};
template <class... T>
struct SchemaType<std::tuple<T...>> {
  static std::string name() {
    std::string names;
    ((names += (names.empty() ? "" : ", ") + SchemaType<T>::name()), ...);
    return "(" + names + ")";
  }
};

template <class Result, class... Arguments>
std::string schema_of(Result (*)(Arguments...)) {
  std::string text = "(";
  int number = 0;
  ((text +=
    (number ? ", " : "") + SchemaType<std::decay_t<Arguments>>::name() + " _" + std::to_string(number),
    ++number),
   ...);
  if constexpr (std::is_void_v<Result>)
    return text + ") -> ()";
  else
    return text + ") -> " + SchemaType<std::decay_t<Result>>::name();
}

}  // namespace assay

namespace torch {

/// A function with the dispatch key that it was given by torch::dispatch.
template <class Function>
struct DispatchedFunction {
  std::string key;
  Function function;
};

inline std::string dispatch_key_name(c10::DispatchKey key) {
  constexpr const char* names[] = {"CPU",
                                   "CUDA",
                                   "Meta",
                                   "Autograd",
                                   "AutogradCUDA",
                                   "AutogradCPU",
                                   "CompositeImplicitAutograd",
                                   "CompositeExplicitAutograd"};
  return names[int(key)];
}
inline std::string dispatch_key_name(c10::DeviceType device) {
  return device == c10::DeviceType::CUDA ? "CUDA" : device == c10::DeviceType::CPU ? "CPU" : "Meta";
}

template <class Key, class Function>
DispatchedFunction<std::decay_t<Function>> dispatch(Key key, Function&& function) {
  return {dispatch_key_name(key), std::forward<Function>(function)};
}

class Library {
  std::string name_, key_;

  template <class Function>
  assay::Object function_object(const std::string& name, Function&& function) {
    auto* entry = new assay::Function(name, "");  // lives as long as the process, as the registration does
    entry->add(assay::make_overload(std::decay_t<Function>(std::forward<Function>(function)), {}));
    return entry->python_function(assay::to_python(name_).get());
  }
  void implement(const std::string& name, const std::string& key, assay::Object function) {
    assay::Call("library_impl")(name_)(name)(key)(function).result<void>();
  }
  static std::string bare_name(const std::string& schema) { return schema.substr(0, schema.find('(')); }

 public:
  Library(std::string name, std::string key) : name_(std::move(name)), key_(std::move(key)) {}

  Library& def(const std::string& schema) {
    assay::Call("library_define")(name_)(schema).result<void>();
    return *this;
  }
  template <class Result, class... Arguments>
  Library& def(const std::string& schema, Result (*function)(Arguments...)) {
    def(schema.find('(') == std::string::npos ? schema + assay::schema_of(function) : schema);
    implement(bare_name(schema), key_, function_object(bare_name(schema), function));
    return *this;
  }
  template <class Function>
  Library& def(const std::string& schema, DispatchedFunction<Function> function) {
    def(schema.find('(') == std::string::npos ? schema + assay::schema_of(function.function) : schema);
    implement(bare_name(schema), function.key, function_object(bare_name(schema), function.function));
    return *this;
  }
  template <class Result, class... Arguments>
  Library& impl(const std::string& name, Result (*function)(Arguments...)) {
    implement(name, key_, function_object(name, function));
    return *this;
  }
  template <class Key, class Function>
  Library& impl(const std::string& name, Key key, Function&& function) {
    implement(name, dispatch_key_name(key), function_object(name, std::forward<Function>(function)));
    return *this;
  }
  template <class Function>
  Library& impl(const std::string& name, DispatchedFunction<Function> function) {
    implement(name, function.key, function_object(name, function.function));
    return *this;
  }
};

}  // namespace torch

#define ASSAY_LIBRARY(NAMESPACE, KEY, VARIABLE, BODY)                                          \
  static void BODY(::torch::Library& VARIABLE);                                                \
  static const bool BODY##_added = (::assay::bindings().push_back([](const ::assay::Object&) { \
    ::torch::Library library(#NAMESPACE, KEY);                                                 \
    BODY(library);                                                                             \
  }),                                                                                          \
                                    true);                                                     \
  static void BODY(::torch::Library& VARIABLE)
#define ASSAY_JOINED(A, B) A##B
#define ASSAY_JOIN(A, B) ASSAY_JOINED(A, B)
#define TORCH_LIBRARY(NAMESPACE, VARIABLE) \
  ASSAY_LIBRARY(NAMESPACE, "CompositeImplicitAutograd", VARIABLE, assay_library_##NAMESPACE)
#define TORCH_LIBRARY_FRAGMENT(NAMESPACE, VARIABLE)               \
  ASSAY_LIBRARY(NAMESPACE, "CompositeImplicitAutograd", VARIABLE, \
                ASSAY_JOIN(assay_fragment_##NAMESPACE, __COUNTER__))
#define TORCH_LIBRARY_IMPL(NAMESPACE, KEY, VARIABLE) \
  ASSAY_LIBRARY(NAMESPACE, #KEY, VARIABLE, assay_library_##NAMESPACE##_##KEY)
#define TORCH_FN(FUNCTION) (&FUNCTION)
#define TORCH_SELECTIVE_NAME(NAME) NAME
#define TORCH_SELECTIVE_SCHEMA(SCHEMA) SCHEMA
