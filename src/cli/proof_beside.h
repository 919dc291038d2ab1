// A proof beside the trials of a check: `assay prove` in a process of its own, which can be killed at any time.
//
//   ProofBeside proof(contract_path, seconds);
//   proof.start();                       // once the subject is built
//   …                                    // trials
//   Json result = proof.finish(0);       // what was decided so far
//
// The process runs at the lowest scheduling class (SCHED_IDLE): it takes only the time of cores that the trials leave
// idle. It writes its result anew whenever an obligation is decided, so that nothing has to wait for it.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/temporary_folder.h"
#include "finding/json.h"

namespace assay::cli {

class ProofBeside {
 public:
  ProofBeside(std::string contract, double seconds);
  ~ProofBeside();
  ProofBeside(const ProofBeside&) = delete;
  ProofBeside& operator=(const ProofBeside&) = delete;

  void start();
  // Ends it, after at most so many seconds; null: it has decided nothing yet, or has failed.
  Json finish(double wait);

 private:
  void stop();

  std::string contract_;
  double seconds_;
  TemporaryFolder folder_;
  pid_t child_ = -1;
};

}  // namespace assay::cli
