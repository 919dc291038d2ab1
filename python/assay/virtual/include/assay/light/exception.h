// c10::Error and the TORCH_CHECK family. A failed check becomes the Python exception that torch raises, with
// the same text.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>

#include "assay/light/python.h"

namespace c10 {

/// An error of torch. `python_type` is the name of the built-in exception that Python sees.
class Error : public std::exception {
  std::string message_;
  std::string python_type_;

 public:
  explicit Error(std::string message, std::string python_type = "RuntimeError")
      : message_(std::move(message)), python_type_(std::move(python_type)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  const std::string& msg() const { return message_; }
  const std::string& python_type() const { return python_type_; }
};

#define ASSAY_ERROR(NAME, PYTHON_TYPE)                                             \
  class NAME : public Error {                                                      \
   public:                                                                         \
    explicit NAME(std::string message) : Error(std::move(message), PYTHON_TYPE) {} \
  };
ASSAY_ERROR(IndexError, "IndexError")
ASSAY_ERROR(ValueError, "ValueError")
ASSAY_ERROR(TypeError, "TypeError")
ASSAY_ERROR(NotImplementedError, "NotImplementedError")
ASSAY_ERROR(LinAlgError, "RuntimeError")
ASSAY_ERROR(OutOfMemoryError, "RuntimeError")
#undef ASSAY_ERROR

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  ((out << parts), ...);
  return out.str();
}

}  // namespace c10

namespace at {
using c10::Error;
}

namespace assay {

inline std::string check_message(const char* condition) {
  return c10::str(
      "Expected ", condition,
      " to be true, but got false.  (Could this error message be improved?  If so, please report an "
      "enhancement request to PyTorch.)");
}

template <class... Parts>
std::string check_message(const char*, const Parts&... parts) {
  return c10::str(parts...);
}

/// Turns the Python exception that is set into a c10::Error of the same type and text.
[[noreturn]] inline void throw_python_error() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Object owned_type(type), owned_value(value), owned_trace(trace);
  Object text(value ? PyObject_Str(value) : nullptr);
  Object name(type ? PyObject_GetAttrString(type, "__name__") : nullptr);
  throw c10::Error(text ? text_of(text.get()) : "unknown Python error",
                   name ? text_of(name.get()) : "RuntimeError");
}

inline void check_cuda(cudaError_t status) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw c10::Error(c10::str("CUDA error: ", cudaGetErrorString(status)));
}

}  // namespace assay

#define ASSAY_CHECK(TYPE, CONDITION, ...)                                            \
  do {                                                                               \
    if (!(CONDITION)) throw TYPE(::assay::check_message(#CONDITION, ##__VA_ARGS__)); \
  } while (0)
#define TORCH_CHECK(CONDITION, ...) ASSAY_CHECK(::c10::Error, CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(CONDITION, ...) ASSAY_CHECK(::c10::IndexError, CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(CONDITION, ...) ASSAY_CHECK(::c10::ValueError, CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(CONDITION, ...) ASSAY_CHECK(::c10::TypeError, CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(CONDITION, ...) \
  ASSAY_CHECK(::c10::NotImplementedError, CONDITION, ##__VA_ARGS__)
#define TORCH_CHECK_WITH(TYPE, CONDITION, ...) ASSAY_CHECK(::c10::TYPE, CONDITION, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) ((void)0)
#define AT_ASSERTM(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define AT_ASSERT(CONDITION, ...) TORCH_CHECK(CONDITION, ##__VA_ARGS__)
#define AT_ERROR(...) throw ::c10::Error(::c10::str(__VA_ARGS__))
#define C10_THROW_ERROR(TYPE, MESSAGE) throw ::c10::TYPE(MESSAGE)

#define ASSAY_CHECK_OPERATOR(LEFT, RIGHT, OPERATOR)                                                         \
  TORCH_CHECK((LEFT)OPERATOR(RIGHT), "Check failed: " #LEFT " " #OPERATOR " " #RIGHT " (", (LEFT), " vs. ", \
              (RIGHT), "). ")
#define TORCH_CHECK_EQ(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, ==)
#define TORCH_CHECK_NE(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, !=)
#define TORCH_CHECK_LE(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, <=)
#define TORCH_CHECK_LT(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, <)
#define TORCH_CHECK_GE(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, >=)
#define TORCH_CHECK_GT(LEFT, RIGHT) ASSAY_CHECK_OPERATOR(LEFT, RIGHT, >)

#define TORCH_WARN(...) std::fprintf(stderr, "Warning: %s\n", ::c10::str(__VA_ARGS__).c_str())
#define TORCH_WARN_ONCE(...)                                          \
  do {                                                                \
    static const bool assay_warned = (TORCH_WARN(__VA_ARGS__), true); \
    (void)assay_warned;                                               \
  } while (0)

#define C10_CUDA_CHECK(EXPRESSION) ::assay::check_cuda(EXPRESSION)
#define AT_CUDA_CHECK(EXPRESSION) C10_CUDA_CHECK(EXPRESSION)
#define C10_CUDA_CHECK_WARN(EXPRESSION) ((void)(EXPRESSION))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
