// Integer expressions over dims: `ceil_div(T, 128) * 2`. Used for shapes, grids,
// shared memory, and the arguments of `values`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::contract {

// A value for every dim. What a trial fixes before anything else.
using Shape = std::map<std::string, int64_t, std::less<>>;

// "T=4096 D=1024 V=32000"
std::string to_string(const Shape& shape);

class IntExpr {
 public:
  IntExpr() = default;  // the literal 0
  static IntExpr literal(int64_t value);
  static IntExpr dim(std::string name);
  // Errors carry line 1 and the column within `text`.
  static Result<IntExpr> parse(std::string_view text);

  // Floor division and modulus. Errors: a dim without a value, division by
  // zero, a result beyond int64.
  Result<int64_t> eval(const Shape& shape) const;

  std::vector<std::string> dims() const;  // the names it uses, sorted, once each
  bool is_literal() const;
  const std::string& text() const { return text_; }  // as written

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
  std::string text_ = "0";
};

}  // namespace assay::contract
