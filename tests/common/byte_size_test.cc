#include "common/byte_size.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(ByteSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseByteSize("1048576"), 1048576);
  EXPECT_EQ(*ParseByteSize("0"), 0);
  EXPECT_EQ(*ParseByteSize("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(*ParseByteSize("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(*ParseByteSize("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(*ParseByteSize("2 TiB"), int64_t{2} << 40);
  EXPECT_EQ(*ParseByteSize(" 3KiB "), 3072);
  EXPECT_EQ(*ParseByteSize("2GB"), 2'000'000'000);
  EXPECT_EQ(*ParseByteSize("7MB"), 7'000'000);
  EXPECT_EQ(*ParseByteSize("5kB"), 5000);
  EXPECT_EQ(*ParseByteSize("12B"), 12);
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* bad : {"", "MiB", "-1", "-1MiB", "1 MiBs", "1mib", "1..5GiB", "0x10", "1e3",
                          "1G", "99999999TiB", "9223372036854775808", "nan", "inf", "1 2"})
    EXPECT_EQ(ParseByteSize(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  EXPECT_THAT(ParseByteSize("1G").status().message(), ::testing::HasSubstr("\"1G\""));
}

TEST(ByteSize, WritesTheLargestBinaryUnit) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1024), "1.0 KiB");
  EXPECT_EQ(FormatByteSize(98'304'000), "93.8 MiB");
  EXPECT_EQ(FormatByteSize(int64_t{4} << 30), "4.0 GiB");
  EXPECT_EQ(FormatByteSize(int64_t{3} << 39), "1.5 TiB");
}

}  // namespace
}  // namespace octavo
