#include "tests/emulation/scheduler.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace octavo::emulation {

__thread Thread* current;
__thread Scheduler* scheduler;
AccessHooks* hooks;

namespace {

// Spins in which no other thread gets anywhere, before a launch counts as stuck.
constexpr uint64_t kMaxIdleYields = 2'000'000;

// Saves the callee-saved registers of the System V ABI and the stack pointer, and takes up those of
// another context.
extern "C" void octavo_emulation_switch(void** save, void* to);
asm(R"(
.pushsection .text
.p2align 4
.globl octavo_emulation_switch
.type octavo_emulation_switch,@function
octavo_emulation_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size octavo_emulation_switch,.-octavo_emulation_switch
.popsection
)");

void AfterSwitch() {
#if OCTAVO_ASAN
  Scheduler& s = *scheduler;
  __sanitizer_finish_switch_fiber(s.running ? s.running->fake_stack : s.host_fake_stack, nullptr,
                                  nullptr);
#endif
}

std::string Where(const Fiber& fiber) {
  char text[200];
  snprintf(text, sizeof text, "block (%u,%u,%u) thread (%u,%u,%u) [warp %d lane %d]",
           fiber.block_index.x, fiber.block_index.y, fiber.block_index.z, fiber.thread_index.x,
           fiber.thread_index.y, fiber.thread_index.z, fiber.warp, fiber.lane);
  return text;
}

std::string WaitText(const Fiber& fiber) {
  char text[200];
  if (fiber.done) return "returned";
  if (!strcmp(fiber.waits_for, "barrier"))
    snprintf(text, sizeof text, "barrier %d (%s:%d)", fiber.wait_barrier, BaseName(fiber.here.file),
             fiber.here.line);
  else
    snprintf(text, sizeof text, "%s mask %08x (%s:%d)", fiber.waits_for, fiber.wait_mask,
             BaseName(fiber.here.file), fiber.here.line);
  return text;
}

// Says for every warp which lanes wait for what.
[[noreturn]] void FailDeadlocked() {
  std::string report = "deadlock: no thread can run.";
  for (const Block* block : scheduler->live)
    for (size_t w = 0; w < block->warps.size(); ++w) {
      std::vector<std::pair<std::string, uint32_t>> groups;
      for (size_t lane = 0; lane < 32 && w * 32 + lane < block->fibers.size(); ++lane) {
        const std::string text = WaitText(*block->fibers[w * 32 + lane]);
        size_t i = 0;
        while (i < groups.size() && groups[i].first != text) ++i;
        if (i == groups.size()) groups.push_back({text, 0});
        groups[i].second |= 1u << lane;
      }
      for (const auto& [text, lanes] : groups) {
        char line[300];
        snprintf(line, sizeof line, "\n    block %d warp %zu lanes %08x: %s", block->index, w,
                 lanes, text.c_str());
        report += line;
      }
    }
  Fail("%s", report.c_str());
}

[[noreturn]] void Finish(Fiber* fiber) {
  Block* block = fiber->block;
  Warp& warp = block->warps[static_cast<size_t>(fiber->warp)];
  fiber->done = true;
  warp.exited |= 1u << fiber->lane;
  block->alive--;
  for (const LaneGroup& group : warp.groups)
    if (group.arrived && (group.mask >> fiber->lane & 1))
      Fail("returned while lanes %08x of its warp wait for it in %s (mask %08x)", group.arrived,
           group.name, group.mask);
  for (const BarrierState& barrier : block->barriers)
    if (barrier.arrived && barrier.expected == static_cast<int>(block->fibers.size()))
      Fail("returned while %d threads wait at barrier (%s:%d)", barrier.arrived,
           BaseName(barrier.waiting[0]->here.file), barrier.waiting[0]->here.line);
  scheduler->idle_yields = 0;
  if (!block->alive) {
    scheduler->finished = block;
    SwitchTo(nullptr, true);
  }
  if (!scheduler->count) FailDeadlocked();
  SwitchTo(scheduler->Pop(), true);
  std::abort();
}

}  // namespace

uint64_t Scheduler::Random() {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return random;
}

Fiber* Scheduler::Pop() {
  const size_t mask = ring.size() - 1;
  if (order & 1) return ring[(head + --count) & mask];
  if (order >= 4 && count > 1) std::swap(ring[head & mask], ring[(head + Random() % count) & mask]);
  return PopOldest();
}

Fiber* Scheduler::PopOldest() {
  const size_t mask = ring.size() - 1;
  Fiber* fiber = ring[head & mask];
  head = (head + 1) & mask;
  count--;
  return fiber;
}

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void SwitchTo(Fiber* to, [[maybe_unused]] bool last) {
  Scheduler& s = *scheduler;
  Fiber* from = s.running;
  s.running = to;
  current = to;
  s.switches++;
#if OCTAVO_ASAN
  __sanitizer_start_switch_fiber(last   ? nullptr
                                 : from ? &from->fake_stack
                                        : &s.host_fake_stack,
                                 to ? to->stack : s.host_stack_bottom,
                                 to ? kStackBytes : s.host_stack_bytes);
#endif
  octavo_emulation_switch(from ? &from->stack_pointer : &s.host_stack_pointer,
                          to ? to->stack_pointer : s.host_stack_pointer);
  AfterSwitch();
}

void Fail(const char* format, ...) {
  char text[1500];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  Scheduler* s = scheduler;
  if (!s || !s->running) throw Error(text);
  s->message = std::string("kernel ") + s->kernel + ", " + Where(*s->running) + ": " + text;
  s->failed = true;
  SwitchTo(nullptr, true);  // exceptions cannot leave a fiber
  std::abort();
}

void BlockRunning(const char* what, Location here, bool oldest) {
  Scheduler& s = *scheduler;
  Fiber* fiber = s.running;
  fiber->waits_for = what;
  fiber->here = here;
  if (!s.count) FailDeadlocked();
  Fiber* next = oldest ? s.PopOldest() : s.Pop();
  if (next != fiber) SwitchTo(next);
  fiber->waits_for = nullptr;
}

void Wake(Fiber** fibers, size_t count, Fiber* except) {
  Scheduler& s = *scheduler;
  s.idle_yields = 0;
  const bool reversed = s.order == 2 || s.order == 3;
  for (size_t i = 0; i < count; ++i) {
    Fiber* fiber = fibers[reversed ? count - 1 - i : i];
    if (fiber != except) s.Push(fiber);
  }
}

void Yield(Location here) {
  Scheduler& s = *scheduler;
  if (++s.idle_yields > kMaxIdleYields)
    Fail("livelock: %llu yields without progress, spinning at %s:%d",
         static_cast<unsigned long long>(kMaxIdleYields), BaseName(here.file), here.line);
  s.Push(s.running);
  BlockRunning("yield", here, s.order & 1);  // a spinning thread must let the others run
}

void FiberMain() {
  AfterSwitch();
  (*scheduler->body)();
  Finish(scheduler->running);
}

void Barrier(int id, int threads, Location here) {
  Fiber* fiber = scheduler->running;
  Block* block = fiber->block;
  BarrierState& barrier = block->barriers[id];
  if (!threads) {
    threads = static_cast<int>(block->fibers.size());
    if (block->alive < threads)
      Fail("__syncthreads at %s:%d after %d threads have returned", BaseName(here.file), here.line,
           threads - block->alive);
  }
  if (barrier.arrived && barrier.expected != threads)
    Fail("barrier %d: thread count %d here, %d elsewhere", id, threads, barrier.expected);
  if (barrier.arrived && barrier.waiting[0]->here.line != here.line)
    Fail("divergent barrier: here %s:%d, another thread of the block waits at %s:%d",
         BaseName(here.file), here.line, BaseName(barrier.waiting[0]->here.file),
         barrier.waiting[0]->here.line);
  barrier.expected = threads;
  barrier.waiting.push_back(fiber);
  fiber->here = here;
  if (++barrier.arrived < threads) {
    fiber->wait_barrier = id;
    BlockRunning("barrier", here);
    return;
  }
  std::vector<Thread*> all(barrier.waiting.begin(), barrier.waiting.end());
  if (hooks) hooks->Synchronise(block, all.data(), all.size());
  std::vector<Fiber*> waiting;
  waiting.swap(barrier.waiting);
  barrier.arrived = 0;
  Wake(waiting.data(), waiting.size(), fiber);
}

}  // namespace octavo::emulation
