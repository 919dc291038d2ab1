// The device memory of a call: allocated as the request says, filled from the memory file, and copied back.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "protocol/messages.h"
#include "subject/worker/device_fill.h"
#include "subject/worker/guarded_memory.h"
#include "subject/worker/runtime.h"

namespace assay::worker {

class Buffers {
 public:
  // `streams`: one for each call. `witnessed`: a tool looks for accesses past the end and for what was never written. So
  // allocations of a real GPU end where their tensors do, nothing is put into outputs, and nothing is copied back.
  Buffers(const Runtime& runtime, const Stream* streams, bool real_gpu, bool witnessed)
      : runtime_(runtime),
        streams_(streams),
        real_(real_gpu),
        witnessed_(real_gpu && witnessed),
        device_fill_(runtime) {}

  // Maps as much of the memory file.
  void map(int64_t bytes);
  // Before the first call of a process: later buffers lie further on by this many bytes.
  void shift(int64_t bytes);
  // Buffers stay where they are when their sizes do, unless they are to move.
  void allocate(const protocol::Request& request);

  // Each of these is for the call number `which`.

  // Fills the allocations. In an ordered call the inputs wait in copies, and zeros take their place.
  void fill(const protocol::CallRequest& call, std::size_t which, bool ordered);
  // Queues the inputs of an ordered call on its stream; `late`: after a pause.
  void queue_inputs(const protocol::CallRequest& call, std::size_t which, bool late);
  // A write to an input is a finding from here on. Writes that were queued before still count as the
  // caller's.
  void protect_inputs(const protocol::CallRequest& call, std::size_t which);
  // Queues copies of all allocations of an ordered call on its stream.
  void queue_outputs(const protocol::CallRequest& call, std::size_t which);
  // Of a call of which a sample was run: what was written, to the memory file.
  void save_written(const protocol::CallRequest& call, std::size_t which);
  // The same on a real GPU, which has run all blocks: what was written at some places, the ends of each output, these
  // shares of it and random ones among them. Places that were not written go to the report.
  void save_places(const protocol::CallRequest& call, std::size_t which,
                   const protocol::SampleRequest& sample, protocol::SampleReport& report);
  // Gives memory back that is made as it is touched: no other call can use it.
  void release_made();
  // Copies the allocations, or those copies, to the memory file.
  void save(const protocol::CallRequest& call, std::size_t which, bool from_copies);

  // Other bytes in what the call may only read, and what the memory file holds for it again.
  void change_inputs(const protocol::CallRequest& call, std::size_t which, int byte);
  void restore_inputs(const protocol::CallRequest& call, std::size_t which);

  // Where the tensors of a request are.
  std::vector<protocol::BufferPlace> tensors(const protocol::Request& request) const;

  // What the subject is given for a buffer.
  std::byte* address(const protocol::CallRequest& call, std::size_t which, int buffer) const;
  // Once it is filled: where the bytes are that it will hold when the call begins.
  const std::byte* filled(const protocol::CallRequest& call, std::size_t which, int buffer,
                          bool ordered) const;

 private:
  struct Memory {
    std::byte* base = nullptr;
    std::byte* copy = nullptr;  // of an ordered call
    Extent extent;
    bool sparse = false;  // only parts of it are used
    bool made = false;    // filled as it is touched
    std::optional<GuardedMemory::Held> guarded;
    void* exact = nullptr;  // … or an allocation that is no larger than the tensor
    Side side = Side::End;  // … which faults
    bool fits(const protocol::BufferRequest& request, Side wanted) const;
    // The bytes of the allocation that exist: all of it, unless an unmapped page comes first.
    int64_t from() const { return guarded ? guarded->from : 0; }
    int64_t to() const { return guarded ? guarded->to : extent.bytes; }
  };

  bool all_fit(const protocol::Request& request, Side side) const;
  Memory allocate_buffer(const protocol::BufferRequest& request, Side side);
  std::byte* allocate_bytes(int64_t bytes, bool sparse) const;
  void release(std::deque<Memory>& memories);
  void make(const protocol::BufferRequest& request, const Memory& memory);
  GeneratedValues generated_values(const protocol::GeneratedBuffer& made) const;
  void copy_parts(std::byte* to, const std::byte* from, const protocol::BufferRequest& request,
                  const Memory& memory, CopyKind kind, const char* stage) const;
  std::size_t index(const protocol::CallRequest& call, std::size_t which, std::size_t buffer) const {
    return which * call.buffers.size() + buffer;
  }
  // Calls `use` with each buffer that has memory of its own.
  template <class Use>
  void each(const protocol::CallRequest& call, std::size_t which, Use use) {
    for (std::size_t i = 0; i < call.buffers.size(); ++i)
      if (call.buffers[i].shares < 0) use(call.buffers[i], memories_[index(call, which, i)]);
  }

  const Runtime& runtime_;
  const Stream* streams_;
  bool real_, witnessed_;
  DeviceFill device_fill_;
  bool shifted_ = false;
  std::optional<GuardedMemory> guards_;  // of a real GPU, from the first allocation on
  std::deque<Memory> memories_;          // of all calls, in order
  std::byte* file_ = nullptr;            // the memory file
  int64_t mapped_ = 0;
};

// A pause on a stream.
void delay(void*);

}  // namespace assay::worker
