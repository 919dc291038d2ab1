// assay train: a kernel inside a small transformer.
#include "train/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "assayer/locate.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "judge/verdict.h"
#include "subject/subject.h"
#include "train/recognise.h"
#include "train/report.h"
#include "train/subject_candidate.h"

namespace assay::cli {

namespace fs = std::filesystem;

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
    if (binding) return SlotPlace{std::move(*binding), false, {}};
    // Nothing but the slot is said, and names differ: the formula says which tensor is which.
    if (contract.workload.tensors.empty() && contract.reference.kind == contract::ReferenceKind::Formula)
      for (train::Recognised& found : train::recognise(contract))
        if (found.binding.slot == slot) return SlotPlace{std::move(found.binding), true, {}};
    return binding.error();
  }
  if (contract.reference.kind != contract::ReferenceKind::Formula)
    return Error{
        "the reference is not a formula, so the slot must be named: [workload] slot = \"…\"; "
        "`assay train --slots` lists them",
        contract.path};
  std::vector<train::Recognised> found = train::recognise(contract);
  if (found.empty())
    return Error{
        "the formula matches no slot (`assay train --slots` lists them); if the kernel fills one all the "
        "same, name it: [workload] slot = \"…\"",
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

// A comma-separated list of words, each of which names one of `all`.
template <class Kind, std::size_t kCount>
Result<std::vector<Kind>> kinds_in(const std::string& list, const std::array<Kind, kCount>& all,
                                   std::string_view option) {
  std::vector<Kind> kinds;
  std::vector<std::string> known;
  for (const Kind kind : all) known.emplace_back(to_string(kind));
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t end = std::min(list.find(',', from), list.size());
    const std::string word = list.substr(from, end - from);
    const auto found = std::ranges::find(known, word);
    if (found == known.end())
      return Error{fmt::format("{}: there is no `{}`; use {}", option, word, fmt::join(known, ", "))};
    const Kind kind = all[static_cast<std::size_t>(found - known.begin())];
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    from = end + 1;
  }
  return kinds;
}

// What the user asks for, as words.
struct TrainingArguments {
  std::string tokens, optimizers, text, tokenizer = "bytes", device = "virtual";
  double rate = 0;  // 0: as the cell has it
};

Result<void> read_words(const TrainingArguments& words, train::Options& options) {
  if (!words.text.empty()) {
    auto text = read_file(words.text);
    if (!text) return Error{"the text cannot be read: " + text.error().message, words.text};
    options.text = std::move(*text);
    options.sources.push_back(train::TokenSource::Text);
  }
  if (!words.tokens.empty()) {
    auto sources = kinds_in(words.tokens, train::kTokenSources, "--tokens");
    if (!sources) return sources.error();
    options.sources = std::move(*sources);
    const bool needs_text =
        std::ranges::find(options.sources, train::TokenSource::Text) != options.sources.end();
    if (needs_text && words.text.empty()) return Error{"--tokens text needs --text FILE"};
  }
  if (!words.optimizers.empty()) {
    auto optimizers = kinds_in(words.optimizers, train::kOptimizers, "--optimizers");
    if (!optimizers) return optimizers.error();
    options.optimizers = std::move(*optimizers);
  }
  if (words.rate > 0) options.rate = words.rate;
  if (auto sizes = train::check(options.sizes); !sizes) return sizes.error();
  for (const train::Tokenizer tokenizer : train::kTokenizers)
    if (to_string(tokenizer) == words.tokenizer) options.tokenizer = tokenizer;
  if (options.text.empty()) return {};
  const auto data = train::Data::text(options.text, options.tokenizer, options.sizes, options.seed);
  return data ? Result<void>() : Error{data.error().message, words.text};
}

// All that the runs depend on: another kernel, contract or option is another run.
std::string checkpoint_file(const contract::Contract& contract, const subject::Subject& subject,
                            const train::Binding& binding, const train::Options& options,
                            const std::string& device) {
  std::string all = *contract.text + train::to_toml(binding) + device + options.text;
  for (const std::string& file : subject.files) all += text_of(file);
  const train::ModelSizes& sizes = options.sizes;
  all += fmt::format("{} {} {} {} {} {} {} {} {} ", sizes.vocabulary, sizes.width, sizes.heads, sizes.layers,
                     sizes.feed_forward, sizes.sequence, sizes.sequences, static_cast<int>(sizes.activation),
                     sizes.tied);
  all += fmt::format("{} {} {} {} {} {} {}", options.rate.value_or(0), options.seed, options.steps,
                     options.teacher_steps, options.teacher_only, options.stop_early, options.false_alarms);
  all += to_string(options.tokenizer);
  for (const train::TokenSource source : options.sources) all += to_string(source);
  for (const train::Optimizer optimizer : options.optimizers) all += to_string(optimizer);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  const fs::path folder = fs::path(subject::cache_folder("")) / "train";
  std::error_code error;
  fs::create_directories(folder, error);
  return (folder / fmt::format("{:016x}.checkpoint", hash)).string();
}

// "40 s", "3 min"
std::string duration_text(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

std::string progress_text(const train::Progress& now) {
  return fmt::format("{}  {:.0f} %{}", now.doing, 100 * now.done,
                     now.seconds_left > 0 ? fmt::format(", {} left", duration_text(now.seconds_left)) : "");
}

bool write_results(const train::Training& training, const std::string& json, const std::string& html) {
  bool written = true;
  if (!json.empty())
    written =
        write_text(json, train::to_json(training).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  if (html.empty()) return written;
  const report::Report page[] = {train::to_report(training)};
  return write_text(html, report::html(page)) && written;
}

// Builds the kernel and trains with it.
int train_with(const contract::Contract& contract, const SlotPlace& place, train::Options options,
               const std::string& device, bool fresh, const std::string& json, const std::string& html) {
  announce_cache();
  Progress progress;
  progress.show(fmt::format("{}  building", contract.path));
  const auto built = subject::build(contract, {});
  if (!built.subject) {
    progress.clear();
    fmt::print(stderr, "{}\n", diagnostic(built.failure.error));
    if (!built.failure.output.empty()) fmt::print(stderr, "{}\n", built.failure.output);
    return kWrongUse;
  }
  subject::RunnerOptions runner;
  runner.device = device == "cuda" ? subject::Device::Cuda : subject::Device::Virtual;
  runner.timeout = train::kCallSeconds;
  const auto candidate = train::subject_candidate(contract, place.binding, *built.subject, runner);
  if (!candidate) return complain(candidate.error());
  options.checkpoint = checkpoint_file(contract, *built.subject, place.binding, options, device);
  std::error_code error;
  if (fresh) fs::remove(options.checkpoint, error);
  options.progress = [&](const train::Progress& now) {
    progress.show(fmt::format("{}  {}", contract.path, progress_text(now)));
  };
  options.interrupted = [] { return interrupted() != 0; };
  train::Training training{contract.path, contract.title, std::string(place.binding.slot->name),
                           device,        options,        {}};
  training.report = train::train(*candidate, options);
  for (Finding& finding : training.report.findings)
    for_each_place(finding, [](Where& where) { where.file = assayer::shown(where.file); });
  training.sources = built.subject->files;
  progress.clear();
  if (!interrupted()) fs::remove(options.checkpoint, error);
  fmt::print("{}", train::terminal(training, terminal_options()));
  if (interrupted()) fmt::print(stderr, "assay: interrupted; run the same command to continue\n");
  return write_results(training, json, html) ? judge::exit_status(training.report.verdict) : kWrongUse;
}

// `sequences`: 0 where the user does not say.
void add_sizes(Arguments& arguments, train::ModelSizes& sizes, int64_t& sequences) {
  arguments
      .add("--vocabulary", sizes.vocabulary,
           fmt::format("vocabulary of the model; {} by default", sizes.vocabulary))
      .positive();
  arguments.add("--width", sizes.width, fmt::format("width of the model; {} by default", sizes.width))
      .positive();
  arguments.add("--heads", sizes.heads, fmt::format("attention heads; {} by default", sizes.heads))
      .positive();
  arguments.add("--layers", sizes.layers, fmt::format("layers of the model; {} by default", sizes.layers))
      .positive();
  arguments
      .add("--sequence", sizes.sequence, fmt::format("tokens per sequence; {} by default", sizes.sequence))
      .positive();
  arguments
      .add("--sequences", sequences,
           fmt::format("sequences per batch; {} by default, {} for products and attention", sizes.sequences,
                       train::usual_sequences("attention")))
      .positive();
  arguments.add_flag("--tied", sizes.tied, "use the embedding table as the output head, too");
}

}  // namespace

int train_command(std::vector<std::string> args) {
  Arguments arguments(
      "Trains a small transformer with the kernel in it, and says whether it still learns as well as with "
      "trusted kernels.",
      "assay train");
  std::string path, json, html;
  bool list = false, only_binding = false, fresh = false;
  train::Options options;
  TrainingArguments words;
  arguments.add("contract", path, "a contract file");
  arguments.add_flag("--slots", list, "list the slots that a kernel can fill, with their signatures");
  arguments.add_flag("--binding", only_binding,
                     "show which slot the kernel fills, as a [workload] table, and exit");
  arguments.add("--json FILE", json, "write the result to this file");
  arguments.add("--html FILE", html, "write an HTML page to this file: loss curves with their noise");
  arguments.add("--text FILE", words.text, "also train on this file");
  arguments
      .add("--tokenizer", words.tokenizer,
           "how --text becomes tokens: bytes, or bpe (byte pairs of the file itself, as many as the "
           "vocabulary holds)")
      .one_of({"bytes", "bpe"});
  arguments.add("--tokens LIST", words.tokens, "rows of the matrix, comma-separated: zipf, uniform, text");
  arguments.add("--optimizers LIST", words.optimizers,
                "columns of the matrix, comma-separated: sgd, momentum, adamw");
  arguments.add("--steps", options.steps, fmt::format("steps of each run; {} by default", options.steps))
      .positive();
  arguments.add("--rate NUMBER", words.rate, "learning rate of every cell; by default each cell has its own")
      .positive();
  arguments.add_flag(
      "--teacher-only", options.teacher_only,
      "only compare gradients at the weights of the reference run: the most sensitive part, in seconds");
  int64_t sequences = 0;
  add_sizes(arguments, options.sizes, sequences);
  arguments.add("--seed", options.seed, "random seed of weights and batches");
  arguments.add("--threads", options.threads, "threads of the trusted code; one per core by default")
      .positive();
  arguments.add("--device DEVICE", words.device, "where the kernel runs").one_of({"virtual", "cuda"});
  arguments.add_flag("--fresh", fresh, "start over, even if an interrupted run could continue");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (list) {
    fmt::print("{}", all_slots_text());
    return 0;
  }
  if (path.empty()) return complain({"a contract is required; see `assay train --help`"});
  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  const auto place = slot_place_of(*contract);
  if (!place) return complain(place.error());
  if (only_binding) {
    fmt::print("{}", slot_place_text(*place));
    return 0;
  }
  options.sizes.sequences = sequences > 0 ? sequences : train::usual_sequences(place->binding.slot->name);
  if (const auto read = read_words(words, options); !read) return complain(read.error());
  if (const std::string problem = words.device == "cuda" ? why_gpu_unusable() : ""; !problem.empty()) {
    fmt::print(stderr, "assay: {}\n", problem);
    return judge::exit_status(judge::Verdict::Inconclusive);
  }
  return train_with(*contract, *place, std::move(options), words.device, fresh, json, html);
}

}  // namespace assay::cli
