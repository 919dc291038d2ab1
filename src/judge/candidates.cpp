#include "judge/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace assay::judge {

using reference::Defect;

namespace {

// As tensor cores take f32: ten bits after the leading one.
double tf32(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, 11 - exponent)), exponent - 11);
}

}  // namespace

std::vector<Candidate> everywhere(const reference::Reference& reference) {
  std::vector<Candidate> list;
  for (const Defect& defect : reference::defects()) {
    if (reference.applies(defect)) list.push_back({defect, std::string(defect.description)});
  }
  return list;
}

std::vector<Candidate> in_one_sum(const reference::Reference& reference, const std::string& output,
                                  std::string_view narrow) {
  constexpr std::size_t kMostSums = 4;
  std::vector<Candidate> list;
  const std::vector<reference::Site> sums = reference.sums(output);
  if (sums.size() < 2) return list;
  for (std::size_t i = 0; i < std::min(sums.size(), kMostSums); ++i) {
    for (Candidate& one : everywhere(reference)) {
      if (!one.defect.name.starts_with(narrow) || (!one.defect.accumulator && !one.defect.reduced)) continue;
      one.defect.only_sum = sums[i].definition;
      one.description += fmt::format(", in {}", sums[i].in);
      list.push_back(std::move(one));
    }
  }
  return list;
}

std::vector<Candidate> in_one_value(const reference::Reference& reference, const std::string& output,
                                    contract::DType narrow) {
  constexpr std::size_t kMostValues = 16;
  std::vector<Candidate> list;
  for (const reference::Site& site : reference.values(output)) {
    if (list.size() == kMostValues) break;
    Candidate one;
    one.defect.name = narrow == contract::DType::bf16 ? "bf16-value" : "f16-value";
    one.defect.kind = Kind::PrecisionLoss;
    one.defect.intermediates = narrow;
    one.defect.only_value = site.value;
    one.defect.value_of = site.definition;
    one.description =
        fmt::format("an intermediate value of {} were rounded to {}", site.in, contract::info(narrow).name);
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<Candidate> of_inputs(const contract::Bindings& bindings) {
  struct Narrow {
    std::string_view name;
    double (*rounded)(double);
  };
  constexpr Narrow kNarrow[] = {
      {"bf16", [](double x) { return contract::rounded(contract::DType::bf16, x); }},
      {"tf32", tf32},
      {"f16", [](double x) { return contract::rounded(contract::DType::f16, x); }}};
  std::vector<std::vector<std::string>> choices(1);  // all of them, and each
  for (const auto& [name, tensor] : bindings.inputs) {
    if (tensor->dtype != contract::DType::f32) continue;
    choices[0].push_back(name);
    choices.push_back({name});
  }
  if (choices[0].size() < 2) choices.erase(choices.begin());  // all is each
  std::vector<Candidate> list;
  for (const Narrow& narrow : kNarrow) {
    for (const std::vector<std::string>& inputs : choices) {
      Candidate one;
      one.defect.name = "narrow-input";
      one.defect.kind = Kind::PrecisionLoss;
      one.description =
          fmt::format("{} were rounded to {}",
                      inputs.size() > 1 ? std::string("the inputs") : fmt::format("the input {}", inputs[0]),
                      narrow.name);
      one.inputs = inputs;
      one.narrowed = narrow.rounded;
      list.push_back(std::move(one));
    }
  }
  return list;
}

contract::Bindings with_narrow_inputs(const contract::Bindings& bindings, const Candidate& candidate) {
  contract::Bindings changed = bindings;
  for (const std::string& name : candidate.inputs) {
    auto tensor = std::make_shared<contract::Tensor>(*bindings.inputs.find(name)->second);
    for (int64_t i = 0; i < tensor->count(); ++i) tensor->store(i, candidate.narrowed(tensor->load(i)));
    changed.inputs[name] = std::move(tensor);
  }
  return changed;
}

std::vector<Candidate> cut_short(const reference::Reference& reference, const contract::Bindings& bindings) {
  int64_t longest = 0;
  for (const auto& [name, extent] : bindings.shape) longest = std::max(longest, extent);
  std::vector<Candidate> list;
  constexpr int64_t kShortest = 32;  // a warp
  for (int64_t kept = kShortest; kept < longest; kept *= 2) {
    Candidate one;
    one.defect.name = "cut-short";
    one.defect.kind = Kind::WrongResult;
    one.defect.dropped_terms = longest - kept;
    if (!reference.applies(one.defect)) break;
    one.description = fmt::format("only the first {} terms of the reduction were added", kept);
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<Candidate> ordered(std::vector<Candidate> list, std::span<const Kind> hints) {
  const auto rank = [&](const Candidate& candidate) {
    return std::find(hints.begin(), hints.end(), candidate.defect.kind) - hints.begin();
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return list;
}

}  // namespace assay::judge
