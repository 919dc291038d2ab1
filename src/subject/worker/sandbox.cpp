#include "subject/worker/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "protocol/protocol.h"
#include "subject/worker/caller.h"
#include "subject/worker/policy.h"

namespace assay::worker {

namespace {

// A call that is stopped whatever its arguments are.
struct Refused {
  int number;
  const char* name;
  const char* reason;
  bool harmless = false;  // programs try it, and do without
  bool driver = false;    // of a real GPU: it needs them
  bool compiler = false;  // an interpreter starts compilers: they need them
};
constexpr const char *kProcesses = "starts processes",
                     *kNetwork = "communicates with other processes or machines",
                     *kOthers = "interferes with other processes", *kSystem = "changes the system";
#define CALL(name, reason) \
  { SCMP_SYS(name), #name, reason }
#define COMPILER_CALL(name, reason) \
  { SCMP_SYS(name), #name, reason, false, false, true }
constexpr Refused kRefused[] = {
    COMPILER_CALL(execve, kProcesses),
    COMPILER_CALL(execveat, kProcesses),
    COMPILER_CALL(fork, kProcesses),
    COMPILER_CALL(vfork, kProcesses),
    COMPILER_CALL(clone, kProcesses),
    CALL(setsid, kProcesses),
    CALL(unshare, kSystem),
    CALL(setns, kSystem),
    {SCMP_SYS(socket), "socket", kNetwork, false, true},
    {SCMP_SYS(socketpair), "socketpair", kNetwork, false, true, true},
    {SCMP_SYS(connect), "connect", kNetwork, false, true},
    CALL(bind, kNetwork),
    CALL(listen, kNetwork),
    CALL(accept, kNetwork),
    CALL(accept4, kNetwork),
    {SCMP_SYS(shmget), "shmget", kNetwork, false, true},
    {SCMP_SYS(semget), "semget", kNetwork, false, true},
    {SCMP_SYS(msgget), "msgget", kNetwork, false, true},
    CALL(mq_open, kNetwork),
    CALL(kill, kOthers),
    CALL(tgkill, kOthers),
    CALL(tkill, kOthers),
    CALL(ptrace, kOthers),
    CALL(process_vm_readv, kOthers),
    CALL(process_vm_writev, kOthers),
    CALL(pidfd_open, kOthers),
    CALL(pidfd_getfd, kOthers),
    CALL(pidfd_send_signal, kOthers),
    CALL(rt_sigqueueinfo, kOthers),
    CALL(rt_tgsigqueueinfo, kOthers),
    CALL(kcmp, kOthers),
    CALL(fcntl, kOthers),
    CALL(perf_event_open, kSystem),
    CALL(mount, kSystem),
    CALL(umount2, kSystem),
    CALL(pivot_root, kSystem),
    CALL(chroot, kSystem),
    CALL(bpf, kSystem),
    CALL(keyctl, kSystem),
    CALL(add_key, kSystem),
    CALL(request_key, kSystem),
    CALL(userfaultfd, kSystem),
    CALL(io_uring_setup, kSystem),
    CALL(reboot, kSystem),
    CALL(init_module, kSystem),
    CALL(finit_module, kSystem),
    CALL(kexec_load, kSystem),
    {SCMP_SYS(setrlimit), "setrlimit", kSystem, true},
    {SCMP_SYS(prlimit64), "prlimit", kSystem},
    CALL(swapon, kSystem),
    CALL(sethostname, kSystem),
    CALL(settimeofday, kSystem),
    CALL(clock_settime, kSystem),
};
#undef CALL
#undef COMPILER_CALL
// Those of them that are stopped for some arguments only, by rules of their own.
constexpr int kConditional[] = {SCMP_SYS(clone), SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(fcntl),
                                SCMP_SYS(prlimit64)};

// A call with a path among its arguments.
struct PathCall {
  enum class Effect : uint8_t { Looks, Opens, Changes } effect;
  int number;
  const char* name;
  int folder, path;  // which arguments; -1: none
  int folder2 = -1, path2 = -1;
  bool harmless = false;
};
using Effect = PathCall::Effect;
constexpr PathCall kPathCalls[] = {
    {Effect::Opens, SCMP_SYS(open), "open", -1, 0},
    {Effect::Opens, SCMP_SYS(openat), "open", 0, 1},
    {Effect::Opens, SCMP_SYS(openat2), "openat2", 0, 1},
    {Effect::Opens, SCMP_SYS(creat), "creat", -1, 0},
    {Effect::Looks, SCMP_SYS(readlink), "readlink", -1, 0},
    {Effect::Looks, SCMP_SYS(readlinkat), "readlink", 0, 1},
    {Effect::Looks, SCMP_SYS(access), "access", -1, 0},
    {Effect::Looks, SCMP_SYS(faccessat), "access", 0, 1},
    {Effect::Looks, SCMP_SYS(faccessat2), "access", 0, 1},
    {Effect::Looks, SCMP_SYS(stat), "stat", -1, 0},
    {Effect::Looks, SCMP_SYS(lstat), "lstat", -1, 0},
    {Effect::Looks, SCMP_SYS(newfstatat), "stat", 0, 1},
    {Effect::Looks, SCMP_SYS(statx), "stat", 0, 1},
    {Effect::Looks, SCMP_SYS(chdir), "chdir", -1, 0},
    {Effect::Changes, SCMP_SYS(unlink), "unlink", -1, 0},
    {Effect::Changes, SCMP_SYS(unlinkat), "unlink", 0, 1},
    {Effect::Changes, SCMP_SYS(rmdir), "rmdir", -1, 0},
    {Effect::Changes, SCMP_SYS(mkdir), "mkdir", -1, 0, -1, -1, true},
    {Effect::Changes, SCMP_SYS(mkdirat), "mkdir", 0, 1, -1, -1, true},
    {Effect::Changes, SCMP_SYS(mknod), "mknod", -1, 0},
    {Effect::Changes, SCMP_SYS(mknodat), "mknod", 0, 1},
    {Effect::Changes, SCMP_SYS(rename), "rename", -1, 0, -1, 1},
    {Effect::Changes, SCMP_SYS(renameat), "rename", 0, 1, 2, 3},
    {Effect::Changes, SCMP_SYS(renameat2), "rename", 0, 1, 2, 3},
    {Effect::Changes, SCMP_SYS(link), "link", -1, 0, -1, 1},
    {Effect::Changes, SCMP_SYS(linkat), "link", 0, 1, 2, 3},
    {Effect::Changes, SCMP_SYS(symlink), "symlink", -1, 1},
    {Effect::Changes, SCMP_SYS(symlinkat), "symlink", 1, 2},
    {Effect::Changes, SCMP_SYS(truncate), "truncate", -1, 0},
    {Effect::Changes, SCMP_SYS(chmod), "chmod", -1, 0},
    {Effect::Changes, SCMP_SYS(fchmodat), "chmod", 0, 1},
    {Effect::Changes, SCMP_SYS(chown), "chown", -1, 0},
    {Effect::Changes, SCMP_SYS(lchown), "chown", -1, 0},
    {Effect::Changes, SCMP_SYS(fchownat), "chown", 0, 1},
    {Effect::Changes, SCMP_SYS(utime), "utime", -1, 0},
    {Effect::Changes, SCMP_SYS(utimes), "utime", -1, 0},
    {Effect::Changes, SCMP_SYS(utimensat), "utime", 0, 1},
    {Effect::Changes, SCMP_SYS(futimesat), "utime", 0, 1},
    {Effect::Changes, SCMP_SYS(setxattr), "setxattr", -1, 0},
    {Effect::Changes, SCMP_SYS(lsetxattr), "setxattr", -1, 0},
    {Effect::Changes, SCMP_SYS(removexattr), "removexattr", -1, 0},
    {Effect::Changes, SCMP_SYS(lremovexattr), "removexattr", -1, 0},
};

// Written once, before the filter is there: a signal handler is given nothing.
char own_folder[PATH_MAX + 8];
char own_program[PATH_MAX + 32];  // the folder of the worker and its libraries
char own_process[32];             // "/proc/123/"
bool with_driver;                 // of a real GPU
uint64_t permission;  // in the sixth argument, which none of these calls has: the handler's own may go on

long permitted(int number, const uint64_t (&arguments)[6]) {
  const long result =
      syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], permission);
  return result < 0 ? -errno : result;
}

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}

// Even this is refused, and ends the process: the judge sees what of.
[[noreturn]] void die_refused(const char* what) {
  say("it called ");
  say(what);
  signal(SIGSYS, SIG_DFL);
  _exit(128 + SIGSYS);
}

// Where a path leads, links in front of its last part followed; as it was given where it leads nowhere.
struct Resolved {
  char path[4096];

  Resolved(int folder, const char* given) {
    if (!read_link_of(folder, given, "")) resolve_folder(folder, given);
    name_self();
  }

 private:
  bool read_link_of(int folder, const char* given, const char* rest) {
    open_how how{};
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    const long opened = permitted(
        SYS_openat2, {static_cast<uint64_t>(static_cast<int64_t>(folder)), reinterpret_cast<uint64_t>(given),
                      reinterpret_cast<uint64_t>(&how), sizeof how});
    if (opened < 0) return false;
    char link[64];
    std::snprintf(link, sizeof link, "/proc/self/fd/%ld", opened);
    const long length = permitted(SYS_readlink, {reinterpret_cast<uint64_t>(link),
                                                 reinterpret_cast<uint64_t>(path), sizeof path - 256});
    close(static_cast<int>(opened));
    if (length < 0) return false;
    std::snprintf(path + length, sizeof path - static_cast<std::size_t>(length), "%s%s", *rest ? "/" : "",
                  rest);
    return true;
  }

  // The file is not there, or not to be seen: its folder may be.
  void resolve_folder(int folder, const char* given) {
    const char* slash = std::strrchr(given, '/');
    char before[2048];
    const std::size_t length =
        slash ? std::min<std::size_t>(static_cast<std::size_t>(slash - given), sizeof before - 1) : 0;
    std::memcpy(before, given, length);
    before[length] = 0;
    const char* where = slash == given ? "/" : length > 0 ? before : ".";
    if (read_link_of(folder, where, slash ? slash + 1 : given)) return;
    std::snprintf(path, sizeof path, "%s", given);
  }

  void name_self() {
    const std::size_t length = std::strlen(own_process);
    if (std::strncmp(path, own_process, length) != 0) return;
    char rest[sizeof path];
    std::snprintf(rest, sizeof rest, "%s", path + length);
    std::snprintf(path, sizeof path, "/proc/self/%.4000s", rest);
  }
};

uint64_t flags_of_open(int number, const uint64_t (&arguments)[6]) {
  if (number == SYS_creat) return O_CREAT | O_WRONLY | O_TRUNC;
  if (number == SYS_openat2) return reinterpret_cast<const open_how*>(arguments[2])->flags;
  return arguments[number == SYS_openat ? 2 : 1];
}

bool changes(const PathCall& call, const uint64_t (&arguments)[6]) {
  if (call.effect != Effect::Opens) return call.effect == Effect::Changes;
  const uint64_t flags = flags_of_open(call.number, arguments);
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

Ruling judge_path(const PathCall& call, const char* path, Caller caller, bool changing) {
  Ruling ruling = changing ? judge_change(path, own_folder, caller, call.harmless)
                           : judge_look(path, own_program, caller);
  // mkdir of what is there only asks.
  if (call.harmless && ruling.action == Ruling::Action::Refuse && access(path, F_OK) == 0) return {};
  return ruling;
}

// What is allowed happens as it would have; what Landlock thinks of it is its own business.
long on_path_call(const PathCall& call, const uint64_t (&arguments)[6]) {
  const CallStack stack = call_stack();
  const Caller caller = caller_of(stack);
  if (caller == Caller::Worker || caller == Caller::Runtime) return permitted(call.number, arguments);
  const bool changing = changes(call, arguments);
  const std::pair<int, int> paths[] = {{call.folder, call.path}, {call.folder2, call.path2}};
  for (const auto& [folder, path] : paths) {
    const char* given = path < 0 ? nullptr : reinterpret_cast<const char*>(arguments[path]);
    if (!given || !*given) continue;
    const Resolved resolved(folder < 0 ? AT_FDCWD : static_cast<int>(arguments[folder]), given);
    const Ruling ruling = judge_path(call, resolved.path, caller, changing);
    if (ruling.severity == Severity::None && ruling.action == Ruling::Action::Allow) continue;
    char what[600];
    std::snprintf(what, sizeof what, "%s(\"%.500s\")", call.name, given);
    report(ruling, what, stack);
    if (ruling.action == Ruling::Action::End) die_refused(what);
    if (ruling.action == Ruling::Action::Refuse) return changing ? -EACCES : -ENOENT;
  }
  return permitted(call.number, arguments);
}

long on_refused_call(int number, const uint64_t (&arguments)[6], const void* code) {
  const CallStack stack = call_stack();
  const Caller caller = caller_of(stack);
  if (number == SYS_prctl) {
    const Ruling ruling = judge_sandbox_query(caller);
    report(ruling, "prctl", stack);
    return 0;
  }
  for (const Refused& refused : kRefused) {
    if (refused.number != number) continue;
    if (with_driver && refused.driver && (caller == Caller::Runtime || caller == Caller::Worker))
      return permitted(number, arguments);
    const bool local = number == SYS_socket && arguments[0] == AF_UNIX;
    if (local && is_libcs_own(stack)) return -EAFNOSUPPORT;
    const bool own =
        number == SYS_prlimit64 && (arguments[0] == 0 || arguments[0] == static_cast<uint64_t>(getpid()));
    const Ruling ruling = judge_call(refused.reason, caller, refused.harmless || local || own);
    const char* name = number == SYS_clone ? "fork" : refused.name;
    // libc holds the locks of its heap while it forks (it was not called by a name that this program has
    // taken over).
    const bool may_report = number != SYS_clone || !is_libc(code);
    if (may_report) report(ruling, name, stack);
    if (ruling.action == Ruling::Action::End) die_refused(name);
    return local ? -EAFNOSUPPORT : -EPERM;
  }
  die_refused("a system call");
}

void on_stopped(int, siginfo_t* info, void* context) {
  const int error = errno;
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto in = [&](int which) { return static_cast<uint64_t>(registers[which]); };
  const uint64_t arguments[6] = {in(REG_RDI), in(REG_RSI), in(REG_RDX), in(REG_R10), in(REG_R8), in(REG_R9)};
  const auto call = std::find_if(std::begin(kPathCalls), std::end(kPathCalls),
                                 [&](const PathCall& c) { return c.number == info->si_syscall; });
  registers[REG_RAX] = call != std::end(kPathCalls)
                           ? on_path_call(*call, arguments)
                           : on_refused_call(info->si_syscall, arguments, info->si_call_addr);
  errno = error;
}

// By their names in libc, which would have taken locks and blocked signals by the time it makes the call.
[[noreturn]] void end_for_process(const char* name) {
  const CallStack stack = call_stack();
  report(judge_call(kProcesses, Caller::Subject, false), name, stack);
  die_refused(name);
}

// Its process is refused where it is made.
bool is_drivers_own() {
  return with_driver && caller_of(call_stack()) == Caller::Runtime;
}

bool watch_refusals(const std::string& folder) {
  char real[PATH_MAX];
  if (!realpath(folder.c_str(), real)) return false;
  std::snprintf(own_folder, sizeof own_folder, "%s/", real);
  std::snprintf(own_program, sizeof own_program, "%s%s/", own_folder, protocol::kProgramFolder);
  std::snprintf(own_process, sizeof own_process, "/proc/%d/", getpid());
  if (getrandom(&permission, sizeof permission, 0) != sizeof permission) return false;
  struct sigaction action {};
  action.sa_sigaction = on_stopped;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGSYS, &action, nullptr) == 0;
}

bool add_conditional_rules(scmp_filter_ctx filter, uint32_t refuse, bool processes) {
  bool good = true;
  // Threads are clones that share everything; anything else would be a process. clone3 hides its flags
  // behind a pointer, so it does not exist here, and the C library falls back to clone.
  if (!processes) {
    good &= seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
    good &= seccomp_rule_add(filter, refuse, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
  }
  const auto self = static_cast<scmp_datum_t>(getpid());
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(kill), 1, SCMP_A0(SCMP_CMP_NE, self)) == 0;
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_NE, self)) == 0;
  // Limits of others; its own may be asked for.
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_GT, 0)) == 0;
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_NE, 0)) == 0;
  // Signals to others by way of a file's owner.
  for (const int command : {F_SETOWN, F_SETOWN_EX, F_SETSIG})
    good &= seccomp_rule_add(filter, refuse, SCMP_SYS(fcntl), 1,
                             SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command))) == 0;
  return good;
}

// On the virtual device every call with a path is looked at, save those of the handler itself.
bool add_path_rules(scmp_filter_ctx filter) {
  bool good = true;
  const auto foreign = SCMP_A5(SCMP_CMP_NE, permission);
  for (const PathCall& call : kPathCalls) {
    const bool may_lack_path = call.number == SYS_newfstatat || call.number == SYS_statx;
    good &= (may_lack_path
                 ? seccomp_rule_add(filter, SCMP_ACT_TRAP, call.number, 2, foreign,
                                    call.number == SYS_statx ? SCMP_A2(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0)
                                                             : SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0))
                 : seccomp_rule_add(filter, SCMP_ACT_TRAP, call.number, 1, foreign)) == 0;
  }
  for (const int question : {PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS})
    good &= seccomp_rule_add(filter, SCMP_ACT_TRAP, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(question))) == 0;
  // A subject that replaced the handler would escape the checks.
  return good && seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(rt_sigaction), 2,
                                  SCMP_A0(SCMP_CMP_EQ, SIGSYS), SCMP_A1(SCMP_CMP_NE, 0)) == 0;
}

// An interpreter and its compilers may try what they can do without: refused calls fail, and end nothing; and it owns
// what it may write to. The driver of a real GPU makes calls that the subject may not: who makes them decides.
bool refuse_calls(Confinement::Who who) {
  const bool driver = who == Confinement::Who::Driver, interpreter = who == Confinement::Who::Interpreter;
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return false;
  const uint32_t refuse = interpreter ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP;
  bool good = true;
  for (const Refused& refused : kRefused) {
    const bool conditional =
        std::find(std::begin(kConditional), std::end(kConditional), refused.number) != std::end(kConditional);
    if (conditional || (interpreter && refused.compiler)) continue;
    good &= (driver && refused.driver
                 ? seccomp_rule_add(filter, refuse, refused.number, 1, SCMP_A5(SCMP_CMP_NE, permission))
                 : seccomp_rule_add(filter, refuse, refused.number, 0)) == 0;
  }
  good &= add_conditional_rules(filter, refuse, interpreter);
  if (!interpreter) good &= add_path_rules(filter);
  good = good && seccomp_load(filter) == 0;
  seccomp_release(filter);
  return good;
}

// Root without capabilities is an ordinary user that owns root's files: it may not look into other processes.
bool give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

void allow_under(int ruleset, const char* path, uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) return;
  syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(rule.parent_fd);
}

// Everything but the hidden paths may be read: on the way down to them, all that lies beside it. What is made
// there later is not among it.
void allow_reading_beside(int ruleset, const std::vector<std::string>& hidden, const std::string& folder) {
  constexpr uint64_t kReads = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  const auto leads_down = [&](const std::string& path) {
    return std::any_of(hidden.begin(), hidden.end(), [&](const std::string& one) {
      return one.size() > path.size() && one.compare(0, path.size(), path) == 0 && one[path.size()] == '/';
    });
  };
  DIR* entries = opendir(folder.empty() ? "/" : folder.c_str());
  if (!entries) return;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    std::string path = folder;
    path.append("/").append(name);
    if (name == "." || name == ".." || entry->d_type == DT_LNK) continue;
    if (std::find(hidden.begin(), hidden.end(), path) != hidden.end()) continue;
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) continue;
    if (leads_down(path))
      allow_reading_beside(ruleset, hidden, path);
    else  // of a file, no right of folders may be named
      allow_under(ruleset, path.c_str(), S_ISDIR(status.st_mode) ? kReads : LANDLOCK_ACCESS_FS_READ_FILE);
  }
  closedir(entries);
}

// Paths as the kernel sees them, without links.
std::vector<std::string> resolved(const std::vector<std::string>& paths) {
  std::vector<std::string> list;
  for (const std::string& path : paths) {
    char real[PATH_MAX];
    if (realpath(path.c_str(), real)) list.emplace_back(real);
  }
  return list;
}

// False where the kernel has no Landlock: then files are guarded by their permissions alone.
bool guard_files(const Confinement& confinement) {
  constexpr uint64_t kWrites = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                               LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  constexpr uint64_t kReads = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  constexpr int kKnowsRenames = 2;  // the version that can allow renames between folders
  const bool interpreter = confinement.who == Confinement::Who::Interpreter;
  const std::vector<std::string> hidden = resolved(confinement.hidden);
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  const uint64_t renames = interpreter && version >= kKnowsRenames ? LANDLOCK_ACCESS_FS_REFER : 0;
  const uint64_t reads = interpreter && !hidden.empty() ? kReads : 0;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = kWrites | renames | reads;
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (ruleset < 0) return false;
  if (reads != 0) allow_reading_beside(ruleset, hidden, "");
  allow_under(ruleset, confinement.folder.c_str(), kWrites | renames | reads);
  if (interpreter && !confinement.build_folder.empty())
    allow_under(ruleset, confinement.build_folder.c_str(), kWrites | renames | reads);
  for (const char* device : {"/dev/null", "/dev/zero"})
    allow_under(ruleset, device, LANDLOCK_ACCESS_FS_WRITE_FILE);
  if (confinement.who == Confinement::Who::Driver || confinement.who == Confinement::Who::Witnessed)
    allow_under(ruleset, "/dev", LANDLOCK_ACCESS_FS_WRITE_FILE);
  if (confinement.who == Confinement::Who::Witnessed)
    allow_under(ruleset, "/tmp", kWrites);  // where tools talk
  allow_under(ruleset, "/proc/self", LANDLOCK_ACCESS_FS_WRITE_FILE);
  const bool good = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return good;
}

bool confined = false;

}  // namespace

void refuse_process(const char* name) {
  if (confined && !is_drivers_own()) end_for_process(name);
}

std::string enter_sandbox(const Confinement& confinement, bool& files_guarded) {
  const bool witnessed = confinement.who == Confinement::Who::Witnessed;
  const bool judged =
      confinement.who == Confinement::Who::Library || confinement.who == Confinement::Who::Driver;
  with_driver = confinement.who == Confinement::Who::Driver;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no_new_privs could not be set";
  files_guarded = guard_files(confinement);
  if (judged && !watch_refusals(confinement.folder)) return "refusals could not be watched";
  if (!give_up_capabilities()) return "capabilities could not be given up";
  confined = judged;
  if (witnessed) return "";
  return refuse_calls(confinement.who) ? "" : "the system call filter could not be installed";
}

}  // namespace assay::worker
