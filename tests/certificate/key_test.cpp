// Keys and signatures against the published vectors of RFC 8032.
#include "certificate/key.h"

#include <gtest/gtest.h>

#include "certificate/pem.h"

namespace assay::certificate {
namespace {

// RFC 8032, section 7.1.
struct Vector {
  const char *secret, *open, *message, *signature;
};
constexpr Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f"
     "0595bbe2"
     "4655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2ea"
     "eb4302ae"
     "eb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e"
     "9716ed28"
     "dc027beceea1ec40a"},
};

TEST(Key, SignsAsRfc8032Says) {
  for (const Vector& vector : kVectors) {
    const auto secret = read_key(ed25519_private_pem(vector.secret), KeyHalf::Private, "");
    const auto open = read_key(ed25519_public_pem(vector.open), KeyHalf::Public, "");
    ASSERT_TRUE(secret) << secret.error().text();
    ASSERT_TRUE(open) << open.error().text();
    const std::string message = from_hex(vector.message), signature = from_hex(vector.signature);
    EXPECT_EQ(secret->sign(message), signature);
    EXPECT_TRUE(open->verify(message, signature));
    EXPECT_FALSE(open->verify(message + "x", signature));
    EXPECT_EQ(secret->fingerprint(), open->fingerprint());
    EXPECT_EQ(open->algorithm(), "Ed25519");
  }
}

TEST(Key, HalvesAreToldApart) {
  const std::string secret = ed25519_private_pem(kVectors[0].secret),
                    open = ed25519_public_pem(kVectors[0].open);
  EXPECT_EQ(read_key(open, KeyHalf::Private, "").error().message,
            "this is a public key; signing needs the private one");
  EXPECT_EQ(read_key(secret, KeyHalf::Public, "").error().message,
            "this is a private key; verifying needs the public key (openssl pkey -in KEY -pubout)");
  EXPECT_EQ(read_key("hello", KeyHalf::Public, "").error().message,
            "there is no public key in this file; expected a PEM file, as openssl writes it");
}

// openssl genpkey -algorithm ed25519 -aes256 -pass pass:assay
constexpr const char* kEncrypted = R"(-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh/X9rV3VmbVgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENyDZ30SmXMMiwfzd79cZYUEQOLE
6+VKdne76gYnYWjpccV8jabW355M1Y3/6WFyBdXr48fDyJbIbepncGyz/h6qQ/mc
uGeHtdI+KTgqDJG9OLc=
-----END ENCRYPTED PRIVATE KEY-----
)";

TEST(Key, EncryptedKeysTakeAPassword) {
  EXPECT_TRUE(read_key(kEncrypted, KeyHalf::Private, "assay"));
  EXPECT_EQ(read_key(kEncrypted, KeyHalf::Private, "").error().message,
            "the key is encrypted: put its password into ASSAY_KEY_PASSWORD");
  EXPECT_EQ(read_key(kEncrypted, KeyHalf::Private, "other").error().message,
            "the password in ASSAY_KEY_PASSWORD does not decrypt this key");
}

// openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384, its public half
constexpr const char* kOtherCurve = R"(-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE33nDkEzvzocCJ1xmD4Mq4BV1O4Mawh34
FgcTfimNnsI+popW5fLlJgvbXWMqtpnfdgoZ6JPOftETBulivRunQDEqtrdSp7wV
Zixu28R8g9oim+H4bT5WSrzyWTNQBPQ6
-----END PUBLIC KEY-----
)";

TEST(Key, OtherCurvesAreRefused) {
  EXPECT_EQ(read_key(kOtherCurve, KeyHalf::Public, "").error().message,
            "keys of this type are not supported; use Ed25519 or ECDSA over P-256");
}

TEST(Digest, OfKnownText) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Base64, OneTextForTheSameBytes) {  // RFC 4648, section 10
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(to_base64(bytes), text);
    ASSERT_TRUE(from_base64(text));
    EXPECT_EQ(*from_base64(text), bytes);
  }
  for (const char* wrong : {"Zh==", "Zg=", "Zg", "Zm9v\n", " Zm9", "Zm9-", "Z===", "===="})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

}  // namespace
}  // namespace assay::certificate
