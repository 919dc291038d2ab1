// assay verify: whether a certificate is genuine, is about these files, and is good enough.
//
// Exit status: 0 it is all of these; 1 it does not meet the policy; 2 wrong use; 3 it is not genuine, or about something
// else.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "certificate/certificate.h"
#include "certificate/policy.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "fatbinary/elf.h"
#include "fatbinary/fatbinary.h"
#include "prove/prove.h"

namespace assay::cli {

namespace fs = std::filesystem;
using certificate::Certificate;

namespace {

// Bytes. Whatever is larger is something else, or meant to exhaust memory.
constexpr std::size_t kLargestCertificate = 64 << 20, kLargestText = 1 << 20;
constexpr int kGood = 0, kUnmet = 1, kUnverified = 3;  // exit status

struct VerifyOptions {
  std::string certificate, key, contract, arch, policy, json;
  std::vector<std::string> files;
};

// What was established, for people and as JSON.
struct Verification {
  int status = kGood;
  std::vector<std::string> reasons;         // why it is not good
  std::vector<std::string> matching_files;  // that the certificate is about
  std::optional<Certificate> certificate;   // if genuine
};

// The architectures for which a library holds code, "sm_90"; empty: it is no library, or holds none.
std::set<std::string> architectures_in(std::string_view bytes) {
  std::set<std::string> names;
  const auto elf = fatbinary::read_elf(bytes);
  if (!elf) return names;
  const fatbinary::ElfSection* section = elf->section(".nv_fatbin");
  if (!section) return names;
  const auto images = fatbinary::read_fatbinary(std::as_bytes(std::span(section->bytes)));
  if (!images) return names;
  for (const fatbinary::Image& image : *images)
    names.insert(fmt::format("sm_{}{}", image.architecture, image.exact ? "a" : image.family ? "f" : ""));
  return names;
}

// Why the certificate is not about this file; empty: it is.
std::string why_other_file(const Certificate& certificate, const std::string& path, std::string_view bytes) {
  std::string why = why_not_certified(certificate, path, bytes);
  const std::set<std::string> built = architectures_in(bytes);
  if (!why.empty() && !built.empty() && !built.contains(certificate.toolchain.arch))
    why += fmt::format("; it is built for {}, but the certificate is for {}", fmt::join(built, ", "),
                       certificate.toolchain.arch);
  return why;
}

// A folder or a pipe is not read: it could not be loaded, and might never end. Empty: it is a file that can be read.
std::string why_unreadable(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return std::strerror(errno);
  std::error_code error;
  return fs::is_regular_file(path, error) ? "" : "it is not a file";
}

void match_files(Verification& result, const VerifyOptions& options) {
  const auto fail = [&](const std::string& path, const std::string& why) {
    result.status = kUnverified;
    result.reasons.push_back(fmt::format("{}: {}", path, why));
  };
  for (const std::string& path : options.files) {
    if (const std::string why = why_unreadable(path); !why.empty()) {
      fail(path, "cannot be read: " + why);
      continue;
    }
    const MappedFile file(path);
    const std::string why = why_other_file(*result.certificate, path, file.bytes());
    if (why.empty())
      result.matching_files.push_back(path);
    else
      fail(path, why);
  }
  if (!options.contract.empty()) {
    const auto bytes = read_file(options.contract, kLargestText);
    const std::string why = bytes ? why_other_contract(*result.certificate, options.contract, *bytes)
                                  : "cannot be read: " + bytes.error().message;
    if (!why.empty()) fail(options.contract, why);
  }
  if (!options.arch.empty() && options.arch != result.certificate->toolchain.arch)
    fail(options.certificate,
         fmt::format("the certificate is for {}, not {}", result.certificate->toolchain.arch, options.arch));
}

Verification verify(const VerifyOptions& options, const certificate::Key& key,
                    const certificate::Policy& policy) {
  Verification result;
  const auto text = read_file(options.certificate, kLargestCertificate);
  auto read = text ? certificate::read_certificate(*text, key)
                   : Result<Certificate>(Error{"cannot be read: " + text.error().message});
  if (!read) return {kUnverified, {fmt::format("{}: {}", options.certificate, read.error().message)}, {}, {}};
  result.certificate = std::move(*read);
  match_files(result, options);
  if (result.status != kGood) return result;
  for (std::string& why : unmet(policy, *result.certificate, std::chrono::system_clock::now())) {
    result.status = kUnmet;
    result.reasons.push_back(fmt::format("{}: {}", options.certificate, why));
  }
  return result;
}

std::string_view word_for(int status) {
  return status == kGood ? "good" : status == kUnmet ? "policy not met" : "not verified";
}

Json json_of(const Verification& result) {
  Json json = {{"assay", "1"}, {"verdict", word_for(result.status)}};
  json["reasons"] = result.reasons;
  json["files"] = result.matching_files;
  json["statement"] = result.certificate ? Json::parse(to_statement(*result.certificate)) : Json();
  return json;
}

void print_certificate(const Verification& result, const certificate::Key& key) {
  const Certificate& certificate = *result.certificate;
  const auto say = [](const std::string& line) { fmt::print("  {}\n", printable(line)); };
  for (const std::string& path : result.matching_files) say(fmt::format("{}: certified", path));
  std::vector<std::string> devices, proved;
  for (const certificate::CertifiedDevice& device : certificate.devices)
    devices.push_back(device.name.empty() ? device.kind : fmt::format("{} ({})", device.kind, device.name));
  for (const certificate::ProofResult& proof : certificate.proofs)
    if (proof.status == "proved" && std::ranges::find(proved, proof.obligation) == proved.end())
      proved.push_back(proof.obligation);
  say(fmt::format("{} for the contract {}, {}", certificate.verdict, certificate.contract.name,
                  certificate.toolchain.arch));
  const int64_t trials = certificate.coverage.trials, planned = certificate.coverage.planned;
  say(fmt::format("{} on {}, seed {}",
                  trials <= planned ? fmt::format("{} of {} planned trials", trials, planned)
                                    : fmt::format("{} trials ({} planned)", trials, planned),
                  fmt::join(devices, " and "), certificate.seed));
  if (!proved.empty()) say(fmt::format("proved: {}", fmt::join(proved, ", ")));
  if (!certificate.training.empty()) say(fmt::format("trained: {} runs", certificate.training.size()));
  say(fmt::format("Assay {}, {}, {} key {}", certificate.assay, certificate.created, key.algorithm(),
                  key.fingerprint()));
}

}  // namespace

int verify_command(std::vector<std::string> args) {
  Arguments arguments(
      "Checks that a certificate is genuine, that it is for the given files, and that it meets a policy.",
      "assay verify");
  VerifyOptions options;
  arguments.add("certificate", options.certificate, "a file that assay certify wrote").required();
  arguments.add("--key FILE", options.key, "public key of the signer, PEM").required();
  arguments.add("--file FILE", options.files,
                "a file that must be certified: a library, a source, PTX; may be repeated");
  arguments.add("--contract FILE", options.contract, "the contract that the certificate must be for");
  arguments.add("--arch sm_NN", options.arch, "the architecture that it must be for, such as sm_90");
  arguments.add("--policy FILE", options.policy, "a policy that it must meet (docs/certificates.md)");
  arguments.add("--json FILE", options.json, "write the result and the statement to this file");
  if (const auto status = arguments.parse(std::move(args))) return *status;

  const auto pem = read_file(options.key, kLargestText);
  if (!pem) return complain({"the key cannot be read: " + pem.error().message, options.key});
  const auto key = certificate::read_key(*pem, certificate::KeyHalf::Public, "");
  if (!key) return complain({key.error().message, options.key});
  certificate::Policy policy;
  if (!options.policy.empty()) {
    const auto text = read_file(options.policy, kLargestText);
    if (!text) return complain({"the policy cannot be read: " + text.error().message, options.policy});
    auto parsed = certificate::parse_policy(*text, options.policy);
    if (!parsed) return complain(parsed.error());
    for (const std::string& name : parsed->proofs)
      if (prove::statement_of(name).empty())
        return complain(
            {fmt::format("there is no obligation `{}`; docs/prove.md lists them", name), options.policy});
    policy = std::move(*parsed);
  }

  const Verification result = verify(options, *key, policy);
  fmt::print("{}  {}\n",
             result.status == kGood    ? "GOOD"
             : result.status == kUnmet ? "NOT MET"
                                       : "NOT VERIFIED",
             options.certificate);
  for (const std::string& reason : result.reasons) fmt::print(stderr, "assay: {}\n", printable(reason));
  if (result.certificate) print_certificate(result, *key);
  if (result.status == kGood && options.files.empty())
    fmt::print("  no file was compared: name one with --file\n");
  if (!options.json.empty() &&
      !write_text(options.json, json_of(result).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"))
    return kWrongUse;
  return result.status;
}

}  // namespace assay::cli
