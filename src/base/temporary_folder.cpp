#include "base/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

namespace assay {

namespace fs = std::filesystem;

namespace {

// Private, and without our name: a subject that looks for signs of a checker sees its folder.
constexpr std::string_view kPrefix = "tmp.a55a4.";

int lock(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  close(file);
  return -1;
}

// Also what is in folders that their maker made unreadable.
void remove_all(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return;
  std::vector<fs::path> open = {folder};
  while (!open.empty()) {
    const fs::path one = open.back();
    open.pop_back();
    fs::permissions(one, fs::perms::owner_all, fs::perm_options::add, error);
    for (fs::directory_iterator it(one, error), end; !error && it != end; it.increment(error)) {
      std::error_code unknown;
      if (it->is_directory(unknown) && !it->is_symlink(unknown)) open.push_back(it->path());
    }
  }
  fs::remove_all(folder, error);
}

bool is_old(const std::string& folder, double seconds) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         std::difftime(std::time(nullptr), status.st_mtime) >= seconds;
}

// Once for each place: what was left behind before this program began.
void sweep_once(const std::string& place) {
  static std::mutex mutex;
  static std::set<std::string> swept;
  {
    const std::lock_guard guard(mutex);
    if (!swept.insert(place).second) return;
  }
  sweep_temporary_folders(place);
}

}  // namespace

std::string temporary_place() {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  return error ? "/tmp" : place.string();
}

TemporaryFolder::TemporaryFolder(std::string_view purpose, const std::string& place) {
  sweep_once(place);
  std::string name = place + "/" + std::string(kPrefix) + std::string(purpose) + "-XXXXXX";
  if (!mkdtemp(name.data())) return;
  path_ = name;
  lock_ = lock(path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_all(path_);
  if (lock_ >= 0) close(lock_);
}

// A folder is locked a moment after it is made: one as young as that is not touched.
void sweep_temporary_folders(const std::string& place, double least_age_seconds) {
  std::error_code error;
  for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error)) {
    const std::string folder = it->path().string();
    if (!it->path().filename().string().starts_with(kPrefix) || !is_old(folder, least_age_seconds)) continue;
    const int held = lock(folder);
    if (held < 0) continue;
    remove_all(folder);
    close(held);
  }
}

}  // namespace assay
