// f64 in the directed modes: the host's own arithmetic, which is IEEE's as the GPU's is, with its rounding turned.
//
// The operation stands between two writes of the control register and is written as assembly, since the
// compiler believes that arithmetic does not depend on that register.
#include "numerics/arith.h"

#include <immintrin.h>

namespace assay::numerics {
namespace {

unsigned mode_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::TowardZero:
      return _MM_ROUND_TOWARD_ZERO;
    case Rounding::Down:
      return _MM_ROUND_DOWN;
    case Rounding::Up:
      return _MM_ROUND_UP;
    default:
      return _MM_ROUND_NEAREST;
  }
}

class Turned {
 public:
  explicit Turned(Rounding rounding) : before_(_mm_getcsr()) {
    _mm_setcsr((before_ & ~static_cast<unsigned>(_MM_ROUND_MASK)) | mode_of(rounding));
  }
  ~Turned() { _mm_setcsr(before_); }
  Turned(const Turned&) = delete;
  Turned& operator=(const Turned&) = delete;

 private:
  unsigned before_;
};

}  // namespace

double add_f64_directed(Rounding rounding, double a, double b) {
  const Turned turned(rounding);
  double r;
  asm volatile("vaddsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}

double mul_f64_directed(Rounding rounding, double a, double b) {
  const Turned turned(rounding);
  double r;
  asm volatile("vmulsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}

double fma_f64_directed(Rounding rounding, double a, double b, double c) {
  const Turned turned(rounding);
  asm volatile("vfmadd231sd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}

double div_f64_directed(Rounding rounding, double a, double b) {
  const Turned turned(rounding);
  double r;
  asm volatile("vdivsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
  return r;
}

double sqrt_f64_directed(Rounding rounding, double a) {
  const Turned turned(rounding);
  double r;
  asm volatile("vsqrtsd %1, %1, %0" : "=x"(r) : "x"(a));
  return r;
}

}  // namespace assay::numerics
