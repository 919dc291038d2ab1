// The subject in the worker: the function that is called, or the kernel that is launched.
#pragma once

#include <string>

#include "protocol/messages.h"
#include "subject/worker/buffers.h"
#include "subject/worker/runtime.h"

namespace assay::worker {

class EntryPoint {
 public:
  EntryPoint(const protocol::WorkerSetup& setup, const Runtime& runtime, const Stream* streams)
      : setup_(setup), runtime_(runtime), streams_(streams) {}

  // Runs the subject's constructors. An empty string, or what went wrong.
  std::string load();
  // Makes the call number `which`, and returns what it returned.
  int call(const protocol::CallRequest& call, std::size_t which, const Buffers& buffers) const;

 private:
  struct Arguments;

  std::string load_library();
  std::string load_ptx();
  Arguments arguments(const protocol::CallRequest& call, std::size_t which, const Buffers& buffers) const;
  void launch(const protocol::LaunchShape& shape, void** arguments, Stream stream) const;

  const protocol::WorkerSetup& setup_;
  const Runtime& runtime_;
  const Stream* streams_;
  void* function_ = nullptr;  // to call; of a kernel in a library, its launcher
  void* kernel_ = nullptr;    // of PTX
  std::string ptx_;
};

}  // namespace assay::worker
