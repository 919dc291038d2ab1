// What the device and the process of a trial reported, as findings.
//
// Everything here comes from the process under test and has been checked field by field (protocol/events.h).
// What is added on this side: elements of the contract's tensors, elements of shared arrays, lines of host
// code, paths as the user would write them.
#pragma once

#include "contract/contract.h"
#include "finding/finding.h"
#include "subject/runner.h"
#include "subject/subject.h"
#include "trial/trial.h"

namespace assay::assayer {

struct Seen {
  std::vector<Finding> findings;
  std::vector<Finding> host_warnings;  // about the host code as such: they say nothing about this trial
  std::string unsupported;             // what the virtual GPU cannot run; empty: nothing
};
Seen seen_by_device(const contract::Contract& contract, const subject::Subject& subject,
                    const trial::Trial& trial, const subject::Observation& observation);

// A call that did not end: where it was when it last reported.
Finding unended(const subject::Observation& observation, const std::string& entry);

// A finding about the process: what it died of, or how much it took.
Finding crash(std::string detail);

}  // namespace assay::assayer
