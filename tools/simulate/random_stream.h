// Seeded draws that are the same on every machine and standard library.
#ifndef OCTAVO_TOOLS_SIMULATE_RANDOM_STREAM_H_
#define OCTAVO_TOOLS_SIMULATE_RANDOM_STREAM_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace octavo::simulate {

// One step of SplitMix64 (Steele, Lea, Flood, OOPSLA'14): a bijection that scatters any input.
constexpr uint64_t Scatter(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : state_(Scatter(seed)) {}

  uint64_t Bits() { return Scatter(state_ += 0x9E3779B97F4A7C15u); }
  // In (0, 1].
  double Uniform() { return (static_cast<double>(Bits() >> 11) + 1) * 0x1p-53; }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  double Normal() {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  // Log-normal with this mean; `sigma` is the standard deviation of the logarithm.
  double LogNormal(double mean, double sigma) {
    return mean * std::exp(sigma * Normal() - sigma * sigma / 2);
  }

 private:
  uint64_t state_;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_RANDOM_STREAM_H_
