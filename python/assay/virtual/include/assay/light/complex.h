// c10::complex: complex numbers that kernels can compute with.
#pragma once
#include <cmath>
#include <ostream>

#include "assay/light/macros.h"

namespace c10 {

template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T real_ = 0, imag_ = 0;
  constexpr complex() = default;
  C10_HOST_DEVICE constexpr complex(T real, T imag = 0) : real_(real), imag_(imag) {}
  C10_HOST_DEVICE constexpr T real() const { return real_; }
  C10_HOST_DEVICE constexpr T imag() const { return imag_; }
  C10_HOST_DEVICE constexpr complex& operator+=(complex b) { return *this = *this + b; }
  C10_HOST_DEVICE constexpr complex& operator-=(complex b) { return *this = *this - b; }
  C10_HOST_DEVICE constexpr complex& operator*=(complex b) { return *this = *this * b; }
  C10_HOST_DEVICE constexpr complex& operator/=(complex b) { return *this = *this / b; }
  friend C10_HOST_DEVICE constexpr complex operator-(complex a) { return {-a.real_, -a.imag_}; }
  friend C10_HOST_DEVICE constexpr complex operator+(complex a, complex b) {
    return {a.real_ + b.real_, a.imag_ + b.imag_};
  }
  friend C10_HOST_DEVICE constexpr complex operator-(complex a, complex b) {
    return {a.real_ - b.real_, a.imag_ - b.imag_};
  }
  friend C10_HOST_DEVICE constexpr complex operator*(complex a, complex b) {
    return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
  }
  friend C10_HOST_DEVICE constexpr complex operator/(complex a, complex b) {
    const T square = b.real_ * b.real_ + b.imag_ * b.imag_;
    return {(a.real_ * b.real_ + a.imag_ * b.imag_) / square,
            (a.imag_ * b.real_ - a.real_ * b.imag_) / square};
  }
  friend C10_HOST_DEVICE constexpr bool operator==(complex a, complex b) {
    return a.real_ == b.real_ && a.imag_ == b.imag_;
  }
  friend C10_HOST_DEVICE constexpr bool operator!=(complex a, complex b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, complex a) {
    return out << '(' << a.real_ << ',' << a.imag_ << ')';
  }
};

}  // namespace c10
