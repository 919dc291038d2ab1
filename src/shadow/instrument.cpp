// Our Insts around those of a function: which, and what their forms say.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "shadow/impl.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::shadow {

namespace shadow_avx2 {
const Handlers& table();
}
namespace shadow_avx512 {
const Handlers& table();
}

const Handlers& handlers() {
  static const bool wide = [] {
    const char* wish = std::getenv("ASSAY_ISA");  // as for the engine
    if (wish != nullptr && std::string_view(wish) == "avx2") return false;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }();
  return wide ? shadow_avx512::table() : shadow_avx2::table();
}

namespace {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using vgpu::Inst;
using vgpu::Lowering;
using OperandKind = ptx::Operand::Kind;

// ---- Lines ----

LineKey line_of(const vgpu::Program& program, const vgpu::Function& function, uint32_t body_index) {
  Inst at;
  at.source = body_index;
  const vgpu::SourcePlace place = vgpu::place_of(program, function, at);
  if (place.line != 0) return {place.file, static_cast<int>(place.line)};
  return {program.name, static_cast<int>(function.ptx->body[body_index].line)};
}

std::vector<uint32_t> loop_depths(const ptx::Function& function) {
  std::vector<uint32_t> depth(function.body.size(), 0);
  for (size_t i = 0; i < function.body.size(); ++i)
    for (const Operand& o : function.body[i].operands)
      if (o.kind == OperandKind::Label && o.index <= i)
        for (size_t k = o.index; k <= i; ++k) ++depth[k];
  return depth;
}

// How likely a line is to lose precision, before anything has run.
uint32_t weight(const Plan& plan, const ptx::Instruction& inst) {
  switch (plan.kind) {
    case Kind::Cut:
    case Kind::ToInteger:
      return 300;
    case Kind::Product:
      return 200;
    case Kind::Atomic:
      return ptx::size_of(inst.type()) == 2 || inst.type() == Type::F16x2 || inst.type() == Type::BF16x2
                 ? 400
                 : 100;
    case Kind::Bits:
      return 10;
    case Kind::Arithmetic:
      break;
    default:
      return 0;
  }
  const Number to = plan.parts.empty() ? Number::F64 : plan.parts[0].to.number;
  if (to == Number::F64) return 0;
  if (size_of(to) <= 2) return 300;
  switch (plan.op) {
    case Op::Neg:
    case Op::Abs:
    case Op::Min:
    case Op::Max:
    case Op::Copysign:
      return 0;
    case Op::Convert:
      return plan.gives.empty() ? 0 : 20;
    default:
      return inst.has(Mod::approx) ? 120 : 50;
  }
}

std::string operation_of(const vgpu::Program& program, const ptx::Function& function,
                         const ptx::Instruction& inst) {
  std::string text = ptx::print(program.module, function, inst);
  if (!text.empty() && text[0] == '@') text.erase(0, text.find_first_of(" \t") + 1);
  return text.substr(0, text.find_first_of(" \t;"));
}

// ---- Emission of one instruction's Insts ----

class Emitter {
 public:
  Emitter(Shadow::Impl& impl, Lowering& l)
      : impl_(impl),
        l_(l),
        inst_(*l.inst),
        body_index_(static_cast<uint32_t>(l.inst - l.function.body.data())),
        plan_(impl.current->plan(body_index_)) {}

  void before() {
    switch (plan_.kind) {
      case Kind::None:
        return;
      case Kind::Arithmetic:
        return arithmetic();
      case Kind::Integral:
        return integral();
      case Kind::ToInteger:
        return to_integer();
      case Kind::Move:
        return move(handlers().move);
      case Kind::Select:
        return select();
      case Kind::Merge:
        return merge();
      case Kind::Bits:
        return bits();
      case Kind::Cut:
        return cut();
      case Kind::Compare:
        return compare();
      case Kind::Load:
        return load();
      case Kind::Store:
        return store();
      case Kind::Atomic:
        return atomic();
      case Kind::AsyncCopy:
        return access(*l_.extra<AccessForm>(), handlers().async_copy);
      case Kind::BulkCopy:
        return access(*l_.extra<AccessForm>(), handlers().bulk_copy);
      case Kind::Call:
        return lose_arguments();
      case Kind::Unseen:
        return access(*l_.extra<AccessForm>(), handlers().unseen);
      case Kind::Shuffle:
        return shuffle();
      case Kind::Product:
        return product();
      case Kind::LoadMatrix:
      case Kind::StoreMatrix:
        return;  // afterwards
      case Kind::Other:
        return forget();
    }
  }

  void after() {
    const uint32_t end = l_.position();
    const bool refused = end > 0 && l_.emitted(end - 1).run == l_.program().engine->unsupported;
    if (impl_.pending.form != nullptr) {
      impl_.pending.form->insts = end - impl_.pending.position - 1;
      if (impl_.pending.access != nullptr) {
        impl_.pending.access->displacement = impl_.pending.form->insts;
        if (refused) impl_.pending.access->cells = nullptr;
      }
      impl_.pending = {};
    }
    if (impl_.shuffle != nullptr) emit_after(handlers().shuffle, std::exchange(impl_.shuffle, nullptr));
    if (impl_.product != nullptr) emit_after(handlers().product, std::exchange(impl_.product, nullptr));
    if ((plan_.kind == Kind::LoadMatrix || plan_.kind == Kind::StoreMatrix) && !refused) matrix();
  }

 private:
  Shadow::Impl& impl_;
  Lowering& l_;
  const ptx::Instruction& inst_;
  uint32_t body_index_;
  const Plan& plan_;

  // ---- Pieces ----

  PlaneOffset errors_of(uint32_t reg, uint32_t byte) {
    if (!impl_.current->followed(reg, byte)) return 0;
    const auto [it, fresh] = impl_.errors.try_emplace({l_.reg(reg), byte}, 0);
    if (fresh) it->second = l_.storage(sizeof(RegisterErrors));
    return it->second;
  }
  PlaneOffset errors_of(const Operand& operand, uint32_t byte) {
    return operand.kind == OperandKind::Register ? errors_of(operand.index, byte) : 0;
  }

  Element source(const Part& part) {
    Element e = shape(part);
    e.plane = l_.source(*part.operand, part.read_as);
    if (part.number < Number::S8) e.errors = errors_of(*part.operand, part.home());
    return e;
  }
  Element dest(const Part& part) {
    Element e = shape(part);
    e.plane = l_.reg(part.operand->index);
    e.errors = errors_of(*part.operand, part.home());
    return e;
  }
  Element shape(const Part& part) const {
    Element e;
    e.lane_bytes = static_cast<uint16_t>(l_.lane_bytes(*part.operand, part.read_as));
    e.offset = part.offset;
    e.number = part.number;
    return e;
  }

  Site* site() {
    Site& s = impl_.sites.emplace_back();
    const LineKey key = line_of(l_.program(), l_.decoded(), body_index_);
    s.file = key.first, s.line = key.second;
    s.operation = operation_of(l_.program(), l_.function, inst_);
    s.group = impl_.group;
    s.rounds = plan_.rounds;
    return &s;
  }

  bool writes_followed() const {
    return std::any_of(plan_.writes.begin(), plan_.writes.end(),
                       [&](uint32_t r) { return impl_.current->followed(r) != 0; });
  }

  void emit(Handler handler, Form& form, AccessForm* access = nullptr) {
    impl_.pending = {&form, access, l_.position()};
    l_.emit(handler).extra = &form;
  }
  void emit_after(Handler handler, Form* form) { l_.emit(handler).extra = form; }

  // ---- Kinds ----

  void arithmetic() {
    if (inst_.operands[0].kind != OperandKind::Register || plan_.parts.size() > kMaxParts) return;
    bool matters = writes_followed();
    const Number to = plan_.parts[0].to.number;
    matters |= to != Number::F64 && !plan_.gives.empty();
    if (!matters) return;
    auto& f = *l_.extra<ArithmeticForm>();
    f.site = site();
    f.parts = static_cast<uint32_t>(plan_.parts.size());
    f.clamps = plan_.clamps, f.clamps_below = plan_.clamps_below, f.rounds = plan_.rounds;
    f.adds = plan_.op == Op::Add || plan_.op == Op::Sub || plan_.op == Op::Fma;
    f.adds_product = plan_.op == Op::Fma;
    for (uint32_t p = 0; p < f.parts; ++p) {
      f.to[p] = dest(plan_.parts[p].to);
      f.sources = 0;
      for (uint32_t s = 0; s < 3 && plan_.parts[p].from[s].operand != nullptr; ++s, ++f.sources)
        f.from[p][s] = source(plan_.parts[p].from[s]);
    }
    emit(handlers().arithmetic[static_cast<size_t>(plan_.op)], f);
  }

  static uint8_t rounding_of(const ptx::Instruction& inst) {
    return inst.has(Mod::rzi)   ? 'z'
           : inst.has(Mod::rmi) ? 'm'
           : inst.has(Mod::rpi) ? 'p'
           : inst.has(Mod::rni) ? 'n'
                                : 0;
  }

  void integral() {
    if (inst_.operands[0].kind != OperandKind::Register) return;
    for (const PartOp& part : plan_.parts) {
      auto& f = *l_.extra<CompareForm>();
      f.a = source(part.from[0]);
      f.b = dest(part.to);
      if (f.a.errors == 0 && f.b.errors == 0) continue;
      f.site = site();
      f.site->decision = "rounding to a whole number";
      f.rounding = plan_.on_purpose ? 0 : rounding_of(inst_);
      l_.emit(handlers().integral).extra = static_cast<Form*>(&f);
    }
  }

  void to_integer() {
    if (inst_.operands[0].kind != OperandKind::Register || plan_.parts.size() != 1) return;
    auto& f = *l_.extra<CompareForm>();
    f.a = source(plan_.parts[0].from[0]);
    f.b = dest(plan_.parts[0].to);
    if (f.a.errors == 0 && f.b.errors == 0) return;
    f.site = site();
    f.site->decision = "conversion to an integer";
    f.rounding = rounding_of(inst_);
    emit(handlers().to_integer, f);
  }

  void compare() {
    auto& f = *l_.extra<CompareForm>();
    f.a = source(plan_.parts[0].from[0]);
    f.b = source(plan_.parts[0].from[1]);
    if (f.a.errors == 0 && f.b.errors == 0) return;
    constexpr std::pair<Mod, Comparison> kComparisons[] = {
        {Mod::eq, Comparison::Eq},  {Mod::ne, Comparison::Ne},  {Mod::lt, Comparison::Lt},
        {Mod::le, Comparison::Le},  {Mod::gt, Comparison::Gt},  {Mod::ge, Comparison::Ge},
        {Mod::equ, Comparison::Eq}, {Mod::neu, Comparison::Ne}, {Mod::ltu, Comparison::Lt},
        {Mod::leu, Comparison::Le}, {Mod::gtu, Comparison::Gt}, {Mod::geu, Comparison::Ge},
    };
    for (const auto& [mod, comparison] : kComparisons)
      if (inst_.has(mod)) f.comparison = comparison;
    f.site = site();
    f.site->decision = "comparison";
    l_.emit(handlers().compare).extra = static_cast<Form*>(&f);
  }

  // Every followed byte that the instruction writes, with the edge (or the two) that leads to it.
  void fill_moves(MoveForm& f) {
    for (uint32_t reg : plan_.writes)
      for (uint32_t byte = 0; byte < 16; ++byte) {
        const PlaneOffset to = errors_of(reg, byte);
        if (to == 0 || f.count == kMaxMoves) continue;
        MoveForm::One one{to, 0, 0, 0};
        bool first = true, cuts = false;
        for (const Edge& e : plan_.edges) {
          if (e.to.reg != reg || e.to.byte != byte) continue;
          cuts |= (e.act & kCut) != 0;
          (first ? one.from : one.other) = errors_of(e.from.reg, e.from.byte);
          one.act |= e.act;
          first = false;
        }
        if (!cuts) f.moves[f.count++] = one;
      }
  }

  // A register that moves its own bytes about would need a copy.
  bool moves_within() const {
    return std::any_of(plan_.edges.begin(), plan_.edges.end(),
                       [](const Edge& e) { return e.to.reg == e.from.reg && e.to.byte != e.from.byte; });
  }

  void move(Handler handler) {
    if (!writes_followed()) return;
    if (moves_within()) return forget();
    auto& f = *l_.extra<MoveForm>();
    fill_moves(f);
    for (const Edge& e : plan_.edges)
      if ((e.act & kAbsolute) != 0 && e.from.byte == 3) f.value = l_.reg(e.from.reg);
    f.site = site();
    l_.emit(handler).extra = static_cast<Form*>(&f);
  }

  void select() {
    if (!writes_followed()) return;
    const Operand& p = inst_.operands[3];
    if (p.kind != OperandKind::Register) return forget();
    auto& f = *l_.extra<MoveForm>();
    f.site = site();
    f.predicate = l_.reg(p.index);
    f.predicate_flip = p.negated ? vgpu::kAllLanesMask : 0;
    for (uint32_t reg : plan_.writes)
      for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves; ++byte)
        if (const PlaneOffset to = errors_of(reg, byte))
          f.moves[f.count++] = {to, errors_of(inst_.operands[1], byte), errors_of(inst_.operands[2], byte),
                                0};
    l_.emit(handlers().select).extra = static_cast<Form*>(&f);
  }

  void merge() { move(handlers().merge); }

  void bits() {
    if (plan_.edges.empty() || !writes_followed()) return;
    auto& f = *l_.extra<MoveForm>();
    const Edge& e = plan_.edges[0];
    f.site = site();
    f.moves[0] = {errors_of(e.to.reg, e.to.byte), errors_of(e.from.reg, e.from.byte), 0, 0};
    f.count = 1;
    f.value = l_.reg(e.from.reg), f.result = l_.reg(e.to.reg);
    f.wide = plan_.wide;
    emit(handlers().bits, f);
  }

  // The halves in order: the lower one's place is no float's.
  void cut() {
    if (!writes_followed()) return;
    if (!std::all_of(plan_.edges.begin(), plan_.edges.end(),
                     [](const Edge& e) { return (e.act & kCut) != 0; })) {
      if (moves_within()) return forget();
      move(handlers().move);
    }
    for (const Edge& e : plan_.edges) {
      const PlaneOffset to = errors_of(e.to.reg, e.to.byte);
      if ((e.act & kCut) == 0 || to == 0) continue;
      auto& f = *l_.extra<MoveForm>();
      f.site = site();
      f.value = l_.reg(e.from.reg);
      f.moves[f.count++] = {to, errors_of(e.from.reg, e.from.byte), 0, 0};
      l_.emit(handlers().cut).extra = static_cast<Form*>(&f);
    }
  }

  void forget() {
    if (!writes_followed() && !plan_.unfollowed) return;
    auto& f = *l_.extra<MoveForm>();
    f.site = site();
    f.forgets = plan_.unfollowed;
    for (uint32_t reg : plan_.writes)
      for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves / 2; ++byte)
        if (const PlaneOffset to = errors_of(reg, byte)) f.moves[f.count++] = {to, 0, 0, 0};
    add_lost(f, 1);
    l_.emit(handlers().forget).extra = static_cast<Form*>(&f);
  }

  // What goes to another function by .param is a value there, no more.
  void lose_arguments() {
    auto& f = *l_.extra<MoveForm>();
    add_lost(f, 1);
    if (f.count == 0) return;
    f.site = site();
    f.site->operation = l_.function.is_entry ? "call" : "call or return";
    l_.emit(handlers().forget).extra = static_cast<Form*>(&f);
  }

  void add_lost(MoveForm& f, size_t first) {
    const auto add = [&](const Operand& o) {
      for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves; ++byte)
        if (const PlaneOffset from = errors_of(o, byte)) f.moves[f.count++] = {0, from, 0, 0};
    };
    for (size_t o = first; o < inst_.operands.size(); ++o) {
      add(inst_.operands[o]);
      if (inst_.operands[o].kind == OperandKind::Vector)
        for (const Operand& e : inst_.operands[o].elements) add(e);
    }
  }

  // ---- Memory ----

  void access(AccessForm& f, Handler handler) {
    f.cells = &impl_.cells;
    f.site = site();
    emit(handler, f, &f);
  }

  // The followed bytes of the registers of a vector, in memory order.
  void add_elements(AccessForm& f, const Operand& value, uint32_t element_bytes) {
    const size_t count = value.kind == OperandKind::Vector ? value.elements.size() : 1;
    for (size_t k = 0; k < count; ++k) {
      const Operand& one = value.kind == OperandKind::Vector ? value.elements[k] : value;
      if (one.kind != OperandKind::Register) continue;
      uint32_t begin = 0;
      for (uint32_t byte = 0; byte < element_bytes && f.count < std::size(f.elements); ++byte) {
        const PlaneOffset errors = errors_of(one, byte);
        if (errors == 0) continue;
        // Of unknown make, an element reaches from the one before it; its size is a power of two.
        uint32_t size = 1;
        while (size * 2 <= byte + 1 - begin && (byte + 1) % (size * 2) == 0) size *= 2;
        Number number = size == 8   ? Number::F64
                        : size == 4 ? Number::F32
                        : size == 2 ? Number::BF16
                                    : Number::S8;
        const Type type = inst_.type() == Type::F32 || inst_.type() == Type::F64
                              ? inst_.type()
                              : l_.function.registers[one.index].type;
        const std::optional<Number> known = type == Type::F32   ? Number::F32
                                            : type == Type::F64 ? Number::F64
                                                                : impl_.current->number(one.index);
        if (known && size_of(*known) <= element_bytes) {
          if ((byte + 1) % size_of(*known) != 0) continue;
          number = *known, size = size_of(*known);
        }
        f.elements[f.count++] = {errors, static_cast<uint8_t>(k * element_bytes + byte),
                                 static_cast<uint8_t>(number), static_cast<uint8_t>(size)};
        begin = byte + 1;
      }
    }
  }

  void load() {
    if (!writes_followed()) return;
    auto& f = *l_.extra<AccessForm>();
    add_elements(f, inst_.operands[0], ptx::size_of(inst_.type()));
    // Bytes beyond what memory gives are zeros or signs.
    auto& rest = *l_.extra<MoveForm>();
    for (uint32_t reg : plan_.writes)
      for (uint32_t byte = ptx::size_of(inst_.type()); byte < 16 && rest.count < kMaxMoves; ++byte)
        if (const PlaneOffset to = errors_of(reg, byte)) rest.moves[rest.count++] = {to, 0, 0, 0};
    if (rest.count != 0) l_.emit(handlers().move).extra = static_cast<Form*>(&rest);
    if (f.count != 0) access(f, handlers().load);
  }

  void store() {
    auto& f = *l_.extra<AccessForm>();
    f.is_store = true;
    add_elements(f, inst_.operands[1], ptx::size_of(inst_.type()));
    access(f, handlers().store);
  }

  void atomic() {
    const size_t first = inst_.opcode == Opcode::atom ? 1 : 0;
    auto& f = *l_.extra<AtomicForm>();
    f.kind = inst_.has(Mod::add)    ? AtomicKind::Add
             : inst_.has(Mod::exch) ? AtomicKind::Exchange
                                    : AtomicKind::Swap;
    f.part_bytes = ptx::size_of(inst_.type());
    if (f.part_bytes > 8) return forget();
    const Operand& value = inst_.operands.at(first + (f.kind == AtomicKind::Swap ? 2 : 1));
    if (f.kind == AtomicKind::Add) {
      if (!add_operands(f, value, first == 1 ? &inst_.operands[0] : nullptr)) return forget();
      f.flushes = inst_.type() == Type::F32 && !inst_.has(Mod::shared) && !inst_.has(Mod::shared_cta);
    } else {
      add_elements(f, value, f.part_bytes);
      if (f.count > 8) return forget();
      if (first == 1 && inst_.operands[0].kind == OperandKind::Register) {
        f.old_plane = l_.reg(inst_.operands[0].index);
        for (uint32_t k = 0; k < f.count; ++k)
          f.old_errors[k] = errors_of(inst_.operands[0], f.elements[k].last);
      }
      if (f.kind == AtomicKind::Swap) {
        f.compared.plane = l_.source(inst_.operands.at(first + 1), inst_.type());
        f.compared.lane_bytes =
            static_cast<uint16_t>(l_.lane_bytes(inst_.operands.at(first + 1), inst_.type()));
      }
      if (first == 1) clear_dest(f);
    }
    access(f, handlers().atomic);
  }

  // What an exchange brings back and nobody accounts for has no error.
  void clear_dest(const AtomicForm& f) {
    auto& rest = *l_.extra<MoveForm>();
    for (uint32_t reg : plan_.writes)
      for (uint32_t byte = 0; byte < 8; ++byte) {
        const PlaneOffset to = errors_of(reg, byte);
        if (to != 0 &&
            std::find(std::begin(f.old_errors), std::end(f.old_errors), to) == std::end(f.old_errors))
          rest.moves[rest.count++] = {to, 0, 0, 0};
      }
    if (rest.count != 0) l_.emit(handlers().move).extra = static_cast<Form*>(&rest);
  }

  bool add_operands(AtomicForm& f, const Operand& value, const Operand* to) {
    const auto elements = [](const Operand& o) {
      return o.kind == OperandKind::Vector ? o.elements : std::vector<Operand>{o};
    };
    const auto packing = [&]() -> std::pair<Number, uint32_t> {
      switch (inst_.type()) {
        case Type::F64:
          return {Number::F64, 1};
        case Type::F32:
          return {Number::F32, 1};
        case Type::F16:
          return {Number::F16, 1};
        case Type::BF16:
          return {Number::BF16, 1};
        case Type::F16x2:
          return {Number::F16, 2};
        default:
          return {Number::BF16, 2};
      }
    }();
    const Operand* values = value.kind == OperandKind::Vector ? value.elements.data() : &value;
    const size_t count = value.kind == OperandKind::Vector ? value.elements.size() : 1;
    if (count * packing.second > 8) return false;
    for (size_t k = 0; k < count; ++k)
      for (uint32_t p = 0; p < packing.second; ++p) {
        const auto offset = static_cast<uint8_t>(p * size_of(packing.first));
        f.operand[f.parts] = source({&values[k], inst_.type(), offset, packing.first});
        if (to != nullptr && k < elements(*to).size())
          f.old_errors[f.parts] = errors_of(elements(*to)[k], offset + size_of(packing.first) - 1);
        ++f.parts;
      }
    return true;
  }

  // ---- What lanes do together ----

  void shuffle() {
    if (!writes_followed()) return;
    auto& f = *l_.extra<ShuffleForm>();
    f.site = site();
    f.lane = l_.source(2, Type::U32);
    f.limits = l_.source(3, Type::U32);
    f.mode = inst_.has(Mod::up) ? 'u' : inst_.has(Mod::down) ? 'd' : inst_.has(Mod::bfly) ? 'b' : 'i';
    bool keeps = false;
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const PlaneOffset to = errors_of(inst_.operands[0], byte), from = errors_of(inst_.operands[1], byte);
      if (to == 0) continue;
      const PlaneOffset kept = to == from ? l_.storage(sizeof(RegisterErrors)) : 0;
      keeps |= kept != 0;
      f.moves[f.count++] = {to, from, kept};
    }
    if (keeps) l_.emit(handlers().keep_shuffled).extra = static_cast<Form*>(&f);
    impl_.shuffle = &f;
  }

  static std::optional<std::pair<Number, uint32_t>> fragment_number(Type type) {
    switch (type) {
      case Type::F64:
        return {{Number::F64, 1}};
      case Type::F32:
        return {{Number::F32, 1}};
      case Type::TF32:
        return {{Number::TF32, 1}};
      case Type::F16:
        return {{Number::F16, 2}};
      case Type::BF16:
        return {{Number::BF16, 2}};
      case Type::E4M3:
        return {{Number::E4M3, 4}};
      case Type::E5M2:
        return {{Number::E5M2, 4}};
      default:
        return std::nullopt;
    }
  }

  bool fragment(Fragment& out, const Operand& operand, Type type) {
    const auto number = fragment_number(type);
    const size_t count = operand.kind == OperandKind::Vector ? operand.elements.size() : 1;
    if (!number || count > std::size(out.plane)) return false;
    out.number = number->first, out.parts = number->second, out.registers = static_cast<uint32_t>(count);
    const Type word = type == Type::F64 ? Type::F64 : type == Type::F32 ? Type::F32 : Type::B32;
    for (size_t r = 0; r < count; ++r) {
      const Operand& one = operand.kind == OperandKind::Vector ? operand.elements[r] : operand;
      if (one.kind == OperandKind::Sink) return false;
      out.plane[r] = l_.source(one, word);
      for (uint32_t p = 0; p < out.parts; ++p)
        out.errors[r][p] = errors_of(one, (p + 1) * size_of(out.number) - 1);
    }
    return true;
  }

  bool shape_of(uint32_t& m, uint32_t& n, uint32_t& k) const {
    for (Mod mod : inst_.mods) {
      unsigned a = 0, b = 0, c = 0;
      if (std::sscanf(std::string(ptx::name(mod)).c_str(), "m%un%uk%u", &a, &b, &c) == 3) {
        m = a, n = b, k = c;
        return m <= 32 && n <= 32 && k <= 32;
      }
    }
    return false;
  }

  void product() {
    if (!writes_followed()) return;
    auto& f = *l_.extra<ProductForm>();
    f.wmma = inst_.opcode == Opcode::wmma_mma;
    const bool short_form = inst_.types.size() == 2;
    f.d_type = inst_.type(0);
    f.a_type = short_form ? Type::F16 : inst_.type(1);
    f.b_type = short_form ? Type::F16 : inst_.type(2);
    f.c_type = short_form ? inst_.type(1) : inst_.type(3);
    const auto& o = inst_.operands;
    if (!shape_of(f.m, f.n, f.k) || !fragment(f.d, o[0], f.d_type) || !fragment(f.a, o[1], f.a_type) ||
        !fragment(f.b, o[2], f.b_type) || !fragment(f.c, o[3], f.c_type))
      return forget();
    f.site = site();
    const Fragment* fragments[] = {&f.a, &f.b, &f.c, &f.d};
    for (size_t i = 0; i < 4; ++i)
      f.index[i] = l_.extra_array<uint16_t>(size_t{fragments[i]->registers} * fragments[i]->parts *
                                            vgpu::kLanesPerPlane);
    handlers().fill_index(f);
    f.kept = f.c;
    bool keeps = false;
    for (uint32_t r = 0; r < f.c.registers; ++r) {
      if (std::find(f.d.plane, f.d.plane + f.d.registers, f.c.plane[r]) == f.d.plane + f.d.registers)
        continue;
      keeps = true;
      f.kept.plane[r] = l_.scratch(f.c.number == Number::F64 ? 8 : 4);
      for (uint32_t p = 0; p < f.c.parts; ++p)
        if (f.c.errors[r][p] != 0) f.kept.errors[r][p] = l_.storage(sizeof(RegisterErrors));
    }
    if (keeps) l_.emit(handlers().keep_product).extra = static_cast<Form*>(&f);
    impl_.product = &f;
  }

  void matrix() {
    const bool loads = plan_.kind == Kind::LoadMatrix;
    if (loads && !writes_followed()) return;
    auto& f = *l_.extra<MatrixForm>();
    f.plain = inst_.opcode == Opcode::ldmatrix || inst_.opcode == Opcode::stmatrix;
    f.transposed = inst_.has(Mod::trans);
    f.columns = inst_.has(Mod::col);
    f.type = f.plain ? Type::BF16 : inst_.type();
    f.matrix = inst_.opcode == Opcode::wmma_load_a ? 0 : inst_.opcode == Opcode::wmma_load_b ? 1 : 2;
    f.displacement = 1;
    f.cells = &impl_.cells;
    f.site = site();
    if (!f.plain && !shape_of(f.m, f.n, f.k)) return;
    if (!fragment(f.fragment, inst_.operands[loads ? 0 : 1], f.type)) return;
    if (!f.plain && inst_.operands.size() > 2) {
      f.has_stride = true;
      f.stride = l_.source(2, Type::U32);
    }
    emit_after(loads ? handlers().load_matrix : handlers().store_matrix, &f);
  }
};

// A function's lines, the likeliest to lose precision first.
std::vector<LineKey> ranked_lines(const Flow& flow, const vgpu::Program& program,
                                  const vgpu::Function& function) {
  std::map<LineKey, uint32_t> weights;
  const std::vector<uint32_t> depth = loop_depths(*function.ptx);
  for (uint32_t i = 0; i < function.ptx->body.size(); ++i) {
    const uint32_t w = weight(flow.plan(i), function.ptx->body[i]);
    if (w == 0) continue;
    uint32_t& most = weights[line_of(program, function, i)];
    most = std::max(most, w + 10 * std::min(depth[i], 4u));
  }
  std::vector<std::pair<uint32_t, LineKey>> order;
  for (const auto& [key, w] : weights) order.emplace_back(w, key);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<LineKey> lines;
  for (auto& [w, key] : order) lines.push_back(std::move(key));
  return lines;
}

}  // namespace

void give_slots(Group& group) {
  Shadow::Impl& impl = *group.impl;
  uint32_t used = 0;
  for (const auto& [key, slot] : impl.slots) used = std::max(used, slot);
  for (const LineKey& key : group.lines)
    if (!impl.slots.contains(key)) impl.slots[key] = used < kLineSlots ? ++used : 0;
  for (Site& site : impl.sites) {
    if (site.group != &group) continue;
    const auto found = impl.slots.find({site.file, site.line});
    site.slot = found == impl.slots.end() ? 0 : found->second;
  }
}

void Shadow::begin(Lowering& l) {
  impl_->current = std::make_unique<Flow>(l.function);
  impl_->group = &impl_->groups.emplace_back(
      Group{impl_.get(), ranked_lines(*impl_->current, l.program(), l.decoded())});
  impl_->errors.clear();
}

void Shadow::before(Lowering& l) {
  impl_->pending = {};
  Emitter(*impl_, l).before();
}

void Shadow::after(Lowering& l) {
  Emitter(*impl_, l).after();
}

}  // namespace assay::shadow
