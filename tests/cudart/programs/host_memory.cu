// Right programs use one part of managed or pinned memory while a kernel uses another: by their own code, by system
// calls, from threads that take no signals, and in children. Watched or not, all of it works.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "check.h"

__global__ void twice(int* p, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}

constexpr int kCount = 4096;
constexpr ssize_t kBytes = kCount * sizeof(int);

// Half of an allocation that the device has no business with, while it works on the other.
struct Halves {
  int* all = nullptr;
  int* own = nullptr;
  Halves() {
    CUDA(cudaMallocManaged(&all, 2 * kBytes));
    own = all + kCount;
    for (int i = 0; i < 2 * kCount; ++i) all[i] = i;
    launch();
  }
  ~Halves() { CUDA(cudaFree(all)); }
  void launch() { twice<<<kCount / 128, 128>>>(all, kCount); }
};

struct File {
  char path[32] = "/tmp/assay_host_XXXXXX";
  int file = mkstemp(path);
  File() {
    std::vector<int> sevens(kCount, 7);
    EXPECT(write(file, sevens.data(), kBytes) == kBytes);
    EXPECT(lseek(file, 0, SEEK_SET) == 0);
  }
  ~File() {
    close(file);
    unlink(path);
  }
};

void files() {
  Halves memory;
  File on_disk;
  EXPECT(read(on_disk.file, memory.own, kBytes) == kBytes && memory.own[kCount - 1] == 7);
  EXPECT(pread(on_disk.file, memory.own, 400, 0) == 400);
  EXPECT(pwrite(on_disk.file, memory.own, 400, 0) == 400);
  memory.launch();
  FILE* stream = fopen(on_disk.path, "rb");
  EXPECT(fread(memory.own, 1, kBytes, stream) == kBytes);
  fclose(stream);
  memory.launch();
  std::ofstream out(on_disk.path, std::ios::binary);
  out.write(reinterpret_cast<char*>(memory.own), kBytes);
  out.close();
  EXPECT(out.good());
  memory.launch();
  int here[4] = {};
  iovec parts[2] = {{here, sizeof here}, {memory.own + 904, 64}};
  EXPECT(preadv(on_disk.file, parts, 2, 0) == 80 && here[0] == 7);
  EXPECT(pwritev(on_disk.file, parts, 2, 0) == 80);
  CUDA(cudaDeviceSynchronize());
  EXPECT(memory.all[1] == 16 && memory.own[3] == 7);
}

// A call that waits while somebody else asks for work.
void sockets() {
  Halves memory;
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::thread receiver([&] { EXPECT(recv(ends[1], memory.own, 100, 0) == 100); });
  usleep(20000);
  memory.launch();
  EXPECT(send(ends[0], memory.own + 1024, 100, 0) == 100);
  receiver.join();
  EXPECT(memory.own[0] == kCount + 1024);
  iovec part{memory.own, 100};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  memory.launch();
  EXPECT(sendmsg(ends[0], &message, 0) == 100);
  EXPECT(recvmsg(ends[1], &message, 0) == 100);
  CUDA(cudaDeviceSynchronize());
  close(ends[0]);
  close(ends[1]);
}

// Whoever is there, and blocks all signals, before work is asked for.
void deaf_threads() {
  Halves memory;
  CUDA(cudaDeviceSynchronize());
  int ends[2];
  EXPECT(pipe(ends) == 0);
  std::thread deaf([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    int start = 0;
    EXPECT(read(ends[0], &start, sizeof start) == sizeof start);
    memory.own[1] = start;
    EXPECT(pread(ends[0], memory.own, 4, 0) == -1);  // a pipe has no places
  });
  usleep(20000);
  memory.launch();
  const int start = 77;
  EXPECT(write(ends[1], &start, sizeof start) == sizeof start);
  deaf.join();
  CUDA(cudaDeviceSynchronize());
  EXPECT(memory.own[1] == 77);
}

void children() {
  Halves memory;
  File on_disk;
  const pid_t child = fork();
  if (child == 0) {
    const bool good = memory.own[5] == kCount + 5 && read(on_disk.file, memory.own + 100, 400) == 400;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  memory.launch();
  EXPECT(system("cat /dev/null") == 0);
  CUDA(cudaDeviceSynchronize());
}

void walk() {
  Halves memory;
  long sum = 0;
  for (int i = 0; i < kCount; ++i) sum += memory.own[i];
  std::vector<int> copy(memory.own, memory.own + kCount);
  EXPECT(sum == long{kCount} * kCount + long{kCount} * (kCount - 1) / 2 && copy[9] == kCount + 9);
  CUDA(cudaDeviceSynchronize());
  EXPECT(memory.all[kCount - 1] == 2 * (kCount - 1));
}

int handled = 0;
void own_handler() {
  Halves memory;
  CUDA(cudaDeviceSynchronize());
  struct sigaction mine {};
  mine.sa_handler = [](int) { _exit(++handled); };
  sigaction(SIGSEGV, &mine, nullptr);
  memory.launch();
  memory.own[3] = 1;
  CUDA(cudaDeviceSynchronize());
}

int main() {
  files();
  sockets();
  deaf_threads();
  children();
  walk();
  own_handler();
  puts("ok");
}
