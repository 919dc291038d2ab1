// Machine code on disk, so that a program that runs again does not wait for LLVM again.
//
// A key is a hash of everything the code follows from: the module as it was emitted, before any pass, the passes, the
// processor and LLVM's version. So code that is found is the code that would be made, whatever else has changed. Emitting
// a module takes a fiftieth of the time that compiling it takes.
//
// Whoever can write to the folder decides what runs in the processes that read it. A folder that others than the user
// can write to is not used; and a process that runs an untrusted kernel is given none (protocol/settings.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::compiler {

class CodeCache {
 public:
  // Of all files of a folder together; beyond that the oldest go. An object has 10 to 100 KB.
  static constexpr uint64_t kMostBytes = 256 << 20;

  explicit CodeCache(std::string folder, uint64_t most_bytes = kMostBytes);

  static std::string key_of(std::span<const std::string_view> parts);

  // Empty where there is no such file, or where it is not whole.
  std::vector<std::byte> read(const std::string& key) const;
  // A folder that cannot be written is as good as none.
  void write(const std::string& key, std::span<const std::byte> object);

 private:
  std::string path_of(const std::string& key) const;
  void make_room();

  std::string folder_;  // empty: there is none
  uint64_t most_bytes_;
  uint64_t written_ = 0;  // bytes since the folder was last looked through
};

}  // namespace assay::compiler
