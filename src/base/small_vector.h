// A vector of few elements, which nearly always hold in the object itself: no allocation, and no second line of the cache.
//
// Example:
//   assay::SmallVector<int, 2> numbers;
//   numbers.push_back(1);
//   for (int& n : numbers) n += 1;
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace assay {

template <class T, size_t Few>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && Few > 0);

 public:
  SmallVector() = default;
  SmallVector(SmallVector&& other) noexcept { *this = std::move(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    std::copy(other.few_, other.few_ + Few, few_);
    more_ = std::move(other.more_);
    size_ = std::exchange(other.size_, 0);
    room_ = std::exchange(other.room_, Few);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return all(); }
  T* end() { return all() + size_; }
  const T* begin() const { return all(); }
  const T* end() const { return all() + size_; }
  T& operator[](size_t i) { return all()[i]; }
  const T& operator[](size_t i) const { return all()[i]; }
  T& back() { return all()[size_ - 1]; }
  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  void push_back(const T& value) {
    if (size_ == room_) [[unlikely]]
      return push_into_more(value);
    all()[size_++] = value;
  }
  void erase(T* at) {
    std::copy(at + 1, end(), at);
    --size_;
  }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    size_ = static_cast<size_t>(std::remove_if(begin(), end(), predicate) - begin());
  }

 private:
  T few_[Few] = {};
  std::unique_ptr<T[]> more_;
  size_t size_ = 0, room_ = Few;

  T* all() { return more_ ? more_.get() : few_; }
  const T* all() const { return more_ ? more_.get() : few_; }
  [[gnu::noinline]] void push_into_more(T value) {
    auto more = std::make_unique<T[]>(2 * room_);
    std::copy(begin(), end(), more.get());
    more_ = std::move(more);
    room_ *= 2;
    all()[size_++] = value;
  }
};

}  // namespace assay
