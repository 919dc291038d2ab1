// Whether a certificate is about a given file, and what several checks have in common.
#include <fmt/format.h>

#include <algorithm>

#include "certificate/certificate.h"

namespace assay::certificate {

namespace {

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> in_both(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> both;
  for (const std::string& word : a)
    if (std::ranges::find(b, word) != b.end()) both.push_back(word);
  return both;
}

}  // namespace

Coverage common(const Coverage& a, const Coverage& b) {
  Coverage both{{},
                std::min(a.trials, b.trials),
                std::max(a.planned, b.planned),
                in_both(a.conditions, b.conditions),
                in_both(a.inputs, b.inputs),
                a.not_checked};
  for (const CoveredDim& dim : a.dims) {
    const auto other = std::ranges::find(b.dims, dim.name, &CoveredDim::name);
    if (other == b.dims.end()) continue;
    both.dims.push_back({dim.name, std::max(dim.tried_min, other->tried_min),
                         std::min(dim.tried_max, other->tried_max), dim.promised_min, dim.promised_max});
  }
  for (const std::string& word : b.not_checked)
    if (std::ranges::find(both.not_checked, word) == both.not_checked.end()) both.not_checked.push_back(word);
  return both;
}

ErrorProfile common(const ErrorProfile& a, const ErrorProfile& b) {
  if (b.elements == 0 || (a.elements > 0 && a.edges != b.edges)) return a;
  if (a.elements == 0) return b;
  ErrorProfile both = a;
  both.elements += b.elements;
  for (std::size_t i = 0; i < both.beyond.size(); ++i) both.beyond[i] = std::max(a.beyond[i], b.beyond[i]);
  return both;
}

std::string why_not_certified(const Certificate& certificate, std::string_view name, std::string_view bytes) {
  const std::string digest = sha256(bytes);
  std::vector<std::string> names;
  for (const CertifiedFile& file : certificate.files) {
    if (file.sha256 == digest) return "";
    names.push_back(file.name);
  }
  for (const CertifiedFile& file : certificate.files)
    if (last_part(file.name) == last_part(name))
      return fmt::format("not the certified {}: its SHA-256 is {}, the certificate's {}", file.name, digest,
                         file.sha256);
  return fmt::format("not certified: the certificate is for {}", fmt::join(names, ", "));
}

std::string why_other_contract(const Certificate& certificate, std::string_view name,
                               std::string_view bytes) {
  const std::string digest = sha256(bytes);
  const CertifiedContract& contract = certificate.contract;
  if (contract.sha256 == digest) return "";
  if (last_part(contract.name) == last_part(name))
    return fmt::format("not the certified contract: its SHA-256 is {}, the certificate's {}", digest,
                       contract.sha256);
  return fmt::format("the certificate is for another contract, {} (SHA-256 {})", contract.name,
                     contract.sha256);
}

}  // namespace assay::certificate
