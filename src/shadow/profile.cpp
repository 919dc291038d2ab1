// From counts to the profile.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "numerics/formats.h"
#include "shadow/impl.h"

namespace assay::shadow {

namespace {

// Below this part of the energy of the last rounding, what happened before it is not worth naming.
constexpr double kWorthNaming = 1e-5;
// The parts by line are first-order: where they explain less of the error than this, or much more, only their
// sizes are compared.
constexpr double kExplained = 0.2, kOverexplained = 5;

template <class T>
double read_as(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return static_cast<double>(x);
}

double value_of(Number number, const std::byte* at) {
  switch (number) {
    case Number::F64:
      return read_as<double>(at);
    case Number::F32:
      return read_as<float>(at);
    case Number::F16:
      return numerics::to_double(numerics::Format::F16, static_cast<uint64_t>(read_as<uint16_t>(at)));
    case Number::BF16:
      return numerics::to_double(numerics::Format::BF16, static_cast<uint64_t>(read_as<uint16_t>(at)));
    case Number::E4M3:
      return numerics::to_double(numerics::Format::E4M3, static_cast<uint64_t>(read_as<uint8_t>(at)));
    case Number::E5M2:
      return numerics::to_double(numerics::Format::E5M2, static_cast<uint64_t>(read_as<uint8_t>(at)));
    case Number::U8:
      return read_as<uint8_t>(at);
    default:
      return read_as<int8_t>(at);
  }
}

double sum(const double (&x)[32]) {
  return std::accumulate(std::begin(x), std::end(x), 0.0);
}
double largest(const double (&x)[32]) {
  return *std::max_element(std::begin(x), std::end(x));
}

struct LineSums {
  LineProfile line;
  double introduced2 = 0, cancelled = 0, best = -1;
  uint64_t additions = 0;
  uint64_t roundings = 0, others = 0;
};

void add(LineSums& to, const Site& s) {
  LineProfile& line = to.line;
  const double introduced2 = sum(s.introduced2);
  line.where = {s.file, s.line};
  line.executions += s.executions;
  line.introduced_max = std::max(line.introduced_max, largest(s.introduced_max));
  line.inherited = std::max(line.inherited, s.inherited_max);
  line.amplification = std::max(line.amplification, s.amplification_max);
  line.cancelled_bits = std::max(line.cancelled_bits, largest(s.cancelled_max));
  line.cancelled_from = std::max(line.cancelled_from, largest(s.cancelled_from));
  line.stagnated += static_cast<uint64_t>(sum(s.stagnated));
  line.flushed += static_cast<uint64_t>(sum(s.flushed));
  line.overflowed += s.overflowed;
  to.introduced2 += introduced2;
  to.cancelled += sum(s.cancelled);
  line.pooled |= s.slot == 0 && introduced2 > 0;
  (s.rounds ? to.roundings : to.others) += introduced2 > 0;
  // The operation to name: the one with most error, an overflow above all.
  const double weight = introduced2 + 1e6 * static_cast<double>(s.overflowed);
  if (s.executions != 0 && weight > to.best) to.best = weight, line.operation = s.operation;
}

std::map<LineKey, LineSums> by_line(const std::deque<Site>& sites) {
  std::map<LineKey, LineSums> lines;
  for (const Site& s : sites) {
    if (s.executions == 0 && s.decided == 0 && s.forgotten == 0) continue;
    if (s.executions != 0) add(lines[{s.file, s.line}], s);
  }
  for (auto& [key, l] : lines) {
    const auto n = static_cast<double>(std::max<uint64_t>(l.line.executions, 1));
    l.line.introduced = std::sqrt(l.introduced2 / n);
    l.line.cancelled_bits_mean = l.cancelled / n;
    l.line.rounds_result = l.roundings != 0 && l.others == 0;
  }
  return lines;
}

// Shares by slot; index 0: lines without a slot. `pooled`: such lines brought errors.
std::vector<double> shares(const OutputSums& o, bool pooled) {
  std::vector<double> share(kLineSlots + 1, 0.0);
  double whole = 0;
  const double *parts = nullptr, *sizes = o.size2;
  if (o.broken != 0) {
    whole = static_cast<double>(o.broken), parts = o.broken_at, sizes = nullptr;
  } else if (o.before2 > kWorthNaming * o.fresh2 && o.before2 > 0) {
    whole = o.before2, parts = o.before;
  } else if (o.whole2 > 0) {
    whole = o.whole2, parts = o.charged;
  }
  if (whole == 0) return share;
  share[0] = 1;
  for (uint32_t s = 1; s <= kLineSlots; ++s) {
    share[s] = parts[s] / whole;
    share[0] -= share[s];
  }
  const double explained = 1 - share[0];
  if (sizes == nullptr || pooled || (explained > kExplained && explained < kOverexplained)) return share;
  double all = 0;
  for (uint32_t s = 1; s <= kLineSlots; ++s) all += sizes[s];
  if (all == 0) return share;
  for (uint32_t s = 1; s <= kLineSlots; ++s) share[s] = sizes[s] / all;
  share[0] = 0;
  return share;
}

std::vector<LineShare> named(const std::vector<double>& share, const std::map<uint32_t, LineKey>& keys) {
  std::vector<LineShare> lines;
  for (const auto& [slot, key] : keys)
    if (std::fabs(share[slot]) > 1e-6) lines.push_back({{key.first, key.second}, share[slot]});
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return lines;
}

}  // namespace

Shadow::Shadow() : impl_(std::make_unique<Impl>()) {}
Shadow::~Shadow() = default;

void Shadow::watch(const vgpu::Memory& memory) {
  impl_->memory = &memory;
}

OutputSums& Shadow::Impl::output(const std::string& name) {
  for (OutputSums& o : outputs)
    if (o.name == name) return o;
  outputs.emplace_back().name = name;
  return outputs.back();
}

void Shadow::take_output(std::string name, const std::byte* host, uint64_t bytes) {
  OutputSums& o = impl_->output(name);
  o = {};
  o.name = std::move(name);
  impl_->cells.each(
      reinterpret_cast<uintptr_t>(host), bytes,
      [&](uintptr_t last, uint32_t size, uint8_t number, const Error& e) {
        ++o.elements;
        const auto whole = static_cast<double>(e.slot[kWhole]);
        if (!(std::fabs(whole) < 3e38)) {
          ++o.broken;
          for (uint32_t s = 1; s <= kLineSlots; ++s)
            o.broken_at[s] += std::fabs(static_cast<double>(e.slot[s]));
          return;
        }
        o.largest = std::max(o.largest, std::fabs(whole));
        // Relative errors, one at most: an error of everything in a small element counts as much as in a
        // large one.
        const double value =
            value_of(static_cast<Number>(number), reinterpret_cast<const std::byte*>(last + 1 - size));
        const double scale =
            1 / std::max({std::fabs(value), std::fabs(value - whole), std::fabs(whole), 1e-300});
        const double fresh = scale * static_cast<double>(e.slot[kFresh]), all = scale * whole,
                     before = all - fresh;
        o.largest_before = std::max(o.largest_before, std::fabs(before));
        const auto at = static_cast<uint32_t>(e.slot[kFreshLine]);
        if (at > 0 && at <= kLineSlots) o.fresh_at[at] += fresh * fresh;
        o.fresh2 += fresh * fresh, o.before2 += before * before, o.whole2 += all * all;
        for (uint32_t s = 1; s <= kLineSlots; ++s) {
          const double part = scale * static_cast<double>(e.slot[s]);
          o.before[s] += part * before;
          o.size2[s] += part * part;
          o.charged[s] += (part + (at == s ? fresh : 0.0)) * all;
        }
      });
}

double Shadow::error_at(const std::byte* host, uint32_t size) const {
  const Error* e = impl_->cells.find(reinterpret_cast<uintptr_t>(host) + size - 1);
  return e == nullptr ? 0 : static_cast<double>(e->slot[kWhole]);
}

void Shadow::forget() {
  impl_->outputs.clear();
  for (Site& s : impl_->sites) {
    Site fresh;
    fresh.file = s.file, fresh.line = s.line, fresh.operation = s.operation, fresh.slot = s.slot,
    fresh.group = s.group, fresh.rounds = s.rounds;
    fresh.decision = s.decision;
    s = fresh;
  }
}

Profile Shadow::profile() const {
  Profile profile;
  std::map<uint32_t, LineKey> keys;
  for (const auto& [key, slot] : impl_->slots)
    if (slot != 0) keys[slot] = key;
  std::map<LineKey, LineSums> lines = by_line(impl_->sites);
  const bool pooled =
      std::any_of(lines.begin(), lines.end(), [](const auto& one) { return one.second.line.pooled; });
  size_t counted = 0;
  std::map<LineKey, double> total;
  for (const OutputSums& o : impl_->outputs) {
    if (o.elements == 0) continue;
    const std::vector<double> share = shares(o, pooled);
    OutputProfile out{o.name,     o.largest,         o.largest_before,
                      o.elements, o.broken,          pooled ? share[0] : 0.0,
                      {},         named(share, keys)};
    double most = 0;
    for (const auto& [slot, key] : keys) {
      if (o.fresh2 <= 0 || o.fresh_at[slot] / o.fresh2 <= most) continue;
      most = o.fresh_at[slot] / o.fresh2;
      out.rounded_at = {key.first, key.second};
    }
    for (const LineShare& l : out.lines) total[{l.where.file, l.where.line}] += l.share;
    profile.outputs.push_back(std::move(out));
    ++counted;
  }
  for (auto& [key, l] : lines) {
    if (const auto found = total.find(key); found != total.end())
      l.line.share = found->second / static_cast<double>(counted);
    profile.lines.push_back(l.line);
  }
  std::stable_sort(profile.lines.begin(), profile.lines.end(),
                   [](const LineProfile& a, const LineProfile& b) {
                     return a.share != b.share ? a.share > b.share : a.introduced > b.introduced;
                   });
  for (const Site& s : impl_->sites) {
    if (s.decided != 0)
      profile.decisions.push_back({{s.file, s.line}, s.decision ? s.decision : "", s.decided});
    if (s.forgotten != 0) profile.retaken.push_back({{s.file, s.line}, s.operation, s.forgotten});
  }
  return profile;
}

namespace {

// Row by row, the host memory of a range of the device; null rows are skipped.
template <class Visit>
void each_row(const vgpu::Memory& memory, const vgpu::RangeInfo& range, Visit visit) {
  for (uint64_t z = 0; z < range.depth; ++z)
    for (uint64_t y = 0; y < range.height; ++y) {
      const uint64_t offset = z * range.slice_pitch + y * range.row_pitch;
      std::byte* host = range.host ? nullptr : memory.host(range.address + offset, range.width);
      visit(host, z * range.height + y);
    }
}

}  // namespace

void Shadow::on_copy(const vgpu::OperationInfo&, const vgpu::RangeInfo& to, const vgpu::RangeInfo& from) {
  if (impl_->memory == nullptr || to.width == 0) return;
  const vgpu::Memory& memory = *impl_->memory;
  std::vector<std::byte*> rows;
  each_row(memory, from, [&](std::byte* host, uint64_t) { rows.push_back(host); });
  const auto target = to.host ? std::nullopt : memory.find(to.address);
  const bool leaves = to.host != nullptr || (target && target->kind == vgpu::MemoryKind::Pinned);
  if (leaves) {
    const auto source = from.host ? std::nullopt : memory.find(from.address);
    if (!source || !rows[0]) return;
    const bool has_name = source->label.rfind("cuda", 0) != 0;
    take_output(has_name ? source->label : fmt::format("{} {}", source->label, source->id), rows[0],
                from.height * from.depth == 1
                    ? from.width
                    : (from.depth - 1) * from.slice_pitch + from.height * from.row_pitch);
    return;
  }
  each_row(memory, to, [&](std::byte* host, uint64_t row) {
    if (host == nullptr) return;
    if (row < rows.size() && rows[row] != nullptr)
      impl_->cells.copy(reinterpret_cast<uintptr_t>(host), reinterpret_cast<uintptr_t>(rows[row]), to.width);
    else
      impl_->cells.clear(reinterpret_cast<uintptr_t>(host), to.width);
  });
}

void Shadow::on_fill(const vgpu::OperationInfo&, const vgpu::RangeInfo& to) {
  if (impl_->memory == nullptr) return;
  each_row(*impl_->memory, to, [&](std::byte* host, uint64_t) {
    if (host != nullptr) impl_->cells.clear(reinterpret_cast<uintptr_t>(host), to.width);
  });
}

}  // namespace assay::shadow
