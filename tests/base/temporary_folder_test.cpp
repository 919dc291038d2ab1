#include "base/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace assay {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, GoesWithItsOwnerWhateverIsInIt) {
  std::string path;
  {
    const TemporaryFolder folder("test");
    path = folder.path();
    ASSERT_TRUE(fs::is_directory(path));
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/c") << "text";
    chmod((path + "/a/b").c_str(), 0);
    chmod((path + "/a").c_str(), 0);
    fs::create_symlink("/", path + "/root");
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists("/tmp"));
}

TEST(TemporaryFolder, CannotBeMadeWhereThereIsNoPlace) {
  EXPECT_EQ(TemporaryFolder("test", "/no/such/place").path(), "");
}

// Of an owner that was killed, by the next one; never of one that lives.
TEST(TemporaryFolder, IsSweptWhenItsOwnerIsGone) {
  const TemporaryFolder place("test");
  const TemporaryFolder held("held", place.path());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const TemporaryFolder left("left", place.path());
    std::ofstream(left.path() + "/file") << "text";
    if (write(ends[1], left.path().data(), left.path().size()) < 0) _exit(1);
    for (;;) pause();
  }
  char name[256] = {};
  ASSERT_GT(read(ends[0], name, sizeof name - 1), 0);
  fs::create_directory(place.path() + "/assay-something-else");
  sweep_temporary_folders(place.path(), 0);
  EXPECT_TRUE(fs::exists(name));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sweep_temporary_folders(place.path(), 60);
  EXPECT_TRUE(fs::exists(name)) << "too young to be touched";
  sweep_temporary_folders(place.path(), 0);
  EXPECT_FALSE(fs::exists(name));
  EXPECT_TRUE(fs::exists(held.path()));
  EXPECT_TRUE(fs::exists(place.path() + "/assay-something-else"));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace assay
