// assay isa: the instruction table, with what the engine runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/run_commands.h"
#include "ptx/table.h"
#include "vgpu/lowering.h"

namespace assay::cli {

int isa_command(std::vector<std::string> args) {
  CLI::App app("Lists the PTX instructions that the virtual GPU runs", "assay isa");
  bool all = false;
  std::string filter;
  app.add_flag("--all", all, "list those it does not run, too");
  app.add_option("filter", filter, "only instructions whose syntax contains this");
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const vgpu::Engine& engine = vgpu::engine(false);
  size_t rows = 0, running_rows = 0, opcodes = 0, running = 0;
  ptx::Opcode last{};
  for (const ptx::Row& row : ptx::rows()) {
    bool runs = engine.by_opcode[static_cast<size_t>(row.opcode)] != nullptr;
    if (rows == 0 || row.opcode != last) {
      ++opcodes;
      running += runs;
    }
    last = row.opcode;
    ++rows;
    running_rows += runs;
    std::string syntax = ptx::describe(row);
    if ((!runs && !all) || syntax.find(filter) == std::string::npos) continue;
    fmt::print("{} {}  (PTX {}.{}, sm_{})\n", runs ? " " : "-", syntax, row.isa / 10, row.isa % 10, row.sm);
  }
  fmt::print("{} of {} opcodes run, {} of {} forms{}\n", running, opcodes, running_rows, rows,
             all ? "; - marks the others" : "");
  return 0;
}

}  // namespace assay::cli
