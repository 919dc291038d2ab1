// What the host did with closed memory: the part of HostWatch that runs in signal handlers, and what it
// noted.
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "cudart/code_place.h"
#include "cudart/host_watch.h"
#include "cudart/instruction.h"
#include "cudart/pages.h"

namespace assay::cudart {
namespace {

using vgpu::Address;

constexpr greg_t kTrapFlag = 0x100;
// From one closing to the next; and never more than this part of what is left in all.
constexpr uint32_t kStepsOfPage = 1024, kStepsOfSlot = 2048, kPartOfAll = 16;
constexpr uint32_t kRunsOfOneSize = 32;  // then runs of twice as many pages are opened
constexpr uint32_t kLargestRun = 20;     // log2 of pages

pid_t this_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

}  // namespace

HostWatch::Slot* HostWatch::slot_of(Address address) {
  const size_t used = slots_used_;
  for (size_t i = 0; i < used; ++i)
    if (address >= slots_[i].low && address < slots_[i].high) return &slots_[i];
  return nullptr;
}

void HostWatch::note(Address address, uint64_t bytes, bool writes, uint64_t code, int call) {
  const size_t place = notes_used_++;
  if (place >= kNotes) return;
  Note& note = notes_[place];
  note.address = address;
  note.bytes = bytes;
  note.code = code;
  note.call = call;
  // What a host function of a stream does comes before all that was asked for after it.
  const vgpu::OperationId function = streams_.host_call_here();
  note.submitted = function ? function : submitted_.load();
  note.knowledge = judge_.knowledge();
  note.writes = writes;
  note.ready = true;
}

// The place in the program, or in a library of its own, that called libc's memcpy and the like.
uint64_t HostWatch::code_of_program(uint64_t code) const {
  if (!libc_.contains(code)) return code;
  constexpr int kFrames = 16;
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  bool reached = false;
  for (int i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<uint64_t>(frames[i]);
    reached |= at == code;
    if (reached && !libc_.contains(at)) return at - 1;  // a return address: the call lies just before it
  }
  return code;
}

HostWatch::Step* HostWatch::own_step(pid_t thread, bool make) {
  for (size_t i = 0; i < kThreads; ++i)
    if (steps_[i].thread == thread) return &steps_[i];
  for (size_t i = 0; make && i < kThreads; ++i)
    if (steps_[i].thread == 0) {
      steps_[i].thread = thread;
      return &steps_[i];
    }
  return nullptr;
}

// The instruction happens, and then end_step().
bool HostWatch::begin_step(Slot& slot, Address page, bool writes, ucontext_t& context) {
  const pid_t thread = this_thread();
  if (slot.page.exchange(page) != page) slot.page_steps = 0;
  Step* step = own_step(thread, false);  // there is one where an instruction touches several pages
  const bool again = step && std::find(step->pages.begin(), step->pages.begin() + step->used, page) !=
                                 step->pages.begin() + step->used;
  if (!again) {
    const uint32_t left = steps_left_;
    if (slot.page_steps++ >= kStepsOfPage || slot.steps++ >= std::min(kStepsOfSlot, left / kPartOfAll))
      return false;
    --steps_left_;
    if (!step) step = own_step(thread, true);
    if (!step || step->used == Step::kPages) return false;
    step->pages[step->used++] = page;
  }
  const int protection = writes || is_held({page, page + kPage}) ? kOpen : PROT_READ;
  if (!protect(page, page + kPage, protection)) return false;
  context.uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
  return true;
}

bool HostWatch::end_step(ucontext_t& context) {
  greg_t& flags = context.uc_mcontext.gregs[REG_EFL];
  if ((flags & kTrapFlag) == 0) return false;
  flags &= ~kTrapFlag;
  HandlerTurn turn(pages_);
  Step* step = own_step(this_thread(), false);
  if (!step) return true;  // it ended in a handler of the program's that came between
  for (size_t i = 0; i < step->used; ++i) {
    const Area page{step->pages[i], step->pages[i] + kPage};
    if (slot_of(page.low) && !is_held(page)) protect(page.low, page.high, PROT_NONE);
  }
  step->used = 0;
  step->thread = 0;
  return true;
}

// More and more with each time, so that a walk through a large allocation meets few faults.
bool HostWatch::open_run(Slot& slot, Address low, uint64_t bytes, bool writes) {
  const uint32_t size = std::min(slot.opened++ / kRunsOfOneSize, kLargestRun);
  const Area all{slot.low, slot.high};
  if (all.high == 0) return false;
  const Address page = page_of(low);
  const Area run{page, std::min(all.high, std::max(next_page(low + bytes), page + (kPage << size)))};
  if (protect(run.low, run.high, writes || is_held(run) ? kOpen : PROT_READ)) return true;
  return protect(all.low, all.high, kOpen);
}

bool HostWatch::note_fault(Address address, bool writes, ucontext_t& context) {
  Slot* slot = slot_of(address);
  if (!slot) return false;
  const auto code = static_cast<uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  const Operand operand = operand_at(address, writes, context);
  const uint64_t bytes = std::min<uint64_t>(operand.bytes, slot->high - address);
  note(address, bytes, writes, code_of_program(code), -1);
  HandlerTurn turn(pages_);
  if (!operand.repeats && begin_step(*slot, page_of(address), writes, context)) return true;
  return open_run(*slot, address, bytes, writes);
}

std::vector<checks::HostAccess> HostWatch::take_notes() {
  std::lock_guard lock(mutex_);
  std::vector<checks::HostAccess> accesses;
  std::unordered_map<uint64_t, std::string> places;
  auto place_of = [&](const Note& note) {
    if (note.call >= 0) return std::string();
    auto [place, fresh] = places.try_emplace(note.code);
    if (fresh) place->second = place_in_code(note.code);
    return place->second;
  };
  const size_t noted = std::min(notes_used_.load(), kNotes);
  for (size_t i = 0; i < noted; ++i) {
    Note& note = notes_[i];
    if (note.ready.exchange(false))
      accesses.push_back({note.address, note.bytes, note.writes, note.submitted, note.knowledge,
                          place_of(note),
                          note.call >= 0 ? std::string(name_of_call(note.call)) : std::string()});
  }
  notes_used_ = 0;
  // Alike ones together; what the host does is in no need of order with itself.
  std::stable_sort(accesses.begin(), accesses.end(), [](const auto& a, const auto& b) {
    return std::tie(a.knowledge, a.submitted, a.writes, a.place, a.system_call) <
           std::tie(b.knowledge, b.submitted, b.writes, b.place, b.system_call);
  });
  return accesses;
}

void HostWatch::judge() {
  if (notes_used_ == 0) return;
  const std::vector<checks::HostAccess> accesses = take_notes();
  streams_.with_device([&](vgpu::Device&) { judge_.judge(accesses); });
}

void HostWatch::on_operation(const vgpu::OperationInfo& info) {
  using Kind = vgpu::OperationInfo::Kind;
  // Only these start on the device's own thread, between steps of grids.
  const bool works = info.kind == Kind::Grid || info.kind == Kind::Copy || info.kind == Kind::Fill;
  if (works && notes_used_ != 0) judge_.judge(take_notes());
}

}  // namespace assay::cudart
