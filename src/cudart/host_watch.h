// Detects host code that uses managed or pinned memory while the device may use it, too.
//
// The device has its own mapping of such memory (vgpu/memory.h), so the host's mapping can be protected. From
// the time that work is submitted until the host has waited for it, the pages that the work may use are
// closed: an access of the host faults. The handler records the access and lets it happen, by a single step
// after which the page is closed again; after a number of steps a page stays open. Once it is known what the
// work did, the race check compares the recorded accesses with it, byte by byte.
//
// Which pages: a kernel may use what its parameters point to, from there to the end of the allocation, and
// every
// __managed__ variable; a copy or fill uses its range, of which only pages that hold nothing else are closed.
//
// A system call on a closed page would fail, where code faults and continues. So such calls are intercepted
// before they happen (system_calls.h); where that is not possible, no page is closed at all.
#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checks/host_access.h"
#include "cudart/pages.h"
#include "cudart/system_calls.h"
#include "vgpu/stream.h"

namespace assay::cudart {

class HostWatch final : public vgpu::Listener, public CallListener {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);
  // Of SIGSEGV and SIGTRAP; they call note_fault() and end_step(). A program that puts its own in their place
  // is not watched.
  struct Handlers {
    Handler fault, step;
  };
  HostWatch(checks::HostJudge& judge, const vgpu::Memory& memory, vgpu::Streams& streams, Handlers handlers);
  ~HostWatch() override;
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // To be called before the host is given memory that it shares: no system call may be under way with it that
  // was not reported.
  void prepare();
  // The host asked for work: `last` is the last operation of it.
  void submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works);
  // It waited for some; opens what is no longer used, and has what was noted judged.
  void waited();
  void judge();
  // Work starts: what was noted by now comes first, before memory forgets what it met.
  void on_operation(const vgpu::OperationInfo& info) override;
  bool wants_accesses(ptx::Space) const override { return false; }
  // An allocation goes.
  void forget(vgpu::Address base);
  void add_variable(vgpu::Address base);
  void on_call(const SystemCall& call) override;

  // ---- For signal handlers ----

  // Whether the access was to closed memory, and may happen now.
  bool note_fault(vgpu::Address address, bool writes, ucontext_t& context);
  // Whether it was a single step of ours that ended.
  bool end_step(ucontext_t& context);
  // In the child of a fork, which is not observed.
  void open_all();

 private:
  struct Area {
    vgpu::Address low = 0, high = 0;  // whole pages
  };
  // An allocation that has been closed at some time; what the signal handler goes by.
  struct Slot {
    std::atomic<vgpu::Address> low{0}, high{0};
    // Since it was last closed:
    std::atomic<uint32_t> opened{0}, steps{0};  // runs of pages, and steps
    std::atomic<vgpu::Address> page{0};         // of the last step
    std::atomic<uint32_t> page_steps{0};        // in a row
  };
  struct Note {
    vgpu::Address address = 0;
    uint64_t bytes = 1;
    uint64_t code = 0;  // of the instruction
    int call = -1;      // or the number of a system call
    uint64_t submitted = 0, knowledge = 0;
    bool writes = false;
    std::atomic<bool> ready{false};
  };
  // A thread that makes a step, and the pages that are open for it.
  struct Step {
    static constexpr size_t kPages = 4;
    pid_t thread = 0;
    std::array<vgpu::Address, kPages> pages{};
    size_t used = 0;
  };
  // What a system call uses, which must stay open until it ends. Changes under both locks.
  struct Held {
    Area area;
    SystemCall call;
  };
  static constexpr size_t kSlots = 1024, kNotes = 65536, kThreads = 64, kHeld = 64;

  checks::HostJudge& judge_;
  const vgpu::Memory& memory_;
  vgpu::Streams& streams_;
  const Handlers handlers_;
  const CodeRange libc_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Note[], void (*)(void*)> notes_;  // zeroed pages, which exist when they are used
  std::unique_ptr<Step[]> steps_;
  std::unique_ptr<Held[]> held_;
  std::atomic<size_t> slots_used_{0}, notes_used_{0};
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint32_t> steps_left_;
  PageLock pages_;    // of pages, held_ and steps_; the last to be taken
  std::mutex mutex_;  // of what follows
  std::map<vgpu::OperationId, std::vector<Area>> under_way_;
  std::vector<vgpu::Address> variables_;
  bool asked_for_calls_ = false, watches_calls_ = false;
  double threads_seen_ = 0;       // when, in seconds
  std::vector<pid_t> unguarded_;  // threads that a fault would kill

  void add_areas(const vgpu::Work& work, std::vector<Area>& areas);
  void add_pointer(vgpu::Address address, std::vector<Area>& areas);
  void add_range(const vgpu::Place& place, uint64_t width, uint64_t height, uint64_t depth,
                 std::vector<Area>& areas);
  bool can_close();
  void look_for_unguarded_threads();
  bool are_handlers_there() const;
  Slot* slot_for(const Area& area);
  Slot* slot_of(vgpu::Address address);
  void close_areas(vgpu::OperationId last, std::vector<Area> areas);
  void close(const Area& area);
  void open(const Area& area);
  bool is_held(const Area& area) const;
  bool hold(const SystemCall& call, const Area& area);
  void drop_ended_calls();
  void give_up();
  void note_range(const SystemCall& call, const CallRange& range);

  void note(vgpu::Address address, uint64_t bytes, bool writes, uint64_t code, int call);
  uint64_t code_of_program(uint64_t code) const;
  Step* own_step(pid_t thread, bool make);
  bool begin_step(Slot& slot, vgpu::Address page, bool writes, ucontext_t& context);
  bool open_run(Slot& slot, vgpu::Address low, uint64_t bytes, bool writes);
  std::vector<checks::HostAccess> take_notes();
};

}  // namespace assay::cudart
