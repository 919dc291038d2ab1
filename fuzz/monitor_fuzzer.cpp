// What assayd, `assay replay`, `assay verify` and `assay fleet` read: samples in a ring, captures, certificates, evidence. The first
// byte says which. Nothing may crash; a sample or a capture that is accepted fits its contract.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdlib>
#include <string>

#include "certificate/bundle.h"
#include "certificate/certificate.h"
#include "monitor/capture.h"
#include "monitor/fleet.h"
#include "monitor/sample.h"
#include "monitor/tar.h"

namespace {

using namespace assay;

const contract::Contract& contract_of_samples() {
  static const contract::Contract contract = *contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "bias", "y", "n", "m", "a"]
[dims]
n = { min = 1, max = 64 }
m = { min = 1, max = 64 }
[tensors.x]
dtype = "bf16"
shape = ["n", "m"]
[tensors.bias]
dtype = "f32"
shape = ["m"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["n", "m"]
role = "inout"
[scalars.a]
dtype = "f32"
range = [0, 1]
[reference]
formula = "y[i, j] = y[i, j] + a * x[i, j]"
)",
                                                              "k.toml");
  return contract;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void read_sample(const std::string& bytes) {
  const auto sample = monitor::decode_sample(contract_of_samples(), std::as_bytes(std::span(bytes)));
  if (!sample) return;
  require(static_cast<bool>(contract_of_samples().check_shape(sample->bindings.shape)));
  for (const auto& [name, tensor] : sample->outputs)
    require(tensor->extents == *contract_of_samples().tensor(name)->extents(sample->bindings.shape));
}

// Packed first, so that what is behind the checksum is reached.
void read_capture(const std::string& tar) {
  std::string packed(ZSTD_compressBound(tar.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), tar.data(), tar.size(), 1));
  const int file = memfd_create("capture", MFD_CLOEXEC);
  if (write(file, packed.data(), packed.size()) == static_cast<ssize_t>(packed.size())) {
    const auto capture = monitor::read_capture("/proc/self/fd/" + std::to_string(file));
    if (capture) require(!capture->contract.bytes.empty());
  }
  close(file);
}

void read_certificate(const std::string& text) {
  if (const auto bundle = certificate::decode_bundle(text)) {
    require(certificate::encode(*bundle) == text ||
            certificate::encode(*bundle, certificate::BundleForm::First) == text);
    if (const auto read = certificate::from_statement(bundle->payload)) certificate::to_statement(*read);
  }
  if (const auto read = certificate::from_statement(text)) {
    const auto again = certificate::from_statement(certificate::to_statement(*read));
    require(again && *again == *read);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      read_sample(rest);
      break;
    case 1:
      read_capture(rest);
      break;
    case 2:
      read_certificate(rest);
      break;
    default:
      if (const auto seen = monitor::decode_evidence(rest, "here")) monitor::judge_fleet(*seen, 0.001);
  }
  return 0;
}
