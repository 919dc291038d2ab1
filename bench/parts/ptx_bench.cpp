// How fast PTX text becomes a module, and a module text again.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "ptx/module.h"

namespace {

// The seeds of the fuzzer: small files that between them use every part of the language.
std::string read(const std::string& name) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR "/fuzz/seeds/ptx/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void parse(benchmark::State& state, const std::string& name) {
  const std::string text = read(name);
  for (auto _ : state) {
    auto module = assay::ptx::parse(text);
    if (!module) state.SkipWithError(module.error().text().c_str());
    benchmark::DoNotOptimize(module);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

BENCHMARK_CAPTURE(parse, function, "function.ptx");
BENCHMARK_CAPTURE(parse, directives, "directives.ptx");
BENCHMARK_CAPTURE(parse, triton_like, "triton_like.ptx");

}  // namespace
