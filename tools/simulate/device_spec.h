// What a device can do, as far as the cost model asks.
#ifndef OCTAVO_TOOLS_SIMULATE_DEVICE_SPEC_H_
#define OCTAVO_TOOLS_SIMULATE_DEVICE_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo::simulate {

// Rates are achieved ones, not those of the data sheet: docs/simulate.md has the sources.
struct DeviceSpec {
  std::string name;
  double memory_gib = 0;           // of the whole card
  double reserved_gib = 0;         // of that for the runtime: context, code, libraries' workspace
  double memory_gb_per_s = 0;      // reading
  double matmul_tflops = 0;        // 2 operations a multiply-add
  double attention_tflops = 0;     // of the attention products in prefill
  double step_overhead_us = 0;     // of a step, whatever it computes
  double link_gb_per_s = 0;        // to host memory, each way
  double link_both_gb_per_s = 0;   // both ways together
  double all_reduce_us = 0;        // one, of a small message, between cards
  double all_reduce_gb_per_s = 0;  // of a large one
};

// "a100-40", "a100-80", "h100", "h200", "cpu". NOT_FOUND lists them.
absl::StatusOr<DeviceSpec> DevicePreset(absl::string_view name);
std::vector<std::string> DevicePresetNames();

// A JSON object with the fields above by their names. Required: memory_gib, memory_gb_per_s,
// matmul_tflops. Defaults: attention_tflops as matmul_tflops, link_gb_per_s 25,
// link_both_gb_per_s 1.6 x link_gb_per_s, the rest 0.
absl::StatusOr<DeviceSpec> ReadDeviceFile(absl::string_view path);
absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_DEVICE_SPEC_H_
