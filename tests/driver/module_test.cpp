// Modules, libraries and the linker: PTX as text.
#include <cstring>
#include <fstream>

#include "support.h"

namespace assay::driver::test {
namespace {

using cudart::FunctionEntry;
using cudart::LibraryHandle;

TEST(Modules, HoldKernelsAndVariables) {
  EXPECT_EQ(
      in_context([](Api& api) {
        Add add;
        NEED(add.prepare(api) == 0);
        void* step = nullptr;
        size_t bytes = 0;
        unsigned count = 0;
        uint32_t value = 0;
        FunctionEntry *missing = nullptr, *only = nullptr;
        NEED_OK(api("cuModuleGetGlobal_v2", &step, &bytes, add.module, "step"));
        NEED(bytes == 4);
        NEED_OK(api("cuMemcpyDtoH_v2", static_cast<void*>(&value), step, bytes));
        NEED(value == 3);
        NEED(api("cuModuleGetGlobal_v2", &step, &bytes, add.module, "nothing") == Status::SymbolNotFound);
        NEED(api("cuModuleGetFunction", &missing, add.module, "nothing") == Status::SymbolNotFound);
        NEED_OK(api("cuModuleGetFunctionCount", &count, add.module));
        NEED(count == 1);
        NEED_OK(api("cuModuleEnumerateFunctions", &only, 1u, add.module));
        NEED(only == add.kernel);
        const char* name = nullptr;
        LibraryHandle* owner = nullptr;
        NEED_OK(api("cuFuncGetName", &name, add.kernel));
        NEED(std::string(name) == "add");
        NEED_OK(api("cuFuncGetModule", &owner, add.kernel));
        NEED(owner == add.module);
        size_t offset = 0, size = 0;
        NEED_OK(api("cuFuncGetParamInfo", add.kernel, size_t{1}, &offset, &size));
        NEED(offset == 8 && size == 4);
        NEED(api("cuFuncGetParamInfo", add.kernel, size_t{2}, &offset, &size) == Status::InvalidValue);
        NEED_OK(api("cuModuleUnload", add.module));
        return 0;
      }),
      0);
}

TEST(Modules, BrokenCodeIsAnErrorOfTheLoadWithALog) {
  EXPECT_EQ(in_context([](Api& api) {
              LibraryHandle* module = nullptr;
              char log[256] = "untouched";
              JitOption options[] = {JitOption::ErrorLog, JitOption::ErrorLogBytes};
              void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
              const char* broken =
                  ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add() { frobnicate; }";
              NEED(api("cuModuleLoadDataEx", &module, broken, 2u, options, values) == Status::InvalidPtx);
              NEED(std::string(log).find("frobnicate") != std::string::npos);
              NEED(values[1] == reinterpret_cast<void*>(std::strlen(log)));
              char brief[8];
              values[0] = brief;
              values[1] = reinterpret_cast<void*>(sizeof brief);
              NEED(api("cuModuleLoadDataEx", &module, broken, 2u, options, values) == Status::InvalidPtx);
              NEED(std::strlen(brief) == sizeof brief - 1);
              NEED(api("cuModuleLoad", &module, "/no/such/file.ptx") == Status::FileNotFound);
              NEED(api("cuModuleLoadData", &module, "no device code at all, but long enough to look at") ==
                   Status::InvalidKernelImage);
              if (kIsOurs)
                NEED(api("cuModuleLoadData", &module,
                         "\x7f"
                         "ELF machine code") == Status::NoKernelImageForDevice);
              return 0;
            }),
            0);
}

TEST(Libraries, AreModules) {
  EXPECT_EQ(in_context([](Api& api) {
              LibraryHandle *library = nullptr, *module = nullptr, *owner = nullptr;
              FunctionEntry *kernel = nullptr, *function = nullptr;
              const char path[] = "assay_driver_test.ptx";
              std::ofstream(path) << kAdd;
              const Status loaded = api("cuLibraryLoadFromFile", &library, path, static_cast<void*>(nullptr),
                                        static_cast<void*>(nullptr), 0u, static_cast<void*>(nullptr),
                                        static_cast<void*>(nullptr), 0u);
              std::remove(path);
              NEED_OK(loaded);
              NEED_OK(api("cuLibraryGetKernel", &kernel, library, "add"));
              NEED_OK(api("cuKernelGetFunction", &function, kernel));
              NEED_OK(api("cuLibraryGetModule", &module, library));
              NEED_OK(api("cuKernelGetLibrary", &owner, kernel));
              NEED(owner == library);
              FunctionEntry* of_module = nullptr;
              NEED_OK(api("cuModuleGetFunction", &of_module, module, "add"));
              NEED(of_module == function);
              int threads = 0;
              NEED_OK(api("cuKernelGetAttribute", &threads, KernelAttribute::MaxThreads, kernel, 0));
              NEED(threads == 1024);
              NEED_OK(api("cuLibraryUnload", library));
              return 0;
            }),
            0);
}

TEST(Linker, MakesOneModuleOfSeveralTexts) {
  EXPECT_EQ(in_context([](Api& api) {
              std::string caller = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 x);
.visible .entry run(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  .param .b32 given, back;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1];
  st.param.b32 [given], %r1;
  call (back), twice, (given);
  ld.param.b32 %r2, [back];
  st.global.u32 [%rd1], %r2;
  ret;
}
)";
              std::string callee = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) twice(.param .b32 x)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  add.s32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
)";
              void* linker = nullptr;
              const void* image = nullptr;
              size_t bytes = 0;
              auto* none = static_cast<void*>(nullptr);
              NEED_OK(api("cuLinkCreate_v2", 0u, none, none, &linker));
              NEED_OK(api("cuLinkAddData_v2", linker, JitInput::Ptx, caller.data(), caller.size() + 1,
                          "caller", 0u, none, none));
              NEED_OK(api("cuLinkAddData_v2", linker, JitInput::Ptx, callee.data(), callee.size() + 1,
                          "callee", 0u, none, none));
              if (kIsOurs)
                NEED(api("cuLinkAddData_v2", linker, JitInput::Cubin, callee.data(), callee.size(), "cubin",
                         0u, none, none) == Status::NotSupported);
              NEED_OK(api("cuLinkComplete", linker, &image, &bytes));
              NEED(bytes > callee.size());
              LibraryHandle* module = nullptr;
              FunctionEntry* kernel = nullptr;
              NEED_OK(api("cuModuleLoadData", &module, image));
              NEED_OK(api("cuLinkDestroy", linker));
              NEED_OK(api("cuModuleGetFunction", &kernel, module, "run"));
              void* number = nullptr;
              uint32_t value = 0;
              NEED_OK(api("cuMemAlloc_v2", &number, size_t{4}));
              NEED_OK(api("cuMemsetD32_v2", number, 21u, size_t{1}));
              void* parameters[] = {&number};
              NEED_OK(api("cuLaunchKernel", kernel, 1u, 1u, 1u, 1u, 1u, 1u, 0u, none, parameters, none));
              NEED_OK(api("cuMemcpyDtoH_v2", static_cast<void*>(&value), number, size_t{4}));
              NEED(value == 42);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace assay::driver::test
