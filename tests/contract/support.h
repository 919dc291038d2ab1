// Small contracts for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "contract/contract.h"

namespace assay::contract::testing {

// A contract whose kernel does not matter: dims, tensors and reference as given.
// `dims` and `tensors` are TOML; the outputs' names are passed as arguments.
inline std::string contract_text(const std::string& body, const std::string& outputs = "\"y\"") {
  return "[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [" + outputs + ", \"stream\"]\n" + body;
}

inline Contract parsed(const std::string& text) {
  Result<Contract> contract = parse(text, "test.toml");
  if (!contract) {
    ADD_FAILURE() << contract.error().text();
    return {};
  }
  return std::move(*contract);
}

}  // namespace assay::contract::testing
