// Random kernels: what is proved of one, no run on the virtual GPU contradicts. fuzz/prove_fuzzer.cpp does the same for
// as long as one likes; so does ASSAY_RANDOM_KERNELS=FIRST:SECONDS here, from that seed on.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "fuzz/contradiction.h"

namespace assay::fuzz {
namespace {

RandomCall call_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(900);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  Choices choices(bytes.data(), bytes.size());
  return random_call(choices);
}

TEST(RandomKernels, contradict_no_proof) {
  constexpr int kKernels = 40;
  uint64_t seed = 1;
  double seconds = 0;
  if (const char* wanted = std::getenv("ASSAY_RANDOM_KERNELS"))
    std::sscanf(wanted, "%lu:%lf", &seed, &seconds);
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Tally tally;
  const uint64_t first = seed;
  for (; seconds > 0 ? spent() < seconds : seed < first + kKernels; ++seed) {
    const std::string text = contradiction(call_of(seed), tally);
    EXPECT_EQ(text, "") << "seed " << seed;
  }
  std::string proved;
  for (const auto& [name, count] : tally.proved) proved += fmt::format(" {} {}", name, count);
  std::string violated;
  for (const auto& [name, count] : tally.violated) violated += fmt::format(" {} {}", name, count);
  std::printf(
      "%d calls (seeds %lu to %lu) with %d launches, %d not modelled, %d runs; proved:%s; seen to fail:%s\n",
      tally.calls, first, seed - 1, tally.launches, tally.refused, tally.runs, proved.c_str(),
      violated.c_str());
  // A test of proofs needs some.
  for (const char* name : {"launch", "bounds", "overflow", "alignment", "barrier", "race", "coverage"})
    EXPECT_GE(tally.proved[name], 1) << name;
}

}  // namespace
}  // namespace assay::fuzz
