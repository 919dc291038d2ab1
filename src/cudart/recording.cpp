#include "cudart/recording.h"

#include <cstring>

#include "cudart/event_writer.h"

namespace assay::cudart {
namespace {

constexpr std::size_t kWord = sizeof(uint32_t);

std::optional<protocol::RecordedPlace> place_of(vgpu::Address address, const vgpu::Memory& memory) {
  const auto found = memory.find(address);
  if (!found) return std::nullopt;
  return protocol::RecordedPlace{found->label, address - found->base, false, found->size};
}

protocol::RecordedPlace side_of(const vgpu::Place& place, const vgpu::Memory& memory) {
  if (place.host) return {"", 0, true};
  return place_of(place.address, memory).value_or(protocol::RecordedPlace{});
}

void record_parameters(const std::vector<std::byte>& bytes, const vgpu::Memory& memory,
                       protocol::RecordedLaunchEvent& event) {
  event.words.resize((bytes.size() + kWord - 1) / kWord);
  if (!bytes.empty()) std::memcpy(event.words.data(), bytes.data(), bytes.size());
  for (std::size_t at = 0; at + 2 <= event.words.size(); at += 2) {
    const vgpu::Address address = event.words[at] | vgpu::Address{event.words[at + 1]} << 32;
    if (const auto place = place_of(address, memory))
      event.pointers.push_back({static_cast<uint32_t>(at * kWord), *place});
  }
}

}  // namespace

std::optional<protocol::Event> recorded(const vgpu::Work& work, const vgpu::Memory& memory, uint64_t stream,
                                        uint32_t shared_limit) {
  if (const auto* grid = std::get_if<vgpu::GridWork>(&work)) {
    protocol::RecordedLaunchEvent event{.kernel = std::string(grid->kernel.name()),
                                        .grid = extents_of(grid->config.grid),
                                        .block = extents_of(grid->config.block),
                                        .cluster = extents_of(grid->config.cluster),
                                        .cooperative = grid->config.cooperative,
                                        .dynamic_shared = grid->config.dynamic_shared,
                                        .static_shared = grid->kernel.function->shared_bytes,
                                        .shared_limit = shared_limit,
                                        .words = {},
                                        .pointers = {},
                                        .stream = stream,
                                        .early = grid->config.early};
    record_parameters(grid->parameters, memory, event);
    return event;
  }
  if (const auto* fill = std::get_if<vgpu::FillWork>(&work))
    return protocol::RecordedFillEvent{side_of(fill->to, memory), fill->width, fill->height * fill->depth,
                                       stream, fill->value == 0};
  if (const auto* copy = std::get_if<vgpu::CopyWork>(&work))
    return protocol::RecordedCopyEvent{side_of(copy->to, memory), side_of(copy->from, memory), copy->width,
                                       copy->height * copy->depth, stream};
  return std::nullopt;
}

}  // namespace assay::cudart
