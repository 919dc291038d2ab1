// f64 in the directed modes: the host's own IEEE arithmetic, with the CPU's rounding mode changed around it.
//
// The operation is inline assembly between two writes of the control register, because the compiler assumes
// that arithmetic does not depend on that register.
#include "numerics/arith.h"

#include <immintrin.h>

namespace assay::numerics {
namespace {

unsigned mode_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::TowardZero:
    case Rounding::Odd:  // toward zero, and the last bit set where that is not exact
      return _MM_ROUND_TOWARD_ZERO;
    case Rounding::Down:
      return _MM_ROUND_DOWN;
    case Rounding::Up:
      return _MM_ROUND_UP;
    default:
      return _MM_ROUND_NEAREST;
  }
}

// `operation` with the rounding turned; it must be assembly.
template <class Operation>
double turned(Rounding rounding, Operation operation) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~static_cast<unsigned>(_MM_ROUND_MASK | _MM_EXCEPT_MASK)) | mode_of(rounding));
  const double r = operation();
  const bool inexact = (_mm_getcsr() & _MM_EXCEPT_INEXACT) != 0;
  _mm_setcsr(before);
  return rounding == Rounding::Odd && inexact ? f64_of(bits_of(r) | 1) : r;
}

}  // namespace

double add_f64_directed(Rounding rounding, double a, double b) {
  return turned(rounding, [&] {
    double r;
    asm volatile("vaddsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
  });
}

double mul_f64_directed(Rounding rounding, double a, double b) {
  return turned(rounding, [&] {
    double r;
    asm volatile("vmulsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
  });
}

double fma_f64_directed(Rounding rounding, double a, double b, double c) {
  return turned(rounding, [&] {
    double r = c;
    asm volatile("vfmadd231sd %2, %1, %0" : "+x"(r) : "x"(a), "x"(b));
    return r;
  });
}

double div_f64_directed(Rounding rounding, double a, double b) {
  return turned(rounding, [&] {
    double r;
    asm volatile("vdivsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
  });
}

double sqrt_f64_directed(Rounding rounding, double a) {
  return turned(rounding, [&] {
    double r;
    asm volatile("vsqrtsd %1, %1, %0" : "=x"(r) : "x"(a));
    return r;
  });
}

}  // namespace assay::numerics
