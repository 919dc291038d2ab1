#include "assayd/store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace assay::assayd {
namespace {

const auto kCapture = [] { return monitor::Capture{}; };

// An assayd that ends again and again must not fill the disk.
TEST(Store, CapturesOfBeforeCount) {
  const TemporaryFolder folder("store");
  for (int life = 0; life < 3; ++life) {
    Store store(folder.path(), 3);
    ASSERT_TRUE(store.open());
    EXPECT_EQ(store.keep("a", 2, kCapture).empty(), life > 0);
    EXPECT_EQ(store.keep("a", 2, kCapture).empty(), life > 0);
    EXPECT_TRUE(store.keep("a", 2, kCapture).empty()) << "there are two of this kernel";
    EXPECT_EQ(store.keep("a-1", 2, kCapture).empty(), life > 0) << "another kernel";
    EXPECT_TRUE(store.keep("b", 2, kCapture).empty()) << "there are three in all";
    EXPECT_EQ(store.captures, life == 0 ? 3u : 0u);
    EXPECT_EQ(store.captures_dropped, life == 0 ? 2u : 5u);
  }
}

TEST(Store, ADamagedAlarmIsAnAlarm) {
  const TemporaryFolder folder("store");
  {
    Store store(folder.path(), 3);
    ASSERT_TRUE(store.open());
    ASSERT_TRUE(store.raise("good-proof", {{"why", "x"}}));
  }
  std::ofstream(folder.file("alarms/cut-proof.json")) << "{\"why\": \"y[0] i";
  std::ofstream(folder.file("alarms/new-proof.json.part")) << "{";  // being written when assayd was killed
  Store store(folder.path(), 3);
  ASSERT_TRUE(store.open());
  EXPECT_EQ(store.alarms().size(), 2u);
  EXPECT_TRUE(store.is_raised("good-proof"));
  EXPECT_TRUE(store.is_raised("cut-proof"));
  EXPECT_TRUE(store.alarms().at("cut-proof").at("why").get<std::string>().find("damaged") !=
              std::string::npos);
}

}  // namespace
}  // namespace assay::assayd
