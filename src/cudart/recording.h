// What a stream was asked to do, as an event (Settings::record, Settings::report_launches).
#pragma once

#include <optional>

#include "protocol/event.h"
#include "vgpu/stream.h"

namespace assay::cudart {

// None: nothing that the device does. `stream`: of what the operation follows. `shared_limit`: dynamic shared memory that the kernel may have; 0: not
// known.
std::optional<protocol::Event> recorded(const vgpu::Work& work, const vgpu::Memory& memory, uint64_t stream,
                                        uint32_t shared_limit);

}  // namespace assay::cudart
