// Kinds of finding: the table of kinds.def as a type.
//
// Example:
//
//     Kind kind = Kind::DataRace;
//     std::string_view name = to_string(kind);               // "data-race"
//     std::optional<Kind> same = kind_named("data-race");    // none where there is no such kind
//     std::string_view what_to_do = info(kind).fix;
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace assay {

enum class Kind : uint8_t {
#define ASSAY_KIND(id, ...) id,
#include "finding/kinds.def"
#undef ASSAY_KIND
};

enum class Severity : uint8_t { Note, Warning, Error };

// What a kind's evidence is about.
enum class Family : uint8_t { Numeric, Access, Race, Synchronisation, Launch, Process, Code, Training };

// Which part of Assay may report a kind (kinds.def).
enum class Reporter : uint8_t { Device, Judge, Code };

struct KindInfo {
  Kind kind;
  std::string_view name;
  Family family;
  Severity severity;
  Reporter reporter;
  std::optional<Kind> likely;  // of a note: the kind of finding that it makes likely
  std::string_view summary, fix;
};

// The whole table, most important first.
std::span<const KindInfo> kinds();
const KindInfo& info(Kind kind);
std::optional<Kind> kind_named(std::string_view name);

std::string_view to_string(Kind kind);
std::string_view to_string(Severity severity);
std::string_view to_string(Family family);

// Whether it speaks of the values of outputs, not of what the device saw.
bool is_numeric(Kind kind);
// … of finite values that are too far off, whatever the diagnosis.
bool is_inexact(Kind kind);

}  // namespace assay
