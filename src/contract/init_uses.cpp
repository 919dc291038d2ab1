// A subscript is a sum of products: `(row * H + h) * cols + j` is row·H·cols + h·cols + j. The dims in each product are
// the stride of its index, so strides {H, cols}, {cols} and {} say that the last two extents are H and cols; the first is
// what bounds the index of the largest stride: `if (row < rows)`, `for (...; row < rows; ...)`, or a grid of `rows`
// blocks. A flat index `i < rows * cols` has the shape [rows, cols]. A pointer with numbers alone as subscripts, `loss[0]`,
// has as many elements as they need.
#include "contract/init_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

namespace assay::contract {
namespace {

constexpr int kDeepestCall = 4, kDeepestExpansion = 6;
constexpr std::size_t kMostTerms = 64;  // of a subscript that is multiplied out
constexpr std::size_t kMostDigits = 9;  // of a subscript that is a number

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string stripped(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

std::size_t matching(std::string_view text, std::size_t open) {
  const char opens = text[open], closes = opens == '(' ? ')' : opens == '[' ? ']' : '}';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opens) ++depth;
    if (text[i] == closes && --depth == 0) return i;
  }
  return std::string_view::npos;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::string_view("([{").find(text[i]) != std::string_view::npos) ++depth;
    if (i < text.size() && std::string_view(")]}").find(text[i]) != std::string_view::npos) --depth;
    if (i < text.size() && (text[i] != at || depth > 0)) continue;
    if (std::string part = stripped(text.substr(first, i - first)); !part.empty())
      parts.push_back(std::move(part));
    first = i + 1;
  }
  return parts;
}

// Where a word stands by itself, from `from` on.
std::size_t find_word(std::string_view text, std::string_view word, std::size_t from = 0) {
  for (std::size_t at = text.find(word, from); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || (!is_name_char(text[at - 1]) && text[at - 1] != '.');
    if (begins && (end == text.size() || !is_name_char(text[end]))) return at;
  }
  return std::string_view::npos;
}

// ---- expressions -------------------------------------------------------------------

// A sum of products of words: dims, numbers, and whatever else is there, which is an index.
using Term = std::vector<std::string>;
using Terms = std::vector<Term>;

class Subscript {
 public:
  explicit Subscript(std::string_view text) : text_(text) {}

  // None: it has something that is not a sum of products.
  std::optional<Terms> run() {
    Terms terms = sum();
    blanks();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return terms;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Terms sum() {
    Terms all = product();
    while (!failed_ && (peek() == '+' || peek() == '-')) {
      const bool minus = text_[at_++] == '-';
      Terms more = product();
      if (!minus) all.insert(all.end(), more.begin(), more.end());  // what is taken away is an offset
    }
    failed_ |= all.size() > kMostTerms;
    return all;
  }

  Terms product() {
    Terms all = factor();
    while (!failed_ && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const char sign = text_[at_++];
      const std::size_t from = at_;
      const Terms right = factor();
      if (sign == '*') {
        Terms out;
        for (const Term& a : all)
          for (const Term& b : right) {
            out.push_back(a);
            out.back().insert(out.back().end(), b.begin(), b.end());
          }
        all = std::move(out);
        failed_ |= all.size() > kMostTerms;
      } else {  // an index of its own; a remainder has a bound
        all = {{sign == '%' ? "%" + stripped(text_.substr(from, at_ - from)) : "/"}};
      }
    }
    return all;
  }

  Terms factor() {
    const char c = peek();
    if (c == '(') {
      const std::size_t close = matching(text_, at_);
      if (close == std::string_view::npos) return fail();
      const std::string inside = stripped(text_.substr(at_ + 1, close - at_ - 1));
      at_ = close + 1;
      const bool type =
          inside.ends_with("_t") || inside == "int" || inside == "long" || inside == "long long";
      return type ? factor() : nested(inside);
    }
    if (!is_name_char(c)) return fail();
    const std::size_t from = at_;
    while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.' || text_[at_] == ':')) ++at_;
    std::string word(text_.substr(from, at_ - from));
    if (word == "static_cast" && peek() == '<') at_ = text_.find('>', at_) + 1;
    if (const char next = peek(); next == '(' || next == '{') {  // a cast, or a call
      const std::size_t close = matching(text_, at_);
      if (close == std::string_view::npos) return fail();
      const std::string inside = stripped(text_.substr(at_ + 1, close - at_ - 1));
      at_ = close + 1;
      const bool cast = word == "static_cast" || word.ends_with("_t") || word == "int";
      return cast ? nested(inside) : Terms{{"/"}};
    }
    if (peek() == '[') {  // an element that is an index
      const std::size_t close = matching(text_, at_);
      if (close == std::string_view::npos) return fail();
      at_ = close + 1;
      return {{"[" + word}};
    }
    return {{word}};
  }

  Terms nested(const std::string& inside) {
    const std::optional<Terms> terms = Subscript(inside).run();
    return terms ? *terms : fail();
  }
  Terms fail() {
    failed_ = true;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

bool is_number(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(),
                                      [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
}

// ---- functions ---------------------------------------------------------------------

struct Function {
  std::string name;
  std::vector<std::string> parameters;
  std::string body;
};

std::vector<Function> functions_of(std::string_view text) {
  std::vector<Function> found;
  for (std::size_t open = text.find('('); open != std::string_view::npos; open = text.find('(', open + 1)) {
    std::size_t end = open;
    while (end > 0 && std::isspace(static_cast<unsigned char>(text[end - 1]))) --end;
    std::size_t first = end;
    while (first > 0 && is_name_char(text[first - 1])) --first;
    const std::string name(text.substr(first, end - first));
    const std::size_t close = matching(text, open);
    if (name.empty() || close == std::string_view::npos) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", close + 1);
    const bool word = name == "if" || name == "for" || name == "while" || name == "switch";
    if (word || next == std::string_view::npos || text[next] != '{') continue;
    Function made{name, {}, ""};
    for (const std::string& part : split(text.substr(open + 1, close - open - 1), ',')) {
      std::size_t at = part.size();
      while (at > 0 && is_name_char(part[at - 1])) --at;
      made.parameters.push_back(part.substr(at));
    }
    const std::size_t last = matching(text, next);
    if (last != std::string_view::npos) made.body = text.substr(next, last - next);
    found.push_back(std::move(made));
  }
  return found;
}

// ---- uses --------------------------------------------------------------------------

class UseFinder {
 public:
  UseFinder(std::string_view text, const std::vector<std::string>& dims)
      : functions_(functions_of(text)), order_(dims), dims_(dims.begin(), dims.end()) {}

  Uses run(const Signature& entry) {
    std::map<std::string, std::string> names;
    for (const SignatureArg& arg : entry.args) names[arg.name] = arg.name;
    for (const Function& function : functions_)
      if (function.name == entry.name) follow(function, names, "", 0);
    Uses uses;
    uses.indexes = indexes_;
    for (const auto& [pointer, votes] : votes_) {
      const auto best = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first.size(), a.second) < std::pair(b.first.size(), b.second);
      });
      uses.shapes[pointer] = best->first;
    }
    for (const auto& [pointer, last] : last_constant_)
      if (!indexed_.contains(pointer)) uses.shapes[pointer] = {std::to_string(last + 1)};
    return uses;
  }

 private:
  // What a function's own words mean: `names` gives its parameters as the entry's arguments.
  struct Scope {
    std::map<std::string, std::string> names;
    std::map<std::string, std::string> locals;               // variables that are set once, as text
    std::map<std::string, std::vector<std::string>> bounds;  // of indices: a product of dims
    std::map<std::string, std::string> offsets;              // of pointers that are moved
  };

  std::optional<std::string> dim_of(const Scope& scope, const std::string& word) const {
    const auto found = scope.names.find(word);
    if (found == scope.names.end() || !dims_.contains(found->second)) return std::nullopt;
    return found->second;
  }

  // A product of dims and numbers, in order.
  std::optional<std::vector<std::string>> product_of_dims(const Scope& scope, const std::string& text) const {
    const std::optional<Terms> terms = expanded(scope, text, 0);
    if (!terms || terms->size() != 1) return std::nullopt;
    std::vector<std::string> dims;
    for (const std::string& word : (*terms)[0]) {
      const std::optional<std::string> dim = dim_of(scope, word);
      if (!dim && !is_number(word)) return std::nullopt;
      dims.push_back(dim ? *dim : word);
    }
    return dims;
  }

  // Locals that are not indices themselves are replaced by what they are.
  std::optional<Terms> expanded(const Scope& scope, const std::string& text, int depth) const {
    std::optional<Terms> terms = Subscript(text).run();
    if (!terms || depth > kDeepestExpansion) return terms;
    Terms all;
    for (const Term& term : *terms) {
      Terms products = {{}};
      for (const std::string& word : term) {
        const auto local = scope.locals.find(word);
        std::optional<Terms> inner;
        if (local != scope.locals.end() && !scope.bounds.contains(word) && !dim_of(scope, word))
          inner = expanded(scope, local->second, depth + 1);
        Terms next;
        for (const Term& before : products)
          for (const Term& more : inner && !inner->empty() ? *inner : Terms{{word}}) {
            next.push_back(before);
            next.back().insert(next.back().end(), more.begin(), more.end());
          }
        products = std::move(next);
        if (products.size() > kMostTerms) return std::nullopt;
      }
      all.insert(all.end(), products.begin(), products.end());
    }
    return all;
  }

  void follow(const Function& function, const std::map<std::string, std::string>& names,
              const std::string& grid, int depth) {
    Scope scope{names, {}, {}, {}};
    find_locals(function.body, scope);
    find_bounds(function.body, scope);
    if (const auto blocks = product_of_grid(grid)) scope.bounds["blockIdx.x"] = *blocks;
    find_moves(function.body, scope);
    find_subscripts(function.body, scope);
    if (depth < kDeepestCall) find_calls(function, scope, depth);
  }

  std::optional<std::vector<std::string>> product_of_grid(const std::string& grid) const {
    if (grid.empty()) return std::nullopt;
    return std::vector<std::string>{grid};
  }

  // `const int n = rows * cols;`; one that is set again is an index.
  void find_locals(std::string_view body, Scope& scope) const {
    for (std::size_t at = body.find('='); at != std::string_view::npos; at = body.find('=', at + 1)) {
      const bool compares = body[at + 1] == '=' ||
                            std::string_view("=<>!+-*/%&|^").find(body[at - 1]) != std::string_view::npos;
      if (compares) continue;
      std::size_t end = at;
      while (end > 0 && std::isspace(static_cast<unsigned char>(body[end - 1]))) --end;
      std::size_t first = end;
      while (first > 0 && is_name_char(body[first - 1])) --first;
      const std::string name(body.substr(first, end - first));
      std::size_t stop = at + 1;
      for (int inside = 0; stop < body.size(); ++stop) {
        const char c = body[stop];
        inside += (c == '(' || c == '{' || c == '[') - (c == ')' || c == '}' || c == ']');
        if (inside < 0 || c == ';' || (c == ',' && inside == 0)) break;
      }
      if (name.empty() || scope.names.contains(name)) continue;
      const auto [kept, is_new] = scope.locals.emplace(name, stripped(body.substr(at + 1, stop - at - 1)));
      if (!is_new) kept->second = "?";
    }
    std::erase_if(scope.locals, [](const auto& local) { return local.second == "?"; });
  }

  // `i < n`, `i >= n`.
  void find_bounds(std::string_view body, Scope& scope) const {
    for (std::size_t at = body.find_first_of("<>"); at != std::string_view::npos;
         at = body.find_first_of("<>", at + 1)) {
      const bool less = body[at] == '<' && body[at + 1] != '=' && body[at + 1] != '<';
      const bool beyond = body[at] == '>' && body[at + 1] == '=';
      if (!less && !beyond) continue;
      std::size_t end = at;
      while (end > 0 && body[end - 1] == ' ') --end;
      std::size_t first = end;
      while (first > 0 && (is_name_char(body[first - 1]) || body[first - 1] == '.')) --first;
      const std::string index(body.substr(first, end - first));
      std::size_t stop = at + 1 + beyond;
      for (int inside = 0; stop < body.size(); ++stop) {
        const char c = body[stop];
        inside += (c == '(') - (c == ')');
        if (inside < 0 || std::string_view(";&|?,{").find(c) != std::string_view::npos) break;
      }
      const std::string limit = stripped(body.substr(at + 1 + beyond, stop - at - 1 - beyond));
      if (index.empty() || limit.empty() || dim_of(scope, index)) continue;
      const auto dims = product_of_dims(scope, limit);
      if (dims && *dims != std::vector<std::string>{"0"}) scope.bounds.emplace(index, *dims);
    }
  }

  // `x += row * cols;`, and `const float* mine = x + row * cols;`.
  void find_moves(std::string_view body, Scope& scope) const {
    for (const auto& [name, meaning] : std::map(scope.names)) {
      for (std::size_t at = find_word(body, name); at != std::string_view::npos;
           at = find_word(body, name, at + 1)) {
        const std::size_t next = body.find_first_not_of(" \t", at + name.size());
        if (next == std::string_view::npos || dims_.contains(meaning)) break;
        if (body.substr(next, 2) == "+=")
          scope.offsets[name] = stripped(body.substr(next + 2, body.find(';', next) - next - 2));
      }
    }
    for (const auto& [local, text] : std::map(scope.locals)) {
      const std::size_t plus = text.find('+');
      const std::string base = stripped(text.substr(0, plus));
      const auto pointer = scope.names.find(base);
      if (plus == std::string::npos || pointer == scope.names.end() || dims_.contains(pointer->second))
        continue;
      scope.names[local] = pointer->second;
      scope.offsets[local] = text.substr(plus + 1);
    }
  }

  void find_subscripts(std::string_view body, const Scope& scope) {
    for (const auto& [name, meaning] : scope.names) {
      if (dims_.contains(meaning)) continue;
      for (std::size_t at = find_word(body, name); at != std::string_view::npos;
           at = find_word(body, name, at + 1)) {
        const std::size_t open = body.find_first_not_of(" \t", at + name.size());
        if (open == std::string_view::npos || body[open] != '[') continue;
        const std::size_t close = matching(body, open);
        if (close == std::string_view::npos) continue;
        std::string subscript(body.substr(open + 1, close - open - 1));
        if (const auto moved = scope.offsets.find(name); moved != scope.offsets.end())
          subscript = fmt::format("({}) + {}", moved->second, subscript);
        if (is_number(stripped(subscript)) && subscript.size() <= kMostDigits) {
          int64_t& last = last_constant_[meaning];
          last = std::max<int64_t>(last, std::stoll(subscript));
          continue;
        }
        indexed_.insert(meaning);
        vote(scope, meaning, subscript);
      }
    }
  }

  // The indices of a subscript, each with its stride: dims and numbers in the order of the source.
  struct Step {
    std::vector<std::string> stride;
    std::string index;
  };

  void vote(const Scope& scope, const std::string& pointer, const std::string& subscript) {
    const std::optional<Terms> terms = expanded(scope, subscript, 0);
    if (!terms) return;
    std::vector<Step> steps;
    for (const Term& term : *terms) {
      Step step = step_of(scope, term);
      if (step.index.empty()) continue;  // an offset
      const auto same = std::find_if(steps.begin(), steps.end(), [&](const Step& other) {
        return std::is_permutation(step.stride.begin(), step.stride.end(), other.stride.begin(),
                                   other.stride.end());
      });
      if (same == steps.end())
        steps.push_back(std::move(step));
      else if (scope.bounds.contains(step.index))
        same->index = step.index;
    }
    if (const auto shape = shape_of(scope, pointer, std::move(steps))) ++votes_[pointer][*shape];
  }

  Step step_of(const Scope& scope, const Term& term) const {
    Step step;
    const auto is_thread = [](const std::string& word) { return word.find("Idx.") != std::string::npos; };
    // Factors of a thread's number are tiles, not extents.
    const bool of_thread = std::any_of(term.begin(), term.end(), is_thread);
    for (const std::string& word : term) {
      if (const auto dim = dim_of(scope, word))
        step.stride.push_back(*dim);
      else if (is_number(word) && word != "1" && word != "0" && !of_thread)
        step.stride.push_back(word);
      else if (!is_number(word) && (step.index.empty() || !scope.bounds.contains(step.index)))
        step.index = word;
    }
    return step;
  }

  std::optional<std::vector<std::string>> shape_of(const Scope& scope, const std::string& pointer,
                                                   std::vector<Step> steps) {
    if (steps.empty()) return std::nullopt;
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.stride.size() > b.stride.size(); });
    std::vector<std::string> shape;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::vector<std::string> rest = steps[i].stride;
      for (const std::string& word :
           i + 1 < steps.size() ? steps[i + 1].stride : std::vector<std::string>{}) {
        const auto found = std::find(rest.begin(), rest.end(), word);
        if (found == rest.end()) return std::nullopt;  // strides that do not nest
        rest.erase(found);
      }
      shape.insert(shape.end(), rest.begin(), rest.end());
    }
    std::vector<std::string> first = bound_of(scope, pointer, steps.front().index);
    if (first.empty() && !shape.empty()) first = unused_dim(shape, steps.front().index);
    shape.insert(shape.begin(), first.begin(), first.end());
    if (std::all_of(shape.begin(), shape.end(), is_number)) return std::nullopt;
    return shape;
  }

  // Something has to be the first extent: rows that an index chooses are those of a table, whose size comes last as a
  // rule; others come first.
  std::vector<std::string> unused_dim(const std::vector<std::string>& shape, const std::string& index) const {
    std::vector<std::string> left;
    for (const std::string& dim : order_)
      if (std::find(shape.begin(), shape.end(), dim) == shape.end()) left.push_back(dim);
    if (left.empty()) return {};
    return {index.starts_with("[") ? left.back() : left.front()};
  }

  // The extent that an index runs over; empty: not known.
  std::vector<std::string> bound_of(const Scope& scope, const std::string& pointer,
                                    const std::string& index) {
    if (const auto found = scope.bounds.find(index); found != scope.bounds.end()) return found->second;
    if (index.starts_with("[")) {
      const auto table = scope.names.find(index.substr(1));
      if (table != scope.names.end()) indexes_.emplace(table->second, pointer);
      return {};
    }
    if (index.starts_with("%"))
      if (const auto dims = product_of_dims(scope, index.substr(1))) return *dims;
    const auto local = scope.locals.find(index);
    if (local == scope.locals.end()) return {};
    const std::optional<Terms> terms = Subscript(local->second).run();
    if (!terms || terms->size() != 1 || (*terms)[0].size() != 1) return {};
    const auto block = scope.bounds.find((*terms)[0][0]);
    return block == scope.bounds.end() ? std::vector<std::string>{} : block->second;
  }

  void find_calls(const Function& function, const Scope& scope, int depth) {
    for (const Function& callee : functions_) {
      if (callee.name == function.name) continue;
      for (std::size_t at = find_word(function.body, callee.name); at != std::string::npos;
           at = find_word(function.body, callee.name, at + 1)) {
        std::size_t open = at + callee.name.size();
        std::string grid;
        const std::size_t launch = function.body.find("<<<", open), paren = function.body.find('(', open);
        if (launch != std::string::npos && launch < paren) {
          const std::size_t end = function.body.find(">>>", launch);
          if (end == std::string::npos) continue;
          const std::vector<std::string> shape =
              split(std::string_view(function.body).substr(launch + 3, end - launch - 3), ',');
          if (!shape.empty())
            if (const auto dim = dim_of(scope, shape[0])) grid = *dim;
          open = function.body.find('(', end);
        } else {
          open = paren;
        }
        if (open == std::string::npos) continue;
        const std::size_t close = matching(function.body, open);
        if (close == std::string::npos) continue;
        const std::vector<std::string> given =
            split(std::string_view(function.body).substr(open + 1, close - open - 1), ',');
        std::map<std::string, std::string> names;
        for (std::size_t i = 0; i < std::min(given.size(), callee.parameters.size()); ++i)
          if (const std::string word = only_word(given[i], scope); !word.empty())
            names[callee.parameters[i]] = word;
        if (!names.empty()) follow(callee, names, grid, depth + 1);
      }
    }
  }

  // The argument of the entry that is passed on, perhaps in a cast.
  static std::string only_word(const std::string& given, const Scope& scope) {
    std::string found;
    for (const auto& [name, meaning] : scope.names) {
      if (find_word(given, name) == std::string::npos) continue;
      if (!found.empty()) return "";
      found = meaning;
      const bool plain = given == name || given.ends_with("(" + name + ")") || given.ends_with(")" + name) ||
                         given == "&" + name;
      if (!plain) return "";
    }
    return found;
  }

  std::vector<Function> functions_;
  std::vector<std::string> order_;  // the dims as the entry takes them
  std::set<std::string> dims_;
  std::map<std::string, std::map<std::vector<std::string>, int>> votes_;
  std::map<std::string, std::string> indexes_;
  std::map<std::string, int64_t> last_constant_;  // of subscripts that are numbers: loss[0]
  std::set<std::string> indexed_;                 // pointers with any other subscript
};

}  // namespace

Uses uses_of(std::string_view text, const Signature& entry, const std::vector<std::string>& dims) {
  return UseFinder(text, dims).run(entry);
}

}  // namespace assay::contract
