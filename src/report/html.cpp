// The HTML report: the page of page/, with the reports as JSON inside.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "finding/message.h"
#include "report/html_page.h"
#include "report/report.h"

namespace assay::report {

namespace {

constexpr int kMostLines = 3000;  // of a source file that is shown whole
constexpr int kAround = 150;      // lines about those of interest in a longer one
constexpr std::size_t kMostWidth = 400;

// Three digits are more than a picture shows. Infinity becomes -1, what is missing null.
Json drawn(double x) {
  if (std::isnan(x)) return nullptr;
  if (std::isinf(x)) return -1;
  return std::stod(fmt::format("{:.3g}", x));
}
Json number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

Json picture_json(const judge::Picture& picture) {
  Json json;
  json["output"] = picture.output;
  json["dtype"] = picture.dtype;
  json["extents"] = picture.extents;
  json["rows"] = picture.rows;
  json["columns"] = picture.columns;
  json["elements"] = picture.elements;
  json["judged"] = picture.judged;
  json["outside"] = picture.outside;
  json["rows_drawn"] = picture.grid_rows;
  json["columns_drawn"] = picture.grid_columns;
  Json grid = Json::array(), points = Json::array();
  for (const float cell : picture.grid) grid.push_back(drawn(cell));
  for (const judge::Picture::Point& point : picture.points) {
    points.push_back({drawn(point.magnitude), drawn(point.error), drawn(point.budget), drawn(point.hits),
                      point.admitted ? 1 : 0});
  }
  json["grid"] = std::move(grid);
  json["range"] = judge::Picture::kRange;
  json["histogram"] = picture.histogram;
  json["points"] = std::move(points);
  json["hits_vary"] = picture.hits_vary;
  return json;
}

Json sheet_json(const judge::Sheet& sheet) {
  Json json;
  json["name"] = sheet.name;
  json["dtype"] = sheet.dtype;
  json["extents"] = sheet.extents;
  json["is_output"] = sheet.is_output;
  json["is_cut"] = sheet.is_cut;
  json["values"] = sheet.texts;
  if (!sheet.is_output) return json;
  json["wrong"] = Json::array();
  for (const judge::Sheet::Wrong& wrong : sheet.wrong) {
    json["wrong"].push_back({{"at", wrong.at},
                             {"stored", wrong.text.stored},
                             {"exact", wrong.text.exact},
                             {"error", wrong.text.error},
                             {"budget", wrong.text.budget},
                             {"size", number(wrong.error)}});
  }
  return json;
}

// Each text once; trials refer to it by number.
class Names {
 public:
  int operator()(const std::string& name) {
    const auto [it, added] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (added) names_.push_back(name);
    return it->second;
  }
  const std::vector<std::string>& list() const { return names_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

Json trials_json(const std::vector<TrialRow>& trials) {
  Names shapes, inputs, conditions;
  Json rows = Json::array();
  for (const TrialRow& trial : trials) {
    rows.push_back(
        {shapes(trial.shape), inputs(trial.inputs), conditions(trial.condition), trial.failed ? 1 : 0});
  }
  Json json;
  json["rows"] = std::move(rows);
  json["shapes"] = shapes.list();
  json["inputs"] = inputs.list();
  json["conditions"] = conditions.list();
  return json;
}

// The lines of a source, or those about the lines of interest where it is long.
Json source_json(const std::string& path, const std::set<int>& lines) {
  std::ifstream file(path);
  if (!file) return nullptr;
  std::vector<std::string> text;
  for (std::string line; std::getline(file, line);) {
    if (line.size() > kMostWidth) line = line.substr(0, kMostWidth) + " …";
    text.push_back(std::move(line));
  }
  int first = 1, last = static_cast<int>(text.size());
  if (last > kMostLines && !lines.empty()) {
    first = std::max(1, *lines.begin() - kAround);
    last = std::min({last, *lines.rbegin() + kAround, first + kMostLines});
  } else if (last > kMostLines) {
    last = kMostLines;
  }
  Json list = Json::array();
  for (int n = first; n <= last; ++n) list.push_back(text[static_cast<std::size_t>(n - 1)]);
  return {{"first", first}, {"lines", std::move(list)}};
}

// One file has one name, whichever way a finding spells it.
std::string named(const Report& report, const std::string& file) {
  for (const std::string& source : report.sources) {
    std::error_code error;
    if (source != file && std::filesystem::equivalent(source, file, error)) return source;
  }
  return file;
}

// Where a proof has something to say.
std::vector<Json> places_of(const Json& proof) {
  std::vector<Json> places;
  if (!proof.is_object()) return places;
  for (const Json& obligation : proof.value("obligations", Json::array()))
    for (const Json& place : obligation.value("places", Json::array())) places.push_back(place["where"]);
  return places;
}

Json sources_json(const Report& report) {
  std::map<std::string, std::set<int>> files;
  for (const std::string& source : report.sources) files[source];
  for (const Finding& finding : report.findings) {
    if (finding.where.line > 0) files[named(report, finding.where.file)].insert(finding.where.line);
    if (const Where other = other_place(finding); other.line > 0)
      files[named(report, other.file)].insert(other.line);
  }
  for (const Json& where : places_of(report.proof))
    if (where.value("line", 0) > 0)
      files[named(report, where.value("file", ""))].insert(where.value("line", 0));
  Json json = Json::object();
  for (const auto& [path, lines] : files) {
    if (Json source = source_json(path, lines); !source.is_null()) json[path] = std::move(source);
  }
  return json;
}

Json page_json(const Report& report) {
  Json json = to_json(report);
  json["contract"] = report.name();
  json.erase("files");
  json.erase("notes");
  json["findings"] = Json::array();
  const auto add = [&](const Finding& finding) {
    Json shown = to_json(finding);
    shown["where"]["file"] = named(report, finding.where.file);
    if (const Where other = other_place(finding); other.line > 0)
      shown["other"] = {{"file", named(report, other.file)}, {"line", other.line}};
    shown["chains"] = chain_lines(finding);
    if (is_launched_by_python(finding))
      for (std::string& origin : origin_lines(finding)) shown["chains"].push_back(std::move(origin));
    shown["who"] = thread_text(finding);
    shown["fix"] = finding.severity == Severity::Error ? advice(finding) : "";
    json["findings"].push_back(std::move(shown));
  };
  for (const Finding& finding : report.findings)
    if (finding.severity != Severity::Note) add(finding);
  for (const Finding& finding : report.findings)
    if (finding.severity == Severity::Note) add(finding);
  if (json.contains("proof"))
    for (Json& obligation : json["proof"]["obligations"])
      for (Json& place : obligation["places"])
        place["where"]["file"] = named(report, place["where"].value("file", ""));
  if (!report.training.is_null()) json["training"] = report.training;
  json["sources"] = sources_json(report);
  json["picture_of"] = report.picture_of;
  json["pictures"] = Json::array();
  for (const judge::Picture& picture : report.pictures) json["pictures"].push_back(picture_json(picture));
  json["numbers_of"] = report.numbers_of;
  json["numbers"] = Json::array();
  for (const judge::Sheet& sheet : report.numbers) json["numbers"].push_back(sheet_json(sheet));
  json["trials"] = trials_json(report.trials);
  return json;
}

// JSON inside of a script element: nothing in it may look like a tag.
std::string embedded(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string html(std::span<const Report> reports) {
  Json book;
  book["reports"] = Json::array();
  for (const Report& report : reports) book["reports"].push_back(page_json(report));
  const std::string data = embedded(book);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{css}}", kPage_css}, {"{{data}}", data}, {"{{js}}", kPage_js}};
  // Slots are looked for in the template only: what fills them may hold anything.
  std::string page;
  std::string_view rest = kPage_html;
  for (const auto& [slot, text] : parts) {
    const std::size_t at = rest.find(slot);
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + slot.size());
  }
  page.append(rest);
  return page;
}

}  // namespace assay::report
