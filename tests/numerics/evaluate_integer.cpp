#include "evaluate.h"
#include "numerics/gpu_math.h"

namespace assay::numerics {
namespace {

uint32_t w(uint64_t x) {
  return static_cast<uint32_t>(x);
}
int32_t s(uint64_t x) {
  return static_cast<int32_t>(x);
}

template <class Int>
Evaluate of_type(const FormName& form) {
  const std::string& op = form.op;
  using U = std::make_unsigned_t<Int>;
  const auto i = [](uint64_t x) { return static_cast<Int>(x); };
  const auto out = [](Int x) { return uint64_t{static_cast<U>(x)}; };
  if (op == "mul" && form.has("hi"))
    return [=](auto a, auto b, auto) { return out(mul_hi<Int>(i(a), i(b))); };
  if (op == "mad" && form.has("hi") && !form.has("sat")) {
    return [=](auto a, auto b, auto c) {
      return uint64_t{static_cast<U>(static_cast<U>(mul_hi<Int>(i(a), i(b))) + static_cast<U>(c))};
    };
  }
  if (op == "sad") return [=](auto a, auto b, auto c) { return out(sad<Int>(i(a), i(b), i(c))); };
  if (op == "shr") return [=](auto a, auto b, auto) { return out(shr<Int>(i(a), w(b))); };
  if constexpr (sizeof(Int) >= 4) {
    if (op == "bfe")
      return [=](auto a, auto b, auto c) { return out(bit_field_extract<Int>(i(a), w(b), w(c))); };
    if (op == "bfind") {
      const bool shift = form.has("shiftamt");
      return [=](auto a, auto, auto) { return uint64_t{bit_find<Int>(i(a), shift)}; };
    }
  }
  if constexpr (sizeof(Int) == 4) {
    const bool high = form.has("hi");
    if (op == "mul24")
      return [=](auto a, auto b, auto) { return out(high ? mul24_hi(i(a), i(b)) : mul24_lo(i(a), i(b))); };
    if (op == "mad24" && !form.has("sat")) {
      return [=](auto a, auto b, auto c) {
        return uint64_t{static_cast<U>(high ? mul24_hi(i(a), i(b)) : mul24_lo(i(a), i(b))) +
                        static_cast<U>(c)};
      };
    }
    const bool clamp = form.has("clamp");
    if (op == "szext") return [=](auto a, auto b, auto) { return out(extend<Int>(i(a), w(b), clamp)); };
  }
  return {};
}

template <class U>
Evaluate of_bits(const FormName& form) {
  const std::string& op = form.op;
  const auto u = [](uint64_t x) { return static_cast<U>(x); };
  if (op == "shl") return [=](auto a, auto b, auto) { return uint64_t{shl<U>(u(a), w(b))}; };
  if (op == "brev") return [=](auto a, auto, auto) { return uint64_t{reverse_bits<U>(u(a))}; };
  if (op == "bfi" && form.type() == "p3") {
    return [=](auto a, auto b, auto c) { return uint64_t{bit_field_insert<U>(u(a), u(b), 3, w(c))}; };
  }
  if (op == "bfi")
    return [=](auto a, auto b, auto c) { return uint64_t{bit_field_insert<U>(u(a), u(b), w(c), 5)}; };
  return {};
}

template <class U>
Evaluate carry_chain(const std::string& name) {
  const auto u = [](uint64_t x) { return static_cast<U>(x); };
  const bool subtract = name.rfind("sub", 0) == 0;
  const bool twice = name.find("addc.cc") != std::string::npos || name.find("subc.cc") != std::string::npos;
  if (name.rfind("mad", 0) == 0) return {};
  return [=](auto a, auto b, auto c) {
    bool flag = false;
    const auto step = [&](U x, U y, bool in) {
      return subtract ? sub_borrow<U>(x, y, in, flag) : add_carry<U>(x, y, in, flag);
    };
    U r = step(u(a), u(b), false);
    r = step(u(c), r, flag);
    return uint64_t{twice ? step(0, 0, flag) : r};
  };
}

Evaluate dot(const FormName& form) {
  const bool a_signed = form.type(1) == "s32";
  const bool b_signed = form.type(0) == "s32";
  const auto pick4 = [&]() -> uint32_t (*)(uint32_t, uint32_t, uint32_t) {
    if (a_signed) return b_signed ? dp4a<true, true> : dp4a<true, false>;
    return b_signed ? dp4a<false, true> : dp4a<false, false>;
  };
  const auto pick2 = [&]() -> uint32_t (*)(uint32_t, uint32_t, uint32_t) {
    if (form.has("hi")) {
      if (a_signed) return b_signed ? dp2a<true, true, true> : dp2a<true, false, true>;
      return b_signed ? dp2a<false, true, true> : dp2a<false, false, true>;
    }
    if (a_signed) return b_signed ? dp2a<true, true, false> : dp2a<true, false, false>;
    return b_signed ? dp2a<false, true, false> : dp2a<false, false, false>;
  };
  auto* function = form.op == "dp4a" ? pick4() : pick2();
  return [function](auto a, auto b, auto c) { return uint64_t{function(w(a), w(b), w(c))}; };
}

Evaluate permute(const FormName& form) {
  const char* names[] = {"b32", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (int i = 0; i < 7; ++i) {
    if (form.type() != names[i]) continue;
    const auto mode = static_cast<Permute>(i);
    return [mode](auto a, auto b, auto c) { return uint64_t{prmt(mode, w(a), w(b), w(c))}; };
  }
  return {};
}

Evaluate words(const FormName& form) {
  const std::string& op = form.op;
  const bool clamp = form.has("clamp");
  if (op == "lop3") {
    const auto table = static_cast<uint8_t>(std::stoul(form.type(), nullptr, 16));
    return [=](auto a, auto b, auto c) { return uint64_t{lop3(w(a), w(b), w(c), table)}; };
  }
  if (op == "shf" && form.has("l"))
    return [=](auto a, auto b, auto c) { return uint64_t{shf_l(w(a), w(b), w(c), clamp)}; };
  if (op == "shf") return [=](auto a, auto b, auto c) { return uint64_t{shf_r(w(a), w(b), w(c), clamp)}; };
  if (op == "bmsk") return [=](auto a, auto b, auto) { return uint64_t{bit_mask(w(a), w(b), clamp)}; };
  if (op == "fns") return [=](auto a, auto b, auto c) { return uint64_t{find_nth_set(w(a), w(b), s(c))}; };
  if (op == "prmt") return permute(form);
  if (op == "dp4a" || op == "dp2a") return dot(form);
  if (form.has("sat")) {
    if (op == "add")
      return [=](auto a, auto b, auto) { return uint64_t{w(static_cast<uint64_t>(add_sat(s(a), s(b))))}; };
    if (op == "sub")
      return [=](auto a, auto b, auto) { return uint64_t{w(static_cast<uint64_t>(sub_sat(s(a), s(b))))}; };
    if (op == "mad")
      return [=](auto a, auto b, auto c) {
        return uint64_t{w(static_cast<uint64_t>(mad_hi_sat(s(a), s(b), s(c))))};
      };
    if (op == "mad24")
      return [=](auto a, auto b, auto c) {
        return uint64_t{w(static_cast<uint64_t>(mad24_hi_sat(s(a), s(b), s(c))))};
      };
  }
  return {};
}

}  // namespace

Evaluate evaluate_integer(const FormName& form) {
  std::string whole = form.op;
  for (const std::string& word : form.words) whole += "." + word;
  if (whole.find('+') != std::string::npos) {
    return form.type() == "u64" ? carry_chain<uint64_t>(whole) : carry_chain<uint32_t>(whole);
  }
  if (Evaluate e = words(form)) return e;
  if (form.has("u16")) return of_type<uint16_t>(form);
  if (form.has("s16")) return of_type<int16_t>(form);
  if (form.has("u32")) return of_type<uint32_t>(form);
  if (form.has("s32")) return of_type<int32_t>(form);
  if (form.has("u64")) return of_type<uint64_t>(form);
  if (form.has("s64")) return of_type<int64_t>(form);
  if (form.has("b16")) return of_bits<uint16_t>(form);
  if (form.has("b32")) return of_bits<uint32_t>(form);
  if (form.has("b64")) return of_bits<uint64_t>(form);
  return {};
}

}  // namespace assay::numerics
