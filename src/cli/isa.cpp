// assay isa: the instruction table, with what the engine runs.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/run_commands.h"
#include "ptx/table.h"
#include "vgpu/coverage.h"

namespace assay::cli {

namespace {

constexpr int kDevice = 90;  // the architecture of the virtual GPU

struct Count {
  size_t running = 0, all = 0;
  void add(const Count& other) { running += other.running, all += other.all; }
};

// How many forms of a row run; the others' names go to `missing`.
Count count_forms(vgpu::Coverage& coverage, const ptx::Row& row, std::vector<std::string>& missing) {
  Count count;
  ptx::for_each_form(row, [&](const ptx::Form& form) {
    ++count.all;
    if (coverage.runs(form))
      ++count.running;
    else
      missing.push_back(form.text);
    return true;
  });
  return count;
}

char mark_of(const Count& count) {
  return count.running == count.all ? ' ' : count.running == 0 ? '-' : '~';
}

}  // namespace

int isa_command(std::vector<std::string> args) {
  Arguments arguments("Lists the PTX instructions that the virtual GPU runs.", "assay isa");
  bool all = false, forms = false;
  std::string filter;
  arguments.add_flag("--all", all, "also list those that it does not run");
  arguments.add_flag("--forms", forms, "name the unsupported forms of instructions that run in part");
  arguments.add("filter", filter, "only instructions whose syntax contains this");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  vgpu::Coverage coverage;
  Count rows, total;
  bool partly = false, any = false;
  for (const ptx::Row& row : ptx::rows()) {
    const std::string syntax = ptx::describe(row);
    if (syntax.find(filter) == std::string::npos) continue;
    any = true;
    std::vector<std::string> missing;
    const Count count = count_forms(coverage, row, missing);
    const bool has_it =
        row.sm <= kDevice || count.running != 0;  // else the device that we pose as has it no more than we
    if (has_it) {
      total.add(count);
      rows.add({count.running == count.all, 1});
    }
    if (count.running == 0 && !all) continue;
    partly |= count.running != count.all;
    fmt::print("{} {}  (PTX {}.{}, sm_{}", mark_of(count), syntax, row.isa / 10, row.isa % 10, row.sm);
    if (mark_of(count) == '~') fmt::print("; {} of {} forms", count.running, count.all);
    fmt::print(")\n");
    if (forms && count.running != 0)
      for (const std::string& form : missing) fmt::print("    not {}\n", form);
  }
  if (!any) {
    fmt::print(stderr, "assay: no instruction matches `{}`\n", filter);
    return 1;
  }
  fmt::print("{} of the {} forms of sm_{} run; {} of {} rows of the table run completely{}\n", total.running,
             total.all, kDevice, rows.running, rows.all, partly ? " (~ in part, - not at all)" : "");
  return 0;
}

}  // namespace assay::cli
