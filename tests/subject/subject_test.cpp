#include "subject/subject.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "subject/images.h"
#include "subject/process.h"
#include "subject/runner.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using contract::Contract;
using ::testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "assay-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

Contract contract_in(const Folder& folder, const std::string& source, const std::string& kernel) {
  const std::string text = "[kernel]\nsource = \"" + source + "\"\n" + kernel + R"(
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 0, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["n"]
align = 4
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
)";
  auto contract = contract::parse(text, folder.path("k.toml"));
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

trial::Trial trial_of(int64_t n) {
  trial::Trial trial;
  trial.shape = {{"n", n}};
  return trial;
}

// ---- images -----------------------------------------------------------------------------------

struct Images {
  Folder folder;
  Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  trial::Trial trial = trial_of(10);
  contract::Bindings bindings = *trial::make_inputs(contract, trial);
  MemoryFileLayout layout = *lay_out(contract, trial, {&bindings}, 4096);
  std::vector<std::byte> memory = std::vector<std::byte>(static_cast<std::size_t>(layout.size));

  Images() {
    write_images(layout, trial, memory.data());
    for (const Buffer& b : layout.calls[0].buffers)
      std::memcpy(out(b), memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  }
  std::byte* out(const Buffer& b) { return memory.data() + b.out; }
  const Buffer& buffer(const std::string& name) {
    for (const Buffer& b : layout.calls[0].buffers) {
      if (b.name == name) return b;
    }
    throw std::runtime_error(name);
  }
  Call read() { return read_images(layout.calls[0], trial, memory.data()); }
};

TEST(Images, AreAlignedToThePromiseAndNoMore) {
  Images images;
  EXPECT_EQ(images.buffer("x").offset % 8, 4);
  EXPECT_EQ(images.buffer("y").offset % 256, 0);
}

TEST(Images, AnUntouchedCallShowsPoisonAndNoTrespass) {
  Images images;
  const Call call = images.read();
  EXPECT_TRUE(call.trespasses.empty());
  EXPECT_TRUE(call.changed_inputs.empty());
  const uint64_t pattern = trial::pattern(images.trial.condition.poison);
  uint32_t first;
  std::memcpy(&first, call.outputs.at("y")->at(0), 4);
  EXPECT_EQ(first, static_cast<uint32_t>(pattern));
}

TEST(Images, AChangedInputIsSeen) {
  Images images;
  const Buffer& x = images.buffer("x");
  images.out(x)[x.offset + 5] ^= std::byte{1};
  EXPECT_THAT(images.read().changed_inputs, ::testing::ElementsAre("x"));
}

TEST(Images, InputsAtOneAddressAreOneBuffer) {
  Folder folder;
  auto contract = contract::parse(R"([kernel]
source = "k.cu"
entry = "k"
args = ["a", "b", "y", "n"]
[dims]
n = { min = 1, max = 100 }
[tensors.a]
dtype = "f32"
shape = ["n"]
[tensors.b]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = a[i] + b[i]"
)",
                                  folder.path("k.toml"));
  ASSERT_TRUE(contract);
  trial::Trial trial = trial_of(10);
  trial.condition.shared_inputs = true;
  const contract::Bindings bindings = *trial::make_inputs(*contract, trial);
  const MemoryFileLayout layout = *lay_out(*contract, trial, {&bindings}, 4096);
  const auto& buffers = layout.calls[0].buffers;
  EXPECT_EQ(buffers[1].share, 0);
  EXPECT_EQ(buffers[2].share, -1);
  std::vector<std::byte> memory(static_cast<std::size_t>(layout.size));
  write_images(layout, trial, memory.data());
  for (const Buffer& b : buffers)
    std::memcpy(memory.data() + b.out, memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  memory[static_cast<std::size_t>(buffers[0].out + buffers[0].offset)] ^= std::byte{1};
  EXPECT_THAT(read_images(layout.calls[0], trial, memory.data()).changed_inputs, ::testing::ElementsAre("a"));
}

TEST(Images, AWriteOutsideATensorIsSeenAndPlaced) {
  Images images;
  const Buffer& y = images.buffer("y");
  images.out(y)[y.offset + y.length + 8] ^= std::byte{1};
  images.out(y)[y.offset - 3] ^= std::byte{1};
  const Call call = images.read();
  ASSERT_EQ(call.trespasses.size(), 2u);
  EXPECT_EQ(call.trespasses[0].offset, -3);
  EXPECT_EQ(call.trespasses[1].offset, 48);
  EXPECT_EQ(call.trespasses[1].tensor, "y");
}

// ---- building ---------------------------------------------------------------------------------

TEST(Build, AMissingSourceIsTheContractsFault) {
  Folder folder;
  const Contract contract = contract_in(folder, "missing.cu", "entry = \"k\"");
  const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.error.message, HasSubstr("missing.cu"));
}

TEST(Build, FindsAKernelInPtxByEitherName) {
  Folder folder;
  folder.write("k.ptx",
               ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry _Z5scalePKfPfi(\n.param .u64 "
               "x, .param .u64 y, "
               ".param .u32 n, .param .u64 stream)\n{\nret;\n}\n.visible .entry wide(.param .u64 x, .param "
               ".u64 y, .param .u64 n, "
               ".param .u64 stream)\n{\nret;\n}\n");
  for (const char* name : {"scale", "_Z5scalePKfPfi"}) {
    const Contract contract = contract_in(
        folder, "k.ptx", std::string("global = \"") + name + "\"\ngrid = [\"1\"]\nblock = [\"32\"]");
    const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
    ASSERT_TRUE(outcome.subject) << outcome.failure.error.text();
    EXPECT_EQ(outcome.subject->symbol, "_Z5scalePKfPfi");
    EXPECT_TRUE(outcome.subject->launched);
  }
  const Contract other =
      contract_in(folder, "k.ptx", "global = \"nothing\"\ngrid = [\"1\"]\nblock = [\"32\"]");
  const BuildOutcome outcome = build(other, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  const BuildOutcome wide =
      build(contract_in(folder, "k.ptx", "global = \"wide\"\ngrid = [\"1\"]\nblock = [\"32\"]"),
            {.cache = folder.path("cache")});
  ASSERT_FALSE(wide.subject);
  EXPECT_THAT(wide.failure.error.text(),
              HasSubstr("parameter 3 of wide is `.u64 n`, but the contract passes dim n as i32"));
}

constexpr const char* kCopyKernel = R"(
#include "factor.h"
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * FACTOR;
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  if (n > 0) copy<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
)";

TEST(Build, IsCachedByContentHeadersIncluded) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", kCopyKernel);
  folder.write("factor.h", "#define FACTOR 1.0f\n");
  const Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  const BuildOptions options{.cache = folder.path("cache")};
  const BuildOutcome first = build(contract, options);
  ASSERT_TRUE(first.subject) << first.failure.error.text() << first.failure.output;
  EXPECT_FALSE(first.subject->cached);
  EXPECT_TRUE(build(contract, options).subject->cached);
  folder.write("factor.h", "#define FACTOR 2.0f\n");
  EXPECT_FALSE(build(contract, options).subject->cached);
}

TEST(Build, OfSeveralSourcesIsCachedToo) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", kCopyKernel);
  folder.write("factor.h", "#define FACTOR 1.0f\n");
  folder.write("other.cpp", "#include \"other.h\"\nint other() { return OTHER; }\n");
  folder.write("other.h", "#define OTHER 1\n");
  Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  contract.kernel.sources.push_back("other.cpp");
  const BuildOptions options{.cache = folder.path("cache")};
  const BuildOutcome first = build(contract, options);
  ASSERT_TRUE(first.subject) << first.failure.error.text() << first.failure.output;
  EXPECT_FALSE(first.subject->cached);
  EXPECT_TRUE(build(contract, options).subject->cached);
  folder.write("other.h", "#define OTHER 2\n");
  EXPECT_FALSE(build(contract, options).subject->cached);
}

TEST(Build, ShowsTheCompilersOwnWords) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", "extern \"C\" void k() { no_such_thing(); }\n");
  const Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_FALSE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.output, HasSubstr("no_such_thing"));
  EXPECT_GT(outcome.failure.error.line, 0);
}

struct Lookup {
  const char *source, *kernel, *expected;  // … of the message; empty: it is found
};
class EntryTest : public ::testing::TestWithParam<Lookup> {};

TEST_P(EntryTest, IsLookedUpAsTheLoaderDoes) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  const auto [source, kernel, expected] = GetParam();
  Folder folder;
  folder.write("k.cu", source);
  const BuildOutcome outcome = build(contract_in(folder, "k.cu", kernel), {.cache = folder.path("cache")});
  if (std::string_view(expected).empty()) {
    EXPECT_TRUE(outcome.subject) << outcome.failure.error.text() << outcome.failure.output;
    return;
  }
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.error.message, HasSubstr(expected));
}

#define ARGUMENTS "(const float* x, float* y, int n, cudaStream_t stream)"
#define C_FUNCTION(name) "extern \"C\" void " name ARGUMENTS " {}\n"
#define LAUNCH "\"\ngrid = [\"1\"]\nblock = [\"32\"]"
INSTANTIATE_TEST_SUITE_P(
    Entries, EntryTest,
    ::testing::Values(
        Lookup{C_FUNCTION("scale") C_FUNCTION("fused_scale"), "entry = \"scale\"", ""},
        Lookup{C_FUNCTION("scale") C_FUNCTION("scale_fused"), "entry = \"scale\"", ""},
        Lookup{"namespace a { namespace b {\n" C_FUNCTION("scale") "}}\n", "entry = \"scale\"", ""},
        Lookup{"template <class T> static void each(T*) {}\n" C_FUNCTION("e"), "entry = \"e\"", ""},
        Lookup{C_FUNCTION("fused_scale") C_FUNCTION("rescale"), "entry = \"scale\"",
               "k.cu: `scale` is not defined; the extern \"C\" functions are: fused_scale, rescale"},
        Lookup{"const char* names = \"scale\";\nextern \"C\" void scale(int);\n" C_FUNCTION("other"),
               "entry = \"scale\"", "`scale` is not defined"},
        Lookup{
            "namespace k {\nvoid scale" ARGUMENTS " {}\n}\n", "entry = \"scale\"",
            "k::scale(float const*, float*, int, CUstream_st*) is a C++ function; declare it extern \"C\""},
        Lookup{"extern \"C\" static __attribute__((used)) void scale" ARGUMENTS " {}\n", "entry = \"scale\"",
               "scale is static or hidden"},
        Lookup{"extern \"C\" { float scale = 2; }\n", "entry = \"scale\"", "scale is a variable"},
        Lookup{"static int nothing;\n", "entry = \"scale\"", "nor is any other extern \"C\" function"},
        Lookup{"__global__ void scale(const float*, float*, int) {}\n__global__ void fused(float*) {}\n",
               "global = \"scal" LAUNCH, "k.cu has no kernel scal; it has "},
        Lookup{"template <int N> __global__ void __launch_bounds__(N) scale(float*, float*, int) {}\n",
               "global = \"scale" LAUNCH, "scale is a template: name an instance of it, as scale<…>"},
        Lookup{"__global__ void scale(float*) {}\n__global__ void scale" ARGUMENTS " {}\n",
               "global = \"_Z5scalePKfPfiP11CUstream_st" LAUNCH, ""}));

// ---- the worker -------------------------------------------------------------------------------

// Subjects without kernels, compiled by the host's compiler: they use the runtime, and misbehave.
constexpr const char* kHostSubject = R"(
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fstream>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
extern "C" int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
extern "C" int cudaMalloc(void**, size_t);
using S = void*;
#define SUBJECT(name) extern "C" int name(const float* x, float* y, int n, S stream)
SUBJECT(copy) { return cudaMemcpyAsync(y, x, n * sizeof(float), 3, stream); }
SUBJECT(returns_seven) { return 7; }
SUBJECT(aborts) { abort(); }
SUBJECT(dies_once) { abort(); }
SUBJECT(leaves) { _exit(0); }
SUBJECT(hangs) { for (;;) usleep(1000); }
SUBJECT(dereferences) { return static_cast<int>(x[0]); }
SUBJECT(floods) { for (;;) puts("a line of output that goes on and on and on and on and on and on and on"); }
SUBJECT(forks) { return fork() == -1 ? 0 : 1; }
SUBJECT(runs) { execl("/bin/true", "true", nullptr); return 0; }
SUBJECT(connects) { return socket(AF_INET, SOCK_STREAM, 0) == -1 ? 0 : 1; }
SUBJECT(kills) { return kill(getppid(), 9) == -1 ? 0 : 1; }
SUBJECT(scribbles) { return open("/tmp/assay-scribble", O_WRONLY | O_CREAT, 0600) == -1 ? 0 : 1; }
SUBJECT(counts) { static int calls; return calls++ == 0 ? 0 : 5; }
SUBJECT(eats) { for (;;) { void* p = malloc(1 << 24); memset(p, 1, 1 << 24); } }
SUBJECT(traces) { return ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == -1 ? 0 : 1; }
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
SUBJECT(shrinks_the_memory) { return ftruncate(4, 0) == -1 ? 0 : 1; }
SUBJECT(sets_preload) { return setenv("LD_PRELOAD", "/nothing.so", 1) || copy(x, y, n, stream); }
SUBJECT(terminates_itself) { raise(SIGTERM); return 0; }
SUBJECT(stops_itself) { raise(SIGSTOP); return 0; }
SUBJECT(throws) { throw 1; }
SUBJECT(deafens) {
  for (int i = 5; i < 256; ++i) close(i);
  return 0;
}
SUBJECT(answers_itself) {
  const char* text = "{\"id\": 1, \"error\": 0, \"returned\": [0], \"seconds\": 0}\n";
  return write(3, text, strlen(text)) < 0;
}
SUBJECT(forks_raw) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 ? 0 : 1; }
SUBJECT(kills_thread) { return syscall(SYS_tkill, getppid(), 9) == -1 ? 0 : 1; }
SUBJECT(limits_the_judge) {
  rlimit none{0, 0};
  return prlimit(getppid(), RLIMIT_CPU, &none, nullptr) == -1 ? 0 : 1;
}
SUBJECT(hides) { signal(SIGSYS, SIG_IGN); return fork() == -1 ? 0 : 1; }
SUBJECT(changes_mode) { return chmod("/tmp", 0777) == -1 ? 0 : 1; }
SUBJECT(scribbles_unseen) {
  unsigned long how[3] = {O_WRONLY | O_CREAT, 0600, 0};
  return syscall(SYS_openat2, AT_FDCWD, "/tmp/assay-scribble", how, sizeof how) == -1 ? 0 : 1;
}
SUBJECT(runs_a_command) { return system("true"); }
SUBJECT(removes) { return unlink("/tmp/assay-victim") == -1 ? 0 : 1; }
SUBJECT(renames) { return rename("notes", "/tmp/assay-victim") == -1 ? 0 : 1; }
extern "C" int cudaDeviceGetAttribute(int*, int, int);
extern "C" int cudaMemGetInfo(size_t*, size_t*);
SUBJECT(counts_multiprocessors) { int count = 0; cudaDeviceGetAttribute(&count, 16, 0); return count; }
SUBJECT(tells_the_year) { time_t now = time(nullptr); tm parts; gmtime_r(&now, &parts); return parts.tm_year; }
SUBJECT(waits_a_moment) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  if ((until.tv_nsec += 50000000) >= 1000000000) { until.tv_nsec -= 1000000000; ++until.tv_sec; }
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
  for (char** entry = environ; *entry; ++entry) if (strcasestr(*entry, "assay")) return 1;
  Dl_info info;
  if (dladdr((void*)finds_names, &info) && strcasestr(info.dli_fname, "assay")) return 2;
  if (dladdr((void*)cudaMalloc, &info) && strcasestr(info.dli_fname, "assay")) return 3;
  char text[512] = "";
  if (!getcwd(text, sizeof text) || strcasestr(text, "assay")) return 4;
  if (strcasestr(program_invocation_name, "assay")) return 5;
  if (strcasestr((const char*)getauxval(AT_EXECFN), "assay")) return 6;
  return prctl(PR_GET_NAME, text) || strcasestr(text, "assay") ? 7 : 0;
}
SUBJECT(reads_command_line) { return open("/proc/self/cmdline", O_RDONLY) == -1 ? 0 : 1; }
SUBJECT(reads_by_stream) { std::ifstream file("/proc/self/status"); return file.good() ? 1 : 0; }
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
  pthread_create(&thread, nullptr, [](void*) -> void* { return fopen("/proc/self/maps", "r"); }, nullptr);
  pthread_join(thread, &found);
  return found ? 1 : 0;
}
SUBJECT(reads_the_worker) {
  char text[512];
  return readlink(program_invocation_name, text, sizeof text) == -1 ? 0 : 1;
}
SUBJECT(makes_a_temporary_file) { FILE* file = tmpfile(); return !file || fputs("x", file) < 0 || fclose(file) != 0; }
SUBJECT(loads_a_library) { return dlopen("libz.so.1", RTLD_NOW) || !dlopen("libnothing.so", RTLD_NOW) ? 0 : 1; }
SUBJECT(asks_for_settings) { return getenv("ASSAY_CHECK") ? 1 : 0; }
SUBJECT(asks_for_sandbox) { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2; }
SUBJECT(looks_for_driver) { return access("/dev/nvidia0", F_OK) == 0 ? 1 : 0; }
SUBJECT(makes_a_folder) { return mkdir("/tmp/assay-made", 0700) == 0 ? 1 : 0; }
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
SUBJECT(leaks) { void* p; return cudaMalloc(&p, 512); }
SUBJECT(leaks_sometimes) { static int calls; void* p; return calls++ % 5 ? 0 : cudaMalloc(&p, 512); }
SUBJECT(keeps_a_ring) { static void* ring[16]; static int calls; void*& p = ring[calls++ % 16]; return p ? 0 : cudaMalloc(&p, 512); }
SUBJECT(keeps_one) { static void* p; return p ? 0 : cudaMalloc(&p, 512); }
SUBJECT(writes_a_file) {
  FILE* file = fopen("notes", "w+");
  return file == nullptr || fputs("x", file) < 0 || fclose(file) != 0;
}
SUBJECT(threads) {
  pthread_t thread;
  return pthread_create(&thread, nullptr, [](void* p) { return p; }, nullptr) || pthread_join(thread, nullptr);
}
SUBJECT(floods_threads) {
  pthread_t thread;
  for (;;) pthread_create(&thread, nullptr, [](void* p) { for (;;) pause(); return p; }, nullptr);
}
SUBJECT(hangs_up) { close(3); for (;;) pause(); }
SUBJECT(forges_events) {
  const char* text = "no event\n";
  for (int i = 5; i < 64; ++i) { struct stat s; if (!fstat(i, &s) && S_ISFIFO(s.st_mode)) write(i, text, strlen(text)); }
  return 0;
}
SUBJECT(answers_otherwise) {
  const char* text = "{\"id\": \"a text\", \"error\": {}, \"returned\": 4}\n";
  return write(3, text, strlen(text)) < 0;
}
SUBJECT(forges) { const char* text = "this is no reply\n"; return write(3, text, strlen(text)) < 0; }
)";

class WorkerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    const std::string source =
        folder_->write("subject.cpp", "#include <signal.h>\n" + std::string(kHostSubject));
    const auto built = run_command(
        {"c++", "-shared", "-fPIC", "-w", "-pthread", source, "-o", folder_->path("subject.so")}, 60);
    ASSERT_TRUE(built);
    ASSERT_EQ(built->status, 0) << built->output;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  RunnerOptions options() const {
    RunnerOptions options;
    options.worker = std::string(ASSAY_BINARY_DIR) + "/bin/assay-worker";
    options.cudart = std::string(ASSAY_BINARY_DIR) + "/lib";
    options.timeout = timeout_;
    options.memory = 1e9;
    return options;
  }

  Observation observe(const char* symbol, int calls = 1, trial::Condition condition = {}) {
    const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
    Subject subject;
    subject.library = folder_->path("subject.so");
    subject.symbol = symbol;
    Runner runner(contract, subject, options());
    trial::Trial trial = trial_of(100);
    trial.condition = condition;
    bindings_ = *trial::make_inputs(contract, trial);
    Observation observation;
    for (int i = 0; i < calls; ++i) observation = runner.run(trial, bindings_);
    return observation;
  }

  // "environment-probe error": the worst of what was reported.
  static std::string found(const Observation& observation) {
    std::string worst;
    for (const protocol::Event& event : observation.events) {
      const auto* found = std::get_if<protocol::FindingEvent>(&event);
      if (!found) continue;
      const Finding& finding = found->finding;
      if (worst.empty() || finding.severity == Severity::Error)
        worst = fmt::format("{} {}", to_string(finding.kind), to_string(finding.severity));
    }
    return worst;
  }

  double timeout_ = 20;
  contract::Bindings bindings_;
  static inline Folder* folder_ = nullptr;
};

TEST_F(WorkerTest, BringsInputsThereAndOutputsBack) {
  const Observation observation = observe("copy");
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  EXPECT_EQ(observation.calls[0].outputs.at("y")->bytes, bindings_.inputs.at("x")->bytes);
  EXPECT_TRUE(observation.calls[0].changed_inputs.empty());
  EXPECT_TRUE(observation.calls[0].trespasses.empty());
}

TEST_F(WorkerTest, ReportsWhatTheFunctionReturns) {
  EXPECT_EQ(observe("returns_seven").calls.at(0).returned, 7);
}

TEST_F(WorkerTest, KeepsTheProcessForTheNextCall) {
  EXPECT_EQ(observe("counts").calls.at(0).returned, 0);
  EXPECT_EQ(observe("counts", 2).calls.at(0).returned, 5);
}

TEST_F(WorkerTest, OutlivesASubjectThatDies) {
  for (const char* symbol : {"aborts", "leaves", "dereferences", "terminates_itself", "throws"}) {
    const Observation observation = observe(symbol, 2);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
  }
}

TEST_F(WorkerTest, BelievesNoReplyThatIsNotTheWorkers) {
  for (const char* symbol : {"forges", "answers_itself", "answers_otherwise"}) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr("repl")) << symbol;
  }
}

TEST_F(WorkerTest, NoticesASubjectThatSilencesTheDevice) {
  const Observation observation = observe("deafens");
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("events"));
}

TEST_F(WorkerTest, GoesOnAfterASubjectThatDied) {
  const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
  Subject subject;
  subject.library = folder_->path("subject.so");
  subject.symbol = "dies_once";
  Runner runner(contract, subject, options());
  const trial::Trial trial = trial_of(100);
  const contract::Bindings bindings = *trial::make_inputs(contract, trial);
  EXPECT_EQ(runner.run(trial, bindings).outcome, CallOutcome::Crashed);
  subject.symbol = "copy";  // the runner reads it when it starts the next worker
  EXPECT_EQ(runner.run(trial, bindings).outcome, CallOutcome::Ended);
}

TEST_F(WorkerTest, OutlivesAConstructorThatLeaves) {
  const std::string source = folder_->write("early.cpp",
                                            "#include <unistd.h>\n"
                                            "__attribute__((constructor)) static void early() { _exit(0); }\n"
                                            "extern \"C\" int copy() { return 0; }\n");
  const auto built = run_command({"c++", "-shared", "-fPIC", source, "-o", folder_->path("early.so")}, 60);
  ASSERT_TRUE(built && built->status == 0);
  const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
  Subject subject;
  subject.library = folder_->path("early.so");
  subject.symbol = "copy";
  Runner runner(contract, subject, options());
  const trial::Trial trial = trial_of(100);
  const Observation observation = runner.run(trial, *trial::make_inputs(contract, trial));
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("loaded"));
}

TEST_F(WorkerTest, StopsASubjectThatHangsFloodsOrEats) {
  timeout_ = 1;
  EXPECT_EQ(observe("hangs").outcome, CallOutcome::TimedOut);
  EXPECT_EQ(observe("stops_itself").outcome, CallOutcome::TimedOut);
  timeout_ = 30;
  EXPECT_EQ(observe("floods").outcome, CallOutcome::Crashed);
  EXPECT_EQ(observe("eats").outcome, CallOutcome::TooLarge);
}

TEST_F(WorkerTest, EndsASubjectThatWantsProcessesNetworkOrOthers) {
  const std::pair<const char*, const char*> cases[] = {
      {"forks", "fork"},
      {"forks_raw", "fork"},
      {"runs", "execve"},
      {"connects", "socket"},
      {"kills", "kill"},
      {"kills_thread", "tkill"},
      {"traces", "ptrace"},
      {"limits_the_judge", "prlimit"},
      {"reads_the_judge", "process_vm_readv"},
      {"hides", "not allowed"},
      {"scribbles", "/tmp/assay-scribble"},
      {"scribbles_unseen", "/tmp/assay-scribble"},
      {"runs_a_command", "system"},
      {"changes_mode", "chmod"},
      {"removes", "unlink(\"/tmp/assay-victim\")"},
      {"renames", "rename"},
  };
  for (const auto& [symbol, said] : cases) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr("made a system call that is not allowed")) << symbol;
    EXPECT_THAT(observation.error, HasSubstr(said)) << symbol;
  }
  EXPECT_FALSE(fs::exists("/tmp/assay-scribble"));
}

TEST_F(WorkerTest, LeavesASubjectInItsFolderAlone) {
  for (const char* symbol :
       {"opens_the_judge", "shrinks_the_memory", "sets_preload", "writes_a_file", "threads"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
  }
}

TEST_F(WorkerTest, IsOnTheMachineOfItsTrial) {
  for (uint8_t gpu = 0; gpu < std::size(kGpus); ++gpu) {
    EXPECT_EQ(observe("counts_multiprocessors", 1, {.gpu = gpu}).calls.at(0).returned,
              static_cast<int>(kGpus[gpu].multiprocessors));
  }
  EXPECT_EQ(observe("tells_the_year", 1, {.clock = 2147483645}).calls.at(0).returned, 138);
  EXPECT_EQ(observe("tells_the_year", 1, {.clock = 1736154000}).calls.at(0).returned, 125);
  for (const int64_t clock : {int64_t{0}, int64_t{1736154000}, int64_t{2147483645}})
    EXPECT_EQ(observe("waits_a_moment", 1, {.clock = clock}).calls.at(0).returned, 0) << clock;
}

TEST_F(WorkerTest, CarriesNoNameOfOurs) {
  EXPECT_EQ(observe("finds_names").calls.at(0).returned, 0);
}

TEST_F(WorkerTest, TellsOfProbes) {
  for (const char* symbol :
       {"reads_command_line", "reads_by_stream", "reads_through_link", "reads_by_folder", "reads_in_thread",
        "reads_the_worker", "asks_for_settings", "asks_for_sandbox", "opens_the_judge"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
    EXPECT_EQ(found(observation), "environment-probe error") << symbol;
  }
  EXPECT_EQ(found(observe("looks_for_driver")), "environment-probe warning");
}

TEST_F(WorkerTest, TellsOfRefusedCalls) {
  for (const char* symbol :
       {"forks", "runs", "runs_a_command", "connects", "removes", "renames", "scribbles"})
    EXPECT_EQ(found(observe(symbol)), "forbidden-call error") << symbol;
  const Observation made = observe("makes_a_folder");
  ASSERT_EQ(made.outcome, CallOutcome::Ended) << made.error;
  EXPECT_EQ(made.calls.at(0).returned, 0);
  EXPECT_EQ(found(made), "forbidden-call warning");
  EXPECT_FALSE(fs::exists("/tmp/assay-made"));
}

TEST_F(WorkerTest, SaysNothingOfWhatProgramsOrdinarilyDo) {
  for (const char* symbol : {"is_ordinary", "loads_a_library", "makes_a_temporary_file"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
    EXPECT_EQ(found(observation), "") << symbol;
  }
}

TEST_F(WorkerTest, TellsLeaksFromCaches) {
  for (const char* symbol : {"leaks", "leaks_sometimes"})
    EXPECT_EQ(found(observe(symbol, 1, {.ordered = false, .looped = true})), "leak error") << symbol;
  for (const char* symbol : {"keeps_a_ring", "keeps_one", "copy"})
    EXPECT_EQ(found(observe(symbol, 1, {.ordered = false, .looped = true})), "") << symbol;
  EXPECT_EQ(found(observe("leaks")), "");  // one call shows nothing
}

TEST_F(WorkerTest, NoticesAClosedChannelForgedEventsAndThreads) {
  const std::pair<const char*, const char*> cases[] = {{"hangs_up", "closed the channel"},
                                                       {"forges_events", "channel of the device"},
                                                       {"floods_threads", "threads"}};
  for (const auto& [symbol, said] : cases) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr(said)) << symbol;
  }
}

TEST_F(WorkerTest, NamesAFunctionThatIsNotThere) {
  const Observation observation = observe("no_such_function");
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("no_such_function"));
}

}  // namespace
}  // namespace assay::subject
