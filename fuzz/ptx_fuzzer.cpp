// Any bytes give a module or an error with a place; a module prints, and what it prints parses to
// the same text again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ptx/module.h"

namespace {

[[noreturn]] void report(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Result<ptx::Module> module = ptx::parse(text, "fuzz");
  if (!module) {
    const Error& error = module.error();
    if (error.message.empty() || error.line < 1) report("an error without its place:", error.text());
    return 0;
  }
  std::string printed = ptx::print(*module);
  Result<ptx::Module> again = ptx::parse(printed, "printed");
  if (!again) report("what was printed does not parse:", again.error().text() + "\n" + printed);
  std::string twice = ptx::print(*again);
  if (twice != printed) report("printing is not stable:", printed + "\n----\n" + twice);
  return 0;
}
