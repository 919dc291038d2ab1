// Kinds of finding, and verdicts. The table in finding.cpp holds every kind of the contract's manual.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/finding.h"

namespace assay::judge {

using assay::Finding;
using assay::Json;
using assay::Severity;
using assay::Where;

std::string_view to_string(Severity severity);

struct KindInfo {
  std::string_view kind;
  int weight;  // what a reader should see first: memory safety before numerics, causes before symptoms
  std::string_view summary;
};
std::span<const KindInfo> kinds();
const KindInfo* kind_named(std::string_view kind);

enum class Verdict : uint8_t { Pass, Fail, Inconclusive };
std::string_view to_string(Verdict verdict);
int exit_status(Verdict verdict);

}  // namespace assay::judge
