#include "monitor/capture.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "monitor/tar.h"

namespace assay::monitor {
namespace {

using contract::DType;
using contract::Tensor;

constexpr const char* kContract = R"(
[kernel]
source = "scale.ptx"
global = "scale"
grid = ["n"]
block = [32]
args = ["x", "y", "a", "n"]
[dims]
n = { min = 1, max = 64 }
[scalars.a]
dtype = "f32"
range = [0, 4]
[tensors.x]
dtype = "bf16"
shape = ["n", 2]
[tensors.y]
dtype = "f32"
shape = ["n", 2]
role = "out"
[reference]
formula = "y[i, j] = a * x[i, j]"
)";

Capture example() {
  Capture capture;
  capture.contract = {"/srv/kernels/scale.toml", kContract};
  capture.files = {{"/srv/kernels/scale.ptx", "// PTX\n"}};
  capture.library = {"/srv/lib/libscale.so", std::string("\x7f\0ELF", 5)};
  capture.bindings.shape = {{"n", 3}};
  capture.bindings.scalars["a"] = contract::Scalar::of(DType::f32, 1.5);
  capture.bindings.inputs["x"] = std::make_shared<const Tensor>(
      Tensor::of(DType::bf16, {3, 2}, std::vector<double>{1, 2, 3, -4, 5, 0.5}));
  capture.outputs["y"] = std::make_shared<const Tensor>(
      Tensor::of(DType::f32, {3, 2}, std::vector<double>{1.5, 3, 4.5, -6, 7.5, 0.75}));
  capture.device = {"cuda", "NVIDIA H200", "GPU-1"};
  capture.certificate_sha256 = std::string(64, 'a');
  capture.why = "y[0, 0] is 1";
  capture.application = "serve (pid 4711)";
  capture.call = 17;
  capture.unix_seconds = 1'700'000'000;
  return capture;
}

bool is_same(const Capture& a, const Capture& b) {
  const auto same = [](const CapturedOutputs& one, const CapturedOutputs& other) {
    return std::ranges::equal(one, other, [](const auto& x, const auto& y) {
      return x.first == y.first && x.second->dtype == y.second->dtype &&
             x.second->extents == y.second->extents && x.second->bytes == y.second->bytes;
    });
  };
  return a.contract == b.contract && a.files == b.files && a.library == b.library &&
         a.bindings.shape == b.bindings.shape && a.bindings.scalars.size() == b.bindings.scalars.size() &&
         a.bindings.scalars.at("a").bits == b.bindings.scalars.at("a").bits &&
         same(a.bindings.inputs, b.bindings.inputs) && same(a.outputs, b.outputs) && a.device == b.device &&
         a.certificate_sha256 == b.certificate_sha256 && a.why == b.why && a.application == b.application &&
         a.call == b.call && a.unix_seconds == b.unix_seconds;
}

class CaptureTest : public testing::Test {
 protected:
  void put(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  std::string path() const { return folder_.file("one.assaycap"); }
  TemporaryFolder folder_{"capture"};
};

TEST_F(CaptureTest, ComesBackWhole) {
  const Capture capture = example();
  const auto written = write_capture(path(), capture);
  ASSERT_TRUE(written) << written.error().text();
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);  // inputs may be secret
  EXPECT_TRUE(is_capture(path()));
  const auto read = read_capture(path());
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(is_same(*read, capture));
}

TEST_F(CaptureTest, AFileCutShortIsRefused) {
  ASSERT_TRUE(write_capture(path(), example()));
  const std::string whole = *read_file(path());
  for (std::size_t length = 0; length < whole.size(); length += length < 32 ? 3 : 131) {
    put(whole.substr(0, length));
    const auto read = read_capture(path());
    ASSERT_FALSE(read) << length;
    if (length > 32) {
      EXPECT_NE(read.error().message.find("truncated"), std::string::npos) << read.error().text();
    }
  }
  put(whole + "x");
  EXPECT_FALSE(read_capture(path()));
}

// A few kilobytes of zstd can hold gigabytes of zeros.
TEST_F(CaptureTest, OneThatUnpacksToTooMuchIsRefused) {
  ASSERT_TRUE(write_capture(path(), example()));
  EXPECT_TRUE(read_capture(path(), std::size_t{1} << 20));
  const auto read = read_capture(path(), std::size_t{1} << 10);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("would unpack to more than"), std::string::npos) << read.error().text();
}

TEST_F(CaptureTest, OneWithoutOutputsIsRefused) {
  Capture capture = example();
  capture.outputs.clear();
  ASSERT_TRUE(write_capture(path(), capture));
  const auto read = read_capture(path());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("no outputs"), std::string::npos) << read.error().text();
}

TEST_F(CaptureTest, AChangedByteIsRefusedOrChangesNothing) {
  const Capture capture = example();
  ASSERT_TRUE(write_capture(path(), capture));
  const std::string whole = *read_file(path());
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 29) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    put(changed);
    const auto read = read_capture(path());
    if (read)
      EXPECT_TRUE(is_same(*read, capture)) << at;
    else
      ++refused;
  }
  EXPECT_GT(refused, whole.size() / 29 - 3);  // the header of a frame has spare bits
}

TEST_F(CaptureTest, SaysWhichVersionItIs) {
  Capture capture = example();
  ASSERT_TRUE(write_capture(path(), capture));
  // Another version of the same archive, as a later program would write it.
  const std::string command =
      "cd " + folder_.path() +
      " && mkdir x && zstd -qdc one.assaycap | tar -x -C x && "
      "sed -i 's/\"assay_capture\": 1/\"assay_capture\": 9/' x/manifest.json && tar -c --format=ustar -C x "
      "manifest.json files library.so inputs outputs | zstd -q > nine.assaycap";
  if (std::system("command -v zstd > /dev/null") != 0) GTEST_SKIP() << "zstd is not installed";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto read = read_capture(folder_.file("nine.assaycap"));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("version 9"), std::string::npos) << read.error().text();
}

TEST_F(CaptureTest, AFullDiskLeavesNoFile) {
  const std::string nowhere = folder_.file("no/such/folder.assaycap");
  const auto written = write_capture(nowhere, example());
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text().find(nowhere), std::string::npos);
  // /dev/full takes no byte.
  std::filesystem::create_symlink("/dev/full", folder_.file("full.assaycap.part"));
  EXPECT_FALSE(write_capture(folder_.file("full.assaycap"), example()));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("full.assaycap")));
}

TEST_F(CaptureTest, AContractIsRestoredBesideItsFiles) {
  const auto contract = restore_contract(example(), folder_.path());
  ASSERT_TRUE(contract) << contract.error().text();
  EXPECT_EQ(*read_file(contract->resolve("scale.ptx")), "// PTX\n");
  Capture elsewhere = example();
  elsewhere.files[0].path = "/../../../../../../etc/passwd";
  const auto refused = restore_contract(elsewhere, folder_.path());
  EXPECT_TRUE(refused);  // normalised: below the folder all the same
  EXPECT_TRUE(std::filesystem::exists(folder_.file("etc/passwd")));
}

TEST(Tar, IsWhatTarReads) {
  const std::string text = write_tar({{"a", "first"}, {"b/c", std::string(1000, 'x')}}, 1'700'000'000);
  EXPECT_EQ(text.size() % 512, 0u);
  const auto files = read_tar(text);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[1].bytes.size(), 1000u);
  const TemporaryFolder folder("tar");
  std::ofstream(folder.file("t.tar"), std::ios::binary) << text;
  EXPECT_EQ(std::system(("cd " + folder.path() + " && tar -xf t.tar && test $(cat a) = first").c_str()), 0);
  for (const std::size_t length : {0u, 100u, 512u, 1024u, 1600u})
    EXPECT_FALSE(read_tar(std::string_view(text).substr(0, length))) << length;
}

}  // namespace
}  // namespace assay::monitor
