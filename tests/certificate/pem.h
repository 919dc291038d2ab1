// Keys of published vectors, given as numbers, in the form in which programs read them.
#pragma once

#include <string>
#include <string_view>

#include "certificate/key.h"

namespace assay::certificate {

inline std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

inline std::string pem(std::string_view what, const std::string& der) {
  return "-----BEGIN " + std::string(what) + "-----\n" + to_base64(der) + "\n-----END " + std::string(what) +
         "-----\n";
}

// RFC 8410: the algorithm's number, then the key.
inline std::string ed25519_private_pem(std::string_view hex) {
  return pem("PRIVATE KEY", from_hex("302e020100300506032b657004220420" + std::string(hex)));
}
inline std::string ed25519_public_pem(std::string_view hex) {
  return pem("PUBLIC KEY", from_hex("302a300506032b6570032100" + std::string(hex)));
}
// RFC 5480, for P-256.
inline std::string p256_public_pem(std::string_view x, std::string_view y) {
  return pem("PUBLIC KEY", from_hex("3059301306072a8648ce3d020106082a8648ce3d03010703420004" +
                                    std::string(x) + std::string(y)));
}

// The key of the tests: RFC 8032, section 7.1, test 1.
inline const Key& test_key() {
  static const Key key =
      *read_key(ed25519_private_pem("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
                KeyHalf::Private, "");
  return key;
}

}  // namespace assay::certificate
