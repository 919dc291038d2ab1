#include "cudart/system_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <semaphore>

#include "vgpu/host_range.h"

namespace assay::cudart {
namespace {

// Flags that older headers do not have.
constexpr unsigned long kNewListener = 1 << 3, kTsync = 1 << 0, kTsyncEsrch = 1 << 4, kSpecAllow = 1 << 2,
                        kWaitKillable = 1 << 5;

enum class Form : uint8_t {
  Fills,         // (file, buffer, bytes): writes what is there, which may be less
  FillsAt,       // the same with an offset as fourth
  Sends,         // (file, buffer, bytes): reads all
  Random,        // (buffer, bytes): writes all
  FillsMany,     // (file, vector, count)
  SendsMany,     // the same
  FillsMessage,  // (file, message)
  SendsMessage,
  FillsMessages,  // (file, messages, count)
  SendsMessages,
};

struct KnownCall {
  int number;
  std::string_view name;
  Form form;
};
constexpr KnownCall kKnown[] = {
    {SYS_read, "read", Form::Fills},
    {SYS_pread64, "pread", Form::FillsAt},
    {SYS_recvfrom, "recv", Form::Fills},
    {SYS_write, "write", Form::Sends},
    {SYS_pwrite64, "pwrite", Form::Sends},
    {SYS_sendto, "send", Form::Sends},
    {SYS_getrandom, "getrandom", Form::Random},
    {SYS_readv, "readv", Form::FillsMany},
    {SYS_preadv, "preadv", Form::FillsMany},
    {SYS_preadv2, "preadv2", Form::FillsMany},
    {SYS_writev, "writev", Form::SendsMany},
    {SYS_pwritev, "pwritev", Form::SendsMany},
    {SYS_pwritev2, "pwritev2", Form::SendsMany},
    {SYS_recvmsg, "recvmsg", Form::FillsMessage},
    {SYS_sendmsg, "sendmsg", Form::SendsMessage},
    {SYS_recvmmsg, "recvmmsg", Form::FillsMessages},
    {SYS_sendmmsg, "sendmmsg", Form::SendsMessages},
};

// Which arguments of a call are addresses: bit 0 for the first. Others hold what happened to be in the
// registers.
struct Addresses {
  int number;
  uint8_t arguments;
};
constexpr Addresses kAddresses[] = {
    // The commonest first.
    {SYS_read, 0b10},
    {SYS_write, 0b10},
    {SYS_futex, 0b11001},
    {SYS_pread64, 0b10},
    {SYS_pwrite64, 0b10},
    {SYS_recvfrom, 0b110010},
    {SYS_sendto, 0b10010},
    {SYS_recvmsg, 0b10},
    {SYS_sendmsg, 0b10},
    {SYS_readv, 0b10},
    {SYS_writev, 0b10},
    {SYS_poll, 0b1},
    {SYS_epoll_wait, 0b10},
    {SYS_ioctl, 0b100},
    {SYS_fstat, 0b10},
    {SYS_newfstatat, 0b110},
    {SYS_openat, 0b10},
    {SYS_clock_nanosleep, 0b1100},
    // Files.
    {SYS_preadv, 0b10},
    {SYS_pwritev, 0b10},
    {SYS_preadv2, 0b10},
    {SYS_pwritev2, 0b10},
    {SYS_vmsplice, 0b10},
    {SYS_io_submit, 0b100},
    {SYS_io_getevents, 0b11000},
    {SYS_io_setup, 0b10},
    {SYS_open, 0b1},
    {SYS_stat, 0b11},
    {SYS_lstat, 0b11},
    {SYS_statx, 0b10010},
    {SYS_statfs, 0b11},
    {SYS_fstatfs, 0b10},
    {SYS_access, 0b1},
    {SYS_readlink, 0b11},
    {SYS_readlinkat, 0b110},
    {SYS_getdents64, 0b10},
    {SYS_getcwd, 0b1},
    {SYS_mkdir, 0b1},
    {SYS_unlink, 0b1},
    {SYS_rename, 0b11},
    {SYS_fcntl, 0b100},
    {SYS_pipe, 0b1},
    {SYS_pipe2, 0b1},
    {SYS_copy_file_range, 0b1010},
    {SYS_splice, 0b1010},
    {SYS_sendfile, 0b100},
    {SYS_memfd_create, 0b1},
    // Sockets.
    {SYS_recvmmsg, 0b10010},
    {SYS_sendmmsg, 0b10},
    {SYS_connect, 0b10},
    {SYS_bind, 0b10},
    {SYS_accept, 0b110},
    {SYS_accept4, 0b110},
    {SYS_getsockname, 0b110},
    {SYS_getpeername, 0b110},
    {SYS_setsockopt, 0b1000},
    {SYS_getsockopt, 0b11000},
    {SYS_socketpair, 0b1000},
    // Waiting, time, processes.
    {SYS_ppoll, 0b1101},
    {SYS_select, 0b11110},
    {SYS_pselect6, 0b111110},
    {SYS_epoll_pwait, 0b10010},
    {SYS_epoll_ctl, 0b1000},
    {SYS_nanosleep, 0b11},
    {SYS_clock_gettime, 0b10},
    {SYS_gettimeofday, 0b11},
    {SYS_timerfd_settime, 0b1100},
    {SYS_timerfd_gettime, 0b10},
    {SYS_timer_create, 0b110},
    {SYS_setitimer, 0b110},
    {SYS_getrusage, 0b10},
    {SYS_times, 0b1},
    {SYS_uname, 0b1},
    {SYS_sysinfo, 0b1},
    {SYS_wait4, 0b1010},
    {SYS_waitid, 0b10100},
    {SYS_execve, 0b111},
    {SYS_getrandom, 0b1},
    {SYS_prlimit64, 0b1100},
    {SYS_sched_getaffinity, 0b100},
    {SYS_sched_setaffinity, 0b100},
    {SYS_process_vm_readv, 0b1010},
    {SYS_process_vm_writev, 0b1010},
    {SYS_rt_sigaction, 0b110},
    {SYS_rt_sigprocmask, 0b110},
    {SYS_rt_sigtimedwait, 0b111},
    {SYS_sigaltstack, 0b11},
    {SYS_prctl, 0b11110},
    {SYS_set_robust_list, 0b1},
};

uint8_t addresses_of(int number) {
  for (const Addresses& call : kAddresses)
    if (call.number == number) return call.arguments;
  return 0;
}

const KnownCall* find_known(int number) {
  for (const KnownCall& call : kKnown)
    if (call.number == number) return &call;
  return nullptr;
}
// Whether its addresses lie in memory.
bool is_vector(int number) {
  const KnownCall* known = find_known(number);
  return known && known->form >= Form::FillsMany;
}

// ---- The filter ----

class FilterText {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void pass(uint32_t result) { add(BPF_RET | BPF_K, result); }
  void skip_unless_equal(uint32_t value, uint8_t count) { jump(BPF_JEQ, value, 0, count); }
  void skip_if_equal(uint32_t value, uint8_t count) { jump(BPF_JEQ, value, count, 0); }
  // Four instructions: the call waits for us if the word there lies in [low, high).
  void stop_if_within(size_t offset, uint32_t low, uint32_t high) {
    load(offset);
    jump(BPF_JGE, low, 0, 2);
    jump(BPF_JGE, high, 1, 0);
    pass(SECCOMP_RET_USER_NOTIF);
  }
  sock_fprog program() { return {static_cast<unsigned short>(code_.size()), code_.data()}; }

 private:
  std::vector<sock_filter> code_;
  void add(uint16_t code, uint32_t value) { code_.push_back({code, 0, 0, value}); }
  void jump(uint16_t kind, uint32_t value, uint8_t when, uint8_t otherwise) {
    code_.push_back({static_cast<uint16_t>(BPF_JMP | BPF_K | kind), when, otherwise, value});
  }
};

constexpr uint32_t upper(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}
constexpr uint32_t lower(uint64_t value) {
  return static_cast<uint32_t>(value);
}

FilterText make_filter(const CodeRange& libc) {
  static_assert(lower(vgpu::kHostRange) == 0 && lower(vgpu::kHostRangeEnd) == 0);
  FilterText text;
  text.load(offsetof(seccomp_data, arch));
  text.skip_if_equal(AUDIT_ARCH_X86_64, 1);
  text.pass(SECCOMP_RET_ALLOW);
  text.load(offsetof(seccomp_data, nr));
  for (const Addresses& call : kAddresses) {
    const bool by_code = is_vector(call.number) && upper(libc.low) == upper(libc.high);
    const int checks = std::popcount(call.arguments) + (by_code ? 1 : 0);
    const int length = checks * 4 + (by_code ? 2 : 0) + 1;
    text.skip_unless_equal(static_cast<uint32_t>(call.number), static_cast<uint8_t>(length));
    for (size_t i = 0; i < 6; ++i)
      if (call.arguments >> i & 1)
        text.stop_if_within(offsetof(seccomp_data, args) + i * 8 + 4, upper(vgpu::kHostRange),
                            upper(vgpu::kHostRangeEnd));
    if (by_code) {
      text.load(offsetof(seccomp_data, instruction_pointer) + 4);
      text.skip_unless_equal(upper(libc.low), 4);
      text.stop_if_within(offsetof(seccomp_data, instruction_pointer), lower(libc.low), lower(libc.high));
    }
    text.pass(SECCOMP_RET_ALLOW);
  }
  text.pass(SECCOMP_RET_ALLOW);
  return text;
}

int install_filter() {
  FilterText text = make_filter(code_of_libc());
  sock_fprog program = text.program();
  auto install = [&](unsigned long more) {
    return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                    kNewListener | kTsync | kTsyncEsrch | kSpecAllow | more, &program));
  };
  auto install_any = [&] {
    const int file = install(kWaitKillable);
    return file >= 0 || errno != EINVAL ? file : install(0);
  };
  const int file = install_any();
  if (file >= 0 || errno != EACCES) return file;
  // Who has no privileges must promise not to gain any.
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? install_any() : -1;
}

// ---- What a call touches ----

// Whether all of it could be read; closed pages can, and bad addresses do not matter.
bool read_memory(int memory, uint64_t address, void* to, size_t bytes) {
  return pread(memory, to, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
}

// How much of a file can be read now, at least.
uint64_t available(int file) {
  int bytes = 0;
  return ioctl(file, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}
uint64_t available_at(int file, uint64_t offset) {
  struct stat about {};
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
  const auto size = static_cast<uint64_t>(about.st_size);
  return offset < size ? size - offset : 0;
}

void add_range(SystemCall& call, uint64_t address, uint64_t bytes, uint64_t touches, bool writes) {
  if (vgpu::is_in_host_range(address) && bytes > 0)
    call.ranges.push_back({address, bytes, std::min(bytes, touches), writes});
}

constexpr uint64_t kMostVectors = 1024;  // as the system has it

void add_vectors(SystemCall& call, int memory, uint64_t vectors, uint64_t count, uint64_t there,
                 bool writes) {
  for (uint64_t i = 0; i < std::min(count, kMostVectors); ++i) {
    iovec each{};
    if (!read_memory(memory, vectors + i * sizeof each, &each, sizeof each)) return;
    add_range(call, reinterpret_cast<uint64_t>(each.iov_base), each.iov_len, there, writes);
    there -= std::min<uint64_t>(there, each.iov_len);
  }
}

void add_messages(SystemCall& call, int memory, uint64_t count, size_t size, uint64_t there, bool writes) {
  for (uint64_t i = 0; i < std::min(count, kMostVectors); ++i) {
    msghdr message{};
    if (!read_memory(memory, call.arguments[1] + i * size, &message, sizeof message)) return;
    add_vectors(call, memory, reinterpret_cast<uint64_t>(message.msg_iov), message.msg_iovlen, there, writes);
  }
}

void add_known(SystemCall& call, Form form, int memory) {
  const uint64_t* a = call.arguments;
  const int file = static_cast<int>(a[0]);
  constexpr uint64_t kAll = ~uint64_t{0};
  switch (form) {
    case Form::Fills: {
      const bool drops = call.number == SYS_recvfrom && (a[3] & MSG_TRUNC) != 0;
      return add_range(call, a[1], a[2], drops ? 0 : available(file), true);
    }
    case Form::FillsAt:
      return add_range(call, a[1], a[2], available_at(file, a[3]), true);
    case Form::Sends:
      return add_range(call, a[1], a[2], kAll, false);
    case Form::Random:
      return add_range(call, a[0], a[1], kAll, true);
    case Form::FillsMany:
      return add_vectors(call, memory, a[1], a[2], call.number == SYS_readv ? available(file) : 0, true);
    case Form::SendsMany:
      return add_vectors(call, memory, a[1], a[2], kAll, false);
    case Form::FillsMessage:
      return add_messages(call, memory, 1, sizeof(msghdr), available(file), true);
    case Form::SendsMessage:
      return add_messages(call, memory, 1, sizeof(msghdr), kAll, false);
    case Form::FillsMessages:
      return add_messages(call, memory, a[2], sizeof(mmsghdr), 0, true);
    case Form::SendsMessages:
      return add_messages(call, memory, a[2], sizeof(mmsghdr), kAll, false);
  }
}

SystemCall read_call(const seccomp_notif& notice, int memory) {
  SystemCall call;
  call.thread = static_cast<pid_t>(notice.pid);
  call.number = notice.data.nr;
  std::copy(std::begin(notice.data.args), std::end(notice.data.args), call.arguments);
  if (const KnownCall* known = find_known(call.number)) add_known(call, known->form, memory);
  // What else points there: how far it will be used is not known, only that it must not fail.
  const uint8_t addresses = addresses_of(call.number);
  for (size_t i = 0; i < 6; ++i) {
    const uint64_t argument = call.arguments[i];
    if ((addresses >> i & 1) == 0) continue;
    const bool known = std::any_of(call.ranges.begin(), call.ranges.end(),
                                   [&](const CallRange& range) { return range.address == argument; });
    if (!known) add_range(call, argument, vgpu::kHostRangeEnd - argument, 0, true);
  }
  return call;
}

// ---- The thread that handles calls ----

struct SystemCallWatch {
  std::mutex mutex;
  CallListener* listener = nullptr;  // under the mutex
  bool tried = false;                // under the mutex
  std::atomic<int> file{-1};
  std::atomic<pid_t> thread{0};
  std::binary_semaphore here{0}, started{0};  // the thread, and the calls
};

// Never destroyed: the filter lasts as long as the process.
SystemCallWatch& system_call_watch() {
  static SystemCallWatch* one = new SystemCallWatch;
  return *one;
}

void answer(int file, uint64_t id) {
  seccomp_notif_resp response{};
  response.id = id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(file, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void* answer_calls(void*) {
  SystemCallWatch& own = system_call_watch();
  own.thread = static_cast<pid_t>(syscall(SYS_gettid));
  own.here.release();
  own.started.acquire();
  const int file = own.file;
  if (file < 0) return nullptr;
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  const pid_t process = getpid();
  for (;;) {
    seccomp_notif notice{};
    if (ioctl(file, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return nullptr;
    }
    // The child of a fork has memory of its own.
    if (tgkill(process, static_cast<pid_t>(notice.pid), 0) == 0) {
      const SystemCall call = read_call(notice, memory);
      std::lock_guard lock(own.mutex);
      if (own.listener && !call.ranges.empty()) own.listener->on_call(call);
    }
    answer(file, notice.id);
  }
}

// The thread comes first: once there is a filter, calls wait for it.
bool begin_to_watch(SystemCallWatch& own) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are not for it
  pthread_t thread;
  const bool made = pthread_create(&thread, nullptr, answer_calls, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!made) return false;
  pthread_detach(thread);
  own.here.acquire();
  own.file = install_filter();
  own.started.release();
  if (own.file < 0) own.thread = 0;
  // A child would keep its parent's listener open, and wait for it for ever.
  if (own.file >= 0) pthread_atfork(nullptr, nullptr, [] { close(system_call_watch().file); });
  return own.file >= 0;
}

}  // namespace

std::string_view name_of_call(int number) {
  const KnownCall* known = find_known(number);
  return known ? known->name : "";
}

bool watch_system_calls(CallListener* listener) {
  SystemCallWatch& own = system_call_watch();
  std::lock_guard lock(own.mutex);
  own.listener = listener;
  if (!listener) return own.file >= 0;
  if (!std::exchange(own.tried, true)) return begin_to_watch(own);
  return own.file >= 0;
}

pid_t system_call_thread() {
  return system_call_watch().thread;
}

bool is_over(const SystemCall& call) {
  const std::string path = fmt::format("/proc/self/task/{}/syscall", call.thread);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  char text[256] = {};
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return false;
  int number = 0;
  uint64_t a[6] = {};
  const int found =
      std::sscanf(text, "%d %lx %lx %lx %lx %lx %lx", &number, a, a + 1, a + 2, a + 3, a + 4, a + 5);
  if (found == 0) return false;  // "running"
  return number != call.number || (found == 7 && !std::equal(a, a + 3, call.arguments));
}

CodeRange code_of_libc() {
  struct Search {
    uint64_t wanted;
    CodeRange found;
  } search{reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "getppid")), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& own = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          const uint64_t low = info->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && own.wanted >= low && own.wanted < low + part.p_memsz)
            own.found = {low, low + part.p_memsz};
        }
        return own.found.high != 0 ? 1 : 0;
      },
      &search);
  return search.found;
}

}  // namespace assay::cudart
