// Proofs beside the trials of a check: `assay prove` in a process of its own, which can be killed at any time.
//
//   BackgroundProof proof(contract, {.seconds = 20});
//   options.launched = proof.listener();            // the first trial starts it: by then the subject is built
//   CheckOutcome outcome = check(contract, options);
//   proof.finish(options, outcome.report);          // what was decided so far, held against what the trials launched
//
// The process has a low priority, so that it takes the time of cores that the trials leave idle, and little of the
// others'. It writes its result anew whenever an obligation is decided, so that nothing has to wait for it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "assayer/assayer.h"
#include "base/temporary_folder.h"
#include "prove/launch_log.h"

namespace assay::cli {

enum class Proving : uint8_t {
  IfRoom,  // if there is a core for it and enough time; never waited for
  Wait,    // a check that does not fail waits for it
  Off,
};

// Why a check with such a budget goes without proofs, for its report. `cores`: that are there for this check alone.
// None: it has them. Empty: it goes without a word.
std::optional<std::string> why_no_proof(Proving proving, const contract::Contract& contract,
                                        const assayer::CheckOptions& options, int cores);

class BackgroundProof {
 public:
  struct Options {
    double seconds = 20;  // of processor time, for the solver
    bool wait = false;    // at the end of the trials, until it is done
  };

  BackgroundProof(const contract::Contract& contract, Options options);
  ~BackgroundProof();
  BackgroundProof(const BackgroundProof&) = delete;
  BackgroundProof& operator=(const BackgroundProof&) = delete;

  // For CheckOptions::launched.
  std::function<void(const trial::Trial&, const subject::Observation&)> listener();
  // Ends it, and adds what it has shown to the report. A refutation counts once this process has run its trial itself:
  // then it is a finding like any other, and the check fails.
  void finish(const assayer::CheckOptions& options, report::Report& report);

 private:
  void start();
  void stop();
  void wait(double seconds);
  Json result() const;  // null: there is none yet
  void show_refutations(const assayer::CheckOptions& options, Json& proof, report::Report& report) const;

  const contract::Contract& contract_;
  Options options_;
  TemporaryFolder folder_;
  prove::LaunchLog log_;
  pid_t child_ = -1;
  bool started_ = false;
};

}  // namespace assay::cli
