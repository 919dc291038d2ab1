#include "reference/python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/temporary_folder.h"
#include "reference/foreign.h"

namespace assay::reference {
namespace {

namespace fs = std::filesystem;

constexpr useconds_t kGlance = 2000;  // microseconds between looks at whether it has ended

// Loads the function, calls it with arrays and numbers by name in float64, and saves what it returns: a dict
// by name, a tuple or list in the order of the outputs, or one array. Then calls it again and again in the
// working precision (float32, if it lets itself) with every number moved by about its rounding, and saves the
// root mean square and the largest of the differences.
constexpr const char* kDriver = R"py(
import importlib.util, inspect, json, os, sys
try:
    import numpy as np
except ImportError:
    sys.exit("%s has no NumPy: install it (python3 -m pip install numpy, or the package python3-numpy), "
             "or name an interpreter that has it in ASSAY_PYTHON" % sys.executable)

folder = sys.argv[1]
job = json.load(open(os.path.join(folder, "job.json")))
sys.path.insert(0, os.path.dirname(os.path.abspath(job["file"])))
spec = importlib.util.spec_from_file_location("assay_reference", job["file"])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if not hasattr(module, job["function"]):
    sys.exit("there is no function '%s' in %s" % (job["function"], job["file"]))
function = getattr(module, job["function"])


random = np.random.default_rng(1)


def call(real, moved):
    given = dict(job["numbers"])
    for name in job["inputs"]:
        array = np.load(os.path.join(folder, name + ".npy"))
        if array.dtype.kind == "f":
            if moved:
                array = array * (1 + 2.0**-23 * random.uniform(-1, 1, array.shape))
            array = array.astype(real)
        given[name] = array
    wanted = inspect.signature(function).parameters.values()
    if not any(p.kind == p.VAR_KEYWORD for p in wanted):
        for p in wanted:
            if p.name not in given and p.default is p.empty:
                sys.exit("'%s' asks for '%s', which the contract does not have" % (job["function"], p.name))
        given = {p.name: given[p.name] for p in wanted if p.name in given}
    result = function(**given)
    if isinstance(result, dict):
        return result
    if not isinstance(result, (tuple, list)):
        result = [result]
    if len(result) != len(job["outputs"]):
        sys.exit("'%s' returned %d outputs, the contract has %d" % (job["function"], len(result), len(job["outputs"])))
    return dict(zip(job["outputs"], result))


def outputs(real, moved):
    results = call(real, moved)
    for name in job["outputs"]:
        if name not in results:
            sys.exit("'%s' did not return '%s'" % (job["function"], name))
        array, extents = np.asarray(results[name], dtype=np.float64), job["extents"][name]
        if [n for n in array.shape if n != 1] != [n for n in extents if n != 1]:
            sys.exit("'%s' returned '%s' with the shape %s, the contract says %s"
                     % (job["function"], name, list(array.shape), extents))
        results[name] = np.ascontiguousarray(array.reshape(extents))
    return results


def save(name, array):
    np.save(os.path.join(folder, name + ".out.npy"), array)


def working(run):
    try:
        return outputs(np.float32, run > 0)
    except Exception:
        return outputs(np.float64, True)


exact = outputs(np.float64, False)
squares = {name: np.zeros_like(exact[name]) for name in job["outputs"]}
largest = {name: np.zeros_like(exact[name]) for name in job["outputs"]}
np.seterr(all="ignore")
for run in range(job["runs"]):
    results = working(run)
    for name in job["outputs"]:
        loss = np.abs(results[name] - exact[name])
        loss[~np.isfinite(loss)] = 0
        squares[name] += loss * loss
        largest[name] = np.maximum(largest[name], loss)
for name in job["outputs"]:
    save(name, exact[name])
    save(name + "@spread", np.sqrt(squares[name] / job["runs"]))
    save(name + "@largest", largest[name])
)py";

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";  // as Python reads it
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.17g}", value);
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// JSON by hand: names are identifiers, so nothing needs more than quotes.
Result<std::string> job_text(const Contract& contract, const Bindings& bindings) {
  std::vector<std::string> inputs, outputs, numbers, extents;
  for (const TensorSpec* spec : contract.inputs()) inputs.push_back(json_string(spec->name));
  for (const TensorSpec* spec : contract.outputs()) {
    outputs.push_back(json_string(spec->name));
    Result<std::vector<int64_t>> sizes = spec->extents(bindings.shape);
    if (!sizes) return sizes.error();
    std::vector<std::string> list;
    for (const int64_t size : *sizes) list.push_back(std::to_string(size));
    extents.push_back(fmt::format("{}: [{}]", json_string(spec->name), joined(list)));
  }
  for (const auto& [name, value] : bindings.shape)
    numbers.push_back(fmt::format("{}: {}", json_string(name), value));
  for (const auto& [name, value] : bindings.scalars)
    numbers.push_back(
        fmt::format("{}: {}", json_string(name),
                    is_float(value.dtype) ? json_number(value.as_double()) : std::to_string(value.as_int())));
  const std::string file = fs::absolute(contract.resolve(contract.reference.python.file)).string();
  return fmt::format(
      R"({{"file": {}, "function": {}, "inputs": [{}], "outputs": [{}], "numbers": {{{}}}, "extents": {{{}}}, "runs": {}}})",
      json_string(file), json_string(contract.reference.python.function), joined(inputs), joined(outputs),
      joined(numbers), joined(extents), kWorkingRuns);
}

std::string last_lines(const std::string& path) {
  std::string all = text_of(path);
  while (!all.empty() && all.back() == '\n') all.pop_back();
  const std::size_t line = all.rfind('\n');
  return line == std::string::npos ? all : all.substr(line + 1);
}

Result<void> run(const TemporaryFolder& folder) {
  const std::string driver = folder.file("driver.py"), log = folder.file("log");
  const std::string& where = folder.path();
  std::ofstream(driver) << kDriver;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // Another interpreter than the path's first, for one that has NumPy.
  const char* chosen = std::getenv("ASSAY_PYTHON");
  std::string words[] = {chosen && *chosen ? chosen : "python3", driver, where};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{fmt::format("{} could not be started", words[0])};
  int status = 0;
  for (pid_t ended = 0; ended == 0;) {
    ended = waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return Error{"python3 was lost"};
    if (ended < 0) ended = 0;
    if (ended == 0 && interrupted()) kill(child, SIGKILL);
    if (ended == 0) usleep(kGlance);
  }
  if (interrupted()) return Error{"interrupted"};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error{last_lines(log)};
}

}  // namespace

Result<std::map<std::string, Tensor>> run_python(const Contract& contract, const Bindings& bindings) {
  if (std::optional<Error> missing = contract.missing_file()) return std::move(*missing);
  const std::string where = contract.reference.python.file + ":" + contract.reference.python.function;
  const TemporaryFolder folder("reference");
  if (folder.path().empty()) return Error{"no temporary folder could be created"};
  Result<std::string> job = job_text(contract, bindings);
  if (!job) return job.error();
  std::ofstream(folder.file("job.json")) << *job;
  for (const TensorSpec* spec : contract.inputs()) {
    const auto found = bindings.inputs.find(spec->name);
    if (found == bindings.inputs.end()) return Error{fmt::format("the input `{}` is missing", spec->name)};
    const std::string path = folder.file(spec->name + ".npy");
    Result<void> written =
        is_float(spec->dtype) ? write_npy_f64(path, *found->second) : write_npy(path, *found->second);
    if (!written) return written.error();
  }
  if (Result<void> done = run(folder); !done)
    return Error{fmt::format("the reference {} failed: {}", where, done.error().message), contract.path};
  std::map<std::string, Tensor> outputs;
  for (const TensorSpec* spec : contract.outputs())
    for (const std::string_view suffix : {std::string_view(), kSpread, kLargest}) {
      const std::string name = spec->name + std::string(suffix);
      Result<Tensor> tensor = read_npy_f64(folder.file(name + ".out.npy"));
      if (!tensor) return tensor.error();
      outputs[name] = std::move(*tensor);
    }
  return outputs;
}

}  // namespace assay::reference
