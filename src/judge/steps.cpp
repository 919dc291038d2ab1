#include "judge/steps.h"

#include <algorithm>
#include <filesystem>

#include "judge/same_cause.h"

namespace assay::judge {

namespace {

constexpr Step kSteps[] = {
    {"placed", placed},       {"attributed", attributed}, {"screened", screened},
    {"explained", explained}, {"named", named},
};

struct CauseKind {
  Cause cause;
  Kind kind;
};
constexpr CauseKind kKinds[] = {
    {Cause::Overlap, Kind::ConcurrentLaunch},    {Cause::SharedByCalls, Kind::ConcurrentLaunch},
    {Cause::Clock, Kind::Nondeterministic},      {Cause::Addresses, Kind::Nondeterministic},
    {Cause::Chance, Kind::Nondeterministic},     {Cause::Varies, Kind::Nondeterministic},
    {Cause::SeenOnce, Kind::Nondeterministic},   {Cause::EarlierCalls, Kind::StaleState},
    {Cause::RelatedCall, Kind::StaleState},      {Cause::FirstCall, Kind::StaleState},
    {Cause::LaterConsequence, Kind::StaleState}, {Cause::EndsOnlyFirst, Kind::StaleState},
    {Cause::HostMemory, Kind::Uninitialized},    {Cause::DeviceMemory, Kind::Uninitialized},
    {Cause::UnorderedWork, Kind::StreamOrder},   {Cause::HeldStream, Kind::StreamOrder},
};

// The same for tensors that are parts of one allocation.
void place_in(const std::vector<contract::BufferPart>& parts, evidence::Place& place) {
  int64_t length = 0;
  for (const contract::BufferPart& part : parts) length = std::max(length, part.at + part.layout.bytes);
  const int64_t begin = static_cast<int64_t>(place.allocation->bytes) - length;
  for (const contract::BufferPart& part : parts) {
    auto index = part.layout.element_at(place.offset - begin - part.at);
    if (!index) continue;
    place.element = evidence::TensorElement{part.spec->name, part.layout.extents, std::move(*index),
                                            part.spec->is_complex};
    return;
  }
}

// Which element of a tensor a byte of its buffer belongs to. The buffer may begin before the tensor (where
// callers promise less than a fresh allocation's alignment) and ends with it.
void place(const contract::Contract& contract, const contract::Shape& shape, evidence::Place& place) {
  if (!place.allocation) return;
  const std::string& label = place.allocation->label;
  const contract::TensorSpec* spec = contract.tensor(label);
  const auto parts = spec ? Result<std::vector<contract::BufferPart>>{std::vector<contract::BufferPart>{}}
                          : contract.parts_of(label, shape);
  if (!spec && parts && !parts->empty()) return place_in(*parts, place);
  if (!spec || spec->pointers) return;
  const auto layout = spec->layout(shape);
  if (!layout) return;
  evidence::TensorElement element{spec->name, layout->extents, {}, spec->is_complex};
  const int64_t bytes = static_cast<int64_t>(place.allocation->bytes), begin = bytes - layout->bytes;
  if (begin >= 0)
    if (auto index = layout->element_at(place.offset - begin)) element.index = std::move(*index);
  place.element = std::move(element);
}

bool is_narrow_sum(Kind kind) {
  return kind == Kind::NarrowSum || kind == Kind::NarrowAtomic || kind == Kind::NarrowMma;
}

bool is_same_line(const Where& a, const Where& b) {
  return a.line == b.line &&
         std::filesystem::path(a.file).filename() == std::filesystem::path(b.file).filename();
}

// Sums that are too inaccurate, in code that keeps a sum in bf16 or f16: that is the cause, if the error
// enters there, as far as the line is known. In a short sum of many threads it looks like one rounding of
// every term, because each has a term or two.
void name_by_code(Finding& finding, std::span<const Finding> notes) {
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  if (!numeric || !numeric->worst) return;
  const bool wrong = finding.kind == Kind::WrongResult && numeric->error_line;
  if (finding.kind != Kind::PrecisionLoss && !wrong) return;
  constexpr double kSum = 2;  // terms from which there is something to add
  const auto narrow = std::find_if(notes.begin(), notes.end(), [&](const Finding& note) {
    if (!is_narrow_sum(note.kind)) return false;
    return numeric->error_line ? is_same_line(note.where, finding.where) : numeric->worst->terms >= kSum;
  });
  if (narrow == notes.end()) return;
  finding.attribution.symptom = finding.kind;
  finding.kind = Kind::LowPrecisionAccumulation;
  if (!numeric->error_line) finding.where = narrow->where;
}

}  // namespace

std::span<const Step> steps() {
  return kSteps;
}

std::vector<Finding> diagnose(std::vector<Finding> findings, const Known& known) {
  for (const Step& step : kSteps) findings = step.apply(std::move(findings), known);
  return findings;
}

Kind kind_of(Cause cause) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const CauseKind& row) { return row.cause == cause; });
  return found == std::end(kKinds) ? Kind::WrongResult : found->kind;
}

bool is_between_operations(const Finding& finding) {
  const auto* race = std::get_if<evidence::Race>(&finding.evidence);
  return finding.kind == Kind::DataRace && race && race->relation == evidence::Relation::Operations &&
         race->fix.remedy != evidence::Remedy::WaitForGrid;
}

std::vector<Finding> placed(std::vector<Finding> findings, const Known& known) {
  if (!known.contract || !known.shape) return findings;
  for (Finding& finding : findings) {
    if (auto* access = std::get_if<evidence::Access>(&finding.evidence))
      place(*known.contract, *known.shape, access->place);
    if (auto* race = std::get_if<evidence::Race>(&finding.evidence))
      place(*known.contract, *known.shape, race->place);
    if (auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence))
      if (const contract::TensorSpec* spec = known.contract->tensor(numeric->output))
        numeric->is_complex = spec->is_complex;
  }
  return findings;
}

// The cause instead of what was seen, which becomes its consequence, as does everything else that was seen.
std::vector<Finding> attributed(std::vector<Finding> findings, const Known& known) {
  if (!known.cause || known.cause->cause == Cause::None || findings.empty()) return findings;
  Finding finding = std::move(findings.front());
  if (!finding.attribution.symptom) finding.attribution.symptom = finding.kind;
  finding.attribution.cause = known.cause->cause;
  finding.attribution.difference = known.cause->difference;
  for (std::size_t i = 1; i < findings.size(); ++i)
    finding.attribution.consequences.push_back(std::move(findings[i]));
  finding.kind = kind_of(known.cause->cause);
  std::vector<Finding> one;
  one.push_back(std::move(finding));
  return one;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the other steps, and without a cause it is returned
std::vector<Finding> screened(std::vector<Finding> findings, const Known& known) {
  return known.apart ? distinct(findings, *known.apart) : findings;
}

std::vector<Finding> named(std::vector<Finding> findings, const Known& known) {
  for (Finding& finding : findings) name_by_code(finding, known.notes);
  return findings;
}

}  // namespace assay::judge
