#include "compiler/forms.h"

#include <algorithm>

namespace assay::compiler {

namespace {

constexpr uint64_t kMostAlign = uint64_t{1} << 20;

Form scalar() {
  Form f;
  f.kind = Form::Kind::Scalar;
  return f;
}

uint64_t align_of(uint64_t value) {
  return value == 0 ? kMostAlign : std::min<uint64_t>(value & (0 - value), kMostAlign);
}

Form constant(uint64_t value) {
  Form f = scalar();
  f.constant = true;
  f.value = value;
  f.align = align_of(value);
  return f;
}

uint64_t cut(uint64_t value, uint32_t bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
int64_t extend(uint64_t value, uint32_t bits) {
  return bits >= 64 ? static_cast<int64_t>(value) : static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

void make_two(Form& f) {
  if (f.two) return;
  f.two = true;
  const int64_t middle = f.step[kHalf];
  if (middle != 0) {
    f.constant = false;
    f.align = std::min(f.align, align_of(static_cast<uint64_t>(middle)));
  }
  for (uint32_t l = kHalf; l < kLanes; ++l) f.step[l] -= middle;
}

class Forms {
 public:
  Forms(const vgpu::CompileRequest& request, const std::vector<Operation>& operations,
        const std::vector<bool>& live_at_start)
      : request_(request), operations_(operations), forms_(request.function->ptx->registers.size()) {
    for (size_t r = 0; r < forms_.size(); ++r)
      if (live_at_start[r]) forms_[r] = vector_form();  // read before it is written, perhaps
  }

  std::vector<Form> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < operations_.size(); ++i) changed |= visit(i);
    }
    for (Form& f : forms_)
      if (f.kind == Form::Kind::Unknown) f = vector_form();
    return std::move(forms_);
  }

 private:
  const vgpu::CompileRequest& request_;
  const std::vector<Operation>& operations_;
  std::vector<Form> forms_;

  Form of(const Source& source) const { return form_of(source, forms_, request_.shape); }

  bool visit(size_t i) {
    const Operation& op = operations_[i];
    bool changed = false;
    if (op.to.empty()) {
      for (uint32_t r : request_.effects[i].writes) changed |= meet(r, vector_form(), 64);
      return changed;
    }
    const Form result = transfer(op);
    for (uint32_t r : op.to) changed |= meet(r, result, is_predicate(op.code) ? 1 : op.bits);
    return changed;
  }

  static bool is_predicate(Code code) {
    return code == Code::Compare || code == Code::FloatCompare || code == Code::PredicateAnd ||
           code == Code::PredicateOr || code == Code::PredicateXor || code == Code::PredicateNot;
  }

  bool meet(uint32_t reg, Form f, uint32_t bits) {
    Form& old = forms_[reg];
    for (int64_t& s : f.step) s = extend(static_cast<uint64_t>(s), bits);
    if (f.kind == Form::Kind::Unknown || old.kind == Form::Kind::Vector) return false;
    if (old.kind == Form::Kind::Unknown || f.kind == Form::Kind::Vector) {
      old = f;
      return true;
    }
    Form before = old;
    const bool may_split = request_.shape == vgpu::BlockShape::HalfRows;
    if (old.two != f.two || (old.step != f.step && may_split)) make_two(old), make_two(f);
    if (old.step != f.step) {
      old = vector_form();
      return true;
    }
    if (!f.constant || f.value != old.value) old.constant = false, old.value = 0;
    old.align = std::min(old.align, f.align);
    return !(old == before);
  }

  Form flat(const Form& a, const Form& b) const {
    if (!a.is_flat() || !b.is_flat()) return vector_form();
    Form f = scalar();
    f.two = a.two || b.two;
    return f;
  }

  static Form sum(Form a, Form b, bool minus, uint32_t bits) {
    if (!a.is_scalar() || !b.is_scalar()) return vector_form();
    if (a.two != b.two) make_two(a), make_two(b);
    for (uint32_t l = 0; l < kLanes; ++l) a.step[l] = minus ? a.step[l] - b.step[l] : a.step[l] + b.step[l];
    a.constant = a.constant && b.constant;
    a.value = a.constant ? cut(minus ? a.value - b.value : a.value + b.value, bits) : 0;
    a.align = std::min(a.align, b.align);
    return a;
  }

  static Form product(Form a, Form b, uint32_t bits) {
    if (!a.is_scalar() || !b.is_scalar()) return vector_form();
    if (a.constant && a.is_uniform()) std::swap(a, b);
    const bool by_constant = b.constant && b.is_uniform();
    if (!by_constant && (!a.is_flat() || !b.is_flat())) return vector_form();
    const auto factor = static_cast<int64_t>(b.value);
    for (int64_t& s : a.step) s = by_constant ? static_cast<int64_t>(static_cast<uint64_t>(s) * b.value) : 0;
    (void)factor;
    a.two = a.two || b.two;
    a.constant = a.constant && by_constant;
    a.value = a.constant ? cut(a.value * b.value, bits) : 0;
    a.align = std::min(a.align * b.align, kMostAlign);
    return a;
  }

  // As wide operands: a step survives, because the code checks that no lane wraps.
  static Form widened(Form a, uint32_t bits, bool is_signed) {
    if (a.is_scalar() && a.constant && is_signed) a.value = static_cast<uint64_t>(extend(a.value, bits));
    return a;
  }

  // Bits below the alignment come from the steps alone, those above from the scalar alone.
  Form bitwise(Code code, Form a, Form b) const {
    if (a.is_flat() && b.is_flat()) return flat(a, b);
    if (a.constant && a.is_uniform()) std::swap(a, b);
    if (!a.is_scalar() || !b.constant || !b.is_uniform()) return vector_form();
    if (a.lowest() < 0 || static_cast<uint64_t>(a.highest()) >= a.align) return vector_form();
    const auto apply = [&](uint64_t x) {
      return code == Code::And ? x & b.value : code == Code::Or ? x | b.value : x ^ b.value;
    };
    Form f = scalar();
    f.two = a.two;
    const uint64_t low = a.align - 1;
    for (uint32_t l = 0; l < kLanes; ++l)
      f.step[l] = static_cast<int64_t>(apply(static_cast<uint64_t>(a.step[l])) & low) -
                  static_cast<int64_t>(apply(0) & low);
    return f;
  }

  Form shifted_right(const Form& a, const Form& by) const {
    if (a.is_flat() && by.is_flat()) return flat(a, by);
    if (!a.is_scalar() || !by.constant || !by.is_uniform() || by.value >= 32) return vector_form();
    if (a.lowest() < 0 || static_cast<uint64_t>(a.highest()) >= a.align ||
        (uint64_t{1} << by.value) > a.align)
      return vector_form();
    Form f = scalar();
    f.two = a.two;
    f.align = a.align >> by.value;
    for (uint32_t l = 0; l < kLanes; ++l) f.step[l] = a.step[l] >> by.value;
    return f;
  }

  Form all_flat(const Operation& op) const {
    Form f = scalar();
    for (const Source& s : op.from) {
      const Form g = of(s);
      if (g.kind == Form::Kind::Unknown) return g;
      f = flat(f, g);
      if (!f.is_scalar()) return f;
    }
    return f;
  }

  Form predicate(const Operation& op) const {
    for (const Source& s : op.from) {
      const Form g = of(s);
      if (g.kind == Form::Kind::Unknown) return g;
      if (!g.is_uniform()) return vector_form();
    }
    return scalar();
  }

  Form transfer(const Operation& op) const {
    for (const Source& s : op.from)
      if (of(s).kind == Form::Kind::Unknown) return {};
    const auto from = [&](size_t k) { return of(op.from[k]); };
    switch (op.code) {
      case Code::Mov:
        return from(0);
      case Code::Add:
        return sum(from(0), from(1), false, op.bits);
      case Code::Sub:
        return sum(from(0), from(1), true, op.bits);
      case Code::MulLo:
        return product(from(0), from(1), op.bits);
      case Code::MadLo:
        return sum(product(from(0), from(1), op.bits), from(2), false, op.bits);
      case Code::MulWide:
        return product(widened(from(0), op.from_bits, op.is_signed),
                       widened(from(1), op.from_bits, op.is_signed), op.bits);
      case Code::MadWide:
        return sum(product(widened(from(0), op.from_bits, op.is_signed),
                           widened(from(1), op.from_bits, op.is_signed), op.bits),
                   from(2), false, op.bits);
      case Code::Shl: {
        const Form by = from(1);
        if (!by.constant || !by.is_uniform() || by.value >= op.bits)
          return from(0).is_flat() && by.is_flat() ? flat(from(0), by) : vector_form();
        return product(from(0), constant(uint64_t{1} << by.value), op.bits);
      }
      case Code::Extend: {
        Form f = widened(from(0), op.from_bits, op.is_signed);
        f.value = cut(f.value, op.bits);
        return f;
      }
      case Code::And:
      case Code::Or:
      case Code::Xor:
        return bitwise(op.code, from(0), from(1));
      case Code::Shr:
        return shifted_right(from(0), from(1));
      case Code::Neg:
        return sum(constant(0), from(0), true, op.bits);
      case Code::Not:
        return sum(constant(cut(~uint64_t{0}, op.bits)), from(0), true, op.bits);
      case Code::Select: {
        if (!from(2).is_uniform()) return vector_form();
        Form a = from(0), b = from(1);
        if (!a.is_scalar() || !b.is_scalar()) return vector_form();
        if (a.two != b.two) make_two(a), make_two(b);
        if (a.step != b.step) return vector_form();
        a.constant = false;
        a.value = 0;
        a.align = std::min(a.align, b.align);
        return a;
      }
      case Code::Compare:
      case Code::FloatCompare:
      case Code::PredicateAnd:
      case Code::PredicateOr:
      case Code::PredicateXor:
      case Code::PredicateNot:
        return predicate(op);
      case Code::Load: {
        const Form at = of(op.address);
        if (at.kind == Form::Kind::Unknown) return {};
        if (!at.is_flat()) return vector_form();
        Form f = scalar();
        f.two = at.two;
        return f;
      }
      case Code::LoadParameter:
        return scalar();
      case Code::Min:
      case Code::Max:
      case Code::Abs:
      case Code::FloatAdd:
      case Code::FloatSub:
      case Code::FloatMul:
      case Code::FloatFma:
      case Code::FloatMin:
      case Code::FloatMax:
      case Code::FloatNeg:
      case Code::FloatAbs:
      case Code::FloatFromInteger:
      case Code::FloatSaturate:
        return all_flat(op);
      default:
        return vector_form();
    }
  }
};

Form special_form(const Source& s, vgpu::BlockShape shape) {
  using S = ptx::SpecialRegister;
  using vgpu::BlockShape;
  Form f = scalar();
  switch (s.special) {
    case S::Laneid:
      f = constant(0);
      for (uint32_t l = 0; l < kLanes; ++l) f.step[l] = l;
      return f;
    case S::Tid:
      if (shape == BlockShape::Other) return vector_form();
      if (s.component != 0) {
        f.two = shape == BlockShape::HalfRows;
        return f;
      }
      if (shape == BlockShape::HalfRows) f = constant(0);
      for (uint32_t l = 0; l < kLanes; ++l) f.step[l] = shape == BlockShape::Rows ? l : l % kHalf;
      f.align = shape == BlockShape::Rows ? kLanes : kMostAlign;
      return f;
    case S::LanemaskEq:
    case S::LanemaskLe:
    case S::LanemaskLt:
    case S::LanemaskGe:
    case S::LanemaskGt:
      return vector_form();
    default:
      return f;
  }
}

}  // namespace

bool Form::is_flat() const {
  return is_scalar() && std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 0; });
}
bool Form::is_uniform() const {
  return is_flat() && !two;
}
int64_t Form::lowest() const {
  return *std::min_element(step.begin(), step.end());
}
int64_t Form::highest() const {
  return *std::max_element(step.begin(), step.end());
}

Form vector_form() {
  Form f;
  f.kind = Form::Kind::Vector;
  return f;
}

Form form_of(const Source& source, const std::vector<Form>& registers, vgpu::BlockShape shape) {
  switch (source.kind) {
    case Source::Kind::Register:
      return registers[source.reg];
    case Source::Kind::Constant:
      return constant(source.bits);
    case Source::Kind::Plane:
      break;
  }
  return special_form(source, shape);
}

std::vector<Form> forms_of(const vgpu::CompileRequest& request, const std::vector<Operation>& operations,
                           const std::vector<bool>& live_at_start) {
  return Forms(request, operations, live_at_start).run();
}

}  // namespace assay::compiler
