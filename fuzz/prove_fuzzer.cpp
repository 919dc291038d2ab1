// A proof that the virtual GPU contradicts: every input is a random call of small kernels (random_calls.h), which is proved as far
// as it can be and then run at every shape of a small box (contradiction.h).
//   build/fuzz/bin/fuzz_prove -max_len=900 <a folder for what it finds>
#include <cstdio>
#include <cstdlib>

#include "fuzz/contradiction.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::fuzz;
  Choices choices(data, size);
  Tally tally;
  const std::string text = contradiction(random_call(choices), tally);
  if (text.empty()) return 0;
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}
