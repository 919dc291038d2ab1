// The launch relation as JSON, so that a process that did not infer it can hold launches against it.
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

Json json_of(const std::vector<Condition>& conditions) {
  Json json = Json::array();
  for (const Condition& condition : conditions)
    json.push_back(
        {{"kind", static_cast<int>(condition.kind)}, {"dim", condition.dim}, {"value", condition.value}});
  return json;
}

Json json_of(const Launch& launch) {
  Json pointers = Json::object();
  for (const auto& [at, pointer] : launch.pointers)
    pointers[fmt::format("{}", at)] = {
        {"array", pointer.array}, {"offset", json_of(pointer.offset)}, {"bytes", json_of(pointer.bytes)}};
  Json grid = Json::array(), block = Json::array();
  for (size_t axis = 0; axis < 3; ++axis) {
    grid.push_back(json_of(launch.grid[axis]));
    block.push_back(json_of(launch.block[axis]));
  }
  return {{"kernel", launch.kernel},
          {"when", json_of(launch.when)},
          {"grid", grid},
          {"block", block},
          {"dynamic_shared", json_of(launch.dynamic_shared)},
          {"static_shared", launch.static_shared},
          {"shared_limit", json_of(launch.shared_limit)},
          {"clusters", launch.clusters},
          {"cooperative", launch.cooperative},
          {"overlaps", launch.overlaps},
          {"parameter_bytes", launch.parameter_bytes},
          {"pointers", pointers},
          {"words", json_of(launch.words)},
          {"pairs", json_of(launch.pairs)}};
}

ExprPtr expr_of(const Json& json) {
  if (json.is_null()) return nullptr;
  auto parsed = parse_expr(json.get<std::string>());
  if (!parsed) throw std::invalid_argument(parsed.error().message);
  return *parsed;
}

std::map<uint32_t, ExprPtr> numbers_of(const Json& json) {
  std::map<uint32_t, ExprPtr> numbers;
  for (const auto& [at, expr] : json.items()) numbers[static_cast<uint32_t>(std::stoul(at))] = expr_of(expr);
  return numbers;
}

std::vector<Condition> conditions_of(const Json& json) {
  std::vector<Condition> conditions;
  for (const Json& one : json) {
    const int kind = one.at("kind");
    if (kind < 0 || kind > static_cast<int>(Condition::Kind::NoMultiple))
      throw std::invalid_argument("no such condition");
    conditions.push_back({static_cast<Condition::Kind>(kind), one.at("dim"), one.at("value")});
  }
  return conditions;
}

Launch launch_of(const Json& json) {
  Launch launch;
  launch.kernel = json.at("kernel");
  launch.when = conditions_of(json.at("when"));
  for (size_t axis = 0; axis < 3; ++axis) {
    launch.grid[axis] = expr_of(json.at("grid").at(axis));
    launch.block[axis] = expr_of(json.at("block").at(axis));
  }
  launch.dynamic_shared = expr_of(json.at("dynamic_shared"));
  launch.static_shared = json.at("static_shared");
  launch.shared_limit = expr_of(json.at("shared_limit"));
  launch.clusters = json.at("clusters");
  launch.cooperative = json.at("cooperative");
  launch.overlaps = json.at("overlaps");
  launch.parameter_bytes = json.at("parameter_bytes");
  for (const auto& [at, pointer] : json.at("pointers").items())
    launch.pointers[static_cast<uint32_t>(std::stoul(at))] = {
        pointer.at("array"), expr_of(pointer.at("offset")), expr_of(pointer.at("bytes"))};
  launch.words = numbers_of(json.at("words"));
  launch.pairs = numbers_of(json.at("pairs"));
  return launch;
}

}  // namespace

Json to_json(const Relation& relation) {
  Json cases = Json::array();
  for (const Case& one : relation.cases) {
    Json launches = Json::array(), fills = Json::array();
    for (const Launch& launch : one.launches) launches.push_back(json_of(launch));
    for (const Fill& fill : one.fills)
      fills.push_back({{"array", fill.array},
                       {"offset", json_of(fill.offset)},
                       {"bytes", json_of(fill.bytes)},
                       {"zeros", fill.zeros},
                       {"after", fill.after}});
    cases.push_back(
        {{"when", json_of(one.when)}, {"launches", launches}, {"fills", fills}, {"filled", one.filled}});
  }
  return cases;
}

Result<Relation> relation_from_json(const Json& cases) {
  try {
    Relation relation;
    for (const Json& one : cases) {
      Case found;
      for (const Json& launch : one.at("launches")) found.launches.push_back(launch_of(launch));
      found.when = conditions_of(one.at("when"));
      for (const Json& fill : one.at("fills"))
        found.fills.push_back({fill.at("array"), expr_of(fill.at("offset")), expr_of(fill.at("bytes")),
                               fill.at("zeros"), fill.at("after")});
      found.filled = one.at("filled").get<std::vector<std::string>>();
      relation.cases.push_back(std::move(found));
    }
    return relation;
  } catch (const std::exception& error) {
    return Error{fmt::format("this is not a launch relation: {}", error.what())};
  }
}

}  // namespace assay::prove
