#include <zlib.h>

#include "activity/activity.h"

namespace assay::activity {

std::string gzip(std::string_view text) {
  constexpr int kWindowOfGzip = 15 + 16, kMemoryLevel = 8;
  constexpr std::size_t kPiece = std::size_t{1} << 26;  // lengths of zlib have 32 bits
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindowOfGzip, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    return "";
  std::string packed;
  std::string room(std::size_t{1} << 16, '\0');
  do {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = static_cast<uInt>(room.size());
      deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
      packed.append(room, 0, room.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!text.empty());
  deflateEnd(&stream);
  return packed;
}

}  // namespace assay::activity
