#include "assayer/coverage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/random.h"

namespace assay::assayer {

namespace fs = std::filesystem;
using contract::Contract;
using trial::RequirementGroup;
using trial::Trial;

namespace {

// All chosen.
constexpr std::size_t kMostNamed = 6;       // requirements that a message names
constexpr std::size_t kMostText = 1 << 20;  // bytes of all files that a report holds; of more, it holds none
constexpr int kNameDigits = 12;             // hexadecimal, of the hash that a record's name is

constexpr RequirementGroup kGroups[] = {RequirementGroup::Conditions, RequirementGroup::Inputs,
                                        RequirementGroup::Corners,    RequirementGroup::Edges,
                                        RequirementGroup::Thresholds, RequirementGroup::Giants,
                                        RequirementGroup::Shapes};

std::string requirement_text(const trial::Requirement& requirement) {
  const bool inputs = requirement.group == RequirementGroup::Inputs;
  return (inputs ? "inputs " : "") + requirement.text;
}

Json margins_json(const judge::Margins& margins) {
  Json gates = Json::object();
  for (std::size_t i = 0; i < judge::Margins::kGates; ++i) {
    const auto gate = static_cast<judge::Gate>(i);
    const judge::Margin& margin = margins.of(gate);
    if (!margin.measured()) continue;
    Json& one =
        gates[std::string(judge::constant_of(gate))] = {{"below", margin.below}, {"largest", margin.largest}};
    if (std::isfinite(margin.beyond)) one["beyond"] = margin.beyond;
  }
  return gates;
}

}  // namespace

void Coverage::add(const Trial& trial, std::string_view stage, const TrialResult& result) {
  ++trials_;
  ++stages_[std::string(stage)];
  shapes_.insert(contract::to_string(trial.shape));
  for (const auto& [name, family] : trial.families) families_.insert(std::string(trial::to_string(family)));
  const auto elements = trial::size_of(contract_, trial.shape);
  if (trial.sampled) {
    ++sampled_;
    for (const auto& [name, value] : trial.shape) sampled_dims_[name] = std::max(sampled_dims_[name], value);
    if (elements) largest_sampled_ = std::max(largest_sampled_, elements->elements);
    if (!result.sampled.not_judged.empty()) unjudged_.insert(result.sampled.not_judged);
    judged_ += result.judged;
    elements_ += result.judged;
    undecided_ += result.undecided;
    return;
  }
  for (const auto& [name, value] : trial.shape) {
    auto [it, added] = dims_.try_emplace(name, value, value);
    it->second.first = std::min(it->second.first, value);
    it->second.second = std::max(it->second.second, value);
  }
  if (elements && !trial.sparse.empty()) {
    largest_sparse_ = std::max(largest_sparse_, elements->elements);
  } else if (elements && elements->elements > largest_) {
    largest_ = elements->elements;
    largest_shape_ = trial.shape;
  }
  wider_.insert(result.wider_budgets.begin(), result.wider_budgets.end());
  judged_ += result.judged;
  elements_ += result.elements;
  undecided_ += result.undecided;
  margins_.add(result.margins);
  for (const auto& [name, family] : trial.families)
    errors_[std::string(trial::to_string(family))].add(result.errors);
}

// How large errors were on the inputs for which they were largest. Families of few elements say nothing.
Json Coverage::errors() const {
  constexpr int64_t kLeastElements = 1000;
  using judge::ErrorProfile;
  std::vector<double> beyond(ErrorProfile::kEdges.size());
  int64_t elements = 0;
  for (const auto& [family, errors] : errors_) {
    if (errors.elements < kLeastElements) continue;
    elements += errors.elements;
    for (std::size_t i = 0; i < beyond.size(); ++i) beyond[i] = std::max(beyond[i], errors.share(i));
  }
  return {{"elements", elements}, {"edges", ErrorProfile::kEdges}, {"beyond", beyond}};
}

void Coverage::miss_sample(const std::string& why) {
  if (unsampled_.insert(why).second) miss("giant shapes by a sample of the blocks: " + why);
}

void Coverage::miss_dims() {
  for (const std::string& why : unjudged_) miss("the numbers of giant shapes: " + why);
  for (const contract::Dim& dim : contract_.dims) {
    const auto tried = dims_.find(dim.name);
    if (tried == dims_.end()) continue;
    const int64_t least = tried->second.first;
    const auto sampled = sampled_dims_.find(dim.name);
    const int64_t most =
        std::max(tried->second.second, sampled == sampled_dims_.end() ? int64_t{0} : sampled->second);
    if (most < dim.highest())
      miss(fmt::format("{} beyond {} (promised up to {})", dim.name, most, dim.highest()));
    if (least > dim.lowest())
      miss(fmt::format("{} below {} (promised from {})", dim.name, least, dim.lowest()));
  }
}

void Coverage::conclude(const trial::Plan& plan) {
  planned_ = static_cast<int>(plan.planned());
  left_ = static_cast<int>(plan.left());
  requirements_ = plan.requirements();
  thresholds_ = plan.thresholds().compared();
}

std::string Coverage::too_little(double min_share) const {
  const auto [met, of] = requirements_.count();
  if (met < of) {
    std::vector<std::string> named;
    for (const trial::Requirement* requirement : requirements_.open()) {
      if (named.size() == kMostNamed) {
        named.push_back(fmt::format("and {} more", of - met - kMostNamed));
        break;
      }
      named.push_back(requirement_text(*requirement));
    }
    return fmt::format("{} of the {} trials that a pass requires: {}", of - met, of, fmt::join(named, "; "));
  }
  if (share() >= min_share) return "";
  return fmt::format("{} of {} planned trials ({:.0f} %), but --min-coverage requires {:.0f} %", left_,
                     planned_, 100 * share(), 100 * min_share);
}

Json Coverage::json() const {
  Json json, dims = Json::object(), stages = Json::object();
  json["trials"] = trials_;
  json["shapes"] = shapes_.size();
  json["elements"] = elements_;
  json["elements_judged"] = judged_;
  json["elements_undecided"] = undecided_;
  for (const contract::Dim& dim : contract_.dims) {
    const auto tried = dims_.find(dim.name);
    if (tried == dims_.end()) continue;
    dims[dim.name] = {{"tried_min", tried->second.first},
                      {"tried_max", tried->second.second},
                      {"promised_min", dim.lowest()},
                      {"promised_max", dim.highest()}};
    if (const auto sampled = sampled_dims_.find(dim.name);
        sampled != sampled_dims_.end() && sampled->second > tried->second.second)
      dims[dim.name]["sampled_max"] = sampled->second;
  }
  for (const auto& [stage, count] : stages_) stages[stage] = count;
  json["dims"] = dims;
  json["stages"] = stages;
  json["inputs"] = families_;
  json["tensor_cores"] = !wider_.empty();
  if (!wider_.empty()) json["wider_budgets"] = wider_;
  json["not_covered"] = missed_;
  if (Json gates = margins_json(margins_); !gates.empty()) json["gates"] = std::move(gates);
  if (!errors_.empty()) json["errors"] = errors();
  json["largest"] = {{"elements", largest_}, {"shape", largest_shape_}};
  contract::Shape whole;
  for (const contract::Dim& dim : contract_.dims) whole[dim.name] = dim.highest();
  if (const auto promised = trial::size_of(contract_, whole))
    json["largest"]["promised_elements"] = promised->elements;
  if (largest_sampled_ > 0) {
    json["largest"]["sampled_elements"] = largest_sampled_;
    json["sampled_trials"] = sampled_;
  }
  if (largest_sparse_ > 0) json["largest"]["sparse_elements"] = largest_sparse_;
  if (planned_ == 0) return json;
  json["planned"] = planned_;
  json["planned_run"] = planned_ - left_;
  Json required = Json::object(), open = Json::array();
  const auto all = requirements_.count();
  required["met"] = all.met;
  required["of"] = all.of;
  for (const RequirementGroup group : kGroups) {
    const auto count = requirements_.count(group);
    if (count.of > 0) required["groups"][to_string(group)] = {{"met", count.met}, {"of", count.of}};
  }
  for (const trial::Requirement* requirement : requirements_.open())
    open.push_back(requirement_text(*requirement));
  required["missing"] = open;
  json["required"] = required;
  json["thresholds"] = thresholds_;
  return json;
}

Json files_of(const Contract& contract, const subject::Subject& subject) {
  std::vector<std::string> paths = {fs::absolute(contract.path).lexically_normal().string()};
  paths.insert(paths.end(), subject.files.begin(), subject.files.end());
  Json files = Json::array();
  std::size_t size = 0;
  for (const std::string& path : paths) {
    auto text = read_file(path);
    if (!text || (size += text->size()) > kMostText) return Json::array();
    files.push_back({{"path", path}, {"text", std::move(*text)}});
  }
  return files;
}

std::string save_trial(const Contract& contract, const CheckOptions& options, const Finding& finding,
                       const Trial& trial, const Json& files) {
  const fs::path cache = subject::cache_folder(options.cache);
  std::error_code error;
  fs::create_directories(cache / "trials", error);
  Json json;
  json["assay"] = "1";
  json["contract"] = fs::absolute(contract.path).lexically_normal().string();
  json["device"] = options.device == subject::Device::Virtual ? "virtual" : "cuda";
  json["findings"] =
      Json::array({{{"kind", to_string(finding.kind)}, {"evidence", {{"trial", trial::to_json(trial)}}}}});
  json["files"] = files;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  const fs::path path =
      cache / "trials" / fmt::format("{:0{}x}.json", hash(text) >> (64 - 4 * kNameDigits), kNameDigits);
  std::ofstream file(path);
  file << text << "\n";
  return file.flush() ? path.string() : "";
}

}  // namespace assay::assayer
