// Any bytes are a message of the protocol or an error; what was read can be written, and reads the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "protocol/event.h"
#include "protocol/messages.h"
#include "protocol/settings.h"

namespace {

template <class Decode>
void check(std::string_view text, Decode decode) {
  const auto message = decode(text);
  if (!message) return;
  const std::string line = encode(*message);
  const auto again = decode(line);
  if (!again || encode(*again) != line) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::protocol;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, decode_event);
  check(text, decode_reply);
  check(text, decode_ready);
  check(text, decode_request);
  check(text, decode_settings);
  return 0;
}
