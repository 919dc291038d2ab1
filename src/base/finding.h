// A finding: a proven or measured defect, with its evidence. Kinds are those of docs/findings.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace assay {

using Json = nlohmann::ordered_json;

enum class Severity : uint8_t { Note, Warning, Error };

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

}  // namespace assay
