#include "cudart/settings.h"

#include <cstdlib>

namespace assay::cudart {
namespace {

std::string text(const char* name, std::string otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

uint64_t number(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 0) : 0;
}

const Gpu* gpu() {
  const Gpu* named = gpu_named(text("ASSAY_GPU"));
  return named ? named : &kGpus[0];
}

}  // namespace

Settings settings_from_environment() {
  return {.seed = number("ASSAY_SEED"),
          .threads = static_cast<unsigned>(number("ASSAY_THREADS")),
          .gpu = gpu(),
          .check = text("ASSAY_CHECK", "none"),
          .precision_lines = text("ASSAY_PRECISION_LINES"),
          .report = text("ASSAY_REPORT"),
          .suppressions = text("ASSAY_SUPPRESSIONS"),
          .max_instructions = number("ASSAY_MAX_INSTRUCTIONS"),
          .stall_milliseconds = number("ASSAY_STALL_MS"),
          .faults = number("ASSAY_FAULTS") != 0,
          .record = number("ASSAY_RECORD") != 0,
          .quiet = number("ASSAY_QUIET") != 0};
}

}  // namespace assay::cudart
