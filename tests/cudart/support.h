// For the tests of the runtime: where things are, and how to run a program and see what it did.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "folders.h"

namespace assay::cudart::test {

inline const std::string kBinary = kBinaryFolder;
inline const std::string kSource = kSourceFolder;
inline const std::string kLibrary = kBinary + "/lib/libcudart.so.13";
inline const std::string kPrograms = kBinary + "/tests/cudart_programs/";  // built where there is nvcc

struct Ended {
  int exit = -1;  // -1: by a signal
  int signal = 0;
  std::string out, err;
};

// Runs a program with our library first on the loader's path and these variables set.
Ended run(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables = {});

std::string read_file(const std::string& path);
std::vector<std::string> lines(const std::string& text);
bool exists(const std::string& path);

// Skips the test, visibly, where the program was not built because there is no nvcc.
#define ASSAY_NEEDS_PROGRAM(name)                                            \
  if (!assay::cudart::test::exists(assay::cudart::test::kPrograms + (name))) \
  GTEST_SKIP() << "no nvcc was found when the tests were configured: " << (name) << " was not built"

// add(p, x): p[tid] += step * x, where `step` is a variable of the module.
inline constexpr char kAdd[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 step = 3;
.visible .entry add(.param .u64 p, .param .u32 x)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [x];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.global.u32 %r3, [%rd2];
  ld.global.u32 %r4, [step];
  mad.lo.s32 %r5, %r4, %r1, %r3;
  st.global.u32 [%rd2], %r5;
  ret;
}
)";

}  // namespace assay::cudart::test
