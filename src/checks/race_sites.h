// The instructions that the race check has met, by number. They outlive the code that they describe: what a
// kernel left in memory may be compared with what another does after its module is gone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "checks/race_grid_reads.h"
#include "checks/race_shadow.h"
#include "vgpu/program.h"
#include "vgpu/watch.h"

namespace assay::checks {

struct RaceSite {
  std::string file;
  uint32_t line = 0;
  std::string where;  // file and line, or the PTX line
  vgpu::AccessKind kind{};
  bool asynchronous = false;
  bool hoisted = false;      // a load whose value only a selp uses: the compiler moved it
                             // out of a condition
  bool noncoherent = false;  // a load through the read-only cache: ld.global.nc, ldu
  std::vector<vgpu::SourceFrame> frames;
};

// A load whose value only a selp sees, by a predicate that is known at the load: it counts for the lanes that
// the selp will pick it for.
struct Chooser {
  vgpu::PlaneOffset predicate = 0;
  bool known = false;
  bool when = true;  // the value of the predicate that picks it

  uint32_t picked(const vgpu::Warp& warp) const;
};

// Numbers that were looked up lately; one for each thread of the host at a time.
struct SiteCache {
  struct Entry {
    const vgpu::Inst* inst = nullptr;
    uint64_t version = 0;
    uint32_t number = 0;
    Chooser chooser{};
    bool noncoherent = false;
    bool awaited = false;    // a volatile load that is part of a wait loop
    bool only_read = false;  // a load of what its grid cannot write (race_grid_reads.h)
    vgpu::Address last = 0;  // where it was, of lane 0
  };
  Entry entries[256];
  std::shared_ptr<const OnlyRead> only_read;  // of the launch; null: none

  // What is remembered from now on belongs to another launch.
  void begin(std::shared_ptr<const OnlyRead> loads) {
    if (only_read == loads) return;
    only_read = std::move(loads);
    for (Entry& entry : entries) entry.inst = nullptr;
  }
  bool is_only_read(const vgpu::Inst& inst) const {
    return only_read && std::binary_search(only_read->loads.begin(), only_read->loads.end(), inst.source);
  }
};

// Which barriers are looked for in the code: none, those of the block, those of the warp as well.
enum class Barriers : uint8_t { None, Block, Warp };

class RaceSites {
 public:
  RaceSites() : version_(new_version()), sites_(1) {}
  // An instruction's number: 0 when there are too many.
  SiteCache::Entry& find(SiteCache& cache, const vgpu::Warp& warp, const vgpu::Inst& inst,
                         vgpu::AccessKind kind, bool asynchronous) {
    auto& entry =
        cache.entries[reinterpret_cast<uintptr_t>(&inst) / sizeof(vgpu::Inst) % std::size(cache.entries)];
    const uint64_t version = version_.load(std::memory_order_relaxed);
    if (entry.inst != &inst || entry.version != version) {
      const Known known = look_up(warp, inst, kind, asynchronous);
      entry = {&inst, version, known.number, known.chooser, known.noncoherent, known.awaited};
      entry.only_read = cache.is_only_read(inst) && !known.chooser.known && !is_hoisted(known.number);
    }
    return entry;
  }
  const RaceSite* at(uint32_t number) const;
  // Whether a thread may get from one site to another without passing a barrier that `counts`. Of sites of
  // the running launches; false where that is not known.
  bool is_reached(uint32_t from, uint32_t to, Barriers counts) const;
  // Whether every store of a site is to an address that a load of the other has just read in the same thread:
  // x[i] = f(x[i]). Of sites of the running launches.
  bool is_update(uint32_t load, uint32_t store) const;
  bool is_hoisted(uint32_t number) const { return hoisted_[number].load(std::memory_order_relaxed); }
  // The addresses of instructions mean something else from now on.
  void forget_instructions();

 private:
  struct Known {
    uint32_t number = 0;
    Chooser chooser{};
    bool noncoherent = false;
    bool awaited = false;
  };
  static uint64_t new_version();
  Known look_up(const vgpu::Warp& warp, const vgpu::Inst& inst, vgpu::AccessKind kind, bool asynchronous);

  mutable std::mutex mutex_;
  std::atomic<uint64_t>
      version_;  // different in every object and after every forgetting: numbers are cached by it
  std::deque<RaceSite> sites_;
  std::array<std::atomic<bool>, kMostSites + 1> hoisted_{};  // by number, to be asked without the lock
  struct Code {
    const ptx::Function* function = nullptr;
    std::vector<size_t> sources;  // a line that was unrolled has several
  };
  std::unordered_map<uint32_t, Code> code_;  // by number, as long as instructions are remembered
  std::unordered_map<const vgpu::Inst*, Known> by_instruction_;
  std::unordered_map<std::string, uint32_t> by_place_;
};

}  // namespace assay::checks
