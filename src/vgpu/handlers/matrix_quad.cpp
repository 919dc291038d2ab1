#include "vgpu/handlers/matrix.h"
#include "vgpu/handlers/types.h"
namespace assay::vgpu::ASSAY_BUILD {
void lower_quad_mma(Lowering& l) {
  refuse(l);
}
}  // namespace assay::vgpu::ASSAY_BUILD
