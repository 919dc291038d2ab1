// The table of checks (checks.def), and sets of them.
//
// Example:
//
//     Result<CheckSet> checks = CheckSet::parse("memory,races");  // of the command line
//     if (checks && checks->has(Check::Races)) use("races");
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace assay::protocol {

enum class Check : uint8_t {
#define ASSAY_CHECK(id, ...) id,
#include "protocol/checks.def"
#undef ASSAY_CHECK
};

struct CheckInfo {
  Check id;
  std::string_view name;
  bool in_run, in_check;
  std::string_view summary;
};
std::span<const CheckInfo> all_checks();

class CheckSet {
 public:
  constexpr CheckSet() = default;  // none
  constexpr CheckSet(std::initializer_list<Check> checks) {
    for (const Check check : checks) bits_ |= bit(check);
  }
  static CheckSet for_run();    // "all"
  static CheckSet for_check();  // what `assay check` uses

  // "all", "none", or names with commas. An unknown name is an error that lists the known ones.
  static Result<CheckSet> parse(std::string_view list);
  // The same list with every name; "none" where there is no check.
  std::string text() const;

  constexpr bool has(Check check) const { return (bits_ & bit(check)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr CheckSet without(Check check) const {
    CheckSet rest = *this;
    rest.bits_ &= ~bit(check);
    return rest;
  }
  constexpr void add(Check check) { bits_ |= bit(check); }
  constexpr bool operator==(const CheckSet&) const = default;

 private:
  static constexpr uint32_t bit(Check check) { return uint32_t{1} << static_cast<uint32_t>(check); }
  uint32_t bits_ = 0;
};

}  // namespace assay::protocol
