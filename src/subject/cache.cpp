// Where builds and records of trials are kept: the user's cache, or, where that cannot be written (no home, a
// read-only or full disk), a folder under /tmp that the next check finds again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/temporary_folder.h"
#include "subject/subject.h"

namespace assay::subject {

namespace fs = std::filesystem;

namespace {

struct Cache {
  std::string path;
  std::string note;  // why it is not the one that was asked for
};

// Empty if a file can be made and written there; else why not.
std::string why_unwritable(const std::string& folder) {
  constexpr std::size_t kProbe = 64 << 10;  // bytes: a full disk has not even these
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return error.message();
  std::string name = folder + "/probe-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return std::strerror(errno);
  const std::string bytes(kProbe, 'x');
  const ssize_t written = write(file, bytes.data(), bytes.size());
  const bool full = written >= 0 && written < static_cast<ssize_t>(bytes.size());
  std::string why = full ? std::strerror(ENOSPC) : written < 0 ? std::strerror(errno) : "";
  close(file);
  unlink(name.c_str());
  return why;
}

// Somebody else's folder of this name is not ours to trust: what is in it will be run.
bool is_own(const std::string& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string fallback() {
  std::string lasting = fmt::format("{}/assay-cache-{}", temporary_place(), geteuid());
  mkdir(lasting.c_str(), 0700);
  if (is_own(lasting) && why_unwritable(lasting).empty()) return lasting;
  static const TemporaryFolder passing("cache");  // until the program ends
  return passing.path();
}

// The folder that the environment names; a relative XDG_CACHE_HOME is ignored, as its specification demands.
std::string users_cache() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/') return std::string(xdg) + "/assay";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/assay" : "";
}

Cache find_cache(const std::string& wanted) {
  std::error_code error;
  const std::string asked = wanted.empty() ? users_cache() : fs::absolute(wanted, error).string();
  const std::string why = asked.empty() ? "neither HOME nor XDG_CACHE_HOME is set" : why_unwritable(asked);
  if (why.empty()) return {asked, ""};
  const std::string other = fallback();
  if (other.empty())
    return {asked.empty() ? "/tmp/.cache/assay" : asked, ""};  // using it will report the error
  return {other,
          fmt::format("{}: builds and records of trials go to {}",
                      asked.empty() ? why : fmt::format("{} cannot be written ({})", asked, why), other)};
}

// Looked for once: the answer is the same for the whole check.
const Cache& cache(const std::string& wanted) {
  static std::mutex mutex;
  static std::map<std::string, Cache> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(wanted);
  return found != known.end() ? found->second : known.emplace(wanted, find_cache(wanted)).first->second;
}

}  // namespace

std::string cache_folder(const std::string& wanted) {
  return cache(wanted).path;
}

std::string cache_note(const std::string& wanted) {
  return cache(wanted).note;
}

}  // namespace assay::subject
