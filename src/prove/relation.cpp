#include "prove/relation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <set>

#include "protocol/event.h"
#include "prove/execute.h"
#include "prove/lower.h"
#include "prove/recording.h"
#include "prove/separation.h"
#include "prove/solve.h"

namespace assay::prove {

using contract::Contract;
using contract::Shape;

namespace {

constexpr size_t kEnoughRefusals = 8;  // each costs a new worker
// How often the relation is inferred anew with shapes that it did not hold at, and with how many of them each time.
// Chosen: host code has about as many paths, and most of the shapes stay for checking.
constexpr int kMostInferences = 8;
constexpr size_t kMostAdded = 4;
// Cases by the sizes of blocks and grids: each is proved by itself. Enough for the powers of two up to 1024.
constexpr size_t kMostCasesByExtents = 12;
constexpr size_t kCallsOfKeptMemory =
    8;  // chosen: from the smallest shape to the largest, with a few between
constexpr double kUncoveredSeconds =
    1.0;  // for the question whether a shape is of no case; few conditions on single dims

using RecordedLaunch = protocol::RecordedLaunchEvent;

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The operations of a call, and what it was given: calls that differ in this are of different cases. All of it that no
// expression over the dims could tell: which kernel is launched how, and which array is filled or copied to. On request the
// extents of its blocks and of its grid, too.
struct Extents {
  bool blocks = false, grids = false;
};
std::string signature(const RecordedCall& record, Extents extents) {
  constexpr std::array<uint32_t, 3> kAny{};
  std::string text = contract::to_string(record.given) + ";";
  for (const Operation& operation : record.operations) {
    if (const auto* launch = std::get_if<RecordedLaunch>(&operation))
      text += fmt::format("{}:{}:{}:{}:{}:{};", launch->kernel, launch->words.size(), has_clusters(*launch),
                          launch->cooperative, fmt::join(extents.blocks ? launch->block : kAny, "x"),
                          fmt::join(extents.grids ? launch->grid : kAny, "x"));
    else
      text += fmt::format("{}>{}:{};", operation.index(), destination(operation).is_host ? "host" : "",
                          destination(operation).label);
  }
  return text;
}

// ---- inference

using Numbers = std::function<std::optional<int64_t>(const RecordedLaunch&)>;

class Inference {
 public:
  Inference(const Contract& contract, Relation& relation) : contract_(contract), relation_(relation) {}

  Case one_case(const std::vector<const RecordedCall*>& records) {
    Case found;
    found.shapes = records.size();
    found.given = records.front()->given;
    found.example = records.front()->shape;
    for (size_t i = 0; i < records.front()->operations.size(); ++i) {
      const Operation& first = records.front()->operations[i];
      if (std::holds_alternative<RecordedLaunch>(first))
        found.launches.push_back(launch(records, i));
      else
        note_written(records, i, found);
    }
    note_zeroed(found);
    return found;
  }

 private:
  static const RecordedLaunch& launch_of(const RecordedCall& record, size_t which) {
    return std::get<RecordedLaunch>(record.operations[which]);
  }

  // Parameters that are neither a constant nor a dim, each once.
  static std::vector<ExprPtr> computed(const Launch& launch) {
    std::map<std::string, ExprPtr> found;
    for (const auto* numbers : {&launch.words, &launch.pairs})
      for (const auto& [at, expr] : *numbers)
        if (expr->op != Expr::Op::Literal && expr->op != Expr::Op::Dim) found[text(*expr)] = expr;
    std::vector<ExprPtr> result;
    for (const auto& [name, expr] : found) result.push_back(expr);
    return result;
  }

  Launch launch(const std::vector<const RecordedCall*>& records, size_t which) {
    std::vector<ExprPtr> known;
    const auto fitted = [&](const Numbers& take) -> ExprPtr {
      std::vector<Point> points;
      for (const RecordedCall* record : records) {
        const auto value = take(launch_of(*record, which));
        if (!value) return nullptr;
        points.push_back({&record->shape, *value});
      }
      return fit(contract_, points, known);
    };
    const RecordedLaunch& first = launch_of(*records.front(), which);
    Launch launch;
    launch.kernel = first.kernel;
    launch.static_shared = number(first.static_shared);
    launch.shared_limit = fitted([](const RecordedLaunch& e) -> std::optional<int64_t> {
      const int64_t limit = number(e.shared_limit);
      return limit == 0 ? std::nullopt : std::optional(limit);
    });
    launch.cooperative = first.cooperative;
    launch.overlaps = std::any_of(records.begin(), records.end(),
                                  [](const RecordedCall* record) { return may_overlap(*record); });
    launch.clusters = has_clusters(first);
    const auto words = static_cast<uint32_t>(first.words.size());
    launch.parameter_bytes = 4 * words;
    for (uint32_t at = 0; at < 4 * words; at += 4) {
      if (const auto place = pointer_at(first, at)) {
        const std::string array = place->first;
        const auto offset = [&, at](const RecordedLaunch& e) -> std::optional<int64_t> {
          const auto here = pointer_at(e, at);
          if (!here || here->first != array) return std::nullopt;
          return here->second;
        };
        const bool always = std::all_of(records.begin(), records.end(), [&](const RecordedCall* r) {
          return offset(launch_of(*r, which)).has_value();
        });
        if (always) launch.pointers[at] = {array, fitted(offset), nullptr};
        if (always && is_own_allocation(contract_, array))
          launch.pointers[at].bytes = fitted([at](const RecordedLaunch& e) { return allocated_at(e, at); });
        continue;
      }
      if (at >= 4 && pointer_at(first, at - 4)) continue;  // the upper half of an address
      launch.words[at] = fitted([at](const RecordedLaunch& e) { return word(e, at); });
      if (at % 8 == 0 && at + 8 <= 4 * words)
        launch.pairs[at] = fitted([at](const RecordedLaunch& e) { return pair(e, at); });
    }
    std::erase_if(launch.words, [](const auto& item) { return !item.second; });
    std::erase_if(launch.pairs, [](const auto& item) { return !item.second; });
    known = computed(launch);
    for (size_t axis = 0; axis < 3; ++axis) {
      launch.grid[axis] = fitted([&](const RecordedLaunch& e) { return int64_t{e.grid[axis]}; });
      launch.block[axis] = fitted([&](const RecordedLaunch& e) { return int64_t{e.block[axis]}; });
    }
    launch.dynamic_shared = fitted([](const RecordedLaunch& e) { return number(e.dynamic_shared); });
    return launch;
  }

  void note_written(const std::vector<const RecordedCall*>& records, size_t which, Case& found) {
    const protocol::RecordedPlace& to = destination(records.front()->operations[which]);
    if (to.is_host)
      relation_.gaps.push_back("the host code reads results back, and its launches may depend on them");
    if (to.is_host || to.label.empty()) return;
    found.filled.push_back(to.label);
    Fill fill{to.label, nullptr, nullptr, true, found.launches.size()};
    std::vector<Point> offsets, sizes;
    for (const RecordedCall* record : records) {
      const Operation& operation = record->operations[which];
      const auto bytes = filled_bytes(operation);
      const auto* filled = std::get_if<protocol::RecordedFillEvent>(&operation);
      fill.zeros &= filled && filled->zeros;
      if (destination(operation).label != to.label || !bytes) break;
      offsets.push_back({&record->shape, number(destination(operation).offset)});
      sizes.push_back({&record->shape, *bytes});
    }
    if (offsets.size() == records.size()) {
      fill.offset = fit(contract_, offsets);
      fill.bytes = fit(contract_, sizes);
    }
    found.fills.push_back(std::move(fill));
  }

  // Zeros that are still there when a launch begins: filled in after the launch before it, with nothing else written to the
  // array in between. Which of the host code's own allocations was filled, their names do not say.
  void note_zeroed(Case& found) const {
    for (size_t i = 0; i < found.launches.size(); ++i)
      for (const Fill& fill : found.fills) {
        if (fill.after != i || is_own_allocation(contract_, fill.array)) continue;
        std::vector<Fill>& zeroed = found.launches[i].zeroed;
        if (fill.zeros && fill.offset && fill.bytes)
          zeroed.push_back(fill);
        else if (!fill.zeros)
          std::erase_if(zeroed, [&](const Fill& earlier) { return earlier.array == fill.array; });
      }
  }

  const Contract& contract_;
  Relation& relation_;
};

}  // namespace

std::vector<std::string> Launch::text() const {
  std::vector<std::string> lines;
  for (const Condition& condition : when) lines.push_back("if " + condition.text());
  if (overlaps) lines.emplace_back("beside other work of the call");
  const auto say = [&](const std::string& name, const ExprPtr& expr, const char* usual) {
    const std::string value = expr ? prove::text(*expr) : "anything";
    if (value != usual) lines.push_back(fmt::format("{} = {}", name, value));
  };
  for (size_t axis = 0; axis < 3; ++axis)
    say(fmt::format("grid.{}", "xyz"[axis]), grid[axis], axis ? "1" : "");
  for (size_t axis = 0; axis < 3; ++axis)
    say(fmt::format("block.{}", "xyz"[axis]), block[axis], axis ? "1" : "");
  say("dynamic shared memory", dynamic_shared, "0");
  for (const auto& [at, pointer] : pointers) {
    const std::string offset = pointer.offset ? prove::text(*pointer.offset) : "anything";
    const std::string size =
        pointer.bytes ? fmt::format(" of {} bytes", prove::text(*pointer.bytes)) : std::string();
    lines.push_back(fmt::format("parameter {} -> {}{}{}", at, pointer.array, size,
                                offset == "0" ? "" : fmt::format(" + {} bytes", offset)));
  }
  for (const Fill& fill : zeroed) {
    const std::string offset = prove::text(*fill.offset);
    lines.push_back(fmt::format("{} bytes of {}{} = 0", prove::text(*fill.bytes), fill.array,
                                offset == "0" ? "" : fmt::format(" + {} bytes", offset)));
  }
  for (uint32_t at = 0; at < parameter_bytes; at += 4) {
    if (pointers.contains(at) || (at >= 4 && pointers.contains(at - 4))) continue;
    // Of 64 bits the lower 32 say all where each half is known.
    const auto known = words.find(at), both = pairs.find(at);
    if (both != pairs.end() && (known == words.end() || !words.contains(at + 4)))
      lines.push_back(fmt::format("parameter {} = {}", at, prove::text(*both->second)));
    else if (known != words.end())
      lines.push_back(fmt::format("parameter {} = {}", at, prove::text(*known->second)));
  }
  return lines;
}

namespace {

// The relation of some recorded calls: what they launch, and where which.
void infer_from(const std::vector<const RecordedCall*>& records, const Contract& contract, Recorder& recorder,
                Relation& relation, Extents extents) {
  relation.cases.clear();
  std::map<std::string, std::vector<const RecordedCall*>> by_signature;
  for (const RecordedCall* record : records) by_signature[signature(*record, extents)].push_back(record);
  Inference inference(contract, relation);
  for (const auto& [key, same] : by_signature) {
    relation.cases.push_back(inference.one_case(same));
    const Shape& given = same.front()->given;
    std::vector<const Shape*> own, others;
    for (const RecordedCall* record : records)
      if (record->given == given)
        (signature(*record, extents) == key ? own : others).push_back(&record->shape);
    const auto belongs = [&, &key = key](const Shape& shape) {
      const std::vector<RecordedCall> calls = recorder.record(shape, relation);
      return std::any_of(calls.begin(), calls.end(),
                         [&](const RecordedCall& call) { return signature(call, extents) == key; });
    };
    std::vector<Condition> when = separating(contract, own, others, belongs);
    for (const auto& [presence, is_given] : given)
      when.push_back({is_given ? Condition::Kind::AtLeast : Condition::Kind::AtMost, presence, is_given});
    relation.cases.back().when = when;
    for (Launch& launch : relation.cases.back().launches) launch.when = when;
  }
}

size_t unknown_extents(const Relation& relation) {
  size_t count = 0;
  for (const Case& one : relation.cases)
    for (const Launch& launch : one.launches)
      for (size_t axis = 0; axis < 3; ++axis) count += !launch.grid[axis] + !launch.block[axis];
  return count;
}

// Host code often chooses between a few sizes of blocks or grids (`n < 4096 ? 128 : 256`, the next power of two). No expression
// gives those, nor what goes with them; but one does for each size by itself.
void infer_by_extents(const std::vector<const RecordedCall*>& records, const Contract& contract,
                      Recorder& recorder, Relation& relation) {
  const std::vector<Case> plain = relation.cases;
  for (const Extents extents : {Extents{true, false}, Extents{false, true}, Extents{true, true}}) {
    if (unknown_extents(relation) == 0 || !relation.gaps.empty()) return;
    std::set<std::string> kinds;
    for (const RecordedCall* record : records) kinds.insert(signature(*record, extents));
    if (kinds.size() == plain.size() || kinds.size() > kMostCasesByExtents) continue;
    infer_from(records, contract, recorder, relation, extents);
    if (unknown_extents(relation) > 0) relation.cases = plain;
  }
}

// What the relation was inferred from must be as it says: a part that differs and has no expression would stay unseen.
void check_inference(const std::vector<const RecordedCall*>& used, Relation& relation) {
  for (const RecordedCall* call : used) {
    if (!relation.gaps.empty()) return;
    if (const std::string difference = deviation(relation, *call); !difference.empty())
      relation.gaps.push_back(fmt::format("no launch relation was found that holds at {}: {}",
                                          contract::to_string(call->shape), difference));
  }
}

// A shape that the contract promises and that no case is for, of those calls that are given the same optional tensors as a
// case's. The ends of a range lie where the host code was seen to change on one line of shapes, and elsewhere they may lie
// elsewhere.
struct Uncovered {
  enum class Kind : uint8_t { None, Found, Undecided } kind = Kind::None;
  Shape shape{};
};
Uncovered uncovered(const Relation& relation, const Contract& contract, Solver& solver) {
  std::map<Shape, std::vector<const Case*>> by_given;
  for (const Case& one : relation.cases) by_given[one.given].push_back(&one);
  for (const auto& [given, cases] : by_given) {
    Terms terms;
    Dims dims(terms, contract);
    if (std::any_of(cases.begin(), cases.end(),
                    [&](const Case* one) { return conditions_of(terms, dims, one->when).empty(); }))
      continue;
    Summary none;
    Lowering lowering(terms, none, nullptr, solver);
    try {
      for (const contract::Dim& dim : contract.dims)
        (void)lowering.poly(dims.term(std::string_view(dim.name)));
      for (const Case* one : cases)
        lowering.assume(terms.negation(terms.all(conditions_of(terms, dims, one->when))));
      const auto is_none = [](const Answer& answer) { return answer.kind == Answer::Kind::Unsatisfiable; };
      if (is_none(lowering.ask(all_of({}), kUncoveredSeconds))) continue;
      const Answer answer =
          lowering.small_model(all_of({}), kUncoveredSeconds, work_seconds() + kUncoveredSeconds);
      if (is_none(answer)) continue;
      if (answer.kind == Answer::Kind::Satisfiable)
        if (const Shape shape = dims.shape(lowering.values(answer)); contract.check_shape(shape))
          return {Uncovered::Kind::Found, shape};
    } catch (const TooHard&) {
    }
    return {Uncovered::Kind::Undecided};
  }
  return {};
}

bool has_own_allocation(const Relation& relation) {
  return std::any_of(relation.cases.begin(), relation.cases.end(), [](const Case& one) {
    return std::any_of(one.launches.begin(), one.launches.end(), [](const Launch& launch) {
      return std::any_of(launch.pointers.begin(), launch.pointers.end(),
                         [](const auto& item) { return item.second.bytes != nullptr; });
    });
  });
}

// Memory that the host code allocates may be kept from one call to the next, and then its size is that of the first call:
// the largest shape, in the records. So the calls are made again, in a process that has made none, from the smallest shape on.
void check_kept_memory(const std::vector<const RecordedCall*>& records, Recorder& fresh, Relation& relation) {
  std::vector<const RecordedCall*> by_size = records;
  const auto size = [](const RecordedCall* record) {
    double product = 1;
    for (const auto& [dim, value] : record->shape) product *= static_cast<double>(value) + 1;
    return product;
  };
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](const RecordedCall* a, const RecordedCall* b) { return size(a) < size(b); });
  for (size_t i = 0; i < kCallsOfKeptMemory; ++i) {
    const Shape& shape = by_size[i * (by_size.size() - 1) / (kCallsOfKeptMemory - 1)]->shape;
    for (const RecordedCall& call : fresh.record(shape, relation))
      if (const std::string difference = deviation(relation, call); !difference.empty()) {
        relation.gaps.push_back(
            fmt::format("the host code allocates memory, and its launches depend on earlier calls: at {} {}",
                        contract::to_string(shape), difference));
        return;
      }
  }
}

}  // namespace

Result<Relation> infer(const Contract& contract, const subject::Subject& subject,
                       const RelationOptions& options) {
  Relation relation;
  RecordedShapes shapes(contract);
  Recorder recorder(contract, subject, options);
  const double until = clock_seconds() + options.seconds;
  if (const std::string problem = recorder.problem(); !problem.empty()) relation.gaps.push_back(problem);
  const std::vector<Shape> every = shapes.all(options.exhaustive);
  std::vector<RecordedCall> records;
  const auto record_all = [&](const std::vector<Shape>& some) {
    for (const Shape& shape : some) {
      if (clock_seconds() > until) break;
      for (RecordedCall& record : recorder.record(shape, relation)) records.push_back(std::move(record));
      ++relation.recorded;
    }
  };
  record_all(shapes.listed());
  record_all(shapes.giant());
  record_all(shapes.some(options.fitted, 7));
  if (relation.refused.size() <= kEnoughRefusals) record_all(shapes.about(options.constants));
  // What fits few shapes is too easily found.
  if (clock_seconds() > until && relation.gaps.empty())
    relation.gaps.push_back(fmt::format("the host code could be run at {} shapes only in {:g} s",
                                        relation.recorded, options.seconds));
  const size_t fitted = records.size();
  relation.all = !every.empty();
  std::set<Shape> known;
  for (const RecordedCall& record : records) known.insert(record.shape);
  for (const Shape& shape : every.empty() ? shapes.some(options.checked, 77) : every) {
    if (known.contains(shape)) continue;
    if (!shapes.fits(shape) || clock_seconds() > until) {
      relation.all = false;
      continue;
    }
    if (relation.refused.size() > kEnoughRefusals || !relation.gaps.empty()) {
      relation.all = false;
      break;
    }
    ++relation.recorded;
    for (RecordedCall& call : recorder.record(shape, relation)) records.push_back(std::move(call));
  }
  std::deque<RecordedCall> late;  // at shapes that no case was for
  Solver solver;
  std::vector<const RecordedCall*> used, unused;
  for (const RecordedCall& record : records)
    (static_cast<size_t>(&record - records.data()) < fitted ? used : unused).push_back(&record);
  for (int inference = 1;; ++inference) {
    infer_from(used, contract, recorder, relation, {});
    infer_by_extents(used, contract, recorder, relation);
    std::vector<const RecordedCall*> added;
    std::string how;  // the first deviates
    for (const RecordedCall* call : unused) {
      if (added.size() == kMostAdded || !relation.gaps.empty()) break;
      const std::string difference = deviation(relation, *call);
      if (difference.empty()) continue;
      if (added.empty())
        how = fmt::format("no launch relation was found that also holds at {}: {}",
                          contract::to_string(call->shape), difference);
      added.push_back(call);
    }
    if (added.empty()) {
      const Uncovered open =
          relation.all || !relation.gaps.empty() ? Uncovered{} : uncovered(relation, contract, solver);
      // Where that is not decided, shapes may be left out: the relation was checked at some shapes only, as is said.
      if (open.kind == Uncovered::Kind::Found)
        how = fmt::format("no launch relation was found that also holds at {}",
                          contract::to_string(open.shape));
      if (open.kind == Uncovered::Kind::Found && shapes.fits(open.shape))
        for (RecordedCall& call : recorder.record(open.shape, relation))
          added.push_back(&late.emplace_back(std::move(call)));
      if (added.empty() && !how.empty() && relation.gaps.empty()) relation.gaps.push_back(how);
      if (added.empty()) {
        check_inference(used, relation);
        break;
      }
      ++relation.recorded;
    }
    if (inference == kMostInferences || clock_seconds() > until) {
      relation.gaps.push_back(how);
      break;
    }
    used.insert(used.end(), added.begin(), added.end());
    std::erase_if(unused, [&](const RecordedCall* call) {
      return std::find(added.begin(), added.end(), call) != added.end();
    });
  }
  if (relation.gaps.empty() && !records.empty() && has_own_allocation(relation)) {
    Recorder fresh(contract, subject, options);
    check_kept_memory(used, fresh, relation);
  }
  for (const Refusal& refusal : relation.refused)
    if (relation.gaps.empty() && is_legal(relation, refusal.shape))
      relation.gaps.push_back(
          fmt::format("no launch relation was found that also holds at {}, where the launch is refused",
                      contract::to_string(refusal.shape)));
  return relation;
}

}  // namespace assay::prove
