// The in-toto statement, both ways. One list of fields for each struct serves writing and reading.
#include <fmt/format.h>

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "certificate/bundle.h"
#include "certificate/certificate.h"

namespace assay::certificate {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStatement = "https://in-toto.io/Statement/v1";
constexpr std::string_view kPredicate = "urn:assay:verdict:v1";
constexpr std::string_view kPredicateAnyVersion = "urn:assay:verdict:";

// ---- fields

// What is wrong with the first field that is, by its name.
using Problem = std::optional<std::string>;

void write(Json& json, const std::string& value) {
  json = value;
}
void write(Json& json, uint64_t value) {
  json = value;
}
void write(Json& json, int64_t value) {
  json = value;
}
void write(Json& json, double value) {
  json = value;
}

Problem read(const Json& json, std::string& value) {
  if (!json.is_string()) return "is not a string";
  value = json.get<std::string>();
  return {};
}
Problem read(const Json& json, uint64_t& value) {
  if (!json.is_number_unsigned()) return "is not an integer";
  value = json.get<uint64_t>();
  return {};
}
Problem read(const Json& json, int64_t& value) {
  if (!json.is_number_integer()) return "is not an integer";
  value = json.get<int64_t>();
  return {};
}
Problem read(const Json& json, double& value) {
  if (!json.is_number()) return "is not a number";
  value = json.get<double>();
  return {};
}

// A file is written as in-toto's ResourceDescriptor.
void write(Json& json, const CertifiedFile& file) {
  json = {{"name", file.name},
          {"digest", {{"sha256", file.sha256}}},
          {"annotations", {{"kind", to_string(file.kind)}}}};
}
Problem read(const Json& json, CertifiedFile& file) {
  if (!json.is_object() || !json.value("digest", Json()).is_object())
    return "holds something that is not a file";
  const Json digest = json["digest"].value("sha256", Json());
  if (!digest.is_string()) return "holds a file without a SHA-256 digest";
  file.sha256 = digest.get<std::string>();
  if (json.contains("name") && read(json["name"], file.name))
    return "holds a file whose name is not a string";
  const Json annotations = json.value("annotations", Json());
  const Json kind = annotations.is_object() ? annotations.value("kind", Json()) : Json();
  for (const FileKind one : {FileKind::Library, FileKind::Source, FileKind::Ptx})
    if (kind == to_string(one)) file.kind = one;
  return {};
}

template <class T>
Problem read(const Json& json, T& value);
template <class T>
void write(Json& json, const T& value);

template <class T>
void write(Json& json, const std::vector<T>& values) {
  json = Json::array();
  for (const T& value : values) write(json.emplace_back(), value);
}
template <class T>
Problem read(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return "is not a list";
  for (const Json& item : json)
    if (Problem problem = read(item, values.emplace_back())) return problem;
  return {};
}

// ---- structs: visit(name, field) for every field

template <class Self, class T>
concept Is = std::same_as<std::remove_const_t<Self>, T>;

template <Is<Toolchain> Self>
void fields(Self& value, auto visit) {
  visit("nvcc", value.nvcc), visit("flags", value.flags), visit("arch", value.arch);
}
template <Is<CertifiedDevice> Self>
void fields(Self& value, auto visit) {
  visit("kind", value.kind), visit("name", value.name), visit("driver", value.driver);
}
template <Is<CoveredDim> Self>
void fields(Self& value, auto visit) {
  visit("name", value.name), visit("tried_min", value.tried_min), visit("tried_max", value.tried_max),
      visit("promised_min", value.promised_min), visit("promised_max", value.promised_max);
}
template <Is<Coverage> Self>
void fields(Self& value, auto visit) {
  visit("dims", value.dims), visit("trials", value.trials), visit("planned", value.planned),
      visit("conditions", value.conditions), visit("inputs", value.inputs),
      visit("not_checked", value.not_checked);
}
template <Is<ProofResult> Self>
void fields(Self& value, auto visit) {
  visit("kernel", value.kernel), visit("obligation", value.obligation), visit("status", value.status);
}
template <Is<TrainingResult> Self>
void fields(Self& value, auto visit) {
  visit("tokens", value.tokens), visit("optimizer", value.optimizer), visit("loss_gap", value.loss_gap),
      visit("noise", value.noise);
}
template <Is<ErrorProfile> Self>
void fields(Self& value, auto visit) {
  visit("z_edges", value.edges), visit("z_beyond", value.beyond), visit("elements", value.elements);
}
template <Is<CertifiedContract> Self>
void fields(Self& value, auto visit) {
  visit("name", value.name), visit("sha256", value.sha256), visit("files", value.files);
}
template <Is<Certificate> Self>
void fields(Self& value, auto visit) {
  visit("verdict", value.verdict), visit("contract", value.contract), visit("assay", value.assay),
      visit("toolchain", value.toolchain), visit("devices", value.devices), visit("coverage", value.coverage),
      visit("proofs", value.proofs), visit("training", value.training), visit("profile", value.profile),
      visit("warnings", value.warnings), visit("seed", value.seed), visit("timeCreated", value.created);
}

template <class T>
void write(Json& json, const T& value) {
  json = Json::object();
  fields(value, [&](const char* name, const auto& field) { write(json[name], field); });
}
template <class T>
Problem read(const Json& json, T& value) {
  if (!json.is_object()) return "is not an object";
  Problem first;
  fields(value, [&](const char* name, auto& field) {
    if (first) return;
    const auto found = json.find(name);
    if (found == json.end()) {
      // The first certificates had none.
      if constexpr (std::same_as<std::remove_cvref_t<decltype(field)>, ErrorProfile>) return;
      first = fmt::format("lacks `{}`", name);
    } else if (const Problem problem = read(*found, field)) {
      first = fmt::format("`{}` {}", name, *problem);
    }
  });
  return first;
}

// A text, and the first key that an object has twice: readers differ in which of the two values they take.
Json parse(std::string_view text, std::string& twice) {
  std::vector<std::set<std::string>> keys;  // of each object that is open
  const auto note = [&](int, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second &&
        twice.empty())
      twice = value.get<std::string>();
    return true;
  };
  return Json::parse(text, note, false);
}

}  // namespace

std::string_view to_string(FileKind kind) {
  return kind == FileKind::Library ? "library" : kind == FileKind::Source ? "source" : "ptx";
}

std::string to_statement(const Certificate& certificate) {
  Json json;
  json["_type"] = kStatement;
  write(json["subject"], certificate.files);
  json["predicateType"] = kPredicate;
  write(json["predicate"], certificate);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Certificate> from_statement(std::string_view text) {
  std::string twice;
  const Json json = parse(text, twice);
  if (!json.is_object()) return Error{"the signed content is not an in-toto statement"};
  if (!twice.empty())
    return Error{fmt::format("the signed content has the key `{}` twice in one object", twice)};
  const auto word = [&](const char* key) {
    const Json value = json.value(key, Json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  if (word("_type") != kStatement)
    return Error{fmt::format("unknown version of the statement, `{}`; this Assay reads `{}`", word("_type"),
                             kStatement)};
  if (const std::string type = word("predicateType"); type != kPredicate)
    return Error{type.starts_with(kPredicateAnyVersion)
                     ? fmt::format("unknown version `{}`; this Assay reads `{}`", type, kPredicate)
                     : fmt::format("this is not a verdict of Assay: the statement is of type `{}`", type)};
  Certificate certificate;
  if (const Problem problem = read(json.value("subject", Json()), certificate.files))
    return Error{fmt::format("the statement is incomplete: `subject` {}", *problem)};
  if (const Problem problem = read(json.value("predicate", Json()), certificate))
    return Error{fmt::format("the statement is incomplete: the predicate {}", *problem)};
  if (certificate.profile.edges.size() != certificate.profile.beyond.size())
    return Error{"the statement is incomplete: `profile` has other edges than shares"};
  return certificate;
}

Result<std::string> write_certificate(const Certificate& certificate, const Key& key) {
  const Bundle bundle = make_bundle(std::string(kStatementType), to_statement(certificate), key);
  std::string file = encode(bundle);
  const auto again = read_certificate(file, key);
  if (!again || *again != certificate) return Error{"the key does not verify its own signature"};
  return file;
}

Result<Certificate> read_certificate(std::string_view file, const Key& key) {
  const auto bundle = decode_bundle(file);
  if (!bundle) return bundle.error();
  if (const auto good = check_signature(*bundle, key); !good) return good.error();
  if (bundle->type != kStatementType)
    return Error{fmt::format("the signed content is of type `{}`, not `{}`", bundle->type, kStatementType)};
  return from_statement(bundle->payload);
}

}  // namespace assay::certificate
