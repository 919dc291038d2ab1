#include "protocol/settings.h"

#include <charconv>
#include <limits>

#include "protocol/fields.h"
#include "protocol/protocol.h"

namespace assay::protocol {

namespace {

constexpr std::size_t kLongestList = 1000;  // names of checks with commas
constexpr std::size_t kMostPrecisionLines = 4096;

// A number in decimal, or in hexadecimal after 0x.
bool read_number(std::string_view text, uint64_t most, uint64_t& number) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  const auto end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, hexadecimal ? 16 : 10);
  return error == std::errc() && rest == end && number <= most;
}

// Reads the variables that a user may set; the first wrong one is the error.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string_view text(const char* name) const {
    const char* value = environment_(name);
    return value ? value : "";
  }
  uint64_t number(const char* name, uint64_t most = std::numeric_limits<uint64_t>::max()) {
    uint64_t value = 0;
    const std::string_view given = text(name);
    if (!given.empty() && !read_number(given, most, value)) fail(name, "is not a number in range");
    return value;
  }
  void fail(const char* name, const std::string& why) {
    if (problem_.empty()) problem_ = std::string(name) + ": " + why;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Environment& environment_;
  std::string problem_;
};

const Gpu* gpu_or_default(std::string_view id) {
  return id.empty() ? &kGpus[0] : gpu_named(id);
}

constexpr std::string_view kEngines[] = {"auto", "interpret", "compile"};  // by EngineChoice

std::string_view name_of(EngineChoice engine) {
  return kEngines[static_cast<std::size_t>(engine)];
}

}  // namespace

std::optional<EngineChoice> engine_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kEngines); ++i)
    if (kEngines[i] == name) return static_cast<EngineChoice>(i);
  return std::nullopt;
}

std::string encode(const Settings& settings) {
  FieldReader::Json lines = FieldReader::Json::array();
  for (const Where& at : settings.precision_lines) lines.push_back({{"file", at.file}, {"line", at.line}});
  return line_of({{"version", kVersion},
                  {"seed", settings.seed},
                  {"schedules", settings.schedules},
                  {"threads", settings.threads},
                  {"engine", std::string(name_of(settings.engine))},
                  {"code_cache", settings.code_cache},
                  {"gpu", std::string(settings.gpu->id)},
                  {"checks", settings.checks.text()},
                  {"events", settings.events},
                  {"max_instructions", settings.max_instructions},
                  {"faults", settings.faults},
                  {"quiet", settings.quiet},
                  {"record", settings.record},
                  {"report_launches", settings.report_launches},
                  {"report_activity", settings.report_activity},
                  {"count_bytes", settings.count_bytes},
                  {"report_code", settings.report_code},
                  {"stall_milliseconds", settings.stall_milliseconds},
                  {"precision_lines", lines}});
}

Result<Settings> decode_settings(std::string_view text) {
  FieldReader fields(text, kSettingsVariable);
  fields.check_version();
  Settings settings;
  settings.seed = fields.unsigned_integer("seed");
  settings.schedules = fields.unsigned_integer("schedules");
  settings.threads =
      static_cast<unsigned>(fields.unsigned_integer("threads", std::numeric_limits<unsigned>::max()));
  if (const auto engine = engine_named(fields.text("engine", 100)))
    settings.engine = *engine;
  else
    fields.fail("engine", "names no engine");
  settings.code_cache = fields.text("code_cache", kLongestText);
  settings.gpu = gpu_named(fields.text("gpu", 100));
  if (!settings.gpu) fields.fail("gpu", "names no known GPU");
  const auto checks = CheckSet::parse(fields.text("checks", kLongestList));
  if (checks)
    settings.checks = *checks;
  else
    fields.fail("checks", "holds an unknown check");
  settings.events = fields.text("events", kLongestText);
  settings.max_instructions = fields.unsigned_integer("max_instructions");
  settings.faults = fields.boolean("faults");
  settings.quiet = fields.boolean("quiet");
  settings.record = fields.boolean("record");
  settings.report_launches = fields.boolean("report_launches");
  settings.report_activity = fields.boolean("report_activity");
  settings.count_bytes = fields.boolean("count_bytes");
  settings.report_code = fields.boolean("report_code");
  settings.stall_milliseconds = fields.unsigned_integer("stall_milliseconds");
  fields.objects("precision_lines", kMostPrecisionLines, [&](FieldReader& line) {
    settings.precision_lines.push_back(
        {line.text("file", kLongestText),
         static_cast<int>(line.integer("line", 0, std::numeric_limits<int>::max()))});
  });
  if (fields.failed()) return fields.error();
  return settings;
}

Result<Settings> settings_from(const Environment& environment) {
  if (const char* all = environment(kSettingsVariable); all && *all) return decode_settings(all);
  Variables variables(environment);
  Settings settings;
  settings.seed = variables.number("ASSAY_SEED");
  settings.schedules = variables.number("ASSAY_SCHEDULES");
  settings.threads =
      static_cast<unsigned>(variables.number("ASSAY_THREADS", std::numeric_limits<unsigned>::max()));
  const std::string_view engine = variables.text("ASSAY_ENGINE");
  if (const auto choice = engine_named(engine.empty() ? kEngines[0] : engine))
    settings.engine = *choice;
  else
    variables.fail("ASSAY_ENGINE", "it is auto, interpret or compile");
  settings.code_cache = variables.text("ASSAY_CODE_CACHE");
  settings.gpu = gpu_or_default(variables.text("ASSAY_GPU"));
  if (!settings.gpu)
    variables.fail("ASSAY_GPU", "there is no GPU '" + std::string(variables.text("ASSAY_GPU")) + "'");
  if (const auto checks = CheckSet::parse(variables.text("ASSAY_CHECK")))
    settings.checks = *checks;
  else
    variables.fail("ASSAY_CHECK", checks.error().text());
  settings.events = variables.text("ASSAY_REPORT");
  settings.max_instructions = variables.number("ASSAY_MAX_INSTRUCTIONS");
  settings.faults = variables.number("ASSAY_FAULTS") != 0;
  settings.quiet = variables.number("ASSAY_QUIET") != 0;
  settings.report_activity = settings.count_bytes = variables.number("ASSAY_ACTIVITY") != 0;
  if (!variables.problem().empty()) return Error{variables.problem()};
  return settings;
}

}  // namespace assay::protocol
