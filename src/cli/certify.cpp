// assay certify: a check whose pass is bound to the files that passed, and signed.
//
// The files are read before and after the check, and nothing is certified that changed in between. The check itself is
// `assay check` in a process of its own, so that a certificate says what that command says.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "assayer/assayer.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "base/gpus.h"
#include "base/temporary_folder.h"
#include "certificate/certificate.h"
#include "certificate/policy.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "subject/device_code.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::cli {

namespace fs = std::filesystem;
using certificate::Certificate;
using certificate::CertifiedFile;
using certificate::FileKind;

namespace {

struct CertifyOptions {
  std::string contract, key, output, library;
  std::vector<std::string> devices, train_options;
  uint64_t seed = 1;
  double budget = 0;
  bool train = false, no_prove = false;
};

constexpr double kLongestCheck = 24 * 3600;  // seconds: the commands below end by their own limits

int changed_meanwhile() {
  fmt::print(stderr, "assay: no certificate written: files changed while they were checked\n");
  return judge::exit_status(judge::Verdict::Inconclusive);
}

// As a reader of the contract knows it, where it lies below the contract.
std::string name_beside(const fs::path& contract, const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::absolute(contract, error).parent_path().lexically_normal();
  const fs::path relative = fs::absolute(file, error).lexically_normal().lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? file.filename().string() : relative.string();
}

Result<CertifiedFile> certified(const std::string& path, std::string name, FileKind kind) {
  const auto bytes = read_file(path);
  if (!bytes) return Error{"cannot be read: " + bytes.error().message, path};
  return CertifiedFile{std::move(name), certificate::sha256(*bytes), kind};
}

// What is certified: the built library, what it was built from, and the PTX in it.
Result<std::vector<CertifiedFile>> certified_files(const contract::Contract& contract,
                                                   const subject::Subject& subject,
                                                   const std::string& library_name) {
  std::vector<CertifiedFile> files;
  const auto add = [&](const std::string& path, std::string name, FileKind kind) -> Result<void> {
    auto file = certified(path, std::move(name), kind);
    if (!file) return file.error();
    files.push_back(std::move(*file));
    return {};
  };
  if (!subject.library.empty())
    if (const auto added = add(subject.library, library_name, FileKind::Library); !added)
      return added.error();
  for (const std::string& path : subject.files) {
    const FileKind kind = path.ends_with(".ptx") ? FileKind::Ptx : FileKind::Source;
    if (const auto added = add(path, name_beside(contract.path, path), kind); !added) return added.error();
  }
  if (subject.library.empty()) return files;
  const auto texts = subject::device_code(subject, contract.kernel.arch);
  if (!texts) return texts.error();
  for (std::size_t i = 0; i < texts->size(); ++i) {
    std::string name = texts->size() == 1 ? fmt::format("{}.ptx", contract.kernel.arch)
                                          : fmt::format("{}.{}.ptx", contract.kernel.arch, i + 1);
    files.push_back({std::move(name), certificate::sha256((*texts)[i]), FileKind::Ptx});
  }
  return files;
}

Result<certificate::CertifiedContract> certified_contract(const contract::Contract& contract) {
  certificate::CertifiedContract all{fs::path(contract.path).filename().string(), "", {}};
  auto own = certified(contract.path, "", FileKind::Source);
  if (!own) return own.error();
  all.sha256 = own->sha256;
  for (const std::string& named :
       {contract.reference.python.file, contract.reference.cuda_source, contract.generator.file}) {
    if (named.empty()) continue;
    auto file = certified(contract.resolve(named), named, FileKind::Source);
    if (!file) return file.error();
    all.files.push_back(std::move(*file));
  }
  return all;
}

// "13.0.88" of nvcc's own words; empty: there is none.
std::string nvcc_version() {
  const std::string nvcc = subject::find_nvcc();
  if (nvcc.empty()) return "";
  constexpr double kSeconds = 30;
  const auto said = subject::run_command({nvcc, "--version"}, kSeconds);
  if (!said) return "";
  const std::size_t at = said->output.find(", V");
  const std::size_t end = said->output.find_first_not_of("0123456789.", at + 3);
  return at == std::string::npos ? "" : said->output.substr(at + 3, end - at - 3);
}

// The value in a line "Model: \t NVIDIA H200" of a file of the driver.
std::string driver_line(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(" \t", at + key.size());
  const std::size_t end = text.find('\n', at);
  return begin == std::string::npos || begin >= end ? "" : text.substr(begin, end - begin);
}

// The first GPU is the one that a check uses, and the driver's files say what it is.
certificate::CertifiedDevice device_of(const std::string& kind) {
  if (kind == "virtual") return {kind, std::string(kGpus[0].name), ""};
  certificate::CertifiedDevice device{kind, "", ""};
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it("/proc/driver/nvidia/gpus", error), end; !error && it != end;
       it.increment(error))
    folders.push_back(it->path());
  std::sort(folders.begin(), folders.end());
  if (!folders.empty())
    device.name = driver_line(text_of((folders.front() / "information").string()), "Model:");
  const std::string version = driver_line(text_of("/proc/driver/nvidia/version"), "Kernel Module");
  device.driver = version.substr(0, version.find(' '));
  return device;
}

std::vector<std::string> strings_in(const Json& list) {
  std::vector<std::string> words;
  for (const Json& item : list)
    if (item.is_string()) words.push_back(item.get<std::string>());
  return words;
}

certificate::Coverage coverage_of(const Json& json) {
  certificate::Coverage coverage;
  const Json dims = json.value("dims", Json::object()), stages = json.value("stages", Json::object());
  for (const auto& [name, dim] : dims.items())
    coverage.dims.push_back({name, dim.value("tried_min", int64_t{0}), dim.value("tried_max", int64_t{0}),
                             dim.value("promised_min", int64_t{0}), dim.value("promised_max", int64_t{0})});
  coverage.trials = json.value("trials", uint64_t{0});
  coverage.planned = json.value("planned", uint64_t{0});
  for (const auto& [name, trials] : stages.items()) coverage.conditions.push_back(name);
  coverage.inputs = strings_in(json.value("inputs", Json::array()));
  coverage.not_checked = strings_in(json.value("not_covered", Json::array()));
  return coverage;
}

certificate::ErrorProfile profile_of(const Json& json) {
  certificate::ErrorProfile profile;
  profile.edges = json.value("edges", std::vector<double>());
  profile.beyond = json.value("beyond", std::vector<double>());
  profile.elements = json.value("elements", uint64_t{0});
  return profile;
}

// What the report of a check adds to the certificate.
void add_report(Certificate& certificate, const Json& report) {
  const certificate::Coverage coverage = coverage_of(report.value("coverage", Json::object()));
  certificate.coverage = certificate.devices.empty() ? coverage : common(certificate.coverage, coverage);
  certificate.profile =
      common(certificate.profile,
             profile_of(report.value("coverage", Json::object()).value("errors", Json::object())));
  certificate.devices.push_back(device_of(report.value("device", "")));
  for (const Json& finding : report.value("findings", Json::array())) {
    const std::string kind = finding.value("kind", "");
    if (std::ranges::find(certificate.warnings, kind) == certificate.warnings.end())
      certificate.warnings.push_back(kind);
  }
  const Json proof = report.value("proof", Json::object());
  for (const Json& obligation : proof.value("obligations", Json::array()))
    certificate.proofs.push_back(
        {obligation.value("kernel", ""), obligation.value("obligation", ""), obligation.value("status", "")});
}

void add_training(Certificate& certificate, const Json& training) {
  // A gap that is not finite is a word, and nothing that passes has one.
  const auto number = [](const Json& cell, const char* key) {
    return cell.contains(key) && cell[key].is_number() ? cell[key].get<double>() : 0.0;
  };
  for (const Json& cell : training.value("cells", Json::array()))
    certificate.training.push_back({cell.value("tokens", ""), cell.value("optimizer", ""),
                                    number(cell, "loss_gap"), number(cell, "noise")});
}

// Runs a command of this program, shows what it printed, and returns its report; its status where it did not pass.
struct Reported {
  int status = 0;
  Json report;
};
Reported reported(const std::vector<std::string>& words, const TemporaryFolder& folder) {
  const std::string json = folder.file(words.front() + ".json");
  std::vector<std::string> command = {subject::program_folder() + "/assay"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--json", json});
  const auto ended = subject::run_command(command, kLongestCheck);
  if (!ended) {
    fmt::print(stderr, "assay: {}\n", ended.error().text());
    return {judge::exit_status(judge::Verdict::Inconclusive), {}};
  }
  fmt::print("{}", ended->output);
  Json report = Json::parse(text_of(json), nullptr, false);
  const bool is_pass = report.is_object() && report.value("verdict", "") == "pass" && ended->status == 0;
  if (is_pass) return {0, std::move(report)};
  const int status = ended->status == 0 ? judge::exit_status(judge::Verdict::Inconclusive) : ended->status;
  fmt::print(stderr, "assay: no certificate written: assay {} did not pass\n", words.front());
  return {status, {}};
}

// Checks the kernel on every device, and trains with it where that is asked for. An exit status where it ends here.
std::optional<int> check_for(Certificate& certificate, const CertifyOptions& options) {
  const TemporaryFolder folder("certify");
  bool is_first = true;
  for (const std::string& device : options.devices) {
    std::vector<std::string> words = {"check", options.contract, "--device",
                                      device,  "--seed",         std::to_string(options.seed)};
    if (options.budget > 0) words.insert(words.end(), {"--budget", fmt::format("{}", options.budget)});
    words.emplace_back(is_first && !options.no_prove ? "--prove" : "--no-prove");
    is_first = false;
    const Reported check = reported(words, folder);
    if (check.status != 0) return check.status;
    add_report(certificate, check.report);
  }
  if (!options.train) return std::nullopt;
  std::vector<std::string> words = {"train", options.contract};
  words.insert(words.end(), options.train_options.begin(), options.train_options.end());
  const Reported training = reported(words, folder);
  if (training.status != 0) return training.status;
  add_training(certificate, training.report);
  return std::nullopt;
}

int certify(const CertifyOptions& options) {
  const auto contract = contract::load(options.contract);
  if (!contract) return complain(contract.error());
  const auto pem = read_file(options.key);
  if (!pem) return complain({"the key cannot be read: " + pem.error().message, options.key});
  const char* password = std::getenv("ASSAY_KEY_PASSWORD");
  const auto key = certificate::read_key(*pem, certificate::KeyHalf::Private, password ? password : "");
  if (!key) return complain({key.error().message, options.key});
  for (const std::string& path : {options.output, options.library}) {
    const std::string folder = path.empty() ? "." : fs::absolute(path).parent_path().string();
    if (access(folder.c_str(), W_OK) != 0)
      return complain({fmt::format("cannot be written: {}", std::strerror(errno)), path});
  }
  announce_cache();
  const auto built = subject::build(*contract, {});
  if (!built.subject) {
    fmt::print(stderr, "{}\n", diagnostic(built.failure.error));
    if (!built.failure.output.empty()) fmt::print(stderr, "{}\n", built.failure.output);
    return kWrongUse;
  }
  const subject::Subject& subject = *built.subject;
  if (!options.library.empty() && subject.library.empty())
    return complain({"--library: this kernel is not built into a library", options.contract});
  const std::string library_name =
      fs::path(options.library.empty() ? subject.library : options.library).filename().string();
  const auto files = certified_files(*contract, subject, library_name);
  if (!files) return complain(files.error());
  const auto own = certified_contract(*contract);
  if (!own) return complain(own.error());

  Certificate certificate{.files = *files, .contract = *own, .assay = ASSAY_VERSION, .seed = options.seed};
  certificate.toolchain = {subject.library.empty() ? "" : nvcc_version(), contract->kernel.flags,
                           contract->kernel.arch};
  if (const auto status = check_for(certificate, options)) return *status;
  certificate.created = certificate::time_text(std::chrono::system_clock::now());

  const auto files_after = certified_files(*contract, subject, library_name);
  const auto own_after = certified_contract(*contract);
  if (!files_after || !own_after || *files_after != *files || *own_after != *own) return changed_meanwhile();
  const auto text = certificate::write_certificate(certificate, *key);
  if (!text) return complain({text.error().message, options.key});
  if (!options.library.empty()) {
    const std::string library = text_of(subject.library);
    if (certificate::sha256(library) != files->front().sha256) return changed_meanwhile();
    if (!write_text(options.library, library)) return kWrongUse;
  }
  if (!write_text(options.output, *text)) return kWrongUse;
  fmt::print("certified: {}\n  {} file{}, contract {}, {} key {}\n", options.output, certificate.files.size(),
             certificate.files.size() == 1 ? "" : "s", certificate.contract.name, key->algorithm(),
             key->fingerprint());
  return 0;
}

}  // namespace

int certify_command(std::vector<std::string> args) {
  Arguments arguments(
      "Checks a kernel and, if it passes, writes a signed certificate that binds the verdict to the "
      "contract, the "
      "sources, the PTX and the library.",
      "assay certify");
  CertifyOptions options;
  arguments.add("contract", options.contract, "a contract file").required();
  arguments.add("--key FILE", options.key, "private key, PEM: Ed25519 or ECDSA over P-256 (openssl genpkey)")
      .required();
  arguments.add("-o,--output FILE", options.output, "write the certificate to this file").required();
  arguments.add("--library FILE", options.library, "write the library that was checked to this file");
  arguments.add("--device DEVICE", options.devices,
                "where kernels run: virtual (the default), cuda; may be repeated");
  arguments.add("--seed", options.seed, "random seed of the check");
  arguments.add("--budget SECONDS", options.budget, "seconds of trials").positive();
  arguments.add_flag("--train", options.train,
                     "also train a small transformer with the kernel (assay train --help)");
  arguments.add("--train-option OPTION", options.train_options,
                "an option for assay train, such as --train-option=--steps=20; may be repeated");
  arguments.add_flag("--no-prove", options.no_prove,
                     "skip the proofs that run beside the trials (assay prove --help)");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (options.devices.empty()) options.devices = {"virtual"};
  for (const std::string& device : options.devices)
    if (device != "virtual" && device != "cuda")
      return complain({fmt::format("--device: there is no device `{}`; use virtual or cuda", device)});
  return certify(options);
}

}  // namespace assay::cli
