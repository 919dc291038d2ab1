#include "trial/thresholds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::Shape;

namespace {

// How many constants of the code are tried: those that are compared with, those of them that a pass requires,
// those that are only mentioned, and remainders. Chosen.
constexpr std::size_t kMostCompared = 16, kMostRequired = 6, kMostMentioned = 12, kMostResidues = 6;
// Values of one dim that a pass requires, at most. Chosen: a trial of each takes some hundredths of a second as a rule.
constexpr std::size_t kMostRequiredValues = 30;
// Sizes that have several remainders at once repeat after so many, at most. Chosen: less than usual sizes of rows.
constexpr int64_t kMostJointModulus = 1 << 12;
constexpr std::size_t kMostSides = 6;  // values of a dim in pairs; chosen
// Constants that may be the product of two dims. Below, edges try products of all kinds; the upper end was
// chosen. Thresholds.ProductsOfDimsPassThem (tests/trial) has one of 2^18.
constexpr int64_t kLeastProduct = 1 << 12, kMostProduct = 1 << 25;
constexpr int64_t kLesserFactor = 7;  // the smaller factor of a product; chosen
constexpr int64_t kLarge = 1000;      // a dim that is not small, for remainders of large sizes; chosen
// Constants that add nothing: the plan's edges hold what is as small, and powers of two so far.
constexpr int64_t kMostSmall = 4, kMostPowerOfTwo = 1024;
// Divisors tried beyond each constant: a fast path is often for `cols % 8 == 0` or 4. Pinned by
// Thresholds.AreTriedOnBothSidesAloneAndTogether.
constexpr int64_t kDivisors[] = {8, 4};

class Values {
 public:
  explicit Values(const Dim& dim) : dim_(dim) {}
  void add(int64_t value) {
    if (dim_.contains(value) && std::find(values_.begin(), values_.end(), value) == values_.end())
      values_.push_back(value);
  }
  std::vector<int64_t> take() { return std::move(values_); }

 private:
  const Dim& dim_;
  std::vector<int64_t> values_;
};

// The first legal value above `value`, and the last below.
int64_t above(const Dim& dim, int64_t value) {
  if (value < dim.lowest()) return dim.lowest();
  return snap(dim, value) + dim.multiple_of;
}
int64_t below(const Dim& dim, int64_t value) {
  const int64_t at = snap(dim, value);
  return at == value ? at - dim.multiple_of : at;
}

// An odd value, where there is one next to it: products of round numbers have no tails.
int64_t odd(const Dim& dim, int64_t value) {
  return value % 2 == 0 && dim.multiple_of % 2 == 1 ? value + dim.multiple_of : value;
}

// The first legal value from `from` on with this remainder; 0 where there is none.
int64_t with_residue(const Dim& dim, int64_t from, Residue residue) {
  from = std::max(from, dim.lowest());
  int64_t value = from - from % residue.modulus + residue.remainder;
  if (value < from) value += residue.modulus;
  for (int64_t i = 0; i < dim.multiple_of && value <= dim.highest(); ++i, value += residue.modulus)
    if (dim.contains(value)) return value;
  return 0;
}

// The sizes that have both remainders; none: there are none, or they are rare.
std::optional<Residue> both(Residue a, Residue b) {
  const int64_t modulus = std::lcm(a.modulus, b.modulus);
  if (modulus > kMostJointModulus) return std::nullopt;
  for (int64_t value = a.remainder; value < modulus; value += a.modulus)
    if (value % b.modulus == b.remainder) return Residue{modulus, value};
  return std::nullopt;
}

// `n > 8192 && n % 8 == 0`, and in what is called there `n % 16 == 8`: a path that is taken under several conditions needs
// a size that meets them all. Each remainder goes to the first of those that it can be had with.
std::vector<Residue> joint(std::span<const Residue> residues) {
  std::vector<Residue> groups;
  for (const Residue& residue : residues) {
    std::optional<Residue> together;
    for (Residue& group : groups)
      if (!together && (together = both(group, residue))) group = *together;
    if (!together) groups.push_back(residue);
  }
  return groups;
}

// Sizes that the plan's edges hold anyway.
bool is_ordinary(int64_t constant) {
  return constant <= kMostSmall || (constant <= kMostPowerOfTwo && (constant & (constant - 1)) == 0);
}

template <class T>
void keep_first(std::vector<T>& list, std::size_t most) {
  if (list.size() > most) list.resize(most);
}

}  // namespace

Thresholds::Thresholds(const Contract& contract, SizeConstants constants)
    : contract_(contract), constants_(std::move(constants)) {
  std::vector<int64_t>&compared = constants_.compared, &mentioned = constants_.mentioned;
  // With a remainder (`n > 1024 && n % 2 == 0`) the size beyond an ordinary constant is no ordinary one.
  all_ = compared;
  keep_first(all_, kMostCompared);
  beyond_ = compared;
  std::erase_if(beyond_, [](int64_t c) { return c <= kMostSmall; });
  std::stable_partition(beyond_.begin(), beyond_.end(), [](int64_t c) { return !is_ordinary(c); });
  std::stable_sort(std::find_if(beyond_.begin(), beyond_.end(), is_ordinary), beyond_.end(),
                   std::greater<>());
  keep_first(beyond_, kMostRequired);
  std::erase_if(compared, is_ordinary);
  keep_first(compared, kMostCompared);
  std::erase_if(constants_.residues, [](Residue r) { return r.modulus < 2; });
  keep_first(constants_.residues, kMostResidues);
  joint_ = joint(constants_.residues);
  std::erase_if(mentioned, [&](int64_t c) {
    return is_ordinary(c) || std::find(compared.begin(), compared.end(), c) != compared.end();
  });
  // Large numbers are sizes more often than small ones.
  std::stable_sort(mentioned.begin(), mentioned.end(), std::greater<>());
  std::stable_partition(mentioned.begin(), mentioned.end(), [](int64_t c) { return c <= kMostProduct; });
  keep_first(mentioned, kMostMentioned);
}

// Code that says `n == 5120`, `n > 8192`, `n < 513` or `n % 96 == 32 && n > 1000` does something else there than anywhere
// else, so no other size stands for these.
std::vector<int64_t> Thresholds::required(const Dim& dim) const {
  Values values(dim);
  const std::span first(constants_.compared.data(), std::min(constants_.compared.size(), kMostRequired));
  for (const int64_t c : first) {
    values.add(above(dim, c));
    values.add(c);
  }
  for (const Residue& residue : joint_)
    for (const int64_t c : beyond_) values.add(with_residue(dim, c + 1, residue));
  for (const Residue& residue : constants_.residues) values.add(with_residue(dim, residue.modulus, residue));
  for (const Residue& residue : constants_.residues)
    for (const int64_t c : beyond_) values.add(with_residue(dim, c + 1, residue));
  for (const int64_t c : first) values.add(below(dim, c));
  for (const Residue& residue : constants_.residues) values.add(with_residue(dim, kLarge, residue));
  std::vector<int64_t> found = values.take();
  keep_first(found, kMostRequiredValues);
  return found;
}

std::vector<int64_t> Thresholds::values(const Dim& dim) const {
  Values values(dim);
  for (const int64_t value : required(dim)) values.add(value);
  for (const int64_t c : constants_.compared) {
    values.add(above(dim, c));
    values.add(c);
    values.add(below(dim, c));
  }
  for (const int64_t c : constants_.compared) {
    for (const Residue& residue : constants_.residues) values.add(with_residue(dim, c + 1, residue));
    for (const int64_t divisor : kDivisors) values.add(with_residue(dim, c + 1, {divisor, 0}));
  }
  for (const Residue& residue : constants_.residues) {
    values.add(with_residue(dim, residue.modulus, residue));
    values.add(with_residue(dim, kLarge, residue));
    if (residue.remainder != 0) values.add(with_residue(dim, kLarge, {residue.modulus, 0}));
  }
  for (const int64_t c : constants_.compared) values.add(snap(dim, 2 * c));
  for (const int64_t c : constants_.mentioned) {
    values.add(above(dim, c));
    values.add(c);
  }
  return values.take();
}

Thresholds::Sizes Thresholds::sizes(int64_t most) const {
  Dim any;  // a size is no dim, but it has the same interesting values
  any.min = 0;
  any.max = std::max<int64_t>(most, 1);
  Values wanted(any), others(any);
  for (const int64_t size : tile_edges(any)) wanted.add(size);
  for (const int64_t c : all_)
    for (const int64_t size : {c - 1, c, c + 1}) wanted.add(size);
  for (const int64_t size : required(any)) wanted.add(size);
  Sizes sizes;
  sizes.required = wanted.take();
  for (const int64_t size : values(any))
    if (std::find(sizes.required.begin(), sizes.required.end(), size) == sizes.required.end())
      others.add(size);
  sizes.others = others.take();
  std::sort(sizes.required.begin(), sizes.required.end());
  std::sort(sizes.others.begin(), sizes.others.end());
  return sizes;
}

std::vector<int64_t> Thresholds::beyond(int64_t most) const {
  std::vector<int64_t> sizes = beyond_;
  std::erase_if(sizes, [&](int64_t c) { return c >= most; });
  for (int64_t& size : sizes) ++size;
  return sizes;
}

// What to combine with other dims: beyond each threshold, and each remainder, in turn, so that neither crowds
// out the other.
std::vector<int64_t> Thresholds::sides(const Dim& dim) const {
  std::vector<int64_t> remainders;
  for (const Residue& residue : constants_.residues) {
    remainders.push_back(with_residue(dim, residue.modulus, residue));
    for (const int64_t c : constants_.compared) remainders.push_back(with_residue(dim, c + 1, residue));
  }
  Values values(dim);
  for (std::size_t i = 0; i < std::max(constants_.compared.size(), remainders.size()); ++i) {
    if (i < constants_.compared.size()) values.add(above(dim, constants_.compared[i]));
    if (i < remainders.size()) values.add(remainders[i]);
  }
  std::vector<int64_t> found = values.take();
  keep_first(found, kMostSides);
  return found;
}

std::vector<Shape> Thresholds::pairs() const {
  std::vector<Shape> shapes;
  for (std::size_t a = 0; a < contract_.dims.size(); ++a) {
    for (std::size_t b = a + 1; b < contract_.dims.size(); ++b) {
      const Dim &first = contract_.dims[a], &second = contract_.dims[b];
      if (first.is_constant() || second.is_constant()) continue;
      for (const int64_t x : sides(first)) {
        for (const int64_t y : sides(second)) {
          Shape shape = uniform_shape(contract_, 1);
          shape[first.name] = x;
          shape[second.name] = y;
          shapes.push_back(std::move(shape));
        }
      }
    }
  }
  return shapes;
}

std::vector<Shape> Thresholds::products(Reach reach) const {
  std::vector<int64_t> limits = constants_.compared;
  limits.insert(limits.end(), constants_.mentioned.begin(), constants_.mentioned.end());
  std::erase_if(limits, [&](int64_t c) {
    const bool by_a_dim = std::any_of(contract_.dims.begin(), contract_.dims.end(),
                                      [&](const Dim& dim) { return c < dim.highest(); });
    return c < kLeastProduct || c > kMostProduct || by_a_dim != (reach == Reach::ByADim);
  });
  std::vector<Shape> shapes;
  for (const int64_t limit : limits) {
    for (const Dim& a : contract_.dims) {
      for (const Dim& b : contract_.dims) {
        if (&a == &b || a.is_constant() || b.is_constant()) continue;
        const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(limit)));
        for (const int64_t factor : {kLesserFactor, root}) {
          if (factor == root && &a > &b) continue;  // the same both ways
          Shape shape = uniform_shape(contract_, 1);
          shape[a.name] = odd(a, snap(a, factor));
          shape[b.name] = odd(b, above(b, limit / shape[a.name]));
          if (shape[b.name] > b.highest()) {
            shape[b.name] = b.highest() - (b.highest() > b.lowest() ? b.multiple_of : 0);
            shape[a.name] = odd(a, above(a, limit / shape[b.name]));
          }
          if (!a.contains(shape[a.name])) continue;
          shapes.push_back(std::move(shape));
        }
      }
    }
  }
  return shapes;
}

std::vector<int64_t> model_sizes(const Dim& dim) {
  static constexpr int64_t kSizes[] = {
      768,    1024,  2048,  2560,  3072,  3584,   4096,   5120,   6144,   7168,
      8192,   12288, 16384,                                       // hidden
      64,     80,    96,    112,   128,   192,    256,            // head
      8200,   4104,  8208,  4112,  8196,  2056,   10248,  16392,  // multiples of 4, 8, 16 and no more
      11008,  13824, 14336, 18944, 28672, 53248,                  // feed-forward
      32000,  32768, 50257, 50304, 65536, 128256, 151936, 152064, 256000, 262144,  // vocabulary
      131072,                                                                      // sequence
  };
  Values values(dim);
  for (const int64_t size : kSizes) values.add(size);
  return values.take();
}

}  // namespace assay::trial
