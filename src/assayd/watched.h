// A kernel that applications have assayd watch: its contract, what has been seen of it, and the evidence so far. One for
// each library on each GPU: a build that is wrong, or a GPU that is broken, is named.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "assayd/sample_judge.h"
#include "assayd/shape_class.h"
#include "certificate/certificate.h"
#include "contract/contract.h"
#include "monitor/detector.h"
#include "monitor/ring.h"
#include "monitor/settings.h"

namespace assay::assayd {

// What an application says of itself (watch/watch.cpp writes it).
struct Application {
  monitor::CapturedFile contract;
  std::string certificate, library;  // paths; empty: none
  monitor::CapturedDevice device;
  int64_t pid = 0;
  std::string program;
};
Result<Application> read_application(std::string_view description);

// Compares errors in production with those that the certificate records. A warning, no alarm: data in production may
// differ from what was tried, and errors may be larger and right.
class Drift {
 public:
  void expect(const certificate::ErrorProfile& certified) { certified_ = certified; }
  void add(const judge::ErrorProfile& errors);
  // The largest difference, over all edges, between the share of elements beyond it in production and when the kernel was
  // certified; 0 where production's is smaller. None: too little was seen, or the certificate says nothing.
  std::optional<double> value() const;

 private:
  certificate::ErrorProfile certified_;
  double elements_ = 0;  // recent ones count most
  std::array<double, judge::ErrorProfile::kEdges.size()> beyond_{};
};
// Above it, assayd warns. Sampling noise of what is compared is about a hundredth.
inline constexpr double kMuchDrift = 0.1;

inline constexpr std::array<double, 8> kShares = {0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1};

// What samples have shown.
struct Seen {
  uint64_t judged = 0, unjudged = 0, elements = 0, violations = 0, class_violations = 0,
           trusted_violations = 0;
  std::array<uint64_t, kShares.size() + 1> shares{};
  double share_sum = 0;
  void add(const SampleVerdict& verdict);
  void add(const Seen& other);
};

// Counters of applications that have ended, and of those that run.
struct Counts {
  uint64_t calls = 0, samples = 0, overhead_ns = 0;
  std::array<uint64_t, monitor::kDropCount> dropped{};
  void add(const monitor::Counters& counters);
  void add(const Counts& other);
};

class Watched {
 public:
  static Result<std::unique_ptr<Watched>> make(const Application& application, const std::string& public_key);

  // Judges a sample; what it shows is added to the numbers below. An Error: it cannot be judged.
  Result<SampleVerdict> judge(const monitor::Sample& sample);
  // The capture of a call that was wrong.
  monitor::Capture capture(const Application& application, const monitor::Sample& sample,
                           const std::string& why) const;

  // The first digits of the digests of contract and library.
  struct Identity {
    std::string kernel, contract, build, gpu;
  };
  const Identity& identity() const { return identity_; }
  const std::string& name() const { return name_; }      // "scale-1a2b3c4d5e6f-GPU-…", for files
  const std::string& labels() const { return labels_; }  // of metrics
  const contract::Contract& contract() const { return contract_; }
  // Of the same contract, library and GPU, by their content.
  bool is_of(const Application& application) const;
  // Of all shapes.
  Seen seen_in_all() const;
  // `public_key`: PEM.
  void check_certificate(const Application& application, const std::string& public_key);

  // For metrics.
  Counts ended;
  ByShapeClass<Seen> seen;
  double lag_seconds = 0;
  std::optional<bool> certificate_valid;  // none: there is no certificate, or no key
  std::string certificate_problem, last_problem;
  bool has_warned = false;  // of drift
  monitor::Detector detector;
  Drift drift;

 private:
  Watched(contract::Contract contract, monitor::Settings settings, reference::Reference reference,
          bool tensor_cores);

  contract::Contract contract_;
  monitor::Settings settings_;
  reference::Reference reference_;
  SampleJudge judge_;
  Application of_;
  Identity identity_;
  std::string name_, labels_, library_bytes_, library_sha256_, certificate_sha256_;
  uint64_t seed_ = 0;
};

}  // namespace assay::assayd
