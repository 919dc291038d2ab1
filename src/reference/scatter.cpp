// Computed places on the left: dw[tokens[t], d] += dy[t, d].
//
// The loops that decide a place are run once, and sorted by place. Then every
// element knows its own iterations, and is evaluated like any other sum.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "reference/evaluation.h"

namespace assay::reference {
namespace {

constexpr int64_t kMostEntries = int64_t{1} << 31;

uint64_t indices_of_places(const Definition& made) {
  uint64_t used = 0;
  for (const Coordinate& coordinate : made.coordinates)
    if (coordinate.variable < 0) used |= made.nodes[static_cast<std::size_t>(coordinate.node)].indices;
  return used;
}

}  // namespace

ScatterLists Evaluator::scatter_lists(int definition_id) {
  const Definition& made = definition(definition_id);
  const ShapedDefinition& planned = shaped(definition_id);
  ScatterLists lists;
  const uint64_t used = indices_of_places(made);
  Loops loops;
  for (std::size_t c = 0; c < made.coordinates.size(); ++c) {
    const int variable = made.coordinates[c].variable;
    if (variable < 0) lists.key_extents.push_back(planned.extents[c]);
    if (variable >= 0 && (used >> variable & 1) != 0) lists.keyed.push_back(variable);
  }
  // A loop whose range depends on another index is decided together with it.
  uint64_t wanted = used;
  for (const int variable : made.reduced) {
    const Variable& loop = made.variables[static_cast<std::size_t>(variable)];
    if ((wanted >> variable & 1) == 0 || loop.low < 0) continue;
    wanted |= made.nodes[static_cast<std::size_t>(loop.low)].indices |
              made.nodes[static_cast<std::size_t>(loop.high)].indices;
  }
  for (std::size_t c = 0; c < made.coordinates.size(); ++c) {
    const int variable = made.coordinates[c].variable;
    const bool late = variable >= 0 && (wanted >> variable & 1) != 0 && (used >> variable & 1) == 0;
    if (late) lists.keyed.push_back(variable);
  }
  for (const int variable : lists.keyed)
    lists.key_extents.push_back(planned.ranges[static_cast<std::size_t>(variable)].length());
  loops = lists.keyed;
  for (const int variable : made.reduced)
    if ((wanted >> variable & 1) != 0) {
      lists.looped.push_back(variable);
      loops.push_back(variable);
    }
  if (trips(loops, definition_id) > kMostEntries) {
    evaluation_.fail(made.place, fmt::format("`{}` scatters more than 2^31 values at this shape", made.name));
    return lists;
  }
  std::vector<int64_t> keys;
  std::vector<std::vector<int64_t>> values(lists.looped.size());
  Batch start;
  start.definition = definition_id;
  start.n = 1;
  start.id = next_batch_++;
  enumerate(start, loops, [&](Batch& full) { scatter_batch(full, lists, keys, values); });
  if (evaluation_.failed()) return lists;

  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return keys[static_cast<std::size_t>(i)]; });
  lists.entries.resize(values.size());
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto i = static_cast<std::size_t>(order[at]);
    if (lists.keys.empty() || lists.keys.back() != keys[i]) {
      lists.keys.push_back(keys[i]);
      lists.first.push_back(static_cast<int64_t>(at));
    }
    for (std::size_t v = 0; v < values.size(); ++v) lists.entries[v].push_back(values[v][i]);
  }
  lists.first.push_back(static_cast<int64_t>(keys.size()));
  return lists;
}

void Evaluator::scatter_batch(Batch& full, const ScatterLists& lists, std::vector<int64_t>& keys,
                              std::vector<std::vector<int64_t>>& values) {
  const Definition& made = definition(full.definition);
  const ShapedDefinition& planned = shaped(full.definition);
  std::vector<int64_t> key(static_cast<std::size_t>(full.n), 0);
  std::size_t at = 0;
  for (std::size_t c = 0; c < made.coordinates.size(); ++c) {
    if (made.coordinates[c].variable >= 0) continue;
    const Lanes place = eval(full, made.coordinates[c].node);
    if (evaluation_.failed()) return;
    const int64_t extent = planned.extents[c];
    for (int l = 0; l < full.n; ++l) {
      if (place.i[l] < 0 || place.i[l] >= extent)
        return evaluation_.fail(
            made.place,
            fmt::format("`{}` is assigned out of range: {}; to leave some out, say for each place what comes "
                        "there (docs/contracts.md, Bounds)",
                        made.name, out_of_range_text(c, place.i[l], extent)));
      if (place.b && place.b[l] > 0)
        return evaluation_.fail(made.place,
                                fmt::format("where `{}` is assigned depends on rounding", made.name));
      key[static_cast<std::size_t>(l)] = key[static_cast<std::size_t>(l)] * extent + place.i[l];
    }
    ++at;
  }
  for (const int variable : lists.keyed) {
    const int64_t extent = lists.key_extents[at++];
    const int64_t low = planned.ranges[static_cast<std::size_t>(variable)].low;
    for (int l = 0; l < full.n; ++l) {
      const int64_t value = full.index[variable] ? full.index[variable][l] : full.uniform[variable];
      key[static_cast<std::size_t>(l)] = key[static_cast<std::size_t>(l)] * extent + value - low;
    }
  }
  keys.insert(keys.end(), key.begin(), key.end());
  for (std::size_t v = 0; v < values.size(); ++v) {
    const int variable = lists.looped[v];
    for (int l = 0; l < full.n; ++l)
      values[v].push_back(full.index[variable] ? full.index[variable][l] : full.uniform[variable]);
  }
}

int64_t Evaluator::scatter_key(const Batch& batch, const ScatterLists& lists, int64_t element,
                               int lane) const {
  const Definition& made = definition(batch.definition);
  const ShapedDefinition& planned = shaped(batch.definition);
  int64_t key = 0;
  for (std::size_t c = 0; c < made.coordinates.size(); ++c) {
    if (made.coordinates[c].variable >= 0) continue;
    key = key * planned.extents[c] + element / planned.strides[c] % std::max<int64_t>(planned.extents[c], 1);
  }
  for (const int variable : lists.keyed) {
    const Range& range = planned.ranges[static_cast<std::size_t>(variable)];
    const int64_t value = batch.index[variable] ? batch.index[variable][lane] : batch.uniform[variable];
    key = key * range.length() + value - range.low;
  }
  return key;
}

// The entries of a key, as positions.
std::pair<int64_t, int64_t> Evaluator::scatter_entries(const ScatterLists& lists, int64_t key) {
  const auto found = std::ranges::lower_bound(lists.keys, key);
  if (found == lists.keys.end() || *found != key) return {0, 0};
  const auto at = static_cast<std::size_t>(found - lists.keys.begin());
  return {lists.first[at], lists.first[at + 1]};
}

void Evaluator::reduce_scatter(Batch& batch, const int64_t* elements, Accumulator& total) {
  const ScatterLists& lists = evaluation_.scatter(batch.definition);
  if (evaluation_.failed()) return;
  const Definition& made = definition(batch.definition);
  Loops rest;
  for (const int variable : made.reduced)
    if (std::ranges::find(lists.looped, variable) == lists.looped.end()) rest.push_back(variable);
  int64_t* keys = arena_.get<int64_t>(batch.n);
  int64_t places = 0, same_from = 0, same_to = 0;  // elements of one place, where one coordinate decides
  int64_t stride = 0;
  for (std::size_t c = 0; c < made.coordinates.size(); ++c)
    if (made.coordinates[c].variable < 0) {
      ++places;
      stride = shaped(batch.definition).strides[c];
    }
  const bool runs = places == 1 && lists.keyed.empty();
  for (int l = 0; l < batch.n; ++l) {
    const int64_t element = elements[l];
    if (runs && l > 0 && element >= same_from && element < same_to) {
      keys[l] = keys[l - 1];
      continue;
    }
    keys[l] = scatter_key(batch, lists, element, l);
    same_from = element - element % stride;  // NOLINT(clang-analyzer-core.DivideZero): a stride is at least 1
    same_to = same_from + stride;
  }
  // Lanes of the same place share their iterations.
  for (int first = 0; first < batch.n && !evaluation_.failed();) {
    int last = first + 1;
    while (last < batch.n && keys[last] == keys[first]) ++last;
    const auto [begin, end] = scatter_entries(lists, keys[first]);
    if (begin < end) scatter_run(batch, lists, rest, first, last - first, begin, end, total);
    first = last;
  }
}

// Where the outermost loop ends for a simulated kernel, which may drop the last of it.
int64_t Evaluator::scatter_end(int definition_id, const ScatterLists& lists) const {
  const Range& range = shaped(definition_id).ranges[static_cast<std::size_t>(lists.looped[0])];
  const Defect& defect = evaluation_.defect_of(definition_id);
  const int64_t dropped =
      defect.dropped_fraction > 0 ? range.length() / defect.dropped_fraction : defect.dropped_terms;
  return range.high - std::min(dropped, range.length() - 1);
}

void Evaluator::scatter_run(Batch& batch, const ScatterLists& lists, const Loops& rest, int first, int n,
                            int64_t begin, int64_t end, Accumulator& total) {
  const Arena::Mark mark = arena_.mark();
  int* map = arena_.get<int>(n);
  std::iota(map, map + n, first);
  Batch part = select(batch, map, n);
  const bool by_terms = n < 16 && end - begin >= 16 && rest.empty() && !evaluation_.simulated;
  if (by_terms) {
    for (int l = 0; l < n; ++l) scatter_by_terms(part, lists, l, begin, end, total, map[l]);
  } else {
    // No loop at all where the place depends on none: y[t[0], d] += x[i, d].
    const bool may_drop = evaluation_.simulated && !lists.looped.empty();
    const int64_t last = may_drop ? scatter_end(batch.definition, lists) : 0;
    for (int64_t entry = begin; entry < end && !evaluation_.failed(); ++entry) {
      if (may_drop && lists.entries[0][static_cast<std::size_t>(entry)] >= last) continue;
      const Arena::Mark inner = arena_.mark();
      for (std::size_t v = 0; v < lists.looped.size(); ++v)
        part.uniform[lists.looped[v]] = lists.entries[v][static_cast<std::size_t>(entry)];
      loop(part, rest, 0, n == batch.n ? nullptr : map, total);
      arena_.release(inner);
    }
  }
  arena_.release(mark);
}

// One element, many iterations: a lane for each.
void Evaluator::scatter_by_terms(const Batch& part, const ScatterLists& lists, int lane, int64_t begin,
                                 int64_t end, Accumulator& total, int at) {
  const Definition& made = definition(part.definition);
  Accumulator lanes = Accumulator::make(arena_, kLanes, made.reduce);
  Batch full = select(part, &lane, 1);
  for (std::size_t v = 0; v < made.variables.size(); ++v)
    if (full.index[v]) {
      full.uniform[v] = full.index[v][0];
      full.index[v] = nullptr;
    }
  int used = 0;
  double before = 0, walk = 0;
  for (int64_t entry = begin; entry < end && !evaluation_.failed(); entry += full.n) {
    const Arena::Mark mark = arena_.mark();
    full.n = static_cast<int>(std::min<int64_t>(kLanes, end - entry));
    full.id = next_batch_++;
    for (std::size_t v = 0; v < lists.looped.size(); ++v)
      full.index[lists.looped[v]] = const_cast<int64_t*>(lists.entries[v].data() + entry);
    lanes.together = before;
    term(full, nullptr, lanes);
    used = std::max(used, full.n);
    double after = 0;
    for (int l = 0; l < used; ++l) after += lanes.sum[l];
    walk += full.n * std::max(before * before, after * after);
    before = after;
    arena_.release(mark);
  }
  fold(lanes, used, total, at, made.reduce, made.type() != Type::Float);
  total.walk[at] += walk;
}

// `=` with a computed place: each element from its one iteration, if it has one.
void Evaluator::assign_scatter(Batch& batch, const int64_t* elements, const Elements& out) {
  const ScatterLists& lists = evaluation_.scatter(batch.definition);
  if (evaluation_.failed()) return;
  const Definition& made = definition(batch.definition);
  const int n = batch.n;
  int* assigned = arena_.get<int>(n);
  int64_t* entry = arena_.get<int64_t>(n);
  int count = 0;
  for (int l = 0; l < n; ++l) {
    const auto [begin, end] = scatter_entries(lists, scatter_key(batch, lists, elements[l], l));
    if (end - begin > 1)
      return evaluation_.fail(made.place,
                              fmt::format("`{}` is assigned twice at {}; use += or max=", made.name,
                                          coordinates(shaped(batch.definition).extents, elements[l])));
    if (end == begin) continue;
    entry[count] = begin;
    assigned[count++] = l;
  }
  if (count < n) keep_previous(batch, elements, out);
  if (count == 0) return;
  Batch part = select_with_terms(batch, assigned, count);
  for (std::size_t v = 0; v < lists.looped.size(); ++v) {
    part.index[lists.looped[v]] = arena_.get<int64_t>(count);
    for (int j = 0; j < count; ++j)
      part.index[lists.looped[v]][j] = lists.entries[v][static_cast<std::size_t>(entry[j])];
  }
  const Lanes value = eval(part, made.body);
  const Elements compact{arena_.get<double>(count),
                         arena_.get<double>(count),
                         arena_.get<double>(count),
                         arena_.get<double>(count),
                         out.terms,
                         arena_.get<uint8_t>(count)};
  write(value, count, compact);
  for (int j = 0; j < count; ++j) {
    const int l = assigned[j];
    out.v[l] = compact.v[j];
    out.b[l] = compact.b[j];
    out.s[l] = compact.s[j];
    out.magnitude[l] = compact.magnitude[j];
    if (batch.terms) out.terms[l] = std::max(out.terms[l], part.terms[j]);
    out.f[l] = compact.f[j];
  }
}

void Evaluator::keep_previous(Batch& batch, const int64_t* elements, const Elements& out) {
  const Definition& made = definition(batch.definition);
  if (made.previous < 0) {
    Lanes nothing = made.type() == Type::Float ? plain_.real(0, batch.n) : plain_.integer(0, batch.n);
    plain_.need_flags(nothing, batch.n);
    std::fill_n(nothing.f, batch.n, static_cast<uint8_t>(kUnspecified));
    return write(nothing, batch.n, out);
  }
  write(previous(batch, elements), batch.n, out);
}

}  // namespace assay::reference
