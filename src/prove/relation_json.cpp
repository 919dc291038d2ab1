// The launch relation as JSON, so that programs can hold launches against it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "prove/relation.h"

namespace assay::prove {

namespace {

// A number without an expression is null: any value is possible.
Json json_of(const ExprPtr& expr) {
  return expr ? Json(text(*expr)) : Json();
}

Json json_of(const std::map<uint32_t, ExprPtr>& numbers) {
  Json json = Json::object();
  for (const auto& [at, expr] : numbers) json[fmt::format("{}", at)] = json_of(expr);
  return json;
}

Json json_of(const Launch& launch) {
  Json when = Json::array(), pointers = Json::object();
  for (const Condition& condition : launch.when)
    when.push_back(
        {{"kind", static_cast<int>(condition.kind)}, {"dim", condition.dim}, {"value", condition.value}});
  for (const auto& [at, pointer] : launch.pointers)
    pointers[fmt::format("{}", at)] = {{"array", pointer.array}, {"offset", json_of(pointer.offset)}};
  Json grid = Json::array(), block = Json::array();
  for (size_t axis = 0; axis < 3; ++axis) {
    grid.push_back(json_of(launch.grid[axis]));
    block.push_back(json_of(launch.block[axis]));
  }
  return {{"kernel", launch.kernel},
          {"when", when},
          {"grid", grid},
          {"block", block},
          {"dynamic_shared", json_of(launch.dynamic_shared)},
          {"static_shared", launch.static_shared},
          {"shared_limit", json_of(launch.shared_limit)},
          {"clusters", launch.clusters},
          {"cooperative", launch.cooperative},
          {"parameter_bytes", launch.parameter_bytes},
          {"pointers", pointers},
          {"words", json_of(launch.words)},
          {"pairs", json_of(launch.pairs)}};
}

}  // namespace

Json to_json(const Relation& relation) {
  Json cases = Json::array();
  for (const Case& one : relation.cases) {
    Json launches = Json::array();
    for (const Launch& launch : one.launches) launches.push_back(json_of(launch));
    cases.push_back({{"launches", launches}, {"filled", one.filled}});
  }
  return cases;
}

}  // namespace assay::prove
