// Philox4x32-10, a counter-based generator: Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC'11), table 2. The same (key, counter) gives the same bits on every machine.
#ifndef OCTAVO_COMMON_PHILOX_H_
#define OCTAVO_COMMON_PHILOX_H_

#include <array>
#include <cstdint>

namespace octavo {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key,
                                             std::array<uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// Random bits of one sampled token (det.2): keyed by the request's seed; the counter is the choice
// index and the position of the sampled token in its sequence.
constexpr std::array<uint32_t, 4> SamplingBits(uint64_t seed, uint32_t choice_index,
                                               uint64_t position) {
  return Philox4x32(
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice_index, 0});
}

}  // namespace octavo

#endif  // OCTAVO_COMMON_PHILOX_H_
