#include "judge/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace assay::judge {

using contract::DType;

namespace {

// Texts as people read them: pinned by tests/judge/numbers_test.cpp (Numbers.*), some within a digit.

constexpr int kMostDigits = 17;   // that a double needs
constexpr int kFewestDigits = 6;  // of an exact value: fewer look like a rounded one
// A number is off by less than this share of the error when it is printed, so that the difference of two
// printed numbers is the error to two digits.
constexpr double kShareOfError = 0.01;
constexpr double kLargestPlain = 1e6;    // whole numbers below it are written out
constexpr int kLeastPlainExponent = -5;  // of ten; smaller numbers are written with an exponent
constexpr int kRoughDigits = 3;          // of an error or a budget
constexpr double kFewTimes = 10;         // below, a factor has two digits

std::string nonfinite_text(double x) {
  return std::isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf";
}

// `digits` significant ones, trailing zeros left out. Written out where that takes no zeros that are not
// known.
std::string with_digits(double x, int digits) {
  const std::string scientific = fmt::format("{:.{}e}", x, digits - 1);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent >= kLeastPlainExponent && exponent < digits) {
    std::string text = fmt::format("{:.{}f}", x, std::max(0, digits - 1 - exponent));
    if (text.find('.') != std::string::npos) {
      text.erase(text.find_last_not_of('0') + 1);
      if (text.back() == '.') text.pop_back();
    }
    return text;
  }
  std::string mantissa = scientific.substr(0, scientific.find('e'));
  if (mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + scientific.substr(scientific.find('e'));
}

// The fewest digits, from `fewest` on, whose text `is_near` accepts.
template <class IsNear>
std::string shortest(double x, int fewest, IsNear&& is_near) {
  if (!std::isfinite(x)) return nonfinite_text(x);
  if (x == 0) return "0";
  if (std::abs(x) < kLargestPlain && x == std::trunc(x)) return fmt::format("{:.0f}", x);
  for (int digits = fewest; digits < kMostDigits; ++digits) {
    std::string text = with_digits(x, digits);
    if (is_near(std::strtod(text.c_str(), nullptr))) return text;
  }
  return with_digits(x, kMostDigits);
}

std::string stored_text(DType dtype, double x, double within) {
  return shortest(x, 1, [&](double shown) {
    return contract::rounded(dtype, shown) == x && std::abs(shown - x) <= within;
  });
}

std::string exact_text(double x, double within) {
  return shortest(x, kFewestDigits, [&](double shown) { return std::abs(shown - x) <= within; });
}

std::string roughly(double x) {
  return shortest(x, kRoughDigits, [](double) { return true; });
}

// The error in budgets. One within its budget is one of many that are too large together: what is said of
// those has the factor.
std::string times_text(double error, double limit) {
  const double times = error / limit;
  if (times <= 1) return "";
  return times < kFewTimes ? fmt::format("{:.2g}", times) : roughly(times);
}

}  // namespace

std::string number_text(DType dtype, double x) {
  if (!contract::is_float(dtype)) return fmt::format("{:.0f}", x);
  if (x == 0 && std::signbit(x)) return "-0";  // the sign may be all that two results differ in
  return stored_text(dtype, x, std::numeric_limits<double>::infinity());
}

std::string integer_text(DType dtype, int64_t bits) {
  return dtype == DType::u64 ? fmt::format("{}", static_cast<uint64_t>(bits)) : fmt::format("{}", bits);
}

std::string element_text(const contract::Tensor& tensor, int64_t element) {
  return contract::is_float(tensor.dtype) ? number_text(tensor.dtype, tensor.load(element))
                                          : integer_text(tensor.dtype, tensor.load_int(element));
}

evidence::ComparedText text_of(const Compared& compared) {
  evidence::ComparedText text;
  if (!contract::is_float(compared.dtype)) {
    text.stored = compared.stored_integer ? integer_text(compared.dtype, *compared.stored_integer)
                                          : number_text(compared.dtype, compared.stored);
    text.exact = compared.exact_integer ? integer_text(compared.dtype, *compared.exact_integer)
                                        : number_text(compared.dtype, compared.exact);
    return text;
  }
  const double error = std::abs(compared.stored - compared.exact);
  const bool measured = std::isfinite(error) && error > 0;
  const double within = measured ? kShareOfError * error : std::numeric_limits<double>::infinity();
  text.stored = stored_text(compared.dtype, compared.stored, within);
  text.exact = exact_text(compared.exact, within);
  if (!measured) return text;
  text.error = roughly(error);
  if (!compared.limit || !std::isfinite(*compared.limit)) return text;
  text.is_exact = *compared.limit <= 0;
  if (text.is_exact) return text;
  text.budget = roughly(*compared.limit);
  text.times = times_text(error, *compared.limit);
  return text;
}

}  // namespace assay::judge
