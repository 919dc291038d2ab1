// Memory that is allocated in order and released all at once, back to a mark or with the arena.
//
// Example:
//
//     Arena arena;
//     const Arena::Mark mark = arena.mark();
//     double* values = arena.get<double>(256);  // uninitialised, on a cache line of its own
//     arena.release(mark);                      // values are gone; the memory is kept for what comes next
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace assay {

class Arena {
 public:
  struct Mark {
    std::size_t chunk = 0, used = 0;
  };
  Mark mark() const { return {chunk_, used_}; }
  void release(Mark mark) {
    chunk_ = mark.chunk;
    used_ = mark.used;
  }

  // `align`: a power of two.
  void* allocate(std::size_t bytes, std::size_t align) {
    if (chunk_ < chunks_.size()) {
      const Chunk& chunk = chunks_[chunk_];
      if (const std::size_t place = chunk.place(used_, align); place + bytes <= chunk.size) {
        used_ = place + bytes;
        return chunk.bytes.get() + place;
      }
    }
    return allocate_in_next(bytes, align);
  }
  template <class T>
  T* get(int count) {
    constexpr std::size_t kCacheLine = 64;
    return static_cast<T*>(allocate(sizeof(T) * static_cast<std::size_t>(count), kCacheLine));
  }

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    // Where an aligned piece would begin, from `used` on.
    std::size_t place(std::size_t used, std::size_t align) const {
      const auto base = reinterpret_cast<std::uintptr_t>(bytes.get());
      return ((base + used + align - 1) & ~(align - 1)) - base;
    }
  };
  void* allocate_in_next(std::size_t bytes, std::size_t align);

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0;  // where the next piece begins
};

}  // namespace assay
