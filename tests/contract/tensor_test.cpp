// Element types, tensors and .npy files.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "folders.h"
#include "support.h"

namespace assay::contract {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::string scratch(const std::string& name) {
  const fs::path folder = fs::path(kBinaryFolder) / "tensor_test";
  fs::create_directories(folder);
  return (folder / name).string();
}

TEST(DTypes, AreFoundByName) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_named(info(dtype).name), dtype);
    EXPECT_EQ(Tensor::zeros(dtype, {3, 2}).bytes.size(), static_cast<std::size_t>(6 * info(dtype).bytes));
  }
  EXPECT_FALSE(dtype_named("float"));
}

TEST(DTypes, StoreByRoundingToNearestEven) {
  EXPECT_EQ(rounded(DType::bf16, 1 + 1.0 / 256), 1);
  EXPECT_EQ(rounded(DType::bf16, 1 + 3.0 / 256), 1 + 4.0 / 256);
  EXPECT_EQ(rounded(DType::f16, 65519), 65504);
  EXPECT_TRUE(std::isinf(rounded(DType::f16, 65520)));
  EXPECT_EQ(rounded(DType::e4m3, 1e9), 448);
  EXPECT_EQ(rounded(DType::e5m2, -1e9), -57344);
  EXPECT_TRUE(std::isnan(rounded(DType::e4m3, std::nan(""))));
  EXPECT_EQ(rounded(DType::i8, 200), 127);
  EXPECT_EQ(rounded(DType::i32, 2.5), 2);
  EXPECT_EQ(rounded(DType::u8, -1), 0);
}

// The short way of `rounded` against the long one of `store` and `load`.
TEST(DTypes, RoundingIsThatOfAStore) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<uint64_t> bits;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2})
    for (int trial = 0; trial < 200000; ++trial) {
      uint64_t code = bits(random);
      if (trial % 4 != 0) code = (code & 0x800fffffffffffffu) | (uint64_t{1023} - 30 + code % 60) << 52;
      if (trial % 4 >= 2) code &= ~uint64_t{0} << (52 - trial % 30);  // ties and their neighbours
      if (trial % 8 == 7) code += trial % 3 - 1;
      const double value = std::bit_cast<double>(code);
      std::byte cell[8];
      store(dtype, cell, value);
      const double stored = load(dtype, cell), quick = rounded(dtype, value);
      ASSERT_TRUE(stored == quick || (std::isnan(stored) && std::isnan(quick)))
          << info(dtype).name << " " << value;
    }
}

TEST(DTypes, IntegersWrapAndKeepTheirSign) {
  Tensor tensor = Tensor::zeros(DType::i16, {1});
  tensor.store_int(0, -5);
  EXPECT_EQ(tensor.load_int(0), -5);
  tensor.store_int(0, 65537);
  EXPECT_EQ(tensor.load_int(0), 1);
  Tensor wide = Tensor::zeros(DType::i64, {1});
  wide.store_int(0, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(wide.load_int(0), std::numeric_limits<int64_t>::min());
}

TEST(DTypes, CoordinatesAreRowMajor) {
  const std::vector<int64_t> extents = {4, 5, 6};
  EXPECT_EQ(coordinates(extents, 0), "[0, 0, 0]");
  EXPECT_EQ(coordinates(extents, 119), "[3, 4, 5]");
  EXPECT_EQ(coordinates(extents, 37), "[1, 1, 1]");
}

TEST(Npy, EveryDtypeReadsBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    Tensor tensor = Tensor::zeros(dtype, {2, 3});
    for (int64_t k = 0; k < 6; ++k)
      tensor.store(k, static_cast<double>(k) - (info(dtype).min_integer < 0 || is_float(dtype) ? 2.0 : 0.0));
    const std::string path = scratch(fmt::format("{}.npy", info(dtype).name));
    ASSERT_TRUE(write_npy(path, tensor));
    Result<Tensor> back = read_npy(path, dtype);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(back->extents, tensor.extents);
    EXPECT_EQ(back->bytes, tensor.bytes);
  }
}

TEST(Npy, NumPyReadsWhatWeWriteAndWeReadWhatItWrites) {
  const std::string ours = scratch("ours.npy"), theirs = scratch("theirs.npy"),
                    scalar = scratch("scalar.npy");
  ASSERT_TRUE(write_npy(ours, Tensor::of(DType::f32, {2, 2}, std::vector<double>{1, 2, 3, 4.5})));
  const std::string script = fmt::format(
      "import numpy as n; a = n.load('{}'); assert a.dtype == n.float32 and a.shape == (2, 2) and a[1, 1] == "
      "4.5; "
      "n.save('{}', a.astype(n.float64) * 2); n.save('{}', n.float64(7))",
      ours, theirs, scalar);
  ASSERT_EQ(std::system(fmt::format("/usr/bin/python3 -c \"{}\"", script).c_str()), 0);
  Result<Tensor> back = read_npy(theirs, DType::bf16);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->load(3), 9);
  Result<Tensor> one = read_npy_f64(scalar);
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_TRUE(one->extents.empty());
  EXPECT_EQ(one->load(0), 7);
}

TEST(Npy, WhatDoesNotFitIsRefused) {
  const std::string path = scratch("wide.npy");
  ASSERT_TRUE(write_npy(path, Tensor::of(DType::f64, {2}, std::vector<double>{1, 1.0 / 3})));
  Result<Tensor> narrow = read_npy(path, DType::bf16);
  ASSERT_FALSE(narrow);
  EXPECT_NE(narrow.error().message.find("element [1] does not fit"), std::string::npos)
      << narrow.error().text();
}

TEST(Npy, BrokenFilesAreErrors) {
  const std::string path = scratch("broken.npy");
  ASSERT_TRUE(write_npy(path, Tensor::of(DType::f32, {4}, std::vector<double>{1, 2, 3, 4})));
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (const std::size_t length : {0, 5, 9, 30, 127, 140}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    EXPECT_FALSE(read_npy(path, DType::f32)) << length;
  }
  std::string fortran = whole;
  fortran.replace(fortran.find("False"), 5, "True ");
  std::ofstream(path, std::ios::binary) << fortran;
  Result<Tensor> tensor = read_npy(path, DType::f32);
  ASSERT_FALSE(tensor);
  EXPECT_NE(tensor.error().message.find("Fortran"), std::string::npos);
  EXPECT_FALSE(read_npy(scratch("missing.npy"), DType::f32));
}

// The fast paths agree with the format's own conversions.
TEST(Tf32, IsStoredAndReadAsItsFormatSays) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    const double exact = static_cast<double>(value) * (1 + static_cast<double>(random() % 1000) * 1e-12);
    std::byte cell[4];
    store(DType::tf32, cell, exact);
    uint32_t stored = 0;
    std::memcpy(&stored, cell, 4);
    ASSERT_EQ(stored, numerics::from_double(numerics::Format::TF32, exact)) << exact;
    std::memcpy(cell, &bits, 4);
    ASSERT_EQ(load(DType::tf32, cell), numerics::to_double(numerics::Format::TF32, bits & 0xffffe000u))
        << bits;
  }
  EXPECT_EQ(rounded(DType::tf32, 1 + 0x1p-11), 1);
  EXPECT_EQ(rounded(DType::tf32, 1 + 0x1.8p-11), 1 + 0x1p-10);
}

}  // namespace
}  // namespace assay::contract
