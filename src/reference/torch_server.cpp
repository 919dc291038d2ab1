#include "reference/torch_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/python.h"
#include "base/temporary_folder.h"

extern char** environ;

namespace assay::reference {

namespace fs = std::filesystem;
using contract::TensorSpec;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr double kAnswerSeconds = 120;  // of one answer, the import of torch included
constexpr int kGlance = 50;             // milliseconds between looks at whether to stop
constexpr std::size_t kLongestAnswer = 1 << 20;

Json number_of(const contract::Scalar& scalar) {
  if (contract::is_float(scalar.dtype)) return scalar.as_double();
  if (scalar.dtype == contract::DType::boolean) return scalar.as_int() != 0;
  return scalar.as_int();
}

// What the server is told once: dtypes, precisions, the order of arguments.
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

// The last line that the process wrote on stderr.
std::string last_line(const std::string& path) {
  std::string all = text_of(path);
  while (!all.empty() && all.back() == '\n') all.pop_back();
  const std::size_t line = all.rfind('\n');
  return line == std::string::npos ? all : all.substr(line + 1);
}

}  // namespace

struct TorchServer::Process {
  TemporaryFolder folder{"reference"};
  pid_t child = -1;
  int to = -1, from = -1;  // its stdin and stdout
  std::string received;
  std::string where;  // "reference.py:run"
  Error problem;      // why it is not running

  ~Process() { end(); }

  void end() {
    if (child > 0) {
      kill(child, SIGKILL);
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (to >= 0) close(to);
    if (from >= 0) close(from);
    child = to = from = -1;
  }

  // No device and none of the checker's settings: the reference runs on the CPU, whatever surrounds it.
  static std::vector<std::string> variables(const std::string& package) {
    constexpr std::string_view kLeftOut[] = {
        "LD_PRELOAD=", "ASSAY_SETTINGS=", "CUDA_VISIBLE_DEVICES=", "PYTHONPATH="};
    std::vector<std::string> list;
    for (char** one = environ; *one; ++one)
      if (std::ranges::none_of(kLeftOut, [&](auto name) { return std::string_view(*one).starts_with(name); }))
        list.emplace_back(*one);
    list.emplace_back("CUDA_VISIBLE_DEVICES=");
    list.push_back("PYTHONPATH=" + path_with(package, "PYTHONPATH"));
    return list;
  }

  Result<void> start(const Contract& contract) {
    where = contract.reference.python.file + ":" + contract.reference.python.function;
    if (folder.path().empty()) return Error{"no temporary folder could be made"};
    for (const contract::PythonFunction& function : {contract.reference.python, contract.generator})
      if (function && !fs::exists(contract.resolve(function.file)))
        return Error{fmt::format("{} does not exist", function.file), contract.path};
    const std::string package = python_package_folder();
    if (package.empty()) return Error{"Assay's Python package is not beside the program; install it whole"};
    std::ofstream(folder.file("declared.json")) << declared(contract).dump();
    const auto absolute = [&](const contract::PythonFunction& function) {
      return fs::absolute(contract.resolve(function.file)).string() + ":" + function.function;
    };
    std::vector<std::string> words = {python_program(),
                                      "-m",
                                      "assay.reference.server",
                                      "--reference",
                                      absolute(contract.reference.python),
                                      "--declared",
                                      folder.file("declared.json")};
    if (contract.generator) words.insert(words.end(), {"--inputs", absolute(contract.generator)});
    return spawn(words, variables(package));
  }

  Result<void> spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
    std::vector<char*> argv, env;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : environment) env.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    const std::string log = folder.file("log");
    int in[2], out[2];
    // A socket, so that a question to a process that has died is an error and not a signal.
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
      return Error{fmt::format("socketpair: {}", std::strerror(errno))};
    if (pipe2(out, O_CLOEXEC) != 0) return Error{fmt::format("pipe: {}", std::strerror(errno))};
    child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setpgid(0, 0);  // an interruption at the terminal is the judge's to handle
      dup2(in[0], 0);
      dup2(out[1], 1);
      dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      execvpe(argv[0], argv.data(), env.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to = in[1];
    from = out[0];
    if (child < 0) return Error{fmt::format("fork: {}", std::strerror(errno))};
    return {};
  }

  // One question, one answer.
  Result<Json> ask(const Json& question) {
    if (child < 0) return problem;
    const std::string line = question.dump() + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(to, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return lost();
      sent += static_cast<std::size_t>(n);
    }
    const auto limit = Clock::now() + std::chrono::duration<double>(kAnswerSeconds);
    for (;;) {
      if (const std::size_t newline = received.find('\n'); newline != std::string::npos) {
        const Json answer = Json::parse(received.substr(0, newline), nullptr, false);
        received.erase(0, newline + 1);
        return checked(answer);
      }
      if (interrupted()) return stop("interrupted");
      if (Clock::now() > limit)
        return stop(fmt::format("the reference {} gave no answer within {:.0f} s", where, kAnswerSeconds));
      pollfd waiting{from, POLLIN, 0};
      if (poll(&waiting, 1, kGlance) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(from, buffer, sizeof buffer);
      if (n <= 0) return lost();
      received.append(buffer, static_cast<std::size_t>(n));
      if (received.size() > kLongestAnswer)
        return stop(fmt::format("the reference {} gave no answer", where));
    }
  }

  Result<Json> checked(const Json& answer) const {
    if (!answer.is_object()) return Error{fmt::format("the reference {} gave no answer", where)};
    if (answer.value("ok", false)) return answer;
    return Error{fmt::format("the reference {} failed: {}", where, answer.value("error", "no reason given"))};
  }

  Error stop(std::string why) {
    end();
    return problem = Error{std::move(why)};
  }

  Error lost() {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    child = -1;
    if (interrupted()) return stop("interrupted");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
      return stop(fmt::format("{} could not be started", python_program()));
    const std::string said = last_line(folder.file("log"));
    if (said.find("No module named 'torch'") != std::string::npos)
      return stop(missing_module("PyTorch", "torch"));
    return stop(fmt::format("the reference {} failed: {}", where, said));
  }
};

TorchServer::TorchServer(const Contract& contract) : contract_(contract) {}
TorchServer::~TorchServer() = default;

void TorchServer::start() {
  if (process_) return;
  process_ = std::make_unique<Process>();
  if (Result<void> started = process_->start(contract_); !started) process_->problem = started.error();
}

// Any answer will do, that to a question it does not know as well.
void TorchServer::wait() {
  start();
  (void)process_->ask({{"op", "ready"}});
}

Result<TorchAnswer> TorchServer::expect(const Bindings& bindings, bool tensor_cores) {
  start();
  const TemporaryFolder folder("call", process_->folder.path());
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
  Result<Json> said = process_->ask({{"op", "expect"},
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
        return Error{fmt::format("the reference {} returns `{}` with another shape than the contract says",
                                 process_->where, spec->name)};
      *part = std::move(*tensor);
    }
  }
  return answer;
}

Result<std::map<std::string, Tensor>> TorchServer::inputs(const contract::Shape& shape, uint64_t seed) {
  start();
  const TemporaryFolder folder("inputs", process_->folder.path());
  Json dims = Json::object();
  for (const auto& [name, value] : shape) dims[name] = value;
  Result<Json> said =
      process_->ask({{"op", "inputs"}, {"folder", folder.path()}, {"dims", dims}, {"seed", seed}});
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
      return Error{fmt::format("the generator {} makes `{}` with another shape than the contract says",
                               contract_.generator.file, spec->name)};
    made.emplace(spec->name, converted(*values, spec->dtype));
  }
  return made;
}

}  // namespace assay::reference
