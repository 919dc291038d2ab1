// A Python subject: the process is an interpreter from the start, and loads the worker as a library
// (python_library.cpp, python/assay/worker). Buffers, streams, poison and replies are the worker's as for any
// subject; only the call itself happens in Python.
#pragma once

#include <cstddef>
#include <string>

#include "protocol/messages.h"
#include "subject/worker/buffers.h"

namespace assay::worker {

// Functions of the interpreter. Each reads JSON, writes JSON of at most `capacity` bytes with the final zero,
// and returns 0; another number: it could not even do that.
struct PythonCalls {
  int (*load)(const char* setup, char* answer, size_t capacity);
  int (*call)(const char* call, char* answer, size_t capacity);
};

// Thrown where a call fails, and caught where the reply is written.
struct PythonFailed {
  protocol::PythonFailure failure;
};

class PythonEntry {
 public:
  PythonEntry(const protocol::WorkerSetup& setup, const PythonCalls& calls) : setup_(setup), calls_(calls) {}

  // Imports the subject's file. Nothing, or what went wrong.
  std::optional<protocol::PythonFailure> load() const;
  // Makes the call number `which` on `stream`.
  void call(const protocol::CallRequest& call, std::size_t which, const Buffers& buffers,
            Stream stream) const;

 private:
  const protocol::WorkerSetup& setup_;
  const PythonCalls& calls_;
};

}  // namespace assay::worker
