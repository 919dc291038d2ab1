// The device code of a subject with pauses in it (perturb.h), compiled: a file that a worker on a real GPU can use in the
// place of the subject's own.
#pragma once

#include <string>

#include "subject/subject.h"

namespace assay::subject {

struct PerturbedCode {
  std::string
      file;  // for protocol::WorkerSetup::other_code, or PTX where the subject is PTX; empty: there is none
  std::string problem;  // why
};
// The toolkit's assembler compiles it, in a folder that must stay as long as the code is used.
PerturbedCode perturbed_code(const Subject& subject, const std::string& arch, const std::string& folder);

// Whether kernels ask on which multiprocessor they run, or might: on a GPU that presents itself with fewer of them than it
// has, such a kernel would be misled.
bool asks_for_multiprocessor(const Subject& subject, const std::string& arch);

}  // namespace assay::subject
