#include "subject/worker/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace assay::worker {

namespace {

constexpr int kRefused[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(socket),
    SCMP_SYS(socketpair),
    SCMP_SYS(connect),
    SCMP_SYS(bind),
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(bpf),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(reboot),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(setrlimit),
    SCMP_SYS(setsid),
    SCMP_SYS(rt_sigqueueinfo),
};

bool refuse_calls(bool real_gpu) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return false;
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  bool good = true;
  for (const int call : kRefused) {
    // The driver speaks to its daemons through sockets.
    const bool driver = call == SCMP_SYS(socket) || call == SCMP_SYS(connect) || call == SCMP_SYS(socketpair);
    if (real_gpu && driver) continue;
    good &= seccomp_rule_add(filter, refuse, call, 0) == 0;
  }
  // Threads are clones that share everything; anything else would be a process. clone3 hides its flags
  // behind a pointer, so it does not exist here, and the C library falls back to clone.
  good &= seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
  good &=
      seccomp_rule_add(filter, refuse, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
  const auto self = static_cast<scmp_datum_t>(getpid());
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(kill), 1, SCMP_A0(SCMP_CMP_NE, self)) == 0;
  good &= seccomp_rule_add(filter, refuse, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_NE, self)) == 0;
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
bool refuse_writes(const std::string& folder) {
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
  allow_under(ruleset, "/dev", LANDLOCK_ACCESS_FS_WRITE_FILE);
  allow_under(ruleset, "/proc/self", LANDLOCK_ACCESS_FS_WRITE_FILE);
  const bool good = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return good;
}

}  // namespace

std::string enter_sandbox(const std::string& folder, bool real_gpu, bool& files_guarded) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no_new_privs could not be set";
  files_guarded = refuse_writes(folder);
  if (!give_up_capabilities()) return "capabilities could not be given up";
  return refuse_calls(real_gpu) ? "" : "the system call filter could not be installed";
}

}  // namespace assay::worker
