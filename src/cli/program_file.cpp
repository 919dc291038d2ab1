#include "cli/program_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cli/python_program.h"
#include "fatbinary/elf.h"

namespace assay::cli {
namespace {

// Programs may hold gigabytes of device code, of which nothing but the head and a few tables is looked at.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      at_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) close(file);
  }
  ~MappedFile() {
    if (at_ != MAP_FAILED) munmap(at_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const {
    return at_ == MAP_FAILED ? std::string_view() : std::string_view(static_cast<const char*>(at_), size_);
  }

 private:
  void* at_ = MAP_FAILED;
  std::size_t size_ = 0;
};

Error wrong(std::string message) {
  return {std::move(message), "", 0, 0};
}

// The words after #! that start an interpreter: without `env` and its options.
std::vector<std::string> interpreter_words(std::string_view bytes) {
  std::istringstream line(std::string(bytes.substr(2, bytes.find('\n') - 2)));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  if (!words.empty() && words.front().ends_with("/env")) {
    words.erase(words.begin());
    while (!words.empty() && words.front().starts_with('-')) words.erase(words.begin());
  }
  return words;
}

Result<ProgramFile> read_script(const std::string& path, std::string_view bytes) {
  std::vector<std::string> words = interpreter_words(bytes);
  if (words.empty() || !is_python_name(words.front()))
    return wrong(
        fmt::format("{} is a script; run the program that it starts, or its interpreter, instead", path));
  words.front() = find_program(words.front());
  if (MappedFile(words.front()).bytes().starts_with("#!"))
    return wrong(fmt::format("{}: its interpreter {} is itself a script; run Python on it instead", path,
                             words.front()));
  auto file = read_program(words.front());
  if (!file) return wrong(fmt::format("{}: its interpreter cannot run: {}", path, file.error().message));
  file->interpreter = std::move(words);
  return file;
}

// Python's own program, or one that embeds it.
bool is_python(const fatbinary::ElfFile& elf) {
  const auto is_library = [](const std::string& name) { return name.starts_with("libpython3"); };
  return std::any_of(elf.needed.begin(), elf.needed.end(), is_library) ||
         std::any_of(elf.exported.begin(), elf.exported.end(),
                     [](const fatbinary::ElfSymbol& symbol) { return symbol.name == "Py_BytesMain"; });
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string full = (folder.empty() ? "." : folder) + "/" + name;
    if (access(full.c_str(), X_OK) == 0) return full;
  }
  return name;
}

Result<ProgramFile> read_program(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return wrong(fmt::format("{}: no such program", path));
  if (access(path.c_str(), X_OK) != 0) return wrong(fmt::format("{}: not an executable file", path));
  const MappedFile mapped(path);
  const std::string_view bytes = mapped.bytes();
  if (bytes.starts_with("#!")) return read_script(path, bytes);
  const auto elf = fatbinary::read_elf(bytes);
  if (!elf) return wrong(fmt::format("{} is not an ELF program for 64-bit x86", path));
  return ProgramFile{.needed = elf->needed,
                     .is_dynamic = elf->has_interpreter,
                     .has_rpath = elf->has_rpath,
                     .has_device_code = elf->section(".nv_fatbin") != nullptr,
                     .is_python = is_python(*elf),
                     .interpreter = {}};
}

Result<void> check_runtime(const ProgramFile& file, const std::string& path) {
  auto is_runtime = [](const std::string& name) { return name.starts_with("libcudart.so"); };
  auto found = std::find_if(file.needed.begin(), file.needed.end(), is_runtime);
  if (found != file.needed.end() && *found != "libcudart.so.13")
    return wrong(fmt::format("{} is linked to {}; Assay provides libcudart.so.13: build it with CUDA 13",
                             path, *found));
  // A program of the driver API may carry device code and still load it by itself.
  const bool uses_driver =
      std::find(file.needed.begin(), file.needed.end(), "libcuda.so.1") != file.needed.end();
  if (found == file.needed.end() && file.has_device_code && !uses_driver)
    return wrong(
        fmt::format("{} has the CUDA runtime linked into it; link it with `nvcc -cudart shared`", path));
  if (!file.is_dynamic)
    return wrong(fmt::format("{} is statically linked; link it dynamically, with `-cudart shared`", path));
  return {};
}

}  // namespace assay::cli
