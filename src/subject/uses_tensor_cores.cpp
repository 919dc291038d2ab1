#include "subject/uses_tensor_cores.h"

#include "subject/device_code.h"
#include "subject/tensor_cores.h"

namespace assay::subject {

bool may_use_tensor_cores(const Subject& subject, const std::string& arch) {
  if (!subject.python.empty()) return true;  // its code is known once it runs
  const auto texts = device_code(subject, arch);
  if (!texts) return true;
  std::vector<ptx::Module> modules;
  for (const std::string& text : *texts) {
    auto module = ptx::parse(text, "ptx");
    if (!module) return true;
    modules.push_back(std::move(*module));
  }
  return !TensorCores(modules).reasons(std::nullopt).empty();
}

}  // namespace assay::subject
