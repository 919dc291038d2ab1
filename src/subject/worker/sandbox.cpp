#include "subject/worker/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace assay::worker {

namespace {

struct Refused {
  int number;
  const char* name;
  bool driver = false;  // of a real GPU: it needs them
};
#define CALL(name) \
  { SCMP_SYS(name), #name, false }
#define DRIVER_CALL(name) \
  { SCMP_SYS(name), #name, true }
constexpr Refused kRefused[] = {
    // processes and programs
    CALL(execve),
    CALL(execveat),
    CALL(fork),
    CALL(vfork),
    CALL(setsid),
    CALL(unshare),
    CALL(setns),
    // the network, and other ways to speak to processes
    DRIVER_CALL(socket),
    DRIVER_CALL(socketpair),
    DRIVER_CALL(connect),
    CALL(bind),
    CALL(listen),
    CALL(accept),
    CALL(accept4),
    DRIVER_CALL(shmget),
    DRIVER_CALL(semget),
    DRIVER_CALL(msgget),
    CALL(mq_open),
    // other processes
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(pidfd_open),
    CALL(pidfd_getfd),
    CALL(pidfd_send_signal),
    CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo),
    CALL(tkill),
    CALL(kcmp),
    CALL(perf_event_open),
    // files: what Landlock does not guard
    CALL(truncate),
    CALL(chmod),
    CALL(fchmodat),
    CALL(chown),
    CALL(lchown),
    CALL(fchownat),
    CALL(utime),
    CALL(utimes),
    CALL(utimensat),
    CALL(futimesat),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(removexattr),
    CALL(lremovexattr),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    // the machine
    CALL(bpf),
    CALL(keyctl),
    CALL(add_key),
    CALL(request_key),
    CALL(userfaultfd),
    CALL(io_uring_setup),
    CALL(reboot),
    CALL(init_module),
    CALL(finit_module),
    CALL(kexec_load),
    CALL(setrlimit),
    CALL(swapon),
    CALL(sethostname),
    CALL(settimeofday),
    CALL(clock_settime),
};
#undef CALL
#undef DRIVER_CALL

char own_folder[512];  // for the handler: a signal handler is given nothing

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}

// Even this is refused, and ends the process: the judge sees what of.
[[noreturn]] void die_refused() {
  signal(SIGSYS, SIG_DFL);
  _exit(128 + SIGSYS);
}

bool may_write(const char* path) {
  const auto begins = [&](const char* with) { return std::strncmp(path, with, std::strlen(with)) == 0; };
  if (path[0] != '/') return !begins("..");
  return begins(own_folder) || begins("/proc/self/") || std::strcmp(path, "/dev/null") == 0 ||
         std::strcmp(path, "/dev/zero") == 0;
}

// Opens for writing come here to be told of; whether they succeed is Landlock's business. What is refused
// ends the subject, by name.
void on_refused(int, siginfo_t* info, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const int call = info->si_syscall;
  if (call == SYS_open || call == SYS_openat || call == SYS_creat) {
    const bool at = call == SYS_openat;
    const char* path = reinterpret_cast<const char*>(registers[at ? REG_RSI : REG_RDI]);
    if (may_write(path)) {
      open_how how{};
      how.flags = call == SYS_creat ? O_CREAT | O_WRONLY | O_TRUNC
                                    : static_cast<uint32_t>(registers[at ? REG_RDX : REG_RSI]);
      if (how.flags & (O_CREAT | O_TMPFILE))
        how.mode = static_cast<uint64_t>(registers[at                  ? REG_R10
                                                   : call == SYS_creat ? REG_RSI
                                                                       : REG_RDX]) &
                   07777;
      const int folder = at ? static_cast<int>(registers[REG_RDI]) : AT_FDCWD;
      const long opened = syscall(SYS_openat2, folder, path, &how, sizeof how);
      registers[REG_RAX] = opened < 0 ? -errno : opened;
      return;
    }
    say("it wanted to write ");
    say(path);
    die_refused();
  }
  const char* name = call == SYS_clone                        ? "fork"
                     : call == SYS_kill || call == SYS_tgkill ? "kill"
                                                              : "a system call";
  for (const Refused& refused : kRefused)
    if (refused.number == call) name = refused.name;
  say("it called ");
  say(name);
  die_refused();
}

bool watch_refusals(const std::string& folder) {
  std::snprintf(own_folder, sizeof own_folder, "%s/", folder.c_str());
  struct sigaction action {};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGSYS, &action, nullptr) == 0;
}

// On a real GPU the driver may try what it can do without: refusals are told to it, and end nothing.
bool refuse_calls(bool real_gpu) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return false;
  const uint32_t refuse = real_gpu ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP;
  bool good = true;
  for (const Refused& refused : kRefused) {
    if (real_gpu && refused.driver) continue;
    good &= seccomp_rule_add(filter, refuse, refused.number, 0) == 0;
  }
  // Threads are clones that share everything; anything else would be a process. clone3 hides its flags
  // behind a pointer, so it does not exist here, and the C library falls back to clone.
  good &= seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
  good &=
      seccomp_rule_add(filter, refuse, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
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
  if (!real_gpu) {
    for (const uint64_t writes : {O_WRONLY, O_RDWR}) {
      good &= seccomp_rule_add(filter, SCMP_ACT_TRAP, SCMP_SYS(open), 1,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE, writes)) == 0;
      good &= seccomp_rule_add(filter, SCMP_ACT_TRAP, SCMP_SYS(openat), 1,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE, writes)) == 0;
    }
    good &= seccomp_rule_add(filter, SCMP_ACT_TRAP, SCMP_SYS(creat), 0) == 0;
    // Who takes the signal over would not be heard of.
    good &= seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(rt_sigaction), 2,
                             SCMP_A0(SCMP_CMP_EQ, SIGSYS), SCMP_A1(SCMP_CMP_NE, 0)) == 0;
  }
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

// False where the kernel has no Landlock: then files are guarded by their permissions alone.
bool refuse_writes(const std::string& folder, bool real_gpu) {
  constexpr uint64_t kWrites = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                               LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = kWrites;
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (ruleset < 0) return false;
  allow_under(ruleset, folder.c_str(), kWrites);
  for (const char* device : {"/dev/null", "/dev/zero"})
    allow_under(ruleset, device, LANDLOCK_ACCESS_FS_WRITE_FILE);
  if (real_gpu) allow_under(ruleset, "/dev", LANDLOCK_ACCESS_FS_WRITE_FILE);
  allow_under(ruleset, "/proc/self", LANDLOCK_ACCESS_FS_WRITE_FILE);
  const bool good = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return good;
}

}  // namespace

std::string enter_sandbox(const std::string& folder, bool real_gpu, bool& files_guarded) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no_new_privs could not be set";
  files_guarded = refuse_writes(folder, real_gpu);
  if (!real_gpu && !watch_refusals(folder)) return "refusals could not be watched";
  if (!give_up_capabilities()) return "capabilities could not be given up";
  return refuse_calls(real_gpu) ? "" : "the system call filter could not be installed";
}

}  // namespace assay::worker
