// A machine made of files: a healthy one with an H200, which a test then breaks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "doctor/doctor.h"
#include "folders.h"

namespace assay::doctor {

namespace fs = std::filesystem;

inline const std::string kFakes = std::string(kBinaryFolder) + "/tests/doctor_fakes/";
inline const std::string kLibraries = "/usr/lib/x86_64-linux-gnu";
inline const std::string kDriverVersion = "580.95.05";

class Root {
 public:
  Root() : folder_("doctor") {
    machine.root = folder_.path();
    machine.environment = {{"PATH", "/usr/bin:/usr/local/cuda/bin"}};
    machine.user = kUser;
    machine.landlock = 4;
    machine.own_libraries = folder_.path() + "/assay/lib";
    machine.quick_seconds = machine.full_seconds = 20;  // the tests' machine may be busy
    add_host();
    add_gpu();
  }

  Machine machine;

  std::string path(const std::string& name) const { return folder_.path() + name; }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void copy(const std::string& fake, const std::string& name) {
    fs::create_directories(fs::path(path(name)).parent_path());
    fs::copy_file(kFakes + fake, path(name), fs::copy_options::overwrite_existing);
  }
  void link(const std::string& to, const std::string& name) {
    fs::create_directories(fs::path(path(name)).parent_path());
    fs::remove(path(name));
    fs::create_symlink(to, path(name));
  }
  void remove(const std::string& name) { fs::remove_all(path(name)); }
  void set(const std::string& name, const std::string& value) { machine.environment[name] = value; }

  // A libcuda that the loader finds before the driver's own.
  void put_first(const std::string& folder, const std::string& file) {
    copy("cuda.so", folder + "/" + file);
    if (file != "libcuda.so.1") link(file, folder + "/libcuda.so.1");
    set("LD_LIBRARY_PATH", folder);
  }
  void remove_gpu() {
    for (const char* name : {"/sys/bus/pci/devices/0000:06:00.0", "/sys/module/nvidia", "/dev"}) remove(name);
    remove(kLibraries);
  }
  void add_container() { write("/.dockerenv", ""); }
  // nvcc 13.0, which takes gcc 15 at most, and the gcc that it would call.
  void add_toolkit(int gcc) {
    write("/usr/local/cuda/bin/nvcc", "");
    write("/usr/local/cuda/include/cuda_runtime_api.h", "/** version */\n#define CUDART_VERSION  13000\n");
    write("/usr/local/cuda/include/crt/host_config.h",
          "#if defined(__GNUC__)\n#if __GNUC__ > 15\n#error\n#endif\n");
    write("/usr/bin/x86_64-linux-gnu-g++-" + std::to_string(gcc), "");
    link("x86_64-linux-gnu-g++-" + std::to_string(gcc), "/usr/bin/g++");
  }
  // fakes/subject.c: PTX 9.0 for sm_90, a shared libcudart.so.13, and a torch that has what it wants.
  std::string add_subject() {
    std::string bytes = text_of(kFakes + "subject.so");
    replace(bytes, "libcudart.so.12", "libcudart.so.13");
    write("/srv/kernel.so", bytes);
    copy("torch.so", "/usr/lib/python3.11/site-packages/torch/lib/libc10.so");
    write("/usr/lib/python3.11/site-packages/torch/version.py", "__version__ = '2.11.0'\n");
    write("/usr/bin/python3", "");
    return "/srv/kernel.so";
  }
  // Changes bytes of a file, as many as there were.
  void patch(const std::string& name, const std::string& from, const std::string& to) {
    std::string bytes = text_of(path(name));
    replace(bytes, from, to);
    write(name, bytes);
  }
  // The architecture of the subject's image, and whether it is machine code.
  void patch_image(const std::string& name, char arch, bool sass) {
    std::string bytes = text_of(path(name));
    const std::size_t container = bytes.find("\x50\xed\x55\xba");
    bytes[container + 16] = sass ? 2 : 1;
    bytes[container + 16 + 28] = arch;
    write(name, bytes);
  }
  void add_process(const std::string& maps) {
    write("/proc/4242/maps", maps);
    write("/proc/4242/comm", "python\n");
    write("/proc/4242/environ", std::string("PATH=/usr/bin\0LANG=C\0", 21));
    write("/proc/4242/limits", limits("67108864"));
  }
  static std::string limits(const std::string& bytes) {
    return "Limit                     Soft Limit           Hard Limit           Units\n"
           "Max locked memory         " +
           bytes + "             " + bytes + "             bytes\n";
  }

 private:
  static constexpr unsigned kUser = 4711;

  static void replace(std::string& bytes, const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    ASSERT_NE(bytes.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size())
      bytes.replace(at, to.size(), to);
  }

  void add_host() {
    write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse2 avx avx2 bmi1 bmi2 f16c fma movbe\n");
    write("/proc/mounts", "tmpfs /dev/shm tmpfs rw,relatime,size=24684100k 0 0\n");
    write("/proc/self/limits", limits("8388608"));
    copy("own.so", "/assay/lib/libcuda.so.1");
    write("/assay/lib/libcudart.so.13", "");
  }
  void add_gpu() {
    write("/sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n");
    write("/sys/bus/pci/devices/0000:06:00.0/vendor", "0x10de\n");
    write("/sys/bus/pci/devices/0000:06:00.0/class", "0x030200\n");
    write("/sys/module/nvidia/version", kDriverVersion + "\n");
    for (const char* node : {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}) {
      write(node, "");
      fs::permissions(path(node), fs::perms::all);
    }
    copy("cuda.so", kLibraries + "/libcuda.so." + kDriverVersion);
    link("libcuda.so." + kDriverVersion, kLibraries + "/libcuda.so.1");
    copy("nvml.so", kLibraries + "/libnvidia-ml.so.1");
  }

  TemporaryFolder folder_;
};

}  // namespace assay::doctor
