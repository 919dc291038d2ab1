#include "checks/schedule_finding.h"

#include <fmt/format.h>

#include "base/symbol.h"
#include "checks/checks.h"

namespace assay::checks {

Finding finding_of(const vgpu::ScheduleDifference& difference, const vgpu::Kernel& kernel) {
  evidence::Numeric numeric;
  numeric.output = difference.allocation.label;
  evidence::Difference& d = numeric.difference.emplace();
  d.relation = "schedules";
  d.change = fmt::format("schedules {} and {}, kernel `{}`", difference.schedules[0], difference.schedules[1],
                         short_name(std::string(kernel.name())));
  for (size_t w = 1; w < difference.writers.size(); ++w)
    d.change += fmt::format("{} {}:{}", w == 1 ? ", also written at" : " and", difference.writers[w].file,
                            difference.writers[w].line);
  d.count = static_cast<int64_t>(difference.words);
  d.index = {static_cast<int64_t>(difference.offset)};
  d.first = fmt::format("{:#010x}", difference.values[0]);
  d.second = fmt::format("{:#010x}", difference.values[1]);
  Where where;
  if (!difference.writers.empty())
    where = {difference.writers.front().file, static_cast<int>(difference.writers.front().line)};
  return finding_of(Kind::Nondeterministic, std::move(where), std::move(numeric));
}

}  // namespace assay::checks
