// The table of slots: every row is a contract that the reference accepts.
#include "train/slots.h"

#include <gmock/gmock.h>

#include "contract/contract.h"
#include "reference/reference.h"
#include "train/model.h"

namespace assay::train {
namespace {

class SlotTable : public ::testing::TestWithParam<const Slot*> {};

TEST_P(SlotTable, IsAContract) {
  const Slot& slot = *GetParam();
  const auto contract = contract::parse(contract_text(slot), "slot.toml");
  ASSERT_TRUE(contract) << contract.error().text() << "\n" << contract_text(slot);
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_FALSE(contract->outputs().empty());
}

TEST_P(SlotTable, IsFoundByItsName) {
  EXPECT_EQ(slot_named(GetParam()->name), GetParam());
}

std::vector<const Slot*> rows() {
  std::vector<const Slot*> rows;
  for (const Slot& slot : slots()) rows.push_back(&slot);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Train, SlotTable, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param->name); });

TEST(Slots, ThereIsNoSlotOfAnotherName) {
  EXPECT_EQ(slot_named("embedding_gradient"), nullptr);
}

// Products and attention are tried with smaller batches; what sums over the occurrences of a token is not.
TEST(Slots, HaveBatchesThatFitThem) {
  const int64_t usual = ModelSizes{}.sequences;
  for (const Slot& slot : slots()) {
    const bool is_costly = slot.name.starts_with("linear") || slot.name.starts_with("attention");
    EXPECT_EQ(usual_sequences(slot.name), is_costly ? usual / 4 : usual) << slot.name;
  }
}

}  // namespace
}  // namespace assay::train
