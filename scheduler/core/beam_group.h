// The sequences of a beam search: which of them are the live beams, and what they share.
#ifndef OCTAVO_SCHEDULER_CORE_BEAM_GROUP_H_
#define OCTAVO_SCHEDULER_CORE_BEAM_GROUP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "scheduler/core/beam.h"
#include "scheduler/core/request_state.h"

namespace octavo {

// All live beams have equally many tokens. Each is scheduled for one sample (step.6) and then
// waits until all are answered; the rule then says who lives on, and the choices of the request
// are given to the survivors: the best child of a beam takes its sequence over, tables and all,
// further ones get sequences of dead beams, and share the parent's blocks.
struct BeamGroup {
  // `request` outlives the group; its first choice is the first beam.
  explicit BeamGroup(RequestState* request);

  struct Slot {  // of the choice with this index
    bool answered = false;
    std::vector<TokenLogprob> top;  // what may follow, once answered
    // Its first blocks are those of another beam, when the tables begin anew.
    const SequenceState* source = nullptr;
    int64_t shared_blocks = 0;
  };

  Slot& slot(const SequenceState& beam) { return slots[static_cast<size_t>(beam.choice_index)]; }
  const Slot& slot(const SequenceState& beam) const {
    return slots[static_cast<size_t>(beam.choice_index)];
  }

  // True when all live beams are answered.
  bool Answer(const SequenceState& beam, std::vector<TokenLogprob> top);
  // All are computed, and answered, again.
  void ForgetAnswers();

  // The rule's decision over the answers, one entry for each beam that lives on.
  std::vector<BeamSearch::Survivor> Advance();
  // The live beams are now these, in order of rank.
  void SetLive(std::vector<SequenceState*> beams);

  // Who shares how many full blocks with which beam before it. Once computed it stays until
  // SetLive.
  void FindSharing(int32_t tokens_per_block);
  // What the beam shares with others is computed, by steps before or by this one.
  bool Ready(const SequenceState& beam) const {
    return beam.awaits == 0 || slot(beam).source->computed >= beam.awaits;
  }
  // All that are ready, as bits by choice index.
  uint32_t Ready() const;
  // Tokens at the start of `beam`'s table that other beams hold too and it has to compute.
  int32_t AwaitedFrom(const SequenceState& beam) const;

  // Tokens computed in this incarnation, those of shared blocks once.
  int32_t ComputedTokens() const;
  // Blocks that the tables hold, shared ones once.
  int64_t DistinctBlocks() const;
  // Blocks at the start of `beam`'s table that a beam before it holds too.
  int64_t SharedEntries(const SequenceState& beam) const;

  RequestState* const request;
  BeamSearch search;
  std::vector<SequenceState*> live;  // by rank
  std::vector<Slot> slots;           // by choice index
  size_t missing = 1;                // live beams without an answer
  bool sharing_known = false;
  int32_t block_size = 0;  // known since the tables began
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_BEAM_GROUP_H_
