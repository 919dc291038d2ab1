// The file: a word that says what it is, its fields in order, and a hash of all before it. One function for each struct
// lists its fields for both directions.
#include "train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <type_traits>

#include "base/file.h"
#include "base/random.h"

namespace assay::train {

namespace {

constexpr std::string_view kMagic = "assay-train-4\n";

struct Writer {
  std::string bytes;

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      fields_of(*this, value);
    }
  }
  void operator()(std::string& text) {
    count(text.size());
    bytes += text;
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    count(values.size());
    if constexpr (std::is_arithmetic_v<T>) {
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    } else {
      for (T& value : values) (*this)(value);
    }
  }
  void operator()(std::set<std::string>& texts) {
    std::vector<std::string> values(texts.begin(), texts.end());
    (*this)(values);
  }
  void count(uint64_t size) { (*this)(size); }
};

struct FieldReader {
  std::string_view rest;
  bool failed = false;

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      take(&value, sizeof value);
    } else {
      fields_of(*this, value);
    }
  }
  void operator()(std::string& text) {
    text.resize(count(1));
    take(text.data(), text.size());
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    if constexpr (std::is_arithmetic_v<T>) {
      values.resize(count(sizeof(T)));
      take(values.data(), values.size() * sizeof(T));
    } else {
      values.resize(count(1));
      for (T& value : values)
        if (!failed) (*this)(value);
    }
  }
  void operator()(std::set<std::string>& texts) {
    std::vector<std::string> values;
    (*this)(values);
    texts.insert(values.begin(), values.end());
  }
  // How many elements follow; a number that the file has no room for is damage.
  std::size_t count(std::size_t item) {
    uint64_t size = 0;
    (*this)(size);
    if (failed || size > rest.size() / item) {
      failed = true;
      return 0;
    }
    return size;
  }
  void take(void* to, std::size_t size) {
    if (failed || size > rest.size()) {
      failed = true;
      return;
    }
    if (size > 0) std::memcpy(to, rest.data(), size);
    rest.remove_prefix(size);
  }
};

template <class V>
void fields_of(V& v, Comparison& c) {
  v(c.gain), v(c.cosine), v(c.relative_error), v(c.norm), v(c.nonfinite);
}
template <class V>
void fields_of(V& v, TensorSignal& s) {
  v(s.tensor), v(s.part), v(s.candidate), v(s.noise_gain), v(s.noise_error), v(s.update_to_weight);
}
template <class V>
void fields_of(V& v, StepSignals& s) {
  v(s.step), v(s.loss), v(s.tensors);
}
template <class V>
void fields_of(V& v, Curve& c) {
  v(c.loss), v(c.nonfinite);
}
template <class V>
void fields_of(V& v, OptimizerSettings& s) {
  v(s.rate), v(s.momentum), v(s.beta1), v(s.beta2), v(s.epsilon), v(s.decay);
}
template <class V>
void fields_of(V& v, Cell& c) {
  v(c.source), v(c.optimizer), v(c.settings), v(c.teacher), v(c.states);
  v(c.reference), v(c.trusted), v(c.reordered), v(c.candidate);
  v(c.loss_gap), v(c.noise), v(c.gap_step), v(c.unmasked_step), v(c.signals);
}
template <class V>
void fields_of(V& v, Teacher& t) {
  v(t.signals), v(t.source), v(t.optimizer), v(t.log10_evidence), v(t.false_alarms), v(t.rejected_step);
  v(t.tensor), v(t.part), v(t.is_bias), v(t.seconds);
}
template <class V>
void fields_of(V& v, ModelSizes& s) {
  v(s.vocabulary), v(s.width), v(s.heads), v(s.layers), v(s.feed_forward), v(s.sequence), v(s.sequences);
  v(s.activation), v(s.tied);
}
template <class V>
void fields_of(V& v, StateReport& s) {
  v(s.name), v(s.sizes), v(s.step), v(s.calls), v(s.elements), v(s.seconds), v(s.problem), v(s.failed_site);
}
template <class V>
void fields_of(V& v, RunState& s) {
  v(s.weights), v(s.optimizer.first), v(s.optimizer.second), v(s.optimizer.step);
}
template <class V>
void fields_of(V& v, CallCount& c) {
  v(c.calls), v(c.seconds), v(c.sites), v(c.refused);
}
template <class V>
void fields_of(V& v, TeacherRun& r) {
  v(r.teacher), v(r.reference), v(r.gain_squares), v(r.error_squares), v(r.draws), v(r.log10_products);
  v(r.is_ended);
}
template <class V>
void fields_of(V& v, Checkpoint& c) {
  v(c.of), v(c.cells), v(c.phase), v(c.count), v(c.seconds);
  if (c.phase == CellPhase::Gradients) v(c.teacher);
  if (c.phase == CellPhase::Losses)
    for (RunState& run : c.runs.runs) v(run);
}

}  // namespace

std::string identity(const Candidate& candidate, const Options& o) {
  const ModelSizes& s = o.sizes;
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} seed {} steps {} {} {} {} {} rate {} text {:x} {}", candidate.slot->name,
      s.vocabulary, s.width, s.heads, s.layers, s.feed_forward, s.sequence, s.sequences,
      static_cast<int>(s.activation), s.tied, o.seed, o.steps, o.teacher_steps, o.teacher_only, o.stop_early,
      o.false_alarms, o.rate.value_or(0), hash(o.text), to_string(o.tokenizer));
  for (const TokenSource source : o.sources) text += fmt::format(" {}", to_string(source));
  for (const Optimizer optimizer : o.optimizers) text += fmt::format(" {}", to_string(optimizer));
  for (const auto& [name, dtype] : candidate.dtypes)
    text += fmt::format(" {}:{}", name, contract::info(dtype).name);
  for (const auto& [name, value] : candidate.scalars) text += fmt::format(" {}={}", name, value);
  return text;
}

bool save(const Checkpoint& checkpoint, const std::string& path) {
  Writer writer;
  writer.bytes = kMagic;
  writer(const_cast<Checkpoint&>(checkpoint));  // it only reads
  uint64_t sum = hash(writer.bytes);
  writer(sum);
  const std::string beside = path + ".new";
  std::FILE* const file = std::fopen(beside.c_str(), "wb");
  if (!file) return false;
  const bool written = std::fwrite(writer.bytes.data(), 1, writer.bytes.size(), file) == writer.bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) {
    std::remove(beside.c_str());
    return false;
  }
  return std::rename(beside.c_str(), path.c_str()) == 0;
}

std::optional<Checkpoint> read_checkpoint(const std::string& path, const std::string& of) {
  const std::string bytes = text_of(path);
  std::string_view all = bytes;
  if (!all.starts_with(kMagic) || all.size() < kMagic.size() + sizeof(uint64_t)) return std::nullopt;
  const std::string_view covered = all.substr(0, all.size() - sizeof(uint64_t));
  uint64_t sum = 0;
  std::memcpy(&sum, all.data() + covered.size(), sizeof sum);
  if (hash(covered) != sum) return std::nullopt;
  FieldReader reader{covered.substr(kMagic.size())};
  Checkpoint checkpoint;
  reader(checkpoint);
  if (reader.failed || !reader.rest.empty() || checkpoint.of != of) return std::nullopt;
  return checkpoint;
}

}  // namespace assay::train
