// Spoils files the way broken disks, cut downloads and hostile hands do. Deterministic.
#ifndef OCTAVO_TESTS_FUZZ_MUTATOR_H_
#define OCTAVO_TESTS_FUZZ_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace octavo {

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint64_t seed) : seeds_(std::move(seeds)), bits_(seed) {}

  // One to four changes to seed `index`.
  std::string Mutate(size_t index);

 private:
  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : bits_() % limit; }
  // Half of the time among the first 2 KiB: headers decide more than data.
  size_t Position(const std::string& text);
  void Change(std::string* text);

  std::vector<std::string> seeds_;
  std::mt19937_64 bits_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_FUZZ_MUTATOR_H_
