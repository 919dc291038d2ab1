#include "monitor/fleet.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

namespace assay::monitor {

using Json = nlohmann::json;

namespace {

constexpr int kEvidenceVersion = 1;

}  // namespace

double log10_of_average(std::span<const double> log10_values) {
  if (log10_values.empty()) return 0;
  const double largest = *std::max_element(log10_values.begin(), log10_values.end());
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const double one : log10_values) sum += std::pow(10.0, one - largest);
  return largest + std::log10(sum / static_cast<double>(log10_values.size()));
}

std::vector<bool> reject_by_e_values(std::span<const double> log10_values, double rate) {
  std::vector<std::size_t> order(log10_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return log10_values[a] > log10_values[b]; });
  std::size_t rejected = 0;
  const auto all = static_cast<double>(order.size());
  for (std::size_t k = 1; k <= order.size(); ++k)
    if (log10_values[order[k - 1]] >= std::log10(all / (static_cast<double>(k) * rate))) rejected = k;
  std::vector<bool> is_rejected(order.size());
  for (std::size_t k = 0; k < rejected; ++k) is_rejected[order[k]] = true;
  return is_rejected;
}

std::vector<FleetKernel> judge_fleet(std::span<const SeenKernel> seen, double rate) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const SeenKernel*>> kernels;
  for (const SeenKernel& one : seen) kernels[{one.kernel, one.contract, one.build}].push_back(&one);
  std::vector<FleetKernel> fleet;
  std::vector<double> e_values;
  for (const auto& [name, places] : kernels) {
    FleetKernel all{.kernel = std::get<0>(name), .contract = std::get<1>(name), .build = std::get<2>(name)};
    std::vector<double> of_places;
    all.worst = *places.front();
    for (const SeenKernel* place : places) {
      ++all.places;
      all.samples += place->samples;
      all.alarms += place->has_alarm;
      of_places.push_back(place->log10_e_value);
      if (place->log10_e_value > all.worst.log10_e_value) all.worst = *place;
    }
    all.log10_e_value = log10_of_average(of_places);
    e_values.push_back(all.log10_e_value);
    fleet.push_back(std::move(all));
  }
  const std::vector<bool> rejected = reject_by_e_values(e_values, rate);
  for (std::size_t i = 0; i < fleet.size(); ++i) fleet[i].is_wrong = rejected[i];
  std::stable_sort(fleet.begin(), fleet.end(), [](const FleetKernel& a, const FleetKernel& b) {
    return a.log10_e_value > b.log10_e_value;
  });
  return fleet;
}

std::string encode_evidence(std::span<const SeenKernel> seen) {
  Json kernels = Json::array();
  for (const SeenKernel& one : seen)
    kernels.push_back({{"kernel", one.kernel},
                       {"contract", one.contract},
                       {"library", one.build},
                       {"gpu", one.gpu},
                       {"samples", one.samples},
                       {"log10_e_value", one.log10_e_value},
                       {"alarm", one.has_alarm}});
  return Json{{"assay_evidence", kEvidenceVersion}, {"kernels", std::move(kernels)}}.dump(
             2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

Result<std::vector<SeenKernel>> decode_evidence(const std::string& text, const std::string& place) {
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (const int version = json.at("assay_evidence").get<int>(); version != kEvidenceVersion)
      return Error{"evidence of version " + std::to_string(version) + "; this Assay reads version 1", place};
    std::vector<SeenKernel> seen;
    for (const Json& one : json.at("kernels"))
      seen.push_back({one.at("kernel").get<std::string>(), one.at("contract").get<std::string>(),
                      one.at("library").get<std::string>(), one.at("gpu").get<std::string>(), place,
                      one.at("samples").get<uint64_t>(), one.at("log10_e_value").get<double>(),
                      one.at("alarm").get<bool>()});
    return seen;
  } catch (const Json::exception&) {
    return Error{"this is not evidence from assayd: expected the answer of /evidence", place};
  }
}

}  // namespace assay::monitor
