// Every key that a contract may have, by section: what the parser accepts, the table in docs/contracts.md, and the JSON
// Schema that editors complete keys with (`assay formula --schema`) are made from the same rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay::contract {

enum class Section : uint8_t {
  File,       // the top of the file
  Kernel,     // [kernel]
  Dims,       // [dims], beside the names of dims
  Dim,        // a range of [dims]
  Derived,    // a derived dim of [dims]
  Tensor,     // [tensors.NAME]
  Scalar,     // [scalars.NAME]
  Reference,  // [reference]
  Cuda,       // cuda of [reference]
  Case,       // [[case]]
  Inputs,     // [inputs]
  Require,    // [require]
  Workload,   // [workload]
  Origin,     // [origin]
  Monitor,    // [monitor]
  Trusted,    // trusted of [monitor]
};
inline constexpr int kSectionCount = 16;

// What a value is in TOML. Expressions are integers, or integer expressions over dims in quotes.
enum class KeyType : uint8_t {
  String,
  Integer,
  Number,
  Bool,
  Expression,
  Expressions,
  Strings,
  OneOrMoreStrings,
  Numbers,
  Table,
  Tables,
  ElementType,
  BoolOrString,
  NumberOrPair
};

struct Key {
  Section section;
  std::string_view name;
  KeyType type;
  std::string_view choices;    // the legal words, separated by blanks; empty: anything of the type
  std::string_view otherwise;  // what holds without it; empty: it is needed, or nothing
  std::string_view meaning;
};

const std::vector<Key>& all_keys();
std::vector<std::string> keys_of(Section section);
std::vector<std::string> dtype_names();      // complex types last
std::string_view title_of(Section section);  // "[kernel]"

std::string key_table();    // as Markdown
std::string json_schema();  // draft 2020-12

}  // namespace assay::contract
