// mistakes.txt: an operator's contract, and formulas that a kernel may compute by mistake. Each must be
// found, and be called what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "finding/print.h"
#include "folders.h"
#include "implementations.h"
#include "trial/shapes.h"
#include "trial/trial.h"

namespace assay::judge::testing {
namespace {

struct Mistake {
  std::string name, formula;
  std::vector<std::string> kinds, settings;
};

struct Subject {
  std::string name, formula, args, dims, scalars;
  std::vector<TensorLine> tensors;
  std::vector<Mistake> mistakes;
  std::set<std::string> known_dims;
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> list(1);
  for (const char c : line) {
    if (c == '|')
      list.emplace_back();
    else
      list.back() += c;
  }
  return list;
}

std::string after_first_word(const std::string& line) {
  return line.substr(line.find(' ') + 1);
}

void add_tensor(Subject& subject, const std::string& line) {
  const std::vector<std::string> word = words(line);
  std::string more = word[0] == "out" ? "role = \"out\"\n" : "";
  std::string values;
  for (std::size_t i = 4; i < word.size(); ++i) values += (i > 4 ? " " : "") + word[i];
  if (!values.empty()) more += "values = \"" + values + "\"\n";
  subject.tensors.push_back({word[1], word[2], word[3], more});
  subject.args += (subject.args.empty() ? "" : ", ") + word[1];
  for (const char c : word[3]) {
    if (c != ',' && subject.known_dims.insert(std::string(1, c)).second)
      subject.dims += std::string(1, c) + " = { min = 1, max = 100000 }\n";
  }
}

std::vector<Subject> read_subjects() {
  std::ifstream file(std::string(kSourceFolder) + "/tests/judge/mistakes.txt");
  std::vector<Subject> list;
  std::string* formula = nullptr;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> word = words(line);
    if (word.empty()) formula = nullptr;
    if (word.empty() || line[0] == '#') continue;
    if (formula) {
      *formula += line + "\n";
    } else if (word[0] == "operator") {
      list.push_back({});
      list.back().name = after_first_word(line);
    } else if (word[0] == "in" || word[0] == "out") {
      add_tensor(list.back(), line);
    } else if (word[0] == "scalar") {
      list.back().scalars +=
          "[scalars." + word[1] + "]\ndtype = \"" + word[2] + "\"\nvalue = " + word[3] + "\n";
      list.back().args += ", " + word[1];
    } else if (word[0] == "formula") {
      formula = &list.back().formula;
    } else {
      const std::vector<std::string> field = fields(after_first_word(line));
      list.back().mistakes.push_back({field.at(0), "", words(field.at(2)), words(field.at(3))});
      formula = &list.back().mistakes.back().formula;
    }
  }
  return list;
}

Contract parsed(const Subject& subject, const std::vector<TensorLine>& tensors, const std::string& formula) {
  std::string args = subject.args;
  for (const std::string& dim : subject.known_dims) args += ", " + dim;
  auto contract = contract::parse(contract_of(args, subject.dims, tensors, formula, subject.scalars));
  EXPECT_TRUE(contract) << subject.name << ": " << contract.error().text();
  return contract ? std::move(*contract) : Contract{};
}

struct Setting {
  trial::Trial trial;
  std::map<std::string, std::string> read_as;  // tensor, dtype
  std::vector<std::string> earlier;
};

Setting setting_of(const Contract& contract, const Mistake& mistake, uint64_t seed) {
  Setting setting;
  setting.trial.seed = seed;
  setting.trial.shape = trial::uniform_shape(contract, 33);
  for (const contract::ScalarSpec& spec : contract.scalars)
    setting.trial.scalars[spec.name] = contract::Scalar::of(spec.dtype, spec.values[0]);
  for (const std::string& text : mistake.settings) {
    const std::size_t at = text.find_first_of("=:@");
    const std::string name = text.substr(0, at), value = text.substr(at + 1);
    if (text[at] == '=') setting.trial.shape[name] = std::stoll(value);
    if (text[at] == ':') {
      EXPECT_TRUE(trial::family_named(value, setting.trial.families[name])) << text;
    }
    if (text[at] == '@' && value == "earlier") setting.earlier.push_back(name);
    if (text[at] == '@' && value != "earlier") setting.read_as[name] = value;
  }
  return setting;
}

// What a kernel with this mistake leaves in the outputs.
Outputs outputs_of(const Subject& subject, const Mistake& mistake, const Setting& setting,
                   const Contract& right, const Bindings& bindings) {
  std::vector<TensorLine> tensors = subject.tensors;
  Bindings seen = bindings;
  for (TensorLine& tensor : tensors) {
    const auto other = setting.read_as.find(tensor.name);
    if (other == setting.read_as.end()) continue;
    tensor.dtype = other->second;
    auto copy = std::make_shared<Tensor>(*bindings.inputs.at(tensor.name));
    copy->dtype = *contract::dtype_named(tensor.dtype);
    seen.inputs[tensor.name] = std::move(copy);
  }
  if (!setting.earlier.empty()) {
    trial::Trial before = setting.trial;
    before.seed += 100;
    const auto earlier = trial::make_inputs(right, before);
    EXPECT_TRUE(earlier);
    for (const std::string& name : setting.earlier) seen.inputs[name] = earlier->inputs.at(name);
  }
  const Contract wrong = parsed(subject, tensors, mistake.formula);
  const auto reference = reference::Reference::as_written(wrong);
  EXPECT_TRUE(reference) << subject.name << ", " << mistake.name << ": " << reference.error().text();
  Outputs outputs;
  if (!reference) return outputs;
  for (const contract::TensorSpec* spec : wrong.outputs()) {
    Tensor tensor = Tensor::zeros(spec->dtype, *spec->extents(bindings.shape));
    std::vector<int64_t> all(static_cast<std::size_t>(tensor.count()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const auto stored = reference->simulate(seen, spec->name, all);
    EXPECT_TRUE(stored) << subject.name << ", " << mistake.name << ": " << stored.error().text();
    for (std::size_t i = 0; stored && i < all.size(); ++i) tensor.store(all[i], (*stored)[i]);
    outputs[spec->name] = std::make_shared<const Tensor>(std::move(tensor));
  }
  return outputs;
}

TEST(Mistakes, AreFoundAndNamed) {
  int count = 0;
  for (const Subject& subject : read_subjects()) {
    const Contract contract = parsed(subject, subject.tensors, subject.formula);
    const auto reference = reference::Reference::make(contract);
    EXPECT_TRUE(reference) << subject.name << ": " << reference.error().text();
    if (!reference) continue;
    Mistake none;
    none.name = "none";
    none.formula = subject.formula;
    none.kinds = {"none"};
    for (std::size_t at = 0; at <= subject.mistakes.size(); ++at) {
      const Mistake& mistake = at == 0 ? none : subject.mistakes[at - 1];
      ASSERT_FALSE(mistake.kinds.empty());
      SCOPED_TRACE(subject.name + ": " + mistake.name);
      const Setting setting = setting_of(contract, mistake, at + 1);
      const auto bindings = trial::make_inputs(contract, setting.trial);
      ASSERT_TRUE(bindings) << bindings.error().text();
      const Outputs outputs = outputs_of(subject, mistake, setting, contract, *bindings);
      const auto judgement = judge(contract, *reference, *bindings, outputs);
      ASSERT_TRUE(judgement) << judgement.error().text();
      if (mistake.kinds.front() == "none") {
        for (const Finding& finding : judgement->findings) ADD_FAILURE() << shown(finding);
        continue;
      }
      ++count;
      if (judgement->findings.empty()) {
        ADD_FAILURE() << "passed";
        continue;
      }
      for (const Finding& finding : judgement->findings) {
        EXPECT_NE(std::find(mistake.kinds.begin(), mistake.kinds.end(), to_string(finding.kind)),
                  mistake.kinds.end())
            << "called " << shown(finding);
      }
    }
  }
  EXPECT_GE(count, 70);
}

}  // namespace
}  // namespace assay::judge::testing
