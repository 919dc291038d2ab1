// The worker: a process that loads the subject and makes the calls that it is asked for
// (protocol/messages.h). It knows no contract and no expected value, and shares nothing with the command but
// the protocol.
#pragma once

#include "subject/worker/python.h"

namespace assay::worker {

// Serves the command until it closes the socket; the exit status. `python`: how to call Python, where this
// process is an interpreter; null elsewhere.
int run(const PythonCalls* python);

}  // namespace assay::worker
