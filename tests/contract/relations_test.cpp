// Derived dims, relations between dims, layouts, and the table of keys.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "contract/formula_case.h"
#include "contract/keys.h"
#include "contract/legal_shape.h"
#include "folders.h"
#include "support.h"

namespace assay::contract {
namespace {

using namespace testing;

constexpr const char* kGroups = R"toml(
[dims]
C = "G * CPG"
G = { min = 1, max = 4096 }
CPG = { min = 1, max = 64 }
K = { min = 1, max = 100000 }
N = { min = 1, max = 100000 }
P = { value = "C * N + 1", type = "i64" }
require = ["K <= N", "N % G == 0"]
[tensors.y]
dtype = "f32"
shape = ["C", "2 * C"]
role = "out"
[reference]
formula = "y[i, j] = C"
)toml";

Contract groups() {
  return parsed(contract_text(kGroups, R"a("y", "C", "G * 2", "i64(C * N)", "P")a"));
}

TEST(DerivedDims, StandForTheirExpressionsEverywhere) {
  const Contract contract = groups();
  const Shape shape = {{"G", 4}, {"CPG", 8}, {"K", 3}, {"N", 12}};
  EXPECT_TRUE(contract.check_shape(shape));
  EXPECT_EQ(contract.dims.size(), 4u);  // the shape of a trial has no value for derived ones
  EXPECT_EQ(*contract.tensor("y")->extents(shape), (std::vector<int64_t>{32, 64}));
  EXPECT_EQ(contract.tensor("y")->shape[1].text(), "2 * (G * CPG)");
  EXPECT_EQ(contract.tensor("y")->shape[1].written(), "2 * C");
  EXPECT_EQ(*contract.derived_dim("P")->value.eval(shape), 32 * 12 + 1);
  EXPECT_EQ(contract.derived_dim("P")->value.text(), "(G * CPG) * N + 1");
}

TEST(DerivedDims, AndExpressionsAreArguments) {
  const std::vector<Arg>& args = groups().kernel.args;
  const Shape shape = {{"G", 4}, {"CPG", 8}, {"K", 3}, {"N", 12}};
  ASSERT_EQ(args.size(), 6u);
  const int64_t values[] = {32, 8, 384, 385};
  const DType types[] = {DType::i32, DType::i32, DType::i64, DType::i64};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(args[i + 1].kind, ArgKind::Integer);
    EXPECT_EQ(*args[i + 1].value.eval(shape), values[i]) << i;
    EXPECT_EQ(args[i + 1].type, types[i]) << i;
  }
}

TEST(Relations, ExcludeShapes) {
  const Contract contract = groups();
  EXPECT_TRUE(contract.check_shape({{"G", 4}, {"CPG", 8}, {"K", 12}, {"N", 12}}));
  EXPECT_FALSE(contract.check_shape({{"G", 4}, {"CPG", 8}, {"K", 13}, {"N", 12}}));
  EXPECT_FALSE(contract.check_shape({{"G", 5}, {"CPG", 8}, {"K", 3}, {"N", 12}}));
}

TEST(Relations, MayBeChains) {
  const auto relations = DimRelation::parse("A <= B < 2 * A", {});
  ASSERT_TRUE(relations);
  ASSERT_EQ(relations->size(), 2u);
  const auto holds = [&](int64_t a, int64_t b) {
    const Shape shape = {{"A", a}, {"B", b}};
    return (*relations)[0].holds(shape) && (*relations)[1].holds(shape);
  };
  EXPECT_TRUE(holds(4, 4));
  EXPECT_TRUE(holds(4, 7));
  EXPECT_FALSE(holds(4, 8));
  EXPECT_FALSE(holds(4, 3));
}

TEST(LegalShape, MovesAsLittleAsPossibleAndDownWhereThatIsPossible) {
  const Contract contract = groups();
  const auto near = [&](int64_t g, int64_t k, int64_t n, std::string_view keep = "") {
    return legal_shape(contract, {{"G", g}, {"CPG", 1}, {"K", k}, {"N", n}}, keep);
  };
  const Shape legal = {{"G", 4}, {"CPG", 1}, {"K", 5}, {"N", 8}};
  EXPECT_EQ(near(4, 5, 8), legal);
  EXPECT_EQ(near(4, 9, 8)->at("K"), 8);
  EXPECT_EQ(near(4, 9, 8, "K")->at("N"), 12);
  EXPECT_EQ(near(4, 60000, 8)->at("K"), 8);  // far away
  EXPECT_EQ(near(4, 60000, 8, "K")->at("N"), 60000);
  EXPECT_EQ(near(7, 5, 1021)->at("N"), 1015);  // a prime, and a multiple of 7
  EXPECT_EQ(near(7, 5, 1021, "N")->at("G"), 1);
}

TEST(LegalShape, KnowsWhereThereIsNone) {
  const Contract contract = parsed(contract_text(R"toml(
[dims]
A = { min = 1, max = 4 }
B = { min = 9, max = 20 }
require = "B <= A"
[tensors.y]
dtype = "f32"
shape = ["A", "B"]
role = "out"
[reference]
formula = "y[i, j] = 1"
)toml"));
  EXPECT_FALSE(legal_shape(contract, {{"A", 1}, {"B", 9}}));
}

TEST(LegalShape, KeepsDerivedDimsWithinTheirType) {
  const Contract contract = parsed(contract_text(R"toml(
[dims]
A = { min = 1, max = 100000 }
B = { min = 1, max = 100000 }
AB = "A * B"
[tensors.y]
dtype = "f32"
shape = ["AB"]
role = "out"
[reference]
formula = "y[i] = 1"
)toml"));
  const auto legal = legal_shape(contract, {{"A", 100000}, {"B", 90000}});
  ASSERT_TRUE(legal);
  EXPECT_LE(legal->at("A") * legal->at("B"), (int64_t{1} << 31) - 1);
  EXPECT_GE(legal->at("A") * legal->at("B"), int64_t{1} << 30);
}

// ---- layouts ---------------------------------------------------------------------

Tensor counted(DType dtype, std::vector<int64_t> extents) {
  Tensor tensor = Tensor::zeros(dtype, std::move(extents));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.store_int(i, i + 1);
  return tensor;
}

TEST(Layout, PlacesElementsByStrides) {
  const Layout layout = Layout::of(DType::i16, {2, 3}, {5, 1});  // rows of 5
  EXPECT_EQ(layout.bytes, 2 * 8);
  EXPECT_TRUE(layout.has_gaps());
  EXPECT_FALSE(layout.is_plain());
  std::vector<std::byte> image(16, std::byte{0xee});
  const Tensor tensor = counted(DType::i16, {2, 3});
  layout.pack(tensor, image.data());
  EXPECT_EQ(load_int(DType::i16, image.data() + 4), 3);
  EXPECT_EQ(load_int(DType::i16, image.data() + 10), 4);
  EXPECT_EQ(image[6], std::byte{0xee});
  Tensor back = Tensor::zeros(DType::i16, {2, 3});
  layout.unpack(image.data(), back);
  EXPECT_EQ(back.bytes, tensor.bytes);
}

TEST(Layout, SeesWhatChangedBetweenElements) {
  const Layout layout = Layout::of(DType::i16, {2, 3}, {5, 1});
  std::vector<std::byte> before(16), after(16);
  after[4] = std::byte{1};  // an element
  EXPECT_FALSE(layout.changed_gap(before.data(), after.data()));
  after[7] = after[9] = std::byte{1};
  const auto changed = layout.changed_gap(before.data(), after.data());
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->first, 7);
  EXPECT_EQ(changed->count, 2);
}

TEST(Layout, OfChannelsLast) {
  const Layout layout = Layout::of(DType::f32, {2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_FALSE(layout.has_gaps());
  EXPECT_TRUE(layout.is_injective());
  EXPECT_EQ(layout.bytes, 4 * 120);
  EXPECT_EQ(layout.element_at(4 * (60 + 2 + 3 * 15 + 4 * 3)), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Layout, PutsTwoSmallElementsIntoAByteTheFirstInItsLowHalf) {
  for (const DType dtype : {DType::i4, DType::u4, DType::e2m1}) {
    const Layout layout = Layout::of(dtype, {5}, {1});
    EXPECT_EQ(layout.bytes, 3);
    Tensor tensor = Tensor::zeros(dtype, {5});
    for (int i = 0; i < 5; ++i) tensor.store_code(i, 2 * i + 1);
    std::vector<std::byte> image(3);
    layout.pack(tensor, image.data());
    EXPECT_EQ(image[0], std::byte{0x31}) << info(dtype).name;
    EXPECT_EQ(image[1], std::byte{0x75});
    EXPECT_EQ(image[2], std::byte{0x09});
    Tensor back = Tensor::zeros(dtype, {5});
    layout.unpack(image.data(), back);
    EXPECT_EQ(back.bytes, tensor.bytes) << info(dtype).name;
  }
}

TEST(Layout, MustGiveEachElementAPlaceOfItsOwn) {
  EXPECT_TRUE(Layout::of(DType::f32, {3, 4}, {4, 1}).is_injective());
  EXPECT_TRUE(Layout::of(DType::f32, {3, 4}, {1, 3}).is_injective());
  EXPECT_TRUE(Layout::of(DType::f32, {1, 4}, {0, 1}).is_injective());
  EXPECT_FALSE(Layout::of(DType::f32, {3, 4}, {3, 1}).is_injective());
  EXPECT_FALSE(Layout::of(DType::f32, {3, 4}, {0, 1}).is_injective());
}

TEST(SmallTypes, AreHeldAsTheirValues) {
  Tensor signed_ones = Tensor::zeros(DType::i4, {3});
  signed_ones.store_int(0, -8);
  signed_ones.store_int(1, 9);  // wraps
  signed_ones.store(2, 100.0);  // saturates
  EXPECT_EQ(signed_ones.load_int(0), -8);
  EXPECT_EQ(signed_ones.load_int(1), -7);
  EXPECT_EQ(signed_ones.load_int(2), 7);
  EXPECT_EQ(rounded(DType::e2m1, 5.1), 6);
  EXPECT_EQ(rounded(DType::e2m1, -100), -6);
  EXPECT_EQ(rounded(DType::e2m1, 0.25), 0);  // half way to 0.5: to even
  EXPECT_EQ(rounded(DType::e3m2, 1000), 28);
  EXPECT_EQ(rounded(DType::e2m3, 1000), 7.5);
  EXPECT_EQ(rounded(DType::e8m0, 0.26), 0.25);
}

// ---- cases -----------------------------------------------------------------------

TEST(Cases, TheFirstThatHoldsIsChosen) {
  const Contract contract = parsed(contract_text(R"toml(
[dims]
N = { min = 1, max = 100 }
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[scalars.mode]
dtype = "i32"
values = [0, 1, 2]
[reference]
formula = "y[i] = 0"
[[case]]
when = "mode == 1 and N > 10"
formula = "y[i] = 1"
[[case]]
when = "mode != 0"
formula = "y[i] = 2"
)toml"));
  const auto chosen = [&](int64_t n, int64_t mode) -> std::ptrdiff_t {
    const Scalars scalars = {{"mode", Scalar::of_int(DType::i32, mode)}};
    const FormulaCase* one = chosen_case(contract, {{"N", n}}, scalars);
    return one ? one - contract.reference.cases.data() : -1;
  };
  EXPECT_EQ(chosen(11, 1), 0);
  EXPECT_EQ(chosen(10, 1), 1);
  EXPECT_EQ(chosen(11, 2), 1);
  EXPECT_EQ(chosen(11, 0), -1);
}

// ---- keys ------------------------------------------------------------------------

TEST(Keys, OfTheDocumentationAreThoseOfTheParser) {
  std::ifstream file(std::string(kSourceFolder) + "/docs/contracts.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(key_table()), std::string::npos)
      << "docs/contracts.md, \"Every key\", should hold this table:\n"
      << key_table();
}

TEST(Keys, OfTheSchemaAreThoseOfTheParser) {
  const auto schema = nlohmann::json::parse(json_schema());
  for (const Key& key : all_keys()) {
    const auto& properties =
        key.section == Section::Tensor ? schema["$defs"]["tensor"]["properties"] : schema["properties"];
    if (key.section == Section::Tensor || key.section == Section::File) {
      EXPECT_TRUE(properties.contains(key.name)) << key.name;
    }
    EXPECT_FALSE(key.meaning.empty()) << key.name;
  }
  EXPECT_EQ(schema["$defs"]["tensor"]["additionalProperties"], false);
  EXPECT_EQ(schema["properties"]["tensors"]["additionalProperties"]["$ref"], "#/$defs/tensor");
}

}  // namespace
}  // namespace assay::contract
