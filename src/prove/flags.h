// Flags: one block announces to another that it has written something.
//
//     partial[tile] = sum;                       // (1)
//     __threadfence();
//     atomicExch(&flag[tile], 1);                // all flags were 0 when the kernel began
//     …
//     while (atomicAdd(&flag[tile - 1], 0) == 0) {}
//     __threadfence();
//     … partial[tile - 1] …                      // (2)
//
// Let A be an access of one block, such as (1), and B an access of another, such as (2), that may touch the same byte. A happens
// before B if the thread of B found a value in a flag that only A's block can have put there, after A and a fence, and then
// passed a fence itself. The value that it found is a variable, and only the thread's path says anything about it. So the
// question is: with A and B at one byte, can the path of B hold although the value came from elsewhere? It may have come from
//   - the start of the kernel: 0, if the host code has set the flags to 0;
//   - a store to the same place by some block, which gives the stored value. If A precedes that store, with a fence in between
//     (BlockOrder::is_released), the value is from elsewhere only if the block is not A's; otherwise it is, whichever block made
//     the store.
// If neither is possible, then A, fence, flag, flag, fence, B is the memory model's release and acquire pattern. If a path has
// not looked at the flag, or may not have, the value is free to be 0, and nothing follows. An atomic operation that writes what
// it has read (atomicAdd(p, 0)) passes on the value that it found, and the order with it.
//
// Often one thread waits for the whole block: thread 0 finds the flag set, passes a fence and then a barrier, and all threads
// read behind that barrier. A thread behind the barrier knows that thread 0 of its block has reached it, so the path of thread 0
// to the barrier says what the flag was.
#pragma once

#include "prove/other_thread.h"
#include "prove/shared_use.h"

namespace assay::prove {

class BlockOrder;

class FlagOrder {
 public:
  FlagOrder(Setting& setting, BlockOrder& order) : setting_(setting), order_(order) {}

  // Whether the first, by any thread of one block, happens before the second, by any thread of another, because of a flag.
  bool is_before(const Access& first, const Access& second);

 private:
  // Who has looked at the flags that B relies on, and under which conditions.
  struct Receiver {
    std::vector<const FlagRead*> reads;
    Path path{};                                       // of another thread of the block, to a barrier
    std::optional<ThreadIndex> thread = std::nullopt;  // that one; none: the thread of B itself
  };
  // Why a block has stored in a flag behind A.
  enum class Sent : uint8_t { Not, ByBlock, ByThread };

  std::vector<Receiver> receivers(const Access& second);
  std::optional<Receiver> behind_barrier(const Barrier& barrier);
  bool is_free(const FlagRead& read);
  bool orders(const Access& first, const Access& second, const Receiver& receiver);
  Formula came_from_elsewhere(Lowering& lowering, const Access& first, OtherThread& theirs,
                              const FlagRead& read, OtherThread& reader);
  Formula from(Lowering& lowering, const Access& source, const Access& first, OtherThread& theirs, Term at,
               Term seen);
  Sent sent(const Access& source, const Access& first);
  Formula differ(Lowering& lowering, OtherThread* one, OtherThread& other, bool threads);
  bool is_zeroed(Lowering& lowering, const FlagRead& read, Term at);
  const Access* access_of(const FlagRead& read) const;
  OtherThread of_another_block();

  Setting& setting_;
  BlockOrder& order_;
  std::map<std::pair<const Access*, const Access*>, bool> known_;
};

// The offset of an address from where its array begins. Throws TooHard where there is none.
Poly offset_from_base(Terms& terms, Lowering& lowering, Term address);
// Two accesses of so many bytes have one in common.
Formula overlap(const Poly& a, uint32_t a_bytes, const Poly& b, uint32_t b_bytes);

}  // namespace assay::prove
