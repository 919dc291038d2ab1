// What a training run showed, for people and for machines.
//
// Example:
//
//     const Training training{"kernel.toml", "RMSNorm", "rmsnorm", "virtual", Options{}, Report{}};
//     std::string screen = terminal(training, {.colour = true});
//     Json file = to_json(training);
//     const report::Report page[] = {to_report(training)};
//     std::string html = report::html(page);  // loss curves with their noise bands
#pragma once

#include <string>
#include <vector>

#include "report/report.h"
#include "train/train.h"

namespace assay::train {

// A report and what it is about.
struct Training {
  std::string contract, title;  // path; as the contract has it
  std::string slot;
  std::string device;  // "virtual", "cuda"
  Options options;
  Report report;
  std::vector<std::string> sources{};  // of the kernel; paths
};

std::string terminal(const Training& training, const report::TerminalOptions& options);
Json to_json(const Training& training);
// As a page of the HTML report.
report::Report to_report(const Training& training);

}  // namespace assay::train
