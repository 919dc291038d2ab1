// The Python code that calls into this library: where a program written in Python launched a kernel or allocated
// memory. Python's C functions are looked up in the process, so the library does not link to Python.
#pragma once

#include <cstdint>
#include <vector>

#include "finding/where.h"

namespace assay::cudart {

// Whether Python is in this process, also when it has ended.
bool has_python();

// A number for the Python stack of the calling thread; 0: it runs no Python. Equal stacks have equal numbers. Waits for
// Python's global lock, so the caller must hold no lock that a thread with the global lock may wait for.
uint64_t python_stack();

// The functions on a stack, innermost first.
std::vector<Frame> python_frames(uint64_t stack);

}  // namespace assay::cudart
