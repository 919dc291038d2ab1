// Subjects without kernels, compiled by the host's compiler (worker_test.cpp): they use the runtime, and misbehave.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
extern "C" int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
extern "C" int cudaMalloc(void**, size_t);
using S = void*;
#define SUBJECT(name) extern "C" int name(const float* x, float* y, int n, S stream)
SUBJECT(copy) {
  return cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
}
extern "C" int cudaMemsetAsync(void*, int, size_t, void*);
extern "C" int cudaStreamSynchronize(void*);
extern "C" int cudaStreamIsCapturing(void*, int*);
// From its fourth call on.
SUBJECT(is_wrong_later) {
  static int calls;
  const int error = cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
  return ++calls < 4 ? error : cudaMemsetAsync(y + 3, 0, sizeof(float), stream);
}
SUBJECT(waits_for_the_device) {
  cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
  cudaStreamSynchronize(stream);
  return 0;
}
SUBJECT(does_less_while_captured) {
  int capturing = 0;
  cudaStreamIsCapturing(stream, &capturing);
  return cudaMemcpyAsync(y, x, (n - (capturing ? 1 : 0)) * sizeof(float), 3, stream);
}
extern "C" int cudaFree(void*);
extern "C" int cudaEventCreateWithFlags(void**, unsigned);
extern "C" int cudaDeviceGetAttribute(int*, int, int);
extern "C" int cudaMemGetInfo(size_t*, size_t*);
// What is allocated in every call and never freed; once, and kept; in every call, and freed.
SUBJECT(leaks_memory) {
  void* workspace = nullptr;
  cudaMalloc(&workspace, 1024);
  return cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
}
SUBJECT(leaks_events) {
  void* event = nullptr;
  cudaEventCreateWithFlags(&event, 2);
  return cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
}
SUBJECT(keeps_a_workspace) {
  static void* kept;
  if (!kept) cudaMalloc(&kept, 1024);
  void* workspace = nullptr;
  cudaMalloc(&workspace, 4096);
  cudaFree(workspace);
  return cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream);
}
// The contents of memory that nobody has written, as its result.
SUBJECT(shows_new_memory) {
  void* fresh = nullptr;
  cudaMalloc(&fresh, n * sizeof(float));
  return cudaMemcpyAsync(y, fresh, n * sizeof(float), 3, stream);
}
// Its machine: multiprocessors, gigabytes, the year since 1970.
SUBJECT(shows_its_machine) {
  static float shown[3];
  int multiprocessors = 0;
  size_t free = 0, total = 0;
  cudaDeviceGetAttribute(&multiprocessors, 16, 0);
  cudaMemGetInfo(&free, &total);
  shown[0] = multiprocessors;
  shown[1] = total / 1000000000;
  shown[2] = time(nullptr) / 31556952;
  return cudaMemcpyAsync(y, shown, sizeof shown, 1, stream);
}
// Right unless a call with more elements came before, for the second time.
SUBJECT(remembers_the_size) {
  static int last, times;
  const int wrong = last > n && ++times > 1;
  last = n;
  return cudaMemcpyAsync(y, x, (n - wrong) * sizeof(float), 3, stream);
}
SUBJECT(returns_seven) {
  return 7;
}
SUBJECT(aborts) {
  abort();
}
SUBJECT(dies_once) {
  abort();
}
SUBJECT(leaves) {
  _exit(0);
}
SUBJECT(hangs) {
  for (;;) usleep(1000);
}
SUBJECT(dereferences) {
  return static_cast<int>(x[0]);
}
SUBJECT(floods) {
  for (;;) puts("a line of output that goes on and on and on and on and on and on and on");
}
SUBJECT(forks) {
  return fork() == -1 ? 0 : 1;
}
SUBJECT(runs) {
  execl("/bin/true", "true", nullptr);
  return 0;
}
SUBJECT(connects) {
  return socket(AF_INET, SOCK_STREAM, 0) == -1 ? 0 : 1;
}
SUBJECT(kills) {
  return kill(getppid(), 9) == -1 ? 0 : 1;
}
SUBJECT(scribbles) {
  return open("/tmp/assay-scribble", O_WRONLY | O_CREAT, 0600) == -1 ? 0 : 1;
}
SUBJECT(counts) {
  static int calls;
  return calls++ == 0 ? 0 : 5;
}
SUBJECT(eats) {
  for (;;) {
    void* p = malloc(1 << 24);
    memset(p, 1, 1 << 24);
  }
}
SUBJECT(traces) {
  return ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == -1 ? 0 : 1;
}
SUBJECT(opens_the_judge) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", getppid());
  return open(path, O_RDONLY) == -1 ? 0 : 1;
}
SUBJECT(reads_the_judge) {
  char byte;
  iovec here{&byte, 1}, there{reinterpret_cast<void*>(&environ), 1};
  return process_vm_readv(getppid(), &here, 1, &there, 1, 0) == -1 ? 0 : 1;
}
SUBJECT(shrinks_the_memory) {
  return ftruncate(4, 0) == -1 ? 0 : 1;
}
SUBJECT(sets_preload) {
  return setenv("LD_PRELOAD", "/nothing.so", 1) || copy(x, y, n, stream);
}
SUBJECT(terminates_itself) {
  raise(SIGTERM);
  return 0;
}
SUBJECT(stops_itself) {
  raise(SIGSTOP);
  return 0;
}
SUBJECT(throws) {
  throw 1;
}
SUBJECT(deafens) {
  for (int i = 5; i < 256; ++i) close(i);
  return 0;
}
SUBJECT(answers_itself) {
  const char* text = "{\"id\": 1, \"error\": 0, \"returned\": [0], \"seconds\": 0}\n";
  return write(3, text, strlen(text)) < 0;
}
SUBJECT(forks_raw) {
  return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 ? 0 : 1;
}
SUBJECT(kills_thread) {
  return syscall(SYS_tkill, getppid(), 9) == -1 ? 0 : 1;
}
SUBJECT(limits_the_judge) {
  rlimit none{0, 0};
  return prlimit(getppid(), RLIMIT_CPU, &none, nullptr) == -1 ? 0 : 1;
}
SUBJECT(hides) {
  signal(SIGSYS, SIG_IGN);
  return fork() == -1 ? 0 : 1;
}
SUBJECT(changes_mode) {
  return chmod("/tmp", 0777) == -1 ? 0 : 1;
}
SUBJECT(scribbles_unseen) {
  unsigned long how[3] = {O_WRONLY | O_CREAT, 0600, 0};
  return syscall(SYS_openat2, AT_FDCWD, "/tmp/assay-scribble", how, sizeof how) == -1 ? 0 : 1;
}
SUBJECT(runs_a_command) {
  return system("true");
}
SUBJECT(removes) {
  return unlink("/tmp/assay-victim") == -1 ? 0 : 1;
}
SUBJECT(renames) {
  return rename("notes", "/tmp/assay-victim") == -1 ? 0 : 1;
}
extern "C" int cudaDeviceGetAttribute(int*, int, int);
extern "C" int cudaMemGetInfo(size_t*, size_t*);
SUBJECT(counts_multiprocessors) {
  int count = 0;
  cudaDeviceGetAttribute(&count, 16, 0);
  return count;
}
SUBJECT(tells_the_year) {
  time_t now = time(nullptr);
  tm parts;
  gmtime_r(&now, &parts);
  return parts.tm_year;
}
SUBJECT(waits_a_moment) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  if ((until.tv_nsec += 50000000) >= 1000000000) {
    until.tv_nsec -= 1000000000;
    ++until.tv_sec;
  }
  pthread_mutex_lock(&mutex);
  timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  pthread_cond_timedwait(&never, &mutex, &until);
  clock_gettime(CLOCK_MONOTONIC, &after);
  pthread_mutex_unlock(&mutex);
  const double waited = after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) / 1e9;
  return waited > 0.03 && waited < 5 ? 0 : 1;
}
SUBJECT(finds_names) {
  for (char** entry = environ; *entry; ++entry)
    if (strcasestr(*entry, "assay")) return 1;
  Dl_info info;
  if (dladdr((void*)finds_names, &info) && strcasestr(info.dli_fname, "assay")) return 2;
  if (dladdr((void*)cudaMalloc, &info) && strcasestr(info.dli_fname, "assay")) return 3;
  char text[512] = "";
  if (!getcwd(text, sizeof text) || strcasestr(text, "assay")) return 4;
  if (strcasestr(program_invocation_name, "assay")) return 5;
  if (strcasestr((const char*)getauxval(AT_EXECFN), "assay")) return 6;
  return prctl(PR_GET_NAME, text) || strcasestr(text, "assay") ? 7 : 0;
}
SUBJECT(reads_command_line) {
  return open("/proc/self/cmdline", O_RDONLY) == -1 ? 0 : 1;
}
SUBJECT(reads_by_stream) {
  std::ifstream file("/proc/self/status");
  return file.good() ? 1 : 0;
}
SUBJECT(reads_through_link) {
  if (symlink("/proc/self", "here") != 0) return 2;
  return open("here/environ", O_RDONLY) == -1 ? 0 : 1;
}
SUBJECT(reads_by_folder) {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  return openat(folder, "../exe", O_RDONLY) == -1 ? 0 : 1;
}
SUBJECT(reads_in_thread) {
  pthread_t thread;
  void* found = nullptr;
  pthread_create(
      &thread, nullptr, [](void*) -> void* { return fopen("/proc/self/maps", "r"); }, nullptr);
  pthread_join(thread, &found);
  return found ? 1 : 0;
}
SUBJECT(reads_the_worker) {
  char text[512];
  return readlink(program_invocation_name, text, sizeof text) == -1 ? 0 : 1;
}
SUBJECT(makes_a_temporary_file) {
  FILE* file = tmpfile();
  return !file || fputs("x", file) < 0 || fclose(file) != 0;
}
SUBJECT(loads_a_library) {
  return dlopen("libz.so.1", RTLD_NOW) || !dlopen("libnothing.so", RTLD_NOW) ? 0 : 1;
}
SUBJECT(asks_for_settings) {
  return getenv("ASSAY_CHECK") ? 1 : 0;
}
SUBJECT(asks_for_sandbox) {
  return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}
SUBJECT(looks_for_driver) {
  return access("/dev/nvidia0", F_OK) == 0 ? 1 : 0;
}
SUBJECT(makes_a_folder) {
  return mkdir("/tmp/assay-made", 0700) == 0 ? 1 : 0;
}
SUBJECT(is_ordinary) {
  for (const char* name : {"HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "MY_DEBUG"}) getenv(name);
  std::ifstream("/proc/cpuinfo").get();
  std::ifstream("/proc/meminfo").get();
  sysconf(_SC_NPROCESSORS_ONLN);
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_destroy(&attributes);
  getpwuid(getuid());
  pthread_setname_np(pthread_self(), "helper");
  mkdir("cache", 0700);
  { std::ofstream("cache/a") << 1; }
  return chmod("cache/a", 0600) || rename("cache/a", "cache/b") || unlink("cache/b") || rmdir("cache");
}
SUBJECT(leaks) {
  void* p;
  return cudaMalloc(&p, 512);
}
SUBJECT(leaks_sometimes) {
  static int calls;
  void* p;
  return calls++ % 5 ? 0 : cudaMalloc(&p, 512);
}
SUBJECT(keeps_a_ring) {
  static void* ring[16];
  static int calls;
  void*& p = ring[calls++ % 16];
  return p ? 0 : cudaMalloc(&p, 512);
}
SUBJECT(keeps_one) {
  static void* p;
  return p ? 0 : cudaMalloc(&p, 512);
}
SUBJECT(writes_a_file) {
  FILE* file = fopen("notes", "w+");
  return file == nullptr || fputs("x", file) < 0 || fclose(file) != 0;
}
SUBJECT(threads) {
  pthread_t thread;
  return pthread_create(
             &thread, nullptr, [](void* p) { return p; }, nullptr) ||
         pthread_join(thread, nullptr);
}
SUBJECT(floods_threads) {
  pthread_t thread;
  for (;;)
    pthread_create(
        &thread, nullptr,
        [](void* p) {
          for (;;) pause();
          return p;
        },
        nullptr);
}
SUBJECT(hangs_up) {
  close(3);
  for (;;) pause();
}
SUBJECT(forges_events) {
  const char* text = "no event\n";
  for (int i = 5; i < 64; ++i) {
    struct stat s;
    if (!fstat(i, &s) && S_ISFIFO(s.st_mode)) write(i, text, strlen(text));
  }
  return 0;
}
SUBJECT(answers_otherwise) {
  const char* text = "{\"id\": \"a text\", \"error\": {}, \"returned\": 4}\n";
  return write(3, text, strlen(text)) < 0;
}
SUBJECT(forges) {
  const char* text = "this is no reply\n";
  return write(3, text, strlen(text)) < 0;
}
