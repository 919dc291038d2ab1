// The element types of a contract and the one tensor type that everything
// above this room passes around: a dtype, extents, and the raw bytes as the
// device sees them (row-major, contiguous, little-endian).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "numerics/formats.h"

namespace assay::contract {

// clang-format off
enum class DType : uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i8, u8, i16, i32, u32, i64, u64, boolean,
                             i4, u4, e2m1, e3m2, e2m3, e8m0, tf32 };
// clang-format on
inline constexpr int kDTypeCount = 21;
// The names of those before reserve nothing else: formulas were written before the others existed.
inline constexpr int kReservedDTypes = 14;

enum class DTypeKind : uint8_t { Float, Integer, Bool };

struct DTypeInfo {
  std::string_view name;  // as a contract spells it; `boolean` is "bool"
  std::string_view c_type;
  int bytes;  // of a stored element of a Tensor; i4 is held as an int8_t, the floats of 4 and 6 bits as their codes
  int bits;  // of an element in a kernel's memory: 4 where two share a byte, the first in its low half
  DTypeKind kind;
  numerics::Format format;  // of floats
  bool saturates;           // stores and casts beyond the range give the largest finite value
  int64_t min_integer;      // of integers; u64 is held to the range of int64 (see load_int)
  int64_t max_integer;
  std::string_view npy;  // numpy descr; bf16 is '<u2' and fp8 '|u1': raw codes, numpy has no name for them
};

const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_named(std::string_view name);
inline bool is_float(DType dtype) {
  return info(dtype).kind == DTypeKind::Float;
}

bool has_nan(DType dtype);

// What a stored tf32 is, as tensor cores read it: the low 13 bits do not count.
inline float tf32_value(uint32_t code) {
  return std::bit_cast<float>(code & 0xffffe000u);
}

// What one stored element of this dtype is as a number, and back. Floats are
// exact doubles; stores round to nearest even (floats of 8 bits and fewer saturate; NaN
// stays NaN where the format has one). Integers saturate when stored from a double and wrap when stored
// from an int64; `bool` is 0 or 1.
double load(DType dtype, const std::byte* at);
int64_t load_int(DType dtype, const std::byte* at);  // u64: the bit pattern, as int64
void store(DType dtype, std::byte* at, double value);
void store_int(DType dtype, std::byte* at, int64_t value);
// `value` rounded to `dtype` as a store would, back as a double.
double rounded(DType dtype, double value);
// Whether kernels round ties to even or away from zero, as they like: cvt.rna is the usual conversion to tf32.
inline bool ties_either_way(DType dtype) {
  return dtype == DType::tf32;
}
// The same with ties away from zero.
double rounded_away(DType dtype, double value);

// Memory that begins as zeros, and costs nothing until it is touched: a huge tensor may be mostly empty. (A
// vector with such an allocator visits every byte to destroy it, unless the compiler sees that this does
// nothing.)
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t size);
  Bytes(const Bytes& other);
  Bytes(Bytes&& other) noexcept { swap(other); }
  Bytes& operator=(Bytes other) noexcept {
    swap(other);
    return *this;
  }
  ~Bytes();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte* begin() { return data_; }
  std::byte* end() { return data_ + size_; }
  const std::byte* begin() const { return data_; }
  const std::byte* end() const { return data_ + size_; }
  std::byte& operator[](std::size_t i) { return data_[i]; }
  const std::byte& operator[](std::size_t i) const { return data_[i]; }
  bool operator==(const Bytes& other) const;

 private:
  void swap(Bytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> extents;  // empty: a scalar, one element
  Bytes bytes;

  static Tensor zeros(DType dtype, std::vector<int64_t> extents);
  static Tensor of(DType dtype, std::vector<int64_t> extents, std::span<const double> values);

  int64_t count() const;
  int item_bytes() const { return info(dtype).bytes; }
  const std::byte* at(int64_t element) const { return bytes.data() + element * item_bytes(); }
  std::byte* at(int64_t element) { return bytes.data() + element * item_bytes(); }
  double load(int64_t element) const { return contract::load(dtype, at(element)); }
  int64_t load_int(int64_t element) const { return contract::load_int(dtype, at(element)); }
  void store(int64_t element, double value) { contract::store(dtype, at(element), value); }
  void store_int(int64_t element, int64_t value) { contract::store_int(dtype, at(element), value); }
  // An element of 4 bits as a kernel's memory holds it.
  void store_code(int64_t element, int code);
  std::vector<double> to_doubles() const;
};

// {17, 3}: the coordinates of a linear element index; "[17, 3]" as text.
std::vector<int64_t> index_of(std::span<const int64_t> extents, int64_t element);
std::string coordinates(std::span<const int64_t> extents, int64_t element);

// .npy files, format 1.0 and 2.0, C order. `read_npy` takes the dtype that the
// contract declares, and accepts its own descr, its raw codes (u2 for bf16, u1
// for fp8), or any float descr for a float dtype if every value fits exactly.
Result<void> write_npy(const std::string& path, const Tensor& tensor);
Result<void> write_npy_f64(const std::string& path, const Tensor& tensor);  // as float64
Result<Tensor> read_npy(const std::string& path, DType dtype);
// The array as float64, whatever numeric type the file holds.
Result<Tensor> read_npy_f64(const std::string& path);

}  // namespace assay::contract
