#include "tools/simulate/device_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "tools/simulate/spec_reader.h"

namespace octavo::simulate {
namespace {

// GPUs: reading at 0.90 of the data sheet's bandwidth and products at 0.80 of its dense 16-bit
// peak, which is what one H200 was measured to reach; attention in prefill at 0.60, FlashAttention
// 3's published share. Links: PCIe 4 and 5 as published for offloading. The CPU's rates are those
// that docs/benchmarks/served_cpu.md implies.
const std::vector<DeviceSpec>& Presets() {
  // Cards of one generation differ in memory and its bandwidth.
  const DeviceSpec ampere{.reserved_gib = 0.75,
                          .matmul_tflops = 0.8 * 312,
                          .attention_tflops = 0.6 * 312,
                          .step_overhead_us = 500,
                          .link_gb_per_s = 25,
                          .link_both_gb_per_s = 40,
                          .all_reduce_us = 20,
                          .all_reduce_gb_per_s = 230};
  const DeviceSpec hopper{.reserved_gib = 0.75,
                          .matmul_tflops = 0.8 * 989,
                          .attention_tflops = 0.6 * 989,
                          .step_overhead_us = 500,
                          .link_gb_per_s = 50,
                          .link_both_gb_per_s = 83,
                          .all_reduce_us = 20,
                          .all_reduce_gb_per_s = 350};
  const auto card = [](DeviceSpec device, const char* name, double memory_mib, double gb_per_s) {
    device.name = name;
    device.memory_gib = memory_mib / 1024;
    device.memory_gb_per_s = 0.9 * gb_per_s;
    return device;
  };
  static const std::vector<DeviceSpec>* const presets = new std::vector<DeviceSpec>{
      card(ampere, "a100-40", 40536, 1555),
      card(ampere, "a100-80", 81920, 2039),
      card(hopper, "h100", 81559, 3350),
      card(hopper, "h200", 143771, 4800),
      {.name = "cpu",
       .memory_gib = 4,
       .memory_gb_per_s = 40,
       .matmul_tflops = 0.45,
       .attention_tflops = 0.10,
       .step_overhead_us = 500,
       .link_gb_per_s = 10,
       .link_both_gb_per_s = 10,
       .all_reduce_us = 100,
       .all_reduce_gb_per_s = 1},
  };
  return *presets;
}

}  // namespace

absl::StatusOr<DeviceSpec> DevicePreset(absl::string_view name) {
  for (const DeviceSpec& preset : Presets()) {
    if (preset.name == name) return preset;
  }
  return absl::NotFoundError(absl::StrCat("there is no device preset \"", name, "\"; there are ",
                                          absl::StrJoin(DevicePresetNames(), ", ")));
}

std::vector<std::string> DevicePresetNames() {
  std::vector<std::string> names;
  for (const DeviceSpec& preset : Presets()) names.push_back(preset.name);
  return names;
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view json) {
  constexpr double kMost = 1e9;
  constexpr double kLeast = 1e-6;  // rates divide
  SpecReader reader("the device", json);
  DeviceSpec device{.name = "device", .link_gb_per_s = 25};
  reader.Text("name", &device.name);
  reader.Number("memory_gib", true, kLeast, kMost, &device.memory_gib);
  reader.Number("reserved_gib", false, 0, kMost, &device.reserved_gib);
  reader.Number("memory_gb_per_s", true, kLeast, kMost, &device.memory_gb_per_s);
  reader.Number("matmul_tflops", true, kLeast, kMost, &device.matmul_tflops);
  device.attention_tflops = device.matmul_tflops;
  reader.Number("attention_tflops", false, kLeast, kMost, &device.attention_tflops);
  reader.Number("step_overhead_us", false, 0, kMost, &device.step_overhead_us);
  reader.Number("link_gb_per_s", false, kLeast, kMost, &device.link_gb_per_s);
  device.link_both_gb_per_s = 1.6 * device.link_gb_per_s;
  reader.Number("link_both_gb_per_s", false, kLeast, kMost, &device.link_both_gb_per_s);
  device.all_reduce_gb_per_s = device.memory_gb_per_s;
  reader.Number("all_reduce_us", false, 0, kMost, &device.all_reduce_us);
  reader.Number("all_reduce_gb_per_s", false, kLeast, kMost, &device.all_reduce_gb_per_s);
  OCTAVO_RETURN_IF_ERROR(reader.status());
  return device;
}

absl::StatusOr<DeviceSpec> ReadDeviceFile(absl::string_view path) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(path));
  return ParseDevice(json);
}

}  // namespace octavo::simulate
