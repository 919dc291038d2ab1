#include "cudart/instruction.h"

namespace assay::cudart {
namespace {

constexpr uint64_t kDirectionFlag = 0x400;

enum Mandatory : uint8_t { kNone, k66, kF3, kF2 };  // as VEX counts them

struct Decoded {
  const uint8_t* at = nullptr;  // after what has been read
  uint8_t opcode = 0, map = 0;  // 1: 0F, 2: 0F 38, 3: 0F 3A
  Mandatory mandatory = kNone;
  bool wide = false;                       // REX.W
  bool has_vex = false;                    // or EVEX
  uint32_t vector = 16;                    // bytes
  uint32_t index_high = 0, base_high = 0;  // 8 where the prefix says so
  bool is_evex = false, broadcasts = false;
  bool known = true;
};

int64_t register_of(const ucontext_t& context, uint32_t number) {
  constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number & 15]];
}

// ---- Prefixes ----

void read_vex(Decoded& d, uint8_t first) {
  d.has_vex = true;
  uint8_t last = *d.at++;
  d.map = 1;
  if (first == 0xc4) {
    d.index_high = last & 0x40 ? 0 : 8;
    d.base_high = last & 0x20 ? 0 : 8;
    d.map = last & 0x1f;
    last = *d.at++;
    d.wide = (last & 0x80) != 0;
  }
  d.vector = last & 4 ? 32 : 16;
  d.mandatory = static_cast<Mandatory>(last & 3);
  d.opcode = *d.at++;
}

void read_evex(Decoded& d) {
  const uint8_t p0 = *d.at++, p1 = *d.at++, p2 = *d.at++;
  d.has_vex = d.is_evex = true;
  d.index_high = p0 & 0x40 ? 0 : 8;
  d.base_high = p0 & 0x20 ? 0 : 8;
  d.map = p0 & 7;
  d.wide = (p1 & 0x80) != 0;
  d.mandatory = static_cast<Mandatory>(p1 & 3);
  d.vector = 16u << (p2 >> 5 & 3);
  d.broadcasts = (p2 & 0x10) != 0;
  d.known = (p2 & 7) == 0;  // under a mask anything less may be touched
  d.opcode = *d.at++;
}

Decoded read_prefixes(const uint8_t* at) {
  Decoded d;
  d.at = at;
  bool operand16 = false;
  uint8_t repeat = 0;
  for (;; ++d.at) {
    const uint8_t byte = *d.at;
    if (byte == 0x66)
      operand16 = true;
    else if (byte == 0xf2 || byte == 0xf3)
      repeat = byte;
    else if (byte != 0xf0 && byte != 0x2e && byte != 0x3e && byte != 0x26 && byte != 0x36)
      break;
  }
  d.mandatory = repeat == 0xf3 ? kF3 : repeat == 0xf2 ? kF2 : operand16 ? k66 : kNone;
  uint8_t byte = *d.at++;
  if (byte == 0x64 || byte == 0x65 || byte == 0x67) d.known = false;
  if (byte == 0xc4 || byte == 0xc5) return read_vex(d, byte), d;
  if (byte == 0x62) return read_evex(d), d;
  if ((byte & 0xf0) == 0x40) {
    d.wide = (byte & 8) != 0;
    d.index_high = byte & 2 ? 8 : 0;
    d.base_high = byte & 1 ? 8 : 0;
    byte = *d.at++;
  }
  if (byte == 0x0f) {
    d.map = 1;
    byte = *d.at++;
    if (byte == 0x38 || byte == 0x3a) {
      d.map = byte == 0x38 ? 2 : 3;
      byte = *d.at++;
    }
  }
  d.opcode = byte;
  return d;
}

// ---- How much: 0 where that is not known ----

uint32_t integer_size(const Decoded& d) {
  return d.wide ? 8 : d.mandatory == k66 ? 2 : 4;
}

uint32_t size_in_map0(const Decoded& d) {
  const uint8_t op = d.opcode, digit = *d.at >> 3 & 7;
  const uint32_t size = op & 1 ? integer_size(d) : 1;
  if (op < 0x40 && (op & 4) == 0) return size;  // arithmetic
  if (op >= 0x84 && op <= 0x8b) return size;    // test, xchg, mov
  switch (op) {
    case 0x63:
      return 4;
    case 0x80:
    case 0x81:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xc7:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xf6:
    case 0xf7:
    case 0xfe:
      return size;
    case 0x83:
      return integer_size(d);
    case 0xff:
      return digit <= 1 ? size : 0;
    default:
      return 0;
  }
}

// By the usual rule of vector instructions: all, or one element where the prefix says so.
uint32_t by_prefix(const Decoded& d) {
  return d.mandatory == kF3 ? 4 : d.mandatory == kF2 ? 8 : d.vector;
}

uint32_t size_in_map1(const Decoded& d) {
  const uint8_t op = d.opcode;
  const bool packed = d.mandatory == k66 || d.has_vex;
  if (op >= 0x40 && op <= 0x4f) return d.has_vex ? 0 : integer_size(d);  // cmov
  switch (op) {
    case 0x10:
    case 0x11:
    case 0x51:
    case 0x58:
    case 0x59:
    case 0x5c:
    case 0x5d:
    case 0x5e:
    case 0x5f:
    case 0xc2:
      return by_prefix(d);
    case 0x12:
    case 0x13:
    case 0x16:
    case 0x17:
      return d.mandatory == kF3 ? d.vector : d.mandatory == kF2 && d.vector != 16 ? d.vector : 8;
    case 0x14:
    case 0x15:
    case 0x28:
    case 0x29:
    case 0x2b:
    case 0x54:
    case 0x55:
    case 0x56:
    case 0x57:
    case 0x5b:
    case 0xc6:
      return d.vector;
    case 0x2a:
      return d.mandatory >= kF3 ? (d.wide ? 8 : 4) : 8;
    case 0x2c:
    case 0x2d:
      return d.mandatory == kF3 ? 4 : d.mandatory == kF2 ? 8 : 0;
    case 0x2e:
    case 0x2f:
      return d.mandatory == k66 ? 8 : 4;
    case 0x5a:
      return d.mandatory == kNone ? d.vector / 2 : by_prefix(d);
    case 0x6e:
      return d.wide ? 8 : 4;
    case 0x7e:
      return d.mandatory == kF3 || d.wide ? 8 : 4;
    case 0x6f:
    case 0x7f:
      return d.mandatory == kNone ? 8 : d.vector;
    case 0x70:
      return d.mandatory == kNone ? 8 : d.vector;
    case 0xb0:
    case 0xc0:
      return d.has_vex ? 0 : 1;  // cmpxchg, xadd
    case 0xb1:
    case 0xc1:
    case 0xaf:
    case 0xc3:
      return d.has_vex ? 0 : integer_size(d);
    case 0xb6:
    case 0xbe:
      return 1;
    case 0xb7:
    case 0xbf:
      return 2;
    case 0xc7:
      return (*d.at >> 3 & 7) == 1 ? (d.wide ? 16 : 8) : 0;
    case 0xd6:
      return 8;
    case 0xe6:
      return d.mandatory == kF3 ? d.vector / 2 : d.vector;
    case 0xe7:
      return packed ? d.vector : 8;
    case 0xf0:
      return d.mandatory == kF2 ? d.vector : 0;
    case 0xf7:
      return 0;
    default:
      break;
  }
  const bool integers = (op >= 0x60 && op <= 0x6d) || (op >= 0x74 && op <= 0x76) || op >= 0xd1;
  return integers && packed && d.mandatory == k66 ? d.vector : 0;
}

uint32_t size_in_map2(const Decoded& d) {
  const uint8_t op = d.opcode;
  if (d.mandatory != k66) return 0;
  switch (op) {
    case 0x18:
    case 0x58:
      return 4;
    case 0x19:
    case 0x59:
      return 8;
    case 0x1a:
    case 0x5a:
      return 16;
    case 0x78:
      return 1;
    case 0x79:
      return 2;
    case 0x20:
    case 0x23:
    case 0x25:
    case 0x30:
    case 0x33:
    case 0x35:
    case 0x13:
      return d.vector / 2;
    case 0x21:
    case 0x24:
    case 0x31:
    case 0x34:
      return d.vector / 4;
    case 0x22:
    case 0x32:
      return d.vector / 8;
    default:
      break;
  }
  const uint8_t row = op >> 4, column = op & 15;
  if ((row == 9 || row == 10 || row == 11) && column >= 6)  // fused multiply-add
    return column >= 9 && (column & 1) ? (d.wide ? 8 : 4) : d.vector;
  const bool whole = op <= 0x0b || (op >= 0x1c && op <= 0x1e) || (op >= 0x28 && op <= 0x2b && !d.is_evex) ||
                     (op >= 0x37 && op <= 0x40);
  return whole ? d.vector : 0;
}

uint32_t size_of(const Decoded& d) {
  if (!d.known) return 0;
  if (d.broadcasts) return d.wide ? 8 : 4;
  switch (d.map) {
    case 0:
      return size_in_map0(d);
    case 1:
      return size_in_map1(d);
    case 2:
      return size_in_map2(d);
    default:
      return 0;
  }
}

// ---- Where ----

// The address that an instruction with an operand of `size` bytes names; 0 where it is not of the usual form.
uint64_t address_of(const Decoded& d, uint32_t size, const ucontext_t& context) {
  const uint8_t* at = d.at;
  const uint8_t modrm = *at++, mod = modrm >> 6, rm = modrm & 7;
  if (mod == 3 || (mod == 0 && rm == 5)) return 0;
  int64_t address = 0;
  bool has_base = true;
  uint32_t base = rm;
  if (rm == 4) {
    const uint8_t sib = *at++;
    base = sib & 7;
    const uint32_t index = (sib >> 3 & 7) | d.index_high;
    if (index != 4) address += register_of(context, index) << (sib >> 6);
    has_base = !(mod == 0 && base == 5);
  }
  if (has_base) address += register_of(context, base | d.base_high);
  if (mod == 1) address += int64_t{static_cast<int8_t>(*at)} * (d.is_evex ? size : 1);
  if (mod == 2 || !has_base) {
    uint32_t offset = 0;
    for (int i = 0; i < 4; ++i) offset |= uint32_t{at[i]} << (8 * i);
    address += static_cast<int32_t>(offset);
  }
  return static_cast<uint64_t>(address);
}

// movs and stos with a count.
Operand string_operand(const Decoded& d, uint64_t address, bool writes, const ucontext_t& context) {
  const uint32_t size = d.opcode & 1 ? (d.wide ? 8 : 4) : 1;
  const auto low = static_cast<uint64_t>(register_of(context, writes ? 7 : 6));  // rdi, rsi
  const uint64_t bytes = static_cast<uint64_t>(register_of(context, 1)) * size;
  if (address < low || address - low >= bytes) return {1, false};
  return {bytes - (address - low), true};
}

}  // namespace

Operand operand_at(uint64_t address, bool writes, const ucontext_t& context) {
  const Decoded d = read_prefixes(reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]));
  const bool is_move = d.opcode == 0xa4 || d.opcode == 0xa5;
  const bool is_store = d.opcode == 0xaa || d.opcode == 0xab;
  const bool upwards = (static_cast<uint64_t>(context.uc_mcontext.gregs[REG_EFL]) & kDirectionFlag) == 0;
  if (d.known && d.map == 0 && d.mandatory == kF3 && (is_move || (is_store && writes)) && upwards)
    return string_operand(d, address, writes, context);
  const uint32_t size = size_of(d);
  const uint64_t named = size ? address_of(d, size, context) : 0;
  // An access that began in an open page faults where the closed one begins.
  if (named == 0 || named > address || address - named >= size) return {};
  return {named + size - address, false};
}

}  // namespace assay::cudart
