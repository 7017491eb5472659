#include "worker/cpu/host_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

absl::StatusOr<Buffer> AllocateHostBuffer(size_t bytes) {
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  const size_t mapped = bytes + slack;
  void* map = mapped < bytes ? MAP_FAILED
                             : mmap(nullptr, mapped == 0 ? 1 : mapped, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot map ", bytes,
        " bytes of host memory: ", mapped < bytes ? "too large" : std::strerror(errno)));
  auto* data = static_cast<std::byte*>(map);
  if (slack > 0) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(map);
    data += (kHugePage - address % kHugePage) % kHugePage;
    madvise(data, bytes, MADV_HUGEPAGE);  // advice: without it the memory is only slower
  }
  return Buffer(data, bytes,
                [map, mapped](std::byte*, size_t) { munmap(map, mapped == 0 ? 1 : mapped); });
}

}  // namespace octavo
