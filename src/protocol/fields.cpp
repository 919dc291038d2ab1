#include "protocol/fields.h"

#include "protocol/protocol.h"

namespace assay::protocol {

namespace {

const FieldReader::Json kMissing;
const FieldReader::Json kEmptyList = FieldReader::Json::array();
const FieldReader::Json kEmptyObject = FieldReader::Json::object();

}  // namespace

FieldReader::FieldReader(std::string_view text, const char* what)
    : state_(std::make_shared<State>(State{what, "", Json::parse(text, nullptr, false)})),
      object_(&state_->root) {
  if (state_->root.is_object()) return;
  state_->problem = "is not a JSON object";
  object_ = &kEmptyObject;
}

FieldReader::FieldReader(const Json& object, const FieldReader& parent)
    : state_(parent.state_), object_(&object) {
  if (object.is_object()) return;
  if (state_->problem.empty()) state_->problem = "a list holds something that is not an object";
  object_ = &kEmptyObject;
}

void FieldReader::fail(const char* name, const char* why) {
  if (state_->problem.empty()) state_->problem = std::string("`") + name + "` " + why;
}

std::string FieldReader::other_version() {
  const int64_t version = integer("version", 0, std::numeric_limits<int>::max());
  if (failed() || version == kVersion) return "";
  return "was written for version " + std::to_string(version) +
         " of the protocol, and this program uses version " + std::to_string(kVersion) +
         ": install the parts of Assay from one build";
}

void FieldReader::check_version() {
  if (std::string other = other_version(); !other.empty()) state_->problem = std::move(other);
}

const FieldReader::Json& FieldReader::raw(const char* name) {
  const auto found = object_->find(name);
  if (found != object_->end()) return *found;
  fail(name, "is missing");
  return kMissing;
}

bool FieldReader::boolean(const char* name) {
  const Json& value = raw(name);
  if (value.is_boolean()) return value.get<bool>();
  fail(name, "is not true or false");
  return false;
}

int64_t FieldReader::integer_of(const Json& value, const char* name, int64_t least, int64_t most) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_integer()) {
    fail(name, "is not an integer");
    return 0;
  }
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= kLargest;
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (fits && number >= least && number <= most) return number;
  fail(name, "is out of range");
  return 0;
}

int64_t FieldReader::integer(const char* name, int64_t least, int64_t most) {
  return integer_of(raw(name), name, least, most);
}

uint64_t FieldReader::unsigned_integer(const char* name, uint64_t most) {
  const Json& value = raw(name);
  // A program builds a small number as a signed one.
  const bool is_natural =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  if (!is_natural) {
    fail(name, "is not an integer of at least 0");
    return 0;
  }
  const auto number = value.get<uint64_t>();
  if (number <= most) return number;
  fail(name, "is out of range");
  return 0;
}

double FieldReader::number(const char* name) {
  return number_of(raw(name), name);
}

double FieldReader::number_of(const Json& value, const char* name) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (std::isfinite(number)) return number;
  fail(name, "is not a number");
  return 0;
}

std::string FieldReader::text_of(const Json& value, const char* name, std::size_t longest) {
  if (!value.is_string()) {
    fail(name, "is not a text");
    return "";
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= longest) return text;
  fail(name, "is too long");
  return "";
}

std::string FieldReader::text(const char* name, std::size_t longest) {
  return text_of(raw(name), name, longest);
}

FieldReader FieldReader::object(const char* name) {
  const Json& value = raw(name);
  if (!value.is_object()) fail(name, "is not an object");
  return FieldReader(value.is_object() ? value : kEmptyObject, *this);
}

const FieldReader::Json& FieldReader::list(const char* name, std::size_t most) {
  const Json& value = raw(name);
  if (value.is_array() && value.size() <= most) return value;
  fail(name, value.is_array() ? "is too long" : "is not a list");
  return kEmptyList;
}

std::string line_of(const FieldReader::Json& json) {
  return json.dump(-1, ' ', false, FieldReader::Json::error_handler_t::replace);
}

}  // namespace assay::protocol
