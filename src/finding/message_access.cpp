// What is said of accesses: places in memory, and the kinds of the family `access`.
#include <fmt/format.h>

#include "finding/message_parts.h"

namespace assay {

using namespace evidence;

std::string triple(const Index3& index) {
  return fmt::format("({},{},{})", index[0], index[1], index[2]);
}

namespace {

std::string_view name_of(Space space) {
  constexpr std::string_view kNames[] = {"",      "generic",  "global",    "shared",
                                         "local", "constant", "parameter", "host"};
  return kNames[static_cast<std::size_t>(space)];
}

// "[3, 5]", "[]" for a scalar.
std::string shape_text(const std::vector<int64_t>& extents) {
  const std::string text = index_text(extents);
  return text.empty() ? "[]" : text;
}

// "`x` (shape [3, 5])" for a tensor of the contract, else "`x` (4096 bytes)".
std::string allocation_text(const Place& place) {
  const Allocation& allocation = *place.allocation;
  if (place.element)
    return fmt::format("`{}` (shape {})", allocation.label, shape_text(place.element->extents));
  return fmt::format("`{}` ({} bytes)", allocation.label, allocation.bytes);
}

std::string in_allocation(const Place& place) {
  const Allocation& allocation = *place.allocation;
  const auto size = static_cast<int64_t>(allocation.bytes);
  const std::string name = allocation_text(place);
  if (place.offset < 0) return fmt::format("{} bytes before {}", -place.offset, name);
  if (place.offset == size) return fmt::format("just past the end of {}", name);
  if (place.offset > size) return fmt::format("{} bytes past the end of {}", place.offset - size, name);
  const bool inside = place.element && !place.element->index.empty();
  const std::string text =
      inside ? place.element->tensor + element_text(place.element->index, place.element->is_complex)
             : fmt::format("offset {} of {}", place.offset, name);
  return allocation.live ? text : text + ", which has been freed";
}

std::string in_cluster(const Place& place) {
  if (place.missing_rank)
    return fmt::format(
        "offset {} of the shared memory of block {} of the cluster, which does not have that many",
        place.offset, *place.missing_rank);
  return fmt::format("offset {} of the shared memory of block {}{}", place.offset, triple(*place.owner),
                     place.owner_ended ? ", which has ended" : "");
}

// "reads 4 bytes at offset 4 of …", but "… just past the end of …" and "…, 12 bytes past the end of …".
std::string located(const Place& place) {
  const std::string text = text_of(place);
  if (!place.allocation || place.array) return " at " + text;
  const auto size = static_cast<int64_t>(place.allocation->bytes);
  if (place.offset == size) return " " + text;
  return (place.offset < 0 || place.offset > size ? ", " : " at ") + text;
}

// Where an access begins inside its allocation: how far it reaches past the end.
std::string overhang(const Access& e) {
  if (!e.place.allocation || !e.place.allocation->live || e.place.offset < 0) return "";
  const uint64_t begin = static_cast<uint64_t>(e.place.offset), size = e.place.allocation->bytes;
  if (begin >= size || begin + e.bytes <= size) return "";
  return fmt::format(", {} bytes past its end", begin + e.bytes - size);
}

std::string out_of_shared_array(const Access& e) {
  const SharedArray& array = *e.place.array;
  std::string text;
  if (array.offset < 0) {
    text = fmt::format("{} {} bytes, {} bytes before shared array `{}`", verb(e.access), e.bytes,
                       -array.offset, array.name);
  } else {
    text = fmt::format("{} {}, past the end of shared array `{}` of {} bytes", verb(e.access), text_of(array),
                       array.name, array.bytes);
  }
  if (e.neighbour) text += fmt::format("; it hits {} instead", text_of(*e.neighbour));
  return text;
}

std::string out_of_cluster(const Access& e) {
  const std::string place = text_of(e.place);
  return e.hazard == ClusterHazard::NotStarted
             ? fmt::format(
                   "{} {}, but that block is not guaranteed to have started: add a cluster barrier before",
                   verb(e.access), place)
             : fmt::format("{} {}, but that block may have ended by then: add a cluster barrier after",
                           verb(e.access), place);
}

std::string out_of_bounds(const Access& e) {
  if (e.host.is_known())
    return fmt::format("host code at {} {} device memory, {}: use cudaMemcpy, or managed memory",
                       text_of(e.host), verb(e.access), text_of(e.place));
  if (e.bytes_changed > 0 && !e.detail.empty())
    return fmt::format("{} bytes in the memory of tensor {} {} changed, the first at byte offset {}",
                       e.bytes_changed, e.place.element ? e.place.element->tensor : "", e.detail,
                       e.place.offset);
  if (e.bytes_changed > 0)
    return e.place.offset < 0
               ? fmt::format("{} bytes before tensor {} changed, the first {} bytes before its start",
                             e.bytes_changed, e.place.element ? e.place.element->tensor : "", -e.place.offset)
               : fmt::format("{} bytes past the end of tensor {} changed, the first at byte offset {}",
                             e.bytes_changed, e.place.element ? e.place.element->tensor : "", e.place.offset);
  if (e.hazard != ClusterHazard::None) return out_of_cluster(e);
  if (e.bytes == 0) return e.detail;  // a call through a pointer
  if (e.place.array && e.place.array->bytes > 0 && !e.shared_bytes) return out_of_shared_array(e);
  std::string text = fmt::format("{} {} bytes{}", verb(e.access), e.bytes, located(e.place));
  if (e.shared_bytes) text += fmt::format("; the block has {} bytes of shared memory", *e.shared_bytes);
  return text + (e.detail.empty() ? overhang(e) : ": " + e.detail);
}

std::string uninitialized(const Access& e) {
  std::string text(undefined_text(e.undefined));
  if (e.undefined == Undefined::Store) text += fmt::format(", to {}", text_of(e.place));
  if (e.shuffle)
    text += fmt::format("; the shuffle at {} reads lanes that do not take part, so its result is undefined",
                        text_of(*e.shuffle));
  return text;
}

std::string clobbered(const Access& e) {
  std::string who;
  if (e.operation) who = fmt::format("a {} on stream {} ", e.operation->kind, e.operation->stream);
  if (!e.changed) return fmt::format("the call changed its input `{}`", e.input);
  if (*e.changed) return fmt::format("{}changes {}, an input that must not change", who, text_of(e.place));
  return fmt::format("{}writes {}, an input, with the value that it already has", who, text_of(e.place));
}

std::string unwritten(const Unwritten& u) {
  if (u.in_bytes)
    return fmt::format("{} of {} bytes of `{}` were never written, the first at offset {}", u.count, u.total,
                       u.name, u.first);
  if (u.at_least)
    return fmt::format("at least {} of {} elements of {} are never written, including {}{}", u.count, u.total,
                       u.name, u.name, u.first);
  if (u.count == 1)
    return fmt::format("1 of {} elements of {} is never written: {}{}", u.total, u.name, u.name, u.first);
  return fmt::format("{} of {} elements of {} are never written, the first {}{}", u.count, u.total, u.name,
                     u.name, u.first);
}

}  // namespace

std::string_view verb(AccessKind access) {
  constexpr std::string_view kVerbs[] = {"uses", "reads", "writes", "atomically updates", "frees"};
  return kVerbs[static_cast<std::size_t>(access)];
}

std::string_view undefined_text(Undefined undefined) {
  constexpr std::string_view kTexts[] = {
      "uses a value that nothing wrote",
      "a branch depends on a value that nothing wrote",
      "an address depends on a value that nothing wrote",
      "stores a value that depends on memory or registers that nothing wrote",
      "a warp-wide operation uses a value that nothing wrote",
  };
  return kTexts[static_cast<std::size_t>(undefined)];
}

// "tile[1][5]", "tile + 640 bytes" where the declaration was not found, "the start of tile".
std::string text_of(const SharedArray& array) {
  if (!array.indices.empty()) {
    std::string text = array.name;
    for (const uint64_t index : array.indices) text += fmt::format("[{}]", index);
    return array.rest > 0 ? fmt::format("{} + {} bytes", text, array.rest) : text;
  }
  if (array.offset != 0) return fmt::format("{} + {} bytes", array.name, array.offset);
  return array.is_scalar ? array.name : "the start of " + array.name;
}

std::string text_of(const Place& place) {
  if (place.array && place.array->offset >= 0)
    return place.owner ? fmt::format("{} of block {}", text_of(*place.array), triple(*place.owner))
                       : text_of(*place.array);
  if (place.owner || place.missing_rank) return in_cluster(place);
  if (place.allocation) return in_allocation(place);
  if (place.space == Space::Shared || place.space == Space::Local || place.space == Space::Parameter)
    return fmt::format("offset {} of {} memory", place.offset, name_of(place.space));
  return fmt::format(
      "0x{:x}, {}", place.address.value_or(0),
      place.is_host_memory ? "host memory unknown to the device" : "far from every allocation");
}

std::string access_text(Kind kind, const Access& e) {
  if (e.unwritten) return unwritten(*e.unwritten);
  switch (kind) {
    case Kind::Misaligned:
      if (e.bytes == 0) return e.detail;  // a GPU does not say which
      return fmt::format("{} {} bytes{}, an address that is not a multiple of {}", verb(e.access), e.bytes,
                         located(e.place), e.alignment);
    case Kind::Uninitialized:
      return uninitialized(e);
    case Kind::ClobberedInput:
      return clobbered(e);
    default:
      return out_of_bounds(e);
  }
}

}  // namespace assay
