// A capture: one call of a kernel as it happened, in one file. The contract, the kernel, the arguments, the inputs, and
// the outputs that were seen.
//
// Example:
//
//     monitor::Capture seen;
//     seen.contract = {"/srv/scale.toml", *contract.text};
//     seen.bindings = bindings;
//     seen.outputs["y"] = std::make_shared<const contract::Tensor>(dw);
//     if (auto written = write_capture("wrong.assaycap", seen); !written) use(written.error().text());
//     Result<monitor::Capture> read = read_capture("wrong.assaycap");
//
// The file is a tar archive packed by zstd, so `tar --zstd -x` opens it: manifest.json says what the rest is, tensors are
// .npy files, the contract and the files that it names are there as they were. zstd's own checksum covers all of it.
// A file that was cut short, or of which a byte was changed, is refused with a line that says which.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "contract/bindings.h"

namespace assay::monitor {

inline constexpr int kCaptureVersion = 1;
inline constexpr std::string_view kCaptureEnding = ".assaycap";

// A file as it was; `path` is absolute.
struct CapturedFile {
  std::string path;
  std::string bytes;
  bool operator==(const CapturedFile&) const = default;
};

struct CapturedDevice {
  std::string kind;  // "virtual", "cuda"
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-…", as nvidia-smi has it; empty: not known
  bool operator==(const CapturedDevice&) const = default;
};

using CapturedOutputs = std::map<std::string, std::shared_ptr<const contract::Tensor>, std::less<>>;

struct Capture {
  CapturedFile contract;
  std::vector<CapturedFile> files;  // that the contract names: sources, a reference
  CapturedFile library;             // that was called; without bytes: not known
  contract::Bindings bindings;
  CapturedOutputs outputs;
  CapturedDevice device;
  std::string certificate_sha256;  // of the certificate that the call was made under; empty: none
  std::string why;                 // what was wrong with it, for a person
  std::string application;         // "serve (pid 4711)"
  uint64_t call = 0;               // which call of the kernel in that process, from 1
  int64_t unix_seconds = 0;
};

// Writes the whole file or none, readable by its owner only.
Result<void> write_capture(const std::string& path, const Capture& capture);
Result<Capture> read_capture(const std::string& path);
// The same, of a capture that has at most `largest` bytes when it is unpacked: a small file may hold a very large one. By
// default a share of this machine's memory.
Result<Capture> read_capture(const std::string& path, std::size_t largest);
// Whether the file begins as a capture does.
bool is_capture(const std::string& path);

// The contract and the files that it names, written below `folder` as they lay to one another, and loaded from there.
Result<contract::Contract> restore_contract(const Capture& capture, const std::string& folder);

// The contract's own file and those that it names, as they are now.
Result<void> add_files(const contract::Contract& contract, Capture& capture);

}  // namespace assay::monitor
