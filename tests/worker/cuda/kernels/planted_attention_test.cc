// Each synchronisation that the attention kernels rely on, left out once, is noticed. Most defects
// change no result in a run that happens to be in order: the race build sees them all.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/emulation/child_process.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/cuda/kernels/attention_testing.h"

namespace octavo::cuda {
namespace {

const std::string kBuild = OCTAVO_EMULATED_BUILD;

// "" when all went well.
std::string Complaint(AttentionUnderTest& test, const WorkListOptions& options) {
  const auto rows = test.TryRun(options);
  if (!rows.ok()) return std::string(rows.status().message());
  const double error = test.WorstError(*rows);
  return error <= Tolerance(DType::kBF16) ? "" : absl::StrCat("error ", error);
}

void ExpectNoticed(AttentionUnderTest& test, const WorkListOptions& options, const char* bug) {
  const auto complain = [&] { return Complaint(test, options); };
  EXPECT_FALSE(emulation::RunPlanted(bug, {0, 4}, complain).empty()) << bug;
}

TEST(PlantedAttention, DecodeDefectsAreNoticed) {
  if (kBuild != "race") GTEST_SKIP() << "the race build sees all of them";
  // Two parts: rings are used again (more than 256 positions), a row is split, and a part has two
  // whole items behind each other.
  PagedShape shape;
  AttentionUnderTest test(shape, {{599, 1}, {199, 1}, {29, 1}});
  ASSERT_EQ(Complaint(test, {2, 0}), "");
  for (const char* bug :
       {"paged_decode.wait", "paged_decode.tile_arrived", "paged_decode.slot_free",
        "paged_decode.rings_free", "paged_decode.warps_left", "paged_decode.partials_written",
        "paged_decode.release", "paged_decode.acquire", "paged_decode.last_known",
        "paged_decode.item_done"})
    ExpectNoticed(test, {2, 0}, bug);
}

TEST(PlantedAttention, SharedDecodeDefectsAreNoticed) {
  if (kBuild != "race") GTEST_SKIP() << "the race build sees all of them";
  // 24 shared tiles in rings of 4: slots are used again; ten columns, in two of the warps.
  PagedShape shape;
  shape.num_heads = 1;
  std::vector<SequenceChunk> chunks = {{384, 1}};
  for (int i = 0; i < 9; ++i) chunks.push_back({384, 1, 0, 384});
  WorkListOptions options = {2, 0};
  options.shared_rows = 32;
  options.least_sharing_gain = 0;
  AttentionUnderTest test(shape, chunks);
  ASSERT_EQ(test.ListOf(options).shared_rows().size(), chunks.size());
  ASSERT_EQ(Complaint(test, options), "");
  // Not paged_decode.item_done: what a shared item leaves is read before barriers of the next one.
  for (const char* bug :
       {"paged_decode.wait", "paged_decode.shared_tiles_arrived", "paged_decode.shared_slots_free",
        "paged_decode.partials_written", "paged_decode.release", "paged_decode.acquire",
        "paged_decode.last_known"})
    ExpectNoticed(test, options, bug);
}

TEST(PlantedAttention, PrefillDefectsAreNoticed) {
  if (kBuild != "race") GTEST_SKIP() << "the race build sees all of them";
  // More block table entries than shared memory holds at a time.
  PagedShape shape;
  shape.num_heads = 1;
  shape.block_size = 8;
  AttentionUnderTest test(shape, {{1100, 20}});
  ASSERT_EQ(Complaint(test, {1, 0}), "");
  for (const char* bug : {"paged_prefill.queries_stored", "paged_prefill.wait",
                          "paged_prefill.tiles_arrived", "paged_prefill.table_read"})
    ExpectNoticed(test, {1, 0}, bug);
}

}  // namespace
}  // namespace octavo::cuda
