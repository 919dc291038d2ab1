// Joins the tables of the families into one build of the engine.
#include "vgpu/handlers/build.h"

#define ASSAY_TEXT_(x) #x
#define ASSAY_TEXT(x) ASSAY_TEXT_(x)

namespace assay::vgpu::ASSAY_BUILD {

void fill_engine(Engine& engine) {
  engine.name = ASSAY_TEXT(ASSAY_BUILD);
  const std::span<const LowerRow> families[] = {
      control_rows(), integer_rows(),    logic_rows(),  float_rows(),  half_rows(),
      convert_rows(), video_rows(),      matrix_rows(), memory_rows(), space_rows(),
      atomic_rows(),  collective_rows(), async_rows(),  tile_rows(),
  };
  for (const auto& family : families)
    for (const LowerRow& row : family) engine.by_opcode[static_cast<size_t>(row.opcode)] = row.lower;
  engine.join = join_handler();
  engine.end = end_handler();
  engine.unsupported = unsupported_handler();
  engine.not_predicate = not_predicate_handler();
  engine.warp_barrier = warp_barrier_handler();
  engine.clock = clock_handler(false);
  engine.clock64 = clock_handler(true);
}

}  // namespace assay::vgpu::ASSAY_BUILD
