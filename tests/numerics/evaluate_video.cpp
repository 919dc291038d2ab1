#include <map>

#include "evaluate.h"
#include "numerics/gpu_math.h"

namespace assay::numerics {
namespace {

uint32_t bits32(uint64_t x) {
  return static_cast<uint32_t>(x);
}

const std::map<std::string, VideoOp> kOps = {{"vadd", VideoOp::Add},         {"vsub", VideoOp::Sub},
                                             {"vabsdiff", VideoOp::AbsDiff}, {"vmin", VideoOp::Min},
                                             {"vmax", VideoOp::Max},         {"vavrg", VideoOp::Average}};
const std::map<std::string, Compare> kCompares = {{"eq", Compare::Eq}, {"ne", Compare::Ne},
                                                  {"lt", Compare::Lt}, {"le", Compare::Le},
                                                  {"gt", Compare::Gt}, {"ge", Compare::Ge}};
const std::map<std::string, Part> kParts = {{"b0", Part::B0}, {"b1", Part::B1}, {"b2", Part::B2},
                                            {"b3", Part::B3}, {"h0", Part::H0}, {"h1", Part::H1}};

bool is_type(const std::string& word) {
  return word == "u32" || word == "s32";
}

// The selectors in a form's name: "h1b2" for the operands, "+add", "+merge.b2" for what follows.
struct Tail {
  Part a = Part::Word;
  Part b = Part::Word;
  VideoTail tail;
};

Tail tail_of(const FormName& form, bool d_signed) {
  Tail t;
  t.tail.d_signed = d_signed;
  t.tail.sat = form.has("sat");
  for (size_t i = 0; i < form.words.size(); ++i) {
    const std::string& word = form.words[i];
    if (word.size() < 4 || kParts.count(word.substr(0, 2)) == 0) continue;
    t.a = kParts.at(word.substr(0, 2));
    t.b = kParts.at(word.substr(2, 2));
    const std::string rest = word.size() > 4 ? word.substr(5) : "";
    if (rest == "add") t.tail.kind = VideoTail::Kind::Add;
    if (rest == "min") t.tail.kind = VideoTail::Kind::Min;
    if (rest == "max") t.tail.kind = VideoTail::Kind::Max;
    if (rest == "merge") {
      t.tail.kind = VideoTail::Kind::Merge;
      t.tail.merge = kParts.at(form.words[i + 1]);
    }
  }
  return t;
}

Evaluate simd(const FormName& form, const std::string& op, int width) {
  std::vector<bool> types;
  for (const std::string& word : form.words) {
    if (is_type(word)) types.push_back(word == "s32");
  }
  SimdVideo mode;
  mode.width = width;
  mode.sat = form.has("sat");
  mode.accumulate = form.has("add");
  if (op == "vset") {
    mode.a_signed = types[0];
    mode.b_signed = types[1];
    for (const std::string& word : form.words) {
      const auto found = kCompares.find(word);
      if (found == kCompares.end()) continue;
      const Compare compare = found->second;
      return [=](auto a, auto b, auto c) {
        return uint64_t{simd_video(mode, bits32(a), bits32(b), bits32(c), [=](int64_t x, int64_t y) {
          return int64_t{video_compare(compare, x, y)};
        })};
      };
    }
    return {};
  }
  mode.d_signed = types[0];
  mode.a_signed = types[1];
  mode.b_signed = types[2];
  if (form.has("h1")) mode.mask = 2;
  if (form.has("b30")) mode.mask = 9;
  const VideoOp operation = kOps.at(op);
  return [=](auto a, auto b, auto c) {
    return uint64_t{simd_video(mode, bits32(a), bits32(b), bits32(c),
                               [=](int64_t x, int64_t y) { return video_operate(operation, x, y); })};
  };
}

Evaluate multiply_add(const FormName& form) {
  const bool a_signed = form.words[1] == "s32";
  const bool b_signed = form.words[2] == "s32";
  VideoMad mode;
  mode.sat = form.has("sat");
  mode.plus_one = form.has("po");
  mode.negate_c = form.has("nc");
  mode.negate_product = form.has("na");
  mode.shift = form.has("shr7") ? 7 : form.has("shr15") ? 15 : 0;
  const bool parts = form.has("h1b2");
  const Part pa = parts ? Part::H1 : Part::Word;
  const Part pb = parts ? Part::B2 : Part::Word;
  return [=](auto a, auto b, auto c) {
    return uint64_t{video_mad(mode, bits32(a), pa, a_signed, bits32(b), pb, b_signed, bits32(c))};
  };
}

}  // namespace

Evaluate evaluate_video(const FormName& form) {
  std::string op = form.op;
  if (op.back() == '2' || op.back() == '4') {
    const int width = op.back() == '2' ? 16 : 8;
    op.pop_back();
    return simd(form, op, width);
  }
  if (op == "vmad") return multiply_add(form);
  if (op == "vset") {
    const Tail t = tail_of(form, false);
    const bool a_signed = form.words[0] == "s32";
    const bool b_signed = form.words[1] == "s32";
    const Compare compare = kCompares.at(form.words[2]);
    return [=](auto a, auto b, auto c) {
      return uint64_t{
          video_set(compare, bits32(a), t.a, a_signed, bits32(b), t.b, b_signed, t.tail, bits32(c))};
    };
  }
  const bool d = form.words[0] == "s32";
  const bool a_signed = form.words[1] == "s32";
  const bool b_signed = form.words[2] == "s32";
  const Tail t = tail_of(form, d);
  if (op == "vshl" && form.has("sat")) return {};  // ours is the manual's, the GPU's is not
  if (op == "vshl" || op == "vshr") {
    const bool left = op == "vshl";
    const bool wrap = form.has("wrap");
    return [=](auto a, auto b, auto c) {
      return uint64_t{video_shift(left, wrap, bits32(a), t.a, a_signed, bits32(b), t.b, t.tail, bits32(c))};
    };
  }
  const VideoOp operation = kOps.at(op);
  return [=](auto a, auto b, auto c) {
    return uint64_t{video(operation, bits32(a), t.a, a_signed, bits32(b), t.b, b_signed, t.tail, bits32(c))};
  };
}

}  // namespace assay::numerics
