// Which source line a numeric finding is about, before anything was followed (judge/steps.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/contract.h"
#include "finding/finding.h"

namespace assay::assayer {

// The first line whose code makes findings of this kind likely; null: none does.
const Where* suspected(std::span<const Finding> notes, Kind kind);

// The kernel that a Python subject launched last: as a rule, the one that wrote the outputs.
struct LastKernel {
  std::string symbol;
  Where where;        // where it is defined; line 0: not known
  Frame launched_at;  // line 0: not known
};

// Gives a finding without a line the one that its kind's notes suspect; else, of numbers, that of the kernel that ran
// last; else that on which the entry or the kernel begins.
void locate(const contract::Contract& contract, std::span<const Finding> notes,
            const std::optional<LastKernel>& last, Finding& finding);

// Names the originals of files that a tool has copied (contract::Origin), as long as they are what was copied.
void name_originals(const contract::Contract& contract, std::vector<Finding>& findings);

// A path as the user would name it: relative to where they are, if it is below.
std::string shown(const std::string& path);

}  // namespace assay::assayer
