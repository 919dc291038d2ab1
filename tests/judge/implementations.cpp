#include "implementations.h"

#include <algorithm>
#include <cstring>

namespace assay::judge::testing {

float bf16(float x) {
  return static_cast<float>(contract::rounded(DType::bf16, x));
}
float f16(float x) {
  return static_cast<float>(contract::rounded(DType::f16, x));
}
float truncated_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits &= 0xffff0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

Outputs one(const char* name, Tensor tensor) {
  Outputs outputs;
  outputs[name] = std::make_shared<const Tensor>(std::move(tensor));
  return outputs;
}

// ---- ways to add ----
float sequential(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum += v;
  return sum;
}
float pairwise(const Floats& x) {
  Floats level = x;
  while (level.size() > 1) {
    Floats next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    level = std::move(next);
  }
  return level.empty() ? 0 : level[0];
}
// 32 lanes with a stride, then a tree: as a warp sums a row.
float warp(const Floats& x) {
  Floats lanes(32, 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) lanes[i % 32] += x[i];
  return pairwise(lanes);
}
float blocked(const Floats& x) {
  Floats partial;
  for (std::size_t i = 0; i < x.size(); i += 64) {
    partial.push_back(
        sequential(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                          x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + 64)))));
  }
  return sequential(partial);
}
// Four blocks of the grid, each with a part, added as they come.
float split(const Floats& x) {
  float sum = 0;
  const std::size_t part = std::max<std::size_t>(1, (x.size() + 3) / 4);
  for (std::size_t i = 0; i < x.size(); i += part) {
    sum += warp(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                       x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + part))));
  }
  return sum;
}
float backwards(const Floats& x) {
  return sequential(Floats(x.rbegin(), x.rend()));
}
float kahan(const Floats& x) {
  float sum = 0, carry = 0;
  for (const float v : x) {
    const float y = v - carry, t = sum + y;
    carry = (t - sum) - y;
    sum = t;
  }
  return sum;
}
float in_bf16(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum = bf16(sum + v);
  return sum;
}
float in_f16(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum = f16(sum + v);
  return sum;
}
float tree_in_bf16(const Floats& x) {
  Floats level = x;
  while (level.size() > 1) {
    Floats next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? bf16(level[i] + level[i + 1]) : level[i]);
    level = std::move(next);
  }
  return level.empty() ? 0 : level[0];
}
float bf16_partials(const Floats& x) {
  float sum = 0;
  const std::size_t part = std::max<std::size_t>(1, (x.size() + 7) / 8);
  for (std::size_t i = 0; i < x.size(); i += part) {
    sum += bf16(sequential(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                                  x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + part)))));
  }
  return sum;
}
Sum without_tail(std::size_t n) {
  return [n](const Floats& x) {
    return warp(Floats(x.begin(), x.end() - static_cast<std::ptrdiff_t>(std::min(n, x.size()))));
  };
}

const std::vector<std::pair<std::string, Sum>>& sound_sums() {
  static const std::vector<std::pair<std::string, Sum>> table = {
      {"sequential", sequential}, {"pairwise", pairwise}, {"warp", warp},  {"blocked", blocked},
      {"backwards", backwards},   {"kahan", kahan},       {"split", split}};
  return table;
}

namespace {

std::string quoted(const std::string& list) {
  std::string text = "[\"";
  for (const char c : list) {
    if (c == ',')
      text += "\", \"";
    else if (c != ' ' || text.back() != '"')
      text += c;
  }
  return text + "\"]";
}

}  // namespace

std::string contract_of(const std::string& args, const std::string& dims,
                        const std::vector<TensorLine>& tensors, const std::string& formula,
                        const std::string& scalars) {
  std::string text =
      "[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = " + quoted(args) + "\n[dims]\n" + dims;
  for (const TensorLine& tensor : tensors) {
    text += "\n[tensors." + tensor.name + "]\ndtype = \"" + tensor.dtype +
            "\"\nshape = " + quoted(tensor.shape) + "\n" + tensor.more;
  }
  return text + "\n" + scalars + "\n[reference]\nformula = \"\"\"\n" + formula + "\n\"\"\"\n";
}

std::vector<float> Call::in(const char* name) const {
  const Tensor& tensor = *bindings.inputs.find(name)->second;
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(tensor.load(static_cast<int64_t>(i)));
  return values;
}
std::vector<int64_t> Call::ints(const char* name) const {
  const Tensor& tensor = *bindings.inputs.find(name)->second;
  std::vector<int64_t> values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor.load_int(static_cast<int64_t>(i));
  return values;
}
Tensor Call::out(const char* name) const {
  const contract::TensorSpec* spec = contract.tensor(name);
  return Tensor::zeros(spec->dtype, *spec->extents(bindings.shape));
}

}  // namespace assay::judge::testing
