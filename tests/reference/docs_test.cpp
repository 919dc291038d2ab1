// Every example of the documents is one that works.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "folders.h"
#include "operators.h"

namespace assay::reference {
namespace {

using namespace testing;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string document() {
  return text_of(std::string(kSourceFolder) + "/docs/contracts.md");
}

// Every page that people read: those of docs/, and the README files.
std::vector<std::filesystem::path> pages() {
  const std::filesystem::path root = kSourceFolder;
  std::vector<std::filesystem::path> list = {root / "README.md", root / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "examples", "corpus"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") list.push_back(entry.path());
    }
  }
  return list;
}

// The text of the code blocks of a language, each with what stands before it.
std::vector<std::pair<std::string, std::string>> blocks(const std::string& text,
                                                        const std::string& language) {
  std::vector<std::pair<std::string, std::string>> found;
  const std::string fence = "```" + language + "\n";
  std::size_t last = 0;
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, last)) {
    const std::size_t first = at + fence.size(), end = text.find("```", first);
    found.emplace_back(text.substr(last, at - last), text.substr(first, end - first));
    last = end + 3;
  }
  return found;
}

TEST(Docs, WholeContractsLoad) {
  int count = 0;
  for (const std::filesystem::path& page : pages()) {
    SCOPED_TRACE(page.string());
    for (const auto& [before, text] : blocks(text_of(page), "toml")) {
      ++count;
      Contract contract = parsed(text);
      ASSERT_FALSE(contract.outputs().empty()) << "an example must be a whole contract:\n" << text;
      if (contract.shapes.empty()) contract.shapes.emplace_back();
      for (const Dim& dim : contract.dims) contract.shapes[0][dim.name] = dim.lowest();
      const Bindings bindings = draw_bindings(contract, 1);
      EXPECT_GT(expected(contract, bindings, contract.outputs()[0]->name).size(), 0u);
    }
  }
  EXPECT_GE(count, 2);
}

TEST(Docs, FormulasAreThoseOfTheOperators) {
  const auto found = blocks(document(), "formula");
  ASSERT_GE(found.size(), 10u);
  for (const auto& [before, text] : found) {
    const std::string mark = "<!-- operator: ";
    const std::size_t at = before.rfind(mark) + mark.size();
    const std::string name = before.substr(at, before.find(' ', at) - at);
    SCOPED_TRACE(name);
    Operator op = operator_named(name);
    const Contract ours = parsed(toml_of(op));
    op.formula = text;
    const Contract theirs = parsed(toml_of(op));
    const Bindings bindings = draw_bindings(ours, 3);
    for (const TensorSpec* spec : ours.outputs()) {
      const Expectation a = expected(ours, bindings, spec->name), b = expected(theirs, bindings, spec->name);
      EXPECT_EQ(a.value, b.value);
      EXPECT_EQ(a.bound, b.bound);
    }
  }
}

}  // namespace
}  // namespace assay::reference
