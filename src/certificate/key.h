// Keys, signatures and digests: the only door to OpenSSL.
//
// Ed25519 and ECDSA over P-256 with SHA-256, signatures of the latter in DER: what Sigstore's tools use. Keys are PEM
// files, as `openssl genpkey` writes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct evp_pkey_st;

namespace assay::certificate {

enum class KeyHalf : uint8_t { Private, Public };

class Key {
 public:
  explicit Key(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::string_view algorithm() const;
  // SHA-256 of the public half (DER, SubjectPublicKeyInfo), in base64: the hint of a Sigstore bundle.
  std::string fingerprint() const;
  std::string sign(std::string_view bytes) const;  // with a private key
  bool verify(std::string_view bytes, std::string_view signature) const;

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

// A key out of a PEM file. `password`: of an encrypted private key. The other half than the one that is asked for is an
// Error: verifying must not need a secret.
Result<Key> read_key(const std::string& pem, KeyHalf half, const std::string& password);

std::string sha256(std::string_view bytes);  // as 64 hexadecimal digits

std::string to_base64(std::string_view bytes);
// The standard alphabet, padded, with nothing left over; anything else is an Error.
Result<std::string> from_base64(std::string_view text);

}  // namespace assay::certificate
