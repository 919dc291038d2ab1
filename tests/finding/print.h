// How a failed expectation shows kinds and findings.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "finding/json.h"
#include "finding/message.h"

namespace assay {

inline void PrintTo(Kind kind, std::ostream* out) {
  *out << to_string(kind);
}

// The kind, the message and all the evidence.
inline std::string shown(const Finding& finding) {
  return fmt::format("{}: {}\n{}", to_string(finding.kind), message(finding),
                     to_json(finding)["evidence"].dump(1));
}

}  // namespace assay
