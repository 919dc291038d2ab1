// Integer expressions over dims: `ceil_div(T, 128) * 2`. Used for shapes, strides, grids, shared memory,
// arguments, and those of `values`; and comparisons of two of them, which say which shapes are legal.
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
  // The same where some names stand for expressions over dims: they are replaced by those.
  using Named = std::map<std::string, IntExpr, std::less<>>;
  static Result<IntExpr> parse(std::string_view text, const Named& named);

  // Floor division and modulus. Errors: a dim without a value, division by
  // zero, a result beyond int64.
  Result<int64_t> eval(const Shape& shape) const;

  std::vector<std::string> dims() const;  // the names it uses, sorted, once each
  bool is_literal() const;
  const std::string& text() const { return text_; }  // over dims alone
  const std::string& written() const { return written_.empty() ? text_ : written_; }

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
  std::string text_ = "0";
  std::string written_;  // where that is something else
};

// `K <= N`: what the dims of a legal shape fulfil.
struct DimRelation {
  enum class Sign : uint8_t { Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual };
  IntExpr left, right;
  Sign sign = Sign::LessEqual;
  std::string text;  // as written

  // Errors as of parse(): `a <= b` and `a <= b < c` are relations; the second is two of them.
  static Result<std::vector<DimRelation>> parse(std::string_view text, const IntExpr::Named& named);
  // False, too, where a side has no value.
  bool holds(const Shape& shape) const;
  std::vector<std::string> dims() const;  // the names that it uses, sorted, once each
};

}  // namespace assay::contract
