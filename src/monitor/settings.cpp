#include "monitor/settings.h"

#include <fmt/format.h>

#include <charconv>

#include "contract/toml.h"

namespace assay::monitor {

using contract::Contract;
using contract::TomlKind;
using contract::TomlValue;

namespace {

// "64MiB", "4096", "2 GiB": bytes; 0: it is no such text.
int64_t bytes_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number <= 0) return 0;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::string_view kUnits[] = {"", "KiB", "MiB", "GiB"};
  for (int i = 0; i < 4; ++i)
    if (unit == kUnits[i] && number < (int64_t{1} << 40 >> 10 * i)) return number << 10 * i;
  return 0;
}

class SettingsReader {
 public:
  SettingsReader(const Contract& contract, const TomlValue& table) : contract_(contract), table_(table) {}

  Result<Settings> run() {
    Settings settings;
    positive("every", settings.every);
    positive("elements", settings.elements);
    read_bytes(settings.max_bytes);
    read_trusted(settings);
    read_on_alarm(settings.on_alarm);
    if (const TomlValue* arl = table_.find("arl")) {
      if (arl->real > 1)
        settings.samples_between_false_alarms = arl->real;
      else
        fail(*arl, "`arl` is a number of samples above 1");
    }
    if (settings.on_alarm == OnAlarm::Reference && settings.trusted_source.empty())
      fail(table_, "on_alarm = \"reference\" needs a kernel to use instead; add `trusted`");
    if (problem_) return *problem_;
    return settings;
  }

 private:
  void fail(const TomlValue& value, std::string message) {
    if (!problem_) problem_ = contract_.error_at(value.place, std::move(message));
  }

  void positive(std::string_view key, int64_t& to) {
    const TomlValue* value = table_.find(key);
    if (!value) return;
    if (value->kind != TomlKind::Integer || value->integer < 1)
      fail(*value, fmt::format("`{}` is an integer of at least 1", key));
    to = value->integer;
  }

  void read_bytes(int64_t& to) {
    const TomlValue* value = table_.find("max_bytes");
    if (!value) return;
    to = value->kind == TomlKind::String ? bytes_of(value->string) : value->integer;
    if (to < 1) fail(*value, "`max_bytes` is written like \"64MiB\"");
  }

  void read_trusted(Settings& settings) {
    const TomlValue* value = table_.find("trusted");
    if (!value) return;
    const TomlValue *source = value->find("source"), *entry = value->find("entry");
    if (!source || !entry || source->kind != TomlKind::String || entry->kind != TomlKind::String)
      return fail(*value, "`trusted` is written like { source = \"naive.cu\", entry = \"scale\" }");
    settings.trusted_source = source->string;
    settings.trusted_entry = entry->string;
  }

  void read_on_alarm(OnAlarm& to) {
    const TomlValue* value = table_.find("on_alarm");
    if (!value) return;
    constexpr std::string_view kWords[] = {"report", "reference", "abort"};
    for (uint8_t i = 0; i < 3; ++i)
      if (value->string == kWords[i]) {
        to = static_cast<OnAlarm>(i);
        return;
      }
    fail(*value, "`on_alarm` is \"report\", \"reference\" or \"abort\"");
  }

  const Contract& contract_;
  const TomlValue& table_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Settings> settings_of(const Contract& contract) {
  const auto root = contract::parse_toml(*contract.text, contract.path);
  if (!root) return root.error();
  const TomlValue* table = root->find("monitor");
  return table ? SettingsReader(contract, *table).run() : Settings{};
}

}  // namespace assay::monitor
