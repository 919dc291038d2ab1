// The AT_DISPATCH macros: a switch over a ScalarType in which each case defines scalar_t and calls the body.
#pragma once
#include "assay/light/tensor.h"

namespace detail {
inline at::ScalarType scalar_type(at::ScalarType type) {
  return type;
}
inline at::ScalarType scalar_type(const at::DeprecatedTypeProperties& type) {
  return type.scalarType();
}
}  // namespace detail

#define AT_PRIVATE_CASE_TYPE_USING_HINT(TYPE, HINT, ...)           \
  case TYPE: {                                                     \
    using HINT [[maybe_unused]] = c10::ScalarTypeToCPPTypeT<TYPE>; \
    return __VA_ARGS__();                                          \
  }
#define AT_DISPATCH_CASE(TYPE, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(TYPE, scalar_t, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                            \
  [&] {                                                                                                \
    const auto& the_type = TYPE;                                                                       \
    constexpr const char* at_dispatch_name = NAME;                                                     \
    at::ScalarType _st = ::detail::scalar_type(the_type);                                              \
    switch (_st) {                                                                                     \
      __VA_ARGS__                                                                                      \
      default:                                                                                         \
        throw ::c10::NotImplementedError(                                                              \
            ::c10::str('"', at_dispatch_name, "\" not implemented for '", ::c10::toString(_st), "'")); \
    }                                                                                                  \
  }()

// The sets of types. Each AT_DISPATCH_CASE_set is the set as cases; AND adds types to a set.
#define AT_DISPATCH_CASE_FLOATING_TYPES(...)            \
  AT_DISPATCH_CASE(at::ScalarType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)        \
  AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)  \
  AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)          \
  AT_DISPATCH_CASE(at::ScalarType::Byte, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::Char, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::Int, __VA_ARGS__)  \
  AT_DISPATCH_CASE(at::ScalarType::Long, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...)                    \
  AT_DISPATCH_CASE(at::ScalarType::ComplexDouble, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)

#define ASSAY_CASES_1(T1, ...) AT_DISPATCH_CASE(T1, __VA_ARGS__)
#define ASSAY_CASES_2(T1, T2, ...) AT_DISPATCH_CASE(T1, __VA_ARGS__) ASSAY_CASES_1(T2, __VA_ARGS__)
#define ASSAY_CASES_3(T1, T2, T3, ...) AT_DISPATCH_CASE(T1, __VA_ARGS__) ASSAY_CASES_2(T2, T3, __VA_ARGS__)
#define ASSAY_CASES_4(T1, T2, T3, T4, ...) \
  AT_DISPATCH_CASE(T1, __VA_ARGS__) ASSAY_CASES_3(T2, T3, T4, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) ASSAY_CASES_1(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                 \
                     AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) ASSAY_CASES_2(T1, T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                     \
                     AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) ASSAY_CASES_3(T1, T2, T3, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                                    \
      TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) ASSAY_CASES_4(T1, T2, T3, T4, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))

#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) ASSAY_CASES_1(T1, __VA_ARGS__))

#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) ASSAY_CASES_1(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_ALL_TYPES_AND(at::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) ASSAY_CASES_2(T1, T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                \
                     AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) ASSAY_CASES_3(T1, T2, T3, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                    \
                     AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) ASSAY_CASES_4(T1, T2, T3, T4, __VA_ARGS__))

#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(                                                    \
      TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__) ASSAY_CASES_1(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(T1, T2, TYPE, NAME, ...)  \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                              \
                     AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__) \
                         ASSAY_CASES_2(T1, T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                   \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) ASSAY_CASES_1(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(T1, T2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                        \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) ASSAY_CASES_2(T1, T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(T1, T2, T3, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                            \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)    \
                         ASSAY_CASES_3(T1, T2, T3, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(T1, T2, T3, T4, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)        \
                         ASSAY_CASES_4(T1, T2, T3, T4, __VA_ARGS__))

#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(at::ScalarType::Int, index_t, __VA_ARGS__) \
                         AT_PRIVATE_CASE_TYPE_USING_HINT(at::ScalarType::Long, index_t, __VA_ARGS__))
