// For the tests of the driver API: its library in a process of its own, and a kernel to run.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "../cudart/support.h"
#include "driver/abi.h"
#include "driver/context.h"

namespace assay::driver::test {

inline void* const kNone = nullptr;

using cudart::Status;
using cudart::test::kAdd;
using cudart::test::kBinary;

// On a machine with a GPU the same tests run on NVIDIA's libraries:
//   ASSAY_TEST_DRIVER=libcuda.so.1 ASSAY_TEST_RUNTIME=…/libcudart.so.13 driver_test --gtest_filter=-Symbols.*:Missing.*:Run.*
inline std::string library(const char* variable, const char* name) {
  const char* other = std::getenv(variable);
  return other ? other : kBinary + "/lib/" + name;
}
// What only ours does is not asked of NVIDIA's.
inline const bool kIsOurs = !std::getenv("ASSAY_TEST_DRIVER");
inline const std::string kDriver = library("ASSAY_TEST_DRIVER", "libcuda.so.1");
inline const std::string kRuntime = library("ASSAY_TEST_RUNTIME", "libcudart.so.13");

// The library as a program sees it. Arguments are passed as they are given: their types must be exact.
struct Api {
  void* driver = dlopen(kDriver.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* runtime = dlopen(kRuntime.c_str(), RTLD_NOW | RTLD_LOCAL);

  template <class... Args>
  Status operator()(const char* name, Args... args) const {
    auto* function = reinterpret_cast<Status (*)(Args...)>(dlsym(name[2] == 'd' ? runtime : driver, name));
    return function ? function(args...) : Status::Unknown;
  }
};

// Runs `body` in a process of its own, since contexts and faults stay; it returns 0 or the line that failed.
inline int in_child(const std::function<int(Api&)>& body) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ASSAY_QUIET", "1", 1);
    Api api;
    const int line = api.driver && api.runtime ? body(api) : 9999;
    if (line) fprintf(stderr, "in the child: line %d\n", line);
    _exit(line ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define NEED(condition)                \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (false)
#define NEED_OK(call) NEED((call) == assay::cudart::Status::Success)

// The same with a context.
inline int in_context(const std::function<int(Api&)>& body) {
  return in_child([&](Api& api) {
    ContextHandle* context = nullptr;
    NEED_OK(api("cuInit", 0u));
    NEED_OK(api("cuCtxCreate_v2", &context, 0u, 0));
    const int line = body(api);
    if (line == 0) NEED_OK(api("cuCtxDestroy_v2", context));
    return line;
  });
}

// A module, its kernel, and 32 numbers 0, 1, 2, … on the device.
struct Add {
  cudart::LibraryHandle* module = nullptr;
  cudart::FunctionEntry* kernel = nullptr;
  void* numbers = nullptr;

  int prepare(Api& api) {
    uint32_t host[32];
    for (uint32_t i = 0; i < 32; ++i) host[i] = i;
    NEED_OK(api("cuModuleLoadData", &module, kAdd));
    NEED_OK(api("cuModuleGetFunction", &kernel, module, "add"));
    NEED_OK(api("cuMemAlloc_v2", &numbers, sizeof host));
    NEED_OK(api("cuMemcpyHtoD_v2", numbers, static_cast<const void*>(host), sizeof host));
    return 0;
  }
  // Whether each number has grown by this much.
  bool grown_by(Api& api, uint32_t amount) const {
    uint32_t host[32];
    if (api("cuMemcpyDtoH_v2", static_cast<void*>(host), numbers, sizeof host) != Status::Success)
      return false;
    for (uint32_t i = 0; i < 32; ++i)
      if (host[i] != i + amount) return false;
    return true;
  }
};

}  // namespace assay::driver::test
