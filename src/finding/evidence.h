// What a finding rests on: one struct for each family of kinds. Evidence is data; the words that a reader
// sees are made from it last, by message.h. All of it can be written as JSON and read back (json.h), which is
// how the process under test reports what the device saw. Fields marked [judge] are filled in on the trusted
// side and are not accepted from that process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "finding/kind.h"
#include "finding/profile.h"
#include "finding/where.h"

namespace assay::evidence {

using Index3 = std::array<uint32_t, 3>;

// Host code.
struct HostPlace {
  std::vector<std::string> calls;  // "program+0x1234", innermost first
  std::vector<Frame> stack;        // of Python, innermost first; empty: not called from Python
  Where where;                     // [judge] the program's own line among them
  std::string function;            // [judge]
  std::string code;                // [judge] which of the calls that is
  std::string system_call;         // the one that touched memory; empty: plain code
  bool is_known() const { return !calls.empty() || !stack.empty() || !code.empty() || !system_call.empty(); }
};

// The code of a kernel that did something, and the thread that ran it.
struct CodePlace {
  std::string kernel;  // its symbol; empty: not known, or no kernel
  std::optional<Index3> block, thread;
  std::string instruction;   // as PTX writes it
  std::vector<Frame> chain;  // the functions it was inlined or called through; empty: none
  uint64_t origin = 0;       // the runtime's number for what launched it; in its process only
  HostPlace launched_at;
};

// An allocation of device memory.
struct Allocation {
  std::string label;
  uint64_t bytes = 0;
  uint64_t id = 0;
  bool live = true;
  HostPlace made_at;
};

// A variable in shared memory.
struct SharedArray {
  std::string name;  // as the source has it
  std::string symbol;
  uint64_t bytes = 0;  // 0: dynamic shared memory
  int64_t offset = 0;  // of the place: negative before it, past `bytes` after it
  bool is_scalar = false;
  std::vector<uint64_t> indices;  // [judge] of the element, from the declaration in the source
  uint64_t rest = 0;              // [judge] bytes into that element
};

// An element of a tensor of the contract. [judge]
struct TensorElement {
  std::string tensor;
  std::vector<int64_t> extents;
  std::vector<int64_t> index;  // empty: no element of it, but a place near it
  bool is_complex = false;     // the last extent is that of the parts
};

enum class Space : uint8_t { None, Generic, Global, Shared, Local, Constant, Parameter, Host };

// A place in memory.
struct Place {
  Space space = Space::None;
  std::optional<uint64_t> address;
  std::optional<Allocation> allocation;  // the nearest
  int64_t offset = 0;                    // from the start of the allocation, or of the shared or local memory
  bool is_host_memory = false;           // memory of the host that the device does not know
  std::optional<SharedArray> array;
  std::optional<Index3> owner;  // the block whose shared memory it is, where that is another block
  bool owner_ended = false;
  std::optional<uint64_t> missing_rank;  // the block of a cluster that does not exist
  std::optional<TensorElement> element;  // [judge]
};

enum class AccessKind : uint8_t { Use, Read, Write, Atomic, Free };

// A kernel, copy or fill on a stream.
struct Operation {
  std::string kind;  // "kernel", "copy", "fill", "free", …
  uint64_t stream = 0;
};

// How an undefined value takes effect.
enum class Undefined : uint8_t { None, Branch, Address, Store, Collective };

// Why memory of another block of the cluster is not safe to use.
enum class ClusterHazard : uint8_t { None, NotStarted, MayHaveEnded };

// Elements or bytes that nothing wrote.
struct Unwritten {
  std::string name;  // of the output
  uint64_t count = 0, total = 0;
  std::string first;  // "[3, 5]", or a byte offset
  bool in_bytes = false;
  bool at_least = false;  // there may be more, and `first` is one of them
};

struct Access {
  CodePlace code;
  AccessKind access = AccessKind::Use;
  uint32_t bytes = 0;      // of one thread's access; 0: no access of memory
  uint32_t alignment = 0;  // that it needs; 0: not the point
  Place place;
  std::optional<SharedArray> neighbour;  // what lies where an access left its own array
  std::optional<uint64_t> shared_bytes;  // that the block has
  ClusterHazard hazard = ClusterHazard::None;
  std::string detail;                     // more, in the engine's words
  Undefined undefined = Undefined::None;  // of uninitialized
  std::optional<Where> shuffle;           // … which may have brought the value
  std::string input;                      // of clobbered-input: its name
  std::optional<bool> changed;            // … whether its value changed
  std::optional<Operation> operation;     // … by this, where it is not a kernel
  std::optional<Unwritten> unwritten;
  HostPlace host;              // of accesses by host code
  uint64_t bytes_changed = 0;  // outside a tensor, seen after the call
};

enum class Relation : uint8_t { None, Warp, Block, Blocks, Copy, Operations, Host };

// What would order the two sides of a race.
enum class Remedy : uint8_t {
  None,
  OneWriterOrAtomic,
  AtomicOrBarrier,
  Barrier,
  PlainLoad,
  WaitForCopy,
  WaitForCopyThenBarrier,
  ClusterBarrier,
  DeviceScope,
  BothAtomic,
  AtomicOrOneBlock,
  LaterLaunchOrFlag,
  OrderOperations,
  WaitOnHost,
  WaitForGrid,
  ProxyFence,
};

struct Fix {
  Remedy remedy = Remedy::None;
  bool warp = false;          // __syncwarp() rather than __syncthreads()
  int low = 0, high = 0;      // lines between which a barrier is missing; 0: not known
  bool between = false;       // … between them
  bool before_again = false;  // … before the first of them runs again
};

// The earlier of two accesses.
struct OtherAccess {
  CodePlace code;
  Where where;
  AccessKind access = AccessKind::Use;
  bool is_asynchronous = false;
  bool is_same_thread = false, is_same_warp = false, is_same_block = false;
  bool is_counted_copy = false;        // a copy that an mbarrier counts: no thread's own
  std::optional<Operation> operation;  // where it is of another launch, or of no kernel
};

struct Race {
  CodePlace code;
  AccessKind access = AccessKind::Use;
  Place place;
  Relation relation = Relation::None;
  std::optional<Operation> operation;  // of the later access, where both are not of one launch
  OtherAccess other;
  bool noncoherent = false;  // the later one is ld.global.nc
  bool same_value = false;   // it stores the value that is already there
  Fix fix;
  HostPlace host;         // the later access, where it is the host's
  uint64_t schedule = 0;  // under which it showed, where that is not the run's own
};

struct Synchronisation {
  CodePlace code;
  uint32_t lanes = 0;
  std::string detail;  // in the engine's words
  // A shuffle whose mask names lanes that never reach it, and where the value it brought takes effect.
  std::optional<Where> matters_at;
  Undefined undefined = Undefined::None;
};

// Something that calls leave behind.
struct Growth {
  std::string what;     // "memory", "stream", "event", "graph"
  double per_call = 0;  // bytes of memory; else objects
  uint64_t calls = 0, held = 0;
  uint64_t allocations = 0;  // never freed when the program ended; 0: growth from call to call
};

struct Launch {
  std::string kernel;
  std::string function;  // that returned `status`; empty: a launch
  int status = 0;        // a cudaError_t
  std::string status_name;
  std::string detail;         // of a call that failed in the worker: what it was for
  std::optional<bool> asked;  // whether the program looked at the error
  HostPlace host;
  uint64_t operations = 0;  // that were not waited for
  std::optional<Growth> growth;
  std::optional<Allocation> allocation;
};

struct Process {
  std::string what;    // the call: open("/proc/self/maps")
  std::string detail;  // why it matters, or what the process died of
  HostPlace host;
  std::string entry;            // the host function that did not return
  std::string kernel;           // the kernel that did not end
  std::string limit;            // "still running after 2.5 s"
  std::vector<Where> standing;  // lines at which its warps are
  std::string smaller;          // [judge] "N=4 ends after 0.1 s"
  bool touched_device_memory = false;
  bool raised = false;  // [judge] a Python function raised an exception
};

// A number that was stored beside what it should be, as text with the digits that matter.
struct ComparedText {
  std::string stored, exact;
  std::string error;      // its size; empty where there is none (NaN, infinities)
  std::string budget;     // what rounding explains; empty where the error is not measured by one
  std::string times;      // the error in budgets; empty: within it
  bool is_exact = false;  // nothing may be rounded here
};

struct Worst {
  std::vector<int64_t> index;
  double stored = 0, exact = 0;
  double low = 0, high = 0;  // admitted
  double z = 0;              // error in standard deviations of rounding
  double terms = 1;          // of its sum
  ComparedText text;
};

// A part of an output whose errors are improbable together.
struct Part {
  std::string name;  // "row 17", "sums of 1000 to 9999 terms"
  double elements = 0, observed = 0, expected = 0, log10_p = 0;
  double gain = 0;        // by which the values of this part are off on average, relative
  bool by_terms = false;  // elements whose sums have about as many terms
};

// The defect whose errors are those of the kernel.
struct Diagnosis {
  std::string defect;
  std::string description;  // after "as if"
  double correlation = 0, explained = 0;
  bool by_profile = false;  // matched by size against sum length, not element by element
};

// Two calls whose results must agree and do not.
struct Difference {
  std::string
      relation;  // "repeated", "scaled", "permuted", …; "schedules": one launch, from the same memory; on a real
                 // GPU "load" (`change` says how it was repeated) and "graph"
  std::string change;  // "dy times 4", "schedules 0 and 3"; empty: the same inputs
  std::string dim;     // that the contract declares batch_invariant; empty: it follows from the formula
  int64_t count = 0;   // of elements
  std::vector<int64_t> index;
  std::string first, second;  // the values there, as text
};

// Where the error of an output enters, by shadow execution.
struct ErrorLine {
  Where where;
  std::string operation, reason;
  double share = 0;                 // of the output's error; 0: suspected only
  std::optional<Where> cancels_at;  // leading bits cancel there, which makes the error larger
  double cancelled_bits = 0, amplification = 0;
};

struct Numeric {
  std::string output;
  std::string misfit;  // a Python function returned something that is no such output: what it returned
  bool is_integer = false;
  bool is_complex = false;  // the last coordinate of an element is its part
  int64_t judged = 0, outside = 0;
  int64_t class_differs = 0;  // NaN or infinity where it should not be, or missing
  int64_t hidden = 0;         // … of these: finite where it should not be
  std::optional<Worst> worst;
  std::vector<Part> parts;
  double lean = 0;  // of the errors: -1 all toward zero, +1 all away from it
  std::optional<Diagnosis> diagnosis;
  std::optional<Difference> difference;
  std::optional<ErrorLine> error_line;
  std::shared_ptr<const Profile> profile;
  std::string kernel;     // [judge] of a Python subject: the last that ran; empty: not known
  HostPlace launched_at;  // [judge]
};

// A note from reading the code.
struct Code {
  std::string kernel;
  std::string instruction;
  std::string detail;  // why it matters here
};

// What a kernel does to a training run (room train). A gradient is compared with that of the same step with trusted
// kernels; noise is how far trusted gradients with other roundings or orders of summation are from it.
struct Training {
  std::string slot;
  std::string tokens, optimizer;  // of the cell: "zipf", "sgd"
  bool teacher_forced = false;    // at the weights of the reference run
  int64_t step = 0;
  std::string tensor;  // the parameter; empty: the loss
  std::string part;    // "tokens seen 100 to 999 times"; empty: all of it
  double gain = 1, cosine = 1, relative_error = 0;
  double noise = 0;  // of what the kind is about: of the gain, of the error, of the loss
  double loss_gap = 0;
  int64_t nonfinite = 0;
  double log10_evidence = 0;  // of the sequential test
  double false_alarms = 0;    // the probability of this for a correct kernel; 0: no such test
};

}  // namespace assay::evidence

namespace assay {

using Evidence = std::variant<evidence::Numeric, evidence::Access, evidence::Race, evidence::Synchronisation,
                              evidence::Launch, evidence::Process, evidence::Code, evidence::Training>;

}  // namespace assay
