// Our libraries are loaded late: by workers, by Python, by shims. A library whose thread-local variables need room in the static
// block of threads (the initial-exec model) cannot be loaded then, unless the loader happens to have room to spare.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "support.h"

namespace assay::cudart::test {
namespace {

namespace fs = std::filesystem;

template <class T>
T at(const std::string& file, uint64_t offset) {
  T value{};
  if (offset + sizeof value <= file.size()) std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

bool has_static_tls(const std::string& file) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto part = at<Elf64_Phdr>(file, header.e_phoff + i * header.e_phentsize);
    if (part.p_type != PT_DYNAMIC) continue;
    for (uint64_t offset = part.p_offset; offset < part.p_offset + part.p_filesz;
         offset += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(file, offset);
      if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_STATIC_TLS) != 0) return true;
    }
  }
  return false;
}

TEST(LateLoad, NoLibraryNeedsStaticThreadLocalMemory) {
  int seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kBinary + "/lib")) {
    if (entry.is_symlink() || entry.path().string().find(".so") == std::string::npos) continue;
    const std::string file = read_file(entry.path().string());
    ASSERT_TRUE(
        file.starts_with("\x7f"
                         "ELF"))
        << entry.path();
    EXPECT_FALSE(has_static_tls(file))
        << entry.path() << ": a thread_local variable of the initial-exec model";
    ++seen;
  }
  EXPECT_GE(seen, 1);
}

// The C library itself has such variables, so the test can see them.
TEST(LateLoad, StaticThreadLocalMemoryIsSeen) {
  for (const char* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"})
    if (exists(path)) {
      EXPECT_TRUE(has_static_tls(read_file(path))) << path;
      return;
    }
  GTEST_SKIP() << "no libc.so.6 at any of the usual places";
}

}  // namespace
}  // namespace assay::cudart::test
