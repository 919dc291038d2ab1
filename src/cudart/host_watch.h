// Watches what host code does with memory that it shares with the device while work that uses it is under
// way.
//
// The device has a mapping of its own of such memory (vgpu/memory.h), so the host's can be closed: from the
// time that work is asked for until the host has waited for it, the pages that the work may use fault when
// the host touches them. The fault is noted and the page opened; the race check judges it, byte by byte, once
// it knows what the work did. A kernel may use what its parameters point to, from there to the end of the
// allocation, and every __managed__ variable; a copy or fill uses its range, of which only pages that hold
// nothing else are closed: a system call that meets a closed page fails instead of faulting.
#pragma once

#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checks/host_access.h"
#include "vgpu/stream.h"

namespace assay::cudart {

// "program+0x1234": what addr2line wants to know.
std::string place_in_code(uint64_t code);

class HostWatch final : public vgpu::Listener {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);
  // `handler` of SIGSEGV calls note_fault(); a program that puts its own in that place is not watched.
  HostWatch(checks::HostJudge& judge, const vgpu::Memory& memory, vgpu::Streams& streams, Handler handler);
  ~HostWatch() override;
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // The host asked for work: `last` is the last operation of it.
  void submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works);
  // It waited for some; opens what is no longer used, and has what was noted judged.
  void waited();
  void judge();
  // Work starts: what was noted by now comes first, before memory forgets what it met.
  void on_operation(const vgpu::OperationInfo& info) override;
  bool hears_accesses(ptx::Space) const override { return false; }
  // An allocation goes.
  void forget(vgpu::Address base);
  void add_variable(vgpu::Address base);

  // From the signal handler: whether the access was to closed memory, and may happen now.
  bool note_fault(vgpu::Address address, bool writes, uint64_t code);

 private:
  struct Area {
    vgpu::Address low = 0, high = 0;  // whole pages
  };
  // An allocation that has been closed at some time; what the signal handler goes by.
  struct Slot {
    std::atomic<vgpu::Address> low{0}, high{0};
  };
  struct Note {
    vgpu::Address address = 0;
    uint64_t code = 0;  // of the instruction
    uint64_t submitted = 0, knowledge = 0;
    bool writes = false;
    std::atomic<bool> ready{false};
  };
  static constexpr size_t kSlots = 1024, kNotes = 65536;

  checks::HostJudge& judge_;
  const vgpu::Memory& memory_;
  vgpu::Streams& streams_;
  const Handler handler_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Note[], void (*)(void*)> notes_;  // zeroed pages, which exist when they are used
  std::atomic<size_t> slots_used_{0}, notes_used_{0};
  std::atomic<uint64_t> submitted_{0};
  std::mutex mutex_;  // of what follows
  std::map<vgpu::OperationId, std::vector<Area>> under_way_;
  std::vector<vgpu::Address> variables_;

  void add_areas(const vgpu::Work& work, std::vector<Area>& areas);
  void add_pointer(vgpu::Address address, std::vector<Area>& areas);
  void add_range(const vgpu::Place& place, uint64_t width, uint64_t height, uint64_t depth,
                 std::vector<Area>& areas);
  std::vector<checks::HostAccess> take_notes();
  bool is_handler_there() const;
  bool has_slot(vgpu::Address low, vgpu::Address high);
  void close_areas(vgpu::OperationId last, std::vector<Area> areas);
};

}  // namespace assay::cudart
