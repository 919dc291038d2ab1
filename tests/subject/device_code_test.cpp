#include "subject/device_code.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace assay::subject {
namespace {

// A kernel whose first instruction is of line 6, with one that was inlined from a header before it.
std::string ptx_of(const std::string& file) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.file 1 \"" + file +
         "\"\n.file 2 \"/usr/local/cuda/include/cuda_fp16.h\"\n"
         ".visible .entry _Z5scalePf()\n{\n.reg .b32 %r<4>;\n"
         ".loc 2 900 3\nmov.u32 %r0, 1;\n.loc 1 7 3\nmov.u32 %r1, 1;\n.loc 1 6 3\nmov.u32 %r2, 1;\n"
         "ret;\n}\n.visible .entry plain()\n{\nret;\n}\n";
}

class PlaceOfKernel : public ::testing::Test {
 protected:
  TemporaryFolder folder_{"place"};
  std::string file_ = folder_.file("answer.py");

  Where place(const std::string& source, const std::string& symbol) {
    std::ofstream(file_) << source;
    const auto module = ptx::parse(ptx_of(file_));
    EXPECT_TRUE(module) << module.error().text();
    return place_of_kernel(std::span(&*module, 1), symbol);
  }
};

TEST_F(PlaceOfKernel, IsItsDefinition) {
  const std::string source =
      "import torch\n"
      "# scale(x) is a kernel\n"
      "cuda = \"\"\"\n"
      "__global__ void scale(float* x) {\n"
      "  // first\n"
      "  x[0] = 1;\n"
      "  x[1] = 2;\n"
      "}\n"
      "void launch() { scale<<<1, 1>>>(x); }\"\"\"\n";
  EXPECT_EQ(place(source, "_Z5scalePf"), (Where{file_, 4}));
}

TEST_F(PlaceOfKernel, IsItsFirstLineWhereTheSourceDoesNotNameIt) {
  EXPECT_EQ(place("made by a macro\n\n\n\n\n\n\n", "_Z5scalePf"), (Where{file_, 6}));
}

TEST_F(PlaceOfKernel, IsNotKnownWithoutLines) {
  EXPECT_EQ(place("", "plain").line, 0);
  EXPECT_EQ(place("", "no_such_kernel").line, 0);
}

}  // namespace
}  // namespace assay::subject
