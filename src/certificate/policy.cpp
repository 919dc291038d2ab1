#include "certificate/policy.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <functional>

#include "base/diagnostic.h"
#include "contract/contract.h"
#include "contract/toml.h"

namespace assay::certificate {

namespace {

using contract::TomlEntry;
using contract::TomlKind;
using contract::TomlValue;

// Every key by name, every mistake with its place; the first one counts.
class PolicyReader {
 public:
  PolicyReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Result<Policy> run() {
    const auto root = contract::parse_toml(text_, path_);
    if (!root) return root.error();
    for (const TomlEntry& entry : root->table) {
      read(entry);
      if (error_) return *error_;
    }
    return policy_;
  }

 private:
  void read(const TomlEntry& entry) {
    static const std::vector<std::pair<std::string, void (PolicyReader::*)(const TomlEntry&)>> kKeys = {
        {"devices", &PolicyReader::read_devices},     {"architectures", &PolicyReader::read_architectures},
        {"contracts", &PolicyReader::read_contracts}, {"proofs", &PolicyReader::read_proofs},
        {"dims", &PolicyReader::read_dims},           {"max_age_days", &PolicyReader::read_age},
        {"min_assay", &PolicyReader::read_version},   {"min_trials", &PolicyReader::read_trials},
        {"training", &PolicyReader::read_training},   {"allow_warnings", &PolicyReader::read_warnings},
    };
    std::vector<std::string> names;
    for (const auto& [name, function] : kKeys) {
      if (name == entry.key) return (this->*function)(entry);
      names.push_back(name);
    }
    const std::string near = contract::nearest(entry.key, names);
    fail(entry.place, fmt::format("a policy has no key `{}`{}", entry.key,
                                  near.empty() ? fmt::format("; it has {}", fmt::join(names, ", "))
                                               : fmt::format("; did you mean `{}`?", near)));
  }

  void read_devices(const TomlEntry& entry) {
    policy_.devices = words(entry);
    for (const std::string& word : policy_.devices)
      if (word != "virtual" && word != "cuda")
        fail(entry.value.place, fmt::format("`{}` is not a device; use \"virtual\" or \"cuda\"", word));
  }
  void read_architectures(const TomlEntry& entry) { policy_.architectures = words(entry); }
  void read_contracts(const TomlEntry& entry) {
    policy_.contracts = words(entry);
    for (const std::string& word : policy_.contracts)
      if (word.size() != 64 || word.find_first_not_of("0123456789abcdef") != std::string::npos)
        fail(entry.value.place, "`contracts` lists SHA-256 digests: 64 hexadecimal digits each");
  }
  void read_proofs(const TomlEntry& entry) { policy_.proofs = words(entry); }
  void read_dims(const TomlEntry& entry) {
    if (entry.value.kind != TomlKind::Table) return fail(entry.value.place, "`dims` must be a table");
    for (const TomlEntry& dim : entry.value.table) {
      DemandedDim& demanded = policy_.dims.emplace_back(DemandedDim{dim.key, {}, {}});
      const bool is_table = dim.value.kind == TomlKind::Table;
      for (const TomlEntry& bound : dim.value.table) {
        auto* where = bound.key == "min" ? &demanded.min : bound.key == "max" ? &demanded.max : nullptr;
        if (!where || bound.value.kind != TomlKind::Integer)
          return fail(bound.place, "a dim takes `min` and `max`, whole numbers");
        *where = bound.value.integer;
      }
      if (demanded.min && demanded.max && *demanded.min > *demanded.max)
        return fail(dim.value.place, fmt::format("`min` of `{}` is larger than `max`", dim.key));
      if (is_table && !demanded.min && !demanded.max)
        return fail(dim.value.place, fmt::format("`{}` has neither `min` nor `max`", dim.key));
      if (!is_table)
        return fail(dim.value.place, fmt::format("`{}` must be a table: {{ min = 1, max = 4096 }}", dim.key));
    }
  }
  void read_age(const TomlEntry& entry) {
    if (entry.value.kind != TomlKind::Integer && entry.value.kind != TomlKind::Real)
      return fail(entry.value.place, "`max_age_days` must be a number");
    if (!(entry.value.real >= 0))  // nor NaN, which no age would exceed
      return fail(entry.value.place, "`max_age_days` must not be negative");
    policy_.max_age_days = entry.value.real;
  }
  void read_version(const TomlEntry& entry) {
    policy_.min_assay = entry.value.string;
    if (entry.value.kind != TomlKind::String || !version_of(policy_.min_assay))
      fail(entry.value.place, "`min_assay` must be a version such as \"0.1.0\"");
  }
  void read_trials(const TomlEntry& entry) {
    if (entry.value.kind != TomlKind::Integer || entry.value.integer < 0)
      return fail(entry.value.place, "`min_trials` must be a whole number, not negative");
    policy_.min_trials = static_cast<uint64_t>(entry.value.integer);
  }
  void read_training(const TomlEntry& entry) { policy_.training = boolean(entry); }
  void read_warnings(const TomlEntry& entry) { policy_.allow_warnings = boolean(entry); }

  bool boolean(const TomlEntry& entry) {
    if (entry.value.kind != TomlKind::Bool)
      fail(entry.value.place, fmt::format("`{}` must be true or false", entry.key));
    return entry.value.boolean;
  }
  std::vector<std::string> words(const TomlEntry& entry) {
    std::vector<std::string> list;
    const auto is_word = [](const TomlValue& item) { return item.kind == TomlKind::String; };
    if (entry.value.kind != TomlKind::Array || !std::ranges::all_of(entry.value.array, is_word))
      fail(entry.value.place, fmt::format("`{}` must be a list of strings", entry.key));
    else if (entry.value.array.empty())  // of a script that found nothing, say: it would demand nothing
      fail(entry.value.place,
           fmt::format("`{}` is empty; name at least one, or leave the key out", entry.key));
    for (const TomlValue& item : entry.value.array) list.push_back(item.string);
    return list;
  }
  void fail(contract::Place place, std::string message) {
    if (!error_)
      error_ = Error{std::move(message), path_, place.line, place.column, line_of(text_, place.line)};
  }

 public:
  // "0.1.0" as numbers; after these there may be "+" or "-" and more (a commit, say), which does not count.
  static std::optional<std::array<int, 3>> version_of(std::string_view text) {
    std::array<int, 3> numbers{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
      const auto [next, error] = std::from_chars(at, end, numbers[i]);
      if (error != std::errc() || numbers[i] < 0) return std::nullopt;
      at = next;
    }
    if (at != end && *at != '+' && *at != '-') return std::nullopt;
    return numbers;
  }

 private:
  std::string_view text_;
  const std::string& path_;
  Policy policy_;
  std::optional<Error> error_;
};

// "1 to 4096", "at most 4096"
std::string range_text(const DemandedDim& dim) {
  if (!dim.max) return fmt::format("from {}", dim.min.value_or(0));
  return dim.min ? fmt::format("{} to {}", *dim.min, *dim.max) : fmt::format("up to {}", *dim.max);
}

// ---- the demands, one function each: empty where it is met

std::vector<std::string> unmet_devices(const Policy& policy, const Certificate& certificate) {
  std::vector<std::string> lines;
  for (const std::string& kind : policy.devices)
    if (std::ranges::find(certificate.devices, kind, &CertifiedDevice::kind) == certificate.devices.end())
      lines.push_back(fmt::format("not checked on the device `{}`", kind));
  return lines;
}

std::vector<std::string> unmet_origin(const Policy& policy, const Certificate& certificate) {
  std::vector<std::string> lines;
  const auto is_in = [](const std::vector<std::string>& list, const std::string& word) {
    return list.empty() || std::ranges::find(list, word) != list.end();
  };
  if (!is_in(policy.architectures, certificate.toolchain.arch))
    lines.push_back(fmt::format("built for {}; the policy requires {}", certificate.toolchain.arch,
                                fmt::join(policy.architectures, " or ")));
  if (!is_in(policy.contracts, certificate.contract.sha256))
    lines.push_back(fmt::format("for the contract {} (SHA-256 {}), which the policy does not list",
                                certificate.contract.name, certificate.contract.sha256));
  const auto made = PolicyReader::version_of(certificate.assay),
             least = PolicyReader::version_of(policy.min_assay);
  if (least && (!made || *made < *least))
    lines.push_back(fmt::format("made by Assay {}; the policy requires {} or newer", certificate.assay,
                                policy.min_assay));
  return lines;
}

std::vector<std::string> unmet_age(const Policy& policy, const Certificate& certificate,
                                   std::chrono::system_clock::time_point now) {
  if (!policy.max_age_days) return {};
  const auto made = time_of(certificate.created);
  if (!made) return {fmt::format("its time, `{}`, cannot be read", certificate.created)};
  const double days = std::chrono::duration<double, std::ratio<86400>>(now - *made).count();
  constexpr double kClockDays = 1.0 / 24;  // clocks of two machines differ, by less than an hour
  if (days < -kClockDays) return {fmt::format("dated in the future: {}", certificate.created)};
  if (days > *policy.max_age_days)
    return {fmt::format("made {:.1f} days ago; at most {:g} are allowed: certify again", days,
                        *policy.max_age_days)};
  return {};
}

std::vector<std::string> unmet_coverage(const Policy& policy, const Certificate& certificate) {
  std::vector<std::string> lines;
  const Coverage& coverage = certificate.coverage;
  if (coverage.trials < policy.min_trials)
    lines.push_back(fmt::format("{} trials; the policy requires {}", coverage.trials, policy.min_trials));
  for (const DemandedDim& dim : policy.dims) {
    const auto tried = std::ranges::find(coverage.dims, dim.name, &CoveredDim::name);
    if (tried == coverage.dims.end())
      lines.push_back(fmt::format("the contract has no dim `{}`", dim.name));
    else if ((dim.min && tried->tried_min > *dim.min) || (dim.max && tried->tried_max < *dim.max))
      lines.push_back(fmt::format("{} was tried from {} to {}; the policy requires {}", dim.name,
                                  tried->tried_min, tried->tried_max, range_text(dim)));
  }
  return lines;
}

std::vector<std::string> unmet_results(const Policy& policy, const Certificate& certificate) {
  std::vector<std::string> lines;
  for (const std::string& obligation : policy.proofs) {
    int kernels = 0;
    for (const ProofResult& proof : certificate.proofs) {
      if (proof.obligation != obligation) continue;
      ++kernels;
      if (proof.status != "proved")
        lines.push_back(fmt::format("`{}` is not proved for {}", obligation, proof.kernel));
    }
    if (kernels == 0) lines.push_back(fmt::format("there is no proof of `{}`", obligation));
  }
  if (policy.training && certificate.training.empty()) lines.emplace_back("there was no training run");
  if (!policy.allow_warnings && !certificate.warnings.empty())
    lines.push_back(fmt::format("the check had warnings: {}", fmt::join(certificate.warnings, ", ")));
  return lines;
}

}  // namespace

Result<Policy> parse_policy(std::string_view text, const std::string& path) {
  return PolicyReader(text, path).run();
}

std::vector<std::string> unmet(const Policy& policy, const Certificate& certificate,
                               std::chrono::system_clock::time_point now) {
  std::vector<std::string> all;
  if (certificate.verdict != "pass") all.push_back(fmt::format("the verdict is `{}`", certificate.verdict));
  for (std::vector<std::string>& lines :
       std::array{unmet_devices(policy, certificate), unmet_origin(policy, certificate),
                  unmet_age(policy, certificate, now), unmet_coverage(policy, certificate),
                  unmet_results(policy, certificate)})
    all.insert(all.end(), lines.begin(), lines.end());
  return all;
}

std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::optional<std::chrono::system_clock::time_point> time_of(std::string_view text) {
  std::tm parts{};
  const std::string whole(text);
  const char* end = strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (!end || *end != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

}  // namespace assay::certificate
