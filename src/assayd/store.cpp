#include "assayd/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"

namespace assay::assayd {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

// The name of a file is on the disk when its folder is.
void sync_folder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

Result<void> Store::open() {
  std::error_code error;
  for (const char* part : {"alarms", "captures"}) {
    const fs::path folder = fs::path(folder_) / part;
    fs::create_directories(folder, error);
    if (error)
      return Error{fmt::format("this folder cannot be created: {}", error.message()), folder.string()};
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  alarms_ = pending_;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder_) / "alarms", error)) {
    if (entry.path().extension() != ".json") continue;
    Json alarm = Json::parse(text_of(entry.path().string()), nullptr, false);
    // What cannot be read is an alarm all the same: its name says of which kernel.
    if (!alarm.is_object())
      alarm = {{"why", "the file of this alarm is damaged; its name says which kernel it is about"}};
    alarms_[entry.path().stem().string()] = std::move(alarm);
  }
  return {};
}

bool Store::write(const std::string& name, const Json& alarm) {
  const std::string path = fmt::format("{}/alarms/{}.json", folder_, name), part = path + ".part";
  const std::string text = alarm.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool is_safe = file >= 0 &&
                       ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(file) == 0;
  const int number = errno;
  if (file >= 0) close(file);
  if (is_safe && rename(part.c_str(), path.c_str()) == 0) {
    sync_folder(fmt::format("{}/alarms", folder_));
    return true;
  }
  ++write_errors;
  last_error = fmt::format("{}: {}", path, std::strerror(number));
  unlink(part.c_str());
  return false;
}

bool Store::raise(const std::string& name, const Json& alarm) {
  if (!alarms_.emplace(name, alarm).second) return false;
  if (!write(name, alarm)) pending_.emplace(name, alarm);
  return true;
}

void Store::write_pending() {
  for (auto it = pending_.begin(); it != pending_.end();)
    it = write(it->first, it->second) ? pending_.erase(it) : std::next(it);
}

// The captures of a kernel are NAME-1.assaycap, NAME-2.assaycap, …
Store::Kept Store::kept(const std::string& name) const {
  Kept count;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder_) / "captures", error)) {
    if (entry.path().extension() != monitor::kCaptureEnding) continue;
    ++count.all;
    const std::string stem = entry.path().stem().string();
    count.of_name += stem.substr(0, stem.rfind('-')) == name;
  }
  return count;
}

std::string Store::keep(const std::string& name, uint64_t most,
                        const std::function<monitor::Capture()>& capture) {
  std::string path;
  std::error_code error;
  const Kept before = kept(name);
  if (before.of_name >= most || before.all >= most_captures_) {
    ++captures_dropped;
    return "";
  }
  for (int n = 1; path.empty() || fs::exists(path, error); ++n)
    path = fmt::format("{}/captures/{}-{}{}", folder_, name, n, monitor::kCaptureEnding);
  const auto written = monitor::write_capture(path, capture());
  if (!written) {
    ++captures_dropped;
    ++write_errors;
    last_error = written.error().text();
    return "";
  }
  ++captures;
  return path;
}

}  // namespace assay::assayd
