// assay judge: outputs that were produced elsewhere.
#include "judge/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "assayer/locate.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "finding/message.h"
#include "monitor/capture.h"
#include "subject/cuda_reference.h"

namespace assay::cli {

namespace fs = std::filesystem;

namespace {

// Dims follow from the extents of the tensors where an extent is a dim by itself; --dim gives the others.
Result<void> infer_dims(const contract::TensorSpec& spec, const contract::Tensor& tensor,
                        contract::Shape& shape) {
  if (spec.shape.size() != tensor.extents.size()) {
    return Error{fmt::format("{}.npy has {} dimensions; the contract says {}", spec.name,
                             tensor.extents.size(), spec.shape.size())};
  }
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    const std::vector<std::string> dims = spec.shape[i].dims();
    if (dims.size() == 1 && spec.shape[i].text() == dims[0]) shape.emplace(dims[0], tensor.extents[i]);
  }
  return {};
}

Result<void> check_extents(const contract::TensorSpec& spec, const contract::Tensor& tensor,
                           const contract::Shape& shape) {
  const auto extents = spec.extents(shape);
  if (!extents) return extents.error();
  if (*extents == tensor.extents) return {};
  return Error{fmt::format("{}.npy has the shape [{}]; the contract says [{}] for {}", spec.name,
                           fmt::join(tensor.extents, ", "), fmt::join(*extents, ", "),
                           contract::to_string(shape))};
}

struct Files {
  contract::Bindings bindings;
  judge::Outputs outputs;
};

Result<void> add_named(const contract::Contract& contract, const std::vector<std::string>& words,
                       Files& files) {
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != 0) return Error{fmt::format("'{}' should be NAME=NUMBER", word)};
    if (contract.dim(name)) {
      files.bindings.shape[name] = static_cast<int64_t>(number);
    } else if (const contract::ScalarSpec* scalar = contract.scalar(name)) {
      files.bindings.scalars[name] =
          contract::is_float(scalar->dtype)
              ? contract::Scalar::of(scalar->dtype, number)
              : contract::Scalar::of_int(scalar->dtype, static_cast<int64_t>(number));
    } else {
      return Error{fmt::format("the contract has no dim or scalar {}", name)};
    }
  }
  for (const contract::ScalarSpec& scalar : contract.scalars) {
    if (files.bindings.scalars.count(scalar.name)) continue;
    const bool is_presence = scalar.name.ends_with(')');  // of an optional tensor, which is there as a rule
    if (scalar.values.size() != 1 && !is_presence)
      return Error{fmt::format("the value of scalar `{}` is not known; add --set {}=NUMBER", scalar.name,
                               scalar.name)};
    files.bindings.scalars[scalar.name] =
        contract::is_float(scalar.dtype)
            ? contract::Scalar::of(scalar.dtype, scalar.values[0])
            : contract::Scalar::of_int(scalar.dtype, static_cast<int64_t>(scalar.values[0]));
  }
  for (const contract::Dim& dim : contract.dims) {
    if (dim.is_constant()) files.bindings.shape.emplace(dim.name, dim.min);
  }
  return {};
}

Result<Files> read_files(const contract::Contract& contract, const std::string& inputs,
                         const std::string& outputs, const std::vector<std::string>& named) {
  Files files;
  if (auto added = add_named(contract, named, files); !added) return added.error();
  for (const contract::TensorSpec& spec : contract.tensors) {
    for (const bool output : {false, true}) {
      if (output ? !spec.is_output() : !spec.is_input()) continue;
      const std::string file = (fs::path(output ? outputs : inputs) / (spec.name + ".npy")).string();
      if (spec.optional && !fs::exists(file)) {
        files.bindings.scalars[contract::presence_of(spec.name)] =
            contract::Scalar::of_int(contract::DType::boolean, 0);
        continue;
      }
      auto tensor = contract::read_npy(file, spec.dtype);
      if (!tensor) return tensor.error();
      if (auto known = infer_dims(spec, *tensor, files.bindings.shape); !known) return known.error();
      auto shared = std::make_shared<const contract::Tensor>(std::move(*tensor));
      (output ? files.outputs[spec.name] : files.bindings.inputs[spec.name]) = std::move(shared);
    }
  }
  for (const contract::Dim& dim : contract.dims) {
    if (!files.bindings.shape.count(dim.name))
      return Error{fmt::format("the size of dim `{}` is not known; add --set {}=NUMBER", dim.name, dim.name)};
  }
  for (const contract::TensorSpec& spec : contract.tensors) {
    if (spec.optional && !files.bindings.inputs.count(spec.name)) {  // nothing reads it
      const auto extents = spec.extents(files.bindings.shape);
      if (!extents) return extents.error();
      files.bindings.inputs[spec.name] =
          std::make_shared<const contract::Tensor>(contract::Tensor::zeros(spec.dtype, *extents));
    }
    const auto& tensor = spec.is_output() ? files.outputs[spec.name] : files.bindings.inputs[spec.name];
    if (auto good = check_extents(spec, *tensor, files.bindings.shape); !good) return good.error();
  }
  return files;
}

Result<void> capture_call(const contract::Contract& contract, const Files& files,
                          const report::Report& report, const std::string& library, const std::string& path) {
  monitor::Capture capture{.bindings = files.bindings, .outputs = files.outputs};
  if (!library.empty()) {
    auto bytes = read_file(library);
    if (!bytes) return Error{"the library cannot be read: " + bytes.error().message, library};
    capture.library = {std::filesystem::absolute(library).string(), std::move(*bytes)};
  }
  if (auto added = monitor::add_files(contract, capture); !added) return added.error();
  capture.device.kind = "files";
  if (!report.findings.empty()) capture.why = message(report.findings.front());
  capture.unix_seconds = std::time(nullptr);
  return monitor::write_capture(path, capture);
}

}  // namespace

int judge_command(std::vector<std::string> args) {
  Arguments arguments("Judges outputs that were produced elsewhere: NAME.npy files of inputs and outputs.",
                      "assay judge");
  std::string path, inputs, outputs, json, capture, library;
  std::vector<std::string> named;
  judge::Options options;
  arguments.add("contract", path, "the contract").required();
  arguments.add("--inputs FOLDER", inputs, "folder of the inputs").required();
  arguments.add("--outputs FOLDER", outputs, "folder of the outputs").required();
  arguments.add("--set NAME=NUMBER", named,
                "a scalar, or a dim that no tensor's shape determines; may be repeated");
  arguments.add("--json FILE", json, "write the report to this file");
  arguments.add("--capture FILE", capture, "write the call to this file, for assay replay");
  arguments.add("--library FILE", library, "the library that was called, to be kept in the capture");
  arguments.add_flag("--tensor-cores", options.tensor_cores, "the outputs were computed with tensor cores");
  if (const auto status = arguments.parse(std::move(args))) return *status;

  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  const auto reference = reference::Reference::make(*contract, subject::cuda_reference(*contract, {}, {}));
  if (!reference) return complain(reference.error());
  const auto files = read_files(*contract, inputs, outputs, named);
  if (!files) return complain(files.error());
  auto judgement = judge::judge(*contract, *reference, files->bindings, files->outputs, options);
  if (!judgement) return complain(judgement.error());

  report::Report report;
  report.contract = path;
  report.title = contract->title;
  report.device = "files";
  report.verdict = judge::verdict_of(judgement->findings, true, false);
  report.findings = std::move(judgement->findings);
  for (Finding& finding : report.findings)
    finding.found.smallest = contract::to_string(files->bindings.shape);
  report.coverage = {{"trials", 1},
                     {"shapes", 1},
                     {"elements", judgement->elements},
                     {"elements_judged", judgement->judged}};
  fmt::print("{}", report::terminal(report, terminal_options()));
  if (!json.empty() && !write_text(json, report::to_json(report).dump(2) + "\n")) return kWrongUse;
  if (!capture.empty())
    if (const auto written = capture_call(*contract, *files, report, library, capture); !written)
      return complain(written.error());
  return judge::exit_status(report.verdict);
}

}  // namespace assay::cli
