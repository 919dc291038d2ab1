// Certificates: the published vector of DSSE, every kind of damage, and what is said of it.
#include "certificate/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "certificate/bundle.h"
#include "certificate/pem.h"

namespace assay::certificate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Certificate example() {
  Certificate made;
  made.files = {{"libscale.so", sha256("a library"), FileKind::Library},
                {"src/scale.cu", sha256("source"), FileKind::Source}};
  made.contract = {"scale.toml", sha256("a contract"), {{"ref.py", sha256("reference"), FileKind::Source}}};
  made.assay = "0.1.0";
  made.toolchain = {"13.0.88", {"-O3"}, "sm_90"};
  made.devices = {{"virtual", "NVIDIA H200", ""}};
  made.coverage = {{{"n", 1, 4096, 1, 4096}}, 90, 144, {"edges"}, {"zeros"}, {}};
  made.proofs = {{"scale", "bounds", "proved"}};
  made.training = {{"zipf", "adamw", 0.0012, 0.0015}};
  made.profile = {{1, 2, 3}, {0.31, 0.04, 0.002}, 120'000};
  made.seed = 7;
  made.created = "2026-11-16T14:10:00Z";
  return made;
}

std::string written() {
  return *write_certificate(example(), test_key());
}

// A file that the test key signed, whatever it says.
std::string signed_file(const std::string& statement) {
  return encode(make_bundle(std::string(kStatementType), statement, test_key()));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string why_refused(const std::string& file) {
  const auto read = read_certificate(file, test_key());
  return read ? "accepted" : read.error().message;
}

// An ECDSA signature as DER, from the concatenation of its two numbers.
std::string as_der(const std::string& numbers) {
  std::string parts;
  for (const std::string& number : {numbers.substr(0, 32), numbers.substr(32)}) {
    std::string own = number.substr(number.find_first_not_of('\0'));
    if (static_cast<unsigned char>(own[0]) >= 0x80) own.insert(0, 1, '\0');
    parts += '\x02' + std::string(1, static_cast<char>(own.size())) + own;
  }
  return '\x30' + std::string(1, static_cast<char>(parts.size())) + parts;
}

TEST(Dsse, PublishedVector) {  // secure-systems-lab/dsse, protocol.md, version 1.0.0
  const std::string type = "http://example.com/HelloWorld", payload = "hello world";
  EXPECT_EQ(signed_bytes(type, payload), "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(to_base64(payload), "aGVsbG8gd29ybGQ=");
  const auto key =
      read_key(p256_public_pem("67cd390f77aa359cb08c2235f652270493a9ed832b0abcc01f70954c0390d238",
                               "0c782bd54e269125a44f4433aff1432ce94e12bca73aa67ac80cea12608ddf74"),
               KeyHalf::Public, "");
  ASSERT_TRUE(key) << key.error().text();
  EXPECT_EQ(key->algorithm(), "ECDSA P-256");
  const std::string signature = as_der(*from_base64(
      "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="));
  EXPECT_TRUE(check_signature({key->fingerprint(), type, payload, signature}, *key));
  EXPECT_FALSE(check_signature({key->fingerprint(), type, "hello World", signature}, *key));
  EXPECT_FALSE(check_signature({key->fingerprint(), type + "s", payload, signature}, *key));
}

TEST(Certificate, IsReadAsItWasWritten) {
  const auto read = read_certificate(written(), test_key());
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, example());
}

// Certificates of before are good: without log entries, and without an error profile.
TEST(Certificate, TheFirstFormIsRead) {
  std::string statement = to_statement(example());
  const std::size_t profile = statement.find(",\"profile\""), end = statement.find(",\"warnings\"");
  ASSERT_LT(profile, end);
  statement.erase(profile, end - profile);
  const Bundle bundle = make_bundle(std::string(kStatementType), statement, test_key());
  EXPECT_NE(encode(bundle).find("\"tlogEntries\":[]"), std::string::npos);
  const auto read = read_certificate(encode(bundle, BundleForm::First), test_key());
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->profile, ErrorProfile{});
  EXPECT_EQ(read->coverage, example().coverage);
}

TEST(Certificate, TheLargerErrorsOfTwoChecksAreKept) {
  const ErrorProfile a{{1, 2}, {0.3, 0.01}, 5000}, b{{1, 2}, {0.2, 0.02}, 7000};
  EXPECT_EQ(common(a, b), (ErrorProfile{{1, 2}, {0.3, 0.02}, 12000}));
  EXPECT_EQ(common(ErrorProfile{}, b), b);
  EXPECT_EQ(common(a, ErrorProfile{}), a);
}

// Every bit of what is not signed; of the payload, one bit of each byte.
TEST(Certificate, EveryFlippedByteIsRefused) {
  const std::string file = written();
  const std::size_t payload = file.find("\"payload\":\""), payload_end = file.find("\"payloadType\"");
  for (std::size_t i = 0; i < file.size(); ++i)
    for (std::size_t bit = 0; bit < 8; ++bit) {
      if (i > payload + 12 && i < payload_end && bit != i % 8) continue;
      std::string flipped = file;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      ASSERT_NE(why_refused(flipped), "accepted")
          << "bit " << bit << " of byte " << i << " of " << file.size();
    }
}

TEST(Certificate, EveryCutIsRefused) {
  const std::string file = written();
  for (std::size_t length = 0; length < file.size(); ++length)
    ASSERT_NE(why_refused(file.substr(0, length)), "accepted") << length;
  EXPECT_EQ(why_refused(file.substr(0, 200)),
            "this certificate is damaged or truncated: it is not complete JSON");
}

TEST(Certificate, NothingMayBeAdded) {
  const std::string file = written();
  for (const std::string& other :
       {" " + file, file + "\n", replaced(file, "\"dsseEnvelope\"", "\"other\":1,\"dsseEnvelope\""),
        replaced(file, "[{\"sig\"", "[{\"keyid\":\"x\",\"sig\""),
        replaced(file, "}]}}", "},{\"sig\":\"AA==\"}]}}"),
        replaced(file, "{\"mediaType\"", "{\"mediaType\":\"x\",\"mediaType\"")})
    EXPECT_EQ(
        why_refused(other),
        "this certificate was changed: it is not byte for byte as `assay certify` wrote it; use the original")
        << other;
}

TEST(Certificate, EachKindOfDamageIsNamed) {
  const std::string file = written();
  const Key other =
      *read_key(ed25519_private_pem("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
                KeyHalf::Private, "");
  EXPECT_EQ(read_certificate(file, other).error().message,
            "signed with another key: " + test_key().fingerprint() + ", not " + other.fingerprint());
  // The name of the key alone was changed, or everything but it.
  EXPECT_THAT(why_refused(replaced(file, test_key().fingerprint(), other.fingerprint())),
              HasSubstr("it names the key"));
  const Bundle forged{test_key().fingerprint(), std::string(kStatementType), to_statement(example()),
                      other.sign(signed_bytes(kStatementType, to_statement(example())))};
  EXPECT_EQ(why_refused(encode(forged)),
            "the signature does not match: this certificate was changed after it was signed");
  EXPECT_EQ(why_refused(replaced(file, "v0.3", "v0.4")),
            "unknown version `application/vnd.dev.sigstore.bundle.v0.4+json`; this Assay reads "
            "`application/vnd.dev.sigstore.bundle.v0.3+json`");
  EXPECT_EQ(why_refused("{}"), "this is not a certificate: expected a Sigstore bundle");
  EXPECT_EQ(why_refused("[1]"), "this is not a certificate: expected a Sigstore bundle");
}

// A genuine signature under something else than a verdict.
TEST(Certificate, OtherStatementsAreRefused) {
  const std::string statement = to_statement(example());
  EXPECT_EQ(why_refused(signed_file(statement)), "accepted");
  EXPECT_EQ(why_refused(signed_file(replaced(statement, "verdict:v1", "verdict:v2"))),
            "unknown version `urn:assay:verdict:v2`; this Assay reads `urn:assay:verdict:v1`");
  EXPECT_EQ(why_refused(signed_file(replaced(statement, "Statement/v1", "Statement/v2"))),
            "unknown version of the statement, `https://in-toto.io/Statement/v2`; this Assay reads "
            "`https://in-toto.io/Statement/v1`");
  EXPECT_EQ(
      why_refused(signed_file(replaced(statement, "urn:assay:verdict:v1", "https://slsa.dev/provenance/v1"))),
      "this is not a verdict of Assay: the statement is of type `https://slsa.dev/provenance/v1`");
  EXPECT_EQ(why_refused(signed_file(replaced(statement, "\"seed\":7", "\"seed\":\"7\""))),
            "the statement is incomplete: the predicate `seed` is not an integer");
  EXPECT_EQ(why_refused(signed_file(replaced(statement, "\"arch\"", "\"area\""))),
            "the statement is incomplete: the predicate `toolchain` lacks `arch`");
  EXPECT_EQ(why_refused(signed_file("hello")), "the signed content is not an in-toto statement");
  EXPECT_EQ(why_refused(encode(make_bundle("text/plain", statement, test_key()))),
            "the signed content is of type `text/plain`, not `application/vnd.in-toto+json`");
  // in-toto's parsing rules: consumers ignore fields that they do not know.
  EXPECT_EQ(why_refused(signed_file(replaced(statement, "\"seed\":7", "\"seed\":7,\"later\":{}"))),
            "accepted");
}

// The example of in-toto's specification of a statement, with its fields in the order given there.
TEST(Certificate, StatementHasTheFieldsOfInToto) {
  const std::string statement = to_statement(example());
  EXPECT_THAT(statement,
              testing::StartsWith(
                  "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"libscale.so\","
                  "\"digest\":{\"sha256\":\""));
  EXPECT_THAT(statement,
              HasSubstr("\"predicateType\":\"urn:assay:verdict:v1\",\"predicate\":{\"verdict\":\"pass\""));
}

TEST(Certificate, SaysWhichFileItIsFor) {
  EXPECT_EQ(why_not_certified(example(), "build/libscale.so", "a library"), "");
  EXPECT_EQ(why_not_certified(example(), "renamed.so", "a library"), "");
  EXPECT_EQ(why_not_certified(example(), "build/libscale.so", "b library"),
            "not the certified libscale.so: its SHA-256 is " + sha256("b library") + ", the certificate's " +
                sha256("a library"));
  EXPECT_EQ(why_not_certified(example(), "other.so", "x"),
            "not certified: the certificate is for libscale.so, src/scale.cu");
  EXPECT_EQ(why_other_contract(example(), "scale.toml", "a contract"), "");
  EXPECT_THAT(why_other_contract(example(), "dir/scale.toml", "another"),
              HasSubstr("not the certified contract"));
  EXPECT_THAT(why_other_contract(example(), "rows.toml", "another"),
              HasSubstr("for another contract, scale.toml"));
}

TEST(Certificate, SeveralDevicesCountForWhatAllOfThemTried) {
  const Coverage a{
      {{"n", 1, 4096, 1, 4096}, {"m", 1, 8, 1, 8}}, 90, 144, {"edges", "wide"}, {"zeros"}, {"x"}};
  const Coverage b{{{"n", 3, 512, 1, 4096}}, 20, 150, {"wide"}, {"zeros", "ones"}, {"x", "y"}};
  EXPECT_EQ(common(a, b), (Coverage{{{"n", 3, 512, 1, 4096}}, 20, 150, {"wide"}, {"zeros"}, {"x", "y"}}));
}

}  // namespace
}  // namespace assay::certificate
