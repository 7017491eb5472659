#include "tools/batch_journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace octavo::tools {
namespace {

class BatchJournalTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "out.jsonl").string();
  }
  void Write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string Read() const {
    std::stringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(BatchJournalTest, KeepsTheRunIdAcrossRuns) {
  const std::string first = BatchJournal::Open(path_)->run_id();
  EXPECT_EQ(BatchJournal::Open(path_)->run_id(), first);
  EXPECT_EQ(first.size(), 16);
}

TEST_F(BatchJournalTest, CutsAnUnfinishedLine) {
  Write("{\"id\":\"a\",\"outputs\":[]}\n{\"id\":\"b\",\"out");
  auto journal = BatchJournal::Open(path_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_TRUE(journal->Answered("a"));
  EXPECT_FALSE(journal->Answered("b"));
  ASSERT_TRUE(journal->Append("{\"id\":\"b\"}").ok());
  EXPECT_EQ(Read(), "{\"id\":\"a\",\"outputs\":[]}\n{\"id\":\"b\"}\n");
}

TEST_F(BatchJournalTest, ForgetsErrorsThatAnotherTryMayMend) {
  Write(
      "{\"id\":\"a\",\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"\"}}\n"
      "{\"id\":\"b\",\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"\"}}\n");
  auto journal = BatchJournal::Open(path_);
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_FALSE(journal->Answered("a"));
  EXPECT_TRUE(journal->Answered("b"));
  EXPECT_EQ(Read().find("UNAVAILABLE"), std::string::npos);
}

TEST_F(BatchJournalTest, RefusesToTouchAnotherKindOfFile) {
  Write("precious notes\n");
  EXPECT_EQ(BatchJournal::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Read(), "precious notes\n");
}

TEST_F(BatchJournalTest, SaysWhyADiskRefuses) {
  const auto journal = BatchJournal::Open((folder_ / "missing" / "out.jsonl").string());
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace octavo::tools
