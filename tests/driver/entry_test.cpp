// cuGetProcAddress, the way from the runtime to the driver, and the refusal of what is missing.
#include "support.h"

namespace assay::driver::test {
namespace {

constexpr uint64_t kDefault = 0, kPerThread = 2;

struct Found {
  Status status;
  void* address = nullptr;
  ProcAddressResult result{};
};

Found find(Api& api, const char* name, int version, uint64_t flags = kDefault) {
  Found found;
  found.status = api("cuGetProcAddress_v2", name, &found.address, version, flags, &found.result);
  return found;
}

TEST(ProcAddress, GivesTheMeaningOfTheProgramsVersion) {
  EXPECT_EQ(in_child([](Api& api) {
              auto exported = [&](const char* symbol) { return dlsym(api.driver, symbol); };
              NEED(find(api, "cuMemAlloc", 13000).address == exported("cuMemAlloc_v2"));
              NEED(find(api, "cuMemAlloc", 3010).address == exported("cuMemAlloc"));
              NEED(find(api, "cuCtxCreate", 11030).address == exported("cuCtxCreate_v2"));
              NEED(find(api, "cuCtxCreate", 13000).address == exported("cuCtxCreate_v4"));
              NEED(find(api, "cuLaunchKernel", 12000).address == exported("cuLaunchKernel"));
              NEED(find(api, "cuLaunchKernel", 12000, kPerThread).address == exported("cuLaunchKernel_ptsz"));
              NEED(find(api, "cuMemcpyHtoD", 12000, kPerThread).address == exported("cuMemcpyHtoD_v2_ptds"));
              NEED(find(api, "cuMemAlloc", 12000, kPerThread).address == exported("cuMemAlloc_v2"));
              return 0;
            }),
            0);
}

TEST(ProcAddress, SaysWhyThereIsNone) {
  EXPECT_EQ(
      in_child([](Api& api) {
        Found unknown = find(api, "cuFrobnicate", 13000);
        NEED(unknown.status == Status::Success && !unknown.address);
        NEED(unknown.result == ProcAddressResult::NotFound);
        Found newer = find(api, "cuLaunchKernelEx", 11000);
        NEED(newer.status == Status::Success && !newer.address);
        NEED(newer.result == ProcAddressResult::VersionNotSufficient);
        NEED(find(api, "cuInit", 13000, 4).status == Status::InvalidValue);
        // Per-thread default streams came with CUDA 7.
        Found streams = find(api, "cuLaunchKernel", 6050, kPerThread);
        NEED(!streams.address && streams.result == ProcAddressResult::VersionNotSufficient);
        // Without a place for the reason, it is an error.
        void* address = nullptr;
        NEED(api("cuGetProcAddress", "cuFrobnicate", &address, 13000, kDefault) == Status::SymbolNotFound);
        return 0;
      }),
      0);
}

TEST(ProcAddress, TheRuntimeAsksTheDriver) {
  EXPECT_EQ(in_child([](Api& api) {
              void* entry = nullptr;
              int found = -1;
              NEED_OK(api("cudaGetDriverEntryPointByVersion", "cuMemFree", &entry, 12000u, 0ull, &found));
              NEED(entry == dlsym(api.driver, "cuMemFree_v2") && found == 0);
              NEED_OK(api("cudaGetDriverEntryPointByVersion", "cuFrobnicate", &entry, 12000u, 0ull, &found));
              NEED(!entry && found == 1);
              NEED_OK(api("cudaGetDriverEntryPoint_ptsz", "cuMemsetD8Async", &entry, 0ull, &found));
              NEED(entry == dlsym(api.driver, "cuMemsetD8Async_ptsz"));
              return 0;
            }),
            0);
}

TEST(Missing, SaysItsNameOnce) {
  const char* body =
      "import ctypes,os\n"
      "l = ctypes.CDLL(os.environ['LIB'])\n"
      "print(l.cuArrayCreate_v2(0, 0), l.cuArrayCreate_v2(0, 0), l.cuTexObjectCreate(0, 0, 0, 0))\n";
  const cudart::test::Ended ended = cudart::test::run({"python3", "-c", body}, {{"LIB", kDriver}});
  if (ended.exit == 127) GTEST_SKIP() << "no python3";
  EXPECT_EQ(ended.out, "801 801 801\n") << ended.err;
  EXPECT_EQ(ended.err,
            "assay: cuArrayCreate_v2 is not supported by the virtual GPU\n"
            "assay: cuTexObjectCreate is not supported by the virtual GPU\n");
}

TEST(Missing, AStaticRuntimeIsToldWhatToDo) {
  const char* body =
      "import ctypes,os\n"
      "l = ctypes.CDLL(os.environ['LIB'])\n"
      "table = ctypes.c_void_p(1)\n"
      "print(l.cuGetExportTable(ctypes.byref(table), b'0123456789abcdef'), table.value)\n";
  const cudart::test::Ended ended = cudart::test::run({"python3", "-c", body}, {{"LIB", kDriver}});
  if (ended.exit == 127) GTEST_SKIP() << "no python3";
  EXPECT_EQ(ended.out, "801 None\n") << ended.err;
  EXPECT_NE(ended.err.find("link with `nvcc -cudart shared`"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace assay::driver::test
