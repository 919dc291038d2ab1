#include <zlib.h>

#include "activity/activity.h"

namespace assay::activity {

namespace {

class Packer {
 public:
  explicit Packer(const Sink& sink) : sink_(sink) {
    constexpr int kWindowOfGzip = 15 + 16, kMemoryLevel = 8;
    is_good_ = deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, kWindowOfGzip, kMemoryLevel,
                            Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Packer() { deflateEnd(&stream_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void add(std::string_view piece) {
    constexpr std::size_t kMost = std::size_t{1} << 26;  // lengths of zlib have 32 bits
    for (; !piece.empty(); piece.remove_prefix(std::min(piece.size(), kMost)))
      pack(piece.substr(0, kMost), Z_NO_FLUSH);
  }
  void end() { pack("", Z_FINISH); }

 private:
  void pack(std::string_view piece, int flush) {
    if (!is_good_) return;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(room_.data());
      stream_.avail_out = static_cast<uInt>(room_.size());
      deflate(&stream_, flush);
      sink_({room_.data(), room_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  const Sink& sink_;
  z_stream stream_{};
  bool is_good_ = false;
  std::string room_ = std::string(std::size_t{1} << 16, '\0');
};

}  // namespace

void gzip(const std::function<void(const Sink&)>& write, const Sink& sink) {
  Packer packer(sink);
  write([&](std::string_view piece) { packer.add(piece); });
  packer.end();
}

}  // namespace assay::activity
