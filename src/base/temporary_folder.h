// Folders that go when their owner does. An owner that is killed leaves one behind; the next program that
// makes a folder in the same place removes it.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// $TMPDIR if that is a folder, else /tmp.
std::string temporary_place();

class TemporaryFolder {
 public:
  // PLACE/tmp.a55a4.PURPOSE-XXXXXX.
  explicit TemporaryFolder(std::string_view purpose, const std::string& place = temporary_place());
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
  int lock_ = -1;
};

// Removes the folders in `place` whose owners are gone. An owner holds a lock on its folder, which the kernel
// releases with the process, in whatever container that ran.
void sweep_temporary_folders(const std::string& place, double least_age_seconds = 60);

}  // namespace assay
