#pragma once

#include <string>
#include <string_view>

namespace assay {

// A file's bytes, read as they are looked at: a library of torch has hundreds of megabytes.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }  // empty: it cannot be read

 private:
  std::string_view bytes_;
};

}  // namespace assay
