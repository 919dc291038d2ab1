// Which forms of the instruction table the engine runs. It is not kept in a list: the lowering functions are
// asked, with one instruction of that form.
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
