#include "scheduler/core/beam_group.h"

#include <algorithm>

#include "common/check.h"

namespace octavo {
namespace {

std::vector<TokenId> EndTokens(const Request& request) {
  std::vector<TokenId> ids;
  if (request.ignore_eos) return ids;
  ids = request.eos_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// What a worker is asked for after each beam, whatever the client asked for.
SamplingParams BeamSampling(const Request& request) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.seed = request.sampling.seed;
  sampling.num_logprobs = BeamLogprobs(*request.beam, EndTokens(request).size());
  return sampling;
}

}  // namespace

BeamGroup::BeamGroup(RequestState* r)
    : request(r),
      search(*r->request.beam, r->request.max_tokens, EndTokens(r->request)),
      live({&r->choices[0]}),
      slots(r->choices.size()) {
  r->request.sampling = BeamSampling(r->request);
}

bool BeamGroup::Answer(const SequenceState& beam, std::vector<TokenLogprob> top) {
  Slot& answered = slot(beam);
  OCTAVO_CHECK(!answered.answered && missing > 0, "sequence=", beam.id, " missing=", missing);
  answered.answered = true;
  answered.top = std::move(top);
  return --missing == 0;
}

void BeamGroup::ForgetAnswers() {
  for (Slot& each : slots) each.answered = false;
  missing = live.size();
}

std::vector<BeamSearch::Survivor> BeamGroup::Advance() {
  OCTAVO_CHECK(missing == 0, "missing=", missing);
  std::vector<const std::vector<TokenLogprob>*> tops;
  tops.reserve(live.size());
  for (const SequenceState* beam : live) tops.push_back(&slot(*beam).top);
  return search.Advance(tops);
}

void BeamGroup::SetLive(std::vector<SequenceState*> beams) {
  live = std::move(beams);
  sharing_known = false;
  ForgetAnswers();
}

void BeamGroup::FindSharing(int32_t tokens_per_block) {
  if (sharing_known) return;
  block_size = tokens_per_block;
  sharing_known = true;
  const std::vector<SequenceState>& choices = request->choices;
  for (auto beam = choices.begin(); beam != choices.end(); ++beam) {
    if (!beam->active) continue;
    Slot& own = slot(*beam);
    own.source = nullptr;
    own.shared_blocks = 0;
    const auto beyond = beam->tokens.begin() + request->prompt_tokens;
    for (auto before = choices.begin(); before != beam; ++before) {
      if (!before->active) continue;
      const auto differs = std::mismatch(beyond, beam->tokens.end(),
                                         before->tokens.begin() + request->prompt_tokens);
      const int64_t shared = (differs.first - beam->tokens.begin()) / block_size;
      if (own.source != nullptr && shared <= own.shared_blocks) continue;
      own.source = &*before;
      own.shared_blocks = shared;
    }
  }
}

uint32_t BeamGroup::Ready() const {
  static_assert(kMaxBeamWidth <= 32);
  uint32_t ready = 0;
  for (const SequenceState& beam : request->choices) {
    if (Ready(beam)) ready |= uint32_t{1} << beam.choice_index;
  }
  return ready;
}

int32_t BeamGroup::AwaitedFrom(const SequenceState& beam) const {
  int32_t awaited = 0;
  for (const SequenceState& other : request->choices) {
    if (other.active && slot(other).source == &beam) awaited = std::max(awaited, other.awaits);
  }
  return awaited;
}

int64_t BeamGroup::SharedEntries(const SequenceState& beam) const {
  const std::vector<BlockId>& blocks = beam.table.blocks();
  size_t most = 0;
  for (const SequenceState& before : request->choices) {
    if (&before == &beam) break;
    if (!before.active) continue;
    // Who holds the same block holds the same ones before it.
    const std::vector<BlockId>& others = before.table.blocks();
    size_t same = 0;
    size_t differs = std::min(others.size(), blocks.size()) + 1;
    while (differs - same > 1) {
      const size_t middle = (same + differs) / 2;
      (blocks[middle - 1] == others[middle - 1] ? same : differs) = middle;
    }
    most = std::max(most, same);
  }
  return static_cast<int64_t>(most);
}

int32_t BeamGroup::ComputedTokens() const {
  int32_t tokens = 0;
  for (const SequenceState& beam : request->choices) {
    if (!beam.active || beam.table.empty()) continue;
    const int64_t shared = SharedEntries(beam) * block_size;
    tokens += beam.computed - static_cast<int32_t>(std::min<int64_t>(shared, beam.computed));
  }
  return tokens;
}

int64_t BeamGroup::DistinctBlocks() const {
  int64_t blocks = 0;
  for (const SequenceState& beam : request->choices) {
    if (beam.active) blocks += beam.table.num_blocks() - SharedEntries(beam);
  }
  return blocks;
}

}  // namespace octavo
