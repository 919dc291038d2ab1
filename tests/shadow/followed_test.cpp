// Every way of a value that kernels/*.cu list: the shadow of each output against the same kernel in FP64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "shadowed.h"

namespace assay::shadow {
namespace {

using vgpu::Address;

constexpr size_t kInputs = 4096, kOutputs = 128;
// Of the error of the values, what the shadow may miss: both root mean squares.
constexpr double kMissed = 0.02;

struct Format {
  std::string_view suffix;
  uint32_t size;
  std::function<double(const std::byte*)> value;
};

template <class T, class Convert>
auto reader(Convert convert) {
  return [convert](const std::byte* at) {
    T bits;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<double>(convert(bits));
  };
}

const Format& format_of(const std::string& name) {
  static const Format formats[] = {
      {"_f64", 8, reader<double>([](double x) { return x; })},
      {"_f32", 4, reader<float>([](float x) { return x; })},
      {"_bf16", 2, reader<uint16_t>(numerics::bf16_to_f32)},
      {"_f16", 2, reader<uint16_t>(numerics::f16_to_f32)},
      {"_e4m3", 1, reader<uint8_t>(numerics::e4m3_to_f32)},
  };
  for (const Format& f : formats)
    if (name.ends_with(f.suffix)) return f;
  throw std::invalid_argument(name);
}

struct Case {
  std::string file, kernel;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* file : {"followed", "products"}) {
    const std::string text = compiled(file), entry = ".visible .entry ";
    for (size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1)) {
      const size_t from = at + entry.size();
      const std::string name = text.substr(from, text.find('(', from) - from);
      if (!name.ends_with("_exact")) all.push_back({file, name});
    }
  }
  return all;
}

class Followed : public ::testing::TestWithParam<Case> {};

TEST_P(Followed, AsInFp64) {
  const auto& [file, kernel] = GetParam();
  const Format& format = format_of(kernel);
  Shadowed s(compiled(file));
  vgpu::testing::Machine plain(compiled(file));
  const auto in = random_floats(kInputs);
  const Address out = s.machine.array(std::vector<uint8_t>(kOutputs * format.size)),
                exact_out = plain.array(std::vector<double>(kOutputs));
  ASSERT_EQ(s.machine.launch(kernel, {1}, {32}, {s.machine.array(in), out}).fault.message, "");
  ASSERT_EQ(plain.launch(kernel + "_exact", {1}, {32}, {plain.array(in), exact_out}).fault.message, "");
  const auto exact = plain.read<double>(exact_out, kOutputs);
  double missed2 = 0, error2 = 0;
  for (size_t i = 0; i < kOutputs; ++i) {
    const std::byte* at = s.host(out + i * format.size, format.size);
    const double value = format.value(at), truth = value - s.shadow.error_at(at, format.size);
    EXPECT_NEAR(value, exact[i], 0.2 * std::fabs(exact[i])) << "the two kernels differ at " << i;
    missed2 += std::pow((truth - exact[i]) / exact[i], 2),
        error2 += std::pow((value - exact[i]) / exact[i], 2);
  }
  EXPECT_GT(error2, 0);
  EXPECT_LT(std::sqrt(missed2), kMissed * std::sqrt(error2));
  const Profile profile = s.profile_of(out, kOutputs * format.size);
  EXPECT_TRUE(profile.retaken.empty()) << profile.retaken[0].operation;
  for (const OutputProfile& o : profile.outputs) EXPECT_EQ(o.broken, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Followed, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.kernel; });

// Errors that get lost are told of.
TEST(Lost, IsTold) {
  for (const auto& [kernel, operation] :
       {std::pair<std::string, std::string>{"calls", "call"}, {"bulk_reductions", "cp.reduce.async.bulk"}}) {
    Shadowed s(compiled("lost"));
    const auto in = random_floats(kInputs);
    const Address out = s.machine.array(std::vector<float>(kOutputs));
    ASSERT_EQ(s.machine.launch(kernel, {1}, {32}, {s.machine.array(in), out}).fault.message, "");
    const Profile profile = s.profile_of(out, kOutputs * 4);
    ASSERT_FALSE(profile.retaken.empty()) << kernel;
    EXPECT_EQ(profile.retaken[0].operation.rfind(operation, 0), 0u) << profile.retaken[0].operation;
    EXPECT_GT(profile.retaken[0].count, 0u);
  }
}

}  // namespace
}  // namespace assay::shadow
