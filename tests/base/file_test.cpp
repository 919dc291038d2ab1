#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace assay {
namespace {

TEST(ReadFile, GivesTheBytes) {
  std::string path = (std::filesystem::temp_directory_path() / "assay-file-XXXXXX").string();
  close(mkstemp(path.data()));
  const std::string bytes("a\0b\r\n\xff", 6);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*read_file(path), bytes);
  std::ofstream(path, std::ios::binary) << std::string(1 << 20, 'x');
  EXPECT_EQ(read_file(path)->size(), 1u << 20);
  unlink(path.c_str());
  ASSERT_FALSE(read_file(path));
  EXPECT_EQ(read_file(path).error().text(), path + ": No such file or directory");
  EXPECT_EQ(text_of(path), "");
}

// Files that open and cannot be read: iterating over a stream throws for each of these.
TEST(ReadFile, AFailedReadIsAnError) {
  EXPECT_FALSE(read_file("/proc/self/mem"));
  EXPECT_FALSE(read_file("/tmp"));
  EXPECT_EQ(text_of("/proc/self/mem"), "");
}

}  // namespace
}  // namespace assay
