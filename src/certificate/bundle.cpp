#include "certificate/bundle.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace assay::certificate {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kMediaTypePrefix = "application/vnd.dev.sigstore.bundle";

// The string at a pointer such as /dsseEnvelope/payload; empty: there is none.
std::string string_at(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  return json.contains(place) && json[place].is_string() ? json[place].get<std::string>() : "";
}

}  // namespace

std::string signed_bytes(std::string_view type, std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", type.size(), type, payload.size(), payload);
}

Bundle make_bundle(std::string type, std::string payload, const Key& key) {
  std::string signature = key.sign(signed_bytes(type, payload));
  return {key.fingerprint(), std::move(type), std::move(payload), std::move(signature)};
}

std::string encode(const Bundle& bundle, BundleForm form) {
  Json json;
  json["mediaType"] = kMediaType;
  Json& material = json["verificationMaterial"];
  material["publicKey"]["hint"] = bundle.hint;
  if (form == BundleForm::WithLogEntries) material["tlogEntries"] = Json::array();
  Json& envelope = json["dsseEnvelope"];
  envelope["payload"] = to_base64(bundle.payload);
  envelope["payloadType"] = bundle.type;
  envelope["signatures"] = Json::array({Json{{"sig", to_base64(bundle.signature)}}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Bundle> decode_bundle(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{"this certificate is damaged or truncated: it is not complete JSON"};
  const std::string media = json.is_object() ? string_at(json, "/mediaType") : "";
  if (!media.starts_with(kMediaTypePrefix))
    return Error{"this is not a certificate: expected a Sigstore bundle"};
  if (media != kMediaType)
    return Error{fmt::format("unknown version `{}`; this Assay reads `{}`", media, kMediaType)};
  const auto payload = from_base64(string_at(json, "/dsseEnvelope/payload"));
  const auto signature = from_base64(string_at(json, "/dsseEnvelope/signatures/0/sig"));
  if (!payload || !signature || payload->empty() || signature->empty())
    return Error{"this certificate is damaged: its payload or its signature cannot be read"};
  Bundle bundle{string_at(json, "/verificationMaterial/publicKey/hint"),
                string_at(json, "/dsseEnvelope/payloadType"), *payload, *signature};
  if (encode(bundle) != text && encode(bundle, BundleForm::First) != text)
    return Error{
        "this certificate was changed: it is not byte for byte as `assay certify` wrote it; "
        "use the original"};
  return bundle;
}

Result<void> check_signature(const Bundle& bundle, const Key& key) {
  if (key.verify(signed_bytes(bundle.type, bundle.payload), bundle.signature)) {
    if (bundle.hint == key.fingerprint()) return {};
    return Error{fmt::format("this certificate was changed: it names the key {}, but {} signed it",
                             bundle.hint, key.fingerprint())};
  }
  if (bundle.hint != key.fingerprint())
    return Error{fmt::format("signed with another key: {}, not {}", bundle.hint, key.fingerprint())};
  return Error{"the signature does not match: this certificate was changed after it was signed"};
}

}  // namespace assay::certificate
