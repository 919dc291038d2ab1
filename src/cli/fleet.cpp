// assay fleet: what the assayd of many machines have seen of the same kernels, judged together (monitor/fleet.h).
//
// Exit status: 0 no kernel is wrong; 1 one is; 2 wrong use; 3 an assayd did not answer, and what the others say is all right.
#include "monitor/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/http_get.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"

namespace assay::cli {

namespace {

constexpr int kWrong = 1, kIncomplete = 3;  // exit status
constexpr std::string_view kPath = "/evidence";

struct FleetOptions {
  std::vector<std::string> places;
  double rate = 0.001;
  int timeout = 5;
  std::string json;
};

// An address of assayd, or a file with what it answered.
Result<std::vector<monitor::SeenKernel>> seen_at(const std::string& place, int seconds) {
  const bool is_unix = place.starts_with("unix:");
  if (!is_unix && !place.starts_with("http://")) {
    const auto text = read_file(place);
    if (!text) return Error{text.error().message, place};
    return monitor::decode_evidence(*text, place);
  }
  std::string address = place;
  while (!is_unix && address.ends_with('/')) address.pop_back();
  const auto text = http_get(address + (is_unix ? ":" : "") + std::string(kPath), seconds);
  if (!text) return text.error();
  return monitor::decode_evidence(*text, place);
}

nlohmann::json json_of(const monitor::FleetKernel& one) {
  return {{"kernel", one.kernel},
          {"contract", one.contract},
          {"library", one.build},
          {"places", one.places},
          {"samples", one.samples},
          {"alarms", one.alarms},
          {"log10_e_value", one.log10_e_value},
          {"wrong", one.is_wrong},
          {"worst",
           {{"gpu", one.worst.gpu}, {"at", one.worst.place}, {"log10_e_value", one.worst.log10_e_value}}}};
}

void print_table(const std::vector<monitor::FleetKernel>& fleet) {
  std::size_t wide = 6;
  for (const monitor::FleetKernel& one : fleet) wide = std::max(wide, one.kernel.size());
  fmt::print("{:<{}}  {:<12}  {:>5}  {:>10}  {:>6}  {:>8}\n", "kernel", wide, "build", "GPUs", "samples",
             "alarms", "evidence");
  for (const monitor::FleetKernel& one : fleet) {
    fmt::print("{:<{}}  {:<12}  {:>5}  {:>10}  {:>6}  {:>8}{}\n", one.kernel, wide,
               one.build.empty() ? "unknown" : one.build, one.places, one.samples, one.alarms,
               fmt::format("10^{:.1f}", one.log10_e_value), one.is_wrong ? "  WRONG" : "");
    if (one.is_wrong || one.alarms > 0)
      fmt::print("{:<{}}  most of it on {} at {} (10^{:.1f})\n", "", wide, one.worst.gpu, one.worst.place,
                 one.worst.log10_e_value);
  }
}

}  // namespace

int fleet_command(std::vector<std::string> args) {
  Arguments arguments(
      "Reads the evidence of assayd on several machines, averages it for each kernel over all GPUs, and says "
      "which kernels are wrong.",
      "assay fleet");
  FleetOptions options;
  arguments
      .add("place", options.places,
           "assayd: http://host:9464, unix:SOCKET, or a file with the answer of /evidence")
      .required();
  arguments
      .add("--rate NUMBER", options.rate,
           "at most this share of the kernels that evidence calls wrong is correct, on average; 0.001 by "
           "default")
      .positive();
  arguments.add("--timeout SECONDS", options.timeout, "seconds to wait for each assayd; 5 by default")
      .positive();
  arguments.add("--json FILE", options.json, "write the result to this file");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (options.rate >= 1) {
    fmt::print(stderr, "assay: --rate must be below 1\n");
    return kWrongUse;
  }
  std::vector<monitor::SeenKernel> seen;
  std::vector<std::string> silent;
  for (const std::string& place : options.places) {
    auto here = seen_at(place, options.timeout);
    if (!here) {
      fmt::print(stderr, "{}\n", diagnostic(here.error()));
      silent.push_back(place);
      continue;
    }
    seen.insert(seen.end(), here->begin(), here->end());
  }
  const std::vector<monitor::FleetKernel> fleet = monitor::judge_fleet(seen, options.rate);
  print_table(fleet);
  if (!silent.empty())
    fmt::print("{} of {} assayd did not answer: their kernels are not in this table\n", silent.size(),
               options.places.size());
  if (!options.json.empty()) {
    nlohmann::json kernels = nlohmann::json::array();
    for (const monitor::FleetKernel& one : fleet) kernels.push_back(json_of(one));
    const nlohmann::json all = {{"rate", options.rate}, {"silent", silent}, {"kernels", std::move(kernels)}};
    if (!write_text(options.json, all.dump(2) + "\n")) return kWrongUse;
  }
  const bool is_wrong = std::ranges::any_of(
      fleet, [](const monitor::FleetKernel& one) { return one.is_wrong || one.alarms > 0; });
  return is_wrong ? kWrong : silent.empty() ? 0 : kIncomplete;
}

}  // namespace assay::cli
