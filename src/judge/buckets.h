// The energy gate: sums of squared differences over parts of an output, and how unlikely each is.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "judge/measure.h"

namespace assay::judge {

// A part of the output whose elements are judged together.
struct Bucket {
  std::string name;  // "row 17", "sums of 1000 to 9999 terms"; only where something is unlikely
  double count = 0;  // of elements that count
  double observed = 0, expected = 0;  // sums of difference^2
  double sum_yy = 0, sum_ey = 0;      // for the gain
  double log_p = 0;       // upper bound of the log probability, for a sound kernel, of a difference so large
  bool by_terms = false;  // its elements are sums of about as many terms
  bool fails() const;
};

class BucketTable {
 public:
  explicit BucketTable(std::span<const int64_t> extents);
  void add(const Element& element);
  void add(const BucketTable& other);  // of other elements of the same output
  // Every part that holds an element, the whole first.
  std::vector<Bucket> take() const;

 private:
  struct Sums {
    double count = 0, observed = 0, expected = 0, yy = 0, ey = 0;
    void add(const Element& element);
    void add(const Sums& other);
  };
  // Sums by number: rows or columns. An array where they are few enough.
  class Numbered {
   public:
    Numbered(int64_t count, bool wanted);
    void add(int64_t number, const Element& element) {
      (dense_.empty() ? sparse_[number] : dense_[static_cast<std::size_t>(number)]).add(element);
    }
    void add(const Numbered& other);
    bool wanted() const { return wanted_; }
    template <class Visit>
    void each(Visit visit) const;

   private:
    bool wanted_;
    std::vector<Sums> dense_;
    std::unordered_map<int64_t, Sums> sparse_;
  };
  static constexpr int kLowest = -330, kDecades = 660;

  int64_t columns_, rows_;
  Sums all_, last_columns_, last_rows_;
  Numbered row_, column_;
  std::array<Sums, 20> terms_;          // by decade
  std::array<Sums, kDecades> decades_;  // of magnitude, from kLowest
};

std::vector<Bucket> buckets(const Measured& measured);

}  // namespace assay::judge
