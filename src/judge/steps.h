// From observations to reported findings: a sequence of pure steps, each from findings to findings. No step
// runs anything or reads English. A step uses only what is in `Known`; if that says nothing about a finding,
// the step leaves it unchanged.
//
//   measured     judge.h: outputs against the reference; the virtual GPU's checks for everything else
//   placed       addresses become elements of the contract's tensors
//   attributed   a condition under which the failure goes away is its cause, and gives it its kind
//   screened     one finding for each cause; the others are its consequences
//   explained    shadow execution: the line at which most of the error enters
//   named        the code: a sum that is kept in a narrow type, where the error enters there
//
// The assayer decides what to run, and sends a failure through the list once the runs have given their results:
//
//     findings = diagnose(std::move(findings), {.contract = &contract, .cause = cause, .apart = false});
//     findings = diagnose(std::move(findings), {.contract = &contract, .profile = profile, .notes = notes});
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/contract.h"
#include "finding/finding.h"

namespace assay::judge {

// What running the failing trial under changed conditions has shown (assayer/experiments.cpp).
struct FoundCause {
  Cause cause = Cause::None;
  std::string difference{};  // between runs that must agree: "y[3] is 1.5 and then 2"
};

struct Known {
  const contract::Contract* contract = nullptr;
  const contract::Shape* shape = nullptr;    // of the trial: for places
  std::optional<FoundCause> cause{};         // for attribution
  std::optional<bool> apart{};               // whether findings of one kind are kept apart: for screening
  std::shared_ptr<const Profile> profile{};  // of shadow execution: for explanation
  std::span<const Finding> notes{};          // from the code: for names
};

struct Step {
  std::string_view name;
  std::vector<Finding> (*apply)(std::vector<Finding>, const Known&);
};
// In order.
std::span<const Step> steps();
std::vector<Finding> diagnose(std::vector<Finding> findings, const Known& known);

// The steps, for whoever needs one alone.
std::vector<Finding> placed(std::vector<Finding> findings, const Known& known);
std::vector<Finding> attributed(std::vector<Finding> findings, const Known& known);
std::vector<Finding> screened(std::vector<Finding> findings, const Known& known);
std::vector<Finding> explained(std::vector<Finding> findings, const Known& known);
std::vector<Finding> named(std::vector<Finding> findings, const Known& known);

// The kind of finding that a cause gives.
Kind kind_of(Cause cause);

// A race between kernels, copies and fills, not within one of them.
bool is_between_operations(const Finding& finding);

// Where most of an output's error enters, if one line stands out and the errors that shadow execution saw
// explain the finding.
std::optional<evidence::ErrorLine> error_line(const Finding& finding, const Profile& profile);

}  // namespace assay::judge
