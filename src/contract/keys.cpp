#include "contract/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "contract/complex.h"

namespace assay::contract {
namespace {

using Json = nlohmann::ordered_json;
using enum KeyType;
constexpr auto kFile = Section::File, kKernel = Section::Kernel, kDims = Section::Dims, kDim = Section::Dim,
               kDerived = Section::Derived, kTensor = Section::Tensor, kScalar = Section::Scalar,
               kReference = Section::Reference, kCuda = Section::Cuda, kCase = Section::Case,
               kInputs = Section::Inputs, kRequire = Section::Require, kWorkload = Section::Workload,
               kOrigin = Section::Origin, kMonitor = Section::Monitor, kTrusted = Section::Trusted;

constexpr std::string_view kDimTypes = "i32 i64 u32 u64";

struct SectionInfo {
  std::string_view title;
  std::string_view path;  // in the schema
};
constexpr SectionInfo kSections[kSectionCount] = {
    {"the file", "file"},
    {"`[kernel]`", "kernel"},
    {"`[dims]`", "dims"},
    {"`[dims]` NAME = { … }", "dim"},
    {"`[dims]` NAME = { value = … }", "derived"},
    {"`[tensors.NAME]`", "tensor"},
    {"`[scalars.NAME]`", "scalar"},
    {"`[reference]`", "reference"},
    {"`[reference]` cuda = { … }", "cuda"},
    {"`[[case]]`", "case"},
    {"`[inputs]`", "inputs"},
    {"`[require]`", "require"},
    {"`[workload]`", "workload"},
    {"`[origin]`", "origin"},
    {"`[monitor]`", "monitor"},
    {"`[monitor]` trusted = { … }", "trusted"},
};

// clang-format off
const Key kKeys[] = {
    {kFile, "title", String, "", "\"\"", "the name in the report"},
    {kFile, "kernel", Table, "", "", "what is checked"},
    {kFile, "dims", Table, "", "", "sizes: NAME = 128, a range, or an expression over others in quotes"},
    {kFile, "shapes", Tables, "", "", "shapes that must be checked, with a value for each dim"},
    {kFile, "only_listed_shapes", Bool, "", "false", "only the listed shapes are promised"},
    {kFile, "tensors", Table, "", "", "one table for each tensor"},
    {kFile, "scalars", Table, "", "", "one table for each scalar"},
    {kFile, "reference", Table, "", "", "what the outputs are"},
    {kFile, "case", Tables, "", "", "other formulas, by conditions on dims and scalars"},
    {kFile, "inputs", Table, "", "", "the problem's own inputs"},
    {kFile, "require", Table, "", "", "what else is required of the kernel"},
    {kFile, "workload", Table, "", "", "the operator of a training step that it computes"},
    {kFile, "origin", Table, "", "", "where the files of a generated contract come from"},
    {kFile, "monitor", Table, "", "", "how calls are monitored in production"},
    {kKernel, "source", OneOrMoreStrings, "", "", "CUDA C++ (.cu) or PTX (.ptx)"},
    {kKernel, "entry", String, "", "", "an extern \"C\" host function"},
    {kKernel, "global", String, "", "", "instead of `entry`: a __global__ function"},
    {kKernel, "python", String, "", "", "instead of `source` and `entry`: \"file.py:function\""},
    {kKernel, "args", Strings, "", "", "tensors, dims, integer expressions, scalars, `stream`, `workspace`, in order"},
    {kKernel, "grid", Expressions, "", "", "with `global`: 1 to 3 extents"},
    {kKernel, "block", Expressions, "", "", "with `global`: 1 to 3 extents"},
    {kKernel, "shared_bytes", Expression, "", "0", "with `global`: dynamic shared memory"},
    {kKernel, "workspace_bytes", Expression, "", "0", "the size of `workspace`"},
    {kKernel, "returns", String, "void int outputs", "\"void\"; \"outputs\" for a Python function", "an int is an error code; outputs are tensors"},
    {kKernel, "flags", Strings, "", "[]", "more compiler flags"},
    {kKernel, "arch", String, "", "\"sm_90\"", "the architecture"},
    {kDims, "require", OneOrMoreStrings, "", "", "relations that every legal shape satisfies, such as \"K <= N\""},
    {kDim, "min", Integer, "", "1", "the smallest value promised"},
    {kDim, "max", Integer, "", "", "the largest value promised"},
    {kDim, "multiple_of", Integer, "", "1", "only multiples of it are promised"},
    {kDim, "type", String, kDimTypes, "\"i32\"", "its type as an argument"},
    {kDerived, "value", Expression, "", "", "what it is"},
    {kDerived, "type", String, kDimTypes, "\"i32\"", "its type as an argument"},
    {kTensor, "dtype", KeyType::ElementType, "", "", "the type of its elements"},
    {kTensor, "shape", Expressions, "", "", "its extents"},
    {kTensor, "strides", Expressions, "", "row-major without gaps", "steps between elements, in elements, one for each extent"},
    {kTensor, "role", String, "in out inout", "\"in\"", "whether the kernel reads or writes it"},
    {kTensor, "values", String, "", "any finite number", "what legal inputs look like"},
    {kTensor, "align", Integer, "", "256", "bytes that its address is a multiple of"},
    {kTensor, "may_alias", String, "", "", "for an output: an input that it may share memory with"},
    {kTensor, "buffer", String, "", "its own allocation", "the allocation that it shares with other tensors"},
    {kTensor, "offset", Expression, "", "0", "its offset in `buffer`, in bytes"},
    {kTensor, "pointers", KeyType::BoolOrString, "", "false", "the kernel gets an array of pointers, one to each slice, or to each segment between the offsets in this tensor"},
    {kTensor, "optional", Bool, "", "false", "for an input: the kernel may get a null pointer instead"},
    {kScalar, "dtype", KeyType::ElementType, "", "", "its type as an argument"},
    {kScalar, "value", KeyType::NumberOrPair, "", "", "the only value; [re, im] for a complex scalar"},
    {kScalar, "values", Numbers, "", "", "instead of `value`: several"},
    {kScalar, "range", Numbers, "", "", "instead of `value`: [low, high]"},
    {kReference, "formula", String, "", "", "the mathematics"},
    {kReference, "python", String, "", "", "instead of `formula`: a NumPy function, \"file.py:function\""},
    {kReference, "torch", String, "", "", "instead of `formula`: a PyTorch function"},
    {kReference, "cuda", Table, "", "", "instead of `formula`: a plain kernel"},
    {kReference, "accumulate", String, "f64 f32 f16 bf16", "\"f32\"", "the precision of sums and intermediate values"},
    {kReference, "math", String, "standard fast", "\"standard\"", "the accuracy of exp, division and the like"},
    {kCuda, "source", String, "", "", "a .cu file"},
    {kCuda, "entry", String, "", "", "its host function"},
    {kCase, "when", String, "", "", "a condition on dims and scalars"},
    {kCase, "formula", String, "", "", "the formula where it holds, instead of that of [reference]"},
    {kInputs, "torch", String, "", "", "a function that makes inputs, \"file.py:function\""},
    {kRequire, "deterministic", Bool, "", "false", "the same inputs give the same bits"},
    {kRequire, "nonfinite", String, "propagate warn ignore", "\"propagate\"", "how NaN and infinities must be treated"},
    {kRequire, "concurrent", Bool, "", "true; false for a Python function", "calls on different streams may overlap"},
    {kRequire, "batch_invariant", Strings, "", "[]", "dims along which slices are bitwise independent"},
    {kRequire, "own_kernel", Bool, "", "true", "a Python function must launch its own kernels"},
    {kRequire, "rtol", Number, "", "", "instead of the derived budget"},
    {kRequire, "atol", Number, "", "", "instead of the derived budget"},
    {kWorkload, "slot", String, "", "", "the operator's name"},
    {kWorkload, "tensors", Table, "", "", "the contract's tensors and the slot's"},
    {kWorkload, "dims", Table, "", "", "the contract's dims and the slot's"},
    {kWorkload, "scalars", Table, "", "", "the contract's scalars and the slot's"},
    {kOrigin, "answer", String, "", "", "the path of what is checked"},
    {kOrigin, "function", String, "", "", "where the function is defined, \"file.py:LINE\""},
    {kOrigin, "files", Table, "", "", "copies and their originals"},
    {kMonitor, "every", Integer, "", "1000", "calls from one sample to the next, on average; the gaps are random"},
    {kMonitor, "elements", Integer, "", "256", "elements of each output that are judged in a sample"},
    {kMonitor, "max_bytes", String, "", "\"64MiB\"", "calls with more bytes are not sampled"},
    {kMonitor, "trusted", Table, "", "", "a slower kernel with the same arguments that can replace it"},
    {kMonitor, "on_alarm", String, "report reference abort", "\"report\"", "what the application does about an alarm"},
    {kMonitor, "arl", Number, "", "1e9", "samples between false alarms by evidence, on average, at least"},
    {kTrusted, "source", String, "", "", "a .cu file"},
    {kTrusted, "entry", String, "", "", "its host function"},
};
// clang-format on

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string type_text(const Key& key) {
  constexpr std::string_view kNames[] = {"a string",
                                         "an integer",
                                         "a number",
                                         "true or false",
                                         "an integer expression",
                                         "a list of integer expressions",
                                         "a list of strings",
                                         "a string or a list of strings",
                                         "a list of numbers",
                                         "a table",
                                         "a list of tables",
                                         "the name of a type",
                                         "true, false or a string",
                                         "a number, or two"};
  if (key.choices.empty()) return std::string(kNames[static_cast<std::size_t>(key.type)]);
  std::string text;
  for (const std::string& word : words_of(key.choices))
    text += fmt::format("{}`\"{}\"`", text.empty() ? "" : ", ", word);
  return text;
}

Json reference_to(Section section) {
  return {{"$ref", fmt::format("#/$defs/{}", kSections[static_cast<std::size_t>(section)].path)}};
}

Json list_of(Json item) {
  return {{"type", "array"}, {"items", std::move(item)}};
}

Json schema_of(const Key& key) {
  const Json string = {{"type", "string"}}, number = {{"type", "number"}}, table = {{"type", "object"}};
  const Json expression = {{"type", Json::array({"integer", "string"})}};
  Json schema;
  switch (key.type) {
    case String:
      schema = string;
      break;
    case Integer:
      schema = {{"type", "integer"}};
      break;
    case Number:
      schema = {{"type", Json::array({"number", "boolean"})}};
      break;
    case Bool:
      schema = {{"type", "boolean"}};
      break;
    case Expression:
      schema = expression;
      break;
    case Expressions:
      schema = list_of(expression);
      break;
    case Strings:
      schema = list_of(string);
      break;
    case OneOrMoreStrings:
      schema = {{"oneOf", Json::array({string, list_of(string)})}};
      break;
    case Numbers:
      schema = list_of({{"type", Json::array({"number", "boolean"})}});
      break;
    case Table:
      schema = table;
      break;
    case Tables:
      schema = list_of(table);
      break;
    case KeyType::ElementType:
      schema = {{"enum", dtype_names()}};
      break;
    case BoolOrString:
      schema = {{"type", Json::array({"boolean", "string"})}};
      break;
    case NumberOrPair:
      schema = {
          {"oneOf", Json::array({Json{{"type", Json::array({"number", "boolean"})}}, list_of(number)})}};
      break;
  }
  if (!key.choices.empty()) schema = {{"enum", words_of(key.choices)}};
  schema["description"] = std::string(key.meaning);
  return schema;
}

Json object_of(Section section) {
  Json properties = Json::object();
  for (const Key& key : kKeys)
    if (key.section == section) properties[std::string(key.name)] = schema_of(key);
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

// Tables whose keys are names that the contract gives.
Json named(Json item) {
  return {{"type", "object"}, {"additionalProperties", std::move(item)}};
}

}  // namespace

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(info(static_cast<DType>(i)).name);
  for (const ComplexType& type : kComplexTypes) names.emplace_back(type.name);
  return names;
}

const std::vector<Key>& all_keys() {
  static const std::vector<Key> keys(std::begin(kKeys), std::end(kKeys));
  return keys;
}

std::vector<std::string> keys_of(Section section) {
  std::vector<std::string> names;
  for (const Key& key : kKeys)
    if (key.section == section) names.emplace_back(key.name);
  return names;
}

std::string_view title_of(Section section) {
  return kSections[static_cast<std::size_t>(section)].title;
}

std::string key_table() {
  std::string text = "| section | key | value | default | meaning |\n| --- | --- | --- | --- | --- |\n";
  const Key* last = nullptr;
  for (const Key& key : kKeys) {
    const bool first = !last || last->section != key.section;
    text += fmt::format("| {} | `{}` | {} | {} | {} |\n", first ? title_of(key.section) : "", key.name,
                        type_text(key), key.otherwise.empty() ? "" : fmt::format("{}", key.otherwise),
                        key.meaning);
    last = &key;
  }
  return text;
}

std::string json_schema() {
  Json definitions = Json::object();
  for (int i = 0; i < kSectionCount; ++i) {
    const auto section = static_cast<Section>(i);
    if (section != kFile && section != kDims)
      definitions[std::string(kSections[i].path)] = object_of(section);
  }
  Json dims = named({{"oneOf", Json::array({Json{{"type", Json::array({"integer", "string"})}},
                                            reference_to(kDim), reference_to(kDerived)})}});
  dims["properties"] = object_of(kDims)["properties"];
  Json file = object_of(kFile);
  Json& properties = file["properties"];
  for (const Section section : {kKernel, kReference, kInputs, kRequire, kWorkload, kOrigin, kMonitor})
    properties[std::string(kSections[static_cast<std::size_t>(section)].path)] = reference_to(section);
  properties["dims"] = std::move(dims);
  properties["tensors"] = named(reference_to(kTensor));
  properties["scalars"] = named(reference_to(kScalar));
  properties["case"] = list_of(reference_to(kCase));
  properties["shapes"] = list_of(named({{"type", "integer"}}));
  definitions["reference"]["properties"]["cuda"] = reference_to(kCuda);
  definitions["monitor"]["properties"]["trusted"] = reference_to(kTrusted);
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "A contract of Assay"}};
  schema.update(file);
  schema["required"] = Json::array({"kernel", "tensors", "reference"});
  schema["$defs"] = std::move(definitions);
  return schema.dump(2) + "\n";
}

}  // namespace assay::contract
