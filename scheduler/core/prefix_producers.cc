#include "scheduler/core/prefix_producers.h"

#include <algorithm>

#include "common/check.h"

namespace octavo {

void PrefixProducers::Add(SequenceState* sequence, int64_t first) {
  if (!sequence->chain.enabled) return;
  sequence->producing_from = static_cast<int32_t>(first);
  sequence->producing_to = static_cast<int32_t>(sequence->chain.digests.size());
  for (int32_t i = sequence->producing_from; i < sequence->producing_to; ++i) {
    producers_.try_emplace(sequence->chain.digests[static_cast<size_t>(i)], sequence);
  }
}

void PrefixProducers::RemoveUpTo(SequenceState* sequence, int32_t end) {
  for (int32_t& i = sequence->producing_from; i < end; ++i) {
    const auto found = producers_.find(sequence->chain.digests[static_cast<size_t>(i)]);
    if (found != producers_.end() && found->second == sequence) producers_.erase(found);
  }
}

void PrefixProducers::Commit(SequenceState* sequence, int32_t tokens) {
  if (sequence->producing_from == sequence->producing_to) return;
  RemoveUpTo(sequence, std::min(tokens / block_size_, sequence->producing_to));
}

void PrefixProducers::Remove(SequenceState* sequence) {
  RemoveUpTo(sequence, sequence->producing_to);
}

void PrefixProducers::Clear() { producers_.clear(); }

const SequenceState* PrefixProducers::Find(const BlockDigest& digest) const {
  const auto found = producers_.find(digest);
  return found == producers_.end() ? nullptr : found->second;
}

void PrefixProducers::CheckInvariants() const {
  // Only membership is looked at, so the order of the map does not matter.
  for (const auto& [digest, sequence] : producers_) {
    OCTAVO_CHECK(sequence->active && sequence->request->phase == Phase::kRunning &&
                     sequence->producing_from < sequence->producing_to,
                 "sequence=", sequence->id);
  }
}

}  // namespace octavo
