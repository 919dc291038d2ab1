#include "base/arena.h"

#include <algorithm>
#include <cstdint>

namespace assay {
namespace {

// Large enough that chunks are rare; pages of it that are never touched cost nothing.
constexpr std::size_t kChunk = std::size_t{1} << 20;

}  // namespace

void* Arena::allocate(std::size_t bytes, std::size_t align) {
  // Where an aligned piece would begin in a chunk, from `used` on.
  const auto place_in = [align](const Chunk& chunk, std::size_t used) {
    const auto base = reinterpret_cast<std::uintptr_t>(chunk.bytes.get());
    return (base + used + align - 1) / align * align - base;
  };
  const auto fits = [&](std::size_t used) {
    return chunk_ < chunks_.size() && place_in(chunks_[chunk_], used) + bytes <= chunks_[chunk_].size;
  };
  if (!fits(used_)) {
    if (!chunks_.empty()) ++chunk_;
    used_ = 0;
    if (!fits(0)) {
      const std::size_t size = std::max(bytes + align, kChunk);
      chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk_),
                     {std::make_unique_for_overwrite<std::byte[]>(size), size});
    }
  }
  const std::size_t place = place_in(chunks_[chunk_], used_);
  used_ = place + bytes;
  return chunks_[chunk_].bytes.get() + place;
}

}  // namespace assay
