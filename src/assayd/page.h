// The page of assayd: what it watches, and the alarms.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assayd/watched.h"

namespace assay::assayd {

struct KernelRow {
  Watched::Identity who;
  uint64_t calls = 0, judged = 0, dropped = 0, unjudged = 0, elements = 0, wrong = 0;
  double log10_evidence = 0;
  std::optional<double> drift;
  std::optional<bool> certificate_valid;
  std::string certificate_problem;
  bool has_alarm = false;
};

// Of assayd itself.
struct PageTotals {
  uint64_t applications = 0, refused = 0, alarms_not_on_disk = 0;
  uint64_t captures = 0, captures_dropped = 0, write_errors = 0;
};

std::string page_of(const std::vector<KernelRow>& rows, const std::map<std::string, nlohmann::json>& alarms,
                    const PageTotals& totals);

}  // namespace assay::assayd
