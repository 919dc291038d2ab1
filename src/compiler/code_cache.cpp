// A file holds the hash of its object, and the object. It is written under another name first, so that nobody meets a
// part of it; a disk that fails shows in the hash.
#include "compiler/code_cache.h"

#include <fcntl.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/SHA256.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace assay::compiler {

namespace fs = std::filesystem;

namespace {

constexpr size_t kHashBytes = 32;
// Bytes that are written between two looks at how much there is.
constexpr uint64_t kLookEvery = 8 << 20;

std::string hash_of(std::string_view bytes) {
  llvm::SHA256 hash;
  hash.update(llvm::StringRef(bytes.data(), bytes.size()));
  const auto result = hash.final();
  return std::string(reinterpret_cast<const char*>(result.data()), kHashBytes);
}

bool is_own(const std::string& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

CodeCache::CodeCache(std::string folder, uint64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes), written_(kLookEvery) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(fs::path(folder_).parent_path(), error);
  mkdir(folder_.c_str(), 0700);
  if (!is_own(folder_)) folder_.clear();
}

std::string CodeCache::key_of(std::span<const std::string_view> parts) {
  std::string hashes;  // of each part, so that no two lists of parts are the same text
  for (std::string_view part : parts) hashes += hash_of(part);
  std::string key;
  for (const char c : hash_of(hashes)) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    key += kDigits[byte / 16];
    key += kDigits[byte % 16];
  }
  return key;
}

std::string CodeCache::path_of(const std::string& key) const {
  return folder_ + "/" + key;
}

std::vector<std::byte> CodeCache::read(const std::string& key) const {
  if (folder_.empty()) return {};
  const auto bytes = read_file(path_of(key), most_bytes_);
  if (!bytes || bytes->size() <= kHashBytes) return {};
  const std::string_view object = std::string_view(*bytes).substr(kHashBytes);
  if (hash_of(object) != bytes->substr(0, kHashBytes)) return {};
  utimensat(AT_FDCWD, path_of(key).c_str(), nullptr, 0);  // it is in use
  const auto* first = reinterpret_cast<const std::byte*>(object.data());
  return {first, first + object.size()};
}

void CodeCache::write(const std::string& key, std::span<const std::byte> object) {
  if (folder_.empty() || object.empty()) return;
  const std::string_view bytes(reinterpret_cast<const char*>(object.data()), object.size());
  std::string name = folder_ + "/new-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return;
  const bool whole = write_all(file, hash_of(bytes)) && write_all(file, bytes);
  close(file);
  if (!whole || rename(name.c_str(), path_of(key).c_str()) != 0) {
    unlink(name.c_str());
    return;
  }
  written_ += kHashBytes + object.size();
  if (written_ >= kLookEvery) make_room();
}

// Down to half of what there may be, the files first that were not read for the longest time.
void CodeCache::make_room() {
  written_ = 0;
  struct Found {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Found> files;
  uint64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    std::error_code gone;
    const Found found{entry.last_write_time(gone), entry.file_size(gone), entry.path()};
    if (gone) continue;
    total += found.bytes;
    files.push_back(found);
  }
  if (total <= most_bytes_) return;
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& file : files) {
    if (total <= most_bytes_ / 2) return;
    if (fs::remove(file.path, error)) total -= file.bytes;
  }
}

}  // namespace assay::compiler
