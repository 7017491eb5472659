#include "worker/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status Positive(const char* field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rope ", field, " is ", value, "; it must be positive"));
}

double Llama3(const RopeConfig& rope, double frequency) {
  const double original = rope.original_max_positions;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double low_wavelength = original / rope.low_freq_factor;
  const double high_wavelength = original / rope.high_freq_factor;
  if (wavelength > low_wavelength) return frequency / rope.factor;
  if (wavelength < high_wavelength) return frequency;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (static_cast<double>(rope.high_freq_factor) - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// The pair index whose wavelength makes `rotations` turns in the original context.
double YarnPair(const RopeConfig& rope, double rotations) {
  return rope.rotary_dim *
         std::log(rope.original_max_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(static_cast<double>(rope.theta)));
}

double Yarn(const RopeConfig& rope, double frequency, int32_t pair) {
  const double low = std::max(std::floor(YarnPair(rope, rope.beta_fast)), 0.0);
  double high = std::min(std::ceil(YarnPair(rope, rope.beta_slow)), rope.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / rope.factor * ramp + frequency * (1 - ramp);
}

absl::Status Check(const RopeConfig& rope) {
  if (rope.rotary_dim <= 0 || rope.rotary_dim % 2 != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("rope rotary_dim is ", rope.rotary_dim, "; it must be positive and even"));
  OCTAVO_RETURN_IF_ERROR(Positive("theta", rope.theta));
  if (rope.scaling != RopeScaling::kNone) OCTAVO_RETURN_IF_ERROR(Positive("factor", rope.factor));
  if (rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kYarn)
    OCTAVO_RETURN_IF_ERROR(Positive("original_max_positions", rope.original_max_positions));
  if (rope.scaling == RopeScaling::kLlama3) {
    OCTAVO_RETURN_IF_ERROR(Positive("low_freq_factor", rope.low_freq_factor));
    if (!(rope.high_freq_factor > rope.low_freq_factor))
      return absl::InvalidArgumentError(
          absl::StrCat("rope high_freq_factor ", rope.high_freq_factor,
                       " must be above low_freq_factor ", rope.low_freq_factor));
  }
  if (rope.scaling == RopeScaling::kYarn) {
    OCTAVO_RETURN_IF_ERROR(Positive("beta_fast", rope.beta_fast));
    OCTAVO_RETURN_IF_ERROR(Positive("beta_slow", rope.beta_slow));
    OCTAVO_RETURN_IF_ERROR(Positive("attention_factor", rope.attention_factor));
    if (rope.theta <= 1)
      return absl::InvalidArgumentError(
          absl::StrCat("rope theta ", rope.theta, " must be above 1 for yarn"));
  }
  const size_t pairs = static_cast<size_t>(rope.rotary_dim) / 2;
  if (!rope.frequency_factors.empty() && rope.frequency_factors.size() != pairs)
    return absl::InvalidArgumentError(absl::StrCat("rope has ", rope.frequency_factors.size(),
                                                   " frequency factors for ", pairs, " pairs"));
  for (const float factor : rope.frequency_factors)
    OCTAVO_RETURN_IF_ERROR(Positive("frequency factor", factor));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<double>> InverseFrequencies(const RopeConfig& rope) {
  OCTAVO_RETURN_IF_ERROR(Check(rope));
  std::vector<double> frequencies(static_cast<size_t>(rope.rotary_dim) / 2);
  for (int32_t i = 0; i < rope.rotary_dim / 2; ++i) {
    double& frequency = frequencies[static_cast<size_t>(i)];
    frequency = std::pow(static_cast<double>(rope.theta), -2.0 * i / rope.rotary_dim);
    switch (rope.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        frequency /= rope.factor;
        break;
      case RopeScaling::kLlama3:
        frequency = Llama3(rope, frequency);
        break;
      case RopeScaling::kYarn:
        frequency = Yarn(rope, frequency, i);
        break;
    }
    if (!rope.frequency_factors.empty())
      frequency /= rope.frequency_factors[static_cast<size_t>(i)];
  }
  return frequencies;
}

absl::StatusOr<std::vector<float>> CosSinTable(const RopeConfig& rope, int32_t max_positions) {
  OCTAVO_ASSIGN_OR_RETURN(const std::vector<double> frequencies, InverseFrequencies(rope));
  const double magnitude = rope.scaling == RopeScaling::kYarn ? rope.attention_factor : 1.0;
  std::vector<float> table;
  table.reserve(static_cast<size_t>(max_positions) * frequencies.size() * 2);
  for (int32_t position = 0; position < max_positions; ++position) {
    for (const double frequency : frequencies) {
      table.push_back(static_cast<float>(magnitude * std::cos(position * frequency)));
      table.push_back(static_cast<float>(magnitude * std::sin(position * frequency)));
    }
  }
  return table;
}

}  // namespace octavo
