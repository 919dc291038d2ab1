#include "contract/layout.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace assay::contract {
namespace {

constexpr int kByte = 8;

int64_t count_of(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// The largest offset of an element, in elements.
int64_t farthest(const Layout& layout) {
  int64_t at = 0;
  for (std::size_t i = 0; i < layout.extents.size(); ++i) at += (layout.extents[i] - 1) * layout.strides[i];
  return at;
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

Layout Layout::of(DType dtype, std::vector<int64_t> extents, std::vector<int64_t> strides) {
  Layout layout{dtype, std::move(extents), std::move(strides), 0};
  if (count_of(layout.extents) > 0)
    layout.bytes = ((farthest(layout) + 1) * info(dtype).bits + kByte - 1) / kByte;
  return layout;
}

bool Layout::is_plain() const {
  return info(dtype).bits == kByte * info(dtype).bytes && strides == dense_strides(extents);
}

bool Layout::has_gaps() const {
  return count_of(extents) > 0 && farthest(*this) + 1 > count_of(extents);
}

bool Layout::is_injective() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (extents[i] > 1) order.push_back(i);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  int64_t reached = 0;  // the largest offset so far
  for (const std::size_t i : order) {
    if (strides[i] <= reached) return false;
    reached += (extents[i] - 1) * strides[i];
  }
  return true;
}

std::optional<std::vector<int64_t>> Layout::element_at(int64_t byte) const {
  if (byte < 0 || byte >= bytes) return std::nullopt;
  int64_t rest = byte * kByte / info(dtype).bits;
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::vector<int64_t> index(extents.size(), 0);
  for (const std::size_t i : order) {
    if (extents[i] <= 1 || strides[i] <= 0) continue;
    index[i] = std::min(rest / strides[i], extents[i] - 1);
    rest -= index[i] * strides[i];
  }
  if (rest != 0) return std::nullopt;
  return index;
}

// Calls `visit(element, offset)` with the first element of each row, in order, and its offset in elements.
template <class Visit>
void Layout::each_row(Visit visit) const {
  const int64_t count = count_of(extents);
  if (count == 0) return;
  const int64_t length = extents.empty() ? 1 : extents.back();
  std::vector<int64_t> at(extents.size(), 0);
  int64_t offset = 0;
  for (int64_t element = 0; element < count; element += length) {
    visit(element, offset);
    for (std::size_t i = extents.size() - (extents.empty() ? 0 : 1); i-- > 0;) {
      offset += strides[i];
      if (++at[i] < extents[i]) break;
      offset -= at[i] * strides[i];
      at[i] = 0;
    }
  }
}

void Layout::pack(const Tensor& tensor, std::byte* image) const {
  const int bits = info(dtype).bits, item = info(dtype).bytes;
  const int64_t length = extents.empty() ? 1 : extents.back(), step = extents.empty() ? 1 : strides.back();
  each_row([&](int64_t element, int64_t offset) {
    if (bits == kByte * item && step == 1) {
      std::memcpy(image + offset * item, tensor.at(element), static_cast<std::size_t>(length * item));
      return;
    }
    for (int64_t i = 0; i < length; ++i) {
      const int64_t to = offset + i * step;
      if (bits == kByte * item) {
        std::memcpy(image + to * item, tensor.at(element + i), static_cast<std::size_t>(item));
        continue;
      }
      const bool high = to % 2 == 1;
      const std::byte code = *tensor.at(element + i) & std::byte{0xf};
      std::byte& both = image[to / 2];
      both = high ? (both & std::byte{0xf}) | code << 4 : (both & std::byte{0xf0}) | code;
    }
  });
}

void Layout::unpack(const std::byte* image, Tensor& tensor) const {
  const int bits = info(dtype).bits, item = info(dtype).bytes;
  const int64_t length = extents.empty() ? 1 : extents.back(), step = extents.empty() ? 1 : strides.back();
  each_row([&](int64_t element, int64_t offset) {
    if (bits == kByte * item && step == 1) {
      std::memcpy(tensor.at(element), image + offset * item, static_cast<std::size_t>(length * item));
      return;
    }
    for (int64_t i = 0; i < length; ++i) {
      const int64_t from = offset + i * step;
      if (bits == kByte * item)
        std::memcpy(tensor.at(element + i), image + from * item, static_cast<std::size_t>(item));
      else
        tensor.store_code(element + i,
                          static_cast<uint8_t>(from % 2 == 1 ? image[from / 2] >> 4 : image[from / 2]) & 0xf);
    }
  });
}

std::vector<bool> Layout::element_bytes() const {
  std::vector<bool> is_element(static_cast<std::size_t>(bytes));
  const int bits = info(dtype).bits;
  const int64_t length = extents.empty() ? 1 : extents.back(), step = extents.empty() ? 1 : strides.back();
  each_row([&](int64_t, int64_t offset) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t first = (offset + i * step) * bits;
      for (int64_t at = first / kByte; at * kByte < first + bits; ++at)
        is_element[static_cast<std::size_t>(at)] = true;
    }
  });
  return is_element;
}

std::optional<Layout::Changed> Layout::changed_gap(const std::byte* before, const std::byte* after) const {
  if (!has_gaps() || std::memcmp(before, after, static_cast<std::size_t>(bytes)) == 0) return std::nullopt;
  const std::vector<bool> is_element = element_bytes();
  Changed changed;
  for (int64_t i = 0; i < bytes; ++i) {
    if (is_element[static_cast<std::size_t>(i)] || before[i] == after[i]) continue;
    if (changed.count++ == 0) changed.first = i;
  }
  if (changed.count == 0) return std::nullopt;
  return changed;
}

}  // namespace assay::contract
