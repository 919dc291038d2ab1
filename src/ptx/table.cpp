// Rows are compiled once, at first use: the syntax text becomes a small tree of words and
// choices. An instruction matches a row if the tree can consume all of its modifiers, in any
// order outside the ordered groups, and all of its types, in order.
#include "ptx/table.h"

#include <fmt/format.h>

#include <unordered_map>

namespace assay::ptx {
namespace {

struct Node;
using Sequence = std::vector<Node>;

struct Node {
  bool is_choice = false;
  bool is_type = false;                // word: a type, else a modifier
  bool optional = false;               // choice
  uint16_t id = 0;                     // word
  std::vector<Sequence> alternatives;  // choice
};

struct Source {
  Opcode opcode;
  int isa, sm;
  std::string_view text;
};

constexpr Source kSources[] = {
#define SET(name, members)
#define ROW(opcode, isa, sm, text) {Opcode::opcode, isa, sm, text},
#include "ptx/instructions.def"
#undef ROW
#undef SET
};

constexpr std::pair<std::string_view, std::string_view> kSets[] = {
#define SET(name, members) {#name, members},
#define ROW(opcode, isa, sm, text)
#include "ptx/instructions.def"
#undef ROW
#undef SET
};

const std::unordered_map<std::string_view, std::string_view>& sets() {
  static const std::unordered_map<std::string_view, std::string_view> index(std::begin(kSets),
                                                                            std::end(kSets));
  return index;
}

// Compiles the syntax of one row.
class RowCompiler {
 public:
  RowCompiler(std::string_view text, std::string& defects) : text_(text), defects_(defects) {}

  Sequence modifiers() {
    Sequence sequence = parse_sequence();
    if (pos_ < text_.size() && text_[pos_] != ' ') defect("stray text");
    return sequence;
  }

  std::vector<OperandPattern> operands() {
    std::vector<OperandPattern> patterns;
    bool optional = false;
    while (pos_ < text_.size()) {
      char c = text_[pos_];
      if (c == ' ' || c == ',') {
        ++pos_;
      } else if (c == '{') {
        optional = true;
        ++pos_;
      } else if (c == '}') {
        optional = false;
        ++pos_;
      } else {
        patterns.push_back(parse_operand(optional));
      }
    }
    return patterns;
  }

 private:
  Sequence parse_sequence() {
    Sequence sequence;
    while (pos_ < text_.size()) {
      char c = text_[pos_];
      if (c == '.') {
        ++pos_;
        sequence.push_back(text_[pos_] == '<' ? parse_set() : word(read_word()));
      } else if (c == '{' || c == '(') {
        sequence.push_back(parse_choice(c == '{'));
      } else {
        break;
      }
    }
    return sequence;
  }

  Node parse_choice(bool optional) {
    Node node;
    node.is_choice = true;
    node.optional = optional;
    do {
      ++pos_;
      node.alternatives.push_back(parse_sequence());
    } while (pos_ < text_.size() && text_[pos_] == '|');
    if (pos_ >= text_.size() || text_[pos_] != (optional ? '}' : ')')) defect("unbalanced group");
    ++pos_;
    return node;
  }

  Node parse_set() {
    size_t close = text_.find('>', pos_);
    std::string_view set = text_.substr(pos_ + 1, close - pos_ - 1);
    pos_ = close + 1;
    Node node;
    node.is_choice = true;
    auto it = sets().find(set);
    if (it == sets().end()) {
      defect(fmt::format("unknown set {}", set));
      return node;
    }
    std::string_view members = it->second;
    for (size_t start = 0; start <= members.size();) {
      size_t end = std::min(members.find('|', start), members.size());
      std::string member = "." + std::string(members.substr(start, end - start));
      node.alternatives.push_back(RowCompiler(member, defects_).modifiers());
      start = end + 1;
    }
    return node;
  }

  std::string_view read_word() {
    size_t end = text_.find_first_of(".{}()| ", pos_);
    if (end == std::string_view::npos) end = text_.size();
    std::string_view result = text_.substr(pos_, end - pos_);
    pos_ = end;
    return result;
  }

  Node word(std::string_view spelling) {
    Node node;
    if (auto type = find_type(spelling)) {
      node.is_type = true;
      node.id = static_cast<uint16_t>(*type);
    } else if (auto mod = find_mod(spelling)) {
      node.id = static_cast<uint16_t>(*mod);
    } else {
      defect(fmt::format("unknown word {}", spelling));
    }
    return node;
  }

  OperandPattern parse_operand(bool optional) {
    static const std::unordered_map<std::string_view, OperandKind> kinds = {
        {"d", OperandKind::Destination},
        {"dv", OperandKind::DestinationOrVector},
        {"p", OperandKind::PredicateResult},
        {"a", OperandKind::Value},
        {"b", OperandKind::Value},
        {"c", OperandKind::Value},
        {"e", OperandKind::Value},
        {"av", OperandKind::ValueOrVector},
        {"bv", OperandKind::ValueOrVector},
        {"cv", OperandKind::ValueOrVector},
        {"v", OperandKind::Vector},
        {"-a", OperandKind::NegatableValue},
        {"q", OperandKind::Predicate},
        {"n", OperandKind::Constant},
        {"[a]", OperandKind::Address},
        {"[t]", OperandKind::Coordinates},
        {"[t2]", OperandKind::SampledCoordinates},
        {"am", OperandKind::ValueOrAddress},
        {"label", OperandKind::Label},
        {"list", OperandKind::TargetList},
        {"fn", OperandKind::Callee},
        {"h", OperandKind::CachePolicy},
        {"_", OperandKind::Dropped},
        {"(args)", OperandKind::Arguments},
    };
    OperandPattern pattern;
    pattern.optional = optional;
    size_t end = text_.find_first_of(",{} |.", pos_);
    if (end == std::string_view::npos) end = text_.size();
    auto it = kinds.find(text_.substr(pos_, end - pos_));
    if (it == kinds.end()) {
      defect("unknown operand");
      pos_ = text_.size();
      return pattern;
    }
    pattern.kind = it->second;
    pos_ = end;
    if (text_.substr(pos_, 2) == ".s") pattern.has_selector = true, pos_ += 2;
    if (text_.substr(pos_, 2) == "{|") {
      pattern.pair = OperandPattern::Pair::Optional;
      pos_ = text_.find('}', pos_) + 1;
    } else if (text_.substr(pos_, 1) == "|") {
      pattern.pair = OperandPattern::Pair::Required;
      pos_ += 2;
    }
    return pattern;
  }

  void defect(std::string_view what) { defects_ += fmt::format("{}: {}\n", text_, what); }

  std::string_view text_;
  std::string& defects_;
  size_t pos_ = 0;
};

struct Table {
  std::vector<Row> rows;                                 // sorted by opcode; Row::index is the position
  std::vector<Sequence> syntax;                          // of each row
  std::vector<std::pair<uint16_t, uint16_t>> by_opcode;  // [first, last) row of each opcode
  std::string defects;

  Table() {
    constexpr size_t opcodes = static_cast<size_t>(Opcode::Count_);
    std::vector<std::vector<const Source*>> grouped(opcodes);
    for (const Source& source : kSources) grouped[static_cast<size_t>(source.opcode)].push_back(&source);
    for (size_t i = 0; i < opcodes; ++i) {
      auto first = static_cast<uint16_t>(rows.size());
      for (const Source* source : grouped[i]) add(*source);
      by_opcode.emplace_back(first, static_cast<uint16_t>(rows.size()));
      if (grouped[i].empty()) defects += fmt::format("{}: no row\n", name(static_cast<Opcode>(i)));
    }
  }

  void add(const Source& source) {
    RowCompiler compiler(source.text, defects);
    Row row{source.opcode, static_cast<uint16_t>(rows.size()), source.isa, source.sm, source.text, {}};
    syntax.push_back(compiler.modifiers());
    row.operands = compiler.operands();
    rows.push_back(std::move(row));
  }
};

const Table& table() {
  // Never destroyed: the CUDA runtime is used until after the program's own destructors.
  static const Table& instance = *new Table;
  return instance;
}

// Modifiers whose order among themselves carries meaning: 0 is none.
int order_group(Mod mod) {
  switch (mod) {
    case Mod::row:
    case Mod::col:
      return 1;
    case Mod::global:
    case Mod::shared:
    case Mod::shared_cta:
    case Mod::shared_cluster:
      return 2;
    case Mod::L2_evict_first:
    case Mod::L2_evict_last:
    case Mod::L2_evict_normal:
    case Mod::L2_evict_unchanged:
      return 3;
    default:
      return 0;
  }
}

class WordMatcher {
 public:
  WordMatcher(std::span<const Mod> mods, std::span<const Type> types) : mods_(mods), types_(types) {}

  bool matches(const Sequence& syntax) {
    used_ = 0;
    next_type_ = 0;
    steps_ = 0;
    order_.clear();
    return match(syntax, 0, nullptr);
  }

  const std::vector<bool>& order() const { return order_; }
  size_t most_consumed() const { return most_consumed_; }

 private:
  struct Rest {
    const Sequence* sequence;
    size_t at;
    const Rest* next;
  };

  bool match(const Sequence& sequence, size_t at, const Rest* rest) {
    if (++steps_ > kStepLimit) return false;
    if (at == sequence.size()) {
      if (rest) return match(*rest->sequence, rest->at, rest->next);
      return consumed() == mods_.size() + types_.size();
    }
    const Node& node = sequence[at];
    if (!node.is_choice)
      return node.is_type ? match_type(node, sequence, at, rest) : match_mod(node, sequence, at, rest);
    Rest after{&sequence, at + 1, rest};
    for (const Sequence& alternative : node.alternatives)
      if (match(alternative, 0, &after)) return true;
    return node.optional && match(sequence, at + 1, rest);
  }

  bool match_type(const Node& node, const Sequence& sequence, size_t at, const Rest* rest) {
    if (next_type_ == types_.size() || static_cast<uint16_t>(types_[next_type_]) != node.id) return false;
    ++next_type_;
    order_.push_back(true);
    note_progress();
    if (match(sequence, at + 1, rest)) return true;
    order_.pop_back();
    --next_type_;
    return false;
  }

  bool match_mod(const Node& node, const Sequence& sequence, size_t at, const Rest* rest) {
    Mod wanted = static_cast<Mod>(node.id);
    int group = order_group(wanted);
    for (size_t i = 0; i < mods_.size(); ++i) {
      uint32_t bit = 1u << i;
      if (used_ & bit) continue;
      if (mods_[i] != wanted) {
        if (group != 0 && order_group(mods_[i]) == group) return false;
        continue;
      }
      used_ |= bit;
      order_.push_back(false);
      note_progress();
      if (match(sequence, at + 1, rest)) return true;
      order_.pop_back();
      used_ &= ~bit;
      return false;
    }
    return false;
  }

  size_t consumed() const { return static_cast<size_t>(__builtin_popcount(used_)) + next_type_; }
  void note_progress() { most_consumed_ = std::max(most_consumed_, consumed()); }

  static constexpr int kStepLimit = 200000;
  std::span<const Mod> mods_;
  std::span<const Type> types_;
  uint32_t used_ = 0;
  std::vector<bool> order_;  // is_type of each word consumed
  size_t next_type_ = 0, most_consumed_ = 0;
  int steps_ = 0;
};

constexpr size_t kMaxWords = 31;

class FormVisitor {
 public:
  FormVisitor(const Row& row, const std::function<bool(const Form&)>& visit) : row_(row), visit_(visit) {
    form_.row = &row;
  }

  void run() { expand(table().syntax[row_.index], 0, nullptr); }

 private:
  struct Rest {
    const Sequence* sequence;
    size_t at;
    const Rest* next;
  };

  bool expand(const Sequence& sequence, size_t at, const Rest* rest) {
    if (at == sequence.size()) {
      if (rest) return expand(*rest->sequence, rest->at, rest->next);
      return emit();
    }
    const Node& node = sequence[at];
    if (!node.is_choice) {
      words_.push_back(&node);
      bool go_on = expand(sequence, at + 1, rest);
      words_.pop_back();
      return go_on;
    }
    if (node.optional && !expand(sequence, at + 1, rest)) return false;
    Rest after{&sequence, at + 1, rest};
    for (const Sequence& alternative : node.alternatives)
      if (!expand(alternative, 0, &after)) return false;
    return true;
  }

  bool emit() {
    form_.mods.clear();
    form_.types.clear();
    form_.text = name(row_.opcode);
    for (const Node* node : words_) {
      std::string_view spelling;
      if (node->is_type) {
        form_.types.push_back(static_cast<Type>(node->id));
        spelling = name(form_.types.back());
      } else {
        form_.mods.push_back(static_cast<Mod>(node->id));
        spelling = name(form_.mods.back());
      }
      form_.text += '.';
      form_.text += spelling;
    }
    return visit_(form_);
  }

  const Row& row_;
  const std::function<bool(const Form&)>& visit_;
  std::vector<const Node*> words_;
  Form form_;
};

}  // namespace

std::span<const Row> rows() {
  return table().rows;
}

std::span<const Row> rows(Opcode opcode) {
  auto [first, last] = table().by_opcode[static_cast<size_t>(opcode)];
  return rows().subspan(first, last - first);
}

void for_each_form(const Row& row, const std::function<bool(const Form&)>& visit) {
  FormVisitor(row, visit).run();
}

std::vector<uint16_t> match_rows(Opcode opcode, std::span<const Mod> mods, std::span<const Type> types) {
  std::vector<uint16_t> found;
  if (mods.size() > kMaxWords || types.size() > kMaxWords) return found;
  WordMatcher matcher(mods, types);
  for (const Row& row : rows(opcode))
    if (matcher.matches(table().syntax[row.index])) found.push_back(row.index);
  return found;
}

std::vector<bool> word_order(const Row& row, std::span<const Mod> mods, std::span<const Type> types) {
  WordMatcher matcher(mods, types);
  if (mods.size() <= kMaxWords && matcher.matches(table().syntax[row.index])) return matcher.order();
  std::vector<bool> order(mods.size(), false);
  order.resize(mods.size() + types.size(), true);
  return order;
}

const Row& nearest_row(Opcode opcode, std::span<const Mod> mods, std::span<const Type> types) {
  const Row* best = &rows(opcode).front();
  size_t most = 0;
  mods = mods.first(std::min(mods.size(), kMaxWords));
  types = types.first(std::min(types.size(), kMaxWords));
  for (const Row& row : rows(opcode)) {
    WordMatcher matcher(mods, types);
    matcher.matches(table().syntax[row.index]);
    if (matcher.most_consumed() > most) {
      most = matcher.most_consumed();
      best = &row;
    }
  }
  return *best;
}

std::string describe(const Row& row) {
  constexpr size_t kLongestSet = 60;  // longer sets stay a name
  std::string result(name(row.opcode));
  std::string_view text = row.text;
  while (!text.empty()) {
    size_t open = text.find(".<");
    result += text.substr(0, open);
    if (open == std::string_view::npos) break;
    size_t close = text.find('>', open);
    std::string_view set = text.substr(open + 2, close - open - 2);
    std::string_view members = sets().at(set);
    bool grouped = !result.empty() &&
                   (result.back() == '{' || result.back() == '(' || result.back() == '|') &&
                   close + 1 < text.size() &&
                   (text[close + 1] == '}' || text[close + 1] == ')' || text[close + 1] == '|');
    if (members.size() > kLongestSet) {
      result += fmt::format(".<{}>", set);
    } else {
      if (!grouped) result += '(';
      result += '.';
      for (char c : members) {
        result += c;
        if (c == '|') result += '.';
      }
      if (!grouped) result += ')';
    }
    text.remove_prefix(close + 1);
  }
  return result;
}

std::string table_defects() {
  return table().defects;
}

}  // namespace assay::ptx
