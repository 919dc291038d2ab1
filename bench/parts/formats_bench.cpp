// How fast exact conversions to and from the narrow formats are; the judge lives on them.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "numerics/formats.h"

namespace {

using assay::numerics::Format;

void decode(benchmark::State& state, Format format) {
  uint64_t code = 0;
  for (auto _ : state) benchmark::DoNotOptimize(assay::numerics::to_double(format, code++ & 0x7f));
}

void encode(benchmark::State& state, Format format) {
  double x = 1.0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(assay::numerics::from_double(format, x));
    x = x < 100.0 ? x * 1.0009765625 : 1.0;
  }
}

BENCHMARK_CAPTURE(decode, bf16, Format::BF16);
BENCHMARK_CAPTURE(decode, e4m3, Format::E4M3);
BENCHMARK_CAPTURE(encode, bf16, Format::BF16);
BENCHMARK_CAPTURE(encode, e4m3, Format::E4M3);

}  // namespace
