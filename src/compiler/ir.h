// LLVM through its C interface, with the few things that the emitter says often said shortly.
#pragma once

#include <llvm-c/Core.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "compiler/forms.h"

namespace assay::compiler {

using Value = LLVMValueRef;
using TypeRef = LLVMTypeRef;
using BlockRef = LLVMBasicBlockRef;

class Ir {
 public:
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  Value function = nullptr;

  explicit Ir(const char* name)
      : context(LLVMContextCreate()),
        module(LLVMModuleCreateWithNameInContext(name, context)),
        b(LLVMCreateBuilderInContext(context)) {}
  ~Ir() {
    LLVMDisposeBuilder(b);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
  }
  Ir(const Ir&) = delete;
  Ir& operator=(const Ir&) = delete;

  TypeRef integer(unsigned bits) const { return LLVMIntTypeInContext(context, bits); }
  TypeRef real(unsigned bits) const {
    return bits == 64 ? LLVMDoubleTypeInContext(context) : LLVMFloatTypeInContext(context);
  }
  TypeRef vector(TypeRef of, unsigned lanes = kLanes) const { return LLVMVectorType(of, lanes); }
  TypeRef pointer() const { return LLVMPointerType(integer(8), 0); }
  static bool is_vector(Value v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }

  Value constant(unsigned bits, uint64_t value) const { return LLVMConstInt(integer(bits), value, 0); }
  // A constant like `v`: of its type, in all lanes.
  Value like(Value v, uint64_t value) const {
    TypeRef type = LLVMTypeOf(v);
    if (!is_vector(v)) return LLVMConstInt(type, value, 0);
    std::vector<Value> lanes(LLVMGetVectorSize(type), LLVMConstInt(LLVMGetElementType(type), value, 0));
    return LLVMConstVector(lanes.data(), static_cast<unsigned>(lanes.size()));
  }

  BlockRef block(const char* name) const { return LLVMAppendBasicBlockInContext(context, function, name); }
  void at(BlockRef block) const { LLVMPositionBuilderAtEnd(b, block); }
  void go(BlockRef to) const { LLVMBuildBr(b, to); }
  void branch(Value condition, BlockRef yes, BlockRef no) const { LLVMBuildCondBr(b, condition, yes, no); }
  // The first is what nearly always happens.
  void likely(Value condition, BlockRef yes, BlockRef no) const {
    Value inst = LLVMBuildCondBr(b, condition, yes, no);
    Value parts[] = {LLVMMDStringInContext(context, "branch_weights", 14), constant(32, 100000),
                     constant(32, 1)};
    LLVMSetMetadata(inst, LLVMGetMDKindIDInContext(context, "prof", 4),
                    LLVMMDNodeInContext(context, parts, 3));
  }

  Value add(Value x, Value y) const { return LLVMBuildAdd(b, x, y, ""); }
  Value sub(Value x, Value y) const { return LLVMBuildSub(b, x, y, ""); }
  Value compare(LLVMIntPredicate p, Value x, Value y) const { return LLVMBuildICmp(b, p, x, y, ""); }
  Value both(Value x, Value y) const { return LLVMBuildAnd(b, x, y, ""); }
  Value either(Value x, Value y) const { return LLVMBuildOr(b, x, y, ""); }
  Value select(Value c, Value x, Value y) const { return LLVMBuildSelect(b, c, x, y, ""); }
  Value cast(Value v, TypeRef type) const { return LLVMBuildBitCast(b, v, type, ""); }

  // pointer + bytes
  Value offset(Value base, Value bytes) const { return LLVMBuildGEP2(b, integer(8), base, &bytes, 1, ""); }
  Value offset(Value base, uint64_t bytes) const {
    return bytes == 0 ? base : offset(base, constant(64, bytes));
  }
  Value load(TypeRef type, Value place, unsigned align) const {
    Value v = LLVMBuildLoad2(b, type, cast(place, LLVMPointerType(type, 0)), "");
    LLVMSetAlignment(v, align);
    return v;
  }
  void store(Value v, Value place, unsigned align) const {
    LLVMSetAlignment(LLVMBuildStore(b, v, cast(place, LLVMPointerType(LLVMTypeOf(v), 0))), align);
  }
  Value intrinsic(const char* name, std::initializer_list<TypeRef> types,
                  std::vector<Value> arguments) const {
    const unsigned id = LLVMLookupIntrinsicID(name, __builtin_strlen(name));
    std::vector<TypeRef> list(types);
    Value callee = LLVMGetIntrinsicDeclaration(module, id, list.data(), list.size());
    TypeRef type = LLVMIntrinsicGetType(context, id, list.data(), list.size());
    return LLVMBuildCall2(b, type, callee, arguments.data(), static_cast<unsigned>(arguments.size()), "");
  }
  Value splat(Value scalar, unsigned lanes = kLanes) const {
    TypeRef type = vector(LLVMTypeOf(scalar), lanes);
    Value one = LLVMBuildInsertElement(b, LLVMGetUndef(type), scalar, constant(32, 0), "");
    std::vector<Value> zeros(lanes, constant(32, 0));
    return LLVMBuildShuffleVector(b, one, LLVMGetUndef(type), LLVMConstVector(zeros.data(), lanes), "");
  }
  Value shuffle(Value x, Value y, const std::vector<unsigned>& order) const {
    std::vector<Value> lanes;
    for (unsigned k : order) lanes.push_back(constant(32, k));
    return LLVMBuildShuffleVector(b, x, y, LLVMConstVector(lanes.data(), static_cast<unsigned>(lanes.size())),
                                  "");
  }
};

}  // namespace assay::compiler
