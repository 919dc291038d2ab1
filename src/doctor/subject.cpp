// What a library, or the files of a running process, say: device code, runtimes, symbols of torch.
#include "doctor/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <unordered_set>

#include "base/file.h"
#include "base/mapped_file.h"
#include "fatbinary/elf.h"
#include "fatbinary/fatbinary.h"

namespace assay::doctor {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostUnpacked = 64;  // images whose PTX is read: milliseconds each

CodeImage describe_image(const fatbinary::Image& image, std::size_t& unpacked) {
  CodeImage code{.is_ptx = image.kind == fatbinary::Image::Kind::Ptx,
                 .arch = image.architecture,
                 .is_exact = image.exact,
                 .is_family = image.family};
  if (!code.is_ptx || unpacked++ >= kMostUnpacked) return code;
  const auto text = unpack(image);
  if (!text) return code;
  std::smatch found;
  const std::string head = text->substr(0, text->find(".target"));
  static const std::regex kVersion(R"(\.version\s+(\d+)\.(\d))");
  if (std::regex_search(head, found, kVersion)) code.ptx_version = std::stoi(found[1].str() + found[2].str());
  code.has_lines = text->find("\n\t.loc") != std::string::npos || text->find("\n.loc") != std::string::npos;
  return code;
}

bool has_name(const std::vector<std::string>& names, std::string_view start) {
  return std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(start); });
}

// Device code that calls a runtime which is neither a library of its own nor left to others.
bool links_cudart(const fatbinary::ElfFile& elf) {
  if (!elf.section(".nv_fatbin") || has_name(elf.needed, "libcudart.so") ||
      has_name(elf.needed, "libcuda.so"))
    return false;
  return std::ranges::find(elf.undefined, "__cudaRegisterFatBinary") == elf.undefined.end();
}

bool is_torch_symbol(std::string_view name) {
  for (const std::string_view start : {"_ZN", "_ZNK", "_ZTIN", "_ZTVN"})
    for (const std::string_view space : {"3c10", "2at", "5torch"})
      if (name.starts_with(start) && name.substr(start.size()).starts_with(space)) return true;
  return false;
}

// The libraries of the torch that Python would import: that of the virtual environment, or of the first python3 on PATH.
std::string find_torch(const Machine& machine) {
  const auto value = [&](std::string_view name) {
    const auto found = machine.environment.find(name);
    return found == machine.environment.end() ? std::string() : found->second;
  };
  std::string prefix = value("VIRTUAL_ENV");
  if (prefix.empty()) {
    const std::string python = find_in(machine, split(value("PATH"), ':'), "python3");
    if (python.empty()) return "";
    prefix = fs::path(python).parent_path().parent_path().string();
  }
  std::error_code error;
  std::vector<std::string> folders;
  for (fs::directory_iterator it(machine.root + prefix + "/lib", error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with("python3"))
      folders.push_back(it->path().filename().string());
  for (const std::string& folder : folders)
    for (const char* packages : {"/site-packages", "/dist-packages"}) {
      std::string torch = fmt::format("{}/lib/{}{}/torch", prefix, folder, packages);
      if (fs::exists(machine.root + torch + "/lib/libc10.so", error)) return torch;
    }
  return "";
}

// Empties `wanted` of what the libraries of torch define.
void look_up_in_torch(const std::string& folder, std::unordered_set<std::string>& wanted) {
  for (const char* name : {"libc10.so", "libc10_cuda.so", "libtorch_python.so", "libtorch_cpu.so",
                           "libtorch_cuda.so", "libtorch.so"}) {
    if (wanted.empty()) return;
    const MappedFile file(folder + "/" + name);
    const auto elf = fatbinary::read_elf(file.bytes());
    if (!elf) continue;
    for (const fatbinary::ElfSymbol& symbol : elf->exported) wanted.erase(symbol.name);
  }
}

void compare_with_torch(const Machine& machine, const fatbinary::ElfFile& elf, SubjectFile& file) {
  std::unordered_set<std::string> wanted;
  for (const std::string& name : elf.undefined)
    if (is_torch_symbol(name)) wanted.insert(name);
  if (wanted.empty()) return;
  const std::string torch = find_torch(machine);
  if (torch.empty()) return;
  file.torch = torch + "/lib";
  std::smatch found;
  const std::string version = text_of(machine.root + torch + "/version.py");
  static const std::regex kVersion(R"(__version__ = '([^']+)')");
  if (std::regex_search(version, found, kVersion)) file.torch_version = found[1];
  look_up_in_torch(machine.root + file.torch, wanted);
  for (const std::string& name : elf.undefined)
    if (wanted.erase(name)) file.missing_torch_symbols.push_back(name);
}

}  // namespace

std::vector<std::string_view> containers_in(std::string_view bytes) {
  std::vector<std::string_view> containers;
  const auto elf = fatbinary::read_elf(bytes);
  if (!elf) return containers;
  constexpr std::size_t kAlignment = 8, kHeader = 16;
  for (const char* name : {".nv_fatbin", "__nv_relfatbin"}) {
    const fatbinary::ElfSection* section = elf->section(name);
    const std::string_view part = section ? section->bytes : std::string_view();
    for (std::size_t at = 0; at + kHeader <= part.size();) {
      const uint64_t size = fatbinary::container_size(part.data() + at);
      const bool found = size != 0 && size <= part.size() - at;
      if (found) containers.push_back(part.substr(at, size));
      at += ((found ? size : 1) + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  return containers;
}

SubjectFile read_subject(const Machine& machine, const std::string& path) {
  SubjectFile file{.path = path};
  const MappedFile mapped(machine.root + path);
  const auto elf = fatbinary::read_elf(mapped.bytes());
  if (!elf) {
    file.error = mapped.bytes().empty() ? "it cannot be read" : elf.error().message;
    return file;
  }
  file.needed = elf->needed;
  file.has_static_cudart = links_cudart(*elf);
  std::size_t unpacked = 0;
  for (const std::string_view container : containers_in(mapped.bytes()))
    if (const auto images = fatbinary::read_fatbinary(std::as_bytes(std::span(container))))
      for (const fatbinary::Image& image : *images) file.images.push_back(describe_image(image, unpacked));
  compare_with_torch(machine, *elf, file);
  return file;
}

RunningProcess read_process(const Machine& machine, int pid) {
  RunningProcess process{.pid = pid};
  const std::string folder = machine.root + "/proc/" + std::to_string(pid);
  const auto maps = read_file(folder + "/maps");
  if (!maps) {
    process.error = maps.error().message;
    return process;
  }
  process.name = text_of(folder + "/comm");
  process.name.erase(process.name.find_last_not_of('\n') + 1);
  // Its files as it sees them: in a container, below its own root.
  std::error_code error;
  const std::string root = fs::is_directory(folder + "/root", error) ? folder + "/root" : machine.root;
  std::set<std::string> paths;
  for (const std::string& line : split(*maps, '\n')) {
    const std::size_t start = line.find('/');
    if (start != std::string::npos) paths.insert(line.substr(start, line.find(" (deleted)") - start));
  }
  for (const std::string& path : paths) {
    const std::string name = fs::path(path).filename().string();
    if (name.starts_with("libcudart.so") || name.starts_with("libcudart-"))
      process.cudarts.push_back({path, {}});
    if (name.starts_with("libcudnn")) process.cudnns.push_back({path, {}});
  }
  if (process.cudarts.size() < 2) return process;
  for (const std::string& path : paths) {
    const MappedFile file(root + path);
    const auto elf = fatbinary::read_elf(file.bytes());
    if (!elf) continue;
    for (LoadedLibrary& cudart : process.cudarts) {
      // The name that others use is the start of the file's: libcudart.so.12 of libcudart.so.12.4.127.
      const std::string name = fs::path(cudart.path).filename().string();
      if (std::ranges::any_of(elf->needed, [&](const std::string& needed) {
            return needed.starts_with("libcudart") && name.starts_with(needed);
          }))
        cudart.needed_by.push_back(path);
    }
  }
  return process;
}

}  // namespace assay::doctor
