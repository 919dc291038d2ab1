#include "subject/worker/buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "protocol/protocol.h"
#include "subject/worker/failure.h"

namespace assay::worker {

using protocol::BufferRequest;
using protocol::CallRequest;
using protocol::Request;

namespace {

constexpr const char *kAllocation = "the allocation of a buffer", *kCopyIn = "a copy to the device",
                     *kPrepareStream = "the preparation of the stream", *kResults = "the copy of the results";

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

std::size_t size(int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

constexpr int64_t kPlaceBytes = 512,
                  kWord = 8;  // of a place that is looked at; of what a buffer is filled with
constexpr int kRandomPlaces = 64;

// Places of a large output, in order, none twice: multiples of kPlaceBytes and the end.
std::vector<int64_t> places(const BufferRequest& request, const protocol::SampleRequest& sample) {
  std::vector<int64_t> places;
  const int64_t last = std::max<int64_t>(0, (request.length - 1) / kPlaceBytes * kPlaceBytes);
  const auto add = [&](double share) {
    const auto at = static_cast<int64_t>(share * static_cast<double>(request.length));
    for (const int64_t near : {at - kPlaceBytes, at, at + kPlaceBytes})
      places.push_back(std::clamp<int64_t>(near / kPlaceBytes * kPlaceBytes, 0, last));
  };
  add(0);
  add(1);
  for (const double share : sample.shares) add(share);
  for (uint64_t i = 0; i < kRandomPlaces; ++i) add(static_cast<double>(mix(sample.seed, i) >> 11) * 0x1p-53);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

// Bytes up to the first word that holds what it was filled with; a few bytes at the end may.
int64_t first_unwritten(const std::vector<std::byte>& now, const GeneratedValues& before) {
  const auto length = static_cast<int64_t>(now.size());
  for (int64_t at = 0; at + kWord <= length; at += kWord)
    if (std::memcmp(now.data() + at, before.table.data(), size(kWord)) == 0) return at;
  return length;
}

}  // namespace

void delay(void*) {
  usleep(2000);
}

void Buffers::map(int64_t bytes) {
  if (bytes <= mapped_) return;
  if (file_) munmap(file_, size(mapped_));
  void* at = mmap(nullptr, size(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, protocol::kMemoryFile, 0);
  if (at == MAP_FAILED) _exit(4);
  file_ = static_cast<std::byte*>(at);
  mapped_ = bytes;
}

void Buffers::shift(int64_t bytes) {
  if (bytes <= 0 || shifted_) return;
  void* at = nullptr;
  check(runtime_.cudaMalloc(&at, size(bytes)), kAllocation);
  if (runtime_.assay_label) runtime_.assay_label(at, "(memory of somebody else)");
  shifted_ = true;
}

// The virtual device's managed memory is zero and costs nothing until it is touched.
std::byte* Buffers::allocate_bytes(int64_t bytes, bool sparse) const {
  void* at = nullptr;
  const bool lazy = sparse && !real_;
  check(lazy ? runtime_.cudaMallocManaged(&at, size(bytes), 1) : runtime_.cudaMalloc(&at, size(bytes)),
        kAllocation);
  if (sparse && real_) check(runtime_.cudaMemset(at, 0, size(bytes)), "a fill");
  return static_cast<std::byte*>(at);
}

bool Buffers::Memory::fits(const BufferRequest& request, Side wanted) const {
  return extent.bytes == request.bytes && sparse == !request.parts.empty() && !made && !request.made &&
         (!guarded || (side == wanted && extent.offset == request.offset && extent.length == request.length));
}

Buffers::Memory Buffers::allocate_buffer(const BufferRequest& request, Side side) {
  Memory memory{.extent = {request.bytes, request.offset, request.length},
                .sparse = !request.parts.empty(),
                .made = request.made.has_value(),
                .side = side};
  if (witnessed_ && !memory.sparse && !memory.made && memory.extent.length > 0) {
    const int64_t phase = request.offset % kAlignment, from = request.offset - phase;
    check(runtime_.cudaMalloc(&memory.exact, size(phase + request.length)), kAllocation);
    memory.guarded = GuardedMemory::Held{static_cast<std::byte*>(memory.exact) - from, from,
                                         request.offset + request.length};
  } else if (real_ && !memory.sparse && memory.extent.length > 0) {
    if (!guards_) guards_.emplace(find_virtual_memory());
    memory.guarded = guards_->allocate(memory.extent, side);
  }
  memory.base = memory.guarded ? memory.guarded->base : allocate_bytes(request.bytes, memory.sparse);
  return memory;
}

void Buffers::release(std::deque<Memory>& memories) {
  for (const Memory& memory : memories) {
    if (memory.exact)
      runtime_.cudaFree(memory.exact);
    else if (memory.guarded)
      guards_->release(*memory.guarded);
    else
      runtime_.cudaFree(memory.base);
    if (memory.copy) runtime_.cudaFree(memory.copy);
  }
  memories.clear();
}

bool Buffers::all_fit(const Request& request, Side side) const {
  std::size_t next = 0;
  for (const CallRequest& call : request.calls)
    for (const BufferRequest& buffer : call.buffers)
      if (next >= memories_.size() || !memories_[next++].fits(buffer, side)) return false;
  return next == memories_.size();
}

void Buffers::allocate(const Request& request) {
  const Side side = request.guard_begin ? Side::Begin : Side::End;
  if (request.moved || !all_fit(request, side)) {
    std::deque<Memory> old;
    if (request.moved) old.swap(memories_);  // freed last, so that its addresses are not handed out again
    release(memories_);
    for (const CallRequest& call : request.calls)
      for (const BufferRequest& buffer : call.buffers) memories_.push_back(allocate_buffer(buffer, side));
    release(old);
  }
  std::size_t next = 0;
  for (const CallRequest& call : request.calls)
    for (const BufferRequest& buffer : call.buffers) {
      Memory& memory = memories_[next++];
      if (runtime_.assay_label) runtime_.assay_label(memory.base, buffer.name.c_str());
      if (!request.ordered || memory.copy) continue;
      memory.copy = allocate_bytes(memory.extent.bytes, false);
      if (runtime_.assay_label) runtime_.assay_label(memory.copy, "(a copy that the caller keeps)");
    }
}

void Buffers::copy_parts(std::byte* to, const std::byte* from, const BufferRequest& request,
                         const Memory& memory, CopyKind kind, const char* stage) const {
  const auto copy = [&](int64_t at, int64_t length) {
    const int64_t begin = std::max(at, memory.from()), end = std::min(at + length, memory.to());
    if (begin < end) check(runtime_.cudaMemcpy(to + begin, from + begin, size(end - begin), kind), stage);
  };
  if (request.parts.empty()) copy(0, request.bytes);
  for (const auto& [at, length] : request.parts) copy(at, length);
}

void Buffers::fill(const CallRequest& call, std::size_t which, bool ordered) {
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (request.made) return make(request, memory);
    if (witnessed_ && !request.is_input) return;
    for (std::size_t i = 0; i < request.pointers.size(); ++i) {
      const std::byte* target = address(call, which, request.pointers[i]);
      std::memcpy(file_ + request.in + request.offset + size(8) * i, &target, sizeof target);
    }
    const std::byte* image = file_ + request.in;
    copy_parts(memory.base, image, request, memory, kHostToDevice, kCopyIn);
    if (request.length == 0) return;
    if (request.is_input && ordered) {
      check(runtime_.cudaMemcpy(memory.copy, image, size(memory.extent.bytes), kHostToDevice), kCopyIn);
      check(runtime_.cudaMemset(memory.base + request.offset, 0, size(request.length)), "a fill");
    }
    if (!request.is_input && runtime_.assay_undefine)
      runtime_.assay_undefine(memory.base + request.offset, size(request.length));
  });
}

GeneratedValues Buffers::generated_values(const protocol::GeneratedBuffer& made) const {
  const std::byte* table = file_ + made.table;
  return {.table = {table, table + made.table_bytes},
          .item = static_cast<uint32_t>(made.item),
          .seed = made.seed,
          .last_value = made.last_value,
          .last_index = made.last_index};
}

void Buffers::make(const BufferRequest& request, const Memory& memory) {
  const protocol::GeneratedBuffer& made = *request.made;
  if (real_)
    return device_fill_.fill(memory.base + request.offset, static_cast<uint64_t>(request.length),
                             generated_values(made));
  const bool done = runtime_.assay_make_on_touch &&
                    runtime_.assay_make_on_touch(memory.base, size(request.offset), size(request.length),
                                                 file_ + made.table, size(made.table_bytes),
                                                 static_cast<unsigned>(made.item), made.seed, made.last_value,
                                                 made.last_index, request.is_input);
  if (!done) throw Failed{kInvalidValue, kAllocation};
}

void Buffers::save_written(const CallRequest& call, std::size_t which) {
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (!request.made || request.made->room == 0) return;
    const auto room = size(request.made->room);
    // What does not fit is not looked at.
    if (!runtime_.assay_sample_written(memory.base, file_ + request.out, room))
      std::memset(file_ + request.out, 0, 8);
  });
}

void Buffers::save_places(const CallRequest& call, std::size_t which, const protocol::SampleRequest& sample,
                          protocol::SampleReport& report) {
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (!request.made || request.made->room == 0) return;
    const GeneratedValues before = generated_values(*request.made);
    std::vector<int64_t> pieces{0};  // how many; then the offset and the length of each
    std::vector<std::byte> contents;
    for (const int64_t place : places(request, sample)) {
      const int64_t length = std::min(kPlaceBytes, request.length - place);
      std::vector<std::byte> now(size(length));
      check(
          runtime_.cudaMemcpy(now.data(), memory.base + request.offset + place, size(length), kDeviceToHost),
          kResults);
      // Data of an input may stay as it is; undefined bytes are written, or they are what they were filled with.
      const int64_t written = request.is_input ? length : first_unwritten(now, before);
      if (written < length)
        report.unwritten.push_back({request.name, static_cast<uint64_t>(place + written)});
      if (written == 0) continue;
      ++pieces[0];
      pieces.insert(pieces.end(), {request.offset + place, written});
      contents.insert(contents.end(), now.begin(), now.begin() + written);
    }
    const std::size_t head = pieces.size() * sizeof(int64_t);
    if (head + contents.size() > size(request.made->room)) throw Failed{kInvalidValue, kResults};
    std::memcpy(file_ + request.out, pieces.data(), head);
    std::memcpy(file_ + request.out + head, contents.data(), contents.size());
  });
}

void Buffers::release_made() {
  if (std::any_of(memories_.begin(), memories_.end(), [](const Memory& memory) { return memory.made; }))
    release(memories_);
  if (guards_) guards_->trim();
}

void Buffers::queue_inputs(const CallRequest& call, std::size_t which, bool late) {
  if (late) check(runtime_.cudaLaunchHostFunc(streams_[which], delay, nullptr), kPrepareStream);
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (!request.is_input || request.length == 0) return;
    check(runtime_.cudaMemcpyAsync(memory.base + request.offset, memory.copy + request.offset,
                                   size(request.length), kDeviceToDevice, streams_[which]),
          kPrepareStream);
  });
}

void Buffers::protect_inputs(const CallRequest& call, std::size_t which) {
  if (!runtime_.assay_range_protect) return;
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (request.is_read_only && request.length > 0)
      runtime_.assay_range_protect(memory.base + request.offset, size(request.length), request.name.c_str());
  });
}

void Buffers::queue_outputs(const CallRequest& call, std::size_t which) {
  each(call, which, [&](const BufferRequest&, Memory& memory) {
    check(runtime_.cudaMemcpyAsync(memory.copy + memory.from(), memory.base + memory.from(),
                                   size(memory.to() - memory.from()), kDeviceToDevice, streams_[which]),
          kResults);
  });
}

void Buffers::save(const CallRequest& call, std::size_t which, bool from_copies) {
  if (witnessed_) return;
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    // What does not exist cannot have changed.
    if (memory.guarded) std::memcpy(file_ + request.out, file_ + request.in, size(request.bytes));
    copy_parts(file_ + request.out, from_copies ? memory.copy : memory.base, request, memory, kDeviceToHost,
               kResults);
  });
}

void Buffers::change_inputs(const CallRequest& call, std::size_t which, int byte) {
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (request.is_read_only && request.length > 0)
      check(runtime_.cudaMemset(memory.base + request.offset, byte, size(request.length)), "a fill");
  });
}

void Buffers::restore_inputs(const CallRequest& call, std::size_t which) {
  each(call, which, [&](const BufferRequest& request, Memory& memory) {
    if (request.is_read_only && request.length > 0)
      check(runtime_.cudaMemcpy(memory.base + request.offset, file_ + request.in + request.offset,
                                size(request.length), kHostToDevice),
            kCopyIn);
  });
}

std::vector<protocol::BufferPlace> Buffers::tensors(const Request& request) const {
  std::vector<protocol::BufferPlace> found;
  std::size_t next = 0;
  for (const CallRequest& call : request.calls)
    for (const BufferRequest& buffer : call.buffers) {
      if (next >= memories_.size()) return found;
      const Memory& memory = memories_[next++];
      if (buffer.shares < 0)
        found.push_back(
            {buffer.name, reinterpret_cast<uint64_t>(memory.base + buffer.offset), buffer.length});
    }
  return found;
}

std::byte* Buffers::address(const CallRequest& call, std::size_t which, int buffer) const {
  auto i = static_cast<std::size_t>(buffer);
  if (const int shares = call.buffers[i].shares; shares >= 0) i = static_cast<std::size_t>(shares);
  return memories_[index(call, which, i)].base + call.buffers[i].offset;
}

const std::byte* Buffers::filled(const CallRequest& call, std::size_t which, int buffer, bool ordered) const {
  const BufferRequest& request = call.buffers[static_cast<std::size_t>(buffer)];
  const Memory& memory = memories_[index(call, which, static_cast<std::size_t>(buffer))];
  return (ordered && request.is_input ? memory.copy : memory.base) + request.offset;
}

}  // namespace assay::worker
