#include "assayer/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "trial/random.h"

namespace assay::assayer {

namespace fs = std::filesystem;
using contract::Contract;
using trial::Trial;

void Coverage::add(const Trial& trial, std::string_view stage, const Attempt& attempt) {
  ++trials_;
  ++stages_[std::string(stage)];
  shapes_.insert(contract::to_string(trial.shape));
  for (const auto& [name, family] : trial.families) families_.insert(std::string(trial::to_string(family)));
  for (const auto& [name, value] : trial.shape) {
    auto [it, added] = dims_.try_emplace(name, value, value);
    it->second.first = std::min(it->second.first, value);
    it->second.second = std::max(it->second.second, value);
  }
  judged_ += attempt.judged;
  elements_ += attempt.elements;
  undecided_ += attempt.undecided;
}

void Coverage::miss_dims() {
  for (const contract::Dim& dim : contract_.dims) {
    const auto tried = dims_.find(dim.name);
    if (tried == dims_.end()) continue;
    const auto [least, most] = tried->second;
    if (most < dim.highest())
      miss(fmt::format("{} beyond {} (promised up to {})", dim.name, most, dim.highest()));
    if (least > dim.lowest())
      miss(fmt::format("{} below {} (promised from {})", dim.name, least, dim.lowest()));
  }
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
  }
  for (const auto& [stage, count] : stages_) stages[stage] = count;
  json["dims"] = dims;
  json["stages"] = stages;
  json["inputs"] = families_;
  json["not_covered"] = missed_;
  return json;
}

Json files_of(const Contract& contract, const subject::Subject& subject) {
  constexpr std::size_t kMostText = 1 << 20;
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
      Json::array({{{"kind", finding.kind}, {"evidence", {{"trial", trial::to_json(trial)}}}}});
  json["files"] = files;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  const fs::path path = cache / "trials" / fmt::format("{:012x}.json", trial::hash(text) >> 16);
  std::ofstream file(path);
  file << text << "\n";
  return file.flush() ? path.string() : "";
}

}  // namespace assay::assayer
