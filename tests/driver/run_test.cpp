// assay run on a program that uses the driver API alone.
#include "support.h"

namespace assay::driver::test {
namespace {

TEST(Run, FindsWhatADriverProgramDoesWrong) {
  const cudart::test::Ended ended = cudart::test::run(
      {kBinary + "/bin/assay", "run", "--", ASSAY_DRIVER_PROGRAM}, {{"LD_LIBRARY_PATH", ""}});
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(ended.out, "synchronised: 700\n");  // an illegal address
  EXPECT_NE(ended.err.find("out-of-bounds: writes 4 bytes just past the end of `cuMemAlloc`"),
            std::string::npos)
      << ended.err;
  // The allocation is the program's, not one of the library that the program called.
  EXPECT_NE(ended.err.find("overrun.cpp:40 (main)"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("libcuda.so"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace assay::driver::test
