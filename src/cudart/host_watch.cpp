#include "cudart/host_watch.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>

namespace assay::cudart {
namespace {

using vgpu::Address;

constexpr Address kPage = 4096;

Address page_of(Address address) {
  return address & ~(kPage - 1);
}
Address next_page(Address address) {
  return page_of(address + kPage - 1);
}

void protect(Address low, Address high, int protection) {
  mprotect(reinterpret_cast<void*>(low), high - low, protection);
}

// Allocations whose mapping for the host can be closed.
bool is_shared(const vgpu::Allocation& a) {
  return (a.kind == vgpu::MemoryKind::Managed || a.kind == vgpu::MemoryKind::Pinned) && !a.adopted &&
         reinterpret_cast<Address>(a.backing) != a.base;
}

}  // namespace

std::string place_in_code(uint64_t code) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(code), &info) == 0 || !info.dli_fname) return "somewhere";
  // Programs that are not linked to move count from 0.
  const auto* header = static_cast<const Elf64_Ehdr*>(info.dli_fbase);
  const uint64_t base = header->e_type == ET_EXEC ? 0 : reinterpret_cast<uint64_t>(header);
  return fmt::format("{}+{:#x}", std::filesystem::path(info.dli_fname).filename().string(), code - base);
}

HostWatch::HostWatch(checks::HostJudge& judge, const vgpu::Memory& memory, vgpu::Streams& streams,
                     Handler handler)
    : judge_(judge),
      memory_(memory),
      streams_(streams),
      handler_(handler),
      slots_(std::make_unique<Slot[]>(kSlots)),
      notes_(static_cast<Note*>(std::calloc(kNotes, sizeof(Note))), &std::free) {}

HostWatch::~HostWatch() {
  for (const auto& [operation, areas] : under_way_)
    for (const Area& area : areas) protect(area.low, area.high, PROT_READ | PROT_WRITE);
}

// ---- What work may use ----

void HostWatch::add_pointer(Address address, std::vector<Area>& areas) {
  if (address == 0 || memory_.is_device_address(address)) return;
  const std::optional<vgpu::Allocation> found = memory_.find(address);
  if (found && is_shared(*found)) areas.push_back({page_of(address), next_page(found->end())});
}

void HostWatch::add_range(const vgpu::Place& place, uint64_t width, uint64_t height, uint64_t depth,
                          std::vector<Area>& areas) {
  if (place.host || width == 0 || memory_.is_device_address(place.address)) return;
  const std::optional<vgpu::Allocation> found = memory_.find(place.address);
  if (!found || !is_shared(*found)) return;
  const bool dense =
      (height == 1 || place.row_pitch == width) && (depth == 1 || place.slice_pitch == width * height);
  if (!dense) return;
  const Address low = place.address, high = low + width * height * depth;
  const Area whole{low == found->base ? page_of(low) : next_page(low),
                   high == found->end() ? next_page(high) : page_of(high)};
  if (whole.low < whole.high) areas.push_back(whole);
}

void HostWatch::add_areas(const vgpu::Work& work, std::vector<Area>& areas) {
  if (const auto* copy = std::get_if<vgpu::CopyWork>(&work)) {
    add_range(copy->to, copy->width, copy->height, copy->depth, areas);
    add_range(copy->from, copy->width, copy->height, copy->depth, areas);
  } else if (const auto* fill = std::get_if<vgpu::FillWork>(&work)) {
    add_range(fill->to, fill->width, fill->height, fill->depth, areas);
  } else if (const auto* grid = std::get_if<vgpu::GridWork>(&work)) {
    for (size_t at = 0; at + sizeof(Address) <= grid->parameters.size(); at += sizeof(Address)) {
      Address word;
      std::memcpy(&word, grid->parameters.data() + at, sizeof word);
      add_pointer(word, areas);
    }
    for (Address variable : variables_) add_pointer(variable, areas);
  }
}

// ---- Closing and opening ----

bool HostWatch::is_handler_there() const {
  struct sigaction now {};
  return sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_sigaction == handler_;
}

bool HostWatch::has_slot(Address low, Address high) {
  const std::optional<vgpu::Allocation> found = memory_.find(high - kPage);
  if (!found) return false;
  low = page_of(found->base);
  high = next_page(found->end());
  const size_t used = slots_used_;
  size_t empty = used;
  for (size_t i = 0; i < used; ++i) {
    if (slots_[i].low == low && slots_[i].high == high) return true;
    if (slots_[i].high == 0) empty = i;
  }
  if (empty == kSlots) return false;
  slots_[empty].low = low;
  slots_[empty].high = high;
  if (empty == used) slots_used_ = used + 1;
  return true;
}

void HostWatch::close_areas(vgpu::OperationId last, std::vector<Area> areas) {
  submitted_ = last;
  std::erase_if(areas, [&](const Area& area) { return !has_slot(area.low, area.high); });
  if (areas.empty() || !is_handler_there()) return;
  for (const Area& area : areas) protect(area.low, area.high, PROT_NONE);
  under_way_[last] = std::move(areas);
}

void HostWatch::submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works) {
  std::lock_guard lock(mutex_);
  std::vector<Area> areas;
  for (const vgpu::OrderedWork& item : works) add_areas(item.work, areas);
  close_areas(last, std::move(areas));
}

void HostWatch::waited() {
  {
    std::lock_guard lock(mutex_);
    bool opened = false;
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      if (!judge_.is_known_done(it->first)) {
        ++it;
        continue;
      }
      for (const Area& area : it->second) protect(area.low, area.high, PROT_READ | PROT_WRITE);
      opened = true;
      it = under_way_.erase(it);
    }
    if (opened)  // what others still use
      for (const auto& [operation, areas] : under_way_)
        for (const Area& area : areas) protect(area.low, area.high, PROT_NONE);
  }
  judge();
}

void HostWatch::forget(Address base) {
  std::lock_guard lock(mutex_);
  const Address low = page_of(base);
  for (size_t i = 0; i < slots_used_; ++i) {
    if (slots_[i].low != low || slots_[i].high == 0) continue;
    const Address high = slots_[i].high.exchange(0);
    for (auto& [operation, areas] : under_way_)
      std::erase_if(areas, [&](const Area& area) { return area.low >= low && area.low < high; });
  }
}

void HostWatch::add_variable(Address base) {
  std::lock_guard lock(mutex_);
  variables_.push_back(base);
}

// ---- What the host did ----

bool HostWatch::note_fault(Address address, bool writes, uint64_t code) {
  const size_t used = slots_used_;
  bool closed = false;
  for (size_t i = 0; i < used && !closed; ++i) closed = address >= slots_[i].low && address < slots_[i].high;
  if (!closed) return false;
  if (const size_t place = notes_used_++; place < kNotes) {
    Note& note = notes_[place];
    note.address = address;
    note.code = code;
    note.submitted = submitted_;
    note.knowledge = judge_.knowledge();
    note.writes = writes;
    note.ready = true;
  }
  const Address page = page_of(address);
  protect(page, page + kPage, writes ? PROT_READ | PROT_WRITE : PROT_READ);
  return true;
}

std::vector<checks::HostAccess> HostWatch::take_notes() {
  std::lock_guard lock(mutex_);
  std::vector<checks::HostAccess> accesses;
  const size_t noted = std::min(notes_used_.load(), kNotes);
  for (size_t i = 0; i < noted; ++i) {
    Note& note = notes_[i];
    if (note.ready.exchange(false))
      accesses.push_back(
          {note.address, note.writes, note.submitted, note.knowledge, place_in_code(note.code)});
  }
  notes_used_ = 0;
  // Alike ones together; what the host does is in no need of order with itself.
  std::stable_sort(accesses.begin(), accesses.end(), [](const auto& a, const auto& b) {
    return std::tie(a.knowledge, a.submitted, a.writes, a.place) <
           std::tie(b.knowledge, b.submitted, b.writes, b.place);
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
