#include "trial/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/schedule.h"
#include "trial/families.h"
#include "trial/runs.h"
#include "trial/sparse.h"

namespace assay::trial {

using contract::Contract;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kDateBytes = 32;  // room for "2028-02-29 23:59", also in years of more digits

struct PoisonInfo {
  Poison poison;
  std::string_view name;
  uint64_t pattern;
};
// NaN in every float format that has one; the two NaNs differ in payload. Large is a big finite
// number in f16, bf16 and f32 alike.
constexpr PoisonInfo kPoisons[] = {
    {Poison::Nan, "nan", 0x7fd57fd57fd57fd5ull},
    {Poison::OtherNan, "other-nan", 0xffeaffeaffeaffeaull},
    {Poison::Zeros, "zeros", 0},
    {Poison::Ones, "ones", 0xffffffffffffffffull},
    {Poison::Large, "large", 0x7b437b437b437b43ull},
};

struct Switch {
  const char* name;
  bool Condition::*member;
  const char* words = nullptr;  // where a reader must know of it to understand the trial
};
constexpr Switch kSwitches[] = {
    {"ordered", &Condition::ordered},
    {"others_late", &Condition::others_late},
    {"moved", &Condition::moved},
    {"aliased", &Condition::aliased, "an output in an input's place"},
    {"repeated", &Condition::repeated},
    {"overlapped", &Condition::overlapped, "two calls at once"},
    {"related", &Condition::related, "calls with related inputs"},
    {"fresh", &Condition::fresh},
    {"warmed", &Condition::warmed, "after earlier calls"},
    {"grown", &Condition::grown, "after a smaller call"},
    {"host_poison", &Condition::host_poison},
    {"shared_inputs", &Condition::shared_inputs, "inputs at one address"},
    {"loaded", &Condition::loaded, "under load"},
    {"perturbed", &Condition::perturbed, "with pauses in the kernel"},
    {"looped", &Condition::looped, "many calls"},
};

// Whether the legal values of both are the same: as written, or any real number under different names.
bool same_values(const contract::Values& a, const contract::Values& b) {
  using contract::ValuesKind;
  const auto any_real = [](ValuesKind kind) {
    return kind == ValuesKind::Real || kind == ValuesKind::Activations || kind == ValuesKind::Gradients ||
           kind == ValuesKind::Weights;
  };
  return (a.kind == b.kind && a.text == b.text) || (any_real(a.kind) && any_real(b.kind));
}

constexpr int64_t kAllocationAlignment = 256;  // of what cudaMalloc returns

std::string_view alignment_words(const Condition& condition) {
  return condition.alignment == kWellAligned ? "tensors aligned as fresh allocations"
                                             : "tensors aligned by chance";
}

Error bad(std::string_view what) {
  return Error{fmt::format("the trial's {} cannot be read", what)};
}

}  // namespace

std::string describe(const Gpu& gpu) {
  return fmt::format("{} ({} multiprocessors)", gpu.name, gpu.multiprocessors);
}

std::string date(int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[kDateBytes];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

std::string_view to_string(Poison poison) {
  for (const PoisonInfo& p : kPoisons) {
    if (p.poison == poison) return p.name;
  }
  return "";
}
uint64_t pattern(Poison poison) {
  for (const PoisonInfo& p : kPoisons) {
    if (p.poison == poison) return p.pattern;
  }
  return 0;
}

uint64_t packed_pattern(Poison poison) {
  constexpr uint64_t kEveryByte = 0x0101010101010101ull;
  return (pattern(poison) & 0xff) * kEveryByte;
}

int64_t alignment_of(const contract::TensorSpec& spec, const Condition& condition) {
  if (condition.alignment == 0 || spec.align >= kAllocationAlignment) return spec.align;
  if (condition.alignment == kWellAligned) return kAllocationAlignment;
  int64_t steps = 0;
  while (spec.align << (steps + 1) <= kAllocationAlignment) ++steps;
  const auto step = mix(hash(spec.name), condition.alignment) % static_cast<uint64_t>(steps + 1);
  return spec.align << step;
}

bool may_be_better_aligned(const Contract& contract) {
  return std::any_of(contract.tensors.begin(), contract.tensors.end(),
                     [](const contract::TensorSpec& spec) { return spec.align < kAllocationAlignment; });
}

std::vector<std::string> kinds_of(const Condition& condition) {
  std::vector<std::string> kinds = {fmt::format("memory poisoned with {}", to_string(condition.poison))};
  if (condition.schedule != 0) kinds.emplace_back(describe(schedule_kind(condition.schedule)));
  if (!condition.ordered) kinds.emplace_back("an idle device");
  for (const Switch& s : kSwitches) {
    if (s.member == &Condition::ordered || !(condition.*s.member)) continue;
    std::string words = s.words ? s.words : s.name;
    std::replace(words.begin(), words.end(), '_', ' ');
    kinds.push_back(std::move(words));
  }
  if (condition.alignment != 0) kinds.emplace_back(alignment_words(condition));
  return kinds;
}

std::string to_string(const Trial& trial) {
  std::string text = trial.shape.empty() ? "the only shape" : contract::to_string(trial.shape);
  for (const auto& [name, family] : trial.families) {
    if (family != Family::Natural) text += fmt::format(", {} {}", name, to_string(family));
  }
  for (const auto& [name, sizes] : trial.runs)
    text += fmt::format(", {} in runs of {}", name, fmt::join(sizes, "/"));
  if (!trial.sparse.empty()) text += fmt::format(", few rows of {}", trial.sparse);
  if (trial.sampled) text += ", a sample of the blocks";
  for (const auto& [name, scalar] : trial.scalars) {
    const bool single = contract::is_float(scalar.dtype) && scalar.dtype != contract::DType::f64;
    const double value = scalar.as_double();
    text +=
        ", " + name + " = " + (single ? fmt::to_string(static_cast<float>(value)) : fmt::to_string(value));
  }
  for (const Switch& s : kSwitches) {
    if (s.words && trial.condition.*s.member) text += fmt::format(", {}", s.words);
  }
  if (const ScheduleKind kind = schedule_kind(trial.condition.schedule); is_extreme(kind))
    text += fmt::format(", {}", describe(kind));
  if (trial.condition.alignment != 0) text += fmt::format(", {}", alignment_words(trial.condition));
  if (trial.condition.cycles != 0) text += ", at another time";
  if (trial.condition.shift != 0) text += ", at other addresses";
  if (trial.condition.gpu != 0) text += fmt::format(", {}", describe(kGpus[trial.condition.gpu]));
  if (trial.condition.clock != 0) text += fmt::format(", clock at {}", date(trial.condition.clock));
  return text + fmt::format(", seed {}", trial.seed);
}

Json to_json(const Trial& trial) {
  Json json, shape = Json::object(), scalars = Json::object(), families = Json::object(), condition;
  for (const auto& [name, value] : trial.shape) shape[name] = value;
  for (const auto& [name, scalar] : trial.scalars) {
    scalars[name] = {
        {"dtype", contract::info(scalar.dtype).name}, {"bits", scalar.bits}, {"value", scalar.as_double()}};
  }
  for (const auto& [name, family] : trial.families) families[name] = to_string(family);
  condition["poison"] = to_string(trial.condition.poison);
  condition["schedule"] = trial.condition.schedule;
  condition["cycles"] = trial.condition.cycles;
  condition["shift"] = trial.condition.shift;
  if (trial.condition.alignment != 0) condition["alignment"] = trial.condition.alignment;
  for (const Switch& s : kSwitches) {
    const bool of_gpu = s.member == &Condition::loaded || s.member == &Condition::perturbed;
    if (!of_gpu || trial.condition.*s.member) condition[s.name] = trial.condition.*s.member;
  }
  condition["gpu"] = kGpus[trial.condition.gpu].id;
  condition["clock"] = trial.condition.clock;
  json["shape"] = shape;
  json["scalars"] = scalars;
  json["inputs"] = families;
  if (!trial.runs.empty()) json["runs"] = trial.runs;
  json["seed"] = trial.seed;
  json["condition"] = condition;
  if (!trial.sparse.empty()) json["sparse"] = trial.sparse;
  if (trial.sampled) json["sampled"] = true;
  return json;
}

Result<Trial> from_json(const Contract& contract, const Json& json) {
  Trial trial;
  try {
    for (const auto& [name, value] : json.at("shape").items()) trial.shape[name] = value.get<int64_t>();
    for (const auto& [name, value] : json.at("scalars").items()) {
      const auto dtype = contract::dtype_named(value.at("dtype").get<std::string>());
      if (!dtype) return bad("scalars");
      trial.scalars[name] = {*dtype, value.at("bits").get<uint64_t>()};
    }
    for (const auto& [name, value] : json.at("inputs").items()) {
      if (!family_named(value.get<std::string>(), trial.families[name])) return bad("inputs");
    }
    if (const auto runs = json.find("runs"); runs != json.end()) runs->get_to(trial.runs);
    for (const auto& [name, sizes] : trial.runs) {
      const contract::TensorSpec* spec = contract.tensor(name);
      const auto negative = [&](int64_t size) {
        return size < 0 && spec->values.kind == contract::ValuesKind::Offsets;
      };
      if (!spec || !has_sizes(*spec) || sizes.empty() || std::ranges::any_of(sizes, negative))
        return bad("runs");
    }
    trial.seed = json.at("seed").get<uint64_t>();
    trial.sparse = json.value("sparse", "");
    trial.sampled = json.value("sampled", false);
    const Json& condition = json.at("condition");
    const auto poison = condition.at("poison").get<std::string>();
    for (const PoisonInfo& p : kPoisons) {
      if (p.name == poison) trial.condition.poison = p.poison;
    }
    trial.condition.schedule = condition.at("schedule").get<uint64_t>();
    trial.condition.cycles = condition.value("cycles", uint64_t{0});
    trial.condition.shift = condition.value("shift", int64_t{0});
    trial.condition.alignment = condition.value("alignment", uint64_t{0});
    for (const Switch& s : kSwitches)
      trial.condition.*s.member = condition.value(s.name, trial.condition.*s.member);
    const Gpu* gpu = gpu_named(condition.value("gpu", std::string(kGpus[0].id)));
    if (!gpu) return bad("GPU");
    trial.condition.gpu = static_cast<uint8_t>(gpu - kGpus);
    trial.condition.clock = condition.value("clock", int64_t{0});
  } catch (const nlohmann::json::exception&) {
    return Error{"the recorded trial is damaged"};
  }
  if (auto legal = contract.check_shape(trial.shape); !legal) return legal.error();
  return trial;
}

const contract::TensorSpec& shared_input(const Contract& contract, const contract::TensorSpec& spec,
                                         const contract::Shape& shape) {
  if (spec.role != contract::Role::In) return spec;
  // What a generator makes for one input need not be legal for another.
  if (spec.values.kind == contract::ValuesKind::Generated) return spec;
  if (!spec.buffer.empty() || spec.pointers) return spec;
  const auto extents = spec.extents(shape);
  for (const contract::TensorSpec& other : contract.tensors) {
    if (&other == &spec || !extents) break;
    const auto others = other.extents(shape);
    if (other.strides.empty() != spec.strides.empty() || !spec.strides.empty()) continue;
    if (!other.buffer.empty() || other.pointers) continue;
    if (other.role == contract::Role::In && other.dtype == spec.dtype && other.align == spec.align &&
        others && *others == *extents && same_values(other.values, spec.values))
      return other;
  }
  return spec;
}

Result<contract::Bindings> make_inputs(const Contract& contract, const Trial& trial,
                                       const Generator& generator) {
  contract::Bindings bindings;
  bindings.shape = trial.shape;
  bindings.scalars = trial.scalars;
  std::map<std::string, contract::Tensor> of_problem;
  const auto of_generator = [&](const contract::TensorSpec& spec) {
    const auto family = trial.families.find(spec.name);
    return spec.values.kind == contract::ValuesKind::Generated ||
           (family != trial.families.end() && family->second == Family::Problem);
  };
  const std::vector<const contract::TensorSpec*> inputs_of_call = contract.inputs();
  const bool asked = std::any_of(inputs_of_call.begin(), inputs_of_call.end(),
                                 [&](const contract::TensorSpec* spec) { return of_generator(*spec); });
  if (asked && generator) {
    auto inputs = generator(trial.shape, trial.seed);
    if (!inputs) return inputs.error();
    of_problem = std::move(*inputs);
  }
  for (const contract::TensorSpec* spec : inputs_of_call) {
    if (trial.condition.shared_inputs) {
      const contract::TensorSpec& owner = shared_input(contract, *spec, trial.shape);
      if (const auto made = bindings.inputs.find(owner.name); made != bindings.inputs.end()) {
        bindings.inputs[spec->name] = made->second;
        continue;
      }
    }
    if (const auto found = of_problem.find(spec->name); found != of_problem.end() && of_generator(*spec)) {
      bindings.inputs[spec->name] = std::make_shared<const contract::Tensor>(std::move(found->second));
      continue;
    }
    const auto family = trial.families.find(spec->name);
    const Family drawn = family == trial.families.end() ? Family::Natural : family->second;
    const uint64_t seed = mix(trial.seed, hash(spec->name));
    const bool few = is_sparse(*spec, trial) || names_sparse_rows(*spec, trial);
    const auto runs = trial.runs.find(spec->name);
    auto tensor = few                        ? draw_sparse(contract, *spec, trial, drawn, seed)
                  : runs != trial.runs.end() ? draw_runs(*spec, trial.shape, runs->second)
                                             : draw(*spec, trial.shape, drawn, seed);
    if (!tensor) return tensor.error();
    bindings.inputs[spec->name] = std::make_shared<const contract::Tensor>(std::move(*tensor));
  }
  return bindings;
}

Result<Size> size_of(const Contract& contract, const contract::Shape& shape) {
  Size size;
  for (const contract::TensorSpec& spec : contract.tensors) {
    double count = 1;
    for (const contract::IntExpr& extent : spec.shape) {
      const auto n = extent.eval(shape);
      if (!n) return n.error();
      if (*n < 0) return Error{fmt::format("tensor {} would have a negative extent", spec.name)};
      count *= static_cast<double>(*n);
    }
    size.elements += count;
    size.bytes += count * contract::info(spec.dtype).bytes;
    if (spec.strides.empty()) continue;
    const auto layout = spec.layout(shape);
    if (!layout) return layout.error();
    size.bytes +=
        std::max(0.0, static_cast<double>(layout->bytes) - count * contract::info(spec.dtype).bytes);
  }
  const auto workspace = contract.kernel.workspace_bytes.eval(shape);
  if (!workspace) return workspace.error();
  size.bytes += static_cast<double>(*workspace);
  return size;
}

}  // namespace assay::trial
