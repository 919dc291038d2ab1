// The module is printed in its plain form first (one instruction a line, no scopes), so that everything after that is about
// lines: pauses are put between them, and lines that are to be there twice are copied with other labels.
#include "subject/perturb.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "ptx/module.h"

namespace assay::subject {

namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;

// Instructions of a region that is there twice, at most; and of which the region must have one for that to be of use.
constexpr uint32_t kLongestRegion = 600;
// A pause comes once in 2^n times: at the start of a kernel, in straight code, in loops. Chosen: a kernel of twenty accesses
// loses some ten microseconds, one with long loops becomes a few times slower.
constexpr int kAtStart = 1, kInStraightCode = 2, kInLoops = 6;
// Registers with which a block of 1024 threads can be launched.
constexpr uint32_t kRegistersOfFullBlock = 64;

bool is_one_of(Opcode opcode, std::initializer_list<Opcode> list) {
  return std::find(list.begin(), list.end(), opcode) != list.end();
}

bool has_space(const Instruction& instruction, std::initializer_list<Mod> spaces) {
  return std::any_of(spaces.begin(), spaces.end(), [&](Mod space) { return instruction.has(space); });
}

bool calls(const Function& function) {
  return std::any_of(function.body.begin(), function.body.end(),
                     [](const Instruction& instruction) { return instruction.opcode == Opcode::call; });
}

// An access to memory that other threads may access, too.
bool is_access(const Instruction& instruction) {
  if (is_one_of(instruction.opcode, {Opcode::atom, Opcode::red})) return true;
  if (!is_one_of(instruction.opcode, {Opcode::ld, Opcode::st})) return false;
  return !has_space(instruction,
                    {Mod::param, Mod::param_entry, Mod::param_func, Mod::local, Mod::const_, Mod::nc});
}

// Where the order of warps may matter.
bool is_worth_a_pause(const Instruction& instruction) {
  if (is_access(instruction)) return true;
  return is_one_of(instruction.opcode,
                   {Opcode::bar_sync, Opcode::bar_arrive, Opcode::bar_red, Opcode::bar_warp_sync,
                    Opcode::barrier_sync, Opcode::barrier_arrive, Opcode::barrier_red, Opcode::membar,
                    Opcode::fence, Opcode::griddepcontrol, Opcode::ldmatrix, Opcode::stmatrix,
                    Opcode::cp_async, Opcode::wmma_load_a, Opcode::wmma_load_b, Opcode::wmma_store_d});
}

// What a region that lanes run apart from each other may hold: nothing at which lanes meet, or that leaves it otherwise
// than by a branch. A list of what may be, since what is not known may not.
bool may_be_apart(const Instruction& instruction) {
  constexpr std::string_view kMay[] = {
      "abs",  "add", "addc", "bfe",   "bfi",  "bfind", "bmsk",   "brev",  "clz",      "cnot",  "copysign",
      "cos",  "div", "dp2a", "dp4a",  "ex2",  "fma",   "fns",    "lg2",   "mad",      "mad24", "madc",
      "max",  "min", "mul",  "mul24", "neg",  "popc",  "rcp",    "rem",   "rsqrt",    "sad",   "sin",
      "sqrt", "sub", "subc", "szext", "tanh", "testp", "set",    "setp",  "selp",     "slct",  "and",
      "or",   "xor", "not",  "lop3",  "shf",  "shl",   "shr",    "cvt",   "cvt.pack", "cvta",  "isspacep",
      "ld",   "mov", "prmt", "st",    "atom", "red",   "membar", "fence", "bra"};
  return std::find(std::begin(kMay), std::end(kMay), ptx::name(instruction.opcode)) != std::end(kMay);
}

// Arguments and results of calls. PTX wants them in one basic block with the call: copied into two, with a branch to the call,
// they were compiled to something else.
bool is_of_a_call(const Function& function, const Instruction& instruction) {
  if (!is_one_of(instruction.opcode, {Opcode::ld, Opcode::st})) return false;
  if (instruction.opcode == Opcode::ld && function.is_entry && !calls(function)) return false;
  return has_space(instruction, {Mod::param, Mod::param_entry, Mod::param_func});
}

std::optional<uint32_t> target_of(const Instruction& instruction) {
  if (instruction.opcode != Opcode::bra) return std::nullopt;
  for (const ptx::Operand& operand : instruction.operands)
    if (operand.kind == ptx::Operand::Kind::Label) return operand.index;
  return std::nullopt;
}

struct Region {
  uint32_t first = 0, end = 0;  // instructions
};

// Stretches of a function that control enters at their first instruction alone and leaves at their end alone.
class Regions {
 public:
  explicit Regions(const Function& function) : function_(function), sources_(function.body.size() + 1) {
    for (uint32_t i = 0; i < function.body.size(); ++i)
      if (const auto target = target_of(function.body[i])) sources_[*target].push_back(i);
    for (const ptx::TargetList& list : function.target_lists)
      if (!list.is_calls && !list.is_prototype)
        for (const uint32_t target : list.targets) sources_[target].push_back(ptx::kNone);
  }

  std::vector<Region> find() const {
    std::vector<Region> found;
    // A branch between two instructions of a carry chain would lose the carry.
    if (std::any_of(function_.body.begin(), function_.body.end(),
                    [](const Instruction& instruction) { return instruction.has(Mod::cc); }))
      return found;
    for (uint32_t first = 0; first < function_.body.size();) {
      const uint32_t end = longest_from(first);
      if (end > first) found.push_back({first, end});
      first = std::max(end, first + 1);
    }
    return found;
  }

  bool is_in_loop(uint32_t instruction) const {
    for (uint32_t target = 0; target <= instruction; ++target)
      for (const uint32_t source : sources_[target])
        if (source != ptx::kNone && source >= instruction && source >= target) return true;
    return false;
  }

 private:
  // The end of the longest region from here that has an access; `first`: there is none.
  uint32_t longest_from(uint32_t first) const {
    uint32_t best = first, lowest = ptx::kNone, highest = 0;
    uint32_t furthest = 0;  // instruction that branches into it
    bool accesses = false;
    const auto limit =
        static_cast<uint32_t>(std::min<std::size_t>(function_.body.size(), first + kLongestRegion));
    for (uint32_t i = first; i < limit && may_be_apart(function_.body[i]); ++i) {
      if (is_of_a_call(function_, function_.body[i])) return best;
      // An entry from outside: a thread that takes it has not passed the first instruction.
      if (i > first)
        for (const uint32_t source : sources_[i]) {
          if (source == ptx::kNone || source < first) return best;
          furthest = std::max(furthest, source);
        }
      if (const auto target = target_of(function_.body[i])) {
        lowest = std::min(lowest, *target);
        highest = std::max(highest, *target);
      }
      accesses |= is_access(function_.body[i]);
      const uint32_t end = i + 1;
      if (accesses && highest <= end && (lowest == ptx::kNone || lowest >= first) && furthest < end)
        best = end;
    }
    return best;
  }

  const Function& function_;
  std::vector<std::vector<uint32_t>> sources_;  // of branches to each instruction; kNone: not known
};

// A number that differs each time, the same for all lanes that come here together: in %assay_a.
std::string chance(uint32_t site) {
  return fmt::format(
      "mov.u32 %assay_a, %clock;\nmov.u32 %assay_b, %warpid;\n"
      "mad.lo.u32 %assay_a, %assay_b, 40503, %assay_a;\nadd.u32 %assay_a, %assay_a, {};\n"
      "mul.lo.u32 %assay_a, %assay_a, 2654435769;\nshr.u32 %assay_b, %assay_a, 15;\n"
      "xor.b32 %assay_a, %assay_a, %assay_b;\nmul.lo.u32 %assay_a, %assay_a, 739982445;\n"
      "shr.u32 %assay_b, %assay_a, 13;\nxor.b32 %assay_a, %assay_a, %assay_b;\n",
      static_cast<uint32_t>(mix(site) >> 33));
}

constexpr const char* kScope = "{\n.reg .pred %assay_p, %assay_q;\n.reg .b32 %assay_a, %assay_b, %assay_c;\n";

// Once in 2^n times a sleep: of any length up to 2^15 ns, short ones as often as long ones.
std::string pause(uint32_t site, int seldom) {
  return kScope + chance(site) +
         fmt::format(
             "shr.u32 %assay_b, %assay_a, {};\nsetp.eq.u32 %assay_p, %assay_b, 0;\n"
             "shr.u32 %assay_b, %assay_a, 15;\nand.b32 %assay_b, %assay_b, 7;\n"
             "and.b32 %assay_a, %assay_a, 32767;\nshr.u32 %assay_a, %assay_a, %assay_b;\n"
             "@%assay_p nanosleep.u32 %assay_a;\n}}\n",
             32 - seldom);
}

// Every other time lanes are sent to a label: those of a random mask, or those below a random lane.
std::string split(uint32_t site, const std::string& label) {
  return kScope + chance(site) +
         "mov.u32 %assay_b, %laneid;\nshr.u32 %assay_c, %assay_a, 3;\nand.b32 %assay_c, %assay_c, 31;\n"
         "setp.lt.u32 %assay_q, %assay_b, %assay_c;\nshr.u32 %assay_c, %assay_a, %assay_b;\n"
         "shr.u32 %assay_c, %assay_c, 9;\nxor.b32 %assay_c, %assay_c, %assay_b;\n"
         "and.b32 %assay_c, %assay_c, 1;\nsetp.ne.u32 %assay_p, %assay_c, 0;\n"
         "and.b32 %assay_c, %assay_a, 1;\nsetp.eq.and.u32 %assay_q, %assay_c, 0, %assay_q;\n"
         "setp.ne.and.u32 %assay_p, %assay_c, 0, %assay_p;\nor.pred %assay_p, %assay_p, %assay_q;\n"
         "and.b32 %assay_c, %assay_a, 6;\nsetp.gt.and.u32 %assay_p, %assay_c, 2, %assay_p;\n"
         "@%assay_p bra " +
         label + ";\n}\n";
}

class Rewriter {
 public:
  Rewriter(std::vector<std::string> lines, const Function& function, uint32_t& sites, int number)
      : lines_(std::move(lines)), function_(function), regions_(function), sites_(sites), number_(number) {}

  // The lines of the function's body from the first instruction on, up to its closing brace.
  std::string body() {
    std::string out = pause(sites_++, kAtStart);
    uint32_t next = 0;
    for (const Region& region : regions_.find()) {
      out += plain(next, region.first);
      out += doubled(region);
      next = region.end;
    }
    return out + plain(next, static_cast<uint32_t>(function_.body.size())) + labels_at(end(), "");
  }

 private:
  uint32_t end() const { return static_cast<uint32_t>(function_.body.size()); }

  std::string labels_at(uint32_t instruction, const std::string& suffix) const {
    std::string out;
    for (const auto& [label, index] : function_.labels)
      if (index == instruction) out += label + suffix + ":\n";
    return out;
  }

  std::string one(uint32_t instruction) {
    std::string out;
    if (is_worth_a_pause(function_.body[instruction]))
      out += pause(sites_++, regions_.is_in_loop(instruction) ? kInLoops : kInStraightCode);
    return out + lines_[function_.body[instruction].line - 1] + "\n";
  }

  std::string plain(uint32_t first, uint32_t end) {
    std::string out;
    for (uint32_t i = first; i < end; ++i) out += labels_at(i, "") + one(i);
    return out;
  }

  // A copy of the region: its branches stay within.
  std::string copy(const Region& region, const std::string& suffix) {
    std::string out;
    for (uint32_t i = region.first; i < region.end; ++i) {
      out += labels_at(i, suffix);
      std::string text = one(i);
      const auto target = target_of(function_.body[i]);
      if (target && *target >= region.first && *target < region.end) {
        const std::size_t semicolon = text.rfind(';');
        text.insert(semicolon, suffix);
      }
      out += text;
    }
    return out;
  }

  std::string doubled(const Region& region) {
    const std::string name = fmt::format("$assay_{}_{}", number_, region.first);
    std::string out = labels_at(region.first, "") + split(sites_++, name + "_second");
    out += copy(region, "_assay1");
    out += fmt::format("bra {0}_end;\n{0}_second:\n", name);
    out += copy(region, "_assay2");
    return out + name + "_end:\n";
  }

  const std::vector<std::string> lines_;
  const Function& function_;
  const Regions regions_;
  uint32_t& sites_;
  const int number_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

Result<std::string> perturb(const std::string& text, const std::map<std::string, uint32_t>& registers) {
  auto module = ptx::parse(text, "ptx");
  if (!module) return module.error();
  for (Function& function : module->functions) {
    for (Instruction& instruction : function.body) instruction.location = ptx::kNone;
    const bool bounded =
        function.max_registers != 0 || function.max_threads[0] != 0 || function.required_threads[0] != 0;
    if (!function.is_entry || bounded) continue;
    const auto known = registers.find(function.name);
    function.max_registers = std::max(kRegistersOfFullBlock, known == registers.end() ? 0 : known->second);
  }
  const std::string plain = ptx::print(*module);
  auto again = ptx::parse(plain, "ptx");
  if (!again) return again.error();
  const std::vector<std::string> lines = lines_of(plain);
  std::string out;
  std::size_t next = 0;  // line
  uint32_t sites = 0;
  int number = 0;
  std::vector<const Function*> defined;
  for (const Function& function : again->functions)
    if (!function.body.empty()) defined.push_back(&function);
  std::sort(defined.begin(), defined.end(),
            [](const Function* a, const Function* b) { return a->body[0].line < b->body[0].line; });
  for (const Function* function : defined) {
    // Labels of the first instruction stand above it.
    std::size_t first = function->body.front().line - 1;
    while (first > next && lines[first - 1].ends_with(":")) --first;
    for (; next < first; ++next) out += lines[next] + "\n";
    out += Rewriter(lines, *function, sites, number++).body();
    next = function->body.back().line;
    while (next < lines.size() && lines[next].ends_with(":")) ++next;
  }
  for (; next < lines.size(); ++next) out += lines[next] + "\n";
  return out;
}

}  // namespace assay::subject
