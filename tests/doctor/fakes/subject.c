/* A library with device code as nvcc leaves it: one PTX image in .nv_fatbin, a libcudart.so.12, and a function that it
   expects of torch. Tests change bytes of the file: the architecture, the kind, the versions. */
#include <stdint.h>

#define TEXT "//\n.version 9.0\n.target sm_90\n.address_size 64\n\t.loc 1 1 1\n"
#define ROOM 128

struct Container {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;
  uint16_t kind, image_version;
  uint32_t image_header_size;
  uint64_t payload_size;
  uint32_t packed_size, options_offset;
  uint16_t minor, major;
  uint32_t architecture;
  uint32_t name_offset, name_size;
  uint64_t flags, unused, unpacked_size;
  char text[ROOM];
};

__attribute__((section(".nv_fatbin"), used)) const struct Container code = {
    0xba55ed50, 1, 16, 64 + ROOM, 1, 1, 64, ROOM, 0, 0, 0, 9, 90, 0, 0, 0, 0, 0, TEXT};

void _ZN3c104warnEv(void); /* c10::warn() */
void call_torch(void) {
  _ZN3c104warnEv();
}
