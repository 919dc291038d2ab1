// Certificates: a signed statement that these files passed this check.
//
// Example:
//
//     const std::string pem = "-----BEGIN PRIVATE KEY-----\n…";
//     Result<Key> key = read_key(pem, KeyHalf::Private, "");
//     Certificate made{.files = {{"libkernel.so", sha256(library), FileKind::Library}}};
//     Result<std::string> file = write_certificate(made, *key);
//     Result<Certificate> genuine = read_certificate(*file, *key);  // an Error says why it is not
//     use(why_not_certified(*genuine, "libkernel.so", library));    // empty: this is the file
//
// The file is a Sigstore bundle (v0.3) that holds a DSSE envelope with one signature; its payload is an in-toto
// statement (v1) whose subjects are the files and whose predicate is the verdict. Every byte of the file is fixed by
// what it says: reading refuses a file that writing would not have produced, so that no change goes unnoticed, not even
// one outside of what is signed.
//
//   key.h        keys, signatures and digests, by OpenSSL      policy.h   what a user demands of a certificate
//   bundle.h     the envelope and the bundle                   statement.cpp   the in-toto statement, both ways
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "certificate/key.h"

namespace assay::certificate {

enum class FileKind : uint8_t { Library, Source, Ptx };
std::string_view to_string(FileKind kind);

// A file that the certificate is about, by its content.
struct CertifiedFile {
  std::string name;    // of a source: relative to the contract's folder, where it lies below
  std::string sha256;  // 64 hexadecimal digits
  FileKind kind = FileKind::Source;
  bool operator==(const CertifiedFile&) const = default;
};

struct CertifiedContract {
  std::string name;
  std::string sha256;
  std::vector<CertifiedFile> files;  // that it names beside the kernel: its reference
  bool operator==(const CertifiedContract&) const = default;
};

struct Toolchain {
  std::string nvcc;  // "13.0.88"; empty: nothing was compiled
  std::vector<std::string> flags;
  std::string arch;  // "sm_90"
  bool operator==(const Toolchain&) const = default;
};

struct CertifiedDevice {
  std::string kind;    // "virtual", "cuda"
  std::string name;    // "NVIDIA H200"
  std::string driver;  // of a GPU
  bool operator==(const CertifiedDevice&) const = default;
};

struct CoveredDim {
  std::string name;
  int64_t tried_min = 0, tried_max = 0, promised_min = 0, promised_max = 0;
  bool operator==(const CoveredDim&) const = default;
};

// What was tried; with several devices, what was tried on each of them.
struct Coverage {
  std::vector<CoveredDim> dims;
  uint64_t trials = 0, planned = 0;
  std::vector<std::string> conditions, inputs, not_checked;
  bool operator==(const Coverage&) const = default;
};
Coverage common(const Coverage& a, const Coverage& b);

struct ProofResult {
  std::string kernel, obligation, status;  // as `assay prove` names them
  bool operator==(const ProofResult&) const = default;
};

struct TrainingResult {
  std::string tokens, optimizer;
  double loss_gap = 0, noise = 0;
  bool operator==(const TrainingResult&) const = default;
};

// How large errors were beside the noise of rounding, sigma, on those inputs for which they were largest.
struct ErrorProfile {
  std::vector<double> edges;   // of |error| / sigma
  std::vector<double> beyond;  // the share of elements beyond each
  uint64_t elements = 0;       // 0: nothing is known
  bool operator==(const ErrorProfile&) const = default;
};
// Of several checks: the larger of each.
ErrorProfile common(const ErrorProfile& a, const ErrorProfile& b);

struct Certificate {
  std::vector<CertifiedFile> files;
  std::string verdict = "pass";
  CertifiedContract contract;
  std::string assay;  // the version of the program
  Toolchain toolchain;
  std::vector<CertifiedDevice> devices;
  Coverage coverage;
  std::vector<ProofResult> proofs;
  std::vector<TrainingResult> training;
  ErrorProfile profile;
  std::vector<std::string> warnings;  // kinds of findings that did not make the check fail
  uint64_t seed = 0;
  std::string created;  // "2026-11-16T14:10:00Z"
  bool operator==(const Certificate&) const = default;
};

// The in-toto statement. Reading accepts fields that it does not know, as in-toto demands; an unknown version of the
// statement or of the predicate is an Error.
std::string to_statement(const Certificate& certificate);
Result<Certificate> from_statement(std::string_view json);

// The whole file, and its genuine content.
Result<std::string> write_certificate(const Certificate& certificate, const Key& key);
Result<Certificate> read_certificate(std::string_view file, const Key& key);

// Why a file is none of those certified; empty: it is one of them.
std::string why_not_certified(const Certificate& certificate, std::string_view name, std::string_view bytes);
// The same for the contract.
std::string why_other_contract(const Certificate& certificate, std::string_view name, std::string_view bytes);

}  // namespace assay::certificate
