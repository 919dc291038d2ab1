#include "protocol/checks.h"

#include <algorithm>

namespace assay::protocol {

namespace {

constexpr CheckInfo kChecks[] = {
#define ASSAY_CHECK(id, name, in_run, in_check, listener, summary) \
  {Check::id, name, in_run, in_check, summary},
#include "protocol/checks.def"
#undef ASSAY_CHECK
};
static_assert(std::size(kChecks) <= 32, "a CheckSet has 32 bits");

CheckSet checks_with(bool CheckInfo::*column) {
  CheckSet set;
  for (const CheckInfo& check : kChecks)
    if (check.*column) set.add(check.id);
  return set;
}

std::string known_names() {
  std::string names = "all, none";
  for (const CheckInfo& check : kChecks) names += ", " + std::string(check.name);
  return names;
}

}  // namespace

std::span<const CheckInfo> all_checks() {
  return kChecks;
}

CheckSet CheckSet::for_run() {
  return checks_with(&CheckInfo::in_run);
}

CheckSet CheckSet::for_check() {
  return checks_with(&CheckInfo::in_check);
}

Result<CheckSet> CheckSet::parse(std::string_view list) {
  CheckSet set;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    if (name == "none") continue;
    if (name == "all") {
      set.bits_ |= for_run().bits_;
      continue;
    }
    const auto found = std::find_if(std::begin(kChecks), std::end(kChecks),
                                    [&](const CheckInfo& check) { return check.name == name; });
    if (found == std::end(kChecks))
      return Error{"unknown check '" + std::string(name) + "'; the checks are: " + known_names()};
    set.add(found->id);
  }
  return set;
}

std::string CheckSet::text() const {
  std::string list;
  for (const CheckInfo& check : kChecks)
    if (has(check.id)) list += (list.empty() ? "" : ",") + std::string(check.name);
  return list.empty() ? "none" : list;
}

}  // namespace assay::protocol
