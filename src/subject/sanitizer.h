// NVIDIA's compute-sanitizer as a witness: it observes a worker on a real GPU, and what it prints is read.
//
// Example:
//
//     const std::string report = "========= Invalid __global__ write of size 4 bytes\n"
//                                "=========     at k(float *)+0x70 in k.cu:9\n";
//     for (const SanitizerRecord& record : sanitizer_records(report)) use(record.kind, record.where.line);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"
#include "protocol/messages.h"

namespace assay::subject {

inline constexpr std::string_view kSanitizerTools[] = {"memcheck", "racecheck", "initcheck", "synccheck"};

// One record of its output. What it prints about failed calls of the API is no record: the worker tries some that may fail.
struct SanitizerRecord {
  Kind kind = Kind::OutOfBounds;
  bool is_error = true;  // otherwise it says itself that it may be harmless
  std::string title;     // "Invalid __global__ write of size 4 bytes"
  Where where;           // line 0: it does not know
  std::string kernel;    // "k(float *)"
  std::optional<evidence::Index3> block, thread;
  std::optional<uint64_t> address;
  Where other;  // of a race
};

std::vector<SanitizerRecord> sanitizer_records(std::string_view text);

// As a finding; the buffers say which tensor an address belongs to.
Finding finding_of(const SanitizerRecord& record, const std::vector<protocol::BufferPlace>& buffers);

// The program: beside nvcc, in the toolkit's folder, or on the path. Empty: it is not installed.
std::string find_sanitizer();
// What to put before the worker's command so that the tool observes it and writes to this file.
std::vector<std::string> sanitizer_command(const std::string& program, std::string_view tool,
                                           const std::string& log);

}  // namespace assay::subject
