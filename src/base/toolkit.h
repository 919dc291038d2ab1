// Which files belong to the toolkit and the system, not to the user.
#pragma once

#include <string_view>

namespace assay {

// A header of the CUDA toolkit or of the system, or what Triton and torch bring for kernels in Python (`tl.sum` is
// one of Triton's own functions): no line in it is the user's own.
inline bool is_toolkit_header(std::string_view file) {
  if (file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")) return true;
  for (const std::string_view package : {"-packages/triton/", "-packages/torch/"})
    if (file.find(package) != std::string_view::npos) return true;
  const size_t include = file.find("/include/");
  if (include == std::string_view::npos) return false;
  // "/usr/local/cuda-13.0/include", "/usr/local/cuda/bin/../targets/x86_64-linux/include"
  const std::string_view before = file.substr(0, include);
  const std::string_view last = before.substr(before.rfind('/') + 1);
  return before.find("/targets/") != std::string_view::npos ||
         (last.starts_with("cuda") && last.find_first_not_of("-.0123456789", 4) == std::string_view::npos);
}

}  // namespace assay
