// A benchmark's problem and an answer to it, as a contract: `assay check ANSWER --problem P`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace assay::reference {
class TorchProcess;
}

namespace assay::cli {

struct Problem {
  std::string contract;                            // path of the contract that was written
  std::string format;                              // "kernelbench"
  std::vector<std::string> notes;                  // what was decided on the way, a sentence each
  std::vector<std::string> files;                  // of the problem: nothing for the answer to read
  std::shared_ptr<reference::TorchProcess> torch;  // that described it; the check goes on with it
};

// The package's Python part reads the formats (python/assay/problem) and writes the contract with all that it
// refers to into a folder of the cache. That folder's name follows from what the answer and the problem hold, so a
// replay finds it again.
Result<Problem> describe_problem(const std::string& answer, const std::string& problem);

}  // namespace assay::cli
