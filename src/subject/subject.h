// The subject: the kernel under test, and the process in which it runs.
//
// Example:
//
//     BuildOutcome built = build(contract, {});  // nvcc, once; cached by content
//     if (!built.subject) return use(built.failure.error.text());
//     Runner runner(contract, *built.subject, {.device = Device::Virtual});
//     Observation observation = runner.run(trial, bindings);  // in a worker process
//
// The subject is untrusted. Only the worker (worker/main.cpp, a program of its own) loads it, and the worker
// is as simple as can be: it copies memory images to the device, makes the call through the CUDA runtime
// API, and copies the images back. What an image held before and holds after is compared here, in the judge's
// process. The device is whichever libcudart.so.13 the worker finds.
//
//   process.h      commands with a time limit                runner.h   trials in a worker
//   interpreter.h  what workers of Python subjects come from
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "contract/contract.h"

namespace assay::subject {

class Interpreter;

struct BuildOptions {
  std::string cache;     // folder; empty: $XDG_CACHE_HOME/assay, or ~/.cache/assay
  double timeout = 180;  // seconds
  std::shared_ptr<Interpreter>
      interpreter{};  // of a Python subject, where one was started ahead of the build
};

// An interpreter for a Python subject, started without waiting for it. `code`, a file or folder, is not loaded, but shows
// what is worth importing.
std::shared_ptr<Interpreter> start_interpreter(const std::string& code);

struct Subject {
  std::string library;  // the shared object; empty for PTX
  std::string ptx;      // the PTX file; empty for CUDA C++
  std::string
      image;  // the same with machine code, which tells the registers; empty where the toolkit makes none
  std::string python;     // the file of a Python function; empty for CUDA C++ and PTX
  std::string symbol;     // the function to call, or the kernel to launch
  bool launched = false;  // `global`: the worker launches it
  bool cached = false;
  double seconds = 0;                        // that building took
  std::string build_folder;                  // of a Python function: where what it compiles is kept
  std::shared_ptr<Interpreter> interpreter;  // … and where its workers come from
  // What it was built from, the toolkit's and the system's own files apart; absolute.
  std::vector<std::string> files;
};

// What stands in the way of building: the compiler's own words, and whose fault it is.
struct BuildFailure {
  Error error;
  std::string output;           // of the compiler
  bool contract_wrong = false;  // a source or an entry that does not exist
};

// Exactly one of both is set.
struct BuildOutcome {
  Result<Subject> subject;
  BuildFailure failure;
};
BuildOutcome build(const contract::Contract& contract, const BuildOptions& options);

// Where builds and records of trials are kept, as an absolute path: `wanted`, if it is not empty, or the
// user's cache; where that cannot be written, a folder under /tmp.
std::string cache_folder(const std::string& wanted);
// A line for a person on why it is another folder than that; empty: it is not.
std::string cache_note(const std::string& wanted);

// nvcc on PATH, in CUDA_HOME or in /usr/local/cuda; empty if there is none.
std::string find_nvcc();

}  // namespace assay::subject
