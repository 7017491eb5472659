// Instructions in which the lanes of a warp take part together.
#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

int Lowest(uint32_t mask) { return __builtin_ctz(mask); }

struct ShuffleOperands {
  uint64_t value, result;
  int source;
  Shuffle kind;
};

void RunShuffle(void** operands, uint32_t mask) {
  auto lane = [&](int i) { return static_cast<ShuffleOperands*>(operands[i]); };
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    ShuffleOperands* own = lane(Lowest(rest));
    if (own->kind != lane(Lowest(mask))->kind)
      Fail("lanes of one warp reached different shuffle instructions");
    if (!(mask >> own->source & 1))
      Fail("shuffle: lane %d reads lane %d, which mask %08x does not name", Lowest(rest),
           own->source, mask);
    own->result = lane(own->source)->value;
  }
}

template <class Kind>
struct WordOperands {
  uint32_t value, result;
  Kind kind;
};

template <class Kind>
void CheckSameKind(void** operands, uint32_t mask) {
  const auto* first = static_cast<WordOperands<Kind>*>(operands[Lowest(mask)]);
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    if (static_cast<WordOperands<Kind>*>(operands[Lowest(rest)])->kind != first->kind)
      Fail("lanes of one warp reached different vote or reduce instructions");
}

void RunVote(void** operands, uint32_t mask) {
  CheckSameKind<Vote>(operands, mask);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    auto* own = static_cast<WordOperands<Vote>*>(operands[Lowest(rest)]);
    uint32_t same = 0, set = 0;
    for (uint32_t others = mask; others; others &= others - 1) {
      const int i = Lowest(others);
      const auto* other = static_cast<WordOperands<Vote>*>(operands[i]);
      same |= static_cast<uint32_t>(other->value == own->value) << i;
      set |= static_cast<uint32_t>(other->value != 0) << i;
    }
    switch (own->kind) {
      case Vote::kBallot:
        own->result = set;
        break;
      case Vote::kAny:
        own->result = set != 0;
        break;
      case Vote::kAll:
        own->result = set == mask;
        break;
      case Vote::kMatch:
        own->result = same;
        break;
    }
  }
}

uint32_t ReducePair(Reduce kind, uint32_t a, uint32_t b) {
  const auto signed_a = static_cast<int32_t>(a), signed_b = static_cast<int32_t>(b);
  switch (kind) {
    case Reduce::kAdd:
      return a + b;
    case Reduce::kAnd:
      return a & b;
    case Reduce::kOr:
      return a | b;
    case Reduce::kXor:
      return a ^ b;
    case Reduce::kMinUnsigned:
      return a < b ? a : b;
    case Reduce::kMaxUnsigned:
      return a > b ? a : b;
    case Reduce::kMin:
      return signed_a < signed_b ? a : b;
    case Reduce::kMax:
      return signed_a > signed_b ? a : b;
  }
  return 0;
}

void RunReduce(void** operands, uint32_t mask) {
  CheckSameKind<Reduce>(operands, mask);
  auto lane = [&](int i) { return static_cast<WordOperands<Reduce>*>(operands[i]); };
  uint32_t result = lane(Lowest(mask))->value;
  for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1)
    result = ReducePair(lane(Lowest(mask))->kind, result, lane(Lowest(rest))->value);
  for (uint32_t rest = mask; rest; rest &= rest - 1) lane(Lowest(rest))->result = result;
}

}  // namespace

uint32_t ActiveMask() {
  const Fiber* fiber = scheduler->running;
  const Warp& warp = fiber->block->warps[static_cast<size_t>(fiber->warp)];
  return warp.lanes & ~warp.exited;
}

void Collective(const char* name, uint32_t mask, void* operands, WarpFunction function, bool memory,
                Location here) {
  Fiber* fiber = scheduler->running;
  Block* block = fiber->block;
  Warp& warp = block->warps[static_cast<size_t>(fiber->warp)];
  mask &= warp.lanes;  // the last warp of a block that is not a multiple of 32
  if (!(mask >> fiber->lane & 1))
    Fail("%s at %s:%d: mask %08x does not name the calling lane", name, BaseName(here.file),
         here.line, mask);
  if (mask & warp.exited)
    Fail("%s at %s:%d: mask %08x names lanes that have returned (%08x)", name, BaseName(here.file),
         here.line, mask, mask & warp.exited);
  LaneGroup *group = nullptr, *empty = nullptr;
  for (LaneGroup& other : warp.groups) {
    if (!other.arrived)
      empty = &other;
    else if (other.mask == mask && other.function == function && other.name == name)
      group = &other;
    else if (other.mask & mask)
      Fail("lanes of one warp diverge: %s mask %08x at %s:%d, but lanes %08x wait in %s mask %08x",
           name, mask, BaseName(here.file), here.line, other.arrived, other.name, other.mask);
  }
  if (!group) {
    group = empty;
    if (!group) Fail("more than 4 concurrent collectives in a warp");
    group->mask = mask;
    group->function = function;
    group->name = name;
  }
  group->operands[fiber->lane] = operands;
  group->arrived |= 1u << fiber->lane;
  if (group->arrived != mask) {
    fiber->wait_mask = mask;
    BlockRunning(name, here);
    return;
  }
  Fiber* fibers[32];
  Thread* threads[32];
  size_t count = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1, ++count)
    threads[count] = fibers[count] =
        block->fibers[static_cast<size_t>(fiber->warp * 32 + Lowest(rest))];
  if (function) function(group->operands, mask);
  if (memory && hooks) hooks->Synchronise(block, threads, count);
  group->arrived = 0;
  Wake(fibers, count, fiber);
}

uint64_t ShuffleWord(Shuffle kind, uint32_t mask, uint64_t value, int by, int width,
                     Location here) {
  const int lane = current->lane, low = lane & ~(width - 1), high = low + width - 1;
  int source = lane;
  switch (kind) {
    case Shuffle::kIndex:
      source = low + (by & (width - 1));
      break;
    case Shuffle::kUp:
      if (lane - by >= low) source = lane - by;
      break;
    case Shuffle::kDown:
      if (lane + by <= high) source = lane + by;
      break;
    case Shuffle::kXor:
      if ((lane ^ by) <= high) source = lane ^ by;
      break;
  }
  ShuffleOperands operands{value, 0, source, kind};
  Collective("shuffle", mask, &operands, RunShuffle, false, here);
  return operands.result;
}

uint32_t VoteWord(Vote kind, uint32_t mask, uint32_t value, Location here) {
  WordOperands<Vote> operands{value, 0, kind};
  Collective("vote", mask, &operands, RunVote, false, here);
  return operands.result;
}

uint32_t ReduceWord(Reduce kind, uint32_t mask, uint32_t value, Location here) {
  WordOperands<Reduce> operands{value, 0, kind};
  Collective("reduce", mask, &operands, RunReduce, false, here);
  return operands.result;
}

}  // namespace octavo::emulation
