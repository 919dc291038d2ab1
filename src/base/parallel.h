// Work in pieces, on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Calls work(first, n) for pieces of 0..count.
void in_parallel(int threads, int64_t count, int64_t piece,
                 const std::function<void(int64_t first, int64_t n)>& work);

// As many threads as asked for; 0: as the machine has.
int useful_threads(int asked);

}  // namespace assay
