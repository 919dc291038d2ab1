// What a user demands of a certificate: a TOML file.
//
// Example:
//
//     Result<Policy> policy = parse_policy("devices = [\"cuda\"]\n", "policy.toml");
//     for (const std::string& why : unmet(*policy, Certificate{}, std::chrono::system_clock::now())) use(why);
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "certificate/certificate.h"

namespace assay::certificate {

struct DemandedDim {
  std::string name;
  std::optional<int64_t> min, max;
};

struct Policy {
  std::vector<std::string> devices;        // kinds on which the check has passed
  std::vector<std::string> architectures;  // one of them is the certificate's; empty: any
  std::vector<std::string> contracts;      // SHA-256; one of them is the certificate's; empty: any
  std::vector<std::string> proofs;         // obligations that are proved of every kernel
  std::vector<DemandedDim> dims;           // the range that trials have covered
  std::optional<double> max_age_days;
  std::string min_assay;  // version; empty: any
  uint64_t min_trials = 0;
  bool training = false;       // a training run has passed, too
  bool allow_warnings = true;  // findings that did not make the check fail
};

Result<Policy> parse_policy(std::string_view text, const std::string& path);

// A line for each demand that the certificate does not meet.
std::vector<std::string> unmet(const Policy& policy, const Certificate& certificate,
                               std::chrono::system_clock::time_point now);

// "2026-11-16T14:10:00Z", both ways.
std::string time_text(std::chrono::system_clock::time_point time);
std::optional<std::chrono::system_clock::time_point> time_of(std::string_view text);

}  // namespace assay::certificate
