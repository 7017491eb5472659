// Says which thread of which kernel touched inaccessible device memory, then ends the process; and
// opens pinned memory to a host that has not waited for it, after a report. Not in the asan build:
// AddressSanitizer has a report of its own.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

constexpr size_t kSignalStackBytes = 64 << 10;
alignas(16) char signal_stack[kSignalStackBytes];

constexpr greg_t kWriteFault = 2;  // of a page fault's error code

void Report(int signal, siginfo_t* info, void* context) {
  const greg_t error = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  // Synchronous, and never in the allocator or under a lock of its own: it may do what calls may.
  if (HandleHostFault(info->si_addr, (error & kWriteFault) != 0)) return;
  char text[300];
  bool bad = false;
  int length = 0;
  if (const Thread* thread = current; thread && InDevice(info->si_addr, 1, &bad))
    length = snprintf(text, sizeof text,
                      "emulated device: kernel %s, block (%u,%u,%u) thread (%u,%u,%u): global "
                      "memory access at %p is outside every allocation\n",
                      scheduler->kernel, thread->block_index.x, thread->block_index.y,
                      thread->block_index.z, thread->thread_index.x, thread->thread_index.y,
                      thread->thread_index.z, info->si_addr);
  if (length > 0) (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
  struct sigaction otherwise = {};
  otherwise.sa_handler = SIG_DFL;
  sigaction(signal, &otherwise, nullptr);  // returns to the access, which faults again
}

struct Installation {
  Installation() {
    stack_t stack = {};
    stack.ss_sp = signal_stack;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = Report;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
  }
};

}  // namespace

// Called by RunGrid and HostGuard, so that linking the core links this file.
void InstallMemoryFaultReport() {
#if !OCTAVO_ASAN
  static const Installation installation;
#endif
}

}  // namespace octavo::emulation
