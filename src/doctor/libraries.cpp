// Which libcuda, NVML and CUDA toolkit a program would find here, by the loader's rules.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/file.h"
#include "base/mapped_file.h"
#include "doctor/facts.h"
#include "fatbinary/elf.h"

namespace assay::doctor {

namespace fs = std::filesystem;

namespace {

struct SearchFolder {
  std::string folder;
  std::string named_by;  // as DriverLibrary::found_by
};

std::string value_of(const Facts& facts, std::string_view name) {
  const auto found = facts.environment.find(name);
  return found == facts.environment.end() ? "" : found->second;
}

// The folder in which the loader's cache has a library, wherever it got that from.
std::string folder_in_cache(const Machine& machine, const std::string& name) {
  const std::string cache = text_of(machine.root + "/etc/ld.so.cache");
  const std::size_t end = cache.find("/" + name + std::string(1, '\0'));
  if (end == std::string::npos) return "";
  const std::size_t start = cache.rfind('\0', end) + 1;
  return cache.substr(start, end - start);
}

// In the loader's order. Its cache is made of the folders that /etc/ld.so.conf names and of its own.
std::vector<SearchFolder> loader_folders(const Machine& machine, const Facts& facts) {
  std::vector<SearchFolder> folders;
  for (std::string& folder : split(value_of(facts, "LD_LIBRARY_PATH"), ':'))
    folders.push_back({std::move(folder), "LD_LIBRARY_PATH"});
  std::vector<std::string> files = {"/etc/ld.so.conf"};
  std::error_code error;
  for (fs::directory_iterator it(machine.root + "/etc/ld.so.conf.d", error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".conf")
      files.push_back("/etc/ld.so.conf.d/" + it->path().filename().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    for (const std::string& line : split(text_of(machine.root + file), '\n'))
      if (line.starts_with('/'))
        folders.push_back({line.substr(0, line.find_last_not_of(" \t\r") + 1), file});
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
                             "/lib", "/usr/lib", "/usr/lib/wsl/lib"})
    folders.push_back({folder, ""});
  if (std::string folder = folder_in_cache(machine, "libcuda.so.1"); !folder.empty())
    folders.push_back({std::move(folder), "/etc/ld.so.cache"});
  return folders;
}

std::string loaded_name(const Machine& machine, const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(machine.root + path, error);
  return error ? path : real.string();
}

bool has_folder(const std::string& path, std::string_view word) {
  for (const std::string& part : split(path, '/'))
    if (part == word) return true;
  return false;
}

DriverLibrary find_libcuda(const Machine& machine, const Facts& facts) {
  DriverLibrary library;
  for (const SearchFolder& place : loader_folders(machine, facts)) {
    const std::string path = place.folder + "/libcuda.so.1";
    const MappedFile file(machine.root + path);
    const auto elf = fatbinary::read_elf(file.bytes());
    if (!elf) continue;  // the loader, too, skips a file that is not for this machine
    library.path = path;
    library.folder = place.folder;
    library.found_by = place.named_by;
    const std::string real = loaded_name(machine, path);
    std::smatch found;
    static const std::regex kVersion(R"(libcuda\.so\.(\d+\.[\d.]+)$)");
    if (std::regex_search(real, found, kVersion)) library.version = found[1];
    library.is_stub = has_folder(path, "stubs") || has_folder(real, "stubs");
    library.is_compat = has_folder(path, "compat") || has_folder(real, "compat");
    // Assay's own is built on its own runtime; NVIDIA's never is.
    library.is_own = std::ranges::any_of(
        elf->needed, [](const std::string& name) { return name.starts_with("libcudart.so"); });
    break;
  }
  return library;
}

std::string find_nvcc(const Machine& machine, const Facts& facts) {
  std::vector<std::string> folders = split(value_of(facts, "PATH"), ':');
  if (const std::string home = value_of(facts, "CUDA_HOME"); !home.empty()) folders.push_back(home + "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  return find_in(machine, folders, "nvcc");
}

int number_in(const std::string& text, const char* pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? std::stoi(found[1].str()) : 0;
}

// The compiler that nvcc calls for host code, and whether the user has chosen it: "-ccbin g++-12".
std::string host_compiler(const Facts& facts) {
  const std::string flags =
      value_of(facts, "NVCC_PREPEND_FLAGS") + " " + value_of(facts, "NVCC_APPEND_FLAGS");
  std::smatch found;
  static const std::regex kOption(R"((?:-ccbin|--compiler-bindir)[= ]\s*(\S+))");
  if (std::regex_search(flags, found, kOption)) return found[1];
  const std::string chosen = value_of(facts, "NVCC_CCBIN");
  return chosen.empty() ? "g++" : chosen;
}

// The major version of a gcc, by what its name stands for: /usr/bin/g++ is a link to g++-12.
int gcc_version(const std::string& real) {
  std::smatch found;
  static const std::regex kName(R"((?:gcc|g\+\+|c\+\+)-(\d+)(?:\.[\d.]+)?$)");
  return std::regex_search(real, found, kName) ? std::stoi(found[1].str()) : 0;
}

Toolkit find_toolkit(const Machine& machine, const Facts& facts) {
  Toolkit toolkit{.nvcc = find_nvcc(machine, facts)};
  if (toolkit.nvcc.empty()) return toolkit;
  const fs::path folder = fs::path(loaded_name(machine, toolkit.nvcc)).parent_path().parent_path();
  toolkit.version =
      number_in(text_of(folder / "include/cuda_runtime_api.h"), R"(#define\s+CUDART_VERSION\s+(\d+))");
  toolkit.newest_gcc =
      number_in(text_of(folder / "include/crt/host_config.h"), R"(#if\s+__GNUC__\s*>\s*(\d+))");
  toolkit.host_compiler = host_compiler(facts);
  const std::string path = toolkit.host_compiler.starts_with('/')
                               ? toolkit.host_compiler
                               : find_in(machine, split(value_of(facts, "PATH"), ':'), toolkit.host_compiler);
  if (!path.empty()) toolkit.gcc = gcc_version(loaded_name(machine, path));
  return toolkit;
}

}  // namespace

std::string find_in(const Machine& machine, const std::vector<std::string>& folders,
                    const std::string& name) {
  for (const std::string& folder : folders) {
    std::string path = fmt::format("{}/{}", folder, name);
    std::error_code error;
    if (fs::is_regular_file(machine.root + path, error)) return path;
  }
  return "";
}

void read_libraries(const Machine& machine, Facts& facts) {
  facts.libcuda = find_libcuda(machine, facts);
  std::vector<std::string> folders;
  for (SearchFolder& place : loader_folders(machine, facts)) folders.push_back(std::move(place.folder));
  facts.libnvml = find_in(machine, folders, "libnvidia-ml.so.1");
  facts.toolkit = find_toolkit(machine, facts);
  for (const char* name : {"libcuda.so.1", "libcudart.so.13"})
    if (std::error_code error; !fs::exists(machine.own_libraries + "/" + name, error))
      facts.missing_own_library = machine.own_libraries + "/" + name;
}

}  // namespace assay::doctor
