// Fills one step: decodes of running sequences, then their prefills, then waiting requests.
#ifndef OCTAVO_SCHEDULER_CORE_STEP_BUILDER_H_
#define OCTAVO_SCHEDULER_CORE_STEP_BUILDER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/step.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/preemption.h"

namespace octavo {

struct WaitReport;  // request_report.h

// Lives for one call of Scheduler::Schedule. A decode that finds no block either takes one from a
// junior request or sits this step out; it is never taken out of the running list for its own
// sake. Prefills need blocks for windowed groups only: admission reserved the others. They take
// what there is, down to one row, before they sit out.
class StepBuilder {
 public:
  // `candidates` is scratch space that the caller keeps from step to step.
  StepBuilder(CoreState* state, absl::Time now, std::vector<VictimCandidate>* candidates);

  // Empty slices: nothing can run now. `record` gets the step's own account of the plan.
  void Build(StepPlan* plan, InFlightStep* record);
  // Instead of Build: why `request` does not start (scheduler_reports.cc).
  void ExplainWait(RequestState* request, WaitReport* report);

 private:
  void Decode(SequenceState* choice);
  void Prefill(SequenceState* choice, bool may_preempt);
  // Those choices of a running request that are not decoding.
  void PrefillChoices(RequestState* request, bool may_preempt);
  // The workers learn about a table with its first slice.
  void Begin(SequenceState* choice, SeqSlice* slice);
  // How many of the next `num_tokens` tokens windowed groups find blocks for; 0: none now.
  int32_t FitWindows(const SequenceState& choice, int32_t num_tokens, bool may_preempt);
  // The choices of a request are born: they share its blocks, and sample the same logits.
  // Asks for the scores that the rows of a prefill slice from position `first` on can give.
  void Score(const RequestState& request, int32_t first, SeqSlice* slice);
  void Fork(SequenceState* parent, SeqSlice* slice);
  // The source of a recomputed request has gone on: the choices that awaited what it computes now
  // share its windows as they are at that place.
  void ComputeSource(RequestState* request);
  bool ReserveForDecode(SequenceState* choice, std::vector<BlockId>* new_blocks,
                        std::vector<CopyOnWrite>* copies);
  // `blocks` that steps in flight are about to give back are worth one step's wait.
  bool WaitFor(int64_t blocks);
  bool PreemptFor(const RequestState& beneficiary);
  int64_t ComingBlocks();
  SeqSlice& AddSlice(SequenceState* choice, int32_t num_tokens, bool sample);

  // Waiting requests (step_admission.cc).
  void Admit();
  // Another request is computing what this one needs next, and is nearer to it.
  bool WaitsForProducer(RequestState* request);
  // Rows that the table of a choice may begin with.
  int64_t MostFound(const SequenceState& choice) const;
  // That request's sequence, nullptr when there is none or waiting for it would cost more than
  // computing. `block` gets which block of its prefix it would wait for.
  const SequenceState* FindProducer(RequestState* request, int32_t* block) const;
  int64_t MatchPrefix(SequenceState* choice) const;
  // What a waiting request takes from the free list when it starts.
  int64_t BlocksToStart(RequestState* request) const;
  // Takes the blocks of the request's known tokens, but for `reserve`. False when they do not fit.
  bool Start(RequestState* request, int64_t reserve);
  // Whether the free blocks, but for `reserve`, can hold it. Says why not in state_.head_wait.
  bool Fits(RequestState* request, int64_t reserve);
  bool FitsInARow(const RequestState& request);
  // Its table gets blocks as its tokens are computed, out of those promised to it at admission.
  bool LendsByChunk(const SequenceState& choice) const;
  void ReserveTable(SequenceState* choice);
  // How the table of a returning request begins: with `found` blocks of the index, then with those
  // up to `end` that it had before, of which `intact` are still there and the rest on the host.
  struct Return {
    int64_t found = 0;
    int64_t end = 0;
    int64_t intact = 0;
    int64_t free = 0;      // of the intact ones, those in the free list
    int32_t computed = 0;  // tokens that the table then holds
    int32_t copied = 0;    // of those, in blocks from the host
  };
  Return FindRetained(const RequestState& request, int64_t found) const;
  bool ReusesBlocks() const;
  // Blocks that must be free besides those that a returning request takes (life.3).
  int64_t ResumeMargin(const RequestState& request) const;
  void BeginTables(RequestState* request, const Return& retained);
  // Appends what the request had before.
  void Resume(RequestState* request, const Return& retained);
  void CountHit(RequestState* request, int32_t found_tokens);
  int64_t RunningWidth() const;
  // Blocks of windowed groups that a choice holds while it computes its known tokens, but for its
  // first `shared` rows; when nothing runs the fewest that it can do with.
  int64_t WindowsNeeded(const SequenceState& choice, int64_t shared) const;
  int32_t LongestChunk() const;
  int64_t NextStepBlocks() const;
  int64_t NextStepBlocks(const RequestState& request) const;

  CoreState& state_;
  const absl::Time now_;
  std::vector<VictimCandidate>& candidates_;
  StepPlan* plan_ = nullptr;
  InFlightStep* record_ = nullptr;
  std::vector<CopyOnWrite> copies_;  // of one decode, scratch
  int32_t budget_;                   // tokens left
  bool short_of_blocks_ = false;     // someone was preempted or sat out: nothing new starts
  int64_t ending_blocks_ = -1;  // of sequences that end in steps in flight; -1: not counted yet
  int64_t promised_ = 0;        // coming blocks that sequences sitting out wait for
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_STEP_BUILDER_H_
