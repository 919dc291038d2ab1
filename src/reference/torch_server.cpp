#include "reference/torch_server.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/temporary_folder.h"

namespace assay::reference {

namespace fs = std::filesystem;
using contract::TensorSpec;
using Json = nlohmann::ordered_json;

namespace {

Json number_of(const contract::Scalar& scalar) {
  if (contract::is_float(scalar.dtype)) return scalar.as_double();
  if (scalar.dtype == contract::DType::boolean) return scalar.as_int() != 0;
  return scalar.as_int();
}

// What the server receives once: dtypes, precisions, the order of arguments.
Json declared(const Contract& contract) {
  Json inputs = Json::object(), outputs = Json::object(), args = Json::array();
  for (const TensorSpec* spec : contract.inputs())
    inputs[spec->name] = {{"dtype", contract::info(spec->dtype).name}};
  for (const TensorSpec* spec : contract.outputs())
    outputs[spec->name] = {{"dtype", contract::info(spec->dtype).name}};
  for (const contract::Arg& arg : contract.kernel.args) args.push_back(arg.name);
  return {{"inputs", inputs},
          {"outputs", outputs},
          {"args", args},
          {"accumulate", contract::info(contract.reference.accumulate).name},
          {"math", contract.reference.math == contract::Math::Fast ? "fast" : "standard"},
          {"tensor_cores", false}};
}

Tensor converted(const Tensor& tensor, contract::DType dtype) {
  Tensor result = Tensor::zeros(dtype, tensor.extents);
  for (int64_t i = 0; i < tensor.count(); ++i)
    if (contract::is_float(dtype))
      result.store(i, tensor.load(i));
    else
      result.store_int(i, tensor.load_int(i));
  return result;
}

}  // namespace

// The server's answer, if it is one.
Result<Json> TorchServer::ask(const Json& question) {
  start();
  if (!problem_.message.empty()) return problem_;
  Result<Json> answer = process_->ask(question);
  if (!answer) return problem_ = answer.error();
  if (answer->value("ok", false)) return answer;
  return Error{fmt::format("the reference {} failed: {}", where_, answer->value("error", "no reason given"))};
}

// What the server evaluates; it has no answer to this.
Json TorchServer::opening() const {
  const auto absolute = [&](const contract::PythonFunction& function) {
    return function ? fs::absolute(contract_.resolve(function.file)).string() + ":" + function.function : "";
  };
  return {{"op", "open"},
          {"reference", absolute(contract_.reference.python)},
          {"inputs", absolute(contract_.generator)},
          {"declared", declared(contract_)}};
}

TorchServer::TorchServer(const Contract& contract, std::shared_ptr<TorchProcess> process)
    : contract_(contract),
      where_(contract.reference.python.file + ":" + contract.reference.python.function),
      process_(process ? std::move(process) : std::make_shared<TorchProcess>()) {}
TorchServer::~TorchServer() = default;

void TorchServer::start() {
  if (started_) return;
  started_ = true;
  if (std::optional<Error> missing = contract_.missing_file()) problem_ = std::move(*missing);
  if (!problem_.message.empty()) return;
  process_->start();
  if (Result<void> told = process_->tell(opening()); !told) problem_ = told.error();
}

// Any answer will do, that to a question it does not know as well.
void TorchServer::wait() {
  (void)ask({{"op", "ready"}});
}

Result<TorchAnswer> TorchServer::expect(const Bindings& bindings, bool tensor_cores) {
  start();
  const TemporaryFolder folder("call", process_->folder());
  Json numbers = Json::object(), inputs = Json::array(), outputs = Json::array(), extents = Json::object();
  for (const auto& [name, value] : bindings.shape) numbers[name] = value;
  for (const auto& [name, value] : bindings.scalars) numbers[name] = number_of(value);
  for (const TensorSpec* spec : contract_.inputs()) {
    const auto found = bindings.inputs.find(spec->name);
    if (found == bindings.inputs.end()) return Error{fmt::format("the input `{}` is missing", spec->name)};
    inputs.push_back(spec->name);
    const std::string path = folder.file(spec->name + ".npy");
    Result<void> written = contract::is_float(spec->dtype)
                               ? write_npy_f64(path, *found->second)
                               : write_npy(path, converted(*found->second, contract::DType::i64));
    if (!written) return written.error();
  }
  for (const TensorSpec* spec : contract_.outputs()) {
    Result<std::vector<int64_t>> sizes = spec->extents(bindings.shape);
    if (!sizes) return sizes.error();
    outputs.push_back(spec->name);
    extents[spec->name] = *sizes;
  }
  Result<Json> said = ask({{"op", "expect"},
                           {"folder", folder.path()},
                           {"numbers", numbers},
                           {"inputs", inputs},
                           {"outputs", outputs},
                           {"extents", extents},
                           {"tensor_cores", tensor_cores}});
  if (!said) return said.error();
  TorchAnswer answer;
  answer.rests_on = said->value("rests_on", "");
  for (const TensorSpec* spec : contract_.outputs()) {
    TorchOutput& output = answer.outputs[spec->name];
    for (const auto& [suffix, part] : {std::pair("", &output.exact), std::pair("@bound", &output.bound),
                                       std::pair("@sigma", &output.sigma)}) {
      Result<Tensor> tensor = contract::read_npy_f64(folder.file(spec->name + suffix + ".out.npy"));
      if (!tensor) return tensor.error();
      if (Json(tensor->extents) != extents[spec->name])
        return Error{
            fmt::format("the reference {} returns `{}` with a shape that differs from the contract's", where_,
                        spec->name)};
      *part = std::move(*tensor);
    }
  }
  return answer;
}

Result<std::map<std::string, Tensor>> TorchServer::inputs(const contract::Shape& shape, uint64_t seed) {
  start();
  const TemporaryFolder folder("inputs", process_->folder());
  Json dims = Json::object();
  for (const auto& [name, value] : shape) dims[name] = value;
  Result<Json> said = ask({{"op", "inputs"}, {"folder", folder.path()}, {"dims", dims}, {"seed", seed}});
  if (!said) return said.error();
  std::map<std::string, Tensor> made;
  for (const TensorSpec* spec : contract_.inputs()) {
    const std::string path = folder.file(spec->name + ".npy");
    if (!fs::exists(path)) continue;  // the generator leaves it to the contract
    Result<std::vector<int64_t>> extents = spec->extents(shape);
    if (!extents) return extents.error();
    Result<Tensor> values = contract::is_float(spec->dtype) ? contract::read_npy_f64(path)
                                                            : contract::read_npy(path, contract::DType::i64);
    if (!values) return values.error();
    if (values->extents != *extents)
      return Error{fmt::format("the generator {} makes `{}` with a shape that differs from the contract's",
                               contract_.generator.file, spec->name)};
    made.emplace(spec->name, converted(*values, spec->dtype));
  }
  return made;
}

}  // namespace assay::reference
