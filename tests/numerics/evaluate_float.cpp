#include <algorithm>
#include <sstream>

#include "evaluate.h"
#include "numerics/gpu_math.h"

namespace assay::numerics {

FormName::FormName(const std::string& name) {
  std::istringstream in(name);
  std::getline(in, op, '.');
  for (std::string word; std::getline(in, word, '.');) words.push_back(word);
}

bool FormName::has(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

namespace {

float f(uint64_t bits) {
  return f32_of(static_cast<uint32_t>(bits));
}
double d(uint64_t bits) {
  return f64_of(bits);
}

template <class Make>
Evaluate by_rounding(const FormName& form, Make&& make) {
  if (form.has("rz")) return make.template operator()<Rounding::TowardZero>();
  if (form.has("rm")) return make.template operator()<Rounding::Down>();
  if (form.has("rp")) return make.template operator()<Rounding::Up>();
  return make.template operator()<Rounding::NearestEven>();
}

template <Rounding R, bool Ftz, bool Sat>
Evaluate f32_arithmetic(const std::string& op) {
  using E = Evaluate;
  if (op == "add") return E([](auto a, auto b, auto) { return bits_of(add_f32<R, Ftz, Sat>(f(a), f(b))); });
  if (op == "sub") return E([](auto a, auto b, auto) { return bits_of(sub_f32<R, Ftz, Sat>(f(a), f(b))); });
  if (op == "mul") return E([](auto a, auto b, auto) { return bits_of(mul_f32<R, Ftz, Sat>(f(a), f(b))); });
  if (op == "fma")
    return E([](auto a, auto b, auto c) { return bits_of(fma_f32<R, Ftz, Sat>(f(a), f(b), f(c))); });
  if (op == "div") return E([](auto a, auto b, auto) { return bits_of(div_f32<R, Ftz>(f(a), f(b))); });
  if (op == "rcp") return E([](auto a, auto, auto) { return bits_of(rcp_f32<R, Ftz>(f(a))); });
  if (op == "sqrt") return E([](auto a, auto, auto) { return bits_of(sqrt_f32<R, Ftz>(f(a))); });
  return {};
}

template <Rounding R>
Evaluate f64_arithmetic(const std::string& op) {
  using E = Evaluate;
  if (op == "add") return E([](auto a, auto b, auto) { return bits_of(add_f64<R>(d(a), d(b))); });
  if (op == "sub") return E([](auto a, auto b, auto) { return bits_of(sub_f64<R>(d(a), d(b))); });
  if (op == "mul") return E([](auto a, auto b, auto) { return bits_of(mul_f64<R>(d(a), d(b))); });
  if (op == "fma") return E([](auto a, auto b, auto c) { return bits_of(fma_f64<R>(d(a), d(b), d(c))); });
  if (op == "div") return E([](auto a, auto b, auto) { return bits_of(div_f64<R>(d(a), d(b))); });
  if (op == "rcp") return E([](auto a, auto, auto) { return bits_of(rcp_f64<R>(d(a))); });
  if (op == "sqrt") return E([](auto a, auto, auto) { return bits_of(sqrt_f64<R>(d(a))); });
  return {};
}

Evaluate approximate(const FormName& form) {
  const std::string& op = form.op;
  const bool ftz = form.has("ftz");
  if (form.type() == "f64") {
    using Unary = double (*)(double);
    const Unary function = op == "rcp" ? rcp_approx_f64 : ftz ? rsqrt_approx_f64 : rsqrt_approx_f64_full;
    return [function](auto a, auto, auto) { return bits_of(function(d(a))); };
  }
  if (op == "tanh") return [](auto a, auto, auto) { return bits_of(tanh_approx(f(a))); };
  if (op == "div" && form.has("full")) {
    return [ftz](auto a, auto b, auto) { return bits_of(div_full(f(a), f(b), ftz)); };
  }
  if (op == "div") return [ftz](auto a, auto b, auto) { return bits_of(div_approx(f(a), f(b), ftz)); };
  using Unary = float (*)(float, bool);
  const std::pair<const char*, Unary> table[] = {
      {"ex2", ex2_approx}, {"lg2", lg2_approx},   {"sin", sin_approx},    {"cos", cos_approx},
      {"rcp", rcp_approx}, {"sqrt", sqrt_approx}, {"rsqrt", rsqrt_approx}};
  for (const auto& [name, function] : table) {
    if (op == name) return [function, ftz](auto a, auto, auto) { return bits_of(function(f(a), ftz)); };
  }
  return {};
}

template <bool Max, bool Ftz>
Evaluate minmax(const FormName& form) {
  const bool nan = form.has("NaN");
  const bool sign = form.has("xorsign");
  if (nan && sign)
    return [](auto a, auto b, auto) { return bits_of(minmax_f32<Max, Ftz, true, true>(f(a), f(b))); };
  if (nan) return [](auto a, auto b, auto) { return bits_of(minmax_f32<Max, Ftz, true, false>(f(a), f(b))); };
  if (sign)
    return [](auto a, auto b, auto) { return bits_of(minmax_f32<Max, Ftz, false, true>(f(a), f(b))); };
  return [](auto a, auto b, auto) { return bits_of(minmax_f32<Max, Ftz, false, false>(f(a), f(b))); };
}

Evaluate sign_operation(const FormName& form) {
  const bool wide = form.type() == "f64";
  const bool ftz = form.has("ftz");
  if (form.op == "copysign") {
    if (wide) return [](auto a, auto b, auto) { return bits_of(copysign_f64(d(a), d(b))); };
    return [](auto a, auto b, auto) { return bits_of(copysign_f32(f(a), f(b))); };
  }
  const bool negate = form.op == "neg";
  if (wide) return [negate](auto a, auto, auto) { return bits_of(negate ? neg_f64(d(a)) : abs_f64(d(a))); };
  return [negate, ftz](auto a, auto, auto) {
    if (ftz) return bits_of(negate ? neg_f32<true>(f(a)) : abs_f32<true>(f(a)));
    return bits_of(negate ? neg_f32<false>(f(a)) : abs_f32<false>(f(a)));
  };
}

Evaluate test_property(const FormName& form) {
  const std::pair<const char*, Property> table[] = {
      {"finite", Property::Finite}, {"infinite", Property::Infinite},
      {"number", Property::Number}, {"notanumber", Property::NotANumber},
      {"normal", Property::Normal}, {"subnormal", Property::Subnormal}};
  for (const auto& [name, property] : table) {
    if (form.words[0] != name) continue;
    const Property p = property;
    if (form.type() == "f64") return [p](auto a, auto, auto) { return uint64_t{has_property(p, d(a))}; };
    return [p](auto a, auto, auto) { return uint64_t{has_property(p, f(a))}; };
  }
  return {};
}

}  // namespace

Evaluate evaluate_float(const FormName& form) {
  const bool wide = form.type() == "f64";
  if (form.op == "testp") return test_property(form);
  if (form.op == "setp" || form.op == "set" || form.op == "slct") return {};
  if (form.op == "neg" || form.op == "abs" || form.op == "copysign") return sign_operation(form);
  if (form.op == "min" || form.op == "max") {
    const bool max = form.op == "max";
    if (wide) {
      return [max](auto a, auto b, auto) {
        return bits_of(max ? minmax_f64<true>(d(a), d(b)) : minmax_f64<false>(d(a), d(b)));
      };
    }
    if (form.has("ftz")) return max ? minmax<true, true>(form) : minmax<false, true>(form);
    return max ? minmax<true, false>(form) : minmax<false, false>(form);
  }
  if (form.has("approx") || form.has("full")) return approximate(form);
  if (wide) return by_rounding(form, [&]<Rounding R>() { return f64_arithmetic<R>(form.op); });
  return by_rounding(form, [&]<Rounding R>() {
    const bool sat = form.has("sat");
    if (form.has("ftz"))
      return sat ? f32_arithmetic<R, true, true>(form.op) : f32_arithmetic<R, true, false>(form.op);
    return sat ? f32_arithmetic<R, false, true>(form.op) : f32_arithmetic<R, false, false>(form.op);
  });
}

}  // namespace assay::numerics
