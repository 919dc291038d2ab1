// Everything that passes between the three programs of a run: the command (`assay`, which judges), the worker
// process (`assay-worker`, which loads the subject) and the CUDA runtime on the virtual GPU (libcudart.so.13,
// which the worker or a user's program loads).
//
//   settings.h   command → runtime: one environment variable, read when the runtime is first used
//   checks.h     the table of checks, and a set of them
//   messages.h   command ↔ worker: one setup, then requests and replies, one JSON object per line over a socket;
//                tensors travel in a memory file that both map
//   hooks.h      worker → runtime: C functions beyond CUDA's own
//   event.h      runtime → command: what the device saw, one JSON object per line of a file or pipe
//
// Example:
//
//     const std::string line = encode(Settings{.seed = 7, .checks = CheckSet::for_run()});  // settings.h
//     Result<Settings> settings = decode_settings(line);
//     if (!settings) use(settings.error().text());  // which field is wrong, and how
//
// Each message is a struct with one encode and one decode function. A decoder checks the type and the range
// of every field: the command must assume that whatever it receives was written by the code under test.
//
// All three programs are built from the same source, so there is a single version for the whole protocol.
// Each side refuses a message with another version and says which versions met.
#pragma once

namespace assay::protocol {

// A worker that ends with this status while no reply was due: the device failed under load.
inline constexpr int kDeviceLost = 5;

inline constexpr int kVersion = 7;

// File descriptors of the worker.
inline constexpr int kSocket = 3;
inline constexpr int kMemoryFile = 4;
inline constexpr int kEvents = 5;  // the runtime writes its events to this pipe

// In the worker's folder: the worker itself and its libraries.
inline constexpr const char* kProgramFolder = ".run";

}  // namespace assay::protocol
