#include "finding/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/symbol.h"
#include "base/toolkit.h"
#include "finding/fields.h"
#include "finding/message.h"

namespace assay {

namespace {

std::string triple_text(const std::optional<evidence::Index3>& index) {
  return index ? fmt::format("({},{},{})", (*index)[0], (*index)[1], (*index)[2]) : "";
}

// A frame of the program, not one of the packages through which it launches and allocates, or which run its tests.
bool is_own(const Frame& frame) {
  const std::string& file = frame.where.file;
  const auto has = [&](std::string_view part) { return file.find(part) != std::string::npos; };
  if (file.empty() || file.starts_with("<frozen")) return false;
  for (const char* part : {"/assay/virtual/", "/assay/worker/", "/assay/site/", "/assay/problem/"})
    if (has(part)) return false;
  // What Assay writes to call an answer or a function (python/assay/problem, python/assay/function_source.py).
  if (file.ends_with("/assay_adapter.py") || file.ends_with("/assay_subject.py")) return false;
  for (const char* package : {"torch/", "torch_", "triton/", "_pytest/", "pluggy/"})
    if (has(std::string("-packages/") + package)) return false;
  return true;
}

// The program's own frames of a Python stack: "train.py:31 in step, called at train.py:40".
std::string own_stack_text(const evidence::HostPlace& place) {
  constexpr int kMostFrames = 4;  // innermost: enough to tell two calls apart
  std::string text;
  int count = 0;
  for (const Frame& frame : place.stack) {
    if (!is_own(frame) || count == kMostFrames) continue;
    text += (count++ ? ", called at " : "") + text_of(frame);
  }
  return text;
}

std::string place_text(const evidence::HostPlace& place) {
  const std::string text = own_stack_text(place);
  return text.empty() ? text_of(place) : text;
}

// Visits the lists of fields.h for the places among them.
struct PlaceVisitor {
  const std::function<void(Where&)>& use;

  void operator()(const char*, Where& where) { use(where); }
  template <class T>
  void operator()(const char*, std::optional<T>& value) {
    if (value) (*this)("", *value);
  }
  template <class T>
  void operator()(const char*, std::vector<T>& values) {
    for (T& value : values) (*this)("", value);
  }
  template <class T>
  void operator()(const char*, T& value) {
    if constexpr (requires { fields::list(*this, value); }) flat(value);
  }
  template <class T>
  void always(const char* name, T& value) {
    (*this)(name, value);
  }
  template <class T>
  void judge(const char* name, T& value) {
    (*this)(name, value);
  }
  template <class T>
  void hex(const char*, T&) {}
  template <class T>
  void flat(T& part) {
    if constexpr (std::is_same_v<T, Where>)
      use(part);
    else
      fields::list(*this, part);
  }
};

}  // namespace

std::string text_of(const Where& where) {
  return where.line > 0 ? fmt::format("{}:{}", where.file, where.line) : where.file;
}

std::string text_of(const Frame& frame) {
  const bool is_named = !frame.function.empty() && frame.function != "<module>";
  return text_of(frame.where) + (is_named ? " in " + frame.function : "");
}

std::string text_of(const std::vector<Frame>& chain) {
  constexpr int kMostFrames = 12;  // then the outermost: beyond that a reader is lost
  std::string text, last;
  int own = 0;
  bool toolkit = false;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    std::string file = chain[i].where.file.empty() ? "?" : chain[i].where.file;
    const bool header = is_toolkit_header(file);
    if (header) file.erase(0, file.rfind('/') + 1);
    own += !header;
    if (own >= kMostFrames && i + 1 < chain.size()) continue;
    if (!header || !toolkit) {
      text += last;
      last.clear();
    }
    toolkit = header;
    const std::string_view joint = text.empty() ? "" : chain[i].called ? ", called at " : ", inlined at ";
    last = fmt::format("{}{}:{}{}", joint, file, chain[i].where.line,
                       chain[i].function.empty() ? "" : " in " + chain[i].function);
  }
  return own > 1 ? text + last : "";
}

evidence::CodePlace* code_of(Finding& finding) {
  if (auto* e = std::get_if<evidence::Access>(&finding.evidence)) return &e->code;
  if (auto* e = std::get_if<evidence::Race>(&finding.evidence)) return &e->code;
  if (auto* e = std::get_if<evidence::Synchronisation>(&finding.evidence)) return &e->code;
  return nullptr;
}
const evidence::CodePlace* code_of(const Finding& finding) {
  return code_of(const_cast<Finding&>(finding));
}

const std::string& kernel_of(const Finding& finding) {
  static const std::string kNone;
  if (const auto* code = code_of(finding)) return code->kernel;
  if (const auto* e = std::get_if<evidence::Launch>(&finding.evidence)) return e->kernel;
  if (const auto* e = std::get_if<evidence::Process>(&finding.evidence)) return e->kernel;
  if (const auto* e = std::get_if<evidence::Code>(&finding.evidence)) return e->kernel;
  return kNone;
}

std::string output_of(const Finding& finding) {
  if (const auto* e = std::get_if<evidence::Numeric>(&finding.evidence)) return e->output;
  if (const auto* e = std::get_if<evidence::Access>(&finding.evidence); e && e->unwritten)
    return e->unwritten->name;
  return "";
}

Where other_place(const Finding& finding) {
  const auto* race = std::get_if<evidence::Race>(&finding.evidence);
  if (!race) return {};
  const Where& place = race->other.where;
  return place.file.empty() || place.line <= 0 || place == finding.where ? Where{} : place;
}

evidence::HostPlace* host_of(Finding& finding) {
  return std::visit(
      [](auto& e) -> evidence::HostPlace* {
        if constexpr (requires { e.host; }) return &e.host;
        return nullptr;
      },
      finding.evidence);
}
const evidence::HostPlace* host_of(const Finding& finding) {
  return host_of(const_cast<Finding&>(finding));
}

const Frame* own_frame(const evidence::HostPlace& place) {
  const auto own = std::find_if(place.stack.begin(), place.stack.end(), is_own);
  return own == place.stack.end() ? nullptr : &*own;
}

evidence::Allocation* allocation_of(Finding& finding) {
  return std::visit(
      [](auto& e) -> evidence::Allocation* {
        if constexpr (requires { e.place.allocation; }) {
          if (e.place.allocation) return &*e.place.allocation;
        } else if constexpr (requires { e.allocation; }) {
          if (e.allocation) return &*e.allocation;
        }
        return nullptr;
      },
      finding.evidence);
}
const evidence::Allocation* allocation_of(const Finding& finding) {
  return allocation_of(const_cast<Finding&>(finding));
}

void for_each_place(Finding& finding, const std::function<void(Where&)>& use) {
  PlaceVisitor visitor{use};
  use(finding.where);
  std::visit([&](auto& evidence) { fields::list(visitor, evidence); }, finding.evidence);
  for (Where& where : finding.attribution.also) use(where);
  for (Finding& consequence : finding.attribution.consequences) for_each_place(consequence, use);
}

void for_each_place(Profile& profile, const std::function<void(Where&)>& use) {
  PlaceVisitor visitor{use};
  fields::list(visitor, profile);
}

bool has_error(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::Error; });
}

std::string thread_text(const Finding& finding) {
  const evidence::CodePlace* code = code_of(finding);
  if (!code || code->kernel.empty() || !code->block || !code->thread) return "";
  return fmt::format("kernel {}, block {}, thread {}", short_name(code->kernel), triple_text(code->block),
                     triple_text(code->thread));
}

std::vector<std::string> chain_lines(const Finding& finding) {
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<Frame>& chain) {
    std::string text = text_of(chain);
    if (!text.empty() && (lines.empty() || lines.back() != text)) lines.push_back(std::move(text));
  };
  if (const evidence::CodePlace* code = code_of(finding)) add(code->chain);
  if (const auto* race = std::get_if<evidence::Race>(&finding.evidence)) add(race->other.code.chain);
  return lines;
}

// Where the kernel was launched that it is about; null: it is about none.
static const evidence::HostPlace* launch_of(const Finding& finding) {
  if (const evidence::CodePlace* code = code_of(finding)) return &code->launched_at;
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  return numeric && !numeric->kernel.empty() ? &numeric->launched_at : nullptr;
}

bool is_launched_by_python(const Finding& finding) {
  const evidence::HostPlace* launch = launch_of(finding);
  return launch && own_frame(*launch);
}

std::vector<std::string> origin_lines(const Finding& finding) {
  std::vector<std::string> lines;
  // A place outside the user's own code is not reported.
  const auto add = [&](std::string_view what, const evidence::HostPlace& place) {
    if (const std::string text = place.is_known() ? place_text(place) : ""; !text.empty())
      lines.push_back(std::string(what) + text);
  };
  if (const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence))
    add(fmt::format("computed by kernel {}, launched at ", short_name(numeric->kernel)),
        numeric->launched_at);
  else if (const evidence::HostPlace* launch = launch_of(finding))
    add("launched at ", *launch);
  if (const auto* race = std::get_if<evidence::Race>(&finding.evidence); race && race->other.operation)
    add("the other launched at ", race->other.code.launched_at);
  if (const auto* launch = std::get_if<evidence::Launch>(&finding.evidence);
      launch && finding.kind == Kind::LaunchFailure)
    add("launched at ", launch->host);
  if (const evidence::Allocation* allocation = allocation_of(finding))
    add("allocated at ", allocation->made_at);
  return lines;
}

}  // namespace assay
