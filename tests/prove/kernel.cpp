#include "kernel.h"

#include <utility>

#include "prove/messages.h"

namespace assay::prove::testing {

namespace {

contract::Contract contract_of(const KernelText& text) {
  const std::string toml = fmt::format(
      "[kernel]\nsource = \"k.ptx\"\nglobal = \"k\"\nargs = [\"x\", \"y\"]\ngrid = [1]\nblock = "
      "[1]\n[dims]\n{}\n[tensors.x]\n{}\n{}\n"
      "[tensors.y]\n{}\nrole = \"out\"\n[reference]\nformula = \"{} = 0\"\n",
      text.dims, text.x, text.more_tensors, text.y, text.left);
  auto contract = contract::parse(toml, "test.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return *contract;
}

ptx::Module module_of(const KernelText& text) {
  std::string parameters;
  for (size_t i = 0; i < text.parameters.size(); ++i)
    parameters += fmt::format("{}.param .{} p{}", i ? ", " : "",
                              text.parameters[i].starts_with("= ") ? "u32" : "u64", i);
  auto module = ptx::parse(fmt::format(".version 9.0\n.target sm_90\n.address_size 64\n{}\n.visible .entry "
                                       "k({}) {}\n{{\n{}\n{}\nret;\n}}\n",
                                       text.shared, parameters, text.directives, text.registers, text.body),
                           "test.ptx");
  EXPECT_TRUE(module) << module.error().text();
  return *module;
}

Launch launch_of(const KernelText& text) {
  Launch launch;
  launch.kernel = "k";
  launch.grid[0] = expr(text.grid);
  launch.block[0] = expr(text.block);
  launch.grid[1] = expr(text.grid_y);
  launch.block[1] = expr(text.block_y);
  launch.grid[2] = launch.block[2] = Expr::literal(1);
  launch.dynamic_shared = Expr::literal(0);
  launch.shared_limit = Expr::literal(48 * 1024);
  uint32_t at = 0;
  for (const std::string& parameter : text.parameters) {
    const bool word = parameter.starts_with("= "), pair = parameter.starts_with("== ");
    at = word ? at : (at + 7) / 8 * 8;
    if (word) {
      if (parameter != "= ?") launch.words[at] = expr(parameter.substr(2));
    } else if (pair) {
      launch.pairs[at] = expr(parameter.substr(3));
    } else {
      launch.pointers[at] = {parameter.substr(0, parameter.find(' ')),
                             parameter.find('+') == std::string::npos
                                 ? Expr::literal(0)
                                 : expr(parameter.substr(parameter.find('+') + 1))};
    }
    at += word ? 4 : 8;
  }
  launch.parameter_bytes = at;
  launch.zeroed = text.zeroed;
  launch.overlaps = text.overlaps;
  return launch;
}

}  // namespace

ExprPtr expr(const std::string& text) {
  auto parsed = parse_expr(text);
  EXPECT_TRUE(parsed) << text;
  return *parsed;
}

ProvedKernel::ProvedKernel(const KernelText& text)
    : contract_(contract_of(text)), module_(module_of(text)), launch_(launch_of(text)) {
  summary_ = std::make_unique<Result<Summary>>(
      execute(terms_, dims(), module_, *module_.find("k"), launch_, written_in_a_first_run()));
}

ProvedKernel::~ProvedKernel() = default;

Dims& ProvedKernel::dims() {
  return *(dims_ ? dims_ : dims_ = std::make_unique<Dims>(terms_, contract_));
}

Obligation ProvedKernel::prove(Obligation (*which)(Setting&), bool counterexamples) {
  if (!executed()) return {};
  Claims claims(terms_, summary(), solver_);
  Setting setting{terms_, dims(), module_, *module_.find("k"), launch_, summary(), claims, solver_};
  setting.until = 1e300;
  if (!std::exchange(described_, true)) {
    summary().exchanges |= describe_messages(setting);
    grid_tickets_ = setting.grid_tickets;
    broadcast_ = setting.broadcast;
  }
  setting.grid_tickets = grid_tickets_;
  setting.broadcast = broadcast_;
  if (!counterexamples) setting.most_counterexamples = 0;
  return which(setting);
}

Obligation ProvedKernel::coverage_with(const std::vector<ProvedKernel*>& others, std::vector<Fill> fills,
                                       std::vector<Condition> when, bool counterexamples) {
  std::vector<LaunchedKernel> kernels = {{&module_, module_.find("k"), &launch_}};
  for (const ProvedKernel* other : others)
    kernels.push_back({&other->module_, other->module_.find("k"), &other->launch_});
  Case one;
  one.fills = std::move(fills);
  one.when = std::move(when);
  CoverageSetting setting{contract_, solver_, {"y"}};
  setting.until = 1e300;
  setting.counterexamples = counterexamples;
  setting.threads_agree = threads_agree;
  Obligation result;
  prove_coverage(setting, one, kernels, result);
  result.status = result.open.empty() ? Status::Proved : Status::Unknown;
  return result;
}

std::vector<std::string> ProvedKernel::written_in_a_first_run() {
  Terms terms;
  Dims dims(terms, contract_);
  const auto summary = execute(terms, dims, module_, *module_.find("k"), launch_, {});
  return summary ? written_arrays(terms, *summary) : std::vector<std::string>{};
}

}  // namespace assay::prove::testing
