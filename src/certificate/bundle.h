// The DSSE envelope, and the Sigstore bundle around it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "certificate/key.h"

namespace assay::certificate {

inline constexpr std::string_view kStatementType = "application/vnd.in-toto+json";

// What a DSSE signature is made of: "DSSEv1 29 http://example.com/HelloWorld 11 hello world".
std::string signed_bytes(std::string_view type, std::string_view payload);

struct Bundle {
  std::string hint;  // Key::fingerprint() of the signer
  std::string type;  // of the payload
  std::string payload;
  std::string signature;
  bool operator==(const Bundle&) const = default;
};

Bundle make_bundle(std::string type, std::string payload, const Key& key);
// The first certificates lacked the empty list of log entries, which Sigstore's own libraries want to see.
enum class BundleForm : uint8_t { WithLogEntries, First };
std::string encode(const Bundle& bundle, BundleForm form = BundleForm::WithLogEntries);
// Refuses what encode() would not have written.
Result<Bundle> decode_bundle(std::string_view text);
// Whether this key signed the bundle.
Result<void> check_signature(const Bundle& bundle, const Key& key);

}  // namespace assay::certificate
