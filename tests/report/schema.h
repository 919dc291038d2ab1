// Whether JSON is as a schema of docs/ says, as far as our schemas use the language.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "folders.h"

namespace assay::testing {

inline nlohmann::ordered_json schema_named(const std::string& name) {
  std::ifstream file(std::string(kSourceFolder) + "/docs/" + name);
  return nlohmann::ordered_json::parse(file);
}

class SchemaCheck {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaCheck(const Json& schema) : schema_(schema) {}

  // Where a value is not as a rule says; empty: it is.
  std::string problem(const Json& value, const Json& rule, const std::string& path) const {
    if (rule.contains("$ref")) {
      const std::string pointer = rule["$ref"].get<std::string>().substr(1);
      if (std::string text = problem(value, schema_.at(Json::json_pointer(pointer)), path); !text.empty())
        return text;
    }
    if (rule.contains("type") && !has_type(value, rule["type"])) return path + " has another type";
    if (rule.contains("const") && value != rule["const"]) return path + " has another value";
    if (rule.contains("enum")) {
      const Json& allowed = rule["enum"];
      if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
        return path + " is " + value.dump();
    }
    for (const Json& part : rule.value("allOf", Json::array()))
      if (std::string text = problem(value, part, path); !text.empty()) return text;
    for (const Json& name : rule.value("required", Json::array()))
      if (!value.contains(name.get<std::string>())) return path + " has no " + name.get<std::string>();
    const Json properties = rule.value("properties", Json::object());
    for (const auto& [name, part] : properties.items())
      if (value.is_object() && value.contains(name))
        if (std::string text = problem(value[name], part, path + "." + name); !text.empty()) return text;
    if (rule.contains("items"))
      for (const Json& item : value)
        if (std::string text = problem(item, rule["items"], path + "[]"); !text.empty()) return text;
    return "";
  }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    EXPECT_EQ(type, "number");
    return value.is_number();
  }

  const Json& schema_;
};

inline std::string schema_problem(const nlohmann::ordered_json& value, const nlohmann::ordered_json& schema) {
  return SchemaCheck(schema).problem(value, schema, "report");
}

}  // namespace assay::testing
