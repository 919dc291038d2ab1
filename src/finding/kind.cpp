#include "finding/kind.h"

#include <algorithm>

namespace assay {

namespace {

constexpr std::optional<Kind> None = std::nullopt;

#define ASSAY_KIND(id, ...) constexpr std::optional<Kind> id = Kind::id;
namespace likely {
using assay::None;
#include "finding/kinds.def"
}  // namespace likely
#undef ASSAY_KIND

constexpr KindInfo kKinds[] = {
#define ASSAY_KIND(id, name, family, severity, reporter, likely_kind, summary, fix) \
  {Kind::id, name, Family::family, Severity::severity, Reporter::reporter, likely::likely_kind, summary, fix},
#include "finding/kinds.def"
#undef ASSAY_KIND
};

}  // namespace

std::span<const KindInfo> kinds() {
  return kKinds;
}

const KindInfo& info(Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<Kind> kind_named(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindInfo& k) { return k.name == name; });
  return found == std::end(kKinds) ? std::nullopt : std::optional(found->kind);
}

std::string_view to_string(Kind kind) {
  return info(kind).name;
}

std::string_view to_string(Severity severity) {
  constexpr std::string_view kNames[] = {"note", "warning", "error"};
  return kNames[static_cast<std::size_t>(severity)];
}

std::string_view to_string(Family family) {
  constexpr std::string_view kNames[] = {"numeric", "access",  "race", "synchronisation",
                                         "launch",  "process", "code", "training"};
  return kNames[static_cast<std::size_t>(family)];
}

bool is_inexact(Kind kind) {
  return kind == Kind::WrongResult || kind == Kind::LowPrecisionAccumulation || kind == Kind::PrecisionLoss ||
         kind == Kind::BiasedRounding;
}

bool is_numeric(Kind kind) {
  return is_inexact(kind) || kind == Kind::Nonfinite || kind == Kind::WrongDistribution;
}

}  // namespace assay
