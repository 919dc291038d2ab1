// Any bytes are a fatbinary with images or an error; unpacking an image gives text or an error.
#include <cstddef>
#include <cstdint>

#include "fatbinary/fatbinary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::fatbinary;
  auto images = read_fatbinary({reinterpret_cast<const std::byte*>(data), size});
  if (!images) return 0;
  choose_ptx(*images, 90);
  for (const Image& image : *images)
    if (image.unpacked_size < (1 << 24)) (void)unpack(image);
  return 0;
}
