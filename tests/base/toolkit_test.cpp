#include "base/toolkit.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Toolkit, FilesOfTheToolkitAreNotTheUsers) {
  for (const char* file :
       {"/usr/include/c++/12/cmath", "/usr/local/cuda-13.0/include/cuda_fp16.hpp",
        "/usr/local/cuda/bin/../targets/x86_64-linux/include/cub/cub.cuh",
        "/home/me/venv/lib/python3.11/site-packages/triton/language/standard.py",
        "/home/me/venv/lib/python3.11/site-packages/torch/_inductor/runtime/triton_helpers.py"})
    EXPECT_TRUE(is_toolkit_header(file)) << file;
  for (const char* file : {"/home/me/include/tile.cuh", "/home/me/triton/softmax.py", "softmax.cu",
                           "/home/me/venv/lib/python3.11/site-packages/liger_kernel/ops/rope.py"})
    EXPECT_FALSE(is_toolkit_header(file)) << file;
}

}  // namespace
}  // namespace assay
