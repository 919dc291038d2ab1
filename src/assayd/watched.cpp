#include "assayd/watched.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "certificate/certificate.h"
#include "subject/cuda_reference.h"
#include "subject/uses_tensor_cores.h"

namespace assay::assayd {

using Json = nlohmann::json;

namespace {

// Above it, a capture names the library and holds no copy of it.
constexpr std::size_t kLargestLibrary = 64 << 20;  // bytes
constexpr std::size_t kDigits = 12;                // of a digest, in names
// What is read of a library or a certificate: an application may name any file. Far above any library of kernels; two of
// them fit into the memory that the systemd unit allows.
constexpr std::size_t kLargestRead = std::size_t{1} << 30;  // bytes
// Of a kernel in the names of files, of which a file system takes 255 bytes; mangled names of templates are longer.
constexpr std::size_t kLongestName = 120;
// Of an application's words in labels: a GPU's UUID has 40 characters, a MIG slice's at most 60.
constexpr std::size_t kLongestUuid = 64;

// A file that an application names. It may be anything, so pipes and devices are never read.
std::string bytes_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  auto bytes = read_file(path, kLargestRead);
  return bytes ? std::move(*bytes) : "";
}

// As Prometheus wants label values, and as file names may be.
std::string label_value(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return result;
}

std::string plain(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_'; }, '_');
  return text;
}

std::string kernel_name(const contract::Contract& contract) {
  const contract::Kernel& kernel = contract.kernel;
  return !kernel.entry.empty()    ? kernel.entry
         : !kernel.global.empty() ? kernel.global
                                  : kernel.python.function;
}

}  // namespace

void Seen::add(const SampleVerdict& verdict) {
  ++judged;
  elements += static_cast<uint64_t>(verdict.judged);
  violations += static_cast<uint64_t>(verdict.violations - verdict.of_class);
  class_violations += static_cast<uint64_t>(verdict.of_class);
  for (const double share : verdict.shares) {
    const auto bucket = std::ranges::lower_bound(kShares, share) - kShares.begin();
    ++shares[static_cast<std::size_t>(bucket)];
    share_sum += share;
  }
}

void Seen::add(const Seen& other) {
  judged += other.judged;
  unjudged += other.unjudged;
  elements += other.elements;
  violations += other.violations;
  class_violations += other.class_violations;
  trusted_violations += other.trusted_violations;
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] += other.shares[i];
  share_sum += other.share_sum;
}

void Counts::add(const monitor::Counters& counters) {
  calls += counters.calls;
  samples += counters.samples;
  overhead_ns += counters.overhead_ns;
  for (std::size_t i = 0; i < dropped.size(); ++i) dropped[i] += counters.dropped[i];
}

void Counts::add(const Counts& other) {
  calls += other.calls;
  samples += other.samples;
  overhead_ns += other.overhead_ns;
  for (std::size_t i = 0; i < dropped.size(); ++i) dropped[i] += other.dropped[i];
}

// Until a window is full, all samples count alike; then older ones count less and less.
void Drift::add(const judge::ErrorProfile& errors) {
  constexpr double kWindow = 200'000;  // elements
  if (elements_ > kWindow) {
    elements_ /= 2;
    for (double& count : beyond_) count /= 2;
  }
  elements_ += static_cast<double>(errors.elements);
  for (std::size_t i = 0; i < beyond_.size(); ++i) beyond_[i] += static_cast<double>(errors.beyond[i]);
}

std::optional<double> Drift::value() const {
  constexpr double kLeastElements = 20'000;
  const auto& edges = judge::ErrorProfile::kEdges;
  if (elements_ < kLeastElements || certified_.elements == 0 || !std::ranges::equal(certified_.edges, edges))
    return std::nullopt;
  double largest = 0;
  for (std::size_t i = 0; i < edges.size(); ++i)
    largest = std::max(largest, beyond_[i] / elements_ - certified_.beyond[i]);
  return largest;
}

Result<Application> read_application(std::string_view description) {
  const Json json = Json::parse(description, nullptr, false);
  try {
    Application application;
    application.contract = {json.at("contract").at("path").get<std::string>(),
                            json.at("contract").at("text").get<std::string>()};
    application.certificate = json.at("certificate").get<std::string>();
    application.library = json.at("library").get<std::string>();
    const Json& device = json.at("device");
    application.device = {device.at("kind").get<std::string>(), device.at("name").get<std::string>(),
                          device.at("uuid").get<std::string>()};
    application.pid = json.at("pid").get<int64_t>();
    if (application.device.uuid.size() > kLongestUuid) return Error{"the UUID of its GPU is too long"};
    application.program = json.at("program").get<std::string>();
    while (application.program.ends_with('\n')) application.program.pop_back();
    return application;
  } catch (const nlohmann::json::exception&) {
    return Error{
        "the application's description cannot be read; use libassay_monitor and assayd of the same release"};
  }
}

Watched::Watched(contract::Contract contract, monitor::Settings settings, reference::Reference reference,
                 bool tensor_cores)
    : detector(settings.samples_between_false_alarms),
      contract_(std::move(contract)),
      settings_(std::move(settings)),
      reference_(std::move(reference)),
      judge_(contract_, reference_, settings_, tensor_cores) {}

Result<std::unique_ptr<Watched>> Watched::make(const Application& application,
                                               const std::string& public_key) {
  auto contract = contract::parse(application.contract.bytes, application.contract.path);
  if (!contract) return contract.error();
  auto settings = monitor::settings_of(*contract);
  if (!settings) return settings.error();
  auto reference = reference::Reference::make(*contract, subject::cuda_reference(*contract, {}, {}));
  if (!reference) return reference.error();
  std::string bytes = bytes_of(application.library);
  subject::Subject subject;
  subject.library = application.library;
  const bool tensor_cores = bytes.empty() || subject::may_use_tensor_cores(subject, contract->kernel.arch);
  std::unique_ptr<Watched> watched(
      new Watched(std::move(*contract), std::move(*settings), std::move(*reference), tensor_cores));
  watched->of_ = application;
  watched->library_sha256_ = bytes.empty() ? "" : certificate::sha256(bytes);
  if (bytes.size() <= kLargestLibrary) watched->library_bytes_ = std::move(bytes);
  const std::string kernel = kernel_name(watched->contract_);
  const std::string build = watched->library_sha256_.substr(0, kDigits);
  const std::string contract_digest = certificate::sha256(application.contract.bytes).substr(0, kDigits);
  watched->identity_ = {kernel, contract_digest, build, application.device.uuid};
  watched->labels_ =
      fmt::format("kernel=\"{}\",contract=\"{}\",library=\"{}\",gpu=\"{}\"", label_value(kernel),
                  contract_digest, build, label_value(application.device.uuid));
  watched->name_ = plain(fmt::format("{}-{}-{}-{}", kernel.substr(0, kLongestName), contract_digest,
                                     build.empty() ? "unknown" : build, application.device.uuid));
  watched->seed_ = mix(static_cast<uint64_t>(std::time(nullptr)), hash(watched->name_));
  watched->check_certificate(application, public_key);
  return watched;
}

void Watched::check_certificate(const Application& application, const std::string& public_key) {
  if (application.certificate.empty()) return;
  std::error_code error;
  const auto file = std::filesystem::is_regular_file(application.certificate, error)
                        ? read_file(application.certificate, kLargestRead)
                        : Error{"there is no such file", application.certificate};
  if (file) certificate_sha256_ = certificate::sha256(*file);
  if (public_key.empty()) return;
  certificate_problem.clear();
  const auto fail = [&](std::string why) {
    certificate_valid = false;
    certificate_problem = std::move(why);
  };
  if (!file) return fail(file.error().text());
  const auto key = certificate::read_key(public_key, certificate::KeyHalf::Public, "");
  if (!key) return fail(key.error().text());
  const auto genuine = certificate::read_certificate(*file, *key);
  if (!genuine) return fail(genuine.error().text());
  std::string why = why_other_contract(*genuine, application.contract.path, application.contract.bytes);
  if (why.empty() && !application.library.empty())
    why = why_not_certified(*genuine, application.library, bytes_of(application.library));
  if (!why.empty()) return fail(std::move(why));
  certificate_valid = true;
  drift.expect(genuine->profile);
}

bool Watched::is_of(const Application& application) const {
  if (application.contract.bytes != of_.contract.bytes || application.device.uuid != of_.device.uuid)
    return false;
  const std::string bytes = bytes_of(application.library);
  return (bytes.empty() ? "" : certificate::sha256(bytes)) == library_sha256_;
}

Seen Watched::seen_in_all() const {
  Seen all;
  for (const auto& [shape, of_shape] : seen.all()) all.add(of_shape);
  return all;
}

Result<SampleVerdict> Watched::judge(const monitor::Sample& sample) {
  auto verdict = judge_.judge(sample.bindings, sample.outputs, seed_++);
  if (!verdict) return verdict.error();
  return verdict;
}

monitor::Capture Watched::capture(const Application& application, const monitor::Sample& sample,
                                  const std::string& why) const {
  monitor::Capture capture;
  // Files that have gone since are left out: the library is what is called again.
  if (!monitor::add_files(contract_, capture)) capture.files.clear();
  capture.contract = application.contract;
  capture.library = {application.library, library_bytes_};
  capture.bindings = sample.bindings;
  capture.outputs = sample.outputs;
  capture.device = application.device;
  capture.certificate_sha256 = certificate_sha256_;
  capture.why = why;
  capture.application = fmt::format("{} (pid {})", application.program, application.pid);
  capture.call = sample.call;
  capture.unix_seconds = std::time(nullptr);
  return capture;
}

}  // namespace assay::assayd
