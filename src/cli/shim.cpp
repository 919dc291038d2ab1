// assay shim: a library that takes the place of a kernel's own, calls it, and has the monitor watch its calls.
//
// The application links the shim under the name that the kernel's library had; the shim exports the same function. The
// real library lies beside it (or where --library says). Whatever fails about watching, the calls go on.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "contract/contract.h"
#include "fatbinary/elf.h"
#include "monitor/sample.h"
#include "monitor/settings.h"
#include "subject/entry.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::cli {

namespace fs = std::filesystem;
using contract::Arg;
using contract::ArgKind;
using contract::DType;

namespace {

constexpr double kLongestCompile = 120;  // seconds

// As the function's own type is passed in registers; small floats are passed as integers of their size.
std::string c_type(DType dtype) {
  const contract::DTypeInfo& info = contract::info(dtype);
  if (dtype == DType::f32) return "float";
  if (dtype == DType::f64) return "double";
  const bool is_signed = info.kind == contract::DTypeKind::Integer && info.min_integer < 0;
  return fmt::format("{}int{}_t", is_signed ? "" : "u", 8 * info.bytes);
}

std::string c_type(const contract::Contract& contract, const Arg& arg) {
  switch (arg.kind) {
    case ArgKind::Dim:
      if (const contract::Dim* dim = contract.dim(arg.name)) return c_type(dim->type);
      return c_type(contract.derived_dim(arg.name)->type);
    case ArgKind::Integer:
      return c_type(arg.type);
    case ArgKind::Scalar:
      return c_type(contract.scalar(arg.name)->dtype);
    default:
      return "void*";
  }
}

std::string joined(std::size_t count, const std::function<std::string(std::size_t)>& item) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + item(i);
  return text;
}

// A text as a C++ string.
std::string literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

struct ShimPlan {
  std::string contract, certificate, real, trusted, trusted_entry, monitor;  // paths
};

constexpr const char* kSource = R"(// Written by `assay shim`.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {{

using Function = {result} (*)({types});

// A path that is relative is one beside this library.
std::string beside(const char* path) {{
  Dl_info info{{}};
  if (path[0] == '/' || !dladdr(reinterpret_cast<void*>(&beside), &info) || !info.dli_fname) return path;
  const std::string own = info.dli_fname;
  const std::size_t slash = own.rfind('/');
  return slash == std::string::npos ? path : own.substr(0, slash + 1) + path;
}}

Function find(const char* library, const char* name) {{
  // The library's own calls of a function of this name stay in it.
  void* opened = dlopen(beside(library).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  Function found = opened ? reinterpret_cast<Function>(dlsym(opened, name)) : nullptr;
  if (!found) std::fprintf(stderr, "assay: shim of %s: %s\n", name, dlerror());
  return found;
}}

struct Shim {{
  Function real = nullptr, trusted = nullptr;
  void* watch = nullptr;
  uint64_t (*before)(void*, void* const*, void*) = nullptr;
  void (*after)(void*, uint64_t, void* const*, void*) = nullptr;
  int (*shadow)(void*, uint64_t, void**, void*) = nullptr;
  int (*mode)(const void*) = nullptr;
  void (*close)(void*) = nullptr;

  Shim() {{
    real = find({real}, {entry});
    if (!real) std::abort();  // there is nothing to call
    if ({trusted}[0]) trusted = find({trusted}, {trusted_entry});
    void* library = dlopen({monitor}, RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libassay_monitor.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {{
      std::fprintf(stderr, "assay: shim of %s: calls are not watched: %s\n", {entry}, dlerror());
      return;
    }}
    const auto get = [&](auto& function, const char* name) {{
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    }};
    int (*open)(const char*, const char*, void**) = nullptr;
    const char* (*error)() = nullptr;
    void (*name_library)(void*, const char*) = nullptr;
    int (*set_mode)(void*, int) = nullptr;
    get(open, "assay_open");
    get(error, "assay_error");
    get(name_library, "assay_library");
    get(set_mode, "assay_mode");
    get(before, "assay_before");
    get(after, "assay_after");
    get(shadow, "assay_shadow");
    get(mode, "assay_mode_now");
    get(close, "assay_close");
    const char* certificate = {certificate};
    if (open({contract}, certificate[0] ? certificate : nullptr, &watch) != 0) {{
      std::fprintf(stderr, "assay: shim of %s: calls are not watched: %s\n", {entry}, error());
      watch = nullptr;
      return;
    }}
    name_library(watch, beside({real}).c_str());
    const char* wanted = std::getenv("ASSAY_MONITOR_MODE");
    if (wanted && std::string(wanted) == "shadow") set_mode(watch, 1);
    if (wanted && std::string(wanted) == "reference") set_mode(watch, 2);
  }}
  ~Shim() {{
    if (watch) close(watch);
  }}
}};

Shim& shim() {{
  static Shim made;
  return made;
}}

}}  // namespace

extern "C" __attribute__((visibility("default"))) {result} {function}({parameters}) {{
  Shim& s = shim();
  if (!s.watch) return s.real({arguments});
  void* args[] = {{{addresses}}};
  const uint64_t ticket = s.before(s.watch, args, {stream});
  const bool instead = s.trusted && s.mode(s.watch) == 2;
  {keep}instead ? s.trusted({arguments}) : s.real({arguments});
  if (ticket != 0 && s.trusted) {{
    {copies}
    void* others[] = {{{other_addresses}}};
    if (s.shadow(s.watch, ticket, others, {stream})) s.trusted({others});
  }}
  s.after(s.watch, ticket, args, {stream});
  {give}
}}
)";

std::string source_of(const contract::Contract& contract, const ShimPlan& plan) {
  const std::vector<Arg>& args = contract.kernel.args;
  const std::size_t n = args.size();
  const auto number = [](const char* prefix) {
    return [prefix](std::size_t i) { return fmt::format("{}{}", prefix, i); };
  };
  const auto stream =
      std::ranges::find_if(args, [](const Arg& arg) { return arg.kind == ArgKind::Stream; }) - args.begin();
  std::string copies;
  for (std::size_t i = 0; i < n; ++i)
    copies += fmt::format("{}{} b{} = a{};", i == 0 ? "" : " ", c_type(contract, args[i]), i, i);
  return fmt::format(
      kSource, fmt::arg("result", contract.kernel.returns_int ? "int" : "void"),
      fmt::arg("types", joined(n, [&](std::size_t i) { return c_type(contract, args[i]); })),
      fmt::arg("parameters",
               joined(n, [&](std::size_t i) { return fmt::format("{} a{}", c_type(contract, args[i]), i); })),
      fmt::arg("arguments", joined(n, number("a"))), fmt::arg("addresses", joined(n, number("&a"))),
      fmt::arg("others", joined(n, number("b"))), fmt::arg("other_addresses", joined(n, number("&b"))),
      fmt::arg("copies", copies), fmt::arg("function", contract.kernel.entry),
      fmt::arg("entry", literal(contract.kernel.entry)),
      fmt::arg("stream", stream < static_cast<std::ptrdiff_t>(n) ? fmt::format("a{}", stream) : "nullptr"),
      fmt::arg("keep", contract.kernel.returns_int ? "const int result = " : ""),
      fmt::arg("give", contract.kernel.returns_int ? "return result;" : ""),
      fmt::arg("real", literal(plan.real)), fmt::arg("trusted", literal(plan.trusted)),
      fmt::arg("trusted_entry", literal(plan.trusted_entry)), fmt::arg("contract", literal(plan.contract)),
      fmt::arg("certificate", literal(plan.certificate)), fmt::arg("monitor", literal(plan.monitor)));
}

// Builds a contract's kernel and puts the library where the shim expects it.
Result<void> build_to(const contract::Contract& contract, const fs::path& target) {
  const auto built = subject::build(contract, {});
  if (!built.subject) {
    Error error = built.failure.error;
    if (!built.failure.output.empty()) error.message += "\n" + built.failure.output;
    return error;
  }
  std::error_code error;
  // A library that is in use is replaced, not overwritten.
  fs::remove(target, error);
  fs::copy_file(built.subject->library, target, fs::copy_options::overwrite_existing, error);
  if (error) return Error{fmt::format("cannot be written: {}", error.message()), target.string()};
  return {};
}

Result<void> compile(const std::string& source, const fs::path& output) {
  const TemporaryFolder folder("shim");
  const std::string file = folder.file("shim.cpp"), made = folder.file("shim.so");
  std::ofstream(file) << source;
  const auto ended = subject::run_command(
      {"c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", made, file, "-ldl"},
      kLongestCompile);
  if (!ended) return ended.error();
  if (ended->status != 0) return Error{"the C++ compiler refuses the shim:\n" + ended->output};
  std::error_code error;
  fs::remove(output, error);
  fs::copy_file(made, output, fs::copy_options::overwrite_existing, error);
  if (error) return Error{fmt::format("cannot be written: {}", error.message()), output.string()};
  return {};
}

// Why the shim cannot call this library, or must not take its place; empty: it can.
std::string why_not_real(const std::string& library, const std::string& entry, const std::string& output) {
  std::error_code error;
  if (!fs::is_regular_file(library, error)) return "there is no such library";
  if (fs::equivalent(library, output, error))
    return "the shim would replace this library and then call itself; move the library, and name its new "
           "place "
           "with --library";
  const auto bytes = read_file(library);
  if (!bytes) return bytes.error().message;
  const auto elf = fatbinary::read_elf(*bytes);
  if (!elf) return elf.error().message;
  return subject::why_missing(*elf, entry);
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? "" : fs::absolute(path).lexically_normal().string();
}

}  // namespace

int shim_command(std::vector<std::string> args) {
  Arguments arguments(
      "Writes a library that stands in for the kernel's own: it calls the kernel's host function and "
      "monitors the calls.",
      "assay shim");
  std::string path, output, library, certificate, source;
  arguments.add("contract", path, "a contract file").required();
  arguments.add("-o,--output FILE", output, "the library to write").required();
  arguments.add("--library FILE", library,
                "the kernel's own library; by default it is built next to the output, as .real.so");
  arguments.add("--certificate FILE", certificate, "its certificate, for assayd to check");
  arguments.add("--source FILE", source, "also write the shim's C++ to this file");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  if (contract->kernel.entry.empty())
    return complain(
        {"a shim replaces a host function, and this contract names none; add an `entry`, or monitor the "
         "calls with include/assay_monitor.h",
         path});
  const auto settings = monitor::settings_of(*contract);
  if (!settings) return complain(settings.error());
  if (const std::string why = monitor::CallShape(*contract).unreadable(); !why.empty())
    return complain({why, path});
  const fs::path stem = fs::path(output).parent_path() / fs::path(output).stem();
  ShimPlan plan{.contract = absolute_path(path), .certificate = absolute_path(certificate)};
  plan.monitor =
      fs::path(subject::program_folder() + "/../lib/libassay_monitor.so").lexically_normal().string();
  announce_cache();
  if (library.empty()) {
    plan.real = stem.filename().string() + ".real.so";
    if (auto built = build_to(*contract, stem.string() + ".real.so"); !built) return complain(built.error());
  } else {
    if (const std::string why = why_not_real(library, contract->kernel.entry, output); !why.empty())
      return complain({why, library});
    plan.real = absolute_path(library);
  }
  if (!settings->trusted_source.empty()) {
    contract::Contract trusted = *contract;
    trusted.kernel.sources = {settings->trusted_source};
    trusted.kernel.entry = plan.trusted_entry = settings->trusted_entry;
    plan.trusted = stem.filename().string() + ".trusted.so";
    if (auto built = build_to(trusted, stem.string() + ".trusted.so"); !built) return complain(built.error());
  }
  const std::string text = source_of(*contract, plan);
  if (!source.empty() && !write_text(source, text)) return kWrongUse;
  if (auto compiled = compile(text, output); !compiled) return complain(compiled.error());
  fmt::print("wrote {}: {}() calls {}{}\n", output, contract->kernel.entry,
             library.empty() ? stem.string() + ".real.so" : library,
             plan.trusted.empty() ? "" : fmt::format(", or {}.trusted.so", stem.string()));
  return 0;
}

}  // namespace assay::cli
