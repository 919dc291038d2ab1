// What compute-sanitizer prints, read: texts as its version of CUDA 13.0 writes them.
#include "subject/sanitizer.h"

#include <gmock/gmock.h>

#include "finding/message.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kMemcheck = R"(========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add_kernel(const float *, float *, int)+0x70 in /home/me/k.cu:3
=========     by thread (1,0,0) in block (2,0,0)
=========     Access to 0x7f2000000190 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2000000000 of size 400 bytes
========= 
========= Invalid __global__ write of size 4 bytes
=========     at add_kernel(const float *, float *, int)+0x70 in /home/me/k.cu:3
=========     by thread (2,0,0) in block (2,0,0)
=========     Access to 0x7f2000000194 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f2000000000 of size 400 bytes
========= 
========= Invalid __shared__ read of size 16 bytes
=========     at add_kernel(const float *, float *, int)+0x90 in k.cu:9
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x4 is misaligned
========= 
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 3 errors
)";

TEST(Sanitizer, MemcheckNamesThePlaceAndTheTensor) {
  const auto records = sanitizer_records(kMemcheck);
  ASSERT_THAT(records, SizeIs(2));
  const SanitizerRecord& first = records[0];
  EXPECT_EQ(first.kind, Kind::OutOfBounds);
  EXPECT_TRUE(first.is_error);
  EXPECT_EQ(first.where, (Where{"/home/me/k.cu", 3}));
  EXPECT_EQ(first.kernel, "add_kernel(const float *, float *, int)");
  EXPECT_EQ(first.thread, (evidence::Index3{1, 0, 0}));
  EXPECT_EQ(first.block, (evidence::Index3{2, 0, 0}));
  EXPECT_EQ(first.address, 0x7f2000000190u);
  EXPECT_EQ(records[1].kind, Kind::Misaligned);
  EXPECT_EQ(records[1].where.line, 9);

  const Finding finding = finding_of(first, {{"x", 0x7f1000000000, 400}, {"y", 0x7f2000000000, 400}});
  EXPECT_EQ(finding.severity, Severity::Error);
  const auto& access = std::get<evidence::Access>(finding.evidence);
  EXPECT_EQ(access.access, evidence::AccessKind::Write);
  ASSERT_TRUE(access.place.allocation);
  EXPECT_EQ(access.place.allocation->label, "y");
  EXPECT_EQ(access.bytes, 4u);
  EXPECT_EQ(access.place.offset, 400);
  EXPECT_THAT(message(finding), HasSubstr("`y`"));
}

TEST(Sanitizer, AnAddressFarFromEveryTensorIsOfNone) {
  const auto records = sanitizer_records(kMemcheck);
  const Finding finding = finding_of(records[0], {{"x", 0x1000, 400}});
  EXPECT_FALSE(std::get<evidence::Access>(finding.evidence).place.allocation);
}

TEST(Sanitizer, RacecheckNamesBothLines) {
  const auto records = sanitizer_records(R"(========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum(float *)+0x1a0 in /home/me/k.cu:31
=========     and Read access at sum(float *)+0x280 in /home/me/k.cu:38 [124 hazards]
=========     and Read access at sum(float *)+0x290 in /home/me/k.cu:40 [4 hazards]
========= 
========= Warning: Race reported between Write access at sum(float *)+0x1a0 in /home/me/k.cu:50
=========     and Write access at sum(float *)+0x280 in /home/me/k.cu:50 [2 hazards]
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
)");
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].kind, Kind::DataRace);
  EXPECT_TRUE(records[0].is_error);
  EXPECT_EQ(records[0].where, (Where{"/home/me/k.cu", 31}));
  EXPECT_EQ(records[0].other, (Where{"/home/me/k.cu", 38}));
  EXPECT_EQ(records[0].kernel, "sum(float *)");
  EXPECT_FALSE(records[1].is_error);
  EXPECT_EQ(finding_of(records[1], {}).severity, Severity::Warning);
}

TEST(Sanitizer, InitcheckIsAWarningAndSynccheckAnError) {
  const auto records = sanitizer_records(R"(========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at k(float *)+0x50 in k.cu:7
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f2000000000 of size 4 bytes
========= 
========= Barrier error detected. Divergent thread(s) in block
=========     at k(float *)+0x90 in k.cu:12
=========     by thread (33,0,0) in block (0,0,0)
========= ERROR SUMMARY: 2 errors
)");
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].kind, Kind::Uninitialized);
  EXPECT_EQ(records[0].address, 0x7f2000000000u);
  EXPECT_EQ(finding_of(records[0], {}).severity, Severity::Warning);
  EXPECT_EQ(records[1].kind, Kind::BarrierDivergence);
  EXPECT_EQ(records[1].where, (Where{"k.cu", 12}));
  EXPECT_EQ(finding_of(records[1], {}).severity, Severity::Error);
}

TEST(Sanitizer, NothingIsFoundInACleanOrBrokenReport) {
  for (const char* text :
       {"", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
        "=========", "========= Target application terminated before first instrumented API call\n",
        "Invalid __global__ write of size 4 bytes\n     at k in k.cu:3\n"})
    EXPECT_THAT(sanitizer_records(text), IsEmpty()) << text;
  // Cut anywhere, it is read without harm.
  const std::string whole = kMemcheck;
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_LE(sanitizer_records(std::string_view(whole).substr(0, n)).size(), 3u);
}

}  // namespace
}  // namespace assay::subject
