// The library as a program sees it, without nvcc: PTX through cudaLibraryLoadData, and broken input.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "cudart/abi.h"
#include "support.h"

namespace assay::cudart::test {
namespace {

struct Api {
  void* library = dlopen(kLibrary.c_str(), RTLD_NOW | RTLD_LOCAL);

  template <class... Args>
  Status call(const char* name, Args... args) {
    auto* function = reinterpret_cast<Status (*)(Args...)>(dlsym(library, name));
    return function ? function(args...) : Status::Unknown;
  }
  Status load(LibraryHandle** handle, const void* code) {
    return call("cudaLibraryLoadData", handle, code, nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  }
};

// In a process of its own, since a context and its faults stay. `body` returns the exit status.
int in_child(const std::function<int(Api&)>& body) {
  pid_t child = fork();
  if (child == 0) {
    setenv("ASSAY_QUIET", "1", 1);
    Api api;
    _exit(api.library ? body(api) : 99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Library, RunsPtx) {
  EXPECT_EQ(in_child([](Api& api) {
              LibraryHandle* library = nullptr;
              FunctionEntry* kernel = nullptr;
              if (api.load(&library, kAdd) != Status::Success) return 1;
              if (api.call("cudaLibraryGetKernel", &kernel, library, "add") != Status::Success) return 2;
              void* device = nullptr;
              if (api.call("cudaMalloc", &device, size_t{128}) != Status::Success) return 3;
              uint32_t host[32], x = 100;
              for (uint32_t i = 0; i < 32; ++i) host[i] = i;
              if (api.call("cudaMemcpy", device, static_cast<void*>(host), sizeof host, 1) != Status::Success)
                return 4;
              void* arguments[] = {&device, &x};
              auto* launch =
                  reinterpret_cast<Status (*)(const void*, Dim, Dim, void**, size_t, StreamHandle*)>(
                      dlsym(api.library, "cudaLaunchKernel"));
              if (launch(kernel, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr) != Status::Success) return 5;
              if (api.call("cudaMemcpy", static_cast<void*>(host), device, sizeof host, 2) != Status::Success)
                return 6;
              for (uint32_t i = 0; i < 32; ++i)
                if (host[i] != i + 300) return 7;
              return 0;
            }),
            0);
}

TEST(Library, BrokenCodeIsAnErrorWhenUsed) {
  struct Case {
    std::string code;
    Status expected;
  };
  std::string container(64, '\0');
  const unsigned char header[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48, 0, 0, 0, 0, 0, 0, 0};
  std::memcpy(container.data(), header, sizeof header);
  const Case cases[] = {
      {std::string(64, '\0'), Status::InvalidPtx},
      {"this is no device code at all, but there is enough of it to look at", Status::InvalidPtx},
      {".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add() { frobnicate; }",
       Status::InvalidPtx},
      {".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add(", Status::InvalidPtx},
      {container, Status::InvalidKernelImage},
  };
  for (const Case& one : cases) {
    int status = in_child([&](Api& api) {
      LibraryHandle* library = nullptr;
      FunctionEntry* kernel = nullptr;
      if (api.load(&library, one.code.data()) != Status::Success) return 1;
      Status found = api.call("cudaLibraryGetKernel", &kernel, library, "add");
      if (found != one.expected) return 2;
      return api.call("cudaLibraryUnload", library) == Status::Success ? 0 : 3;
    });
    EXPECT_EQ(status, 0) << one.code.substr(0, 60);
  }
}

// A program whose fatbinary is damaged registers it, starts, and gets an error at its first launch.
TEST(Library, DamagedRegistrationIsAnErrorAtTheLaunch) {
  std::string good(64, '\0');
  for (const char* magic : {"wrong", "\x50\xed\x55\xba\xff\xff"}) {
    int status = in_child([&](Api& api) {
      std::string data(4096, '\0');
      std::memcpy(data.data(), magic, strlen(magic));
      FatbinaryWrapper wrapper{kWrapperMagic, 1, data.data(), nullptr};
      auto* add = reinterpret_cast<void** (*)(void*)>(dlsym(api.library, "__cudaRegisterFatBinary"));
      auto* name =
          reinterpret_cast<void (*)(void**, const char*, char*, const char*, int, void*, void*, void*, void*,
                                    int*)>(dlsym(api.library, "__cudaRegisterFunction"));
      void** handle = add(&wrapper);
      static const char host = 0;
      name(handle, &host, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
      auto* launch = reinterpret_cast<Status (*)(const void*, Dim, Dim, void**, size_t, StreamHandle*)>(
          dlsym(api.library, "cudaLaunchKernel"));
      Status found = launch(&host, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
      if (found != Status::InvalidKernelImage) return 1;
      if (api.call("cudaGetLastError") != Status::InvalidKernelImage) return 2;
      void* memory = nullptr;  // and everything else still works
      return api.call("cudaMalloc", &memory, size_t{4}) == Status::Success ? 0 : 3;
    });
    EXPECT_EQ(status, 0) << magic;
  }
}

TEST(Library, UnsupportedFunctionsSayTheirNameOnce) {
  const char* body =
      "import ctypes,os\n"
      "l = ctypes.CDLL(os.environ['LIB'])\n"
      "print(l.cudaCreateTextureObject(0, 0, 0, 0), l.cudaCreateTextureObject(0, 0, 0, 0), "
      "l.cudaGLGetDevices())\n";
  Ended ended = run({"python3", "-c", body}, {{"LIB", kLibrary}});
  if (ended.exit == 127) GTEST_SKIP() << "no python3";
  EXPECT_EQ(ended.out, "801 801 801\n") << ended.err;
  EXPECT_EQ(ended.err,
            "assay: cudaCreateTextureObject is not supported by the virtual GPU\n"
            "assay: cudaGLGetDevices is not supported by the virtual GPU\n");
}

// After a fork the child has no device, as with the real runtime.
TEST(Library, AForkedChildIsRefused) {
  EXPECT_EQ(in_child([](Api& api) {
              void* memory = nullptr;
              if (api.call("cudaMalloc", &memory, size_t{4}) != Status::Success) return 1;
              pid_t child = fork();
              if (child == 0) _exit(static_cast<int>(api.call("cudaMalloc", &memory, size_t{4})));
              int status = 0;
              waitpid(child, &status, 0);
              return WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Status::InitializationError)
                         ? 0
                         : 2;
            }),
            0);
}

}  // namespace
}  // namespace assay::cudart::test
