// The worker: loads the subject and makes the calls it is told to make (protocol.h). It knows no
// contract and no expected value.
//
//   assay-worker virtual|cuda FOLDER library|ptx PATH SYMBOL call|launch int|void CLOCK
#include <dlfcn.h>
#include <ffi.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subject/protocol.h"
#include "subject/worker/caller.h"
#include "subject/worker/runtime.h"
#include "subject/worker/sandbox.h"
#include "subject/worker/surroundings.h"

namespace assay::worker {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

struct Failed {
  int error;
  const char* stage;
};

void check(int error, const char* stage) {
  if (error != 0) throw Failed{error, stage};
}

void reply(const Json& json) {
  const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = send(subject::kSocket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) _exit(3);
    sent += static_cast<std::size_t>(n);
  }
}

bool next_line(std::string& pending, std::string& line) {
  for (;;) {
    if (const std::size_t end = pending.find('\n'); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return true;
    }
    char buffer[65536];
    const ssize_t n = recv(subject::kSocket, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    pending.append(buffer, static_cast<std::size_t>(n));
  }
}

void delay(void*) {
  usleep(2000);
}

// A device allocation, and a copy of its input beside it that the stream brings in.
struct Memory {
  std::byte* base = nullptr;
  std::byte* staged = nullptr;
  int64_t bytes = 0;
  bool sparse = false;  // only parts of it are used
};

// While the subject's own code runs, malloc gives memory that is not zero, and free leaves nothing useful
// behind: new pages are zeros, which hides that nobody wrote them. Or, to see whether that matters, all that
// malloc gives is zero. (The judge has turned off the allocator's caches of threads, which know nothing of
// it.)
class HostPoison {
 public:
  explicit HostPoison(bool on) { mallopt(M_PERTURB, on ? kFreed : kZeros); }
  ~HostPoison() { mallopt(M_PERTURB, 0); }
  HostPoison(const HostPoison&) = delete;
  HostPoison& operator=(const HostPoison&) = delete;

 private:
  static constexpr int kFreed = 0x35;  // what free leaves; malloc gives the complement, 0xca
  static constexpr int kZeros = 0xff;  // so that malloc gives zeros
};

class Worker {
 public:
  Worker(char** argv)
      : real_(std::strcmp(argv[1], "cuda") == 0),
        launch_(std::strcmp(argv[6], "launch") == 0),
        returns_int_(std::strcmp(argv[7], "int") == 0),
        symbol_(argv[5]),
        path_(argv[4]),
        ptx_(std::strcmp(argv[3], "ptx") == 0),
        folder_(argv[2]),
        clock_(std::strtoll(argv[8], nullptr, 10)) {}

  int run() {
    std::string problem;
    bool unavailable = true;
    try {
      problem = prepare(unavailable);
    } catch (const Failed& failed) {
      problem = std::string(failed.stage) + ": " + runtime_.cudaGetErrorString(failed.error);
    }
    if (!problem.empty()) {
      reply({{"ready", false}, {"text", problem}, {"unavailable", unavailable}});
      return 1;
    }
    reply({{"ready", true}, {"files_guarded", files_guarded_}});
    std::string pending;
    for (std::string line; next_line(pending, line);) serve(Json::parse(line));
    return 0;
  }

 private:
  // `unavailable` says whose fault a problem is: the machine's, or the subject's.
  std::string prepare(bool& unavailable) {
    if (std::string missing = load(runtime_); !missing.empty()) return missing;
    int count = 0;
    if (const int error = runtime_.cudaGetDeviceCount(&count); error != 0 || count == 0) {
      return std::string("there is no CUDA device: ") + runtime_.cudaGetErrorString(error);
    }
    check(runtime_.cudaFree(nullptr), "the device could not be used");
    for (Stream& stream : streams_) {
      check(runtime_.cudaStreamCreateWithFlags(&stream, 1), "a stream could not be made");
    }
    know_callers(path_, reinterpret_cast<const void*>(runtime_.cudaFree));
    tell_to(runtime_.assay_report_host);
    set_clock(clock_);
    if (!real_) clear_environment();  // the runtime has read its settings, the loader its paths
    close(subject::kEvents);  // the runtime has opened it for itself: when that end closes, the judge sees it
    if (std::string problem = enter_sandbox(folder_, real_, files_guarded_); !problem.empty()) return problem;
    unavailable = false;
    return ptx_ ? load_ptx() : load_library();
  }

  std::string load_library() {
    void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::string("the subject cannot be loaded: ") + dlerror();
    function_ = dlsym(library, symbol_.c_str());
    if (!function_) return "the subject has no function " + symbol_ + " (is it extern \"C\"?)";
    return "";
  }

  std::string load_ptx() {
    std::ifstream file(path_, std::ios::binary);
    ptx_text_.assign(std::istreambuf_iterator<char>(file), {});
    void* library = nullptr;
    check(runtime_.cudaLibraryLoadData(&library, ptx_text_.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "the PTX could not be loaded");
    check(runtime_.cudaLibraryGetKernel(&kernel_, library, symbol_.c_str()),
          "the kernel was not found in the PTX");
    return "";
  }

  void map(int64_t size) {
    if (size <= mapped_) return;
    if (memory_) munmap(memory_, static_cast<std::size_t>(mapped_));
    void* at = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED,
                    subject::kMemoryFile, 0);
    if (at == MAP_FAILED) _exit(4);
    memory_ = static_cast<std::byte*>(at);
    mapped_ = size;
  }

  void serve(const Json& request) {
    const auto start = Clock::now();
    Json answer = {{"error", 0}, {"id", request.value("id", uint64_t{0})}};
    try {
      map(request.at("size"));
      if (runtime_.assay_set_seed) runtime_.assay_set_seed(request.at("seed"));
      if (runtime_.assay_advance_clock) runtime_.assay_advance_clock(request.value("cycles", uint64_t{0}));
      shift(request.value("shift", int64_t{0}));
      const Json& calls = request.at("calls");
      const bool ordered = request.at("ordered");
      allocate(calls, ordered, request.at("moved"));
      call_often(calls, request.at("earlier").get<int>());
      for (std::size_t i = 0; i < calls.size(); ++i) bring_in(calls[i], i, ordered);
      check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
      if (ordered) {
        // Whose work comes late is what shows a missing order: the caller's, or everyone else's.
        const bool others = request.at("others_late");
        if (others)
          check(runtime_.cudaLaunchHostFunc(nullptr, delay, nullptr), "the preparation of the stream");
        for (std::size_t i = 0; i < calls.size(); ++i) queue_inputs(calls[i], i, !others);
      }
      for (std::size_t i = 0; i < calls.size(); ++i) protect_inputs(calls[i], i);
      const auto called = Clock::now();
      Json returned = Json::array();
      const HostPoison poison(request.value("host_poison", true));
      for (std::size_t i = 0; i < calls.size(); ++i) returned.push_back(call(calls[i], i));
      check(runtime_.cudaGetLastError(), "the call");
      if (ordered) {
        for (std::size_t i = 0; i < calls.size(); ++i) queue_outputs(calls[i], i);
        for (std::size_t i = 0; i < calls.size(); ++i) {
          check(runtime_.cudaStreamSynchronize(streams_[i]), "the kernels of the call");
        }
        for (std::size_t i = 0; i < calls.size(); ++i) take_out(calls[i], i, true);
      }
      check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
      if (!ordered) {
        for (std::size_t i = 0; i < calls.size(); ++i) take_out(calls[i], i, false);
      }
      if (runtime_.assay_calls_ended) runtime_.assay_calls_ended();
      if (runtime_.assay_report_precision) runtime_.assay_report_precision();
      answer["returned"] = returned;
      answer["seconds"] = std::chrono::duration<double>(Clock::now() - called).count();
    } catch (const Failed& failed) {
      answer["error"] = failed.error;
      answer["stage"] = failed.stage;
      answer["name"] = runtime_.cudaGetErrorName(failed.error);
      answer["text"] = runtime_.cudaGetErrorString(failed.error);
    }
    if (runtime_.assay_range_forget) runtime_.assay_range_forget();
    answer["total"] = std::chrono::duration<double>(Clock::now() - start).count();
    reply(answer);
  }

  // Buffers that are allocated from now on lie elsewhere.
  void shift(int64_t bytes) {
    void* at = nullptr;
    if (bytes <= 0 || shifted_) return;
    check(runtime_.cudaMalloc(&at, static_cast<std::size_t>(bytes)), "the allocation of a buffer");
    if (runtime_.assay_label) runtime_.assay_label(at, "(memory of somebody else)");
    shifted_ = true;
  }

  // Slow calls are made less often, but often enough to tell a leak from a cache that fills (cudart/growth.cpp).
  void call_often(const Json& calls, int times) {
    constexpr int kEnough = 40;
    constexpr double kSeconds = 2;
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      const double passed = std::chrono::duration<double>(Clock::now() - start).count();
      if (i >= kEnough && passed > kSeconds) return;
      call_alike(calls);
    }
  }

  // The same calls as those that follow, to no other end than to have been made.
  void call_alike(const Json& calls) {
    for (std::size_t i = 0; i < calls.size(); ++i) bring_in(calls[i], i, false);
    check(runtime_.cudaDeviceSynchronize(), "the preparation of the call");
    for (std::size_t i = 0; i < calls.size(); ++i) call(calls[i], i);
    check(runtime_.cudaGetLastError(), "the call");
    check(runtime_.cudaDeviceSynchronize(), "the kernels of the call");
    if (runtime_.assay_call_ended) runtime_.assay_call_ended();
  }

  // Buffers stay where they are when their sizes do, unless they are to move.
  void allocate(const Json& calls, bool ordered, bool moved) {
    std::deque<Memory> old;
    std::vector<int64_t> sizes;
    for (const Json& c : calls) {
      for (const Json& b : c.at("buffers")) {
        const int64_t bytes = b.at("bytes");
        sizes.push_back(b.contains("parts") ? -bytes : bytes);  // negative: of which little is used
      }
    }
    bool same = !moved && sizes.size() == buffers_.size();
    for (std::size_t i = 0; same && i < sizes.size(); ++i)
      same = sizes[i] == (buffers_[i].sparse ? -buffers_[i].bytes : buffers_[i].bytes);
    if (!same) {
      if (moved) old.swap(buffers_);
      release(buffers_);
      for (const int64_t bytes : sizes) {
        Memory memory;
        memory.bytes = std::abs(bytes);
        memory.sparse = bytes < 0;
        memory.base = make(memory);
        buffers_.push_back(memory);
      }
      release(old);
    }
    std::size_t i = 0;
    for (const Json& c : calls) {
      for (const Json& b : c.at("buffers")) {
        Memory& memory = buffers_[i++];
        if (runtime_.assay_label) runtime_.assay_label(memory.base, b.at("name").get<std::string>().c_str());
        if (!ordered || memory.staged) continue;
        void* at = nullptr;
        check(runtime_.cudaMalloc(&at, static_cast<std::size_t>(memory.bytes)), "the allocation of a buffer");
        memory.staged = static_cast<std::byte*>(at);
        if (runtime_.assay_label) runtime_.assay_label(at, "(a copy that the caller keeps)");
      }
    }
  }

  // The virtual device's managed memory is zero and paid for where it is touched.
  std::byte* make(const Memory& memory) {
    void* at = nullptr;
    const auto bytes = static_cast<std::size_t>(memory.bytes);
    const bool lazy = memory.sparse && !real_;
    check(lazy ? runtime_.cudaMallocManaged(&at, bytes, 1) : runtime_.cudaMalloc(&at, bytes),
          "the allocation of a buffer");
    if (memory.sparse && real_) check(runtime_.cudaMemset(at, 0, bytes), "a fill");
    return static_cast<std::byte*>(at);
  }

  // The parts of a buffer that are copied: [from, length).
  static std::vector<std::pair<int64_t, int64_t>> parts_of(const Json& b, const Memory& memory) {
    if (!memory.sparse) return {{0, memory.bytes}};
    return b.at("parts").get<std::vector<std::pair<int64_t, int64_t>>>();
  }

  void copy_parts(std::byte* to, const std::byte* from, const Json& b, const Memory& memory, CopyKind kind,
                  const char* stage) {
    for (const auto& [at, length] : parts_of(b, memory)) {
      if (length > 0)
        check(runtime_.cudaMemcpy(to + at, from + at, static_cast<std::size_t>(length), kind), stage);
    }
  }

  void release(std::deque<Memory>& buffers) {
    for (const Memory& memory : buffers) {
      runtime_.cudaFree(memory.base);
      if (memory.staged) runtime_.cudaFree(memory.staged);
    }
    buffers.clear();
  }

  Memory& buffer(const Json& c, std::size_t which, std::size_t i) {
    return buffers_[which * c.at("buffers").size() + i];
  }

  template <class F>
  void each(const Json& c, std::size_t which, F&& f) {
    const Json& buffers = c.at("buffers");
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].at("share").get<int>() < 0) f(buffers[i], buffer(c, which, i));
    }
  }

  // The images, whole; in an ordered call the inputs wait in their copies, and what will hold them is
  // filled with something else.
  void bring_in(const Json& c, std::size_t which, bool ordered) {
    each(c, which, [&](const Json& b, Memory& memory) {
      const std::byte* image = memory_ + b.at("in").get<int64_t>();
      const int64_t offset = b.at("offset"), length = b.at("length");
      const auto bytes = static_cast<std::size_t>(memory.bytes);
      copy_parts(memory.base, image, b, memory, kHostToDevice, "a copy to the device");
      const bool data = b.at("data");
      if (data && ordered && length > 0) {
        check(runtime_.cudaMemcpy(memory.staged, image, bytes, kHostToDevice), "a copy to the device");
        check(runtime_.cudaMemset(memory.base + offset, 0, static_cast<std::size_t>(length)), "a fill");
      }
      if (!data && length > 0 && runtime_.assay_undefine) {
        runtime_.assay_undefine(memory.base + offset, static_cast<std::size_t>(length));
      }
    });
  }

  void queue_inputs(const Json& c, std::size_t which, bool late) {
    if (late) {
      check(runtime_.cudaLaunchHostFunc(streams_[which], delay, nullptr), "the preparation of the stream");
    }
    each(c, which, [&](const Json& b, Memory& memory) {
      const int64_t offset = b.at("offset"), length = b.at("length");
      if (!b.at("data").get<bool>() || length == 0) return;
      check(runtime_.cudaMemcpyAsync(memory.base + offset, memory.staged + offset,
                                     static_cast<std::size_t>(length), kDeviceToDevice, streams_[which]),
            "the preparation of the stream");
    });
  }

  // From here on; what was asked for before still comes.
  void protect_inputs(const Json& c, std::size_t which) {
    if (!runtime_.assay_range_protect) return;
    each(c, which, [&](const Json& b, Memory& memory) {
      const std::size_t length = b.at("length");
      if (b.at("read_only").get<bool>() && length > 0)
        runtime_.assay_range_protect(memory.base + b.at("offset").get<int64_t>(), length,
                                     b.at("name").get<std::string>().c_str());
    });
  }

  void queue_outputs(const Json& c, std::size_t which) {
    each(c, which, [&](const Json&, Memory& memory) {
      check(runtime_.cudaMemcpyAsync(memory.staged, memory.base, static_cast<std::size_t>(memory.bytes),
                                     kDeviceToDevice, streams_[which]),
            "the copy of the results");
    });
  }

  void take_out(const Json& c, std::size_t which, bool staged) {
    each(c, which, [&](const Json& b, Memory& memory) {
      copy_parts(memory_ + b.at("out").get<int64_t>(), staged ? memory.staged : memory.base, b, memory,
                 kDeviceToHost, "the copy of the results");
    });
  }

  // Arguments as libffi and cudaLaunchKernel take them: pointers to values that stay where they are.
  struct Arguments {
    std::deque<uint64_t> values;
    std::vector<void*> pointers;
    std::vector<ffi_type*> types;
    void add(uint64_t bits, ffi_type* type) {
      values.push_back(bits);
      pointers.push_back(&values.back());
      types.push_back(type);
    }
  };

  static ffi_type* type_of(const Json& argument) {
    const int bytes = argument.at("bytes");
    const bool is_signed = argument.at("signed");
    if (argument.at("float").get<bool>()) return bytes == 8 ? &ffi_type_double : &ffi_type_float;
    switch (bytes) {
      case 1:
        return is_signed ? &ffi_type_sint8 : &ffi_type_uint8;
      case 2:
        return is_signed ? &ffi_type_sint16 : &ffi_type_uint16;
      case 4:
        return is_signed ? &ffi_type_sint32 : &ffi_type_uint32;
      default:
        return is_signed ? &ffi_type_sint64 : &ffi_type_uint64;
    }
  }

  Arguments arguments(const Json& c, std::size_t which) {
    Arguments arguments;
    const Json& buffers = c.at("buffers");
    for (const Json& argument : c.at("args")) {
      if (argument.contains("stream")) {
        arguments.add(reinterpret_cast<uint64_t>(streams_[which]), &ffi_type_pointer);
      } else if (argument.contains("buffer")) {
        std::size_t i = argument.at("buffer");
        if (const int share = buffers[i].at("share"); share >= 0) i = static_cast<std::size_t>(share);
        arguments.add(
            reinterpret_cast<uint64_t>(buffer(c, which, i).base + buffers[i].at("offset").get<int64_t>()),
            &ffi_type_pointer);
      } else {
        arguments.add(argument.at("bits"), type_of(argument));
      }
    }
    return arguments;
  }

  int call(const Json& c, std::size_t which) {
    Arguments args = arguments(c, which);
    if (launch_) return launch(c, args, which);
    ffi_cif interface;
    if (ffi_prep_cif(&interface, FFI_DEFAULT_ABI, static_cast<unsigned>(args.types.size()),
                     returns_int_ ? &ffi_type_sint32 : &ffi_type_void, args.types.data()) != FFI_OK) {
      return -1;
    }
    ffi_arg returned = 0;
    ffi_call(&interface, reinterpret_cast<void (*)()>(function_), &returned, args.pointers.data());
    return returns_int_ ? static_cast<int>(returned) : 0;
  }

  int launch(const Json& c, Arguments& args, std::size_t which) {
    unsigned dims[6];
    for (std::size_t i = 0; i < 6; ++i) {
      const int64_t n = c.at("dims")[i];
      if (n == 0) return 0;  // nothing to launch
      dims[i] = static_cast<unsigned>(n);
    }
    const uint64_t shared = c.at("shared");
    if (!ptx_) {
      using Launcher = int (*)(const unsigned*, unsigned long long, void**, Stream);
      check(reinterpret_cast<Launcher>(function_)(dims, shared, args.pointers.data(), streams_[which]),
            "the launch");
      return 0;
    }
    if (shared > 48 * 1024) {
      check(runtime_.cudaFuncSetAttribute(kernel_, 8, static_cast<int>(shared)), "the launch");
    }
    check(runtime_.cudaLaunchKernel(kernel_, {dims[0], dims[1], dims[2]}, {dims[3], dims[4], dims[5]},
                                    args.pointers.data(), shared, streams_[which]),
          "the launch");
    return 0;
  }

  bool real_, launch_, returns_int_;
  bool files_guarded_ = false;
  std::string symbol_, path_;
  bool ptx_;
  std::string folder_, ptx_text_;
  int64_t clock_;
  Runtime runtime_{};
  void* function_ = nullptr;
  void* kernel_ = nullptr;
  Stream streams_[2] = {};
  std::deque<Memory> buffers_;
  bool shifted_ = false;
  std::byte* memory_ = nullptr;
  int64_t mapped_ = 0;
};

}  // namespace

}  // namespace assay::worker

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr, "assay-worker is started by assay, not by hand\n");
    return 2;
  }
  assay::worker::Worker worker(argv);
  assay::worker::clear_command_line(argc, argv);
  return worker.run();
}
