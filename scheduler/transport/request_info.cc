#include "scheduler/transport/request_info.h"

#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

v1::WaitReason ToProto(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return v1::WAIT_REASON_NONE;
    case WaitReason::kStepInFlight:
      return v1::WAIT_REASON_STEP_IN_FLIGHT;
    case WaitReason::kBehind:
      return v1::WAIT_REASON_BEHIND;
    case WaitReason::kSequences:
      return v1::WAIT_REASON_SEQUENCES;
    case WaitReason::kBlocks:
      return v1::WAIT_REASON_BLOCKS;
    case WaitReason::kAdjacency:
      return v1::WAIT_REASON_ADJACENCY;
    case WaitReason::kProducer:
      return v1::WAIT_REASON_PRODUCER;
    case WaitReason::kNextStep:
      return v1::WAIT_REASON_NEXT_STEP;
  }
  return v1::WAIT_REASON_UNSPECIFIED;
}

std::string Sentence(const WaitReport& report, const std::string& behind,
                     const std::string& producer) {
  const int64_t usable = report.blocks_free - report.blocks_reserved;
  switch (report.reason) {
    case WaitReason::kNone:
      return absl::StrCat("it runs: ", report.request.computed_tokens, " tokens in ",
                          report.request.blocks, " blocks");
    case WaitReason::kStepInFlight:
      return "it was preempted, and a step that computed for it is still in flight";
    case WaitReason::kBehind:
      return absl::StrCat(report.ahead, " requests come before it, and the first that cannot start",
                          behind.empty() ? "" : absl::StrCat(", ", behind, ","),
                          " holds up the others: ask why that one waits");
    case WaitReason::kSequences:
      return absl::StrCat("it needs ", report.sequences_needed, " of the ", report.max_sequences,
                          " sequences that run at once (--max-num-seqs); ", report.sequences_taken,
                          " are taken");
    case WaitReason::kBlocks:
      return absl::StrCat("it needs ", report.blocks_needed, " blocks to start; ",
                          report.blocks_free, " are free and ", report.blocks_reserved,
                          " of them are kept for running sequences, so ", usable,
                          " are left: short by ", report.blocks_needed - usable);
    case WaitReason::kAdjacency:
      return absl::StrCat("it needs ", report.blocks_needed, " adjacent blocks to start; ",
                          report.blocks_free, " are free, but not so many side by side");
    case WaitReason::kProducer:
      return absl::StrCat("request ", producer.empty() ? "that has just ended" : producer,
                          " is computing block ", report.awaited_block,
                          " of its prefix; it starts when that is there");
    case WaitReason::kNextStep:
      return absl::StrCat(
          "nothing keeps it: the next step that has tokens left starts it; running "
          "sequences can put ",
          report.tokens_queued, " tokens into a step of ", report.token_budget);
  }
  return "";
}

}  // namespace

void FillRequestInfo(const RequestReport& report, const std::string& name, absl::Time now,
                     v1::RequestInfo* out) {
  out->set_request_id(name);
  out->set_running(report.running);
  out->set_priority(report.priority);
  out->set_age_seconds(absl::ToDoubleSeconds(now - report.arrival));
  out->set_prompt_tokens(static_cast<uint32_t>(report.prompt_tokens));
  out->set_cached_tokens(static_cast<uint32_t>(report.cached_tokens));
  out->set_computed_tokens(static_cast<uint32_t>(report.computed_tokens));
  out->set_generated_tokens(static_cast<uint32_t>(report.generated_tokens));
  out->set_max_tokens(static_cast<uint32_t>(report.max_tokens));
  out->set_choices(static_cast<uint32_t>(report.choices));
  out->set_active_choices(static_cast<uint32_t>(report.active_choices));
  out->set_preemptions(static_cast<uint32_t>(report.preemptions));
  out->set_blocks(static_cast<uint64_t>(report.blocks));
  out->set_exclusive_blocks(static_cast<uint64_t>(report.exclusive_blocks));
}

void FillExplanation(const WaitReport& report, const std::string& behind,
                     const std::string& producer, v1::ExplainRequestResponse* out) {
  out->set_reason(ToProto(report.reason));
  out->set_text(Sentence(report, behind, producer));
  out->set_ahead(static_cast<uint64_t>(report.ahead));
  out->set_behind(behind);
  out->set_sequences_needed(static_cast<uint64_t>(report.sequences_needed));
  out->set_sequences_taken(static_cast<uint64_t>(report.sequences_taken));
  out->set_max_sequences(static_cast<uint64_t>(report.max_sequences));
  out->set_blocks_needed(static_cast<uint64_t>(report.blocks_needed));
  out->set_blocks_free(static_cast<uint64_t>(report.blocks_free));
  out->set_blocks_reserved(static_cast<uint64_t>(report.blocks_reserved));
  out->set_prefix_tokens(static_cast<uint64_t>(report.prefix_tokens));
  out->set_token_budget(static_cast<uint64_t>(report.token_budget));
  out->set_tokens_queued(static_cast<uint64_t>(report.tokens_queued));
  out->set_producer(producer);
  out->set_awaited_block(static_cast<uint32_t>(report.awaited_block));
}

void FillBlockTable(const ChoiceTable& table, v1::ChoiceBlockTable* out) {
  out->set_index(static_cast<uint32_t>(table.choice_index));
  out->set_computed_tokens(static_cast<uint32_t>(table.computed_tokens));
  for (const BlockEntry& entry : table.blocks) {
    v1::BlockTableEntry* block = out->add_blocks();
    block->set_group(static_cast<uint32_t>(entry.group));
    block->set_block(static_cast<uint32_t>(entry.block));
    block->set_holders(static_cast<uint32_t>(entry.holders));
    block->set_published(entry.published);
  }
}

}  // namespace octavo
