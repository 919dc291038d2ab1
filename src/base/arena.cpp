#include "base/arena.h"

#include <algorithm>

namespace assay {
namespace {

// Large enough that chunks are rare; pages of it that are never touched cost nothing.
constexpr std::size_t kChunk = std::size_t{1} << 20;

}  // namespace

void* Arena::allocate_in_next(std::size_t bytes, std::size_t align) {
  if (!chunks_.empty()) ++chunk_;
  const bool fits =
      chunk_ < chunks_.size() && chunks_[chunk_].place(0, align) + bytes <= chunks_[chunk_].size;
  if (!fits) {
    const std::size_t size = std::max(bytes + align, kChunk);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk_),
                   {std::make_unique_for_overwrite<std::byte[]>(size), size});
  }
  const std::size_t place = chunks_[chunk_].place(0, align);
  used_ = place + bytes;
  return chunks_[chunk_].bytes.get() + place;
}

}  // namespace assay
