// The words of shared memory, several at a time. What is not settled here goes to the functions for one word.
//
// No include guard: race_shared_wide.cpp includes this once for each instruction set, with ASSAY_WIDE the name of a
// struct in SharedShadow and ASSAY_VECTORS the vectors that it works with:
//
//   Vector, Mask   kWidth cells, and which of them
//   test, testn    the cells of a mask that have any, none of these bits
//   load, store    cells in a row
//   gather, scatter  wherever an index says; the last lane wins
//   look_up        of a table of 32, by the lowest five bits
namespace assay::checks {

struct SharedShadow::ASSAY_WIDE {
  using V = ASSAY_VECTORS;
  using Vector = V::Vector;
  using Mask = V::Mask;

  // Cells in a row, or anywhere.
  struct Adjacent {
    uint32_t first;
    Vector load(const uint32_t* from, Mask) const { return V::load(from + first); }
    void store(uint32_t* to, Mask mask, Vector v) const { V::store(to + first, mask, v); }
    uint32_t at(uint32_t k) const { return first + k; }
    static constexpr bool kDistinct = true;
  };
  struct Scattered {
    Vector index;
    Vector load(const uint32_t* from, Mask mask) const { return V::gather(from, mask, index); }
    void store(uint32_t* to, Mask mask, Vector v) const { V::scatter(to, mask, index, v); }
    uint32_t at(uint32_t k) const { return index[k]; }
    static constexpr bool kDistinct = false;
  };

  SharedShadow& shadow;
  const Visit& visit;
  bool updates;  // an atomic: lanes at one place are no conflict

  ASSAY_WIDE(SharedShadow& s, const Visit& v)
      : shadow(s), visit(v), updates(v.writes && v.actor.kind != vgpu::AccessKind::Store) {}

  static bool any(Mask mask) { return V::bits(mask) != 0; }
  template <class F>
  static void each(Mask mask, F&& f) {
    for (uint32_t rest = V::bits(mask); rest; rest &= rest - 1)
      f(static_cast<uint32_t>(std::countr_zero(rest)));
  }

  // The cells that may conflict. Everybody knows what came before this phase.
  Mask suspects(Vector before, Vector mine, Mask mask) const {
    const Mask recent = V::at_least(V::test(mask, before & mine, kBytes), before, V::all(shadow.past_));
    if (!any(recent)) return recent;
    const Mask open = V::at_least(recent, before, V::look_up(visit.below, before >> 11));
    if (!any(open)) return open;
    const Mask several = V::equal(open, mine & kShare, V::all(kSeveral));
    const Mask same = V::testn(V::without(open, several), before ^ mine, kWarp | kLane | kShare);
    const Mask strong = V::test(open, before & mine, kStrongBit);
    const Mask harmless = V::testn(V::either(same, strong), before, kFlying);
    return V::without(open, harmless);
  }

  template <class Place>
  void judge(const Place& place, Vector before, Vector mine, Mask mask) const {
    const Mask found = suspects(before, mine, mask);
    if (!any(found)) [[likely]]
      return;
    each(found, [&](uint32_t k) { shadow.judge(visit, before[k], mine[k], place.at(k)); });
  }

  // Cells that hold something else than they were given: another lane of the same instruction came after.
  template <class Place>
  static Mask lost(const Place& place, const uint32_t* cells, Mask mask, Vector mine) {
    if constexpr (Place::kDistinct) return V::none();
    return V::differ(mask, place.load(cells, mask), mine);
  }

  template <class Place>
  void read(const Place& place, Vector mine, Mask mask) const {
    if (shadow.may_meet_writes()) judge(place, place.load(shadow.write(), mask), mine, mask);
    uint32_t* const first = shadow.read();
    const Vector before = place.load(first, mask);
    const Mask changed = V::differ(mask, before, mine);
    if (!any(changed)) return;
    const Mask taken = V::at_least(changed, before, V::all(shadow.past_)), free = V::without(changed, taken);
    place.store(first, free, mine);
    Mask again = lost(place, first, free, mine);
    if (any(taken)) again = V::either(again, read_other(place, before, mine, taken));
    each(again, [&](uint32_t k) { shadow.remember_read(place.at(k), mine[k]); });
  }

  // Somebody has read it already. Gives the words that need a closer look.
  template <class Place>
  Mask read_other(const Place& place, Vector before, Vector mine, Mask mask) const {
    uint32_t* const cells = shadow.other();
    const Vector there = place.load(cells, mask);
    constexpr uint32_t kAuthor = ~(kLane | kShare | kBytes);
    const Mask known =
        V::either(V::testn(mask, before ^ mine, kAuthor), V::testn(mask, there ^ mine, kAuthor));
    const Mask fresh = V::without(mask, known);
    place.store(cells, fresh, mine);
    return V::either(V::differ(known, there, mine), lost(place, cells, fresh, mine));
  }

  template <class Place>
  void write(const Place& place, Vector mine, Mask mask) const {
    uint32_t* const cells = shadow.write();
    judge(place, place.load(cells, mask), mine, mask);
    for (uint32_t* const reads : {shadow.read(), shadow.other()}) {
      if (!shadow.read_) break;
      const Vector before = place.load(reads, mask);
      const Mask recent = V::at_least(mask, before, V::all(shadow.past_));
      if (!any(recent)) continue;
      judge(place, before, mine, recent);
      place.store(reads, V::testn(recent, before & ~mine, kBytes), Vector{});
    }
    place.store(cells, mask, mine);
    each(lost(place, cells, mask, mine), [&](uint32_t k) {
      uint32_t& cell = cells[place.at(k)];
      if (!updates)
        shadow.word(visit, place.at(k), mine[k]);
      else if (((cell ^ mine[k]) & kBytes) == 0)
        cell = (cell & ~kShare) | kSeveral;
    });
  }

  template <class Place>
  void go(const Place& place, Vector mine, Mask mask) const {
    visit.writes ? write(place, mine, mask) : read(place, mine, mask);
  }

  void run(const Run& run) const {
    for (uint32_t k = 0; k < run.count; k += V::kWidth) {
      const Vector lanes = ((V::count() + k) << 2 >> run.shift) + run.lane;
      go(Adjacent{run.first + k}, run.cell | lanes << 6, V::first(run.count - k));
    }
  }

  void lanes(uint32_t lanes) const {
    using Addresses = uint64_t __attribute__((vector_size(V::kWidth * 8)));
    const vgpu::Access& access = *visit.actor.access;
    const uint32_t bytes = access.bytes, limit = shadow.words_ * 4;
    if (bytes > limit) return;
    const uint32_t whole = bytes >= 4 ? kBytes : (1u << bytes) - 1;
    for (uint32_t k = 0; k < vgpu::kWarpSize; k += V::kWidth) {
      Addresses wide_at;
      __builtin_memcpy(&wide_at, access.addresses + k, sizeof wide_at);
      const Addresses least = wide_at < 0xffffffff ? wide_at : Addresses{} + 0xffffffff;
      const Vector at = __builtin_convertvector(least, Vector);
      const Mask mask = V::at_least(V::these(lanes >> k), V::all(limit - bytes), at);
      if (!any(mask)) continue;
      const Vector own = (visit.cell | (V::count() + k) << 6) | (whole << (at & 3));
      for (uint32_t e = 0; e < bytes; e += 4) go(Scattered{(at + e) >> 2}, own, mask);
    }
  }
};

}  // namespace assay::checks
