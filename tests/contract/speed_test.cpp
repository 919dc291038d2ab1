// The speed that the reference is held to, per second of one core: run with
// ASSAY_SPEED=1, or with the name of one case.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "operators.h"

namespace assay::contract {
namespace {

using namespace testing;

double seconds_of(const Contract& contract, const Bindings& bindings, const std::string& output) {
  const Reference reference = reference_of(contract);
  timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);  // others may be at work too
  Result<Expectation> e = reference.expect_all(bindings, output, {.threads = 1});
  EXPECT_TRUE(e) << e.error().text();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  return static_cast<double>(after.tv_sec - before.tv_sec) +
         1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
}

TEST(Speed, ProductsAndReductions) {
  if (!std::getenv("ASSAY_SPEED")) GTEST_SKIP() << "set ASSAY_SPEED=1";
  struct Case {
    const char* name;
    Shape shape;
    double work;      // multiply-adds, or elements
    double at_least;  // per second
  };
  const Case kCases[] = {
      {"matmul", {{"M", 256}, {"N", 512}, {"K", 1024}}, 256.0 * 512 * 1024, 1e8},
      {"batched_matmul_nt", {{"B", 2}, {"M", 128}, {"N", 256}, {"K", 512}}, 2.0 * 128 * 256 * 512, 1e8},
      {"embedding_grad", {{"T", 16384}, {"D", 1024}, {"V", 8192}}, 16384.0 * 1024, 1e7},
      {"rmsnorm_dw", {{"N", 16384}, {"D", 1024}}, 2 * 16384.0 * 1024, 3e7},
      {"layernorm", {{"N", 4096}, {"D", 1024}}, 4096.0 * 1024, 3e6},
      {"softmax", {{"N", 2048}, {"D", 1024}}, 2048.0 * 1024, 2e6},
      {"add_bias", {{"N", 4096}, {"D", 1024}}, 4096.0 * 1024, 1e7},
  };
  const std::string only = std::getenv("ASSAY_SPEED");
  for (const Case& one : kCases) {
    if (only != "1" && only != one.name) continue;
    const Contract contract = parsed(toml_of(operator_named(one.name)));
    Contract shaped = contract;
    shaped.shapes[0] = one.shape;
    const Bindings bindings = draw_bindings(shaped, 1);
    const double rate = one.work / seconds_of(contract, bindings, contract.outputs()[0]->name);
    std::printf("%-20s %10.3g a second\n", one.name, rate);
    EXPECT_GE(rate, one.at_least) << one.name;
  }
}

}  // namespace
}  // namespace assay::contract
