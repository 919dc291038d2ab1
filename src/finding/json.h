// Findings as JSON, both ways: the only place that knows the names of the fields. Reports, the event lines of
// the process under test and `assay replay` all use it.
//
//     Json json = to_json(finding);                            // with its message, for a report
//     Json event = to_event(finding);                          // without: evidence alone
//     Result<Finding> seen = finding_from_event(event);        // of an untrusted process
//
// Reading checks every field by its type, its range and its length. From an event it accepts only kinds that
// the device reports (kinds.def), and only the fields that the device knows.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "finding/finding.h"

namespace assay {

using Json = nlohmann::ordered_json;

Json to_json(const Finding& finding);
Json to_event(const Finding& finding);
Result<Finding> finding_from_event(const Json& json);

Json to_json(const Profile& profile);
Result<Profile> profile_from_json(const Json& json);

}  // namespace assay
