// A hash table from names (views of text that outlives it) to small values: open addressing, no removal.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace assay::ptx {

inline uint64_t hash_name(std::string_view name) {
  uint64_t hash = name.size() * 0x9e3779b97f4a7c15ull;
  const char* data = name.data();
  size_t left = name.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  uint64_t word = 0;
  if (left > 0) std::memcpy(&word, data, left);
  hash = (hash ^ word) * 0xc4ceb9fe1a85ec53ull;
  return hash ^ (hash >> 29);
}

template <class Value>
class NameMap {
 public:
  Value* find(std::string_view name) {
    if (slots_.empty()) return nullptr;
    Slot& slot = locate(name, hash_name(name));
    return slot.name.data() ? &slot.value : nullptr;
  }

  // The value of a name, made if it is new.
  Value& operator[](std::string_view name) {
    if (slots_.empty()) slots_.resize(8);
    uint64_t hash = hash_name(name);
    Slot* slot = &locate(name, hash);
    if (slot->name.data()) return slot->value;
    if (++count_ * 2 > slots_.size()) {
      grow();
      slot = &locate(name, hash);
    }
    slot->name = name;
    slot->hash = hash;
    return slot->value;
  }

 private:
  struct Slot {
    std::string_view name;
    uint64_t hash = 0;
    Value value{};
  };

  Slot& locate(std::string_view name, uint64_t hash) {
    size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      Slot& slot = slots_[i];
      if (!slot.name.data() || (slot.hash == hash && slot.name == name)) return slot;
    }
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.name.data()) locate(slot.name, slot.hash) = slot;
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace assay::ptx
