// Which forms of the instruction table the engine runs. There is no list: the lowering functions are tried
// with one instruction of each form.
#pragma once

#include <memory>

#include "ptx/table.h"

namespace assay::vgpu {

class Coverage {
 public:
  Coverage();
  ~Coverage();
  bool runs(const ptx::Form& form);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::vgpu
