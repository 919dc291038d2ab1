// What files say of the machine: the bus, the driver's device nodes, limits, the processor.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"
#include "doctor/facts.h"

namespace assay::doctor {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error))
    files.push_back(it->path());
  std::sort(files.begin(), files.end());
  return files;
}

bool exists(const Machine& machine, const std::string& path) {
  std::error_code error;
  return fs::exists(machine.root + path, error);
}

std::string without_space_at_end(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

// Display controllers and 3D controllers of NVIDIA.
bool is_gpu(const fs::path& function) {
  return text_of(function / "vendor").starts_with("0x10de") &&
         text_of(function / "class").starts_with("0x03");
}

bool is_usable(const Machine& machine, const fs::path& node) {
  struct stat found {};
  if (stat(node.c_str(), &found) != 0) return false;
  if (machine.user == 0) return true;
  const auto may = [&](mode_t read, mode_t write) {
    return (found.st_mode & read) && (found.st_mode & write);
  };
  if (found.st_uid == machine.user) return may(S_IRUSR, S_IWUSR);
  if (std::find(machine.groups.begin(), machine.groups.end(), found.st_gid) != machine.groups.end())
    return may(S_IRGRP, S_IWGRP);
  return may(S_IROTH, S_IWOTH);
}

std::string module_version(const Machine& machine) {
  std::string version = without_space_at_end(text_of(machine.root + "/sys/module/nvidia/version"));
  if (!version.empty()) return version;
  const std::string text = text_of(machine.root + "/proc/driver/nvidia/version");
  std::smatch found;
  static const std::regex kVersion(R"(Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s)");
  return std::regex_search(text, found, kVersion) ? found[1].str() : "";
}

bool in_container(const Machine& machine) {
  if (exists(machine, "/.dockerenv") || exists(machine, "/run/.containerenv") ||
      machine.environment.contains("container"))
    return true;
  const std::string groups = text_of(machine.root + "/proc/1/cgroup");
  return std::ranges::any_of(std::vector{"docker", "kubepods", "containerd", "lxc"},
                             [&](const char* word) { return groups.find(word) != std::string::npos; });
}

bool runs_fabric_manager(const Machine& machine) {
  for (const fs::path& process : files_in(machine.root + "/proc"))
    if (std::isdigit(static_cast<unsigned char>(process.filename().string()[0])) &&
        text_of(process / "comm").starts_with("nv-fabricmanage"))  // the kernel keeps 15 characters
      return true;
  return false;
}

// The size that the mount of /dev/shm has in its options.
int64_t shm_bytes(const Machine& machine) {
  std::smatch found;
  const std::string mounts = text_of(machine.root + "/proc/mounts");
  static const std::regex kShm(R"(\S+ /dev/shm tmpfs \S*\bsize=(\d+)([kmg]?))");
  if (!std::regex_search(mounts, found, kShm)) return 0;
  const int shift = found[2] == "k" ? 10 : found[2] == "m" ? 20 : found[2] == "g" ? 30 : 0;
  return std::stoll(found[1].str()) << shift;
}

int64_t memlock_bytes(const Machine& machine, const std::string& process) {
  std::smatch found;
  const std::string limits = text_of(machine.root + "/proc/" + process + "/limits");
  static const std::regex kLimit(R"(Max locked memory\s+(\d+)\s)");
  return std::regex_search(limits, found, kLimit) ? std::stoll(found[1].str()) : 0;
}

// Of x86-64-v3, for which Assay is compiled.
std::vector<std::string> missing_features(const Machine& machine) {
  std::smatch found;
  const std::string cpu = text_of(machine.root + "/proc/cpuinfo");
  const std::size_t flags = cpu.find("\nflags");
  if (flags == std::string::npos) return {};
  const std::vector<std::string> words =
      split(cpu.substr(flags + 1, cpu.find('\n', flags + 1) - flags - 1), ' ');
  std::vector<std::string> missing;
  for (const char* feature : {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})
    if (std::find(words.begin(), words.end(), feature) == words.end()) missing.emplace_back(feature);
  return missing;
}

std::map<std::string, std::string, std::less<>> environment_of(const Machine& machine, int pid) {
  std::map<std::string, std::string, std::less<>> variables;
  for (const std::string& variable :
       split(text_of(fmt::format("{}/proc/{}/environ", machine.root, pid)), '\0'))
    if (const std::size_t at = variable.find('='); at != std::string::npos)
      variables.emplace(variable.substr(0, at), variable.substr(at + 1));
  return variables;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool Facts::has_node(std::string_view path) const {
  return std::ranges::any_of(nodes, [&](const DeviceNode& node) { return node.path == path; });
}

bool Facts::shows_gpu() const {
  return !bus.empty() || !nodes.empty() || !module.empty() || wsl || driver.answers();
}

void read_files(const Machine& machine, Facts& facts) {
  facts.landlock = machine.landlock;
  const bool other = facts.target.kind == Target::Kind::Process;
  facts.environment = other ? environment_of(machine, facts.target.process) : machine.environment;
  facts.has_bus = exists(machine, "/sys/bus/pci/devices");
  for (const fs::path& function : files_in(machine.root + "/sys/bus/pci/devices"))
    if (is_gpu(function)) facts.bus.push_back(function.filename().string());
  for (const fs::path& file : files_in(machine.root + "/dev")) {
    const std::string name = file.filename().string();
    std::error_code error;
    if (name.starts_with("nvidia-nvswitch")) facts.has_switches = true;
    if (name.starts_with("nvidia") && !fs::is_directory(file, error))
      facts.nodes.push_back({"/dev/" + name, is_usable(machine, file)});
  }
  facts.module = module_version(machine);
  facts.nouveau = exists(machine, "/sys/module/nouveau");
  facts.wsl = exists(machine, "/dev/dxg");
  facts.container = in_container(machine);
  if (facts.has_switches) facts.fabric_manager = runs_fabric_manager(machine);
  facts.shm = shm_bytes(machine);
  facts.memlock = memlock_bytes(machine, other ? std::to_string(facts.target.process) : "self");
  facts.missing_cpu_features = missing_features(machine);
}

}  // namespace assay::doctor
