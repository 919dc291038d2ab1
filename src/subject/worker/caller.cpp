#include "subject/worker/caller.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace assay::worker {

namespace {

// Written once, before any of the subject's code runs.
char subject_path[4096];
const void* runtime_base = nullptr;
const void* own_base = nullptr;
HostReport report_hook = nullptr;
bool has_driver = false;

constexpr const char* kSystemLibraries[] = {"libc.so",       "ld-linux",    "libstdc++.so", "libgcc_s.so",
                                            "libpthread.so", "libdl.so",    "libm.so",      "linux-vdso",
                                            "libc++.so",     "libc++abi.so"};
constexpr const char* kDriverLibraries[] = {"libcuda.so",  "libcudart.so", "libnvidia-",
                                            "libnvrtc.so", "libnvJitLink", "libcudadebugger"};

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

template <std::size_t N>
bool is_one_of(const char* const (&names)[N], const char* file) {
  for (const char* name : names)
    if (std::strncmp(file, name, std::strlen(name)) == 0) return true;
  return false;
}

bool is_system(const char* file) {
  return is_one_of(kSystemLibraries, file);
}

// Whether this was not reported before. No memory is allocated here: this runs in a signal handler.
bool is_new(const char* what, const char* why) {
  constexpr int kMost = 32;
  static std::atomic<uint64_t> reported[kMost];
  uint64_t hash = 0xcbf29ce484222325;
  for (const char* text : {what, why})
    for (const char* c = text; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
  for (std::atomic<uint64_t>& slot : reported) {
    uint64_t free = 0;
    if (slot.compare_exchange_strong(free, hash)) return true;
    if (free == hash) return false;
  }
  return false;
}

}  // namespace

void know_callers(const std::string& subject, const void* runtime, bool driver) {
  has_driver = driver;
  std::snprintf(subject_path, sizeof subject_path, "%s", subject.c_str());
  Dl_info info{};
  if (dladdr(runtime, &info) != 0) runtime_base = info.dli_fbase;
  if (dladdr(reinterpret_cast<const void*>(&know_callers), &info) != 0) own_base = info.dli_fbase;
  call_stack();  // the first one loads a library, which must not happen later
}

CallStack call_stack() {
  CallStack stack;
  stack.count = backtrace(stack.frames, CallStack::kMost);
  return stack;
}

Caller caller_of(const CallStack& stack) {
  bool inside = true;   // still in the worker's functions that ask
  int system_code = 0;  // frames of the C library since then
  for (int i = 0; i < stack.count; ++i) {
    Dl_info info{};
    if (dladdr(stack.frames[i], &info) == 0 || !info.dli_fname) return Caller::Subject;  // code from nowhere
    const bool own = info.dli_fbase == own_base;
    if (own && inside) continue;
    inside = false;
    if (own) return Caller::Worker;
    if (info.dli_fbase == runtime_base) return Caller::Runtime;
    if (std::strcmp(info.dli_fname, subject_path) == 0) return Caller::Subject;
    const char* file = file_name(info.dli_fname);
    if (std::strncmp(file, "libffi.so", 9) == 0) return Caller::Subject;
    if (has_driver && is_one_of(kDriverLibraries, file)) return Caller::Runtime;
    if (info.dli_sname && std::strcmp(info.dli_sname, "pthread_getattr_np") == 0) return Caller::Library;
    if (!is_system(file)) return Caller::Library;
    // The loader's own calls come right after the return from the signal handler. Where it calls others, it
    // runs the constructors of what it loads.
    if (std::strncmp(file, "ld-linux", 8) == 0) return system_code <= 1 ? Caller::Library : Caller::Subject;
    ++system_code;
  }
  return inside ? Caller::Worker : Caller::Subject;
}

bool is_libc(const void* code) {
  Dl_info info{};
  return dladdr(code, &info) != 0 && info.dli_fname &&
         std::strncmp(file_name(info.dli_fname), "libc.so", 7) == 0;
}

bool is_libcs_own(const CallStack& stack) {
  int i = 0;
  while (i < stack.count && !is_libc(stack.frames[i])) ++i;
  // The return from the signal handler, the wrapper, and who called that.
  return i + 2 < stack.count && is_libc(stack.frames[i + 1]) && is_libc(stack.frames[i + 2]);
}

void report_to(HostReport hook) {
  report_hook = hook;
}

void report(const Ruling& ruling, const char* what, const CallStack& stack) {
  if (ruling.severity == Severity::None || !report_hook) return;
  char why[200];
  std::snprintf(why, sizeof why, "%.*s", static_cast<int>(ruling.reason.size()), ruling.reason.data());
  if (!is_new(what, why)) return;
  report_hook(ruling.kind, ruling.severity == Severity::Error, what, why, stack.frames, stack.count);
}

}  // namespace assay::worker
