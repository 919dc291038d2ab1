// From the name of an instruction form ("add.rz.ftz.f32") to the numerics
// function that computes it, on bits. Only the tests need this by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace assay::numerics {

using Evaluate = std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)>;

// A dotted name taken apart.
struct FormName {
  explicit FormName(const std::string& name);
  bool has(const std::string& word) const;
  const std::string& type(size_t from_end = 0) const { return words[words.size() - 1 - from_end]; }
  std::string op;
  std::vector<std::string> words;  // after the op
};

// Empty where this room has no such function.
Evaluate evaluate_float(const FormName& form);
Evaluate evaluate_half(const FormName& form);
Evaluate evaluate_convert(const FormName& form);
Evaluate evaluate_integer(const FormName& form);
Evaluate evaluate_video(const FormName& form);

}  // namespace assay::numerics
