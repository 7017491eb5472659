#include "common/checkpoint/repeated_noise.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

absl::Status Exhausted(size_t bytes, const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes of noise: ", what, ": ",
                                                   absl::ErrnoToStatus(errno, "").message()));
}

// Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014): the mixing function.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers is close to normal and bounded; whole numbers until the one
// multiplication, so that all machines agree.
uint16_t NoiseAt(uint64_t index) {
  const uint64_t bits = Mix((index + 1) * 0x9e3779b97f4a7c15);
  const int64_t sum = static_cast<int64_t>(bits & 0xffff) +
                      static_cast<int64_t>(bits >> 16 & 0xffff) +
                      static_cast<int64_t>(bits >> 32 & 0xffff) + static_cast<int64_t>(bits >> 48);
  constexpr float kDeviation = 37837.2f;  // 2^16 sqrt(4 / 12)
  constexpr float kUnit = RepeatedNoise::kSpread / kDeviation;
  const uint32_t wide = std::bit_cast<uint32_t>(static_cast<float>(sum - 2 * 0xffff) * kUnit);
  return static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);  // ties to even
}

}  // namespace

absl::StatusOr<std::unique_ptr<RepeatedNoise>> RepeatedNoise::Create(size_t bytes) {
  const size_t periods = std::max<size_t>(1, (bytes + kPeriodBytes - 1) / kPeriodBytes);
  const size_t mapped_bytes = periods * kPeriodBytes;
  const int file = ::memfd_create("octavo-noise", MFD_CLOEXEC);
  if (file < 0) return Exhausted(bytes, "memfd_create");
  const absl::Cleanup close = [file] { ::close(file); };
  if (::ftruncate(file, kPeriodBytes) != 0) return Exhausted(bytes, "ftruncate");

  void* const space =
      ::mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return Exhausted(bytes, "mmap");
  auto* const data = static_cast<std::byte*>(space);
  auto noise = absl::WrapUnique(new RepeatedNoise(data, mapped_bytes));  // unmaps on errors
  for (size_t period = 0; period < periods; ++period) {
    const int access = period == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    if (::mmap(data + period * kPeriodBytes, kPeriodBytes, access, MAP_SHARED | MAP_FIXED, file,
               0) == MAP_FAILED)
      return Exhausted(bytes, "mmap of a period");
  }
  auto* const numbers = static_cast<uint16_t*>(space);
  const size_t count = std::min(bytes, kPeriodBytes) / sizeof(uint16_t);
  for (size_t i = 0; i < count; ++i) numbers[i] = NoiseAt(i);
  if (::mprotect(space, kPeriodBytes, PROT_READ) != 0) return Exhausted(bytes, "mprotect");
  return noise;
}

RepeatedNoise::~RepeatedNoise() { ::munmap(data_, mapped_bytes_); }

}  // namespace octavo
