// Which source line a numeric finding is about, before anything was followed (judge/steps.h).
#pragma once

#include <span>
#include <string_view>

#include "contract/contract.h"
#include "finding/finding.h"

namespace assay::assayer {

// The first line whose code makes findings of this kind likely; null: none does.
const Where* suspected(std::span<const Finding> notes, Kind kind);

// Gives a finding without a line the one that its kind's notes suspect; else that on which the entry or the
// kernel begins.
void locate(const contract::Contract& contract, std::span<const Finding> notes, Finding& finding);

// A path as the user would name it: relative to where they are, if it is below.
std::string shown(const std::string& path);

}  // namespace assay::assayer
