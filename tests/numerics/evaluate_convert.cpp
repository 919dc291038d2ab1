#include <map>

#include "evaluate.h"
#include "numerics/gpu_math.h"

namespace assay::numerics {
namespace {

const std::map<std::string, Num>& types() {
  static const std::map<std::string, Num> table = {
      {"u8", Num::U8},       {"s8", Num::S8},     {"u16", Num::U16},     {"s16", Num::S16},
      {"u32", Num::U32},     {"s32", Num::S32},   {"u64", Num::U64},     {"s64", Num::S64},
      {"f16", Num::F16},     {"bf16", Num::BF16}, {"f32", Num::F32},     {"f64", Num::F64},
      {"tf32", Num::TF32},   {"f16x2", Num::F16}, {"bf16x2", Num::BF16}, {"e4m3x2", Num::E4M3},
      {"e5m2x2", Num::E5M2},
  };
  return table;
}

Evaluate pack(const std::string& to) {
  using E = Evaluate;
  const auto s = [](uint64_t x) { return static_cast<int32_t>(x); };
  const auto w = [](uint64_t x) { return static_cast<uint32_t>(x); };
  if (to == "u16") return E([=](auto a, auto b, auto) { return pack_saturated<16, false>(s(a), s(b), 0); });
  if (to == "s16") return E([=](auto a, auto b, auto) { return pack_saturated<16, true>(s(a), s(b), 0); });
  if (to == "u8")
    return E([=](auto a, auto b, auto c) { return pack_saturated<8, false>(s(a), s(b), w(c)); });
  if (to == "s8") return E([=](auto a, auto b, auto c) { return pack_saturated<8, true>(s(a), s(b), w(c)); });
  if (to == "u4")
    return E([=](auto a, auto b, auto c) { return pack_saturated<4, false>(s(a), s(b), w(c)); });
  if (to == "s4") return E([=](auto a, auto b, auto c) { return pack_saturated<4, true>(s(a), s(b), w(c)); });
  if (to == "u2")
    return E([=](auto a, auto b, auto c) { return pack_saturated<2, false>(s(a), s(b), w(c)); });
  if (to == "s2") return E([=](auto a, auto b, auto c) { return pack_saturated<2, true>(s(a), s(b), w(c)); });
  return {};
}

bool is_pair(const std::string& type) {
  return type.size() > 2 && type.substr(type.size() - 2) == "x2";
}

}  // namespace

Evaluate evaluate_convert(const FormName& form) {
  if (form.words[0] == "pack") return pack(form.words[2]);
  const std::string& from = form.type(0);
  const std::string& to = form.type(1);
  Conversion c;
  c.to = types().at(to);
  c.from = types().at(from);
  for (const std::string& w : form.words) {
    if (w == "rz" || w == "rzi") c.rounding = Rounding::TowardZero;
    if (w == "rm" || w == "rmi") c.rounding = Rounding::Down;
    if (w == "rp" || w == "rpi") c.rounding = Rounding::Up;
    if (w == "rna") c.rounding = Rounding::NearestAway;
    if (w.size() == 3 && w[0] == 'r' && w[2] == 'i') c.to_integral = true;
  }
  c.ftz = form.has("ftz");
  c.sat = form.has("sat");
  c.relu = form.has("relu");
  c.satfinite = form.has("satfinite");
  if (is_pair(to) && is_pair(from)) {
    return [c](auto a, auto, auto) { return uint64_t{convert_pair(c, static_cast<uint32_t>(a))}; };
  }
  if (is_pair(to)) {
    return [c](auto a, auto b, auto) {
      return uint64_t{pack_pair(c, f32_of(static_cast<uint32_t>(a)), f32_of(static_cast<uint32_t>(b)))};
    };
  }
  // An 8-bit result is extended into its 16-bit register.
  if (c.to == Num::S8) {
    return [c](auto a, auto, auto) {
      return uint64_t{static_cast<uint16_t>(static_cast<int16_t>(static_cast<int8_t>(convert(c, a))))};
    };
  }
  return [c](auto a, auto, auto) { return convert(c, a); };
}

}  // namespace assay::numerics
