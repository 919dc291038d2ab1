// Work in pieces, on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace assay {

// The cores that this process may use.
int cores();
// As many threads as asked for; 0: one for each core.
int useful_threads(int asked);

// Calls work(first, n) for pieces of 0..count.
void in_parallel(int threads, int64_t count, int64_t piece,
                 const std::function<void(int64_t first, int64_t n)>& work);

// work(0) … work(count - 1), at most `jobs` at a time, begun in that order; done(i) after each, one at a time
// and in that order as well, so that what it prints is the same however many there are.
void in_order(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& done);

}  // namespace assay
