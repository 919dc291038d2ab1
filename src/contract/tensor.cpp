#include "contract/tensor.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace assay::contract {
namespace {

using numerics::Format;
constexpr auto kFloat = DTypeKind::Float;
constexpr auto kInteger = DTypeKind::Integer;

template <class T>
constexpr int64_t low_of() {
  return static_cast<int64_t>(std::numeric_limits<T>::min());
}
template <class T>
constexpr int64_t high_of() {
  return static_cast<int64_t>(std::numeric_limits<T>::max());
}
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();

constexpr std::array<DTypeInfo, kDTypeCount> kTable = {{
    {"f64", "double", 8, 64, kFloat, Format::F64, false, 0, 0, "<f8"},
    {"f32", "float", 4, 32, kFloat, Format::F32, false, 0, 0, "<f4"},
    {"f16", "__half", 2, 16, kFloat, Format::F16, false, 0, 0, "<f2"},
    {"bf16", "__nv_bfloat16", 2, 16, kFloat, Format::BF16, false, 0, 0, "<u2"},
    {"e4m3", "__nv_fp8_e4m3", 1, 8, kFloat, Format::E4M3, true, 0, 0, "|u1"},
    {"e5m2", "__nv_fp8_e5m2", 1, 8, kFloat, Format::E5M2, true, 0, 0, "|u1"},
    {"i8", "int8_t", 1, 8, kInteger, Format::F64, false, low_of<int8_t>(), high_of<int8_t>(), "|i1"},
    {"u8", "uint8_t", 1, 8, kInteger, Format::F64, false, low_of<uint8_t>(), high_of<uint8_t>(), "|u1"},
    {"i16", "int16_t", 2, 16, kInteger, Format::F64, false, low_of<int16_t>(), high_of<int16_t>(), "<i2"},
    {"i32", "int", 4, 32, kInteger, Format::F64, false, low_of<int32_t>(), high_of<int32_t>(), "<i4"},
    {"u32", "unsigned", 4, 32, kInteger, Format::F64, false, low_of<uint32_t>(), high_of<uint32_t>(), "<u4"},
    {"i64", "int64_t", 8, 64, kInteger, Format::F64, false, low_of<int64_t>(), kMax64, "<i8"},
    {"u64", "uint64_t", 8, 64, kInteger, Format::F64, false, 0, kMax64, "<u8"},
    {"bool", "bool", 1, 8, DTypeKind::Bool, Format::F64, false, 0, 1, "|b1"},
    {"i4", "int4", 1, 4, kInteger, Format::F64, false, -8, 7, "|i1"},
    {"u4", "uint4", 1, 4, kInteger, Format::F64, false, 0, 15, "|u1"},
    {"e2m1", "__nv_fp4_e2m1", 1, 4, kFloat, Format::E2M1, true, 0, 0, "|u1"},
    {"e3m2", "__nv_fp6_e3m2", 1, 8, kFloat, Format::E3M2, true, 0, 0, "|u1"},
    {"e2m3", "__nv_fp6_e2m3", 1, 8, kFloat, Format::E2M3, true, 0, 0, "|u1"},
    {"e8m0", "__nv_fp8_e8m0", 1, 8, kFloat, Format::UE8M0, true, 0, 0, "|u1"},
    {"tf32", "float", 4, 32, kFloat, Format::TF32, false, 0, 0, "<f4"},
}};

uint64_t raw(const std::byte* at, int bytes) {
  uint64_t code = 0;
  std::memcpy(&code, at, static_cast<std::size_t>(bytes));
  return code;
}

void put(std::byte* at, int bytes, uint64_t code) {
  std::memcpy(at, &code, static_cast<std::size_t>(bytes));
}

// To nearest even, beyond the range to its end; NaN to 0, as the hardware's conversion does.
int64_t integer_of(const DTypeInfo& type, double value) {
  if (std::isnan(value)) return 0;
  const double nearest = std::nearbyint(value);
  if (nearest <= static_cast<double>(type.min_integer)) return type.min_integer;
  if (nearest >= static_cast<double>(type.max_integer)) return type.max_integer;
  return static_cast<int64_t>(nearest);
}

}  // namespace

// Larger than the machine's memory it may be, as long as it stays mostly empty: the system is asked for addresses
// alone.
constexpr std::size_t kReservedBytes = std::size_t{1} << 30;

Bytes::Bytes(std::size_t size) : size_(size) {
  if (size == 0) return;
  if (size < kReservedBytes) {
    data_ = static_cast<std::byte*>(std::calloc(size, 1));
  } else {
    void* at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  if (!data_) throw std::bad_alloc();
}

Bytes::~Bytes() {
  if (size_ < kReservedBytes)
    std::free(data_);
  else
    munmap(data_, size_);
}

Bytes::Bytes(const Bytes& other) : Bytes(other.size_) {
  if (size_ > 0) std::memcpy(data_, other.data_, size_);
}

bool Bytes::operator==(const Bytes& other) const {
  return size_ == other.size_ && (size_ == 0 || std::memcmp(data_, other.data_, size_) == 0);
}

const DTypeInfo& info(DType dtype) {
  return kTable[static_cast<std::size_t>(dtype)];
}

bool has_nan(DType dtype) {
  return is_float(dtype) && numerics::info(info(dtype).format).nan_codes != numerics::NanCodes::None;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

double load(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f64:
      return std::bit_cast<double>(raw(at, 8));
    case DType::f32:
      return double{std::bit_cast<float>(static_cast<uint32_t>(raw(at, 4)))};
    case DType::f16:
      return double{numerics::f16_to_f32(static_cast<uint16_t>(raw(at, 2)))};
    case DType::bf16:
      return double{numerics::bf16_to_f32(static_cast<uint16_t>(raw(at, 2)))};
    case DType::e4m3:
      return double{numerics::e4m3_to_f32(static_cast<uint8_t>(raw(at, 1)))};
    case DType::e5m2:
      return double{numerics::e5m2_to_f32(static_cast<uint8_t>(raw(at, 1)))};
    case DType::u64:
      return static_cast<double>(raw(at, 8));
    case DType::e2m1:
    case DType::e3m2:
    case DType::e2m3:
    case DType::e8m0:
      return numerics::to_double(info(dtype).format, raw(at, 1));
    case DType::tf32:
      return double{tf32_value(static_cast<uint32_t>(raw(at, 4)))};
    default:
      return static_cast<double>(load_int(dtype, at));
  }
}

int64_t load_int(DType dtype, const std::byte* at) {
  const DTypeInfo& type = info(dtype);
  if (type.kind == DTypeKind::Float) return static_cast<int64_t>(load(dtype, at));
  if (type.kind == DTypeKind::Bool) return raw(at, 1) != 0;
  const uint64_t code = raw(at, type.bytes);
  if (type.min_integer == 0) return static_cast<int64_t>(code);
  const int unused = 64 - 8 * type.bytes;
  return static_cast<int64_t>(code << unused) >> unused;
}

namespace {

// A float that rounds to any narrower format as the double does: inexact results
// are made odd, so that no tie appears that was none.
float odd_float(double value) {
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;  // toward zero
  return std::bit_cast<float>(bits | 1);
}

// To nearest even, 10 bits after the leading one.
uint32_t tf32_code(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isinf(value)) return bits;
  constexpr uint32_t kCut = (uint32_t{1} << 13) - 1;
  return (bits + (kCut >> 1) + ((bits >> 13) & 1)) & ~kCut;
}

}  // namespace

void store(DType dtype, std::byte* at, double value) {
  if (!std::isnan(value)) {
    switch (dtype) {
      case DType::f64:
        return put(at, 8, std::bit_cast<uint64_t>(value));
      case DType::f32:
        return put(at, 4, std::bit_cast<uint32_t>(static_cast<float>(value)));
      case DType::bf16:
        return put(at, 2, numerics::f32_to_bf16_rn(odd_float(value)));
      case DType::f16:
        return put(at, 2, numerics::f32_to_f16_rn(odd_float(value)));
      case DType::tf32:
        return put(at, 4, tf32_code(odd_float(value)));
      default:
        break;
    }
  }
  const DTypeInfo& type = info(dtype);
  if (type.kind != DTypeKind::Float) return store_int(dtype, at, integer_of(type, value));
  const auto saturation = type.saturates ? numerics::Saturation::Finite : numerics::Saturation::None;
  put(at, type.bytes, numerics::from_double(type.format, value, numerics::Rounding::NearestEven, saturation));
}

void store_int(DType dtype, std::byte* at, int64_t value) {
  const DTypeInfo& type = info(dtype);
  if (type.kind == DTypeKind::Float) return store(dtype, at, static_cast<double>(value));
  if (type.kind == DTypeKind::Bool) value = value != 0;
  if (dtype == DType::i4) value = static_cast<int64_t>(static_cast<uint64_t>(value) << 60) >> 60;
  if (dtype == DType::u4) value &= 0xf;
  put(at, type.bytes, static_cast<uint64_t>(value));
}

double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::bf16:
      return double{numerics::bf16_to_f32(numerics::f32_to_bf16_rn(odd_float(value)))};
    case DType::f16:
      return double{numerics::f16_to_f32(numerics::f32_to_f16_rn(odd_float(value)))};
    case DType::e4m3:
      return double{numerics::e4m3_to_f32(numerics::f32_to_e4m3_satfinite(odd_float(value)))};
    case DType::e5m2:
      return double{numerics::e5m2_to_f32(numerics::f32_to_e5m2_satfinite(odd_float(value)))};
    default: {
      std::byte cell[8];
      store(dtype, cell, value);
      return load(dtype, cell);
    }
  }
}

double rounded_away(DType dtype, double value) {
  const numerics::Format format = info(dtype).format;
  return numerics::to_double(format, numerics::from_double(format, value, numerics::Rounding::NearestAway));
}

Tensor Tensor::zeros(DType dtype, std::vector<int64_t> extents) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.extents = std::move(extents);
  tensor.bytes = Bytes(static_cast<std::size_t>(tensor.count() * tensor.item_bytes()));
  return tensor;
}

Tensor Tensor::of(DType dtype, std::vector<int64_t> extents, std::span<const double> values) {
  Tensor tensor = zeros(dtype, std::move(extents));
  for (int64_t i = 0; i < tensor.count() && i < static_cast<int64_t>(values.size()); ++i)
    tensor.store(i, values[static_cast<std::size_t>(i)]);
  return tensor;
}

void Tensor::store_code(int64_t element, int code) {
  if (is_float(dtype))
    *at(element) = static_cast<std::byte>(code);
  else
    store_int(element, code);
}

int64_t Tensor::count() const {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load(static_cast<int64_t>(i));
  return values;
}

std::vector<int64_t> index_of(std::span<const int64_t> extents, int64_t element) {
  std::vector<int64_t> index(extents.size());
  for (std::size_t i = extents.size(); i-- > 0;) {
    const int64_t extent = extents[i] > 0 ? extents[i] : 1;
    index[i] = i == 0 ? element : element % extent;
    element /= extent;
  }
  return index;
}

std::string coordinates(std::span<const int64_t> extents, int64_t element) {
  std::string text;
  for (const int64_t at : index_of(extents, element)) text += (text.empty() ? "" : ", ") + std::to_string(at);
  return "[" + text + "]";
}

}  // namespace assay::contract
