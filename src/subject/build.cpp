#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/diagnostic.h"
#include "base/file.h"
#include "base/python.h"
#include "base/symbol.h"
#include "base/temporary_folder.h"
#include "fatbinary/elf.h"
#include "subject/device_code.h"
#include "subject/entry.h"
#include "subject/interpreter.h"
#include "subject/process.h"
#include "subject/signature.h"
#include "subject/source_text.h"
#include "subject/subject.h"

namespace assay::subject {

namespace fs = std::filesystem;
using contract::Contract;

namespace {

uint64_t hash_more(uint64_t h, std::string_view text) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return (h ^ 0xff) * 0x100000001b3ull;
}
constexpr uint64_t kHashStart = 0xcbf29ce484222325ull;

bool write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

// The files named in a make rule, as a compiler writes them.
std::vector<std::string> dependencies(const std::string& rule) {
  std::vector<std::string> files;
  std::string word;
  const auto flush = [&] {
    if (!word.empty() && word.back() != ':' && word != ":") files.push_back(word);
    word.clear();
  };
  bool after_target = false;
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i];
    if (c == '\\' && i + 1 < rule.size() && rule[i + 1] == '\n') {
      ++i;
      flush();
    } else if (c == '\\' && i + 1 < rule.size() && rule[i + 1] == ' ') {
      word += ' ';
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      flush();
    } else if (c == ':' && !after_target) {
      after_target = true;
      word.clear();
      files.clear();  // the target is no dependency
    } else {
      word += c;
    }
  }
  flush();
  return files;
}

class Builder {
 public:
  Builder(const Contract& contract, const BuildOptions& options) : contract_(contract), options_(options) {}

  BuildOutcome run() {
    const auto start = std::chrono::steady_clock::now();
    if (!check_sources()) return outcome();
    if (contract_.kernel.python) {
      find_python();
      return outcome();
    }
    if (is_ptx()) {
      find_ptx_entry();
      if (!failed_) make_image();
      return outcome();
    }
    nvcc_ = find_nvcc();
    if (nvcc_.empty()) {
      fail("nvcc is not on PATH, in CUDA_HOME or in /usr/local/cuda: CUDA C++ sources cannot be compiled");
      return outcome();
    }
    for (const std::string& path : paths_)
      if (const std::string why = why_not_for_nvcc(path); !why.empty()) {
        fail(path + ": " + why, true);
        return outcome();
      }
    subject_.launched = !contract_.kernel.global.empty();
    subject_.symbol = subject_.launched ? "assay_launch" : contract_.kernel.entry;
    if (prepare_folder() && (load_cached() || compile())) find_entry();
    subject_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome();
  }

 private:
  BuildOutcome outcome() {
    if (failed_) return {failure_.error, failure_};
    return {subject_, {}};
  }

  bool fail(std::string message, bool contract_wrong = false, std::string output = "",
            std::string_view key = "source") {
    const std::string_view at = contract_.kernel.python ? std::string_view("python") : key;
    failure_.error = contract_.error_at(contract_.kernel.place_of(at), std::move(message));
    failure_.contract_wrong = contract_wrong;
    failure_.output = std::move(output);
    failed_ = true;
    return false;
  }

  bool check_sources() {
    for (const std::string& source : contract_.kernel.sources) {
      paths_.push_back(fs::absolute(contract_.resolve(source)).lexically_normal().string());
      auto text = read_file(paths_.back());
      if (!text) return fail(fmt::format("source {} cannot be read: {}", source, text.error().message), true);
      note_file(paths_.back());
      texts_.push_back(std::move(*text));
    }
    if (std::optional<Error> missing = contract_.missing_file()) {
      failure_.error = std::move(*missing);
      failure_.contract_wrong = failed_ = true;
    }
    return !failed_;
  }

  // Its own process compiles what it needs, in a folder that belongs to this text.
  void find_python() {
    subject_.python = paths_.front();
    subject_.symbol = contract_.kernel.python.function;
    uint64_t key = hash_more(hash_more(kHashStart, texts_.front()), subject_.python);
    for (const std::string& path : files_beside(subject_.python)) {
      note_file(path);
      key = hash_more(key, text_of(path));
    }
    for (const contract::PythonFunction& function : {contract_.reference.python, contract_.generator})
      if (function) note_file(contract_.resolve(function.file));
    folder_ = fs::path(cache_folder(options_.cache)) / fmt::format("python-{:016x}", key);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error)
      fail(fmt::format("the cache folder {} cannot be created: {}", folder_.string(), error.message()));
    subject_.build_folder = folder_.string();
    subject_.interpreter = options_.interpreter ? options_.interpreter
                                                : start_interpreter(fs::path(subject_.python).parent_path());
  }

  // Source files in the folder of a Python function: it may import or compile them.
  static std::vector<std::string> files_beside(const std::string& path) {
    constexpr std::size_t kMost = 64;
    constexpr int kDeepest = 1;              // folders below
    constexpr uintmax_t kLargest = 1 << 20;  // bytes
    constexpr std::string_view kEndings[] = {".py", ".cu", ".cuh", ".cpp", ".h", ".hpp"};
    std::vector<std::string> files;
    std::error_code error;
    constexpr auto kOptions = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator it(fs::path(path).parent_path(), kOptions, error), end;
         !error && it != end && files.size() < kMost; it.increment(error)) {
      const fs::directory_entry& entry = *it;
      if (it.depth() >= kDeepest) it.disable_recursion_pending();
      const std::string ending = entry.path().extension().string();
      if (!entry.is_regular_file(error) || entry.file_size(error) > kLargest) continue;
      if (std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings))
        files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  bool is_ptx() const { return !paths_.empty() && paths_.front().ends_with(".ptx"); }

  // `global` may be the mangled name, or the name in the source that was compiled to this PTX.
  void find_ptx_entry() {
    subject_.ptx = paths_.front();
    subject_.launched = true;
    const std::string& wanted = contract_.kernel.global;
    if (wanted.empty()) {
      fail("PTX has no host functions: name a kernel with `global` instead of `entry`", true);
      return;
    }
    const std::string part = fmt::format("{}{}", wanted.size(), wanted);
    const std::vector<std::string> names = kernels_in_ptx(texts_[0]);
    std::vector<std::string> near;
    for (const std::string& name : names) {
      if (name == wanted) subject_.symbol = wanted;
      if (name.find(part) != std::string::npos) near.push_back(name);
    }
    if (subject_.symbol.empty() && near.size() == 1) subject_.symbol = near.front();
    if (subject_.symbol.empty()) {
      fail(fmt::format("{} has no kernel {}; it has {}", contract_.kernel.sources.front(), wanted,
                       fmt::join(names, ", ")),
           true, "", "global");
      return;
    }
    const auto module = ptx::parse(texts_[0], paths_.front());
    const ptx::Function* kernel = module ? module->find(subject_.symbol) : nullptr;
    if (kernel) compare(wanted, subject_.symbol, signature_of(*kernel));
  }

  // PTX does not say how many registers its machine code takes, which decides what may be launched: the assembler does.
  // What it refuses (PTX of a newer toolkit, say) runs without.
  void make_image() {
    nvcc_ = find_nvcc();
    if (nvcc_.empty() || paths_.size() != 1) return;
    if (!why_not_for_nvcc(paths_.front()).empty()) return;
    std::vector<std::string> words = {nvcc_, "-fatbin", "-arch=" + contract_.kernel.arch};
    words.insert(words.end(), contract_.kernel.flags.begin(), contract_.kernel.flags.end());
    uint64_t key = hash_more(kHashStart, "image 1");
    for (const std::string& word : words) key = hash_more(key, word);
    std::error_code error;
    const auto stamp = fs::last_write_time(nvcc_, error).time_since_epoch().count();
    key = hash_more(hash_more(key, texts_[0]), std::to_string(stamp));
    folder_ = fs::path(cache_folder(options_.cache)) / fmt::format("{:016x}", key);
    fs::create_directories(folder_, error);
    const fs::path image = folder_ / "subject.fatbin";
    if (!fs::exists(image, error)) {
      const TemporaryFolder scratch("building", folder_.parent_path().string());
      if (scratch.path().empty()) return;
      const std::string temporary = scratch.file("subject.fatbin");
      words.insert(words.end(), {"-o", temporary, paths_.front()});
      const auto result = run_command(words, options_.timeout, {.temporary = scratch.path()});
      if (!result || result->timed_out || result->status != 0) return;
      fs::rename(temporary, image, error);
      if (error) return;
    }
    subject_.image = image.string();
  }

  // Whether the function is there, and takes what the contract passes.
  void find_entry() {
    const auto bytes = read_file(subject_.library);
    const auto library = bytes ? fatbinary::read_elf(*bytes) : Result<fatbinary::ElfFile>(bytes.error());
    if (!library) {
      fail(fmt::format("{} cannot be read: {}", subject_.library, library.error().message));
      return;
    }
    const std::string why = why_missing(*library, subject_.symbol);
    if (!why.empty()) {
      fail(fmt::format("{}: {}", fmt::join(contract_.kernel.sources, ", "), why), true, "", "entry");
      return;
    }
    const std::string function = subject_.launched ? contract_.kernel.global : contract_.kernel.entry;
    const std::string own_name = function.substr(function.rfind(':') + 1);  // without its namespaces
    if (const auto signature = signature_of(*library, own_name, subject_.launched))
      compare(plain_name(function), plain_name(own_name), *signature);
  }

  // A path as a person would write it from here.
  static std::string shown(const std::string& path) {
    std::error_code error;
    const fs::path relative = fs::relative(path, fs::current_path(error), error);
    const bool below = !error && !relative.empty() && *relative.begin() != "..";
    return below ? relative.string() : path;
  }

  void compare(const std::string& function, std::string_view own_name, const CSignature& signature) {
    std::vector<std::string> texts;
    for (const std::string& path : subject_.files) texts.push_back(text_of(path));
    const std::string why = misfit(contract_, function, signature, texts);
    if (why.empty()) return;
    fail(why, true, "", "args");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (line_names(texts[i], signature.line, own_name))
        failure_.error = {why, shown(subject_.files[i]), signature.line, 0,
                          line_of(texts[i], signature.line)};
    }
  }

  bool prepare_folder() {
    uint64_t key = hash_more(kHashStart, "1");
    for (const std::string& word : command("out")) key = hash_more(key, word);
    for (std::size_t i = 0; i < paths_.size(); ++i) key = hash_more(key, texts_[i]);
    key = hash_more(key, contract_.kernel.global);
    std::error_code error;
    const auto stamp = fs::last_write_time(nvcc_, error).time_since_epoch().count();
    key = hash_more(key, std::to_string(stamp));
    folder_ = fs::path(cache_folder(options_.cache)) / fmt::format("{:016x}", key);
    fs::create_directories(folder_, error);
    if (error)
      return fail(
          fmt::format("the cache folder {} cannot be created: {}", folder_.string(), error.message()));
    subject_.library = (folder_ / "subject.so").string();
    return true;
  }

  std::vector<std::string> command(const std::string& library) const {
    std::vector<std::string> words = {nvcc_,     "-shared", "-Xcompiler", "-fPIC,-g",
                                      "-cudart", "shared",  "-lineinfo",  "-arch=" + contract_.kernel.arch};
    bool optimised = false;
    for (const std::string& flag : contract_.kernel.flags)
      optimised |= flag.rfind("-O", 0) == 0 || flag == "-G";
    if (!optimised) words.push_back("-O3");
    words.insert(words.end(), contract_.kernel.flags.begin(), contract_.kernel.flags.end());
    words.push_back("-o");
    words.push_back(library);
    for (const std::string& path : paths_) words.push_back(path);
    return words;
  }

  // A manifest lists what the last build read, with a hash of each file.
  bool load_cached() {
    std::ifstream manifest(folder_ / "manifest");
    if (!manifest || !fs::exists(subject_.library)) return false;
    std::string line;
    bool whole = false;
    while (std::getline(manifest, line)) {
      if (line == "end") {
        whole = true;
        break;
      }
      const std::size_t space = line.find(' ');
      const auto text = space == std::string::npos ? Error{} : read_file(line.substr(space + 1));
      if (!text || fmt::format("{:016x}", hash_more(kHashStart, *text)) != line.substr(0, space))
        return false;
      note_file(line.substr(space + 1));
    }
    subject_.cached = whole;
    return whole;
  }

  void note_file(const std::string& path) {
    if (path.find("/cuda") != std::string::npos || path.rfind("/usr/", 0) == 0) return;
    const std::string absolute = fs::absolute(path).lexically_normal().string();
    if (std::find(subject_.files.begin(), subject_.files.end(), absolute) == subject_.files.end())
      subject_.files.push_back(absolute);
  }

  // A kernel without host code gets some: a file that includes the source, so that it can name it.
  bool write_launcher() {
    const std::string& name = contract_.kernel.global;
    std::size_t holder = 0;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const std::size_t colon = name.rfind(':');
      if (texts_[i].find(colon == std::string::npos ? name : name.substr(colon + 1)) != std::string::npos)
        holder = i;
    }
    const std::string text = fmt::format(
        "#include \"{}\"\n"
        "extern \"C\" int assay_launch(const unsigned* d, unsigned long long shared, void** args, "
        "cudaStream_t stream) {{\n"
        "  const void* kernel = reinterpret_cast<const void*>({});\n"
        "  if (shared > 48 * 1024) {{\n"
        "    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, "
        "(int)shared);\n"
        "    if (e != cudaSuccess) return e;\n"
        "  }}\n"
        "  return cudaLaunchKernel(kernel, dim3(d[0], d[1], d[2]), dim3(d[3], d[4], d[5]), args, shared, "
        "stream);\n"
        "}}\n",
        paths_[holder], kernel_expression(name));
    const fs::path launcher = scratch_ / "launcher.cu";
    if (!write_file(launcher, text)) return fail(fmt::format("{} cannot be written", launcher.string()));
    include_ = fs::path(paths_[holder]).parent_path().string();
    paths_[holder] = launcher.string();
    return true;
  }

  // Several may build the same at the same time: each in a folder of its own, and the last to end stays.
  bool compile() {
    const TemporaryFolder scratch("building", folder_.parent_path().string());
    if (scratch.path().empty()) return fail(fmt::format("{} cannot be written", folder_.string()));
    scratch_ = scratch.path();
    return compile_in_scratch();
  }

  bool compile_in_scratch() {
    if (subject_.launched && !write_launcher()) return false;
    const std::string temporary = (scratch_ / "subject.so").string();
    std::vector<std::string> words = command(temporary);
    if (!include_.empty()) words.push_back("-I" + include_);
    const std::string rule_file = temporary + ".d";
    if (paths_.size() == 1) words.insert(words.end(), {"-MD", "-MF", rule_file});
    const auto result = run_command(words, options_.timeout, {.temporary = scratch_.string()});
    if (!result) return fail(result.error().message);
    if (result->timed_out)
      return fail(fmt::format("the compiler did not finish within {:.0f} s", options_.timeout), false,
                  result->output);
    if (result->status != 0) {
      if (const std::string why = subject_.launched ? why_no_kernel() : ""; !why.empty())
        return fail(why, true, "", "global");
      return fail(fmt::format("{} does not compile", fmt::join(contract_.kernel.sources, ", ")), false,
                  result->output);
    }
    std::string manifest;
    const std::vector<std::string> read =
        paths_.size() > 1 ? read_by_several() : dependencies(text_of(rule_file));
    for (const std::string& path : read) {
      const auto text = path.ends_with("launcher.cu") ? Error{} : read_file(path);
      if (!text) continue;
      manifest += fmt::format("{:016x} {}\n", hash_more(kHashStart, *text), path);
      note_file(path);
    }
    std::error_code error;
    fs::rename(temporary, subject_.library, error);
    if (error) return fail(fmt::format("{} cannot be written: {}", subject_.library, error.message()));
    if (!read.empty()) write_file(folder_ / "manifest", manifest + "end\n");
    return true;
  }

  // Sources that compile without the launcher do not have the kernel that it names: then, what they have.
  std::string why_no_kernel() const {
    const std::string& wanted = contract_.kernel.global;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const std::string source = contract_.resolve(contract_.kernel.sources[i]);
      const auto ptx = compile_to_ptx(source, contract_.kernel.arch, contract_.kernel.flags);
      if (!ptx) return "";
      for (const std::string& name : kernels_in_ptx(*ptx)) names.push_back(plain_name(name));
      for (const SourceKernel& kernel : kernels_in_source(texts_[i])) {
        if (kernel.is_template && kernel.name == wanted)
          return fmt::format("{} is a template: name an instance of it, as {}<…>", wanted, wanted);
        if (kernel.is_template) names.push_back(kernel.name + "<…>");
      }
    }
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return "";
    if (names.empty()) return fmt::format("{} has no kernel", fmt::join(contract_.kernel.sources, ", "));
    return fmt::format("{} has no kernel {}; it has {}", fmt::join(contract_.kernel.sources, ", "), wanted,
                       fmt::join(names, ", "));
  }

  // What several sources include: the compiler tells it of one at a time. Empty if it does not.
  std::vector<std::string> read_by_several() {
    std::vector<std::string> all;
    const std::string rule_file = (scratch_ / "rule").string();
    for (const std::string& path : paths_) {
      std::vector<std::string> words = {nvcc_, "-M", "-MF", rule_file, "-arch=" + contract_.kernel.arch};
      words.insert(words.end(), contract_.kernel.flags.begin(), contract_.kernel.flags.end());
      if (!include_.empty()) words.push_back("-I" + include_);
      words.push_back(path);
      const auto result = run_command(words, options_.timeout, {.temporary = scratch_.string()});
      const auto rule = read_file(rule_file);
      if (!result || result->timed_out || result->status != 0 || !rule) return {};
      for (std::string& one : dependencies(*rule)) all.push_back(std::move(one));
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  const Contract& contract_;
  const BuildOptions& options_;
  Subject subject_;
  BuildFailure failure_;
  bool failed_ = false;
  std::string nvcc_, include_;
  std::vector<std::string> paths_, texts_;
  fs::path folder_, scratch_;
};

}  // namespace

std::string find_nvcc() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH")) {
    std::stringstream words(path);
    for (std::string word; std::getline(words, word, ':');) folders.push_back(word);
  }
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    std::string path = folder + "/nvcc";
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

BuildOutcome build(const Contract& contract, const BuildOptions& options) {
  return Builder(contract, options).run();
}

}  // namespace assay::subject
