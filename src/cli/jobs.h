// Several pieces of work at a time.
#pragma once

#include <cstddef>
#include <functional>

namespace assay::cli {

// As many as this process may use.
int cores();

// work(0) … work(count - 1), at most `jobs` at a time, begun in that order; done(i) after each, one at a time
// and in that order as well, so that what it prints is the same however many there are.
void in_order(std::size_t count, int jobs, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& done);

}  // namespace assay::cli
