// Messages with every field set to something that is not its default.
#pragma once

#include <limits>
#include <random>
#include <string>

#include "protocol/messages.h"
#include "protocol/settings.h"

namespace assay::protocol {

inline Settings full_settings() {
  return {.seed = std::numeric_limits<uint64_t>::max(),
          .threads = 3,
          .engine = EngineChoice::Compile,
          .code_cache = "cache/code",
          .gpu = &kGpus[2],
          .checks = {Check::Races, Check::Precision},
          .events = "out/events \"quoted\"",
          .max_instructions = 5,
          .faults = true,
          .quiet = true,
          .report_launches = true,
          .report_activity = true,
          .count_bytes = true,
          .report_code = true,
          .stall_milliseconds = 1500,
          .precision_lines = {{"a b:c.cu", 7}, {"d;e.cu", 8}}};
}

inline WorkerSetup full_setup() {
  return {.real_gpu = true,
          .folder = "home",
          .is_ptx = true,
          .path = "kernel.ptx",
          .symbol = "_Z1kPf",
          .is_kernel = true,
          .returns_int = true,
          .is_witnessed = true,
          .clock = -5,
          .is_python = true,
          .returns_outputs = true,
          .default_stream = true,
          .build_folder = "build",
          .hidden = {"reference.py", "a folder/b"}};
}

inline Request full_request() {
  CallRequest call;
  call.buffers = {{"x", 4096, 2, 4000, 0, 4096, true, true, true, -1, {{0, 2}, {100, 50}}},
                  {"y", 4096, 0, 4096, 8192, 12288, false, false, false, 0, {}},
                  {"z",
                   int64_t{1} << 40,
                   8,
                   1000,
                   0,
                   4096,
                   true,
                   true,
                   true,
                   -1,
                   {},
                   GeneratedBuffer{.table = 4096,
                                   .table_bytes = 800,
                                   .item = 8,
                                   .seed = std::numeric_limits<uint64_t>::max(),
                                   .last_value = 9,
                                   .last_index = 10,
                                   .room = 12288}}};
  call.arguments = {BufferArgument{1, "f32", {4, 256}}, StreamArgument{},
                    ScalarArgument{8, std::numeric_limits<uint64_t>::max(), true, true, "f64"}};
  call.returned = {BufferArgument{0, "bf16", {}}};
  call.launch = {{4294967295u, 2, 3}, {4, 5, 6}, 99};
  return {.id = 1ull << 63,
          .memory_bytes = 16384,
          .seed = 3,
          .ordered = true,
          .others_late = true,
          .moved = true,
          .cycles = 77,
          .shift = 512,
          .host_poison = false,
          .new_content = 0x7fd5,
          .earlier_calls = 64,
          .sample =
              SampleRequest{
                  .seed = 4, .blocks = 96, .seconds = 0.5, .shares = {0.25, 0.75}, .wanted = {3, 1ull << 40}},
          .load = LoadRequest{.seed = 5, .repeats = 300, .seconds = 0.5, .graph = true},
          .goes_on = true,
          .calls = {call, call}};
}

inline Reply full_reply() {
  return {
      .id = 12,
      .failure = CudaFailure{700, "cudaErrorIllegalAddress", "an illegal\nmemory access", "the call", true},
      .python = PythonFailure{"ValueError: no", "y", "answer.py", 12, true},
      .returned = {-1, 7},
      .seconds = 0.25,
      .time = {.waiting = 0.5, .preparing = 0.25, .calling = 2, .repeating = 1.5, .saving = 0.125},
      .sample =
          SampleReport{
              .ended = "its blocks wait",
              .launches = {{"_Z1kPf",
                            {10, 20, 5},
                            1000,
                            96,
                            12,
                            EndlessLoop{"k.cu", 7},
                            {{"y", 90, 4, 16, 1000, 900, 1200}},
                            {{999, 0, 64, 16, 128, 4, 4096, 2}, {7, std::nullopt}, {8, 0, 0, 0, 0, 0, 0, 1}}},
                           {"_Z1lPf", {1, 1, 1}, 1, 1, 0, {}, {}, {}}},
              .reduced = {"z"}},
      .load =
          LoadReport{.repeats = 17,
                     .difference = LoadDifference{1, "y", 12, 8, {0, 255}, {1, 2}, "from two host threads"},
                     .graph_difference = LoadDifference{0, "z", 0, 4, {}, {}, "from a CUDA graph"},
                     .no_graph = "not permitted"},
      .gone_on = GoneOn{.id = 11, .repeats = 900, .differs = true},
      .goes_on_with = 12,
      .buffers = {{"x", 1ull << 63, 4096}}};
}

// One to three bytes changed, removed or inserted.
inline std::string mutated(std::string text, std::mt19937& random) {
  const auto at = [&] { return random() % (text.size() + 1); };
  for (unsigned i = 0, changes = 1 + random() % 3; i < changes; ++i) {
    const std::size_t place = at();
    const auto byte = static_cast<char>(random() % 3 ? "0123456789-{}[]\",:ex.tfn"[random() % 23] : random());
    switch (random() % 4) {
      case 0:
        if (place < text.size()) text[place] = byte;
        break;
      case 1:
        text.erase(place, 1 + random() % 4);
        break;
      case 2:
        text.insert(place, 1, byte);
        break;
      default:
        text.insert(place, std::string(text.substr(at() / 2, random() % 40)));
    }
  }
  return text;
}

}  // namespace assay::protocol
