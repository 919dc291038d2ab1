#include "subject/worker/runtime_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/growth.h"
#include "subject/worker/host_report.h"

// A function that is exported and does nothing but go on to where its pointer leads: it leaves no frame behind, so whoever
// looks who called sees the subject.
#define ASSAY_PASSED(use)                                                                            \
  use(cudaMalloc) use(cudaMallocAsync) use(cudaFree) use(cudaFreeAsync) use(cudaMallocHost)          \
      use(cudaHostAlloc) use(cudaFreeHost) use(cudaStreamCreate) use(cudaStreamCreateWithFlags)      \
          use(cudaStreamCreateWithPriority) use(cudaStreamDestroy) use(cudaEventCreate)              \
              use(cudaEventCreateWithFlags) use(cudaEventDestroy) use(cudaGraphInstantiate)          \
                  use(cudaGraphExecDestroy) use(cudaGetDeviceProperties) use(cudaDeviceGetAttribute) \
                      use(cudaMemGetInfo) use(__cudaRegisterFatBinary)
#define ASSAY_PASS(name)                                                                        \
  extern "C" {                                                                                  \
  __attribute__((visibility("hidden"), used)) void* assay_to_##name = nullptr;                  \
  }                                                                                             \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n  jmp *assay_to_" #name \
      "(%rip)\n.size " #name ", .-" #name "\n");
ASSAY_PASSED(ASSAY_PASS)
#undef ASSAY_PASS

namespace assay::worker {

namespace {

constexpr int kFill = 0xff;  // a NaN in every float format, and no small integer
constexpr unsigned kNonBlocking = 1;

struct Functions {
#define ASSAY_FUNCTION(name) void* name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  ASSAY_PASSED(ASSAY_FUNCTION)
#undef ASSAY_FUNCTION
};

struct Allocation {
  uint64_t bytes = 0;
  uint64_t number = 0;  // of all allocations so far
  CallStack made_by;
};

struct State {
  Functions real;
  RuntimeWatch watch;
  Stream stream = nullptr;  // of the fills of new memory
  int (*memset_async)(void*, int, size_t, Stream) = nullptr;
  int (*synchronize)(Stream) = nullptr;
  std::map<uint64_t, std::vector<std::byte>> code;  // by the hash of what it takes the place of
  std::mutex mutex;
  std::map<const void*, Allocation> held;
  uint64_t bytes = 0, streams = 0, events = 0, graphs = 0;
  uint64_t allocations = 0;  // so far
};

// Lives as long as the process: libraries free memory when it ends.
State& state() {
  static State& one = *new State;
  return one;
}

int not_supported() {
  return 801;  // cudaErrorNotSupported
}

template <class F>
F* as(void* function) {
  return reinterpret_cast<F*>(function);
}

void hold(const void* at, uint64_t bytes) {
  const CallStack stack = call_stack();
  const std::scoped_lock lock(state().mutex);
  state().bytes += bytes;
  state().held[at] = {bytes, ++state().allocations, stack};
}

void let_go(const void* at) {
  const std::scoped_lock lock(state().mutex);
  const auto found = state().held.find(at);
  if (found == state().held.end()) return;
  state().bytes -= found->second.bytes;
  state().held.erase(found);
}

void count(uint64_t State::*what, int change) {
  const std::scoped_lock lock(state().mutex);
  state().*what += static_cast<uint64_t>(static_cast<int64_t>(change));
}

// ---- memory

int malloc_here(void** to, size_t bytes) {
  State& s = state();
  const int error = as<int(void**, size_t)>(s.real.cudaMalloc)(to, bytes);
  if (error != 0 || !*to || bytes == 0) return error;
  hold(*to, bytes);
  // On a stream that nothing else waits for; done before anybody can use the memory.
  if (s.watch.fills && s.memset_async(*to, kFill, bytes, s.stream) == 0) s.synchronize(s.stream);
  return error;
}

int malloc_async(void** to, size_t bytes, Stream stream) {
  State& s = state();
  const int error = as<int(void**, size_t, Stream)>(s.real.cudaMallocAsync)(to, bytes, stream);
  if (error != 0 || !*to || bytes == 0) return error;
  hold(*to, bytes);
  if (s.watch.fills) s.memset_async(*to, kFill, bytes, stream);
  return error;
}

int free_here(void* at) {
  let_go(at);
  return as<int(void*)>(state().real.cudaFree)(at);
}
int free_async(void* at, Stream stream) {
  let_go(at);
  return as<int(void*, Stream)>(state().real.cudaFreeAsync)(at, stream);
}
int malloc_host(void** to, size_t bytes) {
  const int error = as<int(void**, size_t)>(state().real.cudaMallocHost)(to, bytes);
  if (error == 0 && *to) hold(*to, bytes);
  return error;
}
int host_alloc(void** to, size_t bytes, unsigned flags) {
  const int error = as<int(void**, size_t, unsigned)>(state().real.cudaHostAlloc)(to, bytes, flags);
  if (error == 0 && *to) hold(*to, bytes);
  return error;
}
int free_host(void* at) {
  let_go(at);
  return as<int(void*)>(state().real.cudaFreeHost)(at);
}

// ---- streams, events, graphs

int counted(int error, uint64_t State::*what, int change) {
  if (error == 0) count(what, change);
  return error;
}
int stream_create(Stream* to) {
  return counted(as<int(Stream*)>(state().real.cudaStreamCreate)(to), &State::streams, 1);
}
int stream_create_with_flags(Stream* to, unsigned flags) {
  return counted(as<int(Stream*, unsigned)>(state().real.cudaStreamCreateWithFlags)(to, flags),
                 &State::streams, 1);
}
int stream_create_with_priority(Stream* to, unsigned flags, int priority) {
  return counted(
      as<int(Stream*, unsigned, int)>(state().real.cudaStreamCreateWithPriority)(to, flags, priority),
      &State::streams, 1);
}
int stream_destroy(Stream stream) {
  return counted(as<int(Stream)>(state().real.cudaStreamDestroy)(stream), &State::streams, -1);
}
int event_create(void** to) {
  return counted(as<int(void**)>(state().real.cudaEventCreate)(to), &State::events, 1);
}
int event_create_with_flags(void** to, unsigned flags) {
  return counted(as<int(void**, unsigned)>(state().real.cudaEventCreateWithFlags)(to, flags), &State::events,
                 1);
}
int event_destroy(void* event) {
  return counted(as<int(void*)>(state().real.cudaEventDestroy)(event), &State::events, -1);
}
int graph_instantiate(void** to, void* graph, unsigned long long flags) {
  return counted(
      as<int(void**, void*, unsigned long long)>(state().real.cudaGraphInstantiate)(to, graph, flags),
      &State::graphs, 1);
}
int graph_exec_destroy(void* graph) {
  return counted(as<int(void*)>(state().real.cudaGraphExecDestroy)(graph), &State::graphs, -1);
}

// ---- the machine

template <class T>
void present(T& value, uint64_t presented) {
  if (presented != 0) value = static_cast<T>(std::min<uint64_t>(static_cast<uint64_t>(value), presented));
}

int get_properties(void* to, int device) {
  const int error = as<int(void*, int)>(state().real.cudaGetDeviceProperties)(to, device);
  if (error != 0) return error;
  auto* bytes = static_cast<std::byte*>(to);
  uint64_t memory = 0;
  int multiprocessors = 0;
  std::memcpy(&memory, bytes + kTotalGlobalMemOffset, sizeof memory);
  std::memcpy(&multiprocessors, bytes + kMultiprocessorCountOffset, sizeof multiprocessors);
  present(memory, state().watch.bytes);
  present(multiprocessors, state().watch.multiprocessors);
  std::memcpy(bytes + kTotalGlobalMemOffset, &memory, sizeof memory);
  std::memcpy(bytes + kMultiprocessorCountOffset, &multiprocessors, sizeof multiprocessors);
  return error;
}

int get_attribute(int* to, int attribute, int device) {
  const int error = as<int(int*, int, int)>(state().real.cudaDeviceGetAttribute)(to, attribute, device);
  if (error == 0 && attribute == kMultiprocessorCount) present(*to, state().watch.multiprocessors);
  return error;
}

int get_memory(size_t* free, size_t* total) {
  const int error = as<int(size_t*, size_t*)>(state().real.cudaMemGetInfo)(free, total);
  if (error != 0) return error;
  if (free) present(*free, state().watch.bytes);
  if (total) present(*total, state().watch.bytes);
  return error;
}

// ---- device code

struct Wrapper {
  int magic, version;
  const void* data;
  void* file;
};
struct ContainerHeader {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;  // of what follows the header
};
constexpr uint32_t kContainerMagic = 0xba55ed50;

uint64_t hash_of(const std::byte* bytes, uint64_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3;
  return hash;
}

void** register_fat_binary(void* given) {
  State& s = state();
  const auto go_on = as<void**(void*)>(s.real.__cudaRegisterFatBinary);
  auto* wrapper = static_cast<Wrapper*>(given);
  if (s.code.empty() || !wrapper || !wrapper->data) return go_on(given);
  ContainerHeader header{};
  std::memcpy(&header, wrapper->data, sizeof header);
  if (header.magic != kContainerMagic) return go_on(given);
  const auto found =
      s.code.find(hash_of(static_cast<const std::byte*>(wrapper->data), header.header_size + header.size));
  if (found == s.code.end()) return go_on(given);
  auto* other = new Wrapper(*wrapper);  // the runtime keeps it
  other->data = found->second.data();
  return go_on(other);
}

// Pieces, each: the hash of a container, the size of the one that takes its place, and that one.
std::string read_code(const std::string& path, std::map<uint64_t, std::vector<std::byte>>& code) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "the code of the subject could not be read";
  uint64_t head[2];
  while (file.read(reinterpret_cast<char*>(head), sizeof head)) {
    std::vector<std::byte>& bytes = code[head[0]];
    bytes.resize(head[1]);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
      return "the code of the subject is cut off";
  }
  return "";
}

}  // namespace

void pass_runtime_calls() {
  Functions& real = state().real;
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return;
#define ASSAY_FIND(name)             \
  real.name = dlsym(library, #name); \
  assay_to_##name = real.name ? real.name : reinterpret_cast<void*>(&not_supported);
  ASSAY_PASSED(ASSAY_FIND)
#undef ASSAY_FIND
}

std::string watch_runtime_calls(const Runtime& runtime, const RuntimeWatch& watch) {
  State& s = state();
  s.watch = watch;
  s.synchronize = runtime.cudaStreamSynchronize;
  s.memset_async = runtime.cudaMemsetAsync;
  if (runtime.cudaStreamCreateWithFlags(&s.stream, kNonBlocking) != 0) return "a stream could not be made";
  if (!watch.code.empty())
    if (std::string problem = read_code(watch.code, s.code); !problem.empty()) return problem;
  const auto take = [](void*& pointer, auto* function) {
    if (pointer != reinterpret_cast<void*>(&not_supported)) pointer = reinterpret_cast<void*>(function);
  };
  take(assay_to_cudaMalloc, malloc_here);
  take(assay_to_cudaMallocAsync, malloc_async);
  take(assay_to_cudaFree, free_here);
  take(assay_to_cudaFreeAsync, free_async);
  take(assay_to_cudaMallocHost, malloc_host);
  take(assay_to_cudaHostAlloc, host_alloc);
  take(assay_to_cudaFreeHost, free_host);
  take(assay_to_cudaStreamCreate, stream_create);
  take(assay_to_cudaStreamCreateWithFlags, stream_create_with_flags);
  take(assay_to_cudaStreamCreateWithPriority, stream_create_with_priority);
  take(assay_to_cudaStreamDestroy, stream_destroy);
  take(assay_to_cudaEventCreate, event_create);
  take(assay_to_cudaEventCreateWithFlags, event_create_with_flags);
  take(assay_to_cudaEventDestroy, event_destroy);
  take(assay_to_cudaGraphInstantiate, graph_instantiate);
  take(assay_to_cudaGraphExecDestroy, graph_exec_destroy);
  take(assay_to_cudaGetDeviceProperties, get_properties);
  take(assay_to_cudaDeviceGetAttribute, get_attribute);
  take(assay_to_cudaMemGetInfo, get_memory);
  take(assay_to___cudaRegisterFatBinary, register_fat_binary);
  return "";
}

void HeldByCalls::call_ended() {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  bytes_.push_back(s.bytes);
  streams_.push_back(s.streams);
  events_.push_back(s.events);
  graphs_.push_back(s.graphs);
}

std::optional<Finding> HeldByCalls::judge() {
  const HeldByCalls calls = std::exchange(*this, {});
  const struct {
    const std::vector<uint64_t>& held;
    const char* name;
  } kHeld[] = {{calls.bytes_, "memory"},
               {calls.streams_, "stream"},
               {calls.events_, "event"},
               {calls.graphs_, "graph"}};
  for (const auto& [held, name] : kHeld) {
    if (!keeps_growing(held)) continue;
    evidence::Launch evidence;
    evidence.growth = evidence::Growth{.what = name,
                                       .per_call = growth_per_call(held),
                                       .calls = held.size(),
                                       .held = held.back() - held.front()};
    if (&held == &calls.bytes_) {
      const std::scoped_lock lock(state().mutex);
      const auto last =
          std::max_element(state().held.begin(), state().held.end(),
                           [](const auto& a, const auto& b) { return a.second.number < b.second.number; });
      if (last != state().held.end()) evidence.host.calls = places_of(last->second.made_by);
    }
    return Finding{.kind = Kind::Leak, .evidence = std::move(evidence)};
  }
  return std::nullopt;
}

}  // namespace assay::worker
