// The types of the entry points do not matter here, so one shape fits all of them.
#include "driver/entries.h"

extern "C" {
#define PROVIDED(symbol, name, since) void symbol();
#define MISSING(symbol, name, since) void symbol();
#include "driver/symbols.def"
}

namespace assay::driver {
namespace {

constexpr Entry kEntries[] = {
#define PROVIDED(symbol, name, since) {#symbol, #name, since, &(symbol)},
#define MISSING(symbol, name, since) {#symbol, #name, since, &(symbol)},
#include "driver/symbols.def"
};

}  // namespace

std::span<const Entry> entries() {
  return kEntries;
}

}  // namespace assay::driver
