// assay train: a kernel inside a small transformer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostic.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "train/binding.h"
#include "train/recognise.h"
#include "train/slots.h"

namespace assay::cli {

namespace {

std::string_view role_word(contract::Role role) {
  return role == contract::Role::In ? "in" : role == contract::Role::Out ? "out" : "inout";
}

std::string indented(std::string_view lines, std::string_view indent) {
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    text += fmt::format("{}{}\n", indent, lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return text;
}

// embedding_grad (backward): gradient of the embedding table
//   in     dy       bf16  [T, D]  gradient of the rows
//   …
//   dw[tokens[t], d] += dy[t, d]
std::string slot_text(const train::Slot& slot) {
  std::string text = fmt::format("{} ({}): {}\n", slot.name, to_string(slot.phase), slot.summary);
  for (const train::SlotTensor& tensor : slot.tensors)
    text += fmt::format("  {:<6} {:<9} {:<5} {:<14} {}{}\n", role_word(tensor.role), tensor.name,
                        contract::info(tensor.dtype).name, fmt::format("[{}]", fmt::join(tensor.dims, ", ")),
                        tensor.meaning, tensor.is_optional ? " (optional)" : "");
  for (const train::SlotScalar& scalar : slot.scalars)
    text += fmt::format("  {:<6} {:<9} {:<5} {:<14} {}\n", "scalar", scalar.name,
                        contract::info(scalar.dtype).name, fmt::format("{}", scalar.usual), scalar.meaning);
  return text + "\n" + indented(slot.formula, "    ");
}

std::string all_slots_text() {
  std::string text;
  for (const train::Slot& slot : train::slots()) text += slot_text(slot) + "\n";
  return text +
         "Types are those of the trusted kernels; a contract may have others. Inputs may be left out.\n"
         "T tokens of a batch, S of a sequence, V vocabulary, D width of the model, F of the feed-forward "
         "part,\n"
         "H heads (of attention: of all sequences), P half the width of a head, K and N extents of a "
         "product,\n"
         "n elements of a parameter.\n";
}

int wrong_training(const Error& error) {
  fmt::print(stderr, "{}\n", diagnostic(error));
  return kWrongUse;
}

std::vector<std::string> slot_names() {
  std::vector<std::string> names;
  for (const train::Slot& slot : train::slots()) names.emplace_back(slot.name);
  return names;
}

// The binding that the contract names, or the one that its formula shows; `others` fit, too.
struct SlotPlace {
  train::Binding binding;
  bool is_recognised = false;
  std::vector<std::string> others;
};

Result<SlotPlace> slot_place_of(const contract::Contract& contract) {
  if (!contract.workload.slot.empty()) {
    const train::Slot* slot = train::slot_named(contract.workload.slot);
    if (!slot) {
      const std::string near = contract::nearest(contract.workload.slot, slot_names());
      return contract.error_at(contract.workload.place,
                               fmt::format("there is no slot `{}`{}", contract.workload.slot,
                                           near.empty() ? "; `assay train --slots` lists them"
                                                        : fmt::format("; did you mean `{}`?", near)));
    }
    auto binding = train::bind(contract, *slot);
    if (!binding) return binding.error();
    return SlotPlace{std::move(*binding), false, {}};
  }
  if (contract.reference.kind != contract::ReferenceKind::Formula)
    return Error{
        "the reference is not a formula, so the slot must be named: [workload] slot = \"…\"; "
        "`assay train --slots` lists them",
        contract.path};
  std::vector<train::Recognised> found = train::recognise(contract);
  if (found.empty())
    return Error{
        "the formula computes what no slot computes; name the nearest with [workload] slot = \"…\" "
        "(`assay train --slots` lists them)",
        contract.path};
  SlotPlace place{std::move(found.front().binding), true, {}};
  for (std::size_t i = 1; i < found.size(); ++i) place.others.emplace_back(found[i].binding.slot->name);
  return place;
}

// What was understood, as the contract would say it.
std::string slot_place_text(const SlotPlace& place) {
  std::string text = train::to_toml(place.binding);
  for (const auto& [scalar, value] : place.binding.constants)
    text += fmt::format("# {} is {} in the formula\n", scalar, value);
  if (!place.others.empty()) text += fmt::format("# it also fits: {}\n", fmt::join(place.others, ", "));
  return text;
}

}  // namespace

int train_command(std::vector<std::string> args) {
  Arguments arguments(
      "Puts a kernel into a small transformer, trains it, and says whether the model still learns as it does "
      "without the "
      "kernel.",
      "assay train");
  std::string path;
  bool list = false, only_binding = false;
  arguments.add("contract", path, "a contract file");
  arguments.add_flag("--slots", list, "list the places that a kernel can take, with their signatures");
  arguments.add_flag("--binding", only_binding,
                     "show which place the kernel takes, as [workload] says it, and end");
  if (const auto status = arguments.parse(args)) return *status;
  if (list) {
    fmt::print("{}", all_slots_text());
    return 0;
  }
  if (path.empty()) return wrong_training({"a contract is required; see `assay train --help`"});
  const auto contract = contract::load(path);
  if (!contract) return wrong_training(contract.error());
  const auto place = slot_place_of(*contract);
  if (!place) return wrong_training(place.error());
  fmt::print("{}", slot_place_text(*place));
  return 0;
}

}  // namespace assay::cli
