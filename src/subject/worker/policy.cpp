#include "subject/worker/policy.h"

#include <algorithm>
#include <cctype>

namespace assay::worker {

namespace {

constexpr assay_host_finding kForbidden = assay_forbidden_call, kProbe = assay_environment_probe;

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// Files of /proc/self that say what a process is, where it comes from and who observes it; a kernel has no use for them.
// Files that are not in this list (limits, cgroups, memory used) may be.
constexpr std::string_view kRevealing[] = {"cmdline", "comm",      "cwd",    "environ", "exe",  "fd",
                                           "fdinfo",  "map_files", "maps",   "mem",     "root", "smaps",
                                           "stack",   "stat",      "status", "syscall", "wchan"};

// Variables that say who runs a program, or what is loaded into it.
constexpr std::string_view kRevealingVariables[] = {"CI",
                                                    "COMPUTE_SANITIZER",
                                                    "CUDA_INJECTION64_PATH",
                                                    "GITHUB_ACTIONS",
                                                    "LD_AUDIT",
                                                    "LD_LIBRARY_PATH",
                                                    "LD_PRELOAD",
                                                    "NVTX_INJECTION64_PATH",
                                                    "PYTEST_CURRENT_TEST"};

template <std::size_t N>
bool holds(const std::string_view (&list)[N], std::string_view item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view first_part(std::string_view& path) {
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::string_view part = path.substr(0, slash);
  path.remove_prefix(std::min(slash + 1, path.size()));
  return part;
}

Ruling probe(Severity severity, std::string_view reason) {
  return {severity == Severity::Error ? Ruling::Action::Refuse : Ruling::Action::Allow, severity, kProbe,
          reason};
}

// `rest`: of a path, after "/proc/".
Ruling judge_proc(std::string_view rest) {
  if (rest.empty()) return probe(Severity::Error, "lists the processes of the machine");
  const std::string_view owner = first_part(rest);
  if (is_number(owner)) return probe(Severity::Error, "inspects another process");
  if (owner == "driver") return probe(Severity::Warning, "looks for NVIDIA's driver");
  if (owner != "self" && owner != "thread-self") return {};
  std::string_view item = first_part(rest);
  if (item == "task" && !rest.empty()) {
    first_part(rest);
    item = first_part(rest);
  }
  if (holds(kRevealing, item)) return probe(Severity::Error, "inspects its own process");
  return probe(Severity::Warning, "inspects its own process");
}

}  // namespace

Ruling judge_look(std::string_view path, std::string_view program, Caller caller) {
  if (caller != Caller::Subject) return {};
  if (begins(path, program)) return probe(Severity::Error, "inspects the program that runs it");
  if (path == "/proc") return judge_proc("");
  if (begins(path, "/proc/")) return judge_proc(path.substr(6));
  if (begins(path, "/dev/nvidia") || begins(path, "/sys/module/nvidia"))
    return probe(Severity::Warning, "looks for NVIDIA's driver");
  return {};
}

Ruling judge_change(std::string_view path, std::string_view folder, Caller caller, bool harmless) {
  using Action = Ruling::Action;
  if (caller == Caller::Worker || caller == Caller::Runtime) return {};
  const bool own = begins(path, folder) || path == folder.substr(0, folder.size() - 1);
  // How a thread gets its name.
  const bool name =
      begins(path, "/proc/self/task/") && path.size() > 5 && path.substr(path.size() - 5) == "/comm";
  if (own || name || path == "/dev/null" || path == "/dev/zero" || path == "/dev/full") return {};
  constexpr std::string_view kReason = "changes files outside its own folder";
  if (begins(path, "/proc/self/")) return judge_proc(path.substr(6));
  if (caller == Caller::Library) return {Action::Refuse, Severity::None, kForbidden, kReason};
  if (harmless || begins(path, "/dev/")) return {Action::Refuse, Severity::Warning, kForbidden, kReason};
  return {Action::End, Severity::Error, kForbidden, kReason};
}

Ruling judge_variable(std::string_view name, Caller caller) {
  if (caller != Caller::Subject) return {};
  if (contains_ignoring_case(name, "assay")) return probe(Severity::Error, "looks for the checker");
  if (holds(kRevealingVariables, name)) return probe(Severity::Warning, "inspects who runs it");
  return {};
}

Ruling judge_call(std::string_view reason, Caller caller, bool harmless) {
  if (caller == Caller::Worker || caller == Caller::Runtime) return {Ruling::Action::Refuse};
  if (!harmless) return {Ruling::Action::End, Severity::Error, kForbidden, reason};
  return {Ruling::Action::Refuse, caller == Caller::Subject ? Severity::Warning : Severity::None, kForbidden,
          reason};
}

Ruling judge_sandbox_query(Caller caller) {
  if (caller != Caller::Subject) return {};
  return probe(Severity::Error, "asks whether it is confined");
}

}  // namespace assay::worker
