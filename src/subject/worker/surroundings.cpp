// Functions of libc that this program defines itself: the loader finds them here first, for every caller.
#include "subject/worker/surroundings.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "subject/worker/caller.h"
#include "subject/worker/policy.h"
#include "subject/worker/sandbox.h"

#define FOR_ALL extern "C" __attribute__((visibility("default")))

namespace assay::worker {

namespace {

std::atomic<int64_t> shift{0};  // seconds

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

int real_time(clockid_t clock, timespec* to) {
  static const auto function = next<int(clockid_t, timespec*)>("clock_gettime");
  return function(clock, to);
}

// A moment of the shown clock, for libc, which waits by the real one.
timespec real_moment(const timespec* shown) {
  timespec moment = *shown;
  moment.tv_sec -= shift.load();
  return moment;
}

const char* find_variable(const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  return nullptr;
}

char* look_up(const char* name) {
  // Most are not checked, and finding the caller costs more than the answer.
  if (judge_variable(name, Caller::Subject).severity != Severity::None) {
    const CallStack stack = call_stack();
    const Ruling ruling = judge_variable(name, caller_of(stack));
    char what[300];
    std::snprintf(what, sizeof what, "getenv(\"%.250s\")", name);
    report(ruling, what, stack);
  }
  return const_cast<char*>(find_variable(name));
}

}  // namespace

void clear_environment() {
  constexpr const char* kOwn[] = {"ASSAY_", "LD_LIBRARY_PATH="};
  char** to = environ;
  for (char** entry = environ; *entry; ++entry) {
    bool own = false;
    for (const char* name : kOwn) own |= std::strncmp(*entry, name, std::strlen(name)) == 0;
    if (own)
      std::memset(*entry, 0, std::strlen(*entry));  // /proc/self/environ shows this very memory
    else
      *to++ = *entry;
  }
  *to = nullptr;
}

void set_clock(int64_t seconds) {
  timespec now{};
  if (seconds != 0 && real_time(CLOCK_REALTIME, &now) == 0) shift = seconds - now.tv_sec;
}

}  // namespace assay::worker

using namespace assay::worker;

FOR_ALL char* getenv(const char* name) noexcept {
  return look_up(name);
}
FOR_ALL char* secure_getenv(const char* name) noexcept {
  return look_up(name);
}

FOR_ALL int clock_gettime(clockid_t clock, timespec* to) noexcept {
  const int status = real_time(clock, to);
  if (status == 0 && is_wall_clock(clock)) to->tv_sec += shift.load();
  return status;
}

FOR_ALL int gettimeofday(timeval* __restrict to, void* __restrict) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  *to = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

FOR_ALL time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

FOR_ALL int timespec_get(timespec* to, int base) noexcept {
  if (base != TIME_UTC || clock_gettime(CLOCK_REALTIME, to) != 0) return 0;
  return base;
}

// libc's own would be in /tmp, which is not the subject's.
FOR_ALL FILE* tmpfile() {
  const char* folder = find_variable("TMPDIR");
  const int file = open(folder ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return file < 0 ? nullptr : fdopen(file, "w+");
}
FOR_ALL FILE* tmpfile64() {
  return tmpfile();
}

// What starts processes. Only a subject calls these; before the sandbox is in place, nothing does.

FOR_ALL pid_t fork() noexcept {
  refuse_process("fork");
  return next<pid_t()>("fork")();
}
FOR_ALL pid_t vfork() noexcept {
  refuse_process("vfork");
  return next<pid_t()>("fork")();
}
FOR_ALL int system(const char* command) {
  refuse_process("system");
  return next<int(const char*)>("system")(command);
}
FOR_ALL FILE* popen(const char* command, const char* mode) {
  refuse_process("popen");
  return next<FILE*(const char*, const char*)>("popen")(command, mode);
}
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                  char* const[], char* const[]);
FOR_ALL int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                        const posix_spawnattr_t* attributes, char* const argv[], char* const variables[]) {
  refuse_process("posix_spawn");
  return next<Spawn>("posix_spawn")(pid, path, actions, attributes, argv, variables);
}
FOR_ALL int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const argv[], char* const variables[]) {
  refuse_process("posix_spawnp");
  return next<Spawn>("posix_spawnp")(pid, file, actions, attributes, argv, variables);
}

// Waits until a moment of the wall clock.

FOR_ALL int pthread_cond_timedwait(pthread_cond_t* __restrict condition, pthread_mutex_t* __restrict mutex,
                                   const timespec* __restrict until) {
  static const auto function =
      next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  // A condition may have been made to wait by the monotonic clock, of which no moment is as late as this.
  constexpr time_t kEarliest = 1000000000;
  if (until->tv_sec < kEarliest) return function(condition, mutex, until);
  const timespec moment = real_moment(until);
  return function(condition, mutex, &moment);
}

FOR_ALL int pthread_mutex_timedlock(pthread_mutex_t* __restrict mutex,
                                    const timespec* __restrict until) noexcept {
  static const auto function = next<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  const timespec moment = real_moment(until);
  return function(mutex, &moment);
}

FOR_ALL int sem_timedwait(sem_t* __restrict semaphore, const timespec* __restrict until) {
  static const auto function = next<int(sem_t*, const timespec*)>("sem_timedwait");
  const timespec moment = real_moment(until);
  return function(semaphore, &moment);
}
