// Machine code on disk: it is used, it is checked, it is left alone where others could write to it.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "vgpu/machine.h"

#ifdef ASSAY_HAS_COMPILER

namespace assay::vgpu::code_cache {
namespace {

namespace fs = std::filesystem;
using testing::Machine;

// Counts from 0 to the second parameter, and stores that and `added`.
std::string counting(uint32_t added) {
  return R"(
.visible .entry k(.param .u64 out, .param .u64 n) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd1, %rd1, %rd2;
  mov.u32 %r3, 0;
$loop:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra $loop;
  add.u32 %r3, %r3, )" +
         std::to_string(added) + R"(;
  st.global.u32 [%rd1], %r3;
  ret;
})";
}

class CodeCache : public ::testing::Test {
 protected:
  const TemporaryFolder place{"code"};
  const std::string folder = place.path() + "/kept/code";

  // What the kernel stores, in a process of its own as far as code goes.
  uint32_t run(uint32_t added, Compiling compiling = Compiling::Always, uint32_t count = 3,
               int launches = 1) {
    Machine machine(counting(added), {.threads = 1, .compiling = compiling, .code_cache = folder});
    const Address out = machine.array(std::vector<uint32_t>(32), "out");
    for (int i = 0; i < launches; ++i) machine.launch("k", {1}, {32}, {out, count});
    return machine.read<uint32_t>(out, 1)[0];
  }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
      paths.push_back(entry.path().string());
    return paths;
  }

  // Puts the code of the kernel that adds `other` where that of the one that adds `added` is looked for.
  void exchange(uint32_t added, uint32_t other) {
    run(added);
    const std::string path = files().at(0);
    fs::remove(path);
    run(other);
    fs::rename(files().at(0), path);
  }
};

TEST_F(CodeCache, CodeOfAnEarlierRunIsUsed) {
  exchange(10, 20);
  EXPECT_EQ(run(10), 23u) << "the code in the folder was not used";
  EXPECT_EQ(run(30), 33u) << "code of another kernel was used";
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(CodeCache, IsAskedLongBeforeAKernelIsWorthCompiling) {
  exchange(10, 20);
  // The second launch is the first that knows how long the kernel runs.
  EXPECT_EQ(run(10, Compiling::WhenHot, 100, 2), 110u) << "looked up for a kernel that hardly runs";
  EXPECT_EQ(run(10, Compiling::WhenHot, 100'000, 2), 100'020u);
  fs::remove_all(folder);
  EXPECT_EQ(run(10, Compiling::WhenHot, 100'000, 2), 100'010u);
  EXPECT_TRUE(files().empty()) << "compiled though it is not hot";
}

TEST_F(CodeCache, AnInterpreterNeedsNone) {
  exchange(10, 20);
  EXPECT_EQ(run(10, Compiling::Never, 100'000, 2), 100'010u);
}

TEST_F(CodeCache, ADamagedFileIsMadeAnew) {
  run(10);
  const std::string path = files().at(0), whole = text_of(path);
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), whole + "x",
        whole.substr(0, 200) + char(whole[200] ^ 1) + whole.substr(201)}) {
    std::ofstream(path, std::ios::trunc) << damaged;
    EXPECT_EQ(run(10), 13u);
    EXPECT_TRUE(text_of(path) == whole) << damaged.size() << " bytes";
  }
}

TEST_F(CodeCache, AFolderThatOthersCanWriteToIsNotUsed) {
  exchange(10, 20);
  chmod(folder.c_str(), 0777);
  EXPECT_EQ(run(10), 13u);
  EXPECT_EQ(run(30), 33u);
  EXPECT_EQ(files().size(), 1u) << "code was written there";
}

TEST_F(CodeCache, AFolderThatCannotBeMadeIsNone) {
  std::ofstream(place.path() + "/kept") << "a file";
  EXPECT_EQ(run(10), 13u);
}

TEST_F(CodeCache, TheOldestGoWhenThereIsTooMuch) {
  run(10);
  const std::string old = folder + "/old", path = files().at(0);
  std::ofstream{old};
  fs::resize_file(old, uint64_t{300} << 20);  // with no blocks on the disk
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  run(20);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(files().size(), 2u);
}

}  // namespace
}  // namespace assay::vgpu::code_cache

#endif
