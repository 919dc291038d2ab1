// A finding: a proven or measured defect, with its evidence. Kinds are those of the contract's
// manual; the table in finding.cpp holds them all.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace assay::judge {

using Json = nlohmann::ordered_json;

enum class Severity : uint8_t { Warning, Error };
std::string_view to_string(Severity severity);

struct Where {
  std::string file;
  int line = 0;  // 0: unknown
};

struct Finding {
  std::string kind;
  Severity severity = Severity::Error;
  std::string message;
  Where where;
  Json evidence = Json::object();
  std::string reproduce;
};

struct KindInfo {
  std::string_view kind;
  int weight;  // what a reader should see first: memory safety before numerics, causes before symptoms
  std::string_view summary;
};
std::span<const KindInfo> kinds();
const KindInfo* kind_named(std::string_view kind);

enum class Verdict : uint8_t { Pass, Fail, Inconclusive };
std::string_view to_string(Verdict verdict);
int exit_status(Verdict verdict);

}  // namespace assay::judge
