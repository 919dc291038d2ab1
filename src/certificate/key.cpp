#include "certificate/key.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace assay::certificate {

namespace {

using Bio = std::unique_ptr<BIO, decltype([](BIO* bio) { BIO_free(bio); })>;
using DigestContext =
    std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* context) { EVP_MD_CTX_free(context); })>;

const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Without the machine's openssl.cnf: it may ask for modules of another version than the one that is linked here.
void start_openssl() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

// OpenSSL's default asks on the terminal.
int give_password(char* buffer, int size, int, void* password) {
  const auto& word = *static_cast<const std::string*>(password);
  if (word.empty() || word.size() > static_cast<std::size_t>(size)) return -1;
  word.copy(buffer, word.size());  // OpenSSL takes the length, not a zero at the end
  return static_cast<int>(word.size());
}

// Null: the text has no such key that can be read.
std::shared_ptr<EVP_PKEY> parse(const std::string& pem, KeyHalf half, std::string password) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EVP_PKEY* key = half == KeyHalf::Private
                      ? PEM_read_bio_PrivateKey(bio.get(), nullptr, give_password, &password)
                      : PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr);
  ERR_clear_error();
  return {key, EVP_PKEY_free};
}

bool is_p256(const EVP_PKEY* key) {
  char group[64] = {};
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         std::strcmp(group, "prime256v1") == 0;
}

bool is_ed25519(const EVP_PKEY* key) {
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
}

// Ed25519 hashes on its own.
const EVP_MD* digest_for(const EVP_PKEY* key) {
  return is_ed25519(key) ? nullptr : EVP_sha256();
}

}  // namespace

std::string_view Key::algorithm() const {
  return is_ed25519(key_.get()) ? "Ed25519" : "ECDSA P-256";
}

std::string Key::fingerprint() const {
  unsigned char* der = nullptr;
  const int length = i2d_PUBKEY(key_.get(), &der);
  if (length <= 0) return "";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(der, static_cast<std::size_t>(length), digest, &size, EVP_sha256(), nullptr);
  OPENSSL_free(der);
  return to_base64({reinterpret_cast<const char*>(digest), size});
}

std::string Key::sign(std::string_view bytes) const {
  const DigestContext context(EVP_MD_CTX_new());
  std::size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, digest_for(key_.get()), nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, raw(bytes), bytes.size()) != 1)
    return "";
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, raw(bytes),
                     bytes.size()) != 1)
    return "";
  signature.resize(size);
  return signature;
}

bool Key::verify(std::string_view bytes, std::string_view signature) const {
  const DigestContext context(EVP_MD_CTX_new());
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, digest_for(key_.get()), nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(bytes), bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<Key> read_key(const std::string& pem, KeyHalf half, const std::string& password) {
  start_openssl();
  const bool wants_private = half == KeyHalf::Private;
  auto key = parse(pem, half, password);
  if (!key) {
    const bool is_encrypted = pem.find("ENCRYPTED") != std::string::npos;
    if (wants_private && is_encrypted)
      return Error{password.empty() ? "the key is encrypted: put its password into ASSAY_KEY_PASSWORD"
                                    : "the password in ASSAY_KEY_PASSWORD does not decrypt this key"};
    if (wants_private && parse(pem, KeyHalf::Public, ""))
      return Error{"this is a public key; signing needs the private one"};
    if (!wants_private && pem.find("PRIVATE KEY-----") != std::string::npos)
      return Error{"this is a private key; verifying needs the public key (openssl pkey -in KEY -pubout)"};
    return Error{fmt::format("there is no {} key in this file; expected a PEM file, as openssl writes it",
                             wants_private ? "private" : "public")};
  }
  if (!is_ed25519(key.get()) && !is_p256(key.get()))
    return Error{"keys of this type are not supported; use Ed25519 or ECDSA over P-256"};
  return Key(std::move(key));
}

std::string sha256(std::string_view bytes) {
  start_openssl();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL ends it with a zero
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), raw(bytes),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  const Error wrong{"this is not base64"};
  if (text.size() % 4 != 0) return wrong;
  std::string bytes(3 * (text.size() / 4) + 1, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), raw(text),
                                     static_cast<int>(text.size()));
  if (length < 0) return wrong;
  const auto padding = static_cast<std::size_t>(
      std::count(text.end() - std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(), '='));
  bytes.resize(static_cast<std::size_t>(length) - padding);
  // OpenSSL skips blanks and ignores bits that are left over: two texts would stand for the same bytes.
  if (to_base64(bytes) != text) return wrong;
  return bytes;
}

}  // namespace assay::certificate
