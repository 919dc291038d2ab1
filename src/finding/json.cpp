// The codec. A writer and a reader visit the lists of fields.h; both know how to treat each type once. Fields
// that hold their default are left out. Numbers that JSON does not have (NaN, infinities) are texts.
#include "finding/json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "finding/fields.h"
#include "finding/message.h"

namespace assay {

namespace {

// What a process under test may send: enough for anything real, and too little to do harm.
constexpr std::size_t kLongestText = 1 << 16;  // characters: names of templates have thousands
constexpr std::size_t kLongestList = 20000;    // items: lines of a profile, calls of a stack

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

// ---- Writing ----

struct Writer {
  Json& json;

  template <class T>
  void operator()(const char* name, const T& value) {
    if (!is_default(value)) json[name] = encoded(value);
  }
  template <class T>
  void always(const char* name, const T& value) {
    json[name] = encoded(value);
  }
  template <class T>
  void judge(const char* name, const T& value) {
    (*this)(name, value);
  }
  template <class T>
  void flat(T& part) {
    fields::list(*this, part);
  }
  void hex(const char* name, const std::optional<uint64_t>& value) {
    if (value) json[name] = fmt::format("0x{:x}", *value);
  }
  void hex(const char* name, uint32_t value) {
    if (value != 0) json[name] = fmt::format("{:08x}", value);
  }

  template <class T>
  static bool is_default(const T& value) {
    if constexpr (IsOptional<T>::value || std::is_same_v<T, std::shared_ptr<const Profile>>) {
      return !value;
    } else if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      return value == T{};
    } else if constexpr (IsArray<T>::value) {
      return false;
    } else {
      return encoded(value).empty();
    }
  }

  template <class T>
  static Json encoded(const T& value) {
    if constexpr (IsOptional<T>::value || std::is_same_v<T, std::shared_ptr<const Profile>>) {
      return encoded(*value);
    } else if constexpr (std::is_same_v<T, Kind>) {
      return std::string(to_string(value));
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(fields::names_of(value)[static_cast<std::size_t>(value)]);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (std::isfinite(value)) return value;
      return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(encoded(item));
      return list;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      Json object = Json::object();
      Writer writer{object};
      fields::list(writer, const_cast<T&>(value));  // the lists take references for the reader's sake
      return object;
    }
  }
};

// ---- Reading ----

struct Reader {
  const Json& json;
  bool trusted;
  std::string problem{};  // the first

  template <class T>
  void operator()(const char* name, T& value) {
    const auto found = json.find(name);
    if (found != json.end() && !decode(*found, value, trusted)) refuse(name);
  }
  template <class T>
  void always(const char* name, T& value) {
    (*this)(name, value);
  }
  template <class T>
  void judge(const char* name, T& value) {
    if (trusted) (*this)(name, value);
  }
  template <class T>
  void flat(T& part) {
    fields::list(*this, part);
  }
  void hex(const char* name, std::optional<uint64_t>& value) {
    uint64_t number = 0;
    if (json.contains(name)) read_hex(name, number) ? value = number : value;
  }
  void hex(const char* name, uint32_t& value) {
    uint64_t number = 0;
    if (json.contains(name) && read_hex(name, number)) value = static_cast<uint32_t>(number);
  }

  void refuse(const char* name) {
    if (problem.empty()) problem = name;
  }
  bool read_hex(const char* name, uint64_t& number) {
    const Json& field = json[name];
    if (field.is_string()) {
      std::string_view text = field.get_ref<const std::string&>();
      if (text.starts_with("0x")) text.remove_prefix(2);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
      if (error == std::errc{} && end == text.data() + text.size()) return true;
    }
    refuse(name);
    return false;
  }

  template <class T>
  static bool decode_integer(const Json& json, T& value) {
    if (json.is_number_unsigned()) {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
      value = static_cast<T>(number);
      return true;
    }
    if (!json.is_number_integer()) return false;
    const auto number = json.get<int64_t>();
    if (!std::in_range<T>(number)) return false;
    value = static_cast<T>(number);
    return true;
  }

  static bool decode_double(const Json& json, double& value) {
    if (json.is_number()) {
      value = json.get<double>();
      return true;
    }
    if (json == "nan") value = std::numeric_limits<double>::quiet_NaN();
    if (json == "inf") value = std::numeric_limits<double>::infinity();
    if (json == "-inf") value = -std::numeric_limits<double>::infinity();
    return json == "nan" || json == "inf" || json == "-inf";
  }

  template <class T>
  static bool decode_list(const Json& json, T& list, bool trusted) {
    if (!json.is_array() || json.size() > kLongestList) return false;
    if constexpr (IsVector<T>::value) list.resize(json.size());
    if (json.size() != list.size()) return false;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (!decode(json[i], list[i], trusted)) return false;
    return true;
  }

  template <class T>
  static bool decode_name(const Json& json, T& value) {
    if (!json.is_string()) return false;
    const auto& text = json.get_ref<const std::string&>();
    const auto names = fields::names_of(value);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != text) continue;
      value = static_cast<T>(i);
      return true;
    }
    return false;
  }

  template <class T>
  static bool decode(const Json& json, T& value, bool trusted) {
    if constexpr (IsOptional<T>::value) {
      return decode(json, value.emplace(), trusted);
    } else if constexpr (std::is_same_v<T, std::shared_ptr<const Profile>>) {
      Profile profile;
      if (!decode(json, profile, trusted)) return false;
      value = std::make_shared<const Profile>(std::move(profile));
      return true;
    } else if constexpr (std::is_same_v<T, Kind>) {
      const auto kind = json.is_string() ? kind_named(json.get_ref<const std::string&>()) : std::nullopt;
      if (kind) value = *kind;
      return kind.has_value();
    } else if constexpr (std::is_enum_v<T>) {
      return decode_name(json, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (json.is_boolean()) value = json.get<bool>();
      return json.is_boolean();
    } else if constexpr (std::is_integral_v<T>) {
      return decode_integer(json, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return decode_double(json, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string() || json.get_ref<const std::string&>().size() > kLongestText) return false;
      value = json.get<std::string>();
      return true;
    } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
      return decode_list(json, value, trusted);
    } else {
      if (!json.is_object()) return false;
      Reader reader{json, trusted};
      fields::list(reader, value);
      return reader.problem.empty();
    }
  }
};

Json encoded_evidence(const Evidence& evidence) {
  return std::visit([](const auto& e) { return Writer::encoded(e); }, evidence);
}

template <std::size_t I = 0>
void emplace(Evidence& evidence, std::size_t family) {
  if constexpr (I < std::variant_size_v<Evidence>) {
    if (I == family)
      evidence.emplace<I>();
    else
      emplace<I + 1>(evidence, family);
  }
}

// ---- What readers of reports want as text ----

void add_host(const char* name, const evidence::HostPlace& place, Json& json) {
  if (!place.is_known()) {
    json.erase(name);
    return;
  }
  json[name] = text_of(place);
  if (!place.code.empty()) json[std::string(name) + "_code"] = place.code;
  if (!place.stack.empty()) json[std::string(name) + "_stack"] = Writer::encoded(place.stack);
}

// Where a kernel was launched or memory allocated: the place as text and by file and line, and the Python stack.
void add_origin(const evidence::HostPlace& place, Json& about) {
  const Frame* own = own_frame(place);
  if (!place.code.empty() || own) about["at"] = text_of(place);
  const Where& where = own ? own->where : place.where;
  if (where.line > 0) {
    about["file"] = where.file;
    about["line"] = where.line;
  }
  if (!place.stack.empty()) about["stack"] = Writer::encoded(place.stack);
}

void add_launch(const evidence::HostPlace& launched_at, Json& json) {
  json.erase("launched_at");
  Json about = Json::object();
  add_origin(launched_at, about);
  if (!about.empty()) json["launched_at"] = std::move(about);
}

void add_allocation(const std::optional<evidence::Allocation>& allocation, Json& json) {
  if (!allocation) return;
  Json& about = json["allocation"];
  about["live"] = allocation->live;
  about.erase("made_at");
  add_origin(allocation->made_at, about);
}

void add_texts(const evidence::Access& e, Json& json) {
  add_launch(e.code.launched_at, json);
  add_host("host", e.host, json);
  add_allocation(e.place.allocation, json);
  if (!e.unwritten) return;
  json["output"] = e.unwritten->name;
  json["unwritten"] = e.unwritten->count;
  json["first"] = e.unwritten->first;
}

void add_texts(const evidence::Synchronisation& e, Json& json) {
  add_launch(e.code.launched_at, json);
}

void add_texts(const evidence::Race& e, Json& json) {
  add_launch(e.code.launched_at, json);
  if (json.contains("other")) add_launch(e.other.code.launched_at, json["other"]);
  add_host("host", e.host, json);
  add_allocation(e.place.allocation, json);
  if (const std::string fix = text_of(e.fix); !fix.empty()) json["fix"] = fix;
}

void add_texts(const evidence::Launch& e, Json& json) {
  add_host("host", e.host, json);
  add_allocation(e.allocation, json);
  if (!e.growth) return;
  json["calls_made"] = e.growth->calls;
  json["per_call"] = e.growth->per_call;
}

void add_texts(const evidence::Process& e, Json& json) {
  add_host("host", e.host, json);
  if (e.standing.empty()) return;
  json["standing"] = Json::array();
  for (const Where& where : e.standing) json["standing"].push_back(text_of(where));
}

void add_texts(const evidence::Numeric& e, Json& json) {
  add_launch(e.launched_at, json);
  json["elements_judged"] = e.judged;
  json["elements_outside"] = e.outside;
  if (e.worst) {
    Json& worst = json["worst"];
    worst["element"] = element_text(e.worst->index, e.is_complex);
    worst["stored"] = Writer::encoded(e.worst->stored);
    worst["exact"] = Writer::encoded(e.worst->exact);
    worst["admitted"] = {Writer::encoded(e.worst->low), Writer::encoded(e.worst->high)};
    worst["z"] = Writer::encoded(e.worst->z);
    worst["text"]["sentence"] = sentence(e.worst->text);
  }
  if (e.difference) {
    json["relation"] = e.difference->relation;
    if (!e.difference->change.empty()) json["changed"] = e.difference->change;
    json["differing"] = e.difference->count;
  }
}

template <class Other>
void add_texts(const Other&, Json&) {}

void add_attribution(const Attribution& attribution, Json& json) {
  Writer writer{json};
  fields::list(writer, const_cast<Attribution&>(attribution));
  for (const Finding& consequence : attribution.consequences)
    json["symptoms"].push_back(fmt::format("{}: {}", to_string(consequence.kind), message(consequence)));
  if (!attribution.also.empty()) json["also"] = Json::array();
  for (const Where& where : attribution.also) json["also"].push_back(text_of(where));
  if (attribution.out_of_time) json["cause"] = "there was no time to look for a cause behind it";
}

Json place_json(const Where& where) {
  return {{"file", where.file}, {"line", where.line}};
}

Json head(const Finding& finding) {
  return {{"kind", to_string(finding.kind)}, {"severity", to_string(finding.severity)}};
}

}  // namespace

Json to_event(const Finding& finding) {
  Json json = head(finding);
  json["where"] = place_json(finding.where);
  json["evidence"] = encoded_evidence(finding.evidence);
  json["count"] = finding.count;
  return json;
}

Json to_json(const Finding& finding) {
  Json json = head(finding);
  json["message"] = message(finding);
  json["where"] = place_json(finding.where);
  Json evidence = encoded_evidence(finding.evidence);
  evidence["family"] = to_string(static_cast<Family>(finding.evidence.index()));
  std::visit([&](const auto& e) { add_texts(e, evidence); }, finding.evidence);
  if (finding.count > 1) evidence["count"] = finding.count;
  add_attribution(finding.attribution, evidence);
  Writer found{evidence};
  fields::list(found, const_cast<FoundCase&>(finding.found));
  if (!finding.found.trial.empty()) evidence["trial"] = Json::parse(finding.found.trial, nullptr, false);
  json["evidence"] = std::move(evidence);
  json["reproduce"] = finding.reproduce;
  return json;
}

Result<Finding> finding_from_event(const Json& json) {
  const Error wrong{"not a finding"};
  if (!json.is_object()) return wrong;
  Finding finding;
  const auto kind = json.find("kind"), severity = json.find("severity"), where = json.find("where"),
             evidence = json.find("evidence"), count = json.find("count");
  if (kind == json.end() || !Reader::decode(*kind, finding.kind, false)) return wrong;
  if (info(finding.kind).reporter != Reporter::Device)
    return Error{fmt::format("{} is not for the device to report", to_string(finding.kind))};
  const std::string level =
      severity != json.end() && severity->is_string() ? severity->get<std::string>() : "";
  finding.severity = level == "note"      ? Severity::Note
                     : level == "warning" ? Severity::Warning
                                          : Severity::Error;
  emplace(finding.evidence, static_cast<std::size_t>(info(finding.kind).family));
  if (where != json.end() && !Reader::decode(*where, finding.where, false)) return wrong;
  if (count != json.end() && !Reader::decode(*count, finding.count, false)) return wrong;
  if (evidence == json.end()) return finding;
  if (!evidence->is_object()) return wrong;
  Reader reader{*evidence, false};
  std::visit([&](auto& e) { fields::list(reader, e); }, finding.evidence);
  if (!reader.problem.empty()) return Error{fmt::format("a finding with a wrong field: {}", reader.problem)};
  return finding;
}

Json to_json(const Profile& profile) {
  return Writer::encoded(profile);
}

Result<Profile> profile_from_json(const Json& json) {
  Profile profile;
  if (!Reader::decode(json, profile, false)) return Error{"not a precision profile"};
  return profile;
}

}  // namespace assay
